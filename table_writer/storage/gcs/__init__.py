"""Google Cloud Storage: ``gs://``."""
