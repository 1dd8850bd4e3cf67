"""How the files of Spark's own writer get their final names: on S3A by the magic committer, where its jar is there.

The classic committer writes files under temporary names and renames them, and a rename on S3 is a copy. The magic one
leaves uploads open and completes them when the job ends. Spark speaks to it through one class that is not part of
Spark itself: without its jar the classic one is used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

__all__ = ["CLASSIC", "MAGIC", "for_magic", "jar_for", "missing_jar"]

PROTOCOL_SETTING: Final = "spark.sql.sources.commitProtocolClass"
PROTOCOL: Final = "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol"
ARTIFACT: Final = "org.apache.spark:spark-hadoop-cloud"
SPARK_WITH_OBSERVERS: Final = 4
LAST_PUBLISHED: Final = (4, 1, 2)  # there is none for Spark 4.2 and 4.3, and this one works with them

CLASSIC: Final[Mapping[str, str]] = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}
MAGIC: Final[Mapping[str, str]] = {
    **CLASSIC,
    "fs.s3a.committer.name": "magic",
    "mapreduce.outputcommitter.factory.scheme.s3a": "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory",
    "fs.s3a.committer.abort.pending.uploads": "true",  # below the write's own location there are no others
}
"""Hadoop's settings for one job."""


def missing_jar(spark: SparkSession) -> str:
    """Return the Maven coordinate of the jar that the magic committer needs; empty where the session has it."""
    java: Any = spark.sparkContext._jvm  # noqa: SLF001  # PySpark has no public way to its class path
    if java.org.apache.spark.util.Utils.classIsLoadable(PROTOCOL):
        return ""
    return jar_for(spark.version, java.scala.util.Properties.versionNumberString())


def jar_for(spark_version: str, scala_version: str) -> str:
    """Return the Maven coordinate of the jar for a version of Spark.

    Examples
    --------
    >>> jar_for("3.5.1-amzn-0", "2.12.18"), jar_for("4.3.0", "2.13.17")
    ('org.apache.spark:spark-hadoop-cloud_2.12:3.5.1', 'org.apache.spark:spark-hadoop-cloud_2.13:4.1.2')
    """
    version = min(tuple(map(int, re.findall(r"\d+", spark_version)[:3])), LAST_PUBLISHED)
    scala = ".".join(scala_version.split(".")[:2])
    return f"{ARTIFACT}_{scala}:{'.'.join(map(str, version))}"


def for_magic(spark: SparkSession) -> SparkSession:
    """Copy a session with all its settings, and let the copy write through S3A's committers; the original does not.

    Listeners of queries are copied with it. The user's own observations wait for a job of the original session from
    Spark 4 on, so both have one manager of them: else they would wait for ever.
    """
    original: Any = spark._jsparkSession  # noqa: SLF001  # PySpark has no public way to copy a session
    java = original.cloneSession()
    if int(spark.version.partition(".")[0]) >= SPARK_WITH_OBSERVERS:
        observers = java.getClass().getDeclaredField("observationManager")
        observers.setAccessible(True)  # Java knows no names
        observers.set(java, original.observationManager())
    copied = SparkSession(spark.sparkContext, java)
    copied.conf.set(PROTOCOL_SETTING, PROTOCOL)
    return copied
