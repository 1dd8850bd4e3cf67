"""The questions that this library asks of a Spark session and PySpark's public API does not answer, as one protocol.

A classic session is asked through its JVM (:mod:`table_writer.spark.classic`). A session without one, that of Spark
Connect, is another class with the same methods (:mod:`table_writer.spark.connect`); nothing outside this folder knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from table_writer.config import SessionSettings
from table_writer.errors import InvalidInputError
from table_writer.events.event import Source
from table_writer.model.table import PartitionValues, PastPartition, Table
from table_writer.model.table_read import TableRead
from table_writer.model.write import WritePlan
from table_writer.protocol.table.open_table import OpenTable
from table_writer.spark.statement import Statements
from table_writer.storage.kinds import KINDS

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Counted = Callable[[int, int], tuple[int, int, str]]
"""Turns the numbers of finished and of all tasks into progress: what is done, what there is to do, and its unit."""

HADOOP_PREFIXES: Final = (
    *(kind.hadoop_prefix for kind in KINDS if kind.hadoop_prefix),
    *("hive.metastore.", "hive.imetastoreclient.", "metastore.", "hadoop.rpc.", "aws.region", "aws.glue."),
    "mapreduce.fileoutputcommitter.",
)
"""Those of Hadoop's settings that this library reads."""

FILE_PREFIXES: Final = (
    *("parquet.", "compression.", "spark.hadoop.parquet.", "spark.hadoop.compression."),
    *("spark.sql.parquet.", "spark.sql.legacy.parquet."),
)
"""Settings of a session that say how Parquet files are written, or read."""

ALL_OR_NOTHING: Final[Mapping[str, str]] = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
"""Options of each read of files by this library: they win over a session that passes over what it cannot read."""

TASK: Final = "table_writer_task"
"""The name of this library's own functions in plans: they may run twice."""

RUNS_AS_IT_IS: Final = re.compile(
    rf"CollectMetrics|Truncated plan of|Python|Pandas|InArrow (?!{TASK})|\bUDF\(|\bSort \["
)
"""In the text of a plan: an observation, a plan that is not shown, code of the user's own, an order."""

MAKES_ROWS: Final = re.compile(r"\b(Join|Generate|Expand|Aggregate|Window|Intersect|Except)\b")
"""In the text of a plan: a row that is not made of one row of a source."""

NATIVE: Final = ("parquet", "orc")  # Spark writes these itself, also for Hive tables


def hive_session_required(spark: SparkSession) -> None:
    """Refuse a session without a Hive metastore."""
    catalog = spark.conf.get("spark.sql.catalogImplementation", "in-memory")
    if catalog != "hive":
        raise InvalidInputError(
            f"this session's catalog is {catalog!r}, not a Hive metastore: build the session with"
            " .enableHiveSupport() and set spark.hadoop.hive.metastore.uris=thrift://host:9083 (of a Spark Connect"
            " server: start it with spark.sql.catalogImplementation=hive)"
        )


def provider_of(table: Table) -> str:
    return table.parameters.get("spark.sql.sources.provider", "hive")


def old_rows_note(table: Table) -> str:
    """Say what a session's user has to do where its refresh has failed."""
    return f"this session may show old rows until REFRESH TABLE {table.name.sql}"


def stale_statistics_note(table: Table) -> str:
    """Say how table-level statistics become right again."""
    renewed = f"ANALYZE TABLE {table.name.sql} COMPUTE STATISTICS renews them"
    return f"the table-level statistics of {table.name} are stale: {renewed}"


def native_provider(table: Table) -> str | None:
    """Return the data source that writes the table's files, ``None`` where only a SerDe can."""
    provider = provider_of(table)
    if provider.lower() != "hive":
        return provider
    return next((name for name in NATIVE if name in table.serde.lower()), None)


def tasks(done: int, total: int) -> tuple[int, int, str]:
    return done, total, "tasks"


@dataclass(frozen=True, kw_only=True, slots=True)
class Analysis:
    """Facts of an expression, as Spark's analyzer knows them."""

    kinds: tuple[DataType, ...]  # types of its values; several if it stands for several columns
    names: frozenset[str]  # the columns of the frame that it names, as the frame or the expression spells them
    is_aggregate: bool  # it is about all rows at once
    makes_rows: bool  # several of one
    has_window: bool  # it asks other rows
    has_subquery: bool  # it asks a table
    is_deterministic: bool  # the same values give the same answer each time, but for the clock
    asks_clock: bool  # so each job may get another answer
    has_foreign_code: bool  # functions of the user's own, which may answer as they like

    @property
    def is_repeatable(self) -> bool:
        """Return whether a row's values alone give the same answer each time."""
        return self.is_deterministic and not self.has_subquery and not self.has_window


@dataclass(frozen=True, kw_only=True, slots=True)
class QuerySources:
    """What a query reads."""

    size_bytes: int  # of all sources together
    is_plain: bool  # each row is made of one row of a source: no join, no aggregate, no row becomes many


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

    @property
    def lacks_writer(self) -> str:
        """Say why Spark's own writer is not to be had, and what to do; empty where it is."""

    @property
    def shows_reads(self) -> bool:
        """Return whether :meth:`reads` tells what a query reads; else :meth:`version_read` is all that is known."""

    def settings(self, overrides: Mapping[str, str]) -> SessionSettings:
        """Read the settings of a session with a Hive metastore, and refuse others; ``overrides`` win over them.

        Where the metastore wants a login, they say how to get a delegation token of the session's user.
        """

    def hadoop_values(self, names: Iterable[str]) -> Mapping[str, str]:
        """Return the session's Hadoop settings of this moment, as far as it shows them: keys may be renewed."""

    def spark_conf(self) -> dict[str, str]:
        """Return Spark's own settings, as far as the session shows them."""

    def file_settings(self) -> dict[str, str]:
        """Return the session's settings of Parquet files as they are now, as Spark's own writer would be given them.

        Also settings beginning ``spark.hadoop.``, which that writer is not given unless they are there without it. A
        value may be a key: never shown.
        """

    def refresh(self, table: Table, write_id: str) -> tuple[str, ...]:
        """Drop cached rows and table-level statistics that a publish has made wrong; returns what could not be done."""

    def analysis(self, frame: DataFrame, expression: str | Column) -> Analysis:
        """Let Spark analyze an expression over a frame's columns; no job is run. A bad one raises one of SPARK_ERRORS.

        Over Spark Connect functions of the user's own are seen if they are in Python.
        """

    def sources(self, rows: DataFrame) -> tuple[Source, ...] | None:
        """Return the tables and files that a query reads, each once; ``None`` where the session does not show it.

        What comes from an RDD, a stream or the driver has no name, and is left out; so is what a plan reads at more
        than a thousand places, or by more than a hundred paths at one.
        """

    def query_ids(self) -> frozenset[str]:
        """Return the id of the streaming query that runs a batch on this thread; none if it is not known.

        An id belongs to a checkpoint: a query that is started anew from it has the same.
        """

    def session_of_batch(self) -> SparkSession | None:
        """Return the session of the batch that a streaming query writes on this thread; ``None`` if that is not known.

        A query has a session of its own, a copy from when it began: temporary views of the batch are there alone.
        """

    def reads(
        self, rows: DataFrame, opened: OpenTable, *, listed: bool, strict: bool
    ) -> tuple[DataFrame, tuple[TableRead, ...]]:
        """Let a query that reads this table look at its files anew, as far as it can; return it, and what it reads.

        Rows that are cached stay as they are. Without ``listed`` reads of the table by its name are left out.
        A session that does not show what its queries read returns none, and forgets what it remembers of the table.
        ``strict`` refuses rows of the table that an engine reads of which nobody knows what; it is not for rows that
        this library itself reads, and compares by what it knows of them.
        """

    def version_read(self, rows: DataFrame, table: Table) -> int | None:
        """Return the version of the table that a query reads by number, the oldest of several; ``None`` if none."""

    def runs_other_python(self, rows: DataFrame) -> bool:
        """Return whether Python code of the user's own may run in the jobs that compute these rows, or nobody can tell.

        Such code gets its batches by the same two limits, and its rows may be of any width.
        """

    def sources_once(self, rows: DataFrame) -> QuerySources | None:
        """Return what a query reads, as Spark estimates it; ``None`` where it may be of any size, or must run once.

        A list of rows of the driver's, of which Spark knows nothing, counts as empty if it has few tasks. A query must
        run once where somebody counts the rows that go by, or code of the user's own sees them; and as it is where
        rows are sorted.
        """

    def with_pinned_types(self, rows: DataFrame) -> DataFrame:
        """Return rows whose types are those that the query had when its schema was read first, or whose job fails."""

    def statements(self) -> Statements:
        """Return what takes statements of SQL apart; ``InvalidInputError`` from a session that shows no plan."""

    def is_pattern(self, text: str) -> bool:
        """Return whether a text is a regular expression, as ``rlike`` takes it."""

    def run(self, write_id: str, work: Callable[[], Answer], counted: Counted = tasks) -> Answer:
        """Run what starts Spark jobs; if it fails or is interrupted, return only after its tasks have ended (or 15 s).

        Raises the error of this library that a task raised; failures of the user's own code pass as Spark's. Meanwhile
        the progress of this thread's write shows the tasks, or what ``counted`` makes of how many are done.
        """

    def batches_of(self, row_count: int) -> AbstractContextManager[bool]:
        """Let the jobs that this thread starts in a block send so many rows at once, not weighed; 0 leaves it to Spark.

        A session that sets one of Spark's two limits keeps them, and what other threads run meanwhile has its own. The
        block is told whether batches end at that number, and not at the session's limits.
        """

    def prepare_executors(self) -> None:
        """Send this package to the executors and look whether they can run it; does nothing the second time."""

    def on_executors(
        self, items: Sequence[Item], work: Callable[[Iterable[Item]], Iterator[Answer]], task_count: int
    ) -> Callable[[], list[Answer]]:
        """Return a function for :meth:`run` that runs ``work`` on the items' shares, and returns all answers."""

    def past_rows(
        self,
        opened: OpenTable,
        subject: str,
        partitions: Sequence[PastPartition],
        *,
        whole: bool = False,
        file_column: str = "",
    ) -> DataFrame:
        """Return the rows of partitions as they were, with the columns that the table has today.

        Files are listed for each query, of the partitions alone that its filters leave; over Spark Connect now, of
        all. A query, or this call, fails if a partition does not hold exactly its files; ``subject`` begins its
        message. ``whole``: there were no others. ``file_column`` adds the path of each row's file, if the relation
        knows it: a SerDe's has none.
        """

    def files(self, plan: WritePlan, schema: StructType) -> SparkFiles:
        """Return Spark's own writer and reader for a write's location.

        The schema has the table's data columns, then its partition columns. ``InvalidInputError`` gives Spark's reason
        why it cannot write this table; ``MetastoreError`` says that Spark cannot read the table's description.
        """
