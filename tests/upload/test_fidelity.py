"""Our files against those that Spark writes of the same rows: same schema, same values for every reader."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from table_writer.jobs.upload.job import run_upload
from table_writer.storage.object_store import open_store
from tests.cells import first_fast
from tests.upload.rows_of_all_types import COLUMNS, LOCAL_TIMESTAMPS, TIMESTAMPS, spec_of, table


def write_ours(rows: DataFrame, directory: Path, *, is_one: bool = True, **options: Any) -> Path:
    """Return the one file of these rows, or the directory of all."""
    spec = spec_of(rows, directory, **options)
    store = open_store(spec.store)
    for message in run_upload(rows, spec):
        for upload in message.uploads:
            store.complete_upload(upload.key, upload.upload_id, upload.parts)
    (file,) = (directory / "w1").glob("*.parquet") if is_one else (directory / "w1",)
    return file


def write_sparks(rows: DataFrame, directory: Path) -> Path:
    rows.write.parquet(f"file://{directory}/spark")
    (file,) = (directory / "spark").glob("*.parquet")
    return file


@pytest.fixture
def spark(lakehouse) -> Iterator[SparkSession]:
    """A session whose settings a test may change."""
    session = lakehouse.spark
    names = (
        "spark.sql.session.timeZone",
        "spark.sql.parquet.outputTimestampType",
        "spark.sql.parquet.enableVectorizedReader",
        "spark.sql.parquet.compression.codec",
        "spark.sql.parquet.writeLegacyFormat",
    )
    before = {name: session.conf.get(name) for name in names}
    yield session
    for name, value in before.items():
        session.conf.set(name, value)


def parquet_schema(file: Path) -> list[str]:
    text = str(pq.ParquetFile(file).schema).split("\n", 1)[1]
    lines = [re.sub(r"field_id=-?\d+ ", "", line) for line in text.splitlines()]
    return lines[1:]  # the first names the root: spark_schema or schema


def read_by_spark(spark: SparkSession, file: Path, schema: StructType, *, vectorized: bool) -> list[str]:
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", str(vectorized).lower())
    back = spark.read.parquet(f"file://{file}")
    assert back.schema == schema
    # As text made by Spark: Python cannot hold every moment, and compares NaN and -0.0 its own way.
    texts = [f"to_json(named_struct('{name}', `{name}`)) AS `{name}`" for name in back.columns]
    binary = [f"hex(`{name}`) AS `{name}_bytes`" for name, kind in back.dtypes if kind == "binary"]
    return sorted(map(str, back.selectExpr(*texts, *binary).collect()))


def read_by_arrow(file: Path) -> list[str]:
    return sorted(map(repr, pq.read_table(file, partitioning=None, coerce_int96_timestamp_unit="us").to_pylist()))


def read_by_duckdb(file: Path) -> list[str]:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    relation = connection.sql(f"FROM read_parquet('{file}')")
    texts = ", ".join(f'CAST("{name}" AS VARCHAR)' for name in relation.columns)
    types = list(map(str, relation.types))
    return [*types, *sorted(map(repr, connection.sql(f"SELECT {texts} FROM relation").fetchall()))]


def assert_same_for_every_reader(spark: SparkSession, rows: DataFrame, ours: Path, sparks: Path) -> None:
    for vectorized in (True, False):
        expected = read_by_spark(spark, sparks, rows.schema, vectorized=vectorized)
        assert read_by_spark(spark, ours, rows.schema, vectorized=vectorized) == expected
    assert read_by_arrow(ours) == read_by_arrow(sparks)
    assert read_by_duckdb(ours) == read_by_duckdb(sparks)


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.slow
def test_a_column_reads_as_sparks_own(spark, tmp_path, name):
    rows = table(spark, {name: COLUMNS[name]})
    ours, sparks = write_ours(rows, tmp_path), write_sparks(rows, tmp_path)
    assert parquet_schema(ours) == parquet_schema(sparks)
    assert_same_for_every_reader(spark, rows, ours, sparks)


def test_a_table_of_all_types_reads_as_sparks_own(spark, tmp_path):
    rows = table(spark, COLUMNS | TIMESTAMPS)
    ours, sparks = write_ours(rows, tmp_path), write_sparks(rows, tmp_path)
    assert parquet_schema(ours) == parquet_schema(sparks)
    assert_same_for_every_reader(spark, rows, ours, sparks)


@pytest.mark.parametrize("zone", first_fast(["America/New_York", "UTC", "Asia/Kolkata"]))
@pytest.mark.parametrize("kind", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
def test_moments_of_all_ages_read_as_sparks_own(spark, tmp_path, zone, kind):
    spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.parquet.outputTimestampType", kind)
    columns = {"timestamp": TIMESTAMPS["timestamp"]} if kind == "TIMESTAMP_MILLIS" else TIMESTAMPS
    rows = table(spark, columns)
    ours, sparks = write_ours(rows, tmp_path, timestamp_type=kind), write_sparks(rows, tmp_path)
    assert parquet_schema(ours) == parquet_schema(sparks)
    assert_same_for_every_reader(spark, rows, ours, sparks)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_local_timestamps_are_micros_whatever_moments_are(spark, tmp_path, zone):
    spark.conf.set("spark.sql.session.timeZone", zone)
    rows = table(spark, LOCAL_TIMESTAMPS)
    ours, sparks = write_ours(rows, tmp_path, timestamp_type="INT96"), write_sparks(rows, tmp_path)
    assert parquet_schema(ours) == parquet_schema(sparks)
    assert_same_for_every_reader(spark, rows, ours, sparks)


def test_int96_beside_local_timestamps_becomes_micros_with_the_same_values(spark, tmp_path):
    rows = table(spark, TIMESTAMPS | LOCAL_TIMESTAMPS)
    ours = write_ours(rows, tmp_path, timestamp_type="INT96")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    sparks = write_sparks(rows, tmp_path)
    assert parquet_schema(ours) == parquet_schema(sparks)
    assert_same_for_every_reader(spark, rows, ours, sparks)


def test_millis_inside_a_nested_column_stay_micros(spark, tmp_path):
    rows = table(spark, {"timestamps": TIMESTAMPS["timestamps"]})
    ours = write_ours(rows, tmp_path, timestamp_type="TIMESTAMP_MILLIS")
    assert "microseconds" in "".join(parquet_schema(ours))


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4_raw"])
def test_every_codec_reads_as_sparks_own_and_is_spelled_like_it(spark, tmp_path, codec):
    spark.conf.set("spark.sql.parquet.compression.codec", codec)
    rows = table(spark, {name: COLUMNS[name] for name in ("string", "long")})
    ours, sparks = write_ours(rows, tmp_path, compression=codec), write_sparks(rows, tmp_path)
    assert "".join(ours.suffixes) == "." + sparks.name.split(".", 1)[1]
    assert_same_for_every_reader(spark, rows, ours, sparks)


def test_the_legacy_format_writes_decimals_as_fixed(spark, tmp_path):
    spark.conf.set("spark.sql.parquet.writeLegacyFormat", "true")
    rows = table(spark, {name: column for name, column in COLUMNS.items() if name.startswith("decimal")})
    ours, sparks = write_ours(rows, tmp_path, legacy_format=True), write_sparks(rows, tmp_path)
    assert parquet_schema(ours) == parquet_schema(sparks)
    assert_same_for_every_reader(spark, rows, ours, sparks)


def test_columns_that_are_never_null_are_optional_all_the_same(spark, tmp_path):
    rows = spark.range(5).selectExpr("id", "array(id) a", "named_struct('x', id) s", "map(id, id) m").coalesce(1)
    ours = write_ours(rows, tmp_path)
    required = [line.strip() for line in parquet_schema(ours) if "required" in line]
    assert required == ["required int64 key;"]


def test_statistics_are_there_for_every_column(spark, tmp_path):
    rows = table(spark, {name: COLUMNS[name] for name in ("int", "string", "date", "decimal_10", "boolean")})
    group = pq.read_metadata(write_ours(rows, tmp_path)).row_group(0)
    assert all(group.column(position).is_stats_set for position in range(group.num_columns))
    assert all(group.column(position).has_column_index for position in range(group.num_columns))


def test_strings_that_arrow_calls_large_read_as_sparks_own(spark, tmp_path):
    name = "spark.sql.execution.arrow.useLargeVarTypes"
    spark.conf.set(name, "true")
    try:
        rows = table(spark, {name: COLUMNS[name] for name in ("string", "binary", "array_of_arrays")})
        ours, sparks = write_ours(rows, tmp_path), write_sparks(rows, tmp_path)
    finally:
        spark.conf.unset(name)
    assert parquet_schema(ours) == parquet_schema(sparks)
    assert_same_for_every_reader(spark, rows, ours, sparks)


def test_old_arrow_readers_get_plain_types(spark, tmp_path):
    schema = pq.read_schema(write_ours(table(spark, COLUMNS), tmp_path))
    assert schema.field("string").type == pa.string()
    assert b"ARROW:schema" not in (schema.metadata or {})
