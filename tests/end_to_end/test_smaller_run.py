"""The main job on local files: what also runs on Spark 3.5, which most clusters still have."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import IntegerType, StructField, StructType

from table_writer import CheckFailedError, InvalidInputError, PartitionExistsError, SchemaMismatchError, TableWriter
from table_writer.check import allowed_values, expression, fresh, in_range, matches, not_null, references, unique
from table_writer.check.check import Target
from table_writer.jobs.plan.planner import Where
from table_writer.spark.files import for_magic, missing_jar
from table_writer.testing import Lakehouse
from table_writer.testing.pytest_plugin import chosen_option
from tests.metastore.conftest import require_version

pytestmark = pytest.mark.smaller_run

DDL = (
    "CREATE TABLE {name} (id BIGINT, price DECIMAL(10,2), tags ARRAY<STRING>, info STRUCT<a: INT, b: STRING>,"
    " m MAP<STRING, INT>, at TIMESTAMP, day DATE, code CHAR(3), dt STRING) USING parquet PARTITIONED BY (dt)"
    " LOCATION 'file://{location}'"
)


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    database = f"smaller_{tmp_path.name.replace('-', '_')[-40:]}".lower()
    spark.sql(f"CREATE DATABASE {database} LOCATION 'file://{tmp_path}/db'")
    spark.sql(DDL.format(name=f"{database}.orders", location=f"{tmp_path}/orders"))
    yield f"{database}.orders"
    spark.sql(f"DROP DATABASE {database} CASCADE")


def row(number: int, partition: str) -> tuple[Any, ...]:
    at, day = datetime(1890, 1, 1, 12, 30), date(1500, 2, 3)  # noqa: DTZ001  # Spark's local time
    return (number, Decimal(f"{number}.25"), ["x", None], (number, "y"), {"k": number}, at, day, "ab", partition)


def test_spark_reads_back_what_was_written_and_only_its_partitions_change(
    spark: SparkSession, writer: TableWriter, table: str
) -> None:
    schema = spark.table(table).schema
    old = spark.createDataFrame([row(1, "d1"), row(2, "a b/c=ü%")], schema)
    writer.overwrite_partitions(old, table)
    result = writer.overwrite_partitions(spark.createDataFrame([row(3, "d1"), row(4, "d9")], schema), table)
    assert {p.name for p in result.replaced} == {"dt=d1"}
    assert {p.name for p in result.added} == {"dt=d9"}
    read = {r.id: tuple(r) for r in spark.table(table).collect()}
    padded = {
        number: (*row(number, partition)[:7], "ab ", partition)
        for number, partition in ((2, "a b/c=ü%"), (3, "d1"), (4, "d9"))
    }
    assert read == padded


@pytest.mark.parametrize("kind", ["PARQUET", "ORC", "TEXTFILE"])
def test_hives_own_tables_too(kind: str, spark: SparkSession, writer: TableWriter, table: str) -> None:
    hive = f"{table}_hive"
    spark.sql(f"CREATE TABLE {hive} (id INT) PARTITIONED BY (dt STRING, hour INT) STORED AS {kind}")
    result = writer.overwrite_partitions(spark.sql("SELECT 7 AS hour, 'd' AS dt, 1 AS id"), hive)
    assert [tuple(r) for r in spark.table(hive).collect()] == [(1, "d", 7)]
    assert result.notes == ()
    with pytest.raises(PartitionExistsError, match="dt=d/hour=7 exists"):
        writer.create_partitions(spark.sql("SELECT 7 AS hour, 'd' AS dt, 2 AS id"), hive)


def test_a_session_that_sets_nothing_has_sparks_own_defaults(
    spark: SparkSession, writer: TableWriter, table: str
) -> None:
    """Most sessions; the lakehouse sets a time zone. A default that a caller names would win over Spark's own."""
    names = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.readSideCharPadding")
    before = {name: spark.conf.get(name) for name in names}
    hours = f"{table}_hours"
    spark.sql(f"CREATE TABLE {hours} (id INT, hour TIMESTAMP) USING parquet PARTITIONED BY (hour)")
    rows = spark.sql("SELECT 1 AS id, TIMESTAMP'2024-01-01 10:00:00' AS hour")
    for name in names:
        spark.conf.unset(name)
    try:
        zone = spark.conf.get("spark.sql.session.timeZone")
        assert writer.overwrite_partitions(rows, hours, checks=[fresh("hour", within=timedelta(days=36_500))]).rows == 1
        assert writer.overwrite_partitions(rows, hours, where="hour < '2024-01-02'").replaced
        assert Target(spark=spark, table=hours, schema=rows.schema).time_zone == zone
        ansi = str(spark.conf.get("spark.sql.ansi.enabled")).lower() == "true"
        one = Where(spark, "n = 1", StructType([StructField("n", IntegerType())]), hours)
        assert one([("01",), ("1.0",), ("x",)]) == ({("01",)} if ansi else {("01",), ("1.0",)})
    finally:
        for name, value in before.items():
            spark.conf.set(name, str(value))


def test_the_metastore_is_the_one_that_was_asked_for(lakehouse: Lakehouse, request: pytest.FixtureRequest) -> None:
    require_version(lakehouse.metastore_uri, chosen_option(request.config, "hive"))


def test_a_session_is_copied_with_its_settings_and_hears_nothing_of_the_copys(spark: SparkSession) -> None:
    usual = str(spark.conf.get("spark.sql.shuffle.partitions"))
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    before = spark.conf.get("spark.sql.sources.commitProtocolClass", None)
    copied = for_magic(spark)
    spark.conf.set("spark.sql.shuffle.partitions", usual)
    assert copied.conf.get("spark.sql.shuffle.partitions") == "3"
    assert "PathOutputCommitProtocol" in str(copied.conf.get("spark.sql.sources.commitProtocolClass"))
    assert spark.conf.get("spark.sql.sources.commitProtocolClass", None) == before
    assert SparkSession.getActiveSession() is not copied
    jar = missing_jar(spark)
    assert jar == "" or jar.startswith("org.apache.spark:spark-hadoop-cloud_2.1")


def test_what_spark_wrote_is_replaced_and_stays_on_disk(
    spark: SparkSession, writer: TableWriter, table: str, tmp_path: Path
) -> None:
    df = spark.createDataFrame([row(1, "d1")], spark.table(table).schema)
    df = df.withColumn("at", F.lit(datetime(2024, 1, 1))).withColumn("day", F.lit(date(2024, 1, 1)))  # noqa: DTZ001
    df.write.insertInto(table)
    before = set((tmp_path / "orders" / "dt=d1").iterdir())
    result = writer.overwrite_partitions(df.withColumn("id", df.id + 1), table)
    assert [p.action for p in result.partitions] == ["replaced"]
    assert set((tmp_path / "orders" / "dt=d1").iterdir()) == before
    assert [r.id for r in spark.table(table).collect()] == [2]


def test_a_bad_call_writes_nothing(spark: SparkSession, writer: TableWriter, table: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatchError, match="missing"):
        writer.overwrite_partitions(spark.sql("SELECT 1L AS id, 'd' AS dt"), table)
    with pytest.raises(InvalidInputError, match="does not exist"):
        writer.overwrite_partitions(spark.sql("SELECT 1L AS id, 'd' AS dt"), f"{table}_nowhere")
    assert not (tmp_path / "orders" / "_table_writer").exists()


def test_a_value_too_long_for_its_char_column_fails_the_write(
    spark: SparkSession, writer: TableWriter, table: str, tmp_path: Path
) -> None:
    values = list(row(1, "d1"))
    values[7] = "abcd"
    df = spark.createDataFrame([tuple(values)], spark.table(table).schema)
    with pytest.raises(Exception, match=r"code is char\(3\)"):
        writer.overwrite_partitions(df, table)
    assert not list((tmp_path / "orders" / "_table_writer").rglob("*.parquet"))


def test_a_staged_write_is_checked_and_published(spark: SparkSession, writer: TableWriter, table: str) -> None:
    schema = spark.table(table).schema
    df = spark.createDataFrame([row(1, "d1"), row(2, "d2")], schema)
    checks = [
        not_null("id", "code"),
        unique("id", "dt"),
        unique("id"),
        in_range("price", min=1, max=9),
        allowed_values("code", ["ab"]),
        matches("dt", "d[0-9]"),
        expression("size(tags) = 2"),
        expression("count(*) = 2"),
    ]
    with writer.stage(df, table, checks=checks) as staged:
        assert sorted(one.id for one in staged.dataframe().collect()) == [1, 2]
        staged.publish()
    spark.range(1, 3).createOrReplaceTempView("known_ids")
    with pytest.raises(CheckFailedError) as failed:
        writer.append(
            spark.createDataFrame([row(3, "d1"), row(3, "d1"), row(1, "d1")], schema),
            table,
            checks=[unique("id"), in_range("id", max=2), references("id", "known_ids")],
        )
    spark.catalog.dropTempView("known_ids")
    assert [one.failed_rows for one in failed.value.results] == [2, 2, 2]
    assert sorted(one.id for one in spark.table(table).collect()) == [1, 2]
