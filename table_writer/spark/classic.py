"""A classic Spark session, asked through its JVM: settings, plans, jobs that Ctrl-C ends, what a write makes stale."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NoReturn
from uuid import uuid4

from py4j.java_gateway import get_method
from py4j.protocol import Py4JError
from pyspark import InheritableThread, SparkContext, SparkJobInfo, SparkStageInfo
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import StructType

from table_writer.config import SessionSettings
from table_writer.errors import InvalidInputError
from table_writer.events.event import Source
from table_writer.metastore.sasl import Token
from table_writer.metastore.settings import PLAIN_USER, PRINCIPAL, SASL, as_hive_2, is_kerberized
from table_writer.metastore.wire import LoginError
from table_writer.model.location import without_password, without_s3_logins
from table_writer.model.table import ROOT_PARAMETER, PastPartition, Table
from table_writer.model.table_read import ReadOf, TableRead
from table_writer.model.write import WritePlan
from table_writer.progress import current
from table_writer.protocol.table.open_table import OpenTable
from table_writer.spark.comet import BATCH_ROWS_SETTING, has_no_more_rows, is_loaded
from table_writer.spark.executors import as_sent, prepare_executors
from table_writer.spark.files import ClassicFiles, missing_jar
from table_writer.spark.gateway import (
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
    old_rows_note,
    stale_statistics_note,
    tasks,
)
from table_writer.spark.parser import StatementParser
from table_writer.spark.past import PastRows
from table_writer.spark.reads import QueryReads, items, last_run_here, leaves, leaves_of, past_versions, query_id_here
from table_writer.spark.sql import (
    SPARK_ERRORS,
    asks_clock,
    spark_errors_translated,
    spark_reason,
    without_logs_of,
    without_query_log,
)
from table_writer.storage.kinds import KINDS, SECRETS

BUILT_IN_CLIENT: Final = "2.3"  # of Hive, in every Spark from 3.0 to 4.3
SECRETS_PATH: Final = "hadoop.security.credential.provider.path"
PROVIDER_PATHS: Final = ("fs.s3a.security.credential.provider.path", SECRETS_PATH)  # S3A's own comes first
URIS: Final = "hive.metastore.uris"
SIGNATURE: Final = "hive.metastore.token.signature"  # the service of the token that Hive's client takes
OF_FETCHING: Final = {
    SASL: "true",
    "hive.metastore.connect.retries": "1",
    "hive.metastore.client.socket.timeout": "20s",
}
PY4J_LOGGERS: Final = tuple(map(logging.getLogger, ("py4j.clientserver", "py4j.java_gateway")))
NO_TOKEN: tuple[type[Exception], ...] = (*SPARK_ERRORS, OSError, TypeError)
"""Errors that the search for a token may raise; in PySpark a class that is not there is no function: a TypeError."""

TOKEN_KIND: Final = "HIVE_DELEGATION_TOKEN"  # noqa: S105 - a name
PYTHON_NODES: Final = re.compile("Python|Pandas|Arrow|RDD")  # what a LogicalRDD has behind it is not to be seen
HIVE_FUNCTION: Final = re.compile("Hive(Simple|Generic)UDF")
LAST_TASKS_SECONDS: Final = 15.0  # Spark kills a Python worker 2 s after its task was cancelled
POLL_SECONDS: Final = 0.05
MAX_ROWS_SETTING: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
MAX_BYTES_SETTING: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
OF_RDDS: Final = ("LogicalRDD", "ExternalRDD")  # of which Spark knows no size
TASKS_OF_FEW: Final = 2  # for each core: more tasks of an RDD have more than few rows
MOST_LEAVES_OF_FEW: Final = 50  # that are asked for their sizes, each by some questions to Java
MOST_LEAVES: Final = 1_000  # of a plan that are asked what they read: a loop of unions may have made more
MOST_PATHS: Final = 100  # of one relation: a query may read as many files as it likes by their paths
UNWEIGHED: Final = 2**31 - 1  # the one value with which Spark does not compute the size of a batch after each row
logger = logging.getLogger(__name__)


class ClassicSpark:
    """Implements :class:`~table_writer.spark.gateway.SparkGateway` with Py4J."""

    lacks_writer = ""
    shows_reads = True

    def __init__(self, spark: SparkSession) -> None:
        if not hasattr(spark, "_jsparkSession"):
            raise InvalidInputError(
                f"{type(spark).__module__}.{type(spark).__name__} is no Spark session: SparkSession.builder makes one"
            )
        if spark.sparkContext._jsc is None:  # noqa: SLF001 - PySpark has no public way to any of this
            raise InvalidInputError("this Spark session was stopped: make a new one, and a new TableWriter with it")
        self._spark = spark
        self._session: Any = spark._jsparkSession  # noqa: SLF001 - the same
        self._java: Any = spark.sparkContext._jvm  # noqa: SLF001 - the same

    def settings(self, overrides: Mapping[str, str]) -> SessionSettings:
        spark = self._spark
        hive_session_required(spark)
        hadoop = self._session.sessionState().newHadoopConf()
        with without_logs_of(*PY4J_LOGGERS):
            found = as_hive_2({**_hadoop_settings(hadoop, self._java), **overrides})
            user = found.get(PLAIN_USER, "")
            password = hadoop.getPassword(user) if user else None  # as Hive's client
        if password is not None:
            found.setdefault(user, "".join(password))
        return SessionSettings(
            hadoop=found,
            metastore_token=SessionToken(self._java, hadoop, found) if is_kerberized(found) else None,
            spark_version=spark.version,
            application_id=spark.sparkContext.applicationId,
            hive_client=spark.conf.get("spark.sql.hive.metastore.version", BUILT_IN_CLIENT) or BUILT_IN_CLIENT,
            missing_jar=missing_jar(spark),
        )

    def hadoop_values(self, names: Iterable[str]) -> Mapping[str, str]:
        with without_logs_of(*PY4J_LOGGERS):
            hadoop = self._session.sessionState().newHadoopConf()
            values = {name: hadoop.get(name) for name in names}
            values |= {name: value for name, value in _kept_secrets(hadoop, self._java).items() if name in values}
        return {name: value for name, value in values.items() if value}

    def spark_conf(self) -> dict[str, str]:
        return dict(self._spark.sparkContext.getConf().getAll())

    def file_settings(self) -> dict[str, str]:
        hadoop = self._session.sessionState().newHadoopConf()
        with without_logs_of(*PY4J_LOGGERS):
            matching = hadoop.getValByRegex(f"^(?:{'|'.join(map(re.escape, FILE_PREFIXES))})")
            return _texts(matching, self._java)

    def refresh(self, table: Table, write_id: str) -> tuple[str, ...]:
        old_rows, stale = old_rows_note(table), stale_statistics_note(table)
        undone = []
        for note, action in ((old_rows, self._refresh_table), (stale, self._drop_statistics)):
            try:
                action(table)
            except Exception:  # Spark raises what it likes here, and readers have switched already
                logger.warning("write_id=%s refreshing this session failed", write_id, exc_info=True)
                undone.append(note)
        return tuple(undone)

    def _refresh_table(self, table: Table) -> None:
        """Let this session forget what it knows of the table: its files, and what cached queries have read.

        A job that has read no table knows nothing, and would start Spark's client of the metastore for it: a second.
        """
        known = self._java.org.apache.spark.sql.catalyst.QualifiedTableName
        catalog = self._session.sessionState().catalog()  # asks the JVM, which may be gone
        if not self._session.sharedState().cacheManager().isEmpty():
            self._spark.catalog.refreshByPath(table.root)  # cached queries have lists of files of their own
        elif catalog.getCachedTable(known.apply(table.name.database, table.name.name)) is None:
            return
        self._spark.catalog.refreshTable(table.name.sql)

    def _drop_statistics(self, table: Table) -> None:
        """Do what Spark's own INSERT does to statistics that it does not renew."""
        stale = any(name.startswith("spark.sql.statistics.") for name in table.parameters)
        if not stale or not table.partition_columns:  # an unpartitioned table got its new figures in the switch
            return
        option = self._java.scala.Option
        identifier = self._java.org.apache.spark.sql.catalyst.TableIdentifier(
            table.name.name, option.apply(table.name.database)
        )
        self._session.sessionState().catalog().alterTableStats(identifier, option.empty())

    def analysis(self, frame: DataFrame, expression: str | Column) -> Analysis:
        selected = frame.select(F.expr(expression) if isinstance(expression, str) else expression)
        plan = _plan(selected)
        text, patterns = str(plan.toString()), self._java.org.apache.spark.sql.catalyst.trees.TreePattern
        of_users = (patterns.PYTHON_UDF(), patterns.SCALA_UDF())
        nodes = list(_inner_nodes(plan))
        steps = {str(node.nodeName()) for node in nodes}
        return Analysis(
            kinds=tuple(field.dataType for field in selected.schema),
            names=frozenset(name for node in nodes for name in _names(node)),
            is_aggregate="Aggregate" in steps,
            makes_rows="Generate" in steps,
            has_window="Window" in steps,
            has_subquery=plan.subqueriesAll().size() > 0,
            is_deterministic=bool(plan.deterministic()),
            asks_clock=bool(plan.containsPattern(patterns.CURRENT_LIKE())) or asks_clock(f"{expression}\n{text}"),
            has_foreign_code=any(map(plan.containsPattern, of_users)) or HIVE_FUNCTION.search(text) is not None,
        )

    def sources(self, rows: DataFrame) -> tuple[Source, ...]:
        read = islice(leaves(rows), MOST_LEAVES)
        return tuple(dict.fromkeys(source for leaf in read for source in _sources(leaf)))

    def query_ids(self) -> frozenset[str]:
        query_id = query_id_here(self._spark.sparkContext)
        return frozenset([query_id] if query_id else [])

    def session_of_batch(self) -> SparkSession | None:
        run = last_run_here(self._spark)
        return None if run is None else SparkSession(self._spark.sparkContext, run.sparkSession())

    def reads(
        self, rows: DataFrame, opened: OpenTable, *, listed: bool, strict: bool
    ) -> tuple[DataFrame, tuple[TableRead, ...]]:
        query = QueryReads(self._spark, opened)
        rows, is_read = query.with_listed_anew(rows)
        if listed:
            return rows, (*query.of_rdds(rows), *(query.table_reads(rows, strict=strict) if is_read else ()))
        reads = query.table_reads(rows, strict=False) if is_read and query.reads_beside_the_table(rows) else ()
        return rows, tuple(read for read in reads if read.of is not ReadOf.TABLE)

    def version_read(self, rows: DataFrame, table: Table) -> int | None:
        return min(past_versions(rows, str(table.name)), default=None)

    def runs_other_python(self, rows: DataFrame) -> bool:
        plan = _plan(rows)
        python_udf = self._java.org.apache.spark.sql.catalyst.trees.TreePattern.PYTHON_UDF()
        return bool(plan.containsPattern(python_udf)) or PYTHON_NODES.search(plan.toString()) is not None

    def sources_once(self, rows: DataFrame) -> QuerySources | None:
        plan, optimized = _plan(rows), rows._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - the same
        text = f"{plan.toString()}{optimized.toString()}"  # Python's functions have their names in the first
        scala_udf = self._java.org.apache.spark.sql.catalyst.trees.TreePattern.SCALA_UDF()
        runs_as_it_is = RUNS_AS_IT_IS.search(text) or HIVE_FUNCTION.search(text) or plan.containsPattern(scala_udf)
        if runs_as_it_is:
            return None
        found = list(islice(leaves_of(optimized), MOST_LEAVES_OF_FEW + 1))
        if len(found) > MOST_LEAVES_OF_FEW:
            return None
        unknown_bytes = int(self._session.sessionState().conf().defaultSizeInBytes())
        most_tasks = TASKS_OF_FEW * self._spark.sparkContext.defaultParallelism
        total = 0
        for leaf in found:
            size_bytes = int(str(leaf.stats().sizeInBytes()))
            is_unknown = size_bytes >= unknown_bytes
            if is_unknown and not _is_rdd_of_few(leaf, most_tasks):
                return None
            total += 0 if is_unknown else size_bytes
        return QuerySources(size_bytes=total, is_plain=MAKES_ROWS.search(text) is None)

    def with_pinned_types(self, rows: DataFrame) -> DataFrame:
        return rows  # analyzed when it was made

    def statements(self) -> StatementParser:
        return StatementParser(self._spark)

    def is_pattern(self, text: str) -> bool:
        try:
            self._java.java.util.regex.Pattern.compile(text)
        except SPARK_ERRORS:  # PySpark knows some of Java's
            return False
        return True

    def run(self, write_id: str, work: Callable[[], Answer], counted: Counted = tasks) -> Answer:
        with spark_errors_translated(write_id):
            return run_interruptibly(self._spark.sparkContext, work, tag=f"table_writer-{write_id}", counted=counted)

    @contextmanager
    def batches_of(self, row_count: int) -> Iterator[bool]:
        """Set Spark's two limits, and Comet's, for this thread's jobs alone.

        Tasks read them from the properties of their job, into which Spark puts all that a session sets: so no setting
        changes, and nothing of what other threads run meanwhile.
        """
        context: Any = self._spark.sparkContext  # whose annotation forgets that None takes a property away
        conf = self._spark.conf
        limits = {MAX_ROWS_SETTING: str(row_count), MAX_BYTES_SETTING: str(UNWEIGHED)} if row_count else {}
        chosen = {} if any(conf.get(name, None) is not None for name in limits) else limits
        if chosen and is_loaded(self._spark):
            chosen = {**chosen, BATCH_ROWS_SETTING: str(row_count)} if has_no_more_rows(self._spark, row_count) else {}
        before = {name: context.getLocalProperty(name) for name in chosen}
        try:
            for name, value in chosen.items():
                context.setLocalProperty(name, value)
            yield bool(chosen)
        finally:
            for name, former in before.items():
                context.setLocalProperty(name, former)

    def prepare_executors(self) -> None:
        prepare_executors(self._spark.sparkContext)

    def on_executors(
        self, items: Sequence[Item], work: Callable[[Iterable[Item]], Iterator[Answer]], task_count: int
    ) -> Callable[[], list[Answer]]:
        return self._spark.sparkContext.parallelize(items, task_count).mapPartitions(as_sent(work)).collect

    def past_rows(
        self,
        opened: OpenTable,
        subject: str,
        partitions: Sequence[PastPartition],
        *,
        whole: bool = False,
        file_column: str = "",
    ) -> DataFrame:
        past = PastRows(self._spark, opened.table)
        return past.read(subject, partitions, whole=whole, file_column=file_column)

    def files(self, plan: WritePlan, schema: StructType) -> ClassicFiles:
        return ClassicFiles(self._spark, plan, schema)


def _hadoop_settings(hadoop: Any, java: Any) -> dict[str, str]:
    found = {
        f"{prefix}{name}": value
        for prefix in HADOOP_PREFIXES
        for name, value in _texts(hadoop.getPropsWithPrefix(prefix), java).items()
    }
    return found | _kept_secrets(hadoop, java)


def _kept_secrets(hadoop: Any, java: Any) -> dict[str, str]:
    """Return the secrets of stores that are kept in a credential store (JCEKS); they win over clear text, as in Hadoop.

    Azure's names hold the account's, so they are looked for among all; S3's are asked for, as S3A does.
    """
    paths = [path for path in map(hadoop.get, PROVIDER_PATHS) if path]
    if not paths:
        return {}
    keeping = java.org.apache.hadoop.conf.Configuration(hadoop)
    keeping.set(SECRETS_PATH, ",".join(paths))
    providers = java.org.apache.hadoop.security.alias.CredentialProviderFactory.getProviders(keeping)
    aliases = (name for provider in providers for name in provider.getAliases())
    names = {*filter(SECRETS.fullmatch, aliases), *(name for kind in KINDS for name in kind.keys)}
    passwords = {name: keeping.getPassword(name) for name in names}
    return {name: "".join(password) for name, password in passwords.items() if password is not None}


def _texts(found: Any, java: Any) -> dict[str, str]:
    """Return a map of texts by three calls of Java; to ask for each entry takes a hundred times as many."""
    if found.isEmpty():
        return {}
    apart = uuid4().hex  # which is in none of them
    values = get_method(found, "values")()  # Java's: py4j's own goes through the entries
    joined = (java.java.lang.String.join(apart, texts) for texts in (found.keySet(), values))
    return dict(zip(*(texts.split(apart) for texts in joined), strict=True))


class SessionToken:
    """Returns the metastore's delegation token that the session's Java holds, else lets it fetch one.

    Asked for each connection, since Spark renews its tokens. Neither shown, copied nor pickled.
    """

    def __init__(self, java: Any, hadoop: Any, settings: Mapping[str, str]) -> None:
        self._java, self._hadoop = java, hadoop
        self._uris, self._principal = settings.get(URIS, ""), settings.get(PRINCIPAL, "")
        self._signature = settings.get(SIGNATURE, "")

    def __reduce__(self) -> NoReturn:
        raise TypeError("the token of a session's user is not pickled or copied")

    def __call__(self) -> Token:
        """Return a token; ``LoginError`` says why there is none."""
        with without_logs_of(*PY4J_LOGGERS):
            return self._token()

    def _token(self) -> Token:
        try:
            user = self._java.org.apache.hadoop.security.UserGroupInformation.getCurrentUser()
            held = (token for token in user.getTokens().toArray() if str(token.getKind()) == TOKEN_KIND)
            found = next((candidate for candidate in held if str(candidate.getService()) == self._signature), None)
            token = self._fetched_token(user) if found is None else found
            return Token(bytes(token.getIdentifier()), bytes(token.getPassword()))
        except LoginError:
            raise
        except NO_TOKEN as error:
            raise LoginError(
                f"Spark's Java has no delegation token for the metastore, and could not fetch one:"
                f" {spark_reason(str(error))}",
                everywhere=True,  # Java has tried all addresses
            ) from error

    def _fetched_token(self, user: Any) -> Any:
        """Let Hive's own client log in by Kerberos and ask for a token of this user."""
        if not user.hasKerberosCredentials():
            raise LoginError(
                f"this Spark session's user {user.getShortUserName()} has neither a delegation token of the metastore"
                f" ({TOKEN_KIND}, service {self._signature!r}) nor a Kerberos login to fetch one with: submit with"
                " --principal and --keytab, or run kinit before, and set hadoop.security.authentication=kerberos in"
                " core-site.xml",
                everywhere=True,
            )
        user.checkTGTAndReloginFromKeytab()
        hive_conf = self._java.org.apache.hadoop.hive.conf.HiveConf
        conf = hive_conf(self._hadoop, self._java.java.lang.Class.forName("org.apache.hadoop.hive.conf.HiveConf"))
        for name, value in {URIS: self._uris, PRINCIPAL: self._principal, **OF_FETCHING}.items():
            conf.set(name, value)
        client = self._java.org.apache.hadoop.hive.metastore.HiveMetaStoreClient(conf)
        try:
            text = client.getDelegationToken(user.getUserName(), self._principal)  # who may renew it
        finally:
            client.close()
        token = self._java.org.apache.hadoop.security.token.Token()
        token.decodeFromUrlString(text)
        return token


def _is_rdd_of_few(leaf: Any, most_tasks: int) -> bool:
    return str(leaf.getClass().getSimpleName()) in OF_RDDS and leaf.rdd().getNumPartitions() <= most_tasks


def _plan(rows: DataFrame) -> Any:
    return rows._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark has no public way to the plan


def _sources(leaf: Any) -> list[Source]:
    """Return the sources that a leaf of a plan reads, if they have names: a table of any catalog, or directories."""
    kind = str(leaf.getClass().getSimpleName())
    if kind == "HiveTableRelation":
        return [_catalog_table(leaf.tableMeta())]
    if kind == "LogicalRelation":
        if leaf.catalogTable().isDefined():
            return [_catalog_table(leaf.catalogTable().get())]
        relation = leaf.relation()
        is_of_files = str(relation.getClass().getSimpleName()) == "HadoopFsRelation"
        paths = items(relation.location().rootPaths()) if is_of_files else iter(())
        return [Source("", without_password(str(path))) for path in islice(paths, MOST_PATHS)]
    if kind == "DataSourceV2Relation":
        catalog = str(leaf.catalog().get().name()) if leaf.catalog().isDefined() else ""
        location = leaf.table().properties().get("location")
        name = without_s3_logins(str(leaf.table().name()))  # of a table that was read by its path it is the path
        return [Source(name, without_password(str(location or "")), catalog)] if catalog else []
    return []


def _catalog_table(table: Any) -> Source:
    """Return a table of the session's catalog; an unpartitioned one of this library is where its root is."""
    name, where, root = table.identifier(), table.storage().locationUri(), table.properties().get(ROOT_PARAMETER)
    database = f"{name.database().get()}." if name.database().isDefined() else ""
    moves = root.isDefined() and table.partitionColumnNames().size() == 0
    location = root.get() if moves else where.get() if where.isDefined() else ""
    return Source(f"{database}{name.table()}", without_password(str(location)))


def _inner_nodes(plan: Any) -> Iterator[Any]:
    children = plan.children()
    if children.size():
        yield plan
    for position in range(children.size()):
        yield from _inner_nodes(children.apply(position))


def _names(node: Any) -> Iterator[str]:
    found = node.references().toSeq()
    yield from (str(found.apply(position).name()) for position in range(found.size()))


def run_interruptibly(
    context: SparkContext, work: Callable[[], Answer], *, tag: str, counted: Counted = tasks
) -> Answer:
    """Run what starts Spark jobs; when it fails or is interrupted, return only after its tasks have ended (or 15 s).

    The work runs on a thread of its own. On the caller's, Ctrl-C would cut the connection to Java between a question
    and its answer, and the request to cancel would wait behind the job that it is to cancel.

    Meanwhile the progress of this thread's write shows the tasks, or what ``counted`` makes of how many are done.
    """
    outcome: Future[Answer] = Future()
    own_tag = f"{tag}-{uuid4().hex}"  # of this run: the write may have had others

    def run() -> None:
        try:
            context.addJobTag(tag)
            context.addJobTag(own_tag)
            with without_query_log():
                outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again on the caller's thread
            outcome.set_exception(error)

    # keeps the caller's job group, pool, description
    thread: Any = InheritableThread(target=run, name=tag, daemon=True)
    thread.start()
    try:
        with current().asking(TaskCounter(context, own_tag, counted)):
            return outcome.result()
    except BaseException:  # Ctrl-C above all
        _end_tasks(context, tag, outcome)
        raise


def _end_tasks(context: SparkContext, tag: str, outcome: Future[Any]) -> None:
    """Cancel and wait, so that whoever cleans up next finds the uploads of these tasks.

    A Python worker can outlive its task by the seconds it takes to notice; what it leaves is vacuum's.
    """
    try:
        context.cancelJobsWithTag(tag)
        deadline = time.monotonic() + LAST_TASKS_SECONDS
        while not outcome.done() or any(
            stage.numActiveTasks for job in _jobs(context, tag) for stage in _stages(context, job)
        ):
            if time.monotonic() > deadline:
                logger.warning("tasks of %s still run %.0f s after they were cancelled", tag, LAST_TASKS_SECONDS)
                return
            time.sleep(POLL_SECONDS)
    except (Py4JError, OSError):
        logger.warning("tasks of %s could not be cancelled: Spark does not answer", tag, exc_info=True)


@dataclass
class TaskCounter:
    """Asks Spark how many tasks of a run are done. A job that is over is not asked about again."""

    context: SparkContext
    tag: str
    counted: Counted
    over: dict[int, int] = field(default_factory=dict)  # jobs and the number of their tasks

    def __call__(self) -> tuple[int, int, str]:
        """Return the progress, as far as Spark has planned the work: further stages may come."""
        done = total = 0
        for job in _jobs(self.context, self.tag, known=self.over):
            stages = _stages(self.context, job)
            finished = sum(stage.numCompletedTasks for stage in stages)
            if job.status == "RUNNING":
                total += sum(stage.numTasks for stage in stages)
                done += finished
            else:
                self.over[job.jobId] = finished  # stages that were skipped have tasks, and none of them is ever done
        ended = sum(self.over.values())
        return self.counted(done + ended, total + ended)


def _jobs(context: SparkContext, tag: str, known: Container[int] = ()) -> list[SparkJobInfo]:
    tracker = context.statusTracker()
    ids: Any = context._jsc.sc().statusTracker().getJobIdsForTag(tag)  # noqa: SLF001 - Python's lacks tags
    found = (tracker.getJobInfo(job) for job in ids if job not in known)
    return [job for job in found if job is not None]


def _stages(context: SparkContext, job: SparkJobInfo) -> list[SparkStageInfo]:
    found = map(context.statusTracker().getStageInfo, job.stageIds)
    return [stage for stage in found if stage is not None]
