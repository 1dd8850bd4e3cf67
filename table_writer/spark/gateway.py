"""What this library asks of a Spark session that PySpark's public API does not answer, as one protocol.

A classic session is asked through its JVM (:mod:`table_writer.spark.classic`). A session without one, such as Spark
Connect's, is another class with the same methods; nothing outside this folder would change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructType

from table_writer.config import SessionSettings
from table_writer.model.table import PartitionValues, PastPartition, Table
from table_writer.model.write import WritePlan

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Counted = Callable[[int, int], tuple[int, int, str]]
"""Makes of the number of tasks that are done, and that there are, what is done, what there is to do, and its name."""


def tasks(done: int, total: int) -> tuple[int, int, str]:
    return done, total, "tasks"


@dataclass(frozen=True, kw_only=True, slots=True)
class Analyzed:
    """What Spark's analyzer says of an expression."""

    kinds: tuple[DataType, ...]  # types of its values; several if it stands for several columns
    names: frozenset[str]  # the columns of the frame that it names
    is_aggregate: bool  # it is about all rows at once
    makes_rows: bool  # several of one
    is_repeatable: bool  # a row's values alone give the same answer each time: it asks no other row (a window) or table


class SparkFiles(Protocol):
    """The files of one write, as Spark writes and reads them; the session's catalog knows the table."""

    @property
    def description(self) -> str:
        """The format's name, for a person."""

    def write(self, rows: DataFrame, *, magic: bool) -> int:
        """Run Spark's own writer into the write's location; returns how many rows went in.

        ``rows`` has the table's data columns, then its partition columns. With ``magic`` S3A's magic committer, which
        renames nothing, gives files their names, else the session's own. ``InvalidInputError`` says what Spark cannot
        write; then nothing is there.
        """

    def read(self, partitions: Collection[PartitionValues]) -> DataFrame:
        """Read the rows of these partitions back, as the table's readers will; partition values are text."""

    def count(self, partitions: Collection[PartitionValues]) -> dict[PartitionValues, int]:
        """Read the rows of these partitions back, as the table's readers will, and count them."""


class SparkGateway(Protocol):
    """One Spark session."""

    def settings(self, overrides: Mapping[str, str]) -> SessionSettings:
        """Read the settings of a session with a Hive metastore, and refuse others; ``overrides`` win over them.

        Where the metastore wants a login, they say how to get a delegation token of the session's user.
        """

    def refresh(self, table: Table, write_id: str) -> tuple[str, ...]:
        """Drop cached rows and table-level statistics that a publish has made wrong; returns what could not be done."""

    def analyzed(self, frame: DataFrame, sql: str) -> Analyzed:
        """Let Spark analyze an expression over a frame's columns; no job is run. Bad SQL raises one of SPARK_ERRORS."""

    def is_deterministic(self, rows: DataFrame) -> bool:
        """Whether the expressions of a query give the same values each time; no job is run."""

    def has_subquery(self, rows: DataFrame) -> bool:
        """Whether a query asks another one within an expression; no job is run."""

    def runs_other_python(self, rows: DataFrame) -> bool:
        """Whether Python code of the user's own may run in the jobs that compute these rows, or nobody can tell.

        Such code gets its batches by the same two limits, and its rows may be of any width.
        """

    def is_pattern(self, text: str) -> bool:
        """Whether a text is a regular expression, as ``rlike`` takes it."""

    def run(self, write_id: str, work: Callable[[], Answer], counted: Counted = tasks) -> Answer:
        """Run what starts Spark jobs; if it fails or is interrupted, return only after its tasks have ended (or 15 s).

        Raises the error of this library that a task raised; failures of the user's own code pass as Spark's. Meanwhile
        the progress of this thread's write shows the tasks, or what ``counted`` makes of how many are done.
        """

    def batches_of(self, row_count: int) -> AbstractContextManager[None]:
        """Let the jobs that this thread starts in a block send so many rows at once, not weighed; 0 leaves it to Spark.

        A session that sets one of Spark's two limits keeps them, and what other threads run meanwhile has its own.
        """

    def prepare_executors(self) -> None:
        """Send this package to the executors and look whether they can run it; does nothing the second time."""

    def on_executors(
        self, items: Sequence[Item], work: Callable[[Iterable[Item]], Iterator[Answer]], task_count: int
    ) -> Callable[[], list[Answer]]:
        """Return what runs ``work`` on the items' shares, for :meth:`run`; it returns all answers."""

    def past_rows(self, table: Table, subject: str, partitions: Sequence[PastPartition]) -> DataFrame:
        """Return the rows of partitions as they were, with the columns that the table has today.

        Files are listed for each query, of the partitions alone that its filters leave. A query fails if a partition
        does not hold exactly its files; ``subject`` begins its message.
        """

    def files(self, plan: WritePlan, schema: StructType) -> SparkFiles:
        """Return Spark's own writer and reader for a write's location.

        The schema has the table's data columns, then its partition columns. ``InvalidInputError`` gives Spark's reason
        why it cannot write this table; ``MetastoreError`` says that Spark cannot read the table's description.
        """
