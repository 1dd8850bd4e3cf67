"""A session for a call that takes Spark, where nobody has one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Final

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession as SparkSession  # noqa: PLC0414  # for annotations where Spark is at work

from table_writer.config import TableWriterConfig
from table_writer.errors import InvalidInputError
from table_writer.metastore.settings import GLUE_SCHEME

HADOOP: Final = "spark.hadoop."
PYTHON: Final = "PYSPARK_PYTHON"
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # spark-submit sets it, and says where Spark runs
S3A: Final = {"endpoint_url": "fs.s3a.endpoint", "region": "fs.s3a.endpoint.region"}


@contextmanager
def a_session(config: TableWriterConfig, spark: SparkSession | Mapping[str, str] | None) -> Iterator[SparkSession]:
    """Yield the session that is given, or that of this process; else start one with settings, and stop it at the end.

    What ``spark-submit`` has been given holds as well: started by it, the session runs on its cluster. Refused are
    settings where a session is there already: they would change it, or nothing.
    """
    if spark is not None and not isinstance(spark, Mapping):
        yield spark
        return
    is_there = SparkSession.getActiveSession() is not None or SparkContext._active_spark_context is not None  # noqa: SLF001
    if is_there:
        if spark:
            raise InvalidInputError("a Spark session is at work in this process: give it, or leave its settings out")
        yield SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
        return
    given = spark or {}
    builder = SparkSession.builder.appName("table-writer").enableHiveSupport()
    for name, value in {**given, **_settings(config)}.items():  # metastore and stores are those of the call
        builder = builder.config(name, value)
    is_here = given.get("spark.master", "local").startswith("local") and SUBMITTED not in os.environ
    try:
        with _workers_of_this_python() if is_here else nullcontext():
            session = builder.getOrCreate()
    except (PySparkException, RuntimeError) as error:
        raise InvalidInputError(f"Spark, which looks through the rows, does not start here: {error}") from error
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def _workers_of_this_python() -> Iterator[None]:
    """Let a context that is made meanwhile start its workers by this Python, not by what python3 is on the PATH."""
    is_set = PYTHON in os.environ
    os.environ.setdefault(PYTHON, sys.executable)
    try:
        yield
    finally:
        if not is_set:
            del os.environ[PYTHON]


def _settings(config: TableWriterConfig) -> dict[str, str]:
    """Return what a session has to be told of a config: where metastore and store are."""
    uris = ",".join(uri for uri in config.metastore_uris or () if not uri.startswith(GLUE_SCHEME))
    found = {"spark.ui.showConsoleProgress": "false"}  # the call shows its own
    found |= {f"{HADOOP}{name}": value for name, value in config.hadoop.items()}
    found |= {f"{HADOOP}hive.metastore.uris": uris} if uris else {}
    for name, setting in S3A.items():
        value = getattr(config.s3, name)
        found |= {f"{HADOOP}{setting}": value} if value else {}
    if config.s3.path_style is not None:
        found[f"{HADOOP}fs.s3a.path.style.access"] = str(config.s3.path_style).lower()
    return found
