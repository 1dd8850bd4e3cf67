"""Parameters that a publish sets on partitions: exact statistics, and marks for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from table_writer.model.entry import EntryPartition, LogEntry
from table_writer.model.location import Location
from table_writer.model.table import ROOT_PARAMETER, VERSION_PARAMETER, WRITE_ID_PARAMETER

__all__ = ["new_parameters", "stale_parameters"]

COLUMN_STATISTICS: Final = "spark.sql.statistics.colStats."
STATISTICS: Final = frozenset(
    {"numRows", "rawDataSize", "spark.sql.statistics.numRows", "spark.sql.statistics.totalSize"}
)


def new_parameters(entry: LogEntry, partition: EntryPartition, root: Location) -> dict[str, str]:
    """Return what one partition's parameters say after the publish.

    Hive reads ``numFiles``, ``numRows`` and ``totalSize``, Spark its own ``spark.sql.statistics.*``. What is not known
    of rows that other tools wrote is left out. An unpartitioned table, which is its own only partition, moves with each
    publish: it keeps where its root is.
    """
    rooted = {} if partition.values else {ROOT_PARAMETER: str(root)}
    figures = {
        "numFiles": partition.files,
        "numRows": partition.rows,
        "totalSize": partition.bytes,
        "rawDataSize": partition.raw_bytes,
        "spark.sql.statistics.numRows": partition.rows,
        "spark.sql.statistics.totalSize": partition.bytes,
    }
    return {
        **rooted,
        **{name: str(figure) for name, figure in figures.items() if figure is not None},
        VERSION_PARAMETER: str(entry.version),
        WRITE_ID_PARAMETER: entry.write_id,
    }


def stale_parameters(parameters: Mapping[str, str], new: Mapping[str, str]) -> frozenset[str]:
    """Return the parameters that are wrong once the rows are others.

    ``COLUMN_STATS_ACCURATE`` goes altogether: with its ``BASIC_STATS`` left, Hive would go on answering ``count(*)``
    from ``numRows`` after another tool's INSERT.
    """
    return frozenset(
        name
        for name in parameters
        if name == "COLUMN_STATS_ACCURATE"
        or name.startswith(COLUMN_STATISTICS)
        or (name in STATISTICS and name not in new)
    )
