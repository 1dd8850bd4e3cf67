"""The file system of a machine, or a mount that all machines of a cluster share: ``file://``."""
