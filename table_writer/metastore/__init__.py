"""The gateway to the metastore, Hive's or AWS Glue: everything above it speaks :mod:`table_writer.model`."""
