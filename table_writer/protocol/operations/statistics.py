"""Column statistics in the metastore: those of replaced rows go before the switch, new ones come after it.

Readers' optimizers use them, no reader's rows depend on them. So nothing here fails a publish.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Final

from table_writer.errors import LostResponseError, MetastoreError
from table_writer.model.column_figures import ColumnFigures
from table_writer.model.entry import LogEntry
from table_writer.model.hive_columns import hive_columns
from table_writer.model.location import Location
from table_writer.model.table import Partition, PartitionChange, PartitionValues, Table
from table_writer.protocol.log.deadline import Deadline
from table_writer.protocol.table.open_table import OpenTable

logger = logging.getLogger(__name__)
ACCURATE: Final = "COLUMN_STATS_ACCURATE"
"""Parameter by which Hive answers queries from statistics alone; a metastore sets it with every one that it takes."""

SPARK_PREFIX: Final = "spark.sql.statistics.colStats."
MOST_NAME: Final = 256 - len(SPARK_PREFIX) - len(".distinctCount")
"""Letters of a column's name: a metastore's database keeps 256 of a parameter's, and may lose what is not ASCII."""

SPARK_FORMAT: Final = "2"  # the format of Spark 3 and later: times are in UTC
SPARK_BYTES: Final = {
    **dict.fromkeys(("boolean", "byte"), 1),
    "short": 2,
    **dict.fromkeys(("integer", "float", "date"), 4),
    **dict.fromkeys(("long", "double", "timestamp", "timestamp_ntz"), 8),
}
"""The length that Spark assumes for a value, by the names of its types."""

TRIES: Final = 3  # tries of an alter of partitions that another tool may drop
LONG_DECIMAL: Final = 18  # digits up to which Spark keeps a decimal in 8 bytes


@dataclass(frozen=True, slots=True)
class StatisticsResult:
    """The result of a change of statistics: notes, and whether a call may still come."""

    notes: tuple[str, ...] = ()
    is_open: bool = False  # an alter was not answered, which may move partitions: the entry must stay in doubt
    is_late: bool = False  # a call was not answered that changes statistics alone: a recovery mark must say so


class Statistics:
    """Keeps the column statistics of one table as the entries of its log want them."""

    def __init__(self, opened: OpenTable) -> None:
        self._opened = opened
        self._metastore = opened.metastore

    def forget(
        self, table: Table, entry: LogEntry, present: Collection[PartitionValues], deadline: Deadline
    ) -> StatisticsResult:
        """Remove the statistics of the rows that an entry replaces, before it does; again after it, if that failed.

        Only while there is time for the switch after it, however long a call takes.
        """
        try:
            known = self._metastore.differing_statistics(table, {values: {} for values in present}) if present else ()
            if known:
                self._metastore.drop_statistics(table, known, before_send=self._in_time(entry, deadline, calls=2))
        except MetastoreError as error:
            logger.warning("write_id=%s old column statistics were not removed: %s", entry.write_id, error)
            text = (
                f"column statistics of replaced rows may still be in the metastore ({error.message}); the next write of"
                f" these partitions of {table.name} removes them."
            )
            return StatisticsResult((text,), is_late=isinstance(error, LostResponseError))
        return StatisticsResult()

    def tell(self, table: Table, entry: LogEntry, deadline: Deadline) -> StatisticsResult:
        """Give the metastore the statistics that an entry has, after its switch.

        Servers mark what they are given as accurate, and Hive would answer queries from that even after another tool
        has added files. So the mark is taken away by a second alter, which changes nothing else; where that is refused,
        the statistics go again.
        """
        figures = {partition.values: partition.column_figures() for partition in entry.partitions if partition.figures}
        if not figures or not self._metastore.keeps_statistics(table):
            return StatisticsResult()
        if entry.schema and entry.columns_by != table.columns_by:  # the switch has given it these
            table = replace(table, columns=hive_columns(entry.schema))
        in_time = self._in_time(entry, deadline)
        result = StatisticsResult()
        try:
            self._metastore.set_statistics(table, figures, before_send=self._in_time(entry, deadline, calls=2))
        except LostResponseError as error:  # they may be there, with the mark
            logger.warning("write_id=%s column statistics: the answer was lost: %s", entry.write_id, error)
            result = StatisticsResult(
                (f"published; whether its column statistics were set is not known ({error.message}).",), is_late=True
            )
        except MetastoreError as error:
            return _not_set_result(entry, error)
        try:
            self._unmark(table, entry, in_time)
        except LostResponseError as error:
            logger.warning("write_id=%s statistics are set; an alter was not answered: %s", entry.write_id, error)
            text = f"published; the answer to the last alter was lost ({error.message}); the next write or"
            return StatisticsResult((f"{text} `table-writer recover {table.name}` resolves it.",), is_open=True)
        except MetastoreError as error:
            return self._take_back(table, entry, figures, error, in_time)
        return result

    def _take_back(
        self,
        table: Table,
        entry: LogEntry,
        values: Collection[PartitionValues],
        error: MetastoreError,
        in_time: Callable[[], None],
    ) -> StatisticsResult:
        """Remove statistics again that would stay marked as accurate."""
        try:
            self._metastore.drop_statistics(table, tuple(values), before_send=in_time)
        except MetastoreError as second:
            logger.warning("write_id=%s statistics stay, marked as accurate: %s", entry.write_id, second)
            text = f"published; its column statistics are set, but marked as accurate ({error.message})."
            return StatisticsResult((text,), is_late=isinstance(second, LostResponseError))
        return _not_set_result(entry, error)

    def _unmark(self, table: Table, entry: LogEntry, in_time: Callable[[], None]) -> None:
        places = {partition.values: partition.new_location for partition in entry.partitions if partition.figures}
        for attempt in range(1, TRIES + 1):
            now = self._metastore.get_partitions(table, list(places))
            changes = [
                PartitionChange(
                    partition=partition,
                    location=partition.location,
                    set_parameters={},
                    removed_parameters=frozenset({ACCURATE}),
                )
                for values, partition in now.items()
                if ACCURATE in partition.parameters and _is_at(partition, places[values])
            ]
            try:
                return self._metastore.alter_partitions(table, changes, before_send=in_time)
            except LostResponseError:
                raise
            except MetastoreError:  # another tool has changed one between the two calls, or dropped it
                if attempt == TRIES:
                    raise
        return None

    def _in_time(self, entry: LogEntry, deadline: Deadline, *, calls: int = 1) -> Callable[[], None]:
        """Return what keeps a call from being sent unless there is time for it, and for those that must follow it."""

        def in_time() -> None:
            if not deadline.allows(calls * self._opened.config.metastore_timeout_seconds):
                raise MetastoreError("there was no time left for them within the claim", **entry.named)

        return in_time


def _not_set_result(entry: LogEntry, error: MetastoreError) -> StatisticsResult:
    logger.warning("write_id=%s column statistics were not set: %s", entry.write_id, error)
    return StatisticsResult((f"published; its column statistics were not set ({error.message}).",))


def _is_at(partition: Partition, location: str | None) -> bool:
    here = Location.parse_any(partition.location)
    return here is not None and location is not None and here.same_place(Location.parse(location))


def spark_statistics(schema: str, figures: Mapping[str, ColumnFigures]) -> dict[str, str]:
    """Return the parameters of a table by which Spark's optimizer knows its columns.

    Examples
    --------
    >>> schema = '{"fields": [{"name": "id", "type": "long"}]}'
    >>> found = spark_statistics(schema, {"id": ColumnFigures("integer", 0, 2, 1, 2, distinct=2)})
    >>> sorted(name.removeprefix("spark.sql.statistics.colStats.id.") + "=" + value for name, value in found.items())
    ['avgLen=8', 'distinctCount=2', 'max=2', 'maxLen=8', 'min=1', 'nullCount=0', 'version=2']
    """
    types = {field["name"]: str(field["type"]) for field in json.loads(schema or "{}").get("fields", [])}
    return {
        f"{SPARK_PREFIX}{name}.{key}": value
        for name, column in figures.items()
        if name.isascii() and len(name) <= MOST_NAME
        for key, value in _of_spark(column, types.get(name, "")).items()
    }


def _of_spark(column: ColumnFigures, kind: str) -> dict[str, str]:
    if column.total_bytes is not None and kind in {"string", "binary"}:
        average = -(-column.total_bytes // max(1, column.values))
        lengths = {"avgLen": average, "maxLen": column.longest_bytes or 0}
    elif column.kind == "decimal" and kind.startswith("decimal"):
        size = 8 if int(kind[8:].partition(",")[0]) <= LONG_DECIMAL else 16
        lengths = {"avgLen": size, "maxLen": size}
    elif kind in SPARK_BYTES:
        lengths = dict.fromkeys(("avgLen", "maxLen"), SPARK_BYTES[kind])
    elif column.values or kind not in {"string", "binary"}:
        return {}
    else:
        lengths = {"avgLen": 0, "maxLen": 0}
    distinct = {} if column.distinct is None else {"distinctCount": column.distinct}
    counts = {"nullCount": column.nulls, **distinct, **lengths}
    bounds = {"min": _spark_bound(column, column.low), "max": _spark_bound(column, column.high)}
    return {
        "version": SPARK_FORMAT,
        **{name: str(count) for name, count in counts.items()},
        **{name: text for name, text in bounds.items() if text is not None},
    }


def _spark_bound(column: ColumnFigures, bound: float | str | None) -> str | None:
    if bound is None or column.kind not in {"date", "timestamp"}:
        return None if bound is None else str(bound)
    try:
        if column.kind == "date":
            return str(date(1970, 1, 1) + timedelta(days=int(bound)))
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(bound))
    except OverflowError:
        return None
    return moment.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
