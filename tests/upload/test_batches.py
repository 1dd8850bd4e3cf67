"""The size of the batches that Spark sends, on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from table_writer.spark import open_gateway
from table_writer.spark.classic import MAX_BYTES_SETTING, MAX_ROWS_SETTING

WIDE_BYTES = 200_000


def sizes(batches: Iterator[Any]) -> Iterator[Any]:
    yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows for batch in batches]})


def sent(rows: DataFrame) -> list[int]:
    return [row.rows for row in rows.mapInArrow(sizes, "rows long").collect()]


def wide(spark: SparkSession, row_count: int) -> DataFrame:
    return spark.range(0, row_count, 1, 1).select("id", F.repeat(F.lit("x"), WIDE_BYTES).alias("text"))


@pytest.mark.slow
def test_rows_are_counted_inside_the_block_and_weighed_outside(spark: SparkSession) -> None:
    weighed = sent(wide(spark, 700))
    assert weighed[0] < 400
    with open_gateway(spark).batches_of(300):
        assert sent(wide(spark, 700)) == [300, 300, 100]
    with open_gateway(spark).batches_of(0):
        assert sent(wide(spark, 700)) == weighed
    with pytest.raises(ZeroDivisionError), open_gateway(spark).batches_of(300):
        raise ZeroDivisionError
    assert sent(wide(spark, 700)) == weighed


@pytest.mark.parametrize(("name", "value"), [(MAX_ROWS_SETTING, "250"), (MAX_BYTES_SETTING, "50000000")])
def test_what_the_session_sets_stays(spark: SparkSession, name: str, value: str) -> None:
    spark.conf.set(name, value)
    try:
        chosen = sent(wide(spark, 700))
        with open_gateway(spark).batches_of(600):
            assert sent(wide(spark, 700)) == chosen
    finally:
        spark.conf.unset(name)


@pytest.mark.parametrize(
    ("plan", "runs_python"),
    [
        (lambda spark: spark.range(5), False),
        (lambda spark: spark.range(5).repartition(2).groupBy("id").count(), False),
        (lambda spark: spark.range(5).select(F.udf(lambda value: f"number {value}", "string")("id")), True),
        (
            lambda spark: (
                spark.range(5)
                .select(F.udf(lambda value: f"number {value}", "string")("id").alias("x"))
                .groupBy("x")
                .count()
            ),
            True,
        ),
        (lambda spark: spark.range(5).mapInArrow(sizes, "rows long"), True),
        (lambda spark: spark.range(5).mapInPandas(lambda frames: frames, "id long").where("id > 1"), True),
        (lambda spark: spark.range(5).groupBy("id").applyInPandas(lambda frame: frame, "id long"), True),
        (lambda spark: spark.createDataFrame([(1,)], "id long"), True),  # of an RDD: nobody can tell
    ],
    ids=["range", "shuffle", "udf", "udf before a shuffle", "mapInArrow", "mapInPandas", "applyInPandas", "RDD"],
)
def test_python_of_the_users_own_is_seen_in_the_plan(spark: SparkSession, plan: Any, runs_python: bool) -> None:
    assert open_gateway(spark).runs_other_python(plan(spark)) is runs_python
