"""A Spark Connect session, asked through its public API: what its server shows, analyzes, runs and reads.

The session is on another machine than Spark's driver, and there is no JVM to ask. What Spark says of an expression is
found out by analyzing it in places where Spark refuses some kinds by name; files are read by their paths.
"""

from __future__ import annotations

import json
import logging
import pickle
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, nullcontext
from datetime import datetime
from operator import itemgetter
from typing import Any, Final, NoReturn

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import StringType, StructField, StructType

from table_writer.config import SessionSettings
from table_writer.errors import InvalidInputError, MetastoreError, StorageError
from table_writer.metastore.settings import as_hive_2
from table_writer.model.table import NULL_PARTITION, PartitionValues, PastPartition, Table
from table_writer.model.table_read import TableRead
from table_writer.model.write import WritePlan
from table_writer.progress import current
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.table.past import files_of
from table_writer.spark.executors import as_sent, prepare_session
from table_writer.spark.gateway import (
    ALL_OR_NOTHING,
    FILE_PREFIXES,
    HADOOP_PREFIXES,
    MAKES_ROWS,
    RUNS_AS_IT_IS,
    Analysis,
    Answer,
    Counted,
    Item,
    QuerySources,
    hive_session_required,
    native_provider,
    old_rows_note,
    stale_statistics_note,
    tasks,
)
from table_writer.spark.sql import (
    SPARK_ERRORS,
    analyzed_now,
    asks_clock,
    balanced_tree,
    fetched,
    grouped,
    quoted,
    spark_errors_translated,
    spark_reason,
    spark_sentence,
    version_named,
    without_query_log,
)
from table_writer.storage.s3.hadoop import with_environment

OLDEST: Final = (4, 1)  # of the servers that this was measured with
BUILT_IN_CLIENT: Final = "2.3"  # of Hive, in every Spark from 3.0 to 4.3
REDACTED: Final = "*********(redacted)"
HADOOP, HIVE = "spark.hadoop.", "spark.hive."  # how Spark's settings are called that are Hadoop's
UNSEEN: Final = (
    "a Spark Connect session shows what its server was started with as Spark's settings, without secrets, and nothing"
    " of the server's hive-site.xml and core-site.xml"
)
NO_WRITER: Final = (
    "Spark's own writer is not to be had in a Spark Connect session, which has no way to write files anywhere but into"
    " a table. Write Parquet tables without buckets with engine='arrow', and other tables from a classic session"
    " (spark-submit)"
)
LAST_TASKS_SECONDS: Final = 15.0  # in which an interrupted job ends
LAST_WORKERS_SECONDS: Final = 3.0  # nobody tells a client when tasks have ended: Spark kills their Python after 2 s
HIGHER_ORDER: Final = "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY.HIGHER_ORDER_FUNCTION"
PYTHON_IN_A_LAMBDA: Final = "UNSUPPORTED_FEATURE.LAMBDA_FUNCTION_WITH_PYTHON_UDF"
GENERATOR: Final = "UNSUPPORTED_GENERATOR"
AGGREGATE_IN_WHERE: Final = "INVALID_WHERE_CONDITION"
BAD_PATTERN: Final = "INVALID_PARAMETER_VALUE"
NOT_IN_A_JOIN: Final = "UNSUPPORTED_EXPR_FOR_OPERATOR"  # aggregates and windows
PLAIN_COLLATION: Final = " collate UTF8_BINARY"  # which some texts name, and others have unnamed
OTHER: Final = "__table_writer_other"
ANSWER: Final = "answer"
MOST_RELATIONS: Final = 200  # in one query: each is resolved by itself, whenever the query is looked at
AS_NAMED: Final = {"__globPaths__": "false"}  # a name with a bracket is a name
OF_THE_CLIENT: Final = ("LocalRelation", "ChunkedCachedLocalRelation", "CachedLocalRelation", "Range")
"""With these a query may begin that reads nothing; all others may read any table, by a name or by a text of SQL."""

OPTIMIZED: Final = "== Optimized Logical Plan ==\n"
SIZE: Final = re.compile(r"Statistics\(sizeInBytes=([\d.]+(?:E[+-]?\d+)?) ([KMGTPE])?i?B")
TRUNCATED: Final = "Truncated plan of"
UNKNOWN_BYTES: Final = 2**60  # a source of which Spark knows nothing has 8 EiB
NOT_OPTIONS: Final = ("path", "serialization.format")
NO_ANSWER: tuple[type[Exception], ...] = (*SPARK_ERRORS, OSError)
NOT_KNOWN: Final = ("INVALID_HANDLE", "RESPONSE_ALREADY_RECEIVED")
"""Conditions of a session or an operation that the server does not know any more."""

UNREACHABLE: Final = ("UNAVAILABLE", "DEADLINE_EXCEEDED")  # gRPC's status when there is no answer

logger = logging.getLogger(__name__)


class ConnectSpark:
    """Implements :class:`~table_writer.spark.gateway.SparkGateway` without a JVM."""

    lacks_writer = NO_WRITER
    shows_reads = False

    def __init__(self, spark: SparkSession) -> None:
        self._spark: Any = spark  # whose class has more than the one that both kinds share

    def settings(self, overrides: Mapping[str, str]) -> SessionSettings:
        spark = self._spark
        version = str(spark.version)
        if tuple(map(int, version.split(".")[:2])) < OLDEST:
            raise InvalidInputError(
                f"this session's Spark Connect server is Spark {version}; {'.'.join(map(str, OLDEST))} or newer is"
                " needed. Run the job with a classic session (spark-submit), or against a newer server."
            )
        hive_session_required(spark)
        shown = self.spark_conf()
        found = {name.removeprefix(HADOOP): value for name, value in shown.items() if name.startswith(HADOOP)}
        found |= {name.removeprefix("spark."): value for name, value in shown.items() if name.startswith(HIVE)}
        found |= shown  # what a session sets under Hadoop's own names, as Spark has it
        hadoop = {name: value for name, value in found.items() if name.startswith(HADOOP_PREFIXES)}
        return SessionSettings(
            hadoop=as_hive_2(with_environment(hadoop, overrides)),
            spark_version=version,
            application_id=shown.get("spark.app.id", ""),
            hive_client=spark.conf.get("spark.sql.hive.metastore.version", BUILT_IN_CLIENT) or BUILT_IN_CLIENT,
            unseen=UNSEEN,
        )

    def hadoop_values(self, names: Iterable[str]) -> Mapping[str, str]:  # noqa: ARG002 - keys are hidden from a client
        return {}

    def spark_conf(self) -> dict[str, str]:
        return {name: value for name, value in self._spark.conf.getAll.items() if value != REDACTED}

    def file_settings(self) -> dict[str, str]:
        """Return those that the session shows: of a server's own configuration files it shows nothing."""
        shown = self._spark.conf.getAll.items()  # of what is redacted the name is there, and tells enough
        given = {name.removeprefix(HADOOP): value for name, value in shown if name.startswith(FILE_PREFIXES)}
        return given | {name: value for name, value in shown if name.startswith(FILE_PREFIXES)}

    def refresh(self, table: Table, write_id: str) -> tuple[str, ...]:
        notes = []
        if table.partition_columns and any(name.startswith("spark.sql.statistics.") for name in table.parameters):
            notes.append(stale_statistics_note(table))
        try:
            self._spark.catalog.refreshTable(table.name.sql)
        except Exception:  # Spark raises what it likes here, and readers have switched already
            logger.warning("write_id=%s refreshing this session failed", write_id, exc_info=True)
            notes.insert(0, old_rows_note(table))
        return tuple(notes)

    def analysis(self, frame: DataFrame, expression: str | Column) -> Analysis:
        """Ask Spark what it refuses, and where; each question is one call of the server's analyzer."""
        value = F.expr(expression) if isinstance(expression, str) else expression
        kinds = tuple(field.dataType for field in frame.select(value).schema)
        inside = _refusal(frame.select(F.transform(F.array(F.lit(1)), lambda _: value)))
        makes_rows = len(kinds) > 1 or inside.startswith(GENERATOR)
        # ones are selected, since a client takes the schema of a filter from its frame, and asks nobody
        is_condition = not makes_rows and kinds[0].typeName() == "boolean"
        as_filter = _refusal(frame.where(value).select(F.lit(1))) if is_condition else ""
        other = self._spark.range(0).withColumnRenamed("id", OTHER)
        joined = frame.join(other, value.isNotNull(), "left_semi").select(F.lit(1))
        return Analysis(
            kinds=kinds,
            names=_names(frame, value, str(expression)),
            is_aggregate=as_filter == AGGREGATE_IN_WHERE,
            makes_rows=makes_rows,
            has_window=as_filter not in {"", AGGREGATE_IN_WHERE},
            has_subquery=inside == HIGHER_ORDER,
            is_deterministic=_refusal(joined) in {"", NOT_IN_A_JOIN},
            asks_clock=asks_clock(f"{expression}\n{_explained(frame.select(value))}"),
            has_foreign_code=inside == PYTHON_IN_A_LAMBDA,
        )

    def sources(self, rows: DataFrame) -> None:  # noqa: ARG002  # there is no analyzed plan
        return None

    def query_ids(self) -> frozenset[str]:
        """Return none: a batch is written in a session of its own, which knows of no query."""
        return frozenset()

    def session_of_batch(self) -> None:
        """Return none: a thread knows of no query, and a name is looked up where the DataFrame came from."""

    def reads(
        self,
        rows: DataFrame,
        opened: OpenTable,
        *,
        listed: bool,  # noqa: ARG002  # nothing is shown
        strict: bool,  # noqa: ARG002  # the same
    ) -> tuple[DataFrame, tuple[TableRead, ...]]:
        """Let the server forget lists of files and cached rows: a name may stand for the table, a view over it too."""
        begins_with = (node for node in _nodes(rows) if not _inside(node))
        if any(type(node).__name__ not in OF_THE_CLIENT for node in begins_with):
            self._spark.catalog.refreshByPath(str(opened.layout.root))  # cached queries have lists of their own
            self.refresh(opened.table, "plan")
        return rows, ()

    def version_read(self, rows: DataFrame, table: Table) -> int | None:
        named = (version_named(node._alias, str(table.name)) for node in _nodes(rows) if hasattr(node, "_alias"))  # noqa: SLF001
        return min((version for version in named if version is not None), default=None)

    def runs_other_python(self, rows: DataFrame) -> bool:  # noqa: ARG002  # nobody can tell
        return True

    def sources_once(self, rows: DataFrame) -> QuerySources | None:
        return sources_explained(_explained(rows, mode="cost"))

    def with_pinned_types(self, rows: DataFrame) -> DataFrame:
        """Compare the types in the job itself: what a name stands for is looked up each time a query is run."""

        def with_same_type(field: StructField) -> Column:
            column, planned = F.col(quoted(field.name)), _type_of(F.lit(None).cast(field.dataType))
            said = F.lit(f"\ntable_writer.errors.SchemaMismatchError: column {field.name!r} was ")
            other = F.concat(said, planned, F.lit(" when the write was planned, and is "), _type_of(column))
            changed = F.raise_error(F.concat(other, F.lit(": run it again\n"))).cast(field.dataType)
            return F.when(_type_of(column) == planned, column).otherwise(changed).alias(field.name)

        return rows.select(*map(with_same_type, rows.schema))

    def statements(self) -> NoReturn:
        raise InvalidInputError(
            "sql() lets Spark's parser take a statement apart, which a Spark Connect session does not show: call merge,"
            " delete_where, update_where or a write mode, or run it in a classic session (spark-submit)"
        )

    def is_pattern(self, text: str) -> bool:
        try:
            with without_query_log():
                fetched(self._spark.sql("SELECT 1").select(F.lit("").rlike(text)))  # folded: no job is run
        except PySparkException as error:
            if not str(error.getCondition()).startswith(BAD_PATTERN):
                raise
            return False
        return True

    def run(self, write_id: str, work: Callable[[], Answer], counted: Counted = tasks) -> Answer:
        with spark_errors_translated(write_id), _server_lost(write_id):
            return run_interruptibly(self._spark, work, tag=f"table_writer-{write_id}", counted=counted)

    def batches_of(self, row_count: int) -> nullcontext[bool]:  # noqa: ARG002
        """Leave it to Spark: a setting of a Connect session holds for everything that it runs."""
        return nullcontext(enter_result=False)

    def prepare_executors(self) -> None:
        prepare_session(self._spark)

    def on_executors(
        self, items: Sequence[Item], work: Callable[[Iterable[Item]], Iterator[Answer]], task_count: int
    ) -> Callable[[], list[Answer]]:
        """Make a DataFrame of the shares, packed; its tasks answer in the order of the items."""
        shares = [items[len(items) * n // task_count : len(items) * (n + 1) // task_count] for n in range(task_count)]
        packed = [(number, pickle.dumps(list(share))) for number, share in enumerate(shares) if share]
        frame = self._spark.createDataFrame(packed, f"number INT, {ANSWER} BINARY")
        job = frame.repartition(max(1, len(packed))).mapInArrow(as_sent(_unpacking_task(work)), frame.schema)

        def collect() -> list[Answer]:
            rows = sorted(job.collect(), key=itemgetter(0))
            return [answer for row in rows for answer in pickle.loads(row[1])]  # noqa: S301  # of our own tasks

        return collect

    def past_rows(
        self,
        opened: OpenTable,
        subject: str,
        partitions: Sequence[PastPartition],
        *,
        whole: bool = False,  # noqa: ARG002  # the version in the plan says as much
        file_column: str = "",
    ) -> DataFrame:
        """Look the files up now, and read them by their paths: a query fails if one is gone, or was written anew."""
        table = opened.table
        if native_provider(table) != "parquet":
            raise _needs_classic(table, "reads older rows, and compacts,")
        if len(partitions) > MOST_RELATIONS:
            raise InvalidInputError(
                f"{len(partitions):,} partitions of {table.name} are too many for one query of a Spark Connect session,"
                f" which reads each by itself: choose at most {MOST_RELATIONS}, with partitions=[…] or where=…, or use"
                " a classic session (spark-submit)",
                table=str(table.name),
            )
        try:
            schema = self._spark.table(table.name.sql).schema
        except SPARK_ERRORS as error:
            raise MetastoreError(
                f"Spark cannot read the description of {table.name}: {spark_sentence(error)}", table=str(table.name)
            ) from error
        if schema_then := next((partition.schema for partition in partitions if partition.schema), ""):
            schema = StructType.fromJson(json.loads(schema_then))
        frames = [
            self._past(table, schema, partition, files_of(opened, partition, subject), subject, file_column)
            for partition in partitions
        ]
        added = [StructField(file_column, StringType())] if file_column else []
        nothing: DataFrame = self._spark.createDataFrame([], StructType([*schema, *added]))
        return balanced_tree(DataFrame.union, frames or [nothing])

    def _past(
        self,
        table: Table,
        schema: StructType,
        partition: PastPartition,
        files: Mapping[str, datetime],
        subject: str,
        file_column: str,
    ) -> DataFrame:
        data = StructType(schema.fields[: len(schema) - len(table.partition_columns)])
        options = {**native_options(table, "parquet"), **ALL_OR_NOTHING, **AS_NAMED}
        reader = self._spark.read.schema(data).options(**options)
        rows = reader.parquet(*files) if files else self._spark.createDataFrame([], data)
        if files:
            latest = F.timestamp_millis(F.lit(int(max(files.values()).timestamp() * 1000) + 1))
            said = F.raise_error(
                F.lit(f"{subject}: a file of {partition.name} was written anew since it was looked up")
            )
            is_as_listed = F.col("_metadata.file_modification_time") <= latest
            rows = rows.where(F.when(is_as_listed, F.lit(True)).otherwise(said.cast("boolean")))
        texts = {
            field.name: F.lit(None if text == NULL_PARTITION else text)
            for text, field in zip(partition.values, schema.fields[len(data) :], strict=True)
        }
        path = F.col("_metadata.file_path") if files else F.lit("")
        added = [path.alias(file_column)] if file_column else []
        found: DataFrame = rows.select(*(_shown_column(field, texts.get(field.name)) for field in schema), *added)
        return found

    def files(self, plan: WritePlan, schema: StructType) -> ConnectFiles:
        return ConnectFiles(self._spark, plan, schema)


class ConnectFiles:
    """Implements the reading half of :class:`~table_writer.spark.gateway.SparkFiles` with Spark's public reader."""

    def __init__(self, spark: Any, plan: WritePlan, schema: StructType) -> None:
        self._spark = spark
        self._plan = plan
        self._names = [column.name for column in plan.table.partition_columns]
        data = schema.fields[: len(schema) - len(self._names)]
        self._stored_schema = StructType([*data, *(StructField(name, StringType()) for name in self._names)])
        provider = native_provider(plan.table)
        if provider is None:
            raise _needs_classic(plan.table, "reads staged rows")
        self._provider = provider

    @property
    def description(self) -> str:
        return self._provider

    def write(self, rows: DataFrame, *, magic: bool) -> int:  # noqa: ARG002  # never asked: the plan has refused it
        raise InvalidInputError(NO_WRITER, table=str(self._plan.table.name), write_id=self._plan.write_id)

    def read(self, partitions: Collection[PartitionValues]) -> DataFrame:  # noqa: ARG002  # directories say it
        options = {**native_options(self._plan.table, self._provider), **ALL_OR_NOTHING}
        reader = self._spark.read.format(self._provider).options(**options).schema(self._stored_schema)
        frame: DataFrame = reader.load(str(self._plan.data_location))
        return frame.select(*(F.col(quoted(name)) for name in self._stored_schema.names))

    def count(self, partitions: Collection[PartitionValues]) -> dict[PartitionValues, int]:
        counts = grouped(self.read(partitions), {name: F.col(quoted(name)) for name in self._names}, F.count(F.lit(1)))
        return {
            tuple(NULL_PARTITION if value is None else value for value in row[:-1]): row[-1] for row in fetched(counts)
        }


def _nodes(rows: Any) -> Iterator[Any]:
    """Yield the parts of a query that has not been analyzed yet, its subqueries too."""
    waiting = [rows._plan]  # noqa: SLF001  # PySpark has no public way to the plan
    while waiting:
        node = waiting.pop()
        yield node
        waiting += _inside(node)


def _inside(node: Any) -> list[Any]:
    """Return the parts of which a part of a query is made."""
    kind = type(node).__mro__[-2]  # which all parts are
    values = (value if isinstance(value, list | tuple) else [value] for value in vars(node).values())
    return [part for inside in values for part in inside if isinstance(part, kind)]


def _type_of(column: Column) -> Column:
    """Spell a type, that of plain text in one way."""
    return F.replace(F.typeof(column), F.lit(PLAIN_COLLATION), F.lit(""))


def _shown_column(field: StructField, text: Column | None) -> Column:
    """Return a column as queries of the table have it; a partition's value is the text of its directory."""
    column = F.col(quoted(field.name)) if text is None else text.try_cast(field.dataType)
    return column.alias(field.name, metadata=field.metadata)


def native_options(table: Table, provider: str) -> dict[str, str]:
    """Return the options with which Spark reads a table's files, as far as the table names them."""
    said = {name: value for name, value in table.parameters.items() if name.startswith(f"{provider}.")}
    return said | {name: value for name, value in table.serde_parameters.items() if name not in NOT_OPTIONS}


def _needs_classic(table: Table, what: str) -> InvalidInputError:
    return InvalidInputError(
        f"a Spark Connect session {what} of Parquet tables alone, and {table.name} is kept by"
        f" {native_provider(table) or table.serde}: use a classic session (spark-submit)",
        table=str(table.name),
    )


def _names(frame: DataFrame, value: Column, text: str) -> frozenset[str]:
    """Return the columns without which the expression means nothing; of a star, all."""
    text = text.lower()
    if "*" in text and _has_star(frame, value):
        return frozenset(frame.columns)
    likely = [name for name in frame.columns if name.lower() in text or quoted(name.lower())[1:-1] in text]
    return frozenset(name for name in likely if _refusal(frame.drop(F.col(quoted(name))).select(value)))


def _has_star(frame: DataFrame, value: Column) -> bool:
    """Return whether a further column would change what the expression is, as its name spells it out."""
    more = frame.select(F.lit(1).alias(OTHER), *(F.col(quoted(name)) for name in frame.columns))
    nested = more.select(F.array(value))  # a name that the expression gives itself does not hide it there
    return _refusal(nested) != "" or OTHER in nested.columns[0]


def _refusal(frame: DataFrame) -> str:
    """Return the name of the reason for which Spark does not take a query; empty where it does."""
    try:
        with without_query_log():
            analyzed_now(frame)
    except AnalysisException as error:
        return str(error.getCondition() or spark_reason(error))
    return ""


def _explained(frame: Any, *, mode: str = "extended") -> str:
    """Return the plans of a query, as Spark explains them."""
    with without_query_log():
        return str(frame._explain_string(mode=mode))  # noqa: SLF001  # explain() prints


def sources_explained(explained: str) -> QuerySources | None:
    r"""Return the bytes of all leaves of an optimized plan; ``None`` where one is unknown, or the query must run once.

    Examples
    --------
    >>> plan = "Union, Statistics(sizeInBytes=8.0 EiB)"
    >>> leaf = "Range (0, 9, step=1), Statistics(sizeInBytes=72.0 B)"
    >>> explained = f"== Optimized Logical Plan ==\n{plan}\n:- {leaf}\n+- {leaf}\n\n== Physical Plan =="
    >>> sources_explained(explained)
    QuerySources(size_bytes=144, is_plain=True)
    >>> sources_explained(explained.replace("72.0 B", "8.0 EiB"))
    """
    plan = explained.partition(OPTIMIZED)[2].partition("\n==")[0]
    nodes = [(len(line) - len(line.lstrip(" :+-")), line) for line in plan.splitlines() if SIZE.search(line)]
    if not nodes or RUNS_AS_IT_IS.search(plan) or TRUNCATED in explained:
        return None
    depths = [depth for depth, _ in nodes[1:]]
    total = 0
    for (depth, line), next_depth in zip(nodes, [*depths, 0], strict=True):
        if next_depth <= depth:
            number, unit = SIZE.search(line).groups()  # type: ignore[union-attr]  # it was found above
            total += int(float(number) * 1024 ** " KMGTPE".index(unit or " "))
    return QuerySources(size_bytes=total, is_plain=MAKES_ROWS.search(plan) is None) if total < UNKNOWN_BYTES else None


def _unpacking_task(work: Callable[[Iterable[Item]], Iterator[Answer]]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function that a task calls with its shares."""

    def unpack(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa  # noqa: PLC0415 - on the executor

        for batch in batches:
            for row in batch.to_pylist():
                answers = pickle.dumps(list(work(pickle.loads(row["answer"]))))  # noqa: S301  # the driver packed it
                yield pa.RecordBatch.from_pydict(
                    {"number": pa.array([row["number"]], pa.int32()), "answer": pa.array([answers], pa.binary())}
                )

    return unpack


def run_interruptibly(spark: Any, work: Callable[[], Answer], *, tag: str, counted: Counted = tasks) -> Answer:
    """Run what starts Spark jobs; when it fails or is interrupted, return only after its tasks have ended (or 15 s).

    The work runs on a thread of its own: PySpark's client tries for minutes to reach a server that is gone, and Ctrl-C
    ends that too. Meanwhile the progress of this thread's write shows the tasks.
    """
    outcome: Future[Answer] = Future()
    counter = TaskCounter(counted)
    tags = {*spark.getTags(), tag}  # the caller's stay the jobs' tags

    def run() -> None:
        counter.thread_id = threading.get_ident()
        spark.registerProgressHandler(counter)
        try:
            for job_tag in tags:
                spark.addTag(job_tag)  # of this thread alone
            with without_query_log():
                outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again on the caller's thread
            outcome.set_exception(error)
        finally:
            spark.removeProgressHandler(counter)

    threading.Thread(target=run, name=tag, daemon=True).start()
    try:
        with current().asking(counter.now):
            return outcome.result()
    except AnalysisException:  # no task has begun
        raise
    except BaseException:  # Ctrl-C above all
        _end_tasks(spark, tag, outcome)
        raise


def _end_tasks(spark: Any, tag: str, outcome: Future[Any]) -> None:
    """Interrupt and wait, so that whoever cleans up next finds the uploads of these tasks; the rest is vacuum's."""

    def interrupt() -> None:
        try:
            spark.interruptTag(tag)
        except NO_ANSWER:
            logger.warning("tasks of %s could not be interrupted: the server does not answer", tag, exc_info=True)

    deadline = time.monotonic() + LAST_TASKS_SECONDS
    asking = threading.Thread(target=interrupt, name=f"{tag}-interrupt", daemon=True)  # may try for minutes
    asking.start()
    asking.join(LAST_TASKS_SECONDS)
    _, running = wait([outcome], timeout=max(0.0, deadline - time.monotonic()))
    if running or asking.is_alive():
        logger.warning("tasks of %s may still run %.0f s after they were interrupted", tag, LAST_TASKS_SECONDS)
    else:
        time.sleep(LAST_WORKERS_SECONDS)


class TaskCounter:
    """Hears from the server how many tasks are done of what one thread runs."""

    def __init__(self, counted: Counted) -> None:
        self.thread_id = 0  # of the thread that runs the work, on which it hears
        self._counted = counted
        self._operations: dict[str | None, tuple[int, int]] = {}

    def __call__(self, *, stages: Iterable[Any] | None, operation_id: str | None, **_: object) -> None:
        """Take what the server says of one query."""
        seen = list(stages or ())
        if threading.get_ident() == self.thread_id and seen:
            counts = sum(stage.num_completed_tasks for stage in seen), sum(stage.num_tasks for stage in seen)
            self._operations = {**self._operations, operation_id: counts}

    def now(self) -> tuple[int, int, str]:
        """Return the progress, as far as Spark has planned the work."""
        counts = list(self._operations.values())
        return self._counted(sum(done for done, _ in counts), sum(total for _, total in counts))


@contextmanager
def _server_lost(write_id: str) -> Iterator[None]:
    """Say what it means for a write that its server is gone."""
    try:
        yield
    except PySparkException as error:
        asked = getattr(error, "getGrpcStatusCode", None)  # the client's own errors have none
        status = getattr(asked() if asked else None, "name", "")
        if status not in UNREACHABLE and not str(error.getCondition()).startswith(NOT_KNOWN):
            raise
        raise StorageError(
            f"the Spark Connect server has ended, or does not know this session any more: {spark_sentence(error)}"
            f" Nothing was published by write {write_id}; what it has left is deleted by a vacuum. Make a new session,"
            " and run the write again.",
            write_id=write_id,
        ) from error
