"""AWS Glue: what changes where partitions do not switch in one call."""
