"""Dagster (the extra ``dagster``): the I/O manager whose assets are Hive tables, and their partitions."""

from table_writer.errors import needs_extra

with needs_extra("dagster", "table_writer.integrations.dagster"):
    from table_writer.integrations.dagster.io_manager import HiveIOManager

__all__ = ["HiveIOManager"]
