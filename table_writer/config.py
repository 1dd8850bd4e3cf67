"""Settings of a writer: frozen, complete and valid at construction, units in the names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Literal, TypedDict, get_args

from table_writer.checked import checked, require_age
from table_writer.errors import InvalidInputError, require_extra
from table_writer.events.listeners import EventListener, require_listeners
from table_writer.metastore.sasl import Token
from table_writer.metastore.settings import GLUE_SCHEME, GlueSettings
from table_writer.model.defaults import DIRECTORY_NAME, METASTORE_TIMEOUT_SECONDS, PUBLISH_TIMEOUT_SECONDS
from table_writer.model.entry import WRITE_ID
from table_writer.model.location import Location, without_login
from table_writer.model.message import FILE_NAME_PREFIX, is_file_name_prefix
from table_writer.model.new_table import NewTable
from table_writer.model.units import DAY_SECONDS, MIB
from table_writer.model.upload_spec import MAX_PART_BYTES, MIN_PART_BYTES
from table_writer.model.write_mode import WriteMode
from table_writer.progress import PROGRESS_CHOICES, ProgressListener
from table_writer.storage.kinds import BY_SCHEME, known_kind
from table_writer.storage.s3.settings import S3Overrides

MOST_EXAMPLES: Final = 5  # rows that a failed check shows
MAX_COPIED_BYTES: Final = 50 * 1024 * MIB  # of one append: some minutes of copying inside S3
SUFFIXES: Final = (".json", ".checks-")  # of objects that are named after a write
SchemaChoice = Literal["strict", "allow_missing", "evolve", "replace"]
MergeSchema = Literal["strict", "evolve"]
Engine = Literal["auto", "arrow", "spark"]
Distribution = Literal["auto", "none", "hash", "rebalance"]
Carry = Literal["copy", "in_place"]
TARGET_FILE_BYTES: Final = 128 * MIB  # of a compaction: a block of HDFS, and what Spark reads in one task
MIN_FILES: Final = 8  # a partition with fewer is not compacted: each file costs a reader one request
MetastoreKind = Literal["hive", "glue"]
ColumnStatisticsChoice = Literal["auto", "on", "off"]
MOST_FIGURES: Final = 1_000  # partitions x columns of a write: what costs Hive 2.3 about a second
EmptyAction = Literal["error", "ignore", "replace"]
MarkSuccess = bool | Literal["partitions"]
Renames = Literal["note", "error"]
MirrorKind = Literal["delta", "iceberg"]
MIRROR_KINDS: Final[tuple[str, ...]] = get_args(MirrorKind)


@checked
@dataclass(frozen=True, kw_only=True, slots=True)
class TableWriterConfig:
    """The settings of a :class:`~table_writer.TableWriter`. Those that are ``None`` come from the Spark session.

    Parameters
    ----------
    metastore
        ``"hive"`` or ``"glue"``. Default: AWS Glue where ``metastore_uris`` begins with ``glue://``, or the session's
        own client asks Glue (``AWSGlueDataCatalogHiveClientFactory``); else a Hive metastore.
    metastore_uris
        ``thrift://host:port``, several for failover, or ``glue://REGION/CATALOG_ID``. Default: ``hive.metastore.uris``.
    glue
        Region, catalog and manners, where the metastore is AWS Glue.
    metastore_ca_file
        PEM file to trust, for ``hive.metastore.use.SSL=true``: Python cannot read Java's trust stores.
    metastore_password
        Of ``hive.metastore.client.plain.username``, for ``hive.metastore.client.auth.mode=PLAIN``. Never shown.
        Default: what Hadoop's credential store has under the user's name.
    metastore_password_in_clear
        Whether that password, or the token of the variable ``HMS_JWT``, may go over a connection without TLS.
    metastore_timeout_seconds
        How long one metastore call may take. Not Spark's ``hive.metastore.client.socket.timeout`` of ten minutes: a
        claim lasts twice as long, and that of a writer that died before its switch is waited for.
    sees_everything
        Whether the metastore hides no database, table, partition or column from this role. AWS Glue, and Hive with
        Ranger or Sentry, answer with what the role may see: a vacuum deletes what no table seems to use only if this is
        ``True``, or the metastore is known to answer alike for all.
    publish_timeout_seconds
        How long a claim is this writer's alone; after it others recover it. At least twice the metastore's timeout plus
        five seconds, since a publish that adds and replaces partitions sends two calls.
    hadoop
        Hadoop settings (``fs.s3a.*``, also per bucket, ``hive.metastore.*``) that win over the session's. Not shown:
        credentials may be among them.
    s3
        What of S3 is to be said here and not in Hadoop's words: credentials, profile, timeouts, checksums.
    part_size_bytes
        Bytes of each uploaded part but a file's last. Default: ``fs.s3a.multipart.size``, at most 16 MiB, since every
        task keeps several parts in memory.
    upload_threads
        Threads that send parts, per Spark task.
    complete_threads
        Threads on the driver that complete the uploads of a write of fewer than 2,000 files; executors complete those
        of larger ones. Default: ``fs.s3a.committer.threads``.
    max_open_files
        Files a task keeps open at once; rows of further partitions are sorted by partition on local disk first. The
        memory a task needs is given by the formula at :class:`~table_writer.model.upload_spec.UploadSpec`.
    buffer_bytes
        Rows a task keeps in memory before they are encoded, over all its open files.
    row_group_bytes
        Rows of one Parquet row group, in memory before encoding. Default: ``parquet.block.size``.
    retention
        How long replaced data stays for queries that still read it. The table property ``table_writer.retention``
        (in hours) wins.
    heartbeat_seconds
        How often a running write gives a sign of life. One that has missed five, and is older than a vacuum's age, is
        taken for dead.
    directory_name
        Name of the directory below the table root that holds this library's files; starts with ``_`` or ``.``.
    mark_success
        Whether to write ``_SUCCESS`` into the table's root. ``"partitions"``: for each partition as well, into
        ``dt=2024-01-01/`` below the root, wherever its rows lie; it goes with the partition. Default:
        ``mapreduce.fileoutputcommitter.marksuccessfuljobs``.
    report_directory
        Where a report of each call that changes rows is put, also of one that fails: the JSON of its event, in a file
        whose name begins with the time. ``s3a://bucket/prefix``, ``abfss://…``, ``gs://…`` or ``file:///directory`` of
        the driver.
    file_name_prefix
        How names of files begin: up to 64 letters, digits, ``_`` and ``-``, the first a letter or digit. Spark's own
        writer names its files itself.
    renames
        Where Spark's own writer would rename files on S3, which copies them: ``"note"`` says so in the result,
        ``"error"`` refuses the write.
    progress
        How a write of more than a second shows how far it is: ``"bar"``, ``"log"`` (lines of level INFO to the logger
        ``table_writer``), ``"off"``, or who is to be told, a :class:`~table_writer.progress.ProgressListener`.
        ``"auto"``: what the variable ``TABLE_WRITER_PROGRESS`` says, else a bar in a terminal or a notebook, else the
        log, or standard error where no logging is configured.
    listeners
        Who is told of each call once it is over, and of entries that were resolved: functions that take a
        :class:`~table_writer.events.TableEvent`. No error of theirs makes a call fail. Not shown: one may hold a key.
    check_examples
        How many wrong rows the result of a failed check shows, at most 1,000; 0 for none. Messages still name
        partitions, newest values and what a function says, and Spark's own log may quote a value.
    column_statistics
        Whether the metastore gets column statistics of the Parquet files of a write, for the optimizers of Trino, Hive
        and Spark: ``"on"``; ``"off"``; or ``"auto"``, where the write's partitions times its columns are at most 1,000:
        a metastore needs a millisecond for each. Those of the rows that a write replaces are removed in any case.
        Spark takes those of an unpartitioned table; of others ``ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS``
        makes its own.
    mirrors
        What else the table is at once, from the same files: ``["delta", "iceberg"]``. A publish makes the mirrors that
        are not there yet. The table property ``table_writer.mirrors`` (kinds with commas between them) wins. A mirror
        that is there is followed by every writer, whatever its settings say.
    iceberg_catalog
        The catalog in which Iceberg mirrors are begun, by the name that pyiceberg's own configuration gives it. Empty:
        the metastore of the table, where the mirror of ``mart.orders`` is ``mart.orders_iceberg``.
    log_memory_bytes
        How much memory the log of a table may take while it is read in whole; some 1,700 bytes for each partition that
        an entry names. A log that takes more is refused: it is damaged, or a vacuum must be allowed to trim it.

    Raises
    ------
    InvalidInputError
        A value is out of its range.

    Examples
    --------
    >>> TableWriterConfig(upload_threads=4).upload_threads
    4
    """

    metastore: MetastoreKind | None = None
    metastore_uris: tuple[str, ...] | None = None
    glue: GlueSettings = field(default_factory=GlueSettings)
    metastore_ca_file: str = ""
    metastore_password: str = field(default="", repr=False)
    metastore_password_in_clear: bool = False
    metastore_timeout_seconds: float = METASTORE_TIMEOUT_SECONDS
    sees_everything: bool = False
    publish_timeout_seconds: float = PUBLISH_TIMEOUT_SECONDS
    hadoop: Mapping[str, str] = field(default_factory=dict, repr=False)
    s3: S3Overrides = field(default_factory=S3Overrides)
    part_size_bytes: int | None = None
    upload_threads: int = 4
    complete_threads: int | None = None
    max_open_files: int = 20
    buffer_bytes: int = 128 * MIB
    row_group_bytes: int | None = None
    retention: timedelta = timedelta(days=3)
    heartbeat_seconds: float = 60.0
    directory_name: str = DIRECTORY_NAME
    mark_success: MarkSuccess | None = None
    report_directory: str | None = None
    file_name_prefix: str = FILE_NAME_PREFIX
    renames: Renames = "note"
    progress: str | ProgressListener = "auto"
    listeners: Sequence[EventListener] = field(default=(), repr=False)
    check_examples: int = MOST_EXAMPLES
    column_statistics: ColumnStatisticsChoice = "auto"
    mirrors: Sequence[str] = ()
    iceberg_catalog: str = ""
    log_memory_bytes: int = 2048 * MIB

    @property
    def most_figures(self) -> int:
        """Return for how many columns, counted in each partition, one write gives the metastore statistics."""
        return {"auto": MOST_FIGURES, "on": sys.maxsize, "off": 0}[self.column_statistics]

    @property
    def metastore_setting(self) -> Mapping[str, str]:
        """Return Hadoop's setting for :attr:`metastore_uris`; empty if they are not given."""
        return {"hive.metastore.uris": ",".join(self.metastore_uris)} if self.metastore_uris else {}

    def __post_init__(self) -> None:
        """Refuse values that could not work, at the call and not on an executor an hour later."""
        if self.metastore_uris is not None:
            object.__setattr__(self, "metastore_uris", tuple(map(without_login, self.metastore_uris)))
        _require(self, self._rules())
        require_mirrors(self.mirrors, "mirrors")
        object.__setattr__(self, "mirrors", tuple(self.mirrors))
        if "iceberg" in self.mirrors:
            require_extra("iceberg", "an Iceberg mirror", "pyiceberg")
        require_listeners(self.listeners)
        object.__setattr__(self, "listeners", tuple(self.listeners))
        require_age("retention", self.retention)
        if self.report_directory is not None:
            location = Location.parse(self.report_directory)
            object.__setattr__(self, "report_directory", str(location))  # without a login
            rule = known_kind(location) is not None
            _require(self, {"report_directory": (rule, f"a location of {', '.join(sorted(BY_SCHEME))}")})
        if self.metastore and self.metastore_uris:
            rule = all(uri.startswith(GLUE_SCHEME) for uri in self.metastore_uris) == (self.metastore == "glue")
            _require(self, {"metastore_uris": (rule, f"addresses of metastore={self.metastore!r}")})

    def _rules(self) -> dict[str, tuple[bool, str]]:
        """Return by setting whether its value can work, and what is expected."""
        directory = self.directory_name
        return {
            "metastore_timeout_seconds": (self.metastore_timeout_seconds > 0, "positive"),
            "publish_timeout_seconds": (
                2 * self.metastore_timeout_seconds + 5 <= self.publish_timeout_seconds <= DAY_SECONDS,
                "at least 2 x metastore_timeout_seconds + 5, and at most a day",
            ),
            "part_size_bytes": (
                self.part_size_bytes is None or MIN_PART_BYTES <= self.part_size_bytes <= MAX_PART_BYTES,
                "between 5 MiB and 5 GiB, as S3 demands",
            ),
            "upload_threads": (self.upload_threads >= 1, "at least 1"),
            "complete_threads": (self.complete_threads is None or self.complete_threads >= 1, "at least 1"),
            "max_open_files": (self.max_open_files >= 1, "at least 1"),
            "buffer_bytes": (self.buffer_bytes >= MIB, "at least 1 MiB"),
            "row_group_bytes": (self.row_group_bytes is None or self.row_group_bytes >= MIB, "at least 1 MiB"),
            "heartbeat_seconds": (0 < self.heartbeat_seconds <= 3600, "positive, at most an hour"),
            "directory_name": (
                directory.startswith(("_", "."))
                and "/" not in directory
                and directory not in {".", ".."}
                and directory.strip() == directory,
                "a plain name that starts with '_' or '.', so that listings of the table root skip it",
            ),
            "file_name_prefix": (
                is_file_name_prefix(self.file_name_prefix),
                "up to 64 letters, digits, '_' and '-', the first a letter or digit, and no write_id in it",
            ),
            "progress": (
                not isinstance(self.progress, str) or self.progress in PROGRESS_CHOICES,
                f"one of {', '.join(PROGRESS_CHOICES)}, or a listener, which is called with a Progress",
            ),
            "log_memory_bytes": (self.log_memory_bytes >= 64 * MIB, "at least 64 MiB"),
            "check_examples": (0 <= self.check_examples <= 1000, "0 to 1,000"),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionSettings:
    """A session's settings as plain data."""

    # the settings with which Spark would write, hive-site.xml too; holds credentials
    hadoop: Mapping[str, str] = field(repr=False)
    spark_version: str = ""  # for example ``4.3.0``; empty without Spark
    application_id: str = ""  # Spark's own name of the application
    hive_client: str = ""  # version of the client with which Spark asks the metastore; empty without Spark
    # a fresh one; None: Kerberos is asked
    metastore_token: Callable[[], Token] | None = field(default=None, repr=False)
    unseen: str = ""  # the settings that the session does not show; empty if it shows all
    missing_jar: str = ""  # Maven coordinate of what S3A's magic committer needs; empty where the session has it


class WriteKeywords(TypedDict, total=False):
    """The keywords of every write call; :class:`WriteOptions` says what they mean."""

    where: str
    schema: SchemaChoice
    engine: Engine
    distribution: Distribution
    sort_by: Sequence[str]
    target_file_bytes: int | None
    if_empty: EmptyAction
    if_missing: NewTable | None
    carry: Carry
    max_copied_bytes: int | None
    based_on: int | None
    idempotency_key: str
    tags: Mapping[str, str]
    write_uuid: str
    checks: Sequence[object]


class NewTableKeywords(TypedDict, total=False):
    """The keywords of ``create_table``; :class:`~table_writer.spark.create_table.NewTable` says what they mean."""

    partition_by: Sequence[str]
    location: str
    format: str
    compression: str
    comment: str
    properties: Mapping[str, str]
    options: Mapping[str, str]


@checked
@dataclass(frozen=True, kw_only=True, slots=True)
class WriteOptions:
    """The options of one write call.

    Parameters
    ----------
    where
        ``overwrite_partitions`` only: a SQL predicate that tells partitions apart by their columns. Exactly those it
        selects are replaced, those without rows are dropped; a row outside is an error.
    schema
        ``"strict"``: the DataFrame has the table's columns, in any order. ``"allow_missing"``: missing nullable columns
        get their defaults, or null. ``"evolve"``: so they do, and columns the table does not have are added to it.
        ``"replace"``, of ``overwrite_table`` and tables without partitions only: the table gets exactly the DataFrame's
        columns, with their order, types and comments, in the call that shows its rows.
    engine
        Who encodes the files. ``"arrow"``: this library in Spark's tasks, Parquet only. ``"spark"``: Spark's own
        writer, every format that it can write into a Hive table, buckets too, into this write's own location; names and
        sizes of files are Spark's then. ``"auto"``: Arrow where it can write the table, else Spark; and of few rows, up
        to 65,536 and 32 MiB in Arrow, the driver writes the files by itself, which is done before Python workers would
        have begun. Where rows turn out to be more, they are computed again, for tasks: not where functions of your own
        are in the query, or an order. Of Spark 4.0 and newer.
    distribution
        ``"none"``: each task writes the partitions it has rows of. ``"hash"``: all rows of a partition go to one task.
        ``"rebalance"``: Spark's adaptive execution chooses tasks of its advisory size, by partition. ``"auto"``:
        ``"hash"`` for an append in place, since there each file appears by itself; else ``"none"``.
    sort_by
        Columns by which the rows of each file are sorted.
    target_file_bytes
        Size at which a task closes a file and opens the next, in bytes; at least 1 MiB. ``None``: one file per
        partition and task.
    if_empty
        The DataFrame has no rows: ``"error"``; ``"ignore"`` changes nothing; ``"replace"`` replaces with nothing what
        the call replaces (``overwrite_table``, and ``overwrite_partitions`` with ``where``).
    if_missing
        How to make the table if it does not exist; ``None`` makes that an error.
    carry
        ``append`` only: how the new rows come beside those that a partition has. ``"copy"``: the store copies the files
        that are there into a new location, and readers see all new rows of all partitions at once. ``"in_place"``: the
        new files are added to the location that readers look at, file by file within one commit; nothing that is there
        is listed or copied.
    max_copied_bytes
        ``append`` only: the largest number of bytes of existing files to copy; ``None`` for no limit.
    based_on
        The version of the table that the rows were computed from, as :meth:`TableWriter.version_of` tells it. The call
        ends in a ``ConflictError`` if a partition of the write, also of an append, was published after it, except by a
        compaction. For rows whose origin Spark's plan does not show: pandas, ``localCheckpoint``. Of a number from a
        result or the history, what had been claimed before that version and was published after it counts as after it.
    idempotency_key
        Up to 500 characters. A call with a key that was published already, and not rolled back, does nothing.
    tags
        Texts kept in the table's log and shown in its history. Not for secrets.
    write_uuid
        The ``write_id``, where every file name is to have a scheduler's run id: up to 80 letters, digits, ``.``, ``_``
        and ``-``. Refused if it was used before. If it has the form of a name that this library makes, finding out
        reads the table's whole log.
    checks
        What must be true of the rows before readers see them: checks of :mod:`table_writer.check`, or any callable that
        takes the staged DataFrame and fails an assertion.

    Raises
    ------
    InvalidInputError
        A value is none of these, or does not go with the mode.

    Examples
    --------
    >>> WriteOptions(distribution="rebalance", sort_by=["order_id"]).engine
    'auto'
    """

    where: str = ""
    schema: SchemaChoice = "strict"
    engine: Engine = "auto"
    distribution: Distribution = "auto"
    sort_by: Sequence[str] = ()
    target_file_bytes: int | None = None
    if_empty: EmptyAction = "error"
    if_missing: NewTable | None = None
    carry: Carry = "copy"
    max_copied_bytes: int | None = MAX_COPIED_BYTES
    based_on: int | None = None
    idempotency_key: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    write_uuid: str = ""
    checks: Sequence[object] = ()

    def __post_init__(self) -> None:
        size, limit, name = self.target_file_bytes, self.max_copied_bytes, self.write_uuid
        is_name = WRITE_ID.fullmatch(name) is not None and not any(suffix in name for suffix in SUFFIXES)
        rules = {
            "target_file_bytes": (size is None or size >= MIB, "None, or at least 1 MiB"),
            "max_copied_bytes": (limit is None or limit >= 0, "None, or a number of bytes"),
            "based_on": (self.based_on is None or self.based_on >= 0, "None, or a version of the table"),
            "idempotency_key": (len(self.idempotency_key) <= 500, "a text of up to 500 characters"),
            "write_uuid": (not name or is_name, f"a text: {WRITE_ID.pattern}, without {' or '.join(SUFFIXES)}"),
        }
        _require(self, rules)
        object.__setattr__(self, "sort_by", tuple(self.sort_by))
        object.__setattr__(self, "tags", dict(self.tags))
        object.__setattr__(self, "checks", tuple(self.checks))

    def require_fit(self, mode: WriteMode) -> None:
        """Refuse options that have no effect in a mode: the caller expects something else."""
        if self.where and not mode.facts.takes_predicate:
            raise InvalidInputError(f"where belongs to overwrite_partitions; {mode.value} has no predicate")
        if self.carry != "copy" and not mode.facts.keeps_rows:
            raise InvalidInputError(
                f"carry={self.carry!r} belongs to append; {mode.value} keeps no rows of a partition"
            )
        if self.schema == "replace" and not mode.facts.replaces_table:
            raise InvalidInputError(
                f"schema='replace' belongs to overwrite_table; {mode.value} leaves rows that have the table's columns"
            )
        whole = mode.facts.replaces_table or self.where != ""
        if self.if_empty == "replace" and not whole:
            raise InvalidInputError(
                f"if_empty='replace' needs something to replace: overwrite_table, or overwrite_partitions with where;"
                f" {mode.value} replaces only partitions that there are rows for"
            )


class RowKeywords(TypedDict, total=False):
    """The keywords of every call that changes rows; :class:`RowOptions` says what they mean."""

    retries: int
    engine: Engine
    distribution: Distribution
    sort_by: Sequence[str]
    target_file_bytes: int | None
    idempotency_key: str
    tags: Mapping[str, str]
    checks: Sequence[object]


class SelectedRowKeywords(RowKeywords, total=False):
    """The same, for calls that look at some partitions only."""

    where: str


class StatementKeywords(WriteKeywords, total=False):
    """The keywords of ``sql``: those of the call that the statement stands for, which refuses others."""

    retries: int


@checked
@dataclass(frozen=True, kw_only=True, slots=True)
class RowOptions:
    """The options of one call that changes rows.

    Parameters
    ----------
    where
        A SQL predicate over partition columns: which partitions to look at; by default all.
    retries
        How often the call begins again, with newer rows, after somebody else has published what it read: at most 1,000.
    engine
        As for writes.
    distribution
        As for writes. ``"auto"``: ``"rebalance"`` for a merge and a deduplication, whose tasks have rows of all
        partitions; else ``"none"``.
    sort_by
        As for writes.
    target_file_bytes
        As for writes.
    idempotency_key
        As for writes: a call with a key that was published already, and not rolled back, does nothing.
    tags
        As for writes.
    checks
        As for writes: of all rows that the touched partitions hold afterwards.

    Raises
    ------
    InvalidInputError
        A value is none of these.

    Examples
    --------
    >>> RowOptions(where="dt >= '2024-02-01'", retries=3).retries
    3
    """

    where: str = ""
    retries: int = 0
    engine: Engine = "auto"
    distribution: Distribution = "auto"
    sort_by: Sequence[str] = ()
    target_file_bytes: int | None = None
    idempotency_key: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    checks: Sequence[object] = ()

    def __post_init__(self) -> None:
        _require(self, {"retries": (0 <= self.retries <= 1000, "0 to 1,000")})
        self.of_write(based_on=0)  # the other values are refused as those of writes are

    def of_write(self, *, based_on: int) -> WriteOptions:
        """Return the options of the write, whose rows are based on a version of the table."""
        return WriteOptions(
            engine=self.engine,
            distribution=self.distribution,
            sort_by=self.sort_by,
            target_file_bytes=self.target_file_bytes,
            based_on=based_on,
            idempotency_key=self.idempotency_key,
            tags=self.tags,
            checks=self.checks,
        )


class CompactKeywords(TypedDict, total=False):
    """The keywords of ``compact``; :class:`CompactOptions` says what they mean."""

    where: str
    target_file_bytes: int
    min_files: int
    distribution: Distribution
    sort_by: Sequence[str]
    tags: Mapping[str, str]


@checked
@dataclass(frozen=True, kw_only=True, slots=True)
class CompactOptions:
    """The options of one compaction.

    Parameters
    ----------
    where
        A SQL predicate over partition columns: which partitions to look at; by default all.
    target_file_bytes
        Size of the files to write, in bytes; at least 1 MiB. Files of three quarters of it and more stay as they are.
    min_files
        A partition with fewer small files is left alone; at least 2.
    distribution
        As for writes. ``"auto"`` gives each task the rows of one file.
    sort_by
        As for writes.
    tags
        As for writes.

    Raises
    ------
    InvalidInputError
        A value is none of these.

    Examples
    --------
    >>> CompactOptions(where="dt < '2024-02-01'").min_files
    8
    """

    where: str = ""
    target_file_bytes: int = TARGET_FILE_BYTES
    min_files: int = MIN_FILES
    distribution: Distribution = "auto"
    sort_by: Sequence[str] = ()
    tags: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rules = {
            "target_file_bytes": (self.target_file_bytes >= MIB, "at least 1 MiB"),
            "min_files": (self.min_files >= 2, "at least 2"),  # one file cannot become fewer
        }
        _require(self, rules)


def write_mode(name: str) -> WriteMode:
    """Read the name of a write mode; ``InvalidInputError`` lists them."""
    try:
        return WriteMode(name)
    except ValueError as error:
        raise InvalidInputError(f"mode={name!r}: expected one of {WriteMode.described()}") from error


def _require(settings: object, rules: Mapping[str, tuple[bool, str]]) -> None:
    """Refuse values that break their rules, each given by name, with whether it holds and what is expected."""
    for name, (holds, expected) in rules.items():
        if not holds:
            raise InvalidInputError(f"{name}={getattr(settings, name)!r}: expected {expected}")


def require_mirrors(kinds: Collection[str], where: str) -> None:
    """Refuse kinds of mirrors that there are not; ``where`` names the setting."""
    for kind in kinds:
        if kind not in MIRROR_KINDS:
            raise InvalidInputError(f"{where} names {kind!r}: expected {', '.join(MIRROR_KINDS)}")
