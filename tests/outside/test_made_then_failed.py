"""A write makes its table first, and fails after that: the table stays behind, empty, and somebody has to know it.

Seen by a user of ``if_missing``: a check failed, the error said that nothing was published, and ``SHOW TABLES`` had one
more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import LongType

from table_writer import NewTable, TableWriter, TableWriterError
from table_writer.check import in_range
from table_writer.model.table import TableName

BY_DAY = NewTable(partition_by=["dt"])


@pytest.fixture
def df(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1, "d1"), (2, "d2")], "id BIGINT, dt STRING")


def breaking(df: DataFrame) -> DataFrame:
    return df.withColumn("id", F.udf(lambda number: 1 // (number - number), LongType())("id"))


def told_of(error: BaseException) -> str:
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


CALLS: dict[str, Callable[[TableWriter, DataFrame, str], Any]] = {
    "a check that fails": lambda writer, df, table: writer.append(
        df, table, if_missing=BY_DAY, checks=[in_range("id", max=1)]
    ),
    "a function that raises": lambda writer, df, table: writer.append(breaking(df), table, if_missing=BY_DAY),
    "a stage whose check fails": lambda writer, df, table: writer.stage(
        df, table, if_missing=BY_DAY, checks=[in_range("id", max=1)]
    ),
    "a column to sort by that is not there": lambda writer, df, table: writer.append(
        df, table, if_missing=BY_DAY, sort_by=["no"]
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_error_says_that_the_table_was_made_and_stays(
    spark: SparkSession, df: DataFrame, lakehouse_database: str, call: Callable[..., Any]
) -> None:
    table = f"{lakehouse_database}.orders"
    with pytest.raises((TableWriterError, PySparkException)) as raised:
        call(TableWriter(spark), df, table)
    assert spark.catalog.tableExists(table)
    assert f"able {table} was made by this call (if_missing), and stays" in told_of(raised.value)


def test_ctrl_c_says_it_too(
    spark: SparkSession, df: DataFrame, lakehouse_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("table_writer.jobs.run.run_upload", interrupt)
    with pytest.raises(KeyboardInterrupt) as raised:
        TableWriter(spark).append(df, f"{lakehouse_database}.orders", if_missing=BY_DAY, engine="arrow")
    assert "was made by this call (if_missing), and stays" in told_of(raised.value)


def test_a_result_without_rows_says_it(spark: SparkSession, df: DataFrame, lakehouse_database: str) -> None:
    table = f"{lakehouse_database}.orders"
    result = TableWriter(spark).append(df.limit(0), table, if_missing=BY_DAY, if_empty="ignore")
    note = f"table {table} was made by this call (if_missing), and stays, without a row of this write: call again, or"
    assert result.notes == (f"{note} DROP TABLE {TableName.parse(table).sql}",)
    assert TableWriter(spark).append(df, table, if_missing=BY_DAY).notes == ()


@pytest.mark.slow
@pytest.mark.parametrize("is_external", [False, True])
def test_what_the_error_advises_works(
    spark: SparkSession, df: DataFrame, lakehouse_database: str, lakehouse: Any, is_external: bool
) -> None:
    table, where = f"{lakehouse_database}.orders", f"{lakehouse.warehouse}/elsewhere/{lakehouse_database}"
    new = NewTable(partition_by=["dt"], location=where if is_external else "")
    advised = f"DROP TABLE {TableName.parse(table).sql}"
    with pytest.raises(TableWriterError, match=advised):
        TableWriter(spark).append(df.limit(0), table, if_missing=new)
    spark.sql(advised)
    assert TableWriter(spark).append(df, table, if_missing=new).rows == 2
    assert spark.table(table).count() == 2
