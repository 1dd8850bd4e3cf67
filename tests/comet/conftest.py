from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from table_writer import TableWriter
from table_writer.testing import Lakehouse
from tests.end_to_end.conftest import make_table

__all__ = ["make_table"]

COMET = "spark.comet.enabled"


@pytest.fixture(scope="session")
def writer(spark: SparkSession) -> TableWriter:
    return TableWriter(spark)


@pytest.fixture
def from_files(spark: SparkSession, lakehouse: Lakehouse, lakehouse_database: str) -> Callable[..., DataFrame]:
    """Return rows as files of Parquet hold them, which Spark itself has written: Comet reads nothing else."""
    numbers = iter(range(1_000))

    def stored(rows: DataFrame) -> DataFrame:
        path = f"{lakehouse.warehouse}/{lakehouse_database}.db/source_{next(numbers)}"
        rows.write.parquet(path)
        return spark.read.parquet(path)

    return stored


@pytest.fixture
def seen(spark: SparkSession) -> Callable[..., list[str]]:
    """Return what Spark alone finds in a table, or in rows: each as text, in order."""

    def rows_of(what: str | DataFrame) -> list[str]:
        spark.conf.set(COMET, "false")
        try:
            frame = spark.table(what) if isinstance(what, str) else what.select("*")
            return sorted(map(repr, frame.collect()))
        finally:
            spark.conf.unset(COMET)

    return rows_of


@pytest.fixture
def in_zone(spark: SparkSession) -> Iterator[Callable[[str], None]]:
    yield lambda zone: spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
