"""How a Parquet table's files are encoded: as Spark's own writer would choose."""

from __future__ import annotations

import pytest

from table_writer.errors import InvalidInputError
from table_writer.model.table import Column, Table, TableName
from table_writer.model.upload_spec import ParquetOptions
from table_writer.plan.file_options import file_options

PARQUET_SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"


def options_of(*, conf: dict[str, str] | None = None, **said: dict[str, str]) -> ParquetOptions:
    table = Table(
        name=TableName("mart", "orders"),
        kind="MANAGED_TABLE",
        location="s3a://lake/orders",
        columns=(Column("id", "bigint"),),
        partition_columns=(),
        serde=PARQUET_SERDE,
        parameters=said.get("parameters", {}),
        serde_parameters=said.get("serde_parameters", {}),
    )
    return file_options(table, (conf or {}).get, "{}", "4.3.0")


def test_the_parquet_codec_is_the_tables_then_the_sessions():
    conf = {"spark.sql.parquet.compression.codec": "GZIP"}
    assert options_of().compression == "snappy"
    assert options_of(conf=conf).compression == "gzip"
    assert options_of(conf=conf, parameters={"parquet.compression": "ZSTD"}).compression == "zstd"
    assert (
        options_of(parameters={"parquet.compression": "zstd"}, serde_parameters={"COMPRESSION": "lz4"}).compression
        == "lz4"
    )


def test_a_level_is_the_tables_then_the_sessions_and_only_of_its_codec():
    key = "parquet.compression.codec.zstd.level"
    zstd = {"parquet.compression": "zstd"}
    assert options_of(parameters=zstd).compression_level is None
    assert options_of(parameters=zstd, conf={f"spark.hadoop.{key}": "5"}).compression_level == 5
    assert options_of(parameters={**zstd, key: "9"}, conf={key: "5"}).compression_level == 9
    assert options_of(parameters={key: "9"}).compression_level is None
    with pytest.raises(InvalidInputError, match="'fast' is no level of zstd: choose one from 1 to 22"):
        options_of(parameters={**zstd, key: "fast"})


def test_other_parquet_settings_are_the_sessions():
    conf = {"spark.sql.parquet.outputTimestampType": "timestamp_micros", "spark.sql.parquet.writeLegacyFormat": "TRUE"}
    answer = options_of(conf=conf)
    assert (answer.timestamp_type, answer.legacy_format, answer.spark_schema_json) == ("TIMESTAMP_MICROS", True, "{}")
