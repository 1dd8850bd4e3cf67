"""Azure's Blob storage: ``abfss://`` and ``abfs://``."""
