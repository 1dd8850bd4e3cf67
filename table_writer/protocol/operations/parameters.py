"""The parameters of a partition after a publish: figures for Hive and Spark, and which write it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from table_writer.model.entry import EntryPartition, LogEntry
from table_writer.model.hive_columns import hive_columns, is_of_schema, schema_parameters
from table_writer.model.table import (
    COLUMNS_PARAMETER,
    LOG_PARAMETER,
    ROOT_PARAMETER,
    VERSION_PARAMETER,
    WRITE_ID_PARAMETER,
    PartitionChange,
)
from table_writer.model.write import TableLayout
from table_writer.protocol.log.known_log import log_address
from table_writer.protocol.operations.statistics import ACCURATE, SPARK_PREFIX, spark_statistics

NO_FILES: Final = {"numFiles": "0", "numRows": "0", "totalSize": "0", "rawDataSize": "0"}
"""With its figures given, the metastore does not list an added location for them."""

COUNT_PARAMETERS: Final = frozenset(
    {
        "numFiles",
        "numRows",
        "totalSize",
        "rawDataSize",
        "spark.sql.statistics.numRows",
        "spark.sql.statistics.totalSize",
    }
)


def new_parameters(entry: LogEntry, partition: EntryPartition, layout: TableLayout) -> dict[str, str]:
    """Return what one partition's parameters say after the publish.

    Hive reads ``numFiles``, ``numRows`` and ``totalSize``, Spark its own ``spark.sql.statistics.*``. What is not known
    of rows that other tools wrote is left out. An unpartitioned table, which is its own only partition, moves with each
    publish: it keeps where its root is.
    """
    rooted = {} if partition.values else {ROOT_PARAMETER: str(layout.root)}
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
        **({} if partition.values else spark_statistics(entry.schema, partition.column_figures())),
        **({LOG_PARAMETER: log_address(layout, entry.log_id)} if entry.log_id else {}),
        VERSION_PARAMETER: str(entry.version),
        WRITE_ID_PARAMETER: entry.write_id,
    }


def with_columns_of(change: PartitionChange, schema: str, columns_by: str) -> PartitionChange:
    """Return a change by which an unpartitioned table also gets the columns of its new rows, if it has others now.

    Spark's own list of them, if there is one, goes with Hive's.
    """
    now = change.partition.parameters
    if change.partition.values or not schema or now.get(COLUMNS_PARAMETER, "") == columns_by:
        return change
    old = {name for name in now if is_of_schema(name)}
    new = {**(schema_parameters(schema) if old else {}), **({COLUMNS_PARAMETER: columns_by} if columns_by else {})}
    return replace(
        change,
        columns=hive_columns(schema),
        set_parameters={**change.set_parameters, **new},
        removed_parameters=change.removed_parameters | ((old | {COLUMNS_PARAMETER}) - new.keys()),
    )


def added_parameters(new: Mapping[str, str], before: Mapping[str, str], *, is_counted: bool) -> dict[str, str]:
    """Return what the parameters of a partition say once files are added to it: what is not known stays unknown.

    Figures of other tools are not built on: they need not be those of the files that are there. If the files are
    counted already, the figures stay.
    """
    known = {name: int(text) for name, text in before.items() if text.isdecimal()}
    sums = {
        name: str(known[name] if is_counted else known[name] + int(new[name]))
        for name in COUNT_PARAMETERS & new.keys() & known.keys()
    }
    return {name: text for name, text in new.items() if name not in COUNT_PARAMETERS} | sums


def stale_parameters(parameters: Mapping[str, str], new: Mapping[str, str]) -> frozenset[str]:
    """Return the parameters that are wrong once the rows are replaced.

    ``COLUMN_STATS_ACCURATE`` goes altogether: with its ``BASIC_STATS`` left, Hive would go on answering ``count(*)``
    from ``numRows`` after another tool's INSERT.
    """
    stale = {ACCURATE, *(COUNT_PARAMETERS - new.keys())}
    return frozenset(name for name in parameters if name in stale or name.startswith(SPARK_PREFIX))
