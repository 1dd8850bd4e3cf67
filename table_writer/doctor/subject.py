"""The table that the checks examine, with all that was read of it so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from table_writer.errors import TableWriterError
from table_writer.log.history import History
from table_writer.model.table import Partition, PartitionValues, Table, shown_name
from table_writer.reports.health_reports import Finding
from table_writer.table.open_table import OpenTable

SHOWN_NAMES: Final = 10
WORST_FIRST: Final = ("error", "warning", "note", "ok")
Read = TypeVar("Read")


@dataclass
class Subject:
    """The table that is examined. Results of reads are kept, failures too, so that no check waits again."""

    opened: OpenTable
    spark_conf: Mapping[str, str] | None = field(default=None, repr=False)  # holds credentials
    scratch_table: bool = False
    _results: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def name(self) -> str:
        return str(self.opened.table.name)

    @property
    def hadoop(self) -> Mapping[str, str]:
        """Return Hadoop's settings, overridden by those of the Spark settings."""
        prefix = "spark.hadoop."
        of_spark = self.spark_conf or {}
        settings = {key.removeprefix(prefix): value for key, value in of_spark.items() if key.startswith(prefix)}
        return {**self.opened.session.hadoop, **settings}

    def version(self) -> str:
        """Return the metastore's version, empty if it does not say."""
        return self._once("version", self.opened.metastore.server_version)

    def history(self) -> History:
        return self._once("history", self.opened.log.read_history)

    def partitions(self) -> Mapping[PartitionValues, Partition]:
        """Return all partitions of the table, read after the log."""
        self.history()
        return self._once("partitions", lambda: self.opened.metastore.get_all_partitions(self.opened.table))

    def forget(self) -> None:
        """Forget log and partitions: somebody may have published between the two reads."""
        for name in ("history", "partitions"):
            self._results.pop(name, None)

    def names(self, values: Sequence[PartitionValues]) -> str:
        return names_of(self.opened.table, values)

    def _once(self, name: str, read: Callable[[], Read]) -> Read:
        if name not in self._results:
            try:
                self._results[name] = read()
            except TableWriterError as failure:
                self._results[name] = failure
        result = self._results[name]
        if isinstance(result, TableWriterError):
            raise result
        return result  # type: ignore[no-any-return]  # of several types, by name


def names_of(table: Table, values: Sequence[PartitionValues]) -> str:
    """Name partitions, the first ones of many."""
    names = ", ".join(shown_name(table, partition_values) for partition_values in values[:SHOWN_NAMES])
    hidden = len(values) - SHOWN_NAMES
    return f"{names} and {hidden:,} more" if hidden > 0 else names


def ok(message: str) -> Finding:
    """Return a finding that asks for nothing; :func:`~table_writer.doctor.examine` adds the check's name to each."""
    return Finding(check="", status="ok", message=message)


def note(message: str, advice: str = "") -> Finding:
    """Return a finding that is worth knowing."""
    return Finding(check="", status="note", message=message, advice=advice)


def warning(message: str, advice: str) -> Finding:
    """Return a finding that should be changed."""
    return Finding(check="", status="warning", message=message, advice=advice)


def error(message: str, advice: str = "") -> Finding:
    """Return a finding that breaks writes, loses data, or already has."""
    return Finding(check="", status="error", message=message, advice=advice)
