"""What the Spark session's own settings say: nobody should have to say it twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

from table_writer.config import SessionSettings
from table_writer.errors import InvalidInputError

__all__ = ["read_session"]

PREFIXES: Final = ("fs.s3a.", "hive.metastore.", "hive.imetastoreclient.", "mapreduce.fileoutputcommitter.", "parquet.")
SECRETS: Final = ("access.key", "secret.key", "session.token", "encryption.key", "server-side-encryption.key")
PROVIDER_PATHS: Final = ("hadoop.security.credential.provider.path", "fs.s3a.security.credential.provider.path")


def read_session(spark: SparkSession, overrides: Mapping[str, str]) -> SessionSettings:
    """Read the settings of a session.

    Parameters
    ----------
    spark
        A classic session with Hive support.
    overrides
        Hadoop settings that win over the session's.

    Raises
    ------
    InvalidInputError
        The session is a Spark Connect one, or its catalog is not a Hive metastore.
    """
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
