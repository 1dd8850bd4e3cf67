"""Checks of Spark's settings by which other jobs, or this one, would break writes or hide rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from table_writer.display.reports import Finding
from table_writer.doctor.patient import Patient, error, ok, warning
from table_writer.doctor.spark_conf import flag, for_bucket, setting

__all__ = ["abort_pending_uploads", "multipart_purge", "partition_source", "speculation"]

ABORT: Final = "committer.abort.pending.uploads"
S3A_COMMITTERS: Final = frozenset({"magic", "directory", "partitioned"})
WEEK_SECONDS: Final = 7 * 86_400
PURGE_AGE_SECONDS: Final = 86_400.0  # Hadoop's default


def abort_pending_uploads(patient: Patient) -> Iterable[Finding]:
    """Refuse committers that abort every upload below the directory they write to.

    True is Hadoop's own default, and does harm only together with a committer of S3A's: then it warns.
    """
    given = patient.spark_conf or {}
    bucket = patient.services.layout.root.bucket
    names = (f"spark.hadoop.fs.s3a.bucket.{bucket}.{ABORT}", f"spark.hadoop.fs.s3a.{ABORT}")
    said = any(given.get(name, "").strip().lower() == "true" for name in names)
    values = for_bucket(patient)
    factory = patient.hadoop.get("mapreduce.outputcommitter.factory.scheme.s3a", "")
    committers = values.text("committer.name").lower() in S3A_COMMITTERS or "S3ACommitterFactory" in factory
    advice = f"set {names[1]}=false in every job that writes to this bucket with S3A's committers"
    why = (
        "a job that S3A's committers commit aborts all pending uploads below its directory, those of this library among"
        " them: a write then fails in step 3"
    )
    if not values.flag(ABORT, default=True):
        yield ok("abort.pending.uploads", "S3A's committers of this session leave the uploads of others alone")
    elif said:
        yield error("abort.pending.uploads", f"fs.s3a.{ABORT}=true: {why}", advice)
    elif committers:
        yield warning(
            "abort.pending.uploads", f"S3A's committers are on, and fs.s3a.{ABORT} is true by default: {why}", advice
        )
    else:
        yield ok("abort.pending.uploads", "this session does not use S3A's committers")


def multipart_purge(patient: Patient) -> Iterable[Finding]:
    """Refuse a purge: opening the file system then aborts old uploads in the whole bucket."""
    values = for_bucket(patient)
    if not values.flag("multipart.purge", default=False):
        yield ok("multipart.purge", "S3A purges no uploads")
        return
    age_seconds = values.seconds("multipart.purge.age", unit="s")
    age_seconds = PURGE_AGE_SECONDS if age_seconds is None else age_seconds
    message = (
        f"fs.s3a.multipart.purge=true: each session that opens the bucket aborts all uploads in it that are older than"
        f" {age_seconds / 3600:g} h, running writes of this library among them"
    )
    advice = "set spark.hadoop.fs.s3a.multipart.purge=false and give the bucket a lifecycle rule of 7 days instead"
    yield (warning if age_seconds >= WEEK_SECONDS else error)("multipart.purge", message, advice)


def partition_source(patient: Patient) -> Iterable[Finding]:
    """Make sure that Spark asks the metastore where partitions are, instead of listing the table's path."""
    name = "spark.sql.hive.manageFilesourcePartitions"
    if flag(patient, name, default=True):
        yield ok("manageFilesourcePartitions", "Spark asks the metastore where partitions are")
    else:
        yield error(
            "manageFilesourcePartitions",
            f"{name}=false: Spark lists the path of `USING parquet` tables instead of asking the metastore, and sees"
            " only what other tools wrote",
            f"set {name}=true, Spark's default",
        )


def speculation(patient: Patient) -> Iterable[Finding]:
    """Say that speculation is safe: people ask."""
    if setting(patient, "spark.speculation").lower() == "true":
        yield ok("speculation", "spark.speculation=true is safe: of each task one attempt is believed and completed")
