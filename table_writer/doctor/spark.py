"""Checks of Spark's settings that decide whether a write has the memory it needs, and how fast it is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from table_writer.doctor.findings import error, note, ok, warning
from table_writer.doctor.subject import Subject
from table_writer.errors import counted
from table_writer.jobs.plan.file_options import LEVEL_KEYS, codec_of, is_arrows
from table_writer.jobs.plan.parquet_settings import FileSettings
from table_writer.metastore.settings import unusable_client
from table_writer.model.units import BINARY, DAY_SECONDS, MIB
from table_writer.model.upload_spec import ParquetOptions, UploadSpec
from table_writer.reports.health_reports import Finding
from table_writer.storage.kinds import kind_of
from table_writer.storage.s3.hadoop import PREFIX as S3A_PREFIX
from table_writer.storage.s3.hadoop import bucket_values
from table_writer.storage.store_kind import Tuning

ZSTD_LEVEL: Final = LEVEL_KEYS["zstd"]
WRITTEN_ALL_DAY: Final = 24  # versions
UNITS: Final = {**BINARY, "b": 1}
WORKER_MIB: Final = 200  # the interpreter, Arrow and boto3: docs/how-to/run-on-a-cluster.md
ADDRESSES_MIB: Final = 2_560  # of a worker: Arrow's allocator reserves more than it uses, as the same page says
PYTHON_LIMIT: Final = "spark.executor.pyspark.memory"  # of addresses (RLIMIT_AS), divided among the workers
LARGEST_PART_BYTES: Final = 16 * MIB  # as a plan takes it, unless the config says more
SMALLEST_PART_BYTES: Final = 5 * MIB  # S3
DEFAULT_BUFFER_BYTES: Final = 64 * 1024  # Spark's own of the setting below
LEAST_OVERHEAD_MIB: Final = 384  # Spark
SOCKET_SINCE: Final = (4, 3)  # where it was measured to help
COMET: Final = "org.apache.spark.CometPlugin"
COMETS_SHUFFLE: Final = "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager"
OF_COMET: Final = {  # what lets it hand its batches to Python, and what each is where nobody has set it
    "spark.comet.exec.pyarrowUDF.enabled": "false",
    "spark.memory.offHeap.enabled": "false",
    "spark.comet.enabled": "true",
    "spark.comet.exec.enabled": "true",
}
ABORT: Final = "committer.abort.pending.uploads"
CLOUD_JAR: Final = "org.apache.spark:spark-hadoop-cloud_2.13:VERSION_OF_SPARK"
SAYING_JARS: Final = (
    "spark.jars",
    "spark.jars.packages",
    "spark.driver.extraClassPath",
    "spark.sql.sources.commitProtocolClass",  # which Spark 4.1 and later set by themselves if the jar is there
)

OF_THE_JAR: Final = ("spark-hadoop-cloud", "PathOutputCommitProtocol")
S3A_COMMITTERS: Final = frozenset({"magic", "directory", "partitioned"})
WEEK_SECONDS: Final = 7 * DAY_SECONDS
NOT_ON_S3A: Final = "the table does not lie on S3A"
PURGE_AGE_SECONDS: Final = float(DAY_SECONDS)  # Hadoop's default


def setting(subject: Subject, name: str) -> str:
    return (subject.spark_conf or {}).get(name, "").strip()


def flag(subject: Subject, name: str, *, default: bool) -> bool:
    return {"true": True, "false": False}.get(setting(subject, name).lower(), default)


def number(subject: Subject, name: str, default: float) -> float:
    text = setting(subject, name)
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else default


def size_bytes(subject: Subject, name: str, *, default: int | None, unit: int = 1) -> int | None:
    """Return a size such as ``4m`` or ``512MB``; a bare number counts in ``unit`` bytes."""
    match = re.fullmatch(r"(\d+)([bkmgtp]?)(?:i?b)?", setting(subject, name).lower())
    if match is None:
        return default
    return int(match[1]) * (UNITS[match[2]] if match[2] else unit)


def memory(subject: Subject) -> Iterable[Finding]:
    master = setting(subject, "spark.master")
    if master.startswith("local"):
        yield ok(f"{master}: the tasks share this machine's memory with all else")
        return
    cores = int(number(subject, "spark.executor.cores", 0))
    bound_mib = -(-_bound_bytes(subject) // MIB) + WORKER_MIB
    if not cores and (not master or master.startswith("spark://")):
        yield note(
            f"spark.executor.cores is not set; each core of an executor needs up to {bound_mib} MiB beside the heap",
            f"set spark.executor.memoryOverhead to (cores / spark.task.cpus) × {bound_mib} MiB, or keep that much free",
        )
        return
    tasks = max(1, int(max(cores, 1) / max(1.0, number(subject, "spark.task.cpus", 1))))
    name, room_mib = _room(subject)
    needed_mib = tasks * (ADDRESSES_MIB if name == PYTHON_LIMIT else bound_mib)
    at_once = f"{counted(tasks, 'task')} at a time"
    says = f"Python workers take up to {needed_mib:,} MiB for {at_once}, and {name} gives {room_mib:,} MiB"
    if room_mib >= needed_mib:
        yield ok(says)
    else:
        yield warning(
            f"{says}: executors may be killed by the resource manager",
            f"set {name.split(' ')[0]}={needed_mib}m, or lower buffer_bytes in TableWriterConfig",
        )


def _tuning(subject: Subject) -> Tuning:
    root = subject.opened.layout.root
    return kind_of(root).tuning(root, subject.hadoop)


def _bound_bytes(subject: Subject) -> int:
    opened = subject.opened
    config = opened.config
    configured = _tuning(subject).part_bytes or LARGEST_PART_BYTES
    spec = UploadSpec(
        write_id="w",
        key_prefix="w/",
        store=None,
        data_columns=("c",),
        partition_columns=(),
        file_options=ParquetOptions(),
        part_size_bytes=config.part_size_bytes or max(SMALLEST_PART_BYTES, min(configured, LARGEST_PART_BYTES)),
        upload_threads=config.upload_threads,
        max_open_files=config.max_open_files,
        buffer_bytes=config.buffer_bytes,
    )
    return spec.memory_bytes()


def _room(subject: Subject) -> tuple[str, int]:
    """Return the setting that gives Python workers their memory, and its MiB."""
    of_python = size_bytes(subject, PYTHON_LIMIT, default=None, unit=MIB)
    if of_python:
        return PYTHON_LIMIT, of_python // MIB
    overhead = size_bytes(subject, "spark.executor.memoryOverhead", default=None, unit=MIB)
    if overhead is not None:
        return "spark.executor.memoryOverhead", overhead // MIB
    heap_mib = (size_bytes(subject, "spark.executor.memory", default=None, unit=MIB) or 1024 * MIB) // MIB
    usual = 0.4 if setting(subject, "spark.master").startswith("k8s") else 0.1  # Spark: 0.4 for Python on Kubernetes
    factor = number(subject, "spark.executor.memoryOverheadFactor", usual)
    return "spark.executor.memoryOverhead (not set)", max(LEAST_OVERHEAD_MIB, int(factor * heap_mib))


def part_size(subject: Subject) -> Iterable[Finding]:
    configured = _tuning(subject).part_bytes
    if subject.opened.config.part_size_bytes is None and configured is not None and configured < SMALLEST_PART_BYTES:
        yield error(
            f"fs.s3a.multipart.size is {configured:,} bytes; S3 takes no part under 5 MiB, so every write is refused",
            "set spark.hadoop.fs.s3a.multipart.size=16M, or part_size_bytes in TableWriterConfig",
        )
    else:
        yield ok("parts have a size that the store takes; those above 16 MiB only if the config says so")


def buffer_size(subject: Subject) -> Iterable[Finding]:
    """Warn of a larger buffer between the JVM and Python: it was measured to be slower."""
    name = "spark.sql.execution.pandas.udf.buffer.size"
    buffer_bytes = size_bytes(subject, name, default=DEFAULT_BUFFER_BYTES) or DEFAULT_BUFFER_BYTES
    if buffer_bytes <= DEFAULT_BUFFER_BYTES:
        yield ok("the buffer between the JVM and Python has Spark's default size or less")
    else:
        yield warning(
            f"{name} is {buffer_bytes:,} bytes: 4 MB instead of 64 KB made writes slower", f"leave {name} unset (65536)"
        )


def unix_socket(subject: Subject) -> Iterable[Finding]:
    """Recommend the Unix socket between the JVM and Python, where it was measured to be faster."""
    name = "spark.python.unix.domain.socket.enabled"
    spark = tuple(map(int, re.findall(r"\d+", subject.opened.session.spark_version)[:2]))  # empty if it is not known
    if flag(subject, name, default=False):
        yield ok(f"{name}=true")
    elif not spark or spark >= SOCKET_SINCE:
        yield note(
            f"{name} is not on: rows then reach Python over TCP, 1.4 times slower for 8 million rows on Spark 4.3",
            f"set {name}=true when the session starts; it cannot be changed later",
        )


def comet(subject: Subject) -> Iterable[Finding]:
    """Say whether Comet, where it is loaded, hands its batches to Python as they are."""
    if COMET not in setting(subject, "spark.plugins"):
        return
    missing = [f"{name}=true" for name, usual in OF_COMET.items() if not flag(subject, name, default=usual == "true")]
    shuffles = flag(subject, "spark.comet.exec.shuffle.enabled", default=True)
    if shuffles and setting(subject, "spark.shuffle.manager") != COMETS_SHUFFLE:
        missing.append(f"spark.shuffle.manager={COMETS_SHUFFLE}")
    if missing:
        yield warning(
            "Comet is loaded, and makes rows of its batches before they reach Python: a write then costs three times"
            " the processor time",
            f"set {', '.join(missing)} when the session starts",
        )
    else:
        yield ok("Comet hands its batches to Python as they are")


def socket_timeout(subject: Subject) -> Iterable[Finding]:
    """Name the timeout that counts, if another one is set that does not."""
    name = "hive.metastore.client.socket.timeout"
    given_timeout = setting(subject, f"spark.hadoop.{name}")
    call = subject.opened.config.metastore_timeout_seconds
    if given_timeout:
        yield note(
            f"{name}={given_timeout} is Spark's own; calls of this library take {call:g} s at the most",
            "to change that, set metastore_timeout_seconds in TableWriterConfig",
        )
    else:
        yield ok(f"metastore calls of this library take {call:g} s at the most")


def hive_client(subject: Subject) -> Iterable[Finding]:
    client, server = subject.opened.session.hive_client, subject.version()
    says, _, advice = unusable_client(client, server).partition("; ")
    yield warning(says, advice) if says else ok(f"this session's Hive client {client} fits the metastore")


def _is_on_s3a(subject: Subject) -> bool:
    return kind_of(subject.opened.layout.root).hadoop_prefix == S3A_PREFIX


def abort_pending_uploads(subject: Subject) -> Iterable[Finding]:
    """Refuse committers that abort every upload below the directory they write to.

    True is Hadoop's own default, and does harm only together with a committer of S3A's: then it warns.
    """
    if not _is_on_s3a(subject):
        yield ok(NOT_ON_S3A)
        return
    spark_conf = subject.spark_conf or {}
    bucket = subject.opened.layout.root.bucket
    names = (f"spark.hadoop.fs.s3a.bucket.{bucket}.{ABORT}", f"spark.hadoop.fs.s3a.{ABORT}")
    is_set = any(spark_conf.get(name, "").strip().lower() == "true" for name in names)
    values = bucket_values(subject.hadoop, subject.opened.layout.root.bucket)
    committers = values.text("committer.name").lower() in S3A_COMMITTERS
    advice = f"set {names[1]}=false in every job that writes to this bucket with S3A's committers"
    harm = (
        "a job that S3A's committers commit aborts all pending uploads below its directory, those of this library among"
        " them: a write then fails in step 3"
    )
    if not values.flag(ABORT, default=True):
        yield ok("S3A's committers of this session leave the uploads of others alone")
    elif is_set:
        yield error(f"fs.s3a.{ABORT}=true: {harm}", advice)
    elif committers:
        yield warning(f"S3A's committers are on, and fs.s3a.{ABORT} is true by default: {harm}", advice)
    else:
        yield ok("this session does not use S3A's committers")


def committer(subject: Subject) -> Iterable[Finding]:
    """Say what it costs if Spark's own writer, which writes this table, has to rename its files."""
    table, root = subject.opened.table, subject.opened.layout.root
    jar_settings = [setting(subject, name) for name in SAYING_JARS]
    missing_jar = "" if any(word in text for text in jar_settings for word in OF_THE_JAR) else CLOUD_JAR
    renames = kind_of(root).renames(root, subject.hadoop, subject.opened.session.missing_jar or missing_jar)
    if is_arrows(table):
        yield ok("this library writes the table's files itself, and renames none")
    elif renames.why and renames.is_certain:
        yield note(
            f"{table.name} is written by Spark's own writer, which renames its files: {renames.why}", renames.advice
        )
    else:
        yield ok("Spark's own writer, which writes this table, has no renames to tell of")


def multipart_purge(subject: Subject) -> Iterable[Finding]:
    """Refuse a purge: opening the file system then aborts old uploads in the whole bucket."""
    if not _is_on_s3a(subject):
        yield ok(NOT_ON_S3A)
        return
    values = bucket_values(subject.hadoop, subject.opened.layout.root.bucket)
    if not values.flag("multipart.purge", default=False):
        yield ok("S3A purges no uploads")
        return
    age_seconds = values.seconds("multipart.purge.age", unit="s")
    age_seconds = PURGE_AGE_SECONDS if age_seconds is None else age_seconds
    message = (
        f"fs.s3a.multipart.purge=true: each session that opens the bucket aborts all uploads in it that are older than"
        f" {age_seconds / 3600:g} h, running writes of this library among them"
    )
    advice = "set spark.hadoop.fs.s3a.multipart.purge=false and give the bucket a lifecycle rule of 7 days instead"
    yield (warning if age_seconds >= WEEK_SECONDS else error)(message, advice)


def partition_source(subject: Subject) -> Iterable[Finding]:
    """Make sure that Spark asks the metastore where partitions are, instead of listing the table's path."""
    name = "spark.sql.hive.manageFilesourcePartitions"
    if flag(subject, name, default=True):
        yield ok("Spark asks the metastore where partitions are")
    else:
        yield error(
            f"{name}=false: Spark lists the path of `USING parquet` tables instead of asking the metastore, and sees"
            " only what other tools wrote",
            f"set {name}=true, Spark's default",
        )


def compression(subject: Subject) -> Iterable[Finding]:
    """Advise a lower level of zstd for a table that is written all day."""
    table = subject.opened.table
    settings = FileSettings(table, subject.spark_conf or {})
    codec = codec_of(settings, lambda name, usual: setting(subject, name) or usual)
    written_at = [record.entry.created_at for record in subject.history().records.published]
    recent = sum(moment > max(written_at) - timedelta(days=1) for moment in written_at)
    if codec != "zstd" or settings.text(ZSTD_LEVEL) or not is_arrows(table) or recent < WRITTEN_ALL_DAY:
        yield ok(f"new files are compressed by {codec}, and {counted(recent, 'version')} are of the newest day")
    else:
        yield note(
            f"{recent} versions are of the newest day, and their files are compressed by zstd of level 3: level 1 took"
            " 0.4 to 1 of the time to encode, for 2 % fewer to 8 % more bytes",
            f"try it on this table: ALTER TABLE {table.name.sql} SET TBLPROPERTIES ('{ZSTD_LEVEL}' = '1')",
        )


def speculation(subject: Subject) -> Iterable[Finding]:
    """Say that speculation is safe, since people ask."""
    if setting(subject, "spark.speculation").lower() == "true":
        yield ok("spark.speculation=true is safe: of each task one attempt is believed and completed")
