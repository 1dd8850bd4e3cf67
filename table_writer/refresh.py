"""After a publish: what this Spark session believes of the table is brought up to date. Best effort."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from table_writer.model.table import Table

__all__ = ["refresh_session"]

logger = logging.getLogger(__name__)


def refresh_session(spark: SparkSession, table: Table, write_id: str) -> tuple[str, ...]:
    """Drop cached rows and table-level statistics that the publish has made wrong.

    Returns
    -------
    tuple of str
        What could not be done, for a person; the write is done all the same.
    """
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
