"""Parameters that a publish sets on partitions: exact statistics, and marks for people."""

from __future__ import annotations

from collections.abc import Mapping

from table_writer.model.entry import EntryPartition, LogEntry

__all__ = ["new_parameters", "stale_parameters"]

COLUMN_STATISTICS = "spark.sql.statistics.colStats."


def new_parameters(entry: LogEntry, partition: EntryPartition) -> dict[str, str]:
    """Return what one partition's parameters say after the publish.

    Hive reads ``numFiles``, ``numRows`` and ``totalSize``, Spark its own ``spark.sql.statistics.*``.
    """
    return {
        "numFiles": str(partition.files),
        "numRows": str(partition.rows),
        "totalSize": str(partition.bytes),
        "rawDataSize": str(partition.raw_bytes),
        "spark.sql.statistics.numRows": str(partition.rows),
        "spark.sql.statistics.totalSize": str(partition.bytes),
        "table_writer.version": str(entry.version),
        "table_writer.write_id": entry.write_id,
    }


def stale_parameters(parameters: Mapping[str, str]) -> frozenset[str]:
    """Return the parameters that are wrong once the rows are others.

    ``COLUMN_STATS_ACCURATE`` goes altogether: with its ``BASIC_STATS`` left, Hive would go on answering ``count(*)``
    from ``numRows`` after another tool's INSERT.
    """
    return frozenset(
        name for name in parameters if name == "COLUMN_STATS_ACCURATE" or name.startswith(COLUMN_STATISTICS)
    )
