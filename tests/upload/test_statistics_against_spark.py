"""What a write knows of its columns without reading a file, against what Spark finds when it reads them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from table_writer.jobs.upload.job import run_upload
from table_writer.model.column_statistics import ColumnStatistics
from table_writer.model.location import Location
from table_writer.model.table import Column, Table, TableName
from table_writer.model.upload_spec import ParquetOptions, UploadSpec
from table_writer.model.write import TableLayout, WritePlan, WrittenFiles
from table_writer.model.write_mode import WriteMode
from table_writer.storage.local.settings import LocalSettings
from table_writer.storage.object_store import open_store
from tests.upload.rows_of_all_types import COLUMNS, LOCAL_TIMESTAMPS, TIMESTAMPS, table

FORMATS = {
    "int96": ParquetOptions(timestamp_type="INT96"),
    "micros": ParquetOptions(timestamp_type="TIMESTAMP_MICROS"),
    "millis": ParquetOptions(timestamp_type="TIMESTAMP_MILLIS"),
    "legacy": ParquetOptions(legacy_format=True),
}
MORE: dict[str, tuple[str, list[Any]]] = {
    "all_null": ("bigint", [None]),
    "all_null_text": ("string", [None]),
    "all_null_date": ("date", [None]),
    "one_value": ("int", [7]),
    "empty_text": ("string", ["", None]),
    "text": ("string", ["b", "", "ab", "B", "\u00e4", None]),
    "above_surrogates": ("string", ["\uff21", "\U0001f600", "\ue000", "z"]),
    "zero_byte": ("string", ["a\x00", "a", "\x00"]),
    "long_text": ("string", ["k", "x" * 300]),
    "new_date": ("date", [datetime(year, 5, 6, tzinfo=UTC).date() for year in (1583, 1969, 2024, 9999)]),
    "negative": ("decimal(20,2)", [Decimal("-0.01"), Decimal("-12345678901234567.89"), None]),
    "whole": ("decimal(38,0)", [Decimal(10**37), Decimal(-(10**37)), Decimal(0)]),
    "fine": ("decimal(38,38)", [Decimal("0.1"), Decimal("-0." + "9" * 38)]),
    "new_moment": ("timestamp", [datetime(2024, 1, 1, 0, 0, 0, 1999, tzinfo=UTC), datetime(1969, 12, 31, tzinfo=UTC)]),
    "odd näme.x": ("int", [3, None, 4]),
}
BOUNDED = ("int", "bigint", "smallint", "tinyint", "date", "string", "decimal", "timestamp")
UNCLEAR = {
    "int96": {"string", "long_text", "timestamp", "new_moment"},
    "legacy": {"string", "long_text", "timestamp", "new_moment"},
}
"""Columns of which a format does not tell both bounds: the text of 5,000 letters is in ``string``."""


@pytest.fixture
def spark(lakehouse: Any) -> Iterator[SparkSession]:
    session: SparkSession = lakehouse.spark
    zone = session.conf.get("spark.sql.session.timeZone")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    yield session
    session.conf.set("spark.sql.session.timeZone", str(zone))


def staged_files(rows: DataFrame, directory: Path, options: ParquetOptions) -> WrittenFiles:
    """Write rows, the last column being the partition, and return what the driver knows of the files."""
    root = Location.parse(f"file://{directory}/")
    named = Table(
        name=TableName("mart", "orders"),
        kind="EXTERNAL_TABLE",
        location=str(root),
        columns=tuple(Column(name, kind) for name, kind in rows.dtypes[:-1]),
        partition_columns=(Column("p", "string"),),
    )
    plan = WritePlan(
        write_id="w1",
        mode=WriteMode.APPEND,
        table=named,
        layout=TableLayout(root),
        schema=rows.drop("p").schema.json(),
        base_version=0,
        checkpoint=0,
        in_doubt=frozenset(),
        created_at=datetime.now(UTC),
    )
    spec = UploadSpec(
        write_id="w1",
        key_prefix=plan.data_location.key,
        store=LocalSettings(),
        data_columns=tuple(rows.columns[:-1]),
        partition_columns=("p",),
        file_options=options,
    )
    messages = run_upload(rows, spec)
    store = open_store(spec.store)
    for message in messages:
        for upload in message.uploads:
            store.complete_upload(upload.key, upload.upload_id, upload.parts)
    return WrittenFiles.from_messages(plan, messages)


def read(rows: DataFrame, staged: WrittenFiles) -> DataFrame:
    reader = rows.sparkSession.read.schema(rows.drop("p").schema).option("recursiveFileLookup", "true")
    return reader.parquet(str(staged.plan.data_location))


def found_by_spark(rows: DataFrame) -> dict[str, tuple[int, str | None, str | None]]:
    """Nulls, minimum and maximum as text that Spark makes: of moments, the microseconds after 1970."""
    asked = []
    for number, (name, kind) in enumerate(rows.dtypes):
        column = f"`{name.replace('`', '``')}`"
        asked.append(f"count(1) - count({column}) AS nulls{number}")
        if kind.startswith(BOUNDED):
            value = f"unix_micros(CAST({column} AS timestamp))" if kind.startswith("timestamp") else column
            asked += [f"CAST({what}({value}) AS string) AS {what}{number}" for what in ("min", "max")]
    (row,) = rows.selectExpr(*asked).collect()
    told = row.asDict()
    return {
        name: (told[f"nulls{number}"], told.get(f"min{number}"), told.get(f"max{number}"))
        for number, name in enumerate(rows.columns)
    }


def as_sparks(bound: Any, expected: str | None) -> str | None:
    if isinstance(bound, Decimal):
        return expected if expected is not None and Decimal(expected) == bound else str(bound)
    if isinstance(bound, datetime):
        since = bound.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        return str((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)
    return None if bound is None else str(bound)


def assert_as_spark_finds(told: ColumnStatistics, found: tuple[int, str | None, str | None], *, both: bool) -> None:
    nulls, low, high = found
    assert told.null_count == nulls
    spelled = as_sparks(told.low, low), as_sparks(told.high, high)
    assert spelled[0] in {low, None}
    assert spelled[1] in {high, None}
    if both:
        assert spelled == (low, high)


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_known_without_reading_is_what_spark_finds(spark: SparkSession, tmp_path: Path, form: str) -> None:
    locals_too = LOCAL_TIMESTAMPS if form == "micros" else {}
    rows = table(spark, COLUMNS | TIMESTAMPS | MORE | locals_too).selectExpr("*", "CAST(row % 3 AS string) AS p")
    rows = rows.repartition(4)
    staged = staged_files(rows, tmp_path, FORMATS[form])
    found = found_by_spark(read(rows, staged))
    nested = {name for name, kind in rows.dtypes if kind.startswith(("array", "map", "struct"))}
    assert staged.statistics.keys() == set(rows.columns) - nested - {"p"}
    for name, told in staged.statistics.items():
        both = name not in UNCLEAR.get(form, {"string", "long_text"})
        assert_as_spark_finds(told, found[name], both=both)


def test_values_that_only_java_knows_are_not_told_wrongly(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(20).selectExpr(
        "date_add(date'9999-12-31', CAST(id AS int)) AS late",
        "date_add(date'9999-12-31', CAST(id * 400000 AS int)) AS later",
        "CASE WHEN id = 3 THEN timestamp_micros(300000000000000000) ELSE timestamp'2024-01-01' END AS moment",
        "CAST(IF(id = 5, X'FF', X'61') AS string) AS text",
        "CAST(IF(id % 2 = 0, X'C0AF', NULL) AS string) AS overlong",
        "CAST(id % 2 AS string) AS p",
    )
    staged = staged_files(rows, tmp_path, FORMATS["micros"])
    nulls = {name: nulls for name, (nulls, _, _) in found_by_spark(read(rows, staged)).items()}
    assert {name: told.null_count for name, told in staged.statistics.items()} == nulls
    assert {name: told.high for name, told in staged.statistics.items()} == dict.fromkeys(rows.columns[:-1])


def test_a_write_without_rows_knows_nothing(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(0).selectExpr("id", "'a' AS p")
    staged = staged_files(rows, tmp_path, FORMATS["micros"])
    assert (staged.row_count, staged.statistics) == (0, {})


def test_text_that_spark_orders_otherwise_has_its_nulls_counted_only(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(4).selectExpr(
        "CAST(id AS string) COLLATE UNICODE_CI AS collated", "CAST(id AS string) AS plain", "'a' AS p"
    )
    staged = staged_files(rows, tmp_path, FORMATS["micros"])
    assert staged.statistics["collated"] == ColumnStatistics(null_count=0)
    assert staged.statistics["plain"] == ColumnStatistics(null_count=0, low="0", high="3")
