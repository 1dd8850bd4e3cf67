"""Read metastore, store and file settings from the Spark session, so that users need not repeat them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

from table_writer.config import SessionSettings
from table_writer.errors import InvalidInputError
from table_writer.model.table import Table
from table_writer.spark.files import missing_jar

__all__ = ["read_session", "refresh_session"]

PREFIXES: Final = ("fs.s3a.", "hive.metastore.", "hive.imetastoreclient.", "mapreduce.fileoutputcommitter.", "parquet.")
SECRETS: Final = ("access.key", "secret.key", "session.token", "encryption.key", "server-side-encryption.key")
PROVIDER_PATHS: Final = ("hadoop.security.credential.provider.path", "fs.s3a.security.credential.provider.path")
logger = logging.getLogger(__name__)


def read_session(spark: SparkSession, overrides: Mapping[str, str]) -> SessionSettings:
    """Read the settings of a classic session with a Hive metastore, and refuse others; ``overrides`` win over them."""
    if not hasattr(spark, "_jsparkSession"):
        raise InvalidInputError(
            f"{type(spark).__module__}.{type(spark).__name__} is not a classic Spark session: Spark Connect hides the"
            " settings and the executors that table_writer needs. Run the job with a classic session (spark-submit, or"
            " SparkSession.builder.getOrCreate() without spark.remote)."
        )
    catalog = spark.conf.get("spark.sql.catalogImplementation", "in-memory")
    if catalog != "hive":
        raise InvalidInputError(
            f"this session's catalog is {catalog!r}, not a Hive metastore: build the session with"
            " .enableHiveSupport() and set spark.hadoop.hive.metastore.uris=thrift://host:9083"
        )
    return SessionSettings(
        hadoop={**_hadoop_settings(spark), **overrides},
        spark_version=spark.version,
        application_id=spark.sparkContext.applicationId,
        missing_jar=missing_jar(spark),
    )


def _hadoop_settings(spark: SparkSession) -> dict[str, str]:
    session: Any = spark._jsparkSession  # noqa: SLF001  # PySpark has no public way to the Hadoop settings
    hadoop = session.sessionState().newHadoopConf()
    found = {
        f"{prefix}{entry.getKey()}": entry.getValue()
        for prefix in PREFIXES
        for entry in hadoop.getPropsWithPrefix(prefix).entrySet()
    }
    if any(hadoop.get(path) for path in PROVIDER_PATHS):  # secrets kept in a credential store (JCEKS)
        for suffix in SECRETS:
            password = hadoop.getPassword(f"fs.s3a.{suffix}")
            if password is not None:
                found[f"fs.s3a.{suffix}"] = "".join(password)
    return found


def refresh_session(spark: SparkSession, table: Table, write_id: str) -> tuple[str, ...]:
    """Drop cached rows and table-level statistics that the publish has made wrong; returns what could not be done."""
    return tuple(
        note
        for action, note in (
            (_refresh_table, f"this session may show old rows until REFRESH TABLE {table.name}"),
            (_drop_statistics, f"the table-level statistics of {table.name} are stale: ANALYZE TABLE renews them"),
        )
        if not _done(action, spark, table, write_id)
    )


def _done(action: Callable[[SparkSession, Table], None], spark: SparkSession, table: Table, write_id: str) -> bool:
    try:
        action(spark, table)
    except Exception:  # Spark raises what it likes here, and readers have switched already
        logger.warning("write_id=%s refreshing this session failed", write_id, exc_info=True)
        return False
    return True


def _refresh_table(spark: SparkSession, table: Table) -> None:
    spark.catalog.refreshTable(f"`{table.name.database}`.`{table.name.name}`")


def _drop_statistics(spark: SparkSession, table: Table) -> None:
    """Do what Spark's own INSERT does to statistics that it does not renew."""
    stale = any(name.startswith("spark.sql.statistics.") for name in table.parameters)
    if not stale or not table.partition_columns:  # an unpartitioned table got its new figures in the switch
        return
    session: Any = spark._jsparkSession  # noqa: SLF001  # PySpark has no public way to the catalog's statistics
    scala: Any = spark.sparkContext._jvm  # noqa: SLF001
    identifier = scala.org.apache.spark.sql.catalyst.TableIdentifier(
        table.name.name, scala.scala.Option.apply(table.name.database)
    )
    session.sessionState().catalog().alterTableStats(identifier, scala.scala.Option.empty())
