"""How rows are spread and ordered, seen in the files that a write makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from table_writer.errors import InvalidInputError
from table_writer.jobs.plan.distribution import lay_out
from table_writer.jobs.upload.job import run_upload
from table_writer.model.upload_spec import ParquetOptions, UploadSpec
from table_writer.storage.local.settings import LocalSettings
from table_writer.storage.object_store import open_store

ROWS = 20_000
SETTINGS = {
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "64m",
}


@pytest.fixture
def spark(lakehouse) -> Iterator[SparkSession]:
    session = lakehouse.spark
    before = {name: session.conf.get(name) for name in SETTINGS}
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    yield session
    for name, value in before.items():
        session.conf.set(name, value)


def rows_of(spark: SparkSession) -> DataFrame:
    """Four partitions, one of them null, mixed in every task; amounts of which some are null."""
    return spark.range(0, ROWS, 1, 4).selectExpr(
        "id", "nullif((id * 7919) % 1000, 13) AS Amount", "nullif(concat('d', id % 4), 'd3') AS dt"
    )


def files_of(rows: DataFrame, directory: Path, partition_columns: tuple[str, ...] = ("dt",)) -> dict[str, list[Any]]:
    data_columns = rows.columns[: len(rows.columns) - len(partition_columns)]
    spec = UploadSpec(
        write_id="w1",
        key_prefix=f"{str(directory).lstrip('/')}/w1/",
        store=LocalSettings(),
        data_columns=tuple(data_columns),
        partition_columns=partition_columns,
        file_options=ParquetOptions(),
    )
    store = open_store(spec.store)
    found: dict[str, list[Any]] = {}
    for message in run_upload(rows, spec):
        for upload in message.uploads:
            store.complete_upload(upload.key, upload.upload_id, upload.parts)
            table = pq.read_table(f"/{upload.key}", partitioning=None)
            found.setdefault("/".join(upload.partition_values), []).append(table.to_pylist())
    ids = sorted(row["id"] for files in found.values() for file in files for row in file)
    assert ids == list(range(len(ids)))
    assert len(ids) == ROWS
    return found


@pytest.mark.slow
def test_none_leaves_rows_where_they_are(spark, tmp_path):
    given = rows_of(spark)
    assert lay_out(given, partition_columns=["dt"], distribution="none", sort_by=[]) is given
    assert [len(files) for files in files_of(given, tmp_path).values()] == [4, 4, 4, 4]


@pytest.mark.parametrize("sort_by", [[], ["amount"]])
def test_hash_makes_one_file_of_a_partition(spark, tmp_path, sort_by):
    rows = lay_out(rows_of(spark), partition_columns=["dt"], distribution="hash", sort_by=sort_by)
    assert [len(files) for files in files_of(rows, tmp_path).values()] == [1, 1, 1, 1]


def test_hash_spreads_an_unpartitioned_table_evenly(spark, tmp_path):
    rows = lay_out(rows_of(spark).drop("dt"), partition_columns=[], distribution="hash", sort_by=[])
    (files,) = files_of(rows, tmp_path, ()).values()
    assert [len(file) for file in files] == [ROWS // 8] * 8


@pytest.mark.parametrize("sort_by", [[], ["amount"]])
def test_rebalance_makes_few_files(spark, tmp_path, sort_by):
    rows = lay_out(rows_of(spark), partition_columns=["dt"], distribution="rebalance", sort_by=sort_by)
    assert [len(files) for files in files_of(rows, tmp_path).values()] == [1, 1, 1, 1]


def test_rebalance_splits_what_is_above_the_advisory_size(spark, tmp_path):
    spark.conf.set("spark.sql.adaptive.advisoryPartitionSizeInBytes", "20k")
    one = rows_of(spark).selectExpr("id", "amount", "'large' AS dt")
    (files,) = files_of(lay_out(one, partition_columns=["dt"], distribution="rebalance", sort_by=[]), tmp_path).values()
    assert len(files) > 1


def test_rebalance_joins_the_tasks_of_an_unpartitioned_table(spark, tmp_path):
    rows = lay_out(rows_of(spark).drop("dt"), partition_columns=[], distribution="rebalance", sort_by=["id"])
    (files,) = files_of(rows, tmp_path, ()).values()
    assert len(files) == 1
    assert [row["id"] for row in files[0]] == list(range(ROWS))


ORDERS = [
    (["amount"], lambda row: (row["Amount"] is not None, row["Amount"] or 0)),
    (["AMOUNT asc nulls last", "id desc"], lambda row: (row["Amount"] is None, row["Amount"] or 0, -row["id"])),
    (["`amount` DESC", "id"], lambda row: (row["Amount"] is None, -(row["Amount"] or 0), row["id"])),
    (["amount desc nulls first"], lambda row: (row["Amount"] is not None, -(row["Amount"] or 0))),
]


@pytest.mark.parametrize("distribution", ["none", "hash", "rebalance"])
@pytest.mark.parametrize(("sort_by", "key"), ORDERS, ids=lambda value: str(value) if isinstance(value, list) else "")
def test_rows_in_each_file_are_sorted(spark, tmp_path, distribution, sort_by, key):
    rows = lay_out(rows_of(spark), partition_columns=["dt"], distribution=distribution, sort_by=sort_by)
    for files in files_of(rows, tmp_path).values():
        for file in files:
            keys = [key(row) for row in file]
            assert keys == sorted(keys)


def test_columns_with_odd_names_can_be_sorted_by(spark):
    rows = spark.sql("SELECT 1 AS `a.b`, 2 AS `c desc`, 3 AS `d``e`, 'x' AS `p q`")
    items = ["a.b", "c desc", "c desc desc", "`d``e` asc", "P Q"]
    assert lay_out(rows, partition_columns=["p q"], distribution="rebalance", sort_by=items).count() == 1


@pytest.mark.parametrize("item", ["price", "amount + 1", "amount down", "", "desc", "-amount"])
def test_what_is_no_column_is_named_with_the_columns(spark, item):
    with pytest.raises(
        InvalidInputError, match=r"sort_by names '.*', which is no column.*it has id, Amount, dt"
    ) as caught:
        lay_out(rows_of(spark), partition_columns=["dt"], distribution="none", sort_by=["id", item])
    assert repr(item) in str(caught.value)


def test_a_map_has_no_order(spark):
    rows = spark.sql("SELECT array(map(1, 2)) AS m, 'x' AS dt")
    with pytest.raises(InvalidInputError, match=r"'m desc', but values of type array<map<int,int>> have no order"):
        lay_out(rows, partition_columns=["dt"], distribution="none", sort_by=["m desc"])
