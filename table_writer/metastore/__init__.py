"""The gateway to the Hive metastore: everything above it speaks :mod:`table_writer.model` and knows no Thrift."""
