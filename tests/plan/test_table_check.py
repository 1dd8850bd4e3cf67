"""Which tables can be written, and by whom."""

from __future__ import annotations

from dataclasses import replace

import pytest

from table_writer.config import WriteOptions
from table_writer.errors import InvalidInputError
from table_writer.jobs.plan.file_options import engine_of, require_writable
from table_writer.jobs.plan.parquet_settings import FileSettings
from table_writer.model.table import Column, Table, TableName

PARQUET_SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
ORC_SERDE = "org.apache.hadoop.hive.ql.io.orc.OrcSerde"
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
        replace(GOOD, serde=PARQUET_SERDE.lower()),
        replace(GOOD, serde=ORC_SERDE, parameters=DATASOURCE),
        replace(GOOD, partition_columns=()),
    ],
)
def test_parquet_tables_are_arrows_unless_the_call_says_otherwise(table: Table) -> None:
    assert require_writable(table, table.name, "thrift://x:9083") is table
    assert (
        engine_of(table, WriteOptions(), FileSettings(table, {}))
        == engine_of(table, WriteOptions(engine="arrow"), FileSettings(table, {}))
        == "arrow"
    )
    assert engine_of(table, WriteOptions(engine="spark"), FileSettings(table, {})) == "spark"


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (None, "does not exist in the metastore at thrift://x:9083"),
        (replace(GOOD, kind="VIRTUAL_VIEW"), "is a view"),
        (replace(GOOD, kind="MATERIALIZED_VIEW"), "is a view"),
        (replace(GOOD, parameters={"transactional": "TRUE"}), "ACID"),
        (replace(GOOD, parameters={"table_type": "ICEBERG"}), "iceberg"),
        (replace(GOOD, parameters={"spark.sql.sources.provider": "delta"}), "delta"),
        (
            replace(GOOD, parameters={"spark.sql.sources.provider": "parquet"}),
            "MSCK REPAIR TABLE `spark_catalog`.`mart`.`orders`",
        ),
        (replace(GOOD, location=""), "no location"),
    ],
)
def test_any_other_table_is_refused_by_name_with_the_reason(table: Table | None, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason) as raised:
        require_writable(table, GOOD.name, "thrift://x:9083")
    assert "mart.orders" in str(raised.value)


NOT_ARROWS = {
    r"bucketed \(id\)": replace(GOOD, bucket_columns=("id",)),
    "bucketed by|bucketed .by": replace(GOOD, parameters={**DATASOURCE, "spark.sql.sources.schema.numBuckets": "4"}),
    "stored as .*OrcSerde": replace(GOOD, serde=ORC_SERDE),
    "stored as orc": replace(GOOD, parameters={**DATASOURCE, "spark.sql.sources.provider": "ORC"}),
    "stored as csv": replace(GOOD, parameters={**DATASOURCE, "spark.sql.sources.provider": "csv"}),
    "stored as .*LazySimpleSerDe": replace(GOOD, serde=TEXT_SERDE),
    "stored as an unknown format": replace(GOOD, serde=""),
    "has parquet.crypto.factory.class": replace(GOOD, parameters={"parquet.crypto.factory.class": "x"}),
}


@pytest.mark.parametrize("reason", NOT_ARROWS)
def test_all_other_tables_are_sparks_to_write_without_a_word_and_never_arrows(reason: str) -> None:
    table = NOT_ARROWS[reason]
    assert require_writable(table, table.name, "thrift://x:9083") is table
    assert (
        engine_of(table, WriteOptions(), FileSettings(table, {}))
        == engine_of(table, WriteOptions(engine="spark"), FileSettings(table, {}))
        == "spark"
    )
    with pytest.raises(InvalidInputError, match=rf"{reason}.*leave engine out.*Nothing was written") as raised:
        engine_of(table, WriteOptions(engine="arrow"), FileSettings(table, {}))
    assert raised.value.table == "mart.orders"


@pytest.mark.parametrize("table", [replace(GOOD, serde=ORC_SERDE), GOOD])
def test_sizes_of_spark_s_own_files_are_not_ours_to_say(table: Table) -> None:
    options = WriteOptions(target_file_bytes=2**27, engine="spark" if table is GOOD else "auto")
    with pytest.raises(InvalidInputError, match=r"maxRecordsPerFile"):
        engine_of(table, options, FileSettings(table, {}))
