"""Which format and codec a table's files get: what Spark's own writer would choose."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from table_writer.errors import InvalidInputError
from table_writer.model.table import Column, Table, TableName
from table_writer.model.upload_spec import OrcOptions, ParquetOptions
from table_writer.plan.file_options import file_options

ORC_SERDE = "org.apache.hadoop.hive.ql.io.orc.OrcSerde"
PARQUET_SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"


def options_of(
    serde: str = PARQUET_SERDE,
    *,
    conf: dict[str, str] | None = None,
    version: str = "4.3.0",
    time_zone: str = "UTC",
    **said: dict[str, str],
) -> Any:
    table = Table(
        name=TableName("mart", "orders"),
        kind="MANAGED_TABLE",
        location="s3a://lake/orders",
        columns=(Column("id", "bigint"),),
        partition_columns=(),
        serde=serde,
        parameters=said.get("parameters", {}),
        serde_parameters=said.get("serde_parameters", {}),
    )
    return file_options(table, (conf or {}).get, "{}", version, time_zone=time_zone)


@pytest.mark.parametrize(
    ("serde", "parameters", "kind"),
    [
        (PARQUET_SERDE, {}, ParquetOptions),
        (ORC_SERDE, {}, OrcOptions),
        ("any", {"spark.sql.sources.provider": "ORC"}, OrcOptions),
        (ORC_SERDE, {"spark.sql.sources.provider": "parquet"}, ParquetOptions),
        (ORC_SERDE, {"Spark.Sql.Sources.Provider": "hive"}, OrcOptions),
    ],
)
def test_the_provider_decides_and_without_one_the_serde(serde, parameters, kind):
    assert type(options_of(serde, parameters=parameters)) is kind


@pytest.mark.parametrize("serde", ["org.apache.hadoop.hive.serde2.avro.AvroSerDe", ""])
def test_other_formats_are_sparks_to_write(serde):
    with pytest.raises(InvalidInputError, match=r'mart.orders is stored as .*engine="spark"') as caught:
        options_of(serde)
    assert caught.value.table == "mart.orders"


CODECS = [
    ({}, {}, {}, None),
    ({}, {}, {"conf": "ZLIB"}, "conf"),
    ({"{format}.compress": "LZ4"}, {}, {"conf": "snappy"}, "lz4"),
    ({"{format}.compress": "lz4"}, {"{FORMAT}.COMPRESS": "Zstd"}, {"conf": "snappy"}, "zstd"),
    ({"{format}.compress": "lz4"}, {"Compression": "snappy"}, {}, "snappy"),
    ({"compression": "snappy"}, {"{format}.compress": "lz4"}, {}, "snappy"),
    ({"{format}.compress": " "}, {}, {"conf": "snappy"}, "conf"),
]


@pytest.mark.parametrize(("table", "serde", "conf", "expected"), CODECS)
def test_the_orc_codec_is_the_tables_then_the_sessions(table, serde, conf, expected):
    def named(given: dict[str, str]) -> dict[str, str]:
        return {key.replace("{format}", "orc").replace("{FORMAT}", "ORC"): value for key, value in given.items()}

    session = {"spark.sql.orc.compression.codec": conf["conf"]} if conf else {}
    answer = options_of(ORC_SERDE, conf=session, parameters=named(table), serde_parameters=named(serde))
    usual = {None: "zstd", "conf": conf.get("conf", "").lower()}
    assert answer.compression == usual.get(expected, expected)


def test_orc_without_a_setting_is_what_this_spark_writes():
    assert options_of(ORC_SERDE, version="4.1.2").compression == "zstd"
    assert options_of(ORC_SERDE, version="3.5.6").compression == "snappy"


@pytest.mark.parametrize("codec", ["lzo", "brotli", "gzip"])
def test_an_orc_codec_that_arrow_lacks_is_refused_with_the_choice(codec):
    with pytest.raises(InvalidInputError, match=rf'{codec}.*snappy, zlib, lz4, zstd.*engine="spark"') as caught:
        options_of(ORC_SERDE, serde_parameters={"orc.compress": codec})
    assert caught.value.table == "mart.orders"


@pytest.mark.parametrize(
    ("codec", "suffix"),
    [("NONE", ".orc"), ("uncompressed", ".orc"), ("snappy", ".snappy.orc"), ("ZLIB", ".zlib.orc"), ("lz4", ".lz4.orc")],
)
def test_orc_files_are_named_as_sparks(codec, suffix):
    assert OrcOptions(compression=codec).file_name_suffix == suffix


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


def test_a_time_zone_that_python_does_not_know_is_refused_only_for_orc():
    assert options_of(time_zone="Mars/Olympus")
    with pytest.raises(InvalidInputError, match=r"'Mars/Olympus'.*Duser.timezone=UTC.*engine=\"spark\""):
        options_of(ORC_SERDE, time_zone="Mars/Olympus")


def test_orc_options_travel_whole():
    options = OrcOptions(time_zone="America/New_York")
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301 - made on the line before
    assert options.epoch_seconds == OrcOptions().epoch_seconds + 5 * 3600
