"""How rows are laid out in files, as callers ask for it."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from table_writer import InvalidInputError, TableWriter
from table_writer.model.location import Location
from table_writer.testing import Lakehouse

from .watched import Seen

Look = Callable[[str], Seen]
MIB = 1024 * 1024


def spread(spark: SparkSession, rows: int = 80, tasks: int = 4, partitions: int = 2) -> DataFrame:
    """Rows of every partition in every task."""
    dt = f"concat('d', pmod(shiftright(id, 1), {partitions})) AS dt"
    return spark.range(0, rows, 1, tasks).selectExpr(f"{rows} - id AS id", "concat('n', id % 7) AS note", dt)


@pytest.mark.parametrize("distribution", ["hash", "rebalance"])
def test_a_distribution_makes_one_file_of_each_partition_where_every_task_had_its_own(
    distribution: Any, spark: SparkSession, writer: TableWriter, orders: str
) -> None:
    assert writer.overwrite_table(spread(spark), orders, engine="arrow").files == 8
    result = writer.overwrite_table(spread(spark), orders, distribution=distribution, engine="arrow")
    assert {one.name: (one.files, one.rows) for one in result.partitions} == {"dt=d0": (1, 40), "dt=d1": (1, 40)}
    assert spark.table(orders).count() == 80


def test_rows_of_each_file_are_sorted_as_asked(
    spark: SparkSession, writer: TableWriter, orders: str, look: Look, lakehouse: Lakehouse
) -> None:
    writer.overwrite_table(spread(spark), orders, distribution="hash", sort_by=["note desc", "id"], engine="arrow")
    seen = look(orders)
    for partition, location in seen.locations.items():
        for name in seen.files_of(partition):
            key = f"{Location.parse(location).key}{name}"
            body = lakehouse.s3.get_object(Bucket=lakehouse.bucket, Key=key)["Body"].read()
            rows = [(row["note"], row["id"]) for row in pq.read_table(io.BytesIO(body)).to_pylist()]
            assert rows == sorted(sorted(rows, key=lambda row: row[1]), key=lambda row: row[0], reverse=True)
            assert len(rows) == 40


def test_a_column_that_is_not_there_cannot_be_sorted_by(
    spark: SparkSession, writer: TableWriter, orders: str, look: Look
) -> None:
    with pytest.raises(InvalidInputError, match="'nope', which is no column"):
        writer.append(spread(spark), orders, sort_by=["nope"])
    assert look(orders).data == {}


def test_files_are_rolled_over_at_the_target_size(
    spark: SparkSession, writer: TableWriter, orders: str, look: Look
) -> None:
    noise = spark.range(0, 40_000, 1, 1).selectExpr(
        "id", "concat(sha2(cast(id AS string), 512), sha2(cast(-id AS string), 256)) AS note", "'d1' AS dt"
    )
    whole = writer.overwrite_table(noise, orders)
    assert whole.files == 1
    result = writer.overwrite_table(noise, orders, target_file_bytes=MIB)
    sizes = [size for _, size in look(orders).files_of("dt=d1").values()]
    assert result.files == len(sizes) >= whole.bytes // MIB
    assert max(sizes) < 1.5 * MIB
    assert spark.table(orders).count() == 40_000


def test_many_small_files_are_reported_with_what_to_do(spark: SparkSession, writer: TableWriter, orders: str) -> None:
    result = writer.append(spread(spark, tasks=26), orders, engine="arrow")
    assert result.files == 52
    assert any("52 files of" in note and "distribution='rebalance'" in note for note in result.notes)
    assert writer.append(spread(spark), orders, distribution="hash").notes == ()


@pytest.mark.parametrize(
    "bad", [{"distribution": "range"}, {"target_file_bytes": 1000}, {"sort_by": "id"}, {"engine": "flink"}]
)
def test_an_option_with_a_value_that_it_does_not_have_is_refused(
    bad: Any, spark: SparkSession, writer: TableWriter, orders: str, look: Look
) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(bad))):
        writer.append(spread(spark), orders, **bad)
    assert look(orders).objects == {}
