"""The table that the checks examine, with all that was read of it so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from table_writer.doctor.findings import dry_run_of_vacuum, names_of
from table_writer.errors import TableWriterError
from table_writer.model.table import Partition, PartitionValues
from table_writer.protocol.log.history import History
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.vacuum.due import Look
from table_writer.protocol.vacuum.remover import VacuumResult

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

    def vacuumed(self) -> tuple[Look, VacuumResult]:
        """Return what a vacuum looks at, and what it would do now."""
        self.partitions()  # a metastore that has not answered is not asked again
        return self._once("vacuum", lambda: dry_run_of_vacuum(self.opened, force=True))

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
