"""A directory with a lock file: ``locked://``."""
