"""Reading without Spark: the metastore says where a table's partitions are, pyarrow reads their files."""
