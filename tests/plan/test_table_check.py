"""Which tables can be written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from table_writer.errors import InvalidInputError
from table_writer.model.table import Column, Table, TableName
from table_writer.plan.file_options import ORC_SERDE, PARQUET_SERDE, require_writable

GOOD = Table(
    name=TableName("mart", "orders"),
    kind="EXTERNAL_TABLE",
    location="s3a://lake/mart/orders/",
    columns=(Column("id", "bigint"),),
    partition_columns=(Column("dt", "string"),),
    serde=PARQUET_SERDE,
)
TEXT_SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
DATASOURCE = {"spark.sql.sources.provider": "PARQUET", "spark.sql.partitionProvider": "catalog"}


@pytest.mark.parametrize(
    "table",
    [
        GOOD,
        replace(GOOD, kind="MANAGED_TABLE"),
        replace(GOOD, parameters=DATASOURCE),
        replace(GOOD, serde=ORC_SERDE),
        replace(GOOD, partition_columns=()),
        replace(GOOD, partition_columns=(), parameters={"spark.sql.sources.provider": "orc"}),
    ],
)
def test_parquet_and_orc_tables_are_writable_partitioned_or_not(table: Table) -> None:
    assert require_writable(table, table.name, "thrift://x:9083") is table


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (None, "does not exist in the metastore at thrift://x:9083"),
        (replace(GOOD, kind="VIRTUAL_VIEW"), "is a view"),
        (replace(GOOD, kind="MATERIALIZED_VIEW"), "is a view"),
        (replace(GOOD, parameters={"transactional": "TRUE"}), "ACID"),
        (replace(GOOD, parameters={"table_type": "ICEBERG"}), "iceberg"),
        (replace(GOOD, parameters={"spark.sql.sources.provider": "delta"}), "delta"),
        (replace(GOOD, bucket_columns=("id",)), r"bucketed \(id\)"),
        (replace(GOOD, parameters={**DATASOURCE, "spark.sql.sources.schema.numBuckets": "4"}), "bucketed"),
        (replace(GOOD, serde=TEXT_SERDE), "LazySimpleSerDe.*engine='spark'"),
        (replace(GOOD, parameters={**DATASOURCE, "spark.sql.sources.provider": "csv"}), "csv.*engine='spark'"),
        (replace(GOOD, parameters={"spark.sql.sources.provider": "parquet"}), "MSCK REPAIR TABLE mart.orders"),
        (replace(GOOD, location=""), "no location"),
    ],
)
def test_any_other_table_is_refused_by_name_with_the_reason(table: Table | None, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason) as raised:
        require_writable(table, GOOD.name, "thrift://x:9083")
    assert "mart.orders" in str(raised.value)


@pytest.mark.parametrize(
    "table",
    [
        replace(GOOD, bucket_columns=("id",)),
        replace(GOOD, serde=TEXT_SERDE),
        replace(GOOD, parameters={**DATASOURCE, "spark.sql.sources.provider": "csv"}),
    ],
)
def test_spark_s_own_writer_takes_what_arrow_does_not(table: Table) -> None:
    assert require_writable(table, table.name, "thrift://x:9083", engine="spark") is table
