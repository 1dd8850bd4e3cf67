"""Comet, a native engine as a plugin of Spark: it hands its own batches to Python, and they end at a number of rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer.errors import few
from table_writer.model.column_figures import from_text

PLUGIN: Final = "org.apache.spark.CometPlugin"
BATCH_ROWS_SETTING: Final = "spark.comet.batchSize"
READS_FILES: Final = ("spark.comet.enabled", "spark.comet.scan.enabled")  # it does, unless one of them is false
BOTH_CALENDARS_SINCE: Final = {"date": -141_427, "timestamp": -2_208_988_800_000_000}
"""1582-10-15 in days, 1900-01-01 in microseconds: what is later is the same in the files of all versions of Spark."""


def weighed_by_spark(rows: DataFrame) -> DataFrame:
    """Return rows whose Arrow batches Spark itself makes, by its own limits: Comet knows no limit of bytes.

    Comet computes no filter that may raise an error, so its batches become rows there. Without Comet all stays as it
    is.
    """
    if not is_loaded(rows.sparkSession):
        return rows
    never = F.raise_error(F.lit("a row has no number")).cast("boolean")
    return rows.where(F.when(F.monotonically_increasing_id() < 0, never).otherwise(F.lit(True)))


def is_loaded(spark: SparkSession) -> bool:
    """Return whether Comet may run a session's queries."""
    return PLUGIN in (spark.conf.get("spark.plugins", "") or "")


def has_no_more_rows(spark: SparkSession, row_count: int) -> bool:
    """Return whether the session lets Comet's batches have no more rows than these: what it sets wins over a job's."""
    own = spark.conf.get(BATCH_ROWS_SETTING, "") or ""
    return not own or (own.isdecimal() and int(own) <= row_count)


def notes_on_old_dates(spark: SparkSession, figures: Iterable[str]) -> tuple[str, ...]:
    """Name the columns of a write that Comet may have read otherwise than Spark does, by the figures of its files.

    Comet takes each file for one of today's calendar. Spark 2, Hive and Spark's LEGACY modes have written another one.
    """
    if not is_loaded(spark) or any((spark.conf.get(name, "true") or "").lower() == "false" for name in READS_FILES):
        return ()
    names = {
        name
        for text in figures
        for name, found in from_text(text).items()
        if found.kind in BOTH_CALENDARS_SINCE
        and isinstance(found.low, int)
        and found.low < BOTH_CALENDARS_SINCE[found.kind]
    }
    if not names:
        return ()
    note = (
        f"{few(sorted(names))} has dates before 1582-10-15, or times before 1900: from files of Spark 2, of Hive, or of"
        " a LEGACY mode Comet reads these as other days than Spark does. If they come from such files, write them again"
        " with spark.comet.scan.enabled=false"
    )
    return (note,)
