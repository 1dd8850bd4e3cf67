"""How a Parquet table's files are encoded: as Spark's own writer would choose."""

from __future__ import annotations

from typing import Any

import pytest

from table_writer.config import WriteOptions
from table_writer.errors import InvalidInputError
from table_writer.jobs.plan.file_options import engine_of, file_options
from table_writer.jobs.plan.parquet_settings import FACTORY, FileSettings
from table_writer.model.table import Column, Table, TableName
from table_writer.model.units import MIB
from table_writer.model.upload_spec import ParquetOptions, PerColumn

PARQUET_SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
KEY = "parquet.encryption.uniform.key"


def table_with(**said: dict[str, str]) -> Table:
    return Table(
        name=TableName("mart", "orders"),
        kind="MANAGED_TABLE",
        location="s3a://lake/orders",
        columns=(Column("id", "bigint"),),
        partition_columns=(),
        serde=PARQUET_SERDE,
        parameters=said.get("parameters", {}),
        serde_parameters=said.get("serde_parameters", {}),
    )


def options_of(*, conf: dict[str, str] | None = None, **said: dict[str, str]) -> ParquetOptions:
    table = table_with(**said)
    return file_options(table, (conf or {}).get, FileSettings(table, conf or {}), "{}", "4.3.0")


def engine_under(session: dict[str, str], *, config: dict[str, str] | None = None, **said: dict[str, str]) -> str:
    table = table_with(**said)
    return engine_of(table, WriteOptions(), FileSettings(table, session, config))


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


def test_hives_own_reader_gets_what_it_takes() -> None:
    kind, of_using = "spark.sql.parquet.outputTimestampType", {"parameters": {"spark.sql.sources.provider": "parquet"}}
    legacy = "spark.sql.parquet.writeLegacyFormat"
    assert [options_of().legacy_format, options_of(**of_using).legacy_format] == [True, False]
    assert not options_of(conf={legacy: "false"}).legacy_format
    micros = {kind: "TIMESTAMP_MICROS", "spark.sql.hive.convertMetastoreParquet": "false"}
    assert options_of(conf=micros).timestamp_type == "INT96"
    assert options_of(conf=micros, **of_using).timestamp_type == "TIMESTAMP_MICROS"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("parquet.page.size", "4096", {"page_bytes": 4096}),
        ("parquet.page.size", str(16 * MIB), {"page_bytes": MIB}),
        ("parquet.dictionary.page.size", "1000", {"dictionary_bytes": 1000}),
        ("parquet.enable.dictionary", "FALSE", {"dictionaries": PerColumn(usual=False)}),
        ("parquet.enable.dictionary#Id.x", "false", {"dictionaries": PerColumn(others=(("Id.x", False),))}),
        ("parquet.column.statistics.enabled", "false", {"statistics": PerColumn(usual=False)}),
        ("parquet.writer.version", "PARQUET_2_0", {"page_version": "2.0"}),
        ("parquet.writer.version", "v1", {"page_version": "1.0"}),
        ("parquet.page.write-checksum.enabled", "false", {"page_checksums": False}),
        ("parquet.block.row.count.limit", "1000", {"row_group_rows": 1000}),
        ("spark.sql.parquet.fieldId.write.enabled", "false", {"field_ids": False}),
    ],
)
def test_what_arrow_can_do_it_does(name: str, value: str, expected: dict[str, Any]) -> None:
    answer = options_of(conf={name: value})
    assert {key: getattr(answer, key) for key in expected} == expected


def test_a_tables_option_wins_over_its_property_and_that_over_the_session() -> None:
    name = "parquet.page.size"
    conf, property_, option = {name: "1"}, {"parameters": {name: "2"}}, {"serde_parameters": {name.upper(): "3"}}
    assert options_of(conf=conf).page_bytes == 1
    assert options_of(conf=conf, **property_).page_bytes == 2
    assert options_of(conf=conf, **property_, **option).page_bytes == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("parquet.page.size", "1M"),
        ("parquet.page.size", "0"),
        ("parquet.block.row.count.limit", "-1"),
        ("parquet.enable.dictionary", "yes"),
        ("parquet.writer.version", "3"),
    ],
)
def test_a_value_that_spark_would_refuse_is_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{name}='{value}' is") as raised:
        options_of(conf={name: value})
    assert raised.value.table == "mart.orders"


@pytest.mark.parametrize(
    ("session", "said"),
    [
        ({FACTORY: "F", KEY: "k"}, {}),
        ({"spark.hadoop." + FACTORY: "F", FACTORY: "F", KEY: "k"}, {}),
        ({FACTORY: "F"}, {}),  # which decides by itself
        ({FACTORY: "F"}, {"parameters": {KEY: "k"}}),
        ({FACTORY: "F"}, {"serde_parameters": {"parquet.encryption.column.keys": "k:card"}}),
        ({}, {"serde_parameters": {FACTORY: "F", KEY: "k"}}),
        ({"parquet.encryption.kms.client.class": "K"}, {}),
    ],
)
def test_what_asks_for_encryption_is_written_by_spark(session: dict[str, str], said: dict[str, dict[str, str]]) -> None:
    assert engine_under(session, **said) == "spark"


@pytest.mark.parametrize(
    ("session", "config", "said", "reason"),
    [
        ({KEY: "hush"}, {}, {}, f"{KEY} asks for encryption, and without {FACTORY}"),
        ({}, {}, {"parameters": {KEY: "hush"}}, f"{KEY} asks for encryption, and without {FACTORY}"),
        ({f"spark.hadoop.{FACTORY}": "hush"}, {}, {}, "does not see it"),
        ({FACTORY: "F"}, {KEY: "hush"}, {}, "does not see it"),
        ({FACTORY: "F"}, {}, {"parameters": {KEY.upper(): "hush"}}, f"{KEY.upper()} asks for .* does not see it"),
        ({FACTORY: "F", "parquet.encryption.key.material.store.internally": "FALSE"}, {}, {}, "beside the data"),
    ],
)
def test_what_spark_would_write_in_plain_is_refused_without_showing_a_key(
    session: dict[str, str], config: dict[str, str], said: dict[str, dict[str, str]], reason: str
) -> None:
    with pytest.raises(InvalidInputError, match=f"table mart.orders: .*{reason}.* Nothing was written") as raised:
        engine_under(session, config=config, **said)
    assert "hush" not in str(raised.value)


def notes_under(session: dict[str, str]) -> tuple[str, ...]:
    return FileSettings(table_with(), session).notes()


def test_what_is_not_followed_is_named_without_its_value() -> None:
    (note,) = notes_under({"parquet.bloom.filter.enabled#id": "true", "parquet.new.in.2030": "hush"})
    assert note == (
        "the files of this write do not follow parquet.bloom.filter.enabled#id, parquet.new.in.2030: those of a write"
        " with engine='spark' do"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("parquet.bloom.filter.enabled", "false"),
        ("parquet.page.size", "4096"),
        ("parquet.filter.stats.enabled", "false"),
        ("spark.sql.parquet.filterPushdown.date", "false"),
        ("spark.sql.parquet.datetimeRebaseModeInWrite", "CORRECTED"),
        ("compression.codec.of.others", "x"),
    ],
)
def test_what_changes_nothing_makes_no_note(name: str, value: str) -> None:
    assert notes_under({name: value}) == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("parquet.page.size", str(2 * MIB)),
        ("spark.sql.parquet.datetimeRebaseModeInWrite", "legacy"),
        ("spark.sql.parquet.compression.codec", "LZ4"),
        ("parquet.page.size#id", "4096"),  # there is no such setting of a column
    ],
)
def test_a_value_that_is_not_followed_makes_a_note(name: str, value: str) -> None:
    (note,) = notes_under({name: value})
    assert name.lower() in note
