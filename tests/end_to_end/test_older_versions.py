"""Older versions, read by Spark: exactly the rows that readers saw then, or an error."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from table_writer import InvalidInputError, Maintenance, TableWriter
from table_writer.config import Engine
from table_writer.model.table import NULL_PARTITION
from table_writer.spark.past import FORGIVING
from table_writer.spark.sql import SPARK_ERRORS
from table_writer.testing import Lakehouse

Make = Callable[..., str]
Rows = Callable[..., DataFrame]
KINDS: Final = (
    "CREATE TABLE {name} (id BIGINT, note STRING, dt STRING) USING parquet PARTITIONED BY (dt)",
    "CREATE TABLE {name} (id BIGINT, note STRING) PARTITIONED BY (dt STRING) STORED AS TEXTFILE",
    "CREATE TABLE {name} (id BIGINT, note STRING, dt STRING) USING csv PARTITIONED BY (dt)",
    "CREATE TABLE {name} (id BIGINT, note STRING, dt STRING) USING orc PARTITIONED BY (dt)",
    "CREATE TABLE {name} (id BIGINT, note STRING) PARTITIONED BY (dt STRING) STORED AS PARQUET",
    "CREATE TABLE {name} (id BIGINT, note STRING) PARTITIONED BY (dt STRING) STORED AS AVRO",
)
BOTH: Final = KINDS[:2]  # one that Spark reads itself, one that a SerDe reads


def found(rows: DataFrame) -> set[tuple[Any, ...]]:
    """Return the rows; where a partition is of null, Hive's reader says how its directory is named."""
    columns = [name for name in ("id", "note", "dt") if name in rows.columns]
    return {tuple(None if one == NULL_PARTITION else one for one in row) for row in rows.select(columns).collect()}


def delete(lakehouse: Lakehouse, paths: Collection[str]) -> None:
    for path in paths:
        bucket, _, key = path.split("://")[1].partition("/")
        lakehouse.s3.delete_object(Bucket=bucket, Key=key)


def files_of(lakehouse: Lakehouse, keeper: Maintenance, table: str, version: int) -> list[str]:
    """Return the files at the locations that a version has published."""
    locations = [one.new_location for one in keeper.show(table, version).partitions if one.new_location]
    keys = []
    for bucket, _, prefix in (one.split("://")[1].partition("/") for one in locations):
        listed = lakehouse.s3.list_objects_v2(Bucket=bucket, Prefix=prefix)
        keys += [f"s3a://{bucket}/{one['Key']}" for one in listed.get("Contents", [])]
    return keys


@pytest.mark.connect
@pytest.mark.parametrize("ddl", [KINDS[0], *(pytest.param(one, marks=pytest.mark.slow) for one in KINDS[1:])])
def test_every_version_is_what_readers_saw_after_it(
    ddl: str, writer: TableWriter, spark: SparkSession, make_table: Make, rows: Rows
) -> None:
    table = make_table(ddl)
    seen = {0: found(spark.table(table))}

    def note(version: int | None) -> None:
        assert version is not None
        spark.catalog.refreshTable(table)
        seen[version] = found(spark.table(table))

    note(writer.overwrite_partitions(rows((1, "a", "x/y"), (2, "b", "d2"), (3, "c", "ü=%")), table).version)
    note(writer.append(rows((4, "d", "x/y")), table).version)
    between = datetime.now(UTC)
    note(writer.overwrite_table(rows((5, "e", "d2"), (6, "f", None)), table).version)
    note(writer.maintenance.rollback(table, version=1, partitions=["dt=d2"]).version)
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS (more INT)")
    assert {version: found(writer.read(table, version=version)) for version in seen} == seen
    assert writer.read(table, version=1).columns == spark.table(table).columns
    assert found(writer.read(table, as_of=between)) == seen[2]
    past = writer.read(table, version=1)
    expected: dict[str, Callable[[Any], bool]] = {
        "dt = 'x/y'": lambda row: row[2] == "x/y",
        "dt <> 'x/y' AND id < 3": lambda row: row[2] != "x/y" and row[0] < 3,
        "DT IN ('d2', 'ü=%') OR id = 1": lambda row: row[2] in {"d2", "ü=%"} or row[0] == 1,
    }
    assert {where: found(past.where(where)) for where in expected} == {
        where: set(filter(wanted, seen[1])) for where, wanted in expected.items()
    }
    null = found(spark.table(table).where("dt <> 'd2'"))
    assert found(writer.read(table, version=4).where("dt <> 'd2'")) == null, "as readers see the partition of null"


@pytest.mark.parametrize("stored_as", ["TEXTFILE", "ORC", pytest.param("SEQUENCEFILE", marks=pytest.mark.slow)])
def test_filters_on_partition_columns_find_what_readers_found(
    stored_as: str, writer: TableWriter, make_table: Make, spark: SparkSession
) -> None:
    table = make_table(f"CREATE TABLE {{name}} (id INT) PARTITIONED BY (dt STRING, hour INT) STORED AS {stored_as}")
    rows = [(1, "d1", 1), (2, "d2", 1), (3, "d2", 2), (4, None, 3)]
    df = spark.createDataFrame(rows, "id INT, dt STRING, hour INT")
    writer.append(df, table)
    spark.catalog.refreshTable(table)
    filters = (
        "DT = 'd2'",
        "dt = 'd2' AND Hour = 2 AND id > 0",
        "substring(dt, 2) = '1'",
        "dt <> 'd2'",
        "dt IS NULL",
        "NOT (dt <=> 'd1') AND hour IN (1, 3)",
        "dt = 'd1' OR id = 3",
        "rand() < 2 AND dt = 'd2'",
        "dt = (SELECT 'd' || 2)",
    )
    seen = {where: {row.id for row in spark.table(table).where(where).collect()} for where in filters}
    writer.overwrite_table(df.where("id = 2"), table)
    past, days = writer.read(table, version=1), spark.createDataFrame([("d2",)], "dt STRING")
    assert {where: {row.id for row in past.where(where).collect()} for where in filters} == seen
    assert [past.where(where).count() for where in filters] == [len(ids) for ids in seen.values()]
    assert seen["dt IS NULL"] == {4}
    assert {row.id for row in past.join(days, "dt").collect()} == {2, 3}
    assert {row.id for row in past.select("id", "dt").where("dt = 'd1'").select("id").collect()} == {1}
    assert past.exceptAll(writer.read(table, version=2)).where("dt = 'd2'").collect() == [(3, "d2", 2)]


@pytest.mark.parametrize("stored_as", ["TEXTFILE", pytest.param("PARQUET", marks=pytest.mark.slow)])
def test_a_partition_of_null_and_padded_values_are_found_by_filters(
    stored_as: str, writer: TableWriter, make_table: Make, spark: SparkSession
) -> None:
    table = make_table(f"CREATE TABLE {{name}} (id INT) PARTITIONED BY (kind CHAR(30)) STORED AS {stored_as}")
    writer.append(spark.sql("SELECT 1 id, 'a' kind UNION ALL SELECT 2, NULL"), table)
    past = writer.read(table, version=1)
    assert {row.id: row.kind and row.kind.strip() for row in past.collect()} == {1: "a", 2: None}
    filters = {"kind = 'a'": 1, "kind IS NOT NULL": 1, "kind IS NULL": 2}
    assert {where: [row.id for row in past.where(where).collect()] for where in filters} == {
        where: [one] for where, one in filters.items()
    }


@pytest.mark.connect
def test_it_can_be_joined_cached_and_compared(
    writer: TableWriter, orders: str, spark: SparkSession, rows: Rows
) -> None:
    writer.overwrite_partitions(rows((1, "old", "d1"), (2, "old", "d2")), orders)
    writer.overwrite_partitions(rows((1, "new", "d1")), orders)
    before, after = (writer.read(orders, version=version) for version in (1, 2))
    assert found(after.exceptAll(before)) == {(1, "new", "d1")}
    joined = before.join(spark.table(orders).select("id", "dt"), ["id", "dt"]).where("dt = 'd1'")
    assert found(joined) == {(1, "old", "d1")}
    cached = before.cache()
    assert (cached.count(), found(cached)) == (2, {(1, "old", "d1"), (2, "old", "d2")})
    cached.unpersist()


@pytest.mark.parametrize("ddl", BOTH)
def test_filters_on_partitions_decide_what_is_listed(
    ddl: str, writer: TableWriter, keeper: Maintenance, lakehouse: Lakehouse, make_table: Make, rows: Rows
) -> None:
    table = make_table(ddl)
    writer.overwrite_partitions(rows((1, "a", "d1"), (2, "b", "d2")), table)
    kept = writer.read(table, version=1)
    delete(lakehouse, [path for path in files_of(lakehouse, keeper, table, 1) if "dt=d2" in path])
    assert found(kept.where("dt = 'd1'")) == {(1, "a", "d1")}, "d2 was not looked at"
    with pytest.raises(SPARK_ERRORS, match=r"dt=d2 does not hold the files that readers found"):
        kept.count()


@pytest.mark.parametrize("ddl", BOTH)
@pytest.mark.parametrize("gone", ["some files", pytest.param("all files", marks=pytest.mark.slow)])
def test_files_that_go_meanwhile_are_an_error_and_never_fewer_rows(
    ddl: str,
    gone: str,
    writer: TableWriter,
    keeper: Maintenance,
    lakehouse: Lakehouse,
    make_table: Make,
    rows: Rows,
    spark: SparkSession,
) -> None:
    table = make_table(ddl)
    by_tasks: Engine = "arrow" if "parquet" in ddl else "spark"
    two_files = rows(*((number, "a", "d1") for number in range(8))).repartition(2)
    writer.overwrite_partitions(two_files, table, engine=by_tasks)
    writer.overwrite_partitions(rows((9, "b", "d1")), table)
    early = writer.read(table, version=1)
    assert early.count() == 8
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        listed = early.select("id")
        listed._jdf.queryExecution().executedPlan()
        files = files_of(lakehouse, keeper, table, 1)
        assert len(files) >= 2
        delete(lakehouse, files if gone == "all files" else files[:1])
        for late in (early.select("note"), writer.read(table, version=1), listed):
            with pytest.raises(SPARK_ERRORS):
                late.collect()
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")


@pytest.mark.connect
def test_what_a_vacuum_has_deleted_names_the_versions_whose_files_are_there(
    writer: TableWriter, keeper: Maintenance, orders: str, rows: Rows
) -> None:
    for number in range(1, 4):
        writer.overwrite_partitions(rows((number, "a", "d1"), (number, "a", f"e{number}")), orders)
    keeper.vacuum(orders, older_than=timedelta(0), force=True)
    with pytest.raises(InvalidInputError, match=r"Of version 3 and newer ones no vacuum.*table_writer\.retention"):
        writer.read(orders, version=1)
    assert found(writer.read(orders, version=1, partitions=["dt=e1"])) == {(1, "a", "e1")}
    assert found(writer.read(orders, version=3)) == {(3, "a", "d1"), *((one, "a", f"e{one}") for one in (1, 2, 3))}
    with pytest.raises(InvalidInputError, match="has no version 99"):
        writer.read(orders, version=99)


@pytest.mark.slow
def test_partitions_of_other_tools_are_read_only_as_they_were(
    writer: TableWriter, orders: str, spark: SparkSession, rows: Rows, lakehouse: Lakehouse
) -> None:
    spark.sql(f"INSERT INTO {orders} PARTITION (dt='spark') SELECT 7L, 'spark'")
    spark.sql(f"INSERT INTO {orders} PARTITION (dt='d1') SELECT 8L, 'spark'")
    bucket, _, key = (spark.table(orders).where("dt = 'd1'").inputFiles()[0]).split("://")[1].partition("/")
    lakehouse.s3.put_object(Bucket=bucket, Key=f"{key.rpartition('/')[0]}/_committed_1", Body=b"hidden")
    writer.overwrite_partitions(rows((1, "a", "d1")), orders)
    assert found(writer.read(orders, version=0)) == {(7, "spark", "spark"), (8, "spark", "d1")}
    assert found(writer.read(orders, version=1)) == {(7, "spark", "spark"), (1, "a", "d1")}
    writer.overwrite_partitions(rows((2, "b", "d2")), orders)
    time.sleep(1)  # S3 dates files by whole seconds
    spark.sql(f"INSERT INTO {orders} PARTITION (dt='spark') SELECT 9L, 'later'")
    with pytest.raises(SPARK_ERRORS, match="dt=spark"):
        writer.read(orders, version=1).count()
    assert found(writer.read(orders, version=1).where("dt = 'd1'")) == {(1, "a", "d1")}
    spark.sql(f"TRUNCATE TABLE {orders} PARTITION (dt='spark')")
    with pytest.raises(SPARK_ERRORS, match="dt=spark"):
        writer.read(orders, version=1).count()
    spark.sql(f"ALTER TABLE {orders} DROP PARTITION (dt='d1')")
    with pytest.raises(InvalidInputError, match="dt=d1: another tool or a late call has moved it"):
        writer.read(orders, version=2)


@pytest.mark.parametrize("kind", [pytest.param("USING parquet", marks=pytest.mark.slow), "STORED AS TEXTFILE"])
def test_an_unpartitioned_table_has_older_rows_too(
    kind: str, writer: TableWriter, make_table: Make, spark: SparkSession, rows: Rows
) -> None:
    table = make_table(f"CREATE TABLE {{name}} (id BIGINT, note STRING) {kind}")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'spark')")
    for one in (2, 3):
        writer.append(rows((one, "a", "")).drop("dt"), table)
    writer.overwrite_table(rows((4, "b", "")).drop("dt"), table)
    assert [found(writer.read(table, version=version)) for version in range(4)] == [
        {(1, "spark")},
        {(1, "spark"), (2, "a")},
        {(1, "spark"), (2, "a"), (3, "a")},
        {(4, "b")},
    ]


@pytest.mark.connect
def test_values_have_the_types_of_the_table(writer: TableWriter, make_table: Make, spark: SparkSession) -> None:
    columns = "day DATE, amount DECIMAL(10,2), at TIMESTAMP, number INT"
    table = make_table(
        f"CREATE TABLE {{name}} (id INT, {columns}) USING parquet PARTITIONED BY (day, amount, at, number)"
    )
    one = spark.sql(
        "SELECT 1 id, DATE'2024-02-29' day, 1.50BD amount, TIMESTAMP'2024-01-01 10:00:00.5' at, 7 number"
        " UNION ALL SELECT 2, NULL, NULL, NULL, NULL"
    )
    writer.overwrite_partitions(one, table)
    expected = sorted(map(tuple, spark.table(table).collect()))
    writer.overwrite_table(one.where("id = 3"), table, if_empty="replace")
    past = writer.read(table, version=1)
    assert sorted(map(tuple, past.collect())) == expected
    assert past.where("day = '2024-02-29' AND amount = 1.5 AND number > 6").count() == 1
    assert past.where("day IS NULL").count() == 1
    assert writer.read(table, version=2).count() == 0
    assert writer.read(table, version=2).schema == past.schema


def test_a_query_follows_the_session_as_it_is_then(writer: TableWriter, make_table: Make, spark: SparkSession) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT) PARTITIONED BY (at TIMESTAMP) STORED AS TEXTFILE")
    ten = "timestamp'2024-01-01 10:00:00'"
    writer.overwrite_partitions(spark.sql(f"SELECT 1L id, {ten} at"), table)
    past, zone = writer.read(table, version=1), spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        spark.catalog.refreshTable(table)
        assert [one.where(f"at = {ten}").count() for one in (past, spark.table(table))] == [1, 1]
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


@pytest.mark.parametrize("name", FORGIVING)
def test_a_context_that_passes_over_files_reads_no_older_version_by_a_serde(
    name: str, writer: TableWriter, make_table: Make, spark: SparkSession, rows: Rows
) -> None:
    table = make_table(KINDS[1])
    writer.overwrite_partitions(rows((1, "a", "d1")), table)
    settings = spark.sparkContext._jsc.sc().conf()
    settings.set(name, "true")
    try:
        with pytest.raises(InvalidInputError, match=name.replace(".", r"\.")):
            writer.read(table, version=1)
    finally:
        settings.remove(name)
    assert found(writer.read(table, version=1)) == {(1, "a", "d1")}


@pytest.mark.parametrize("ddl", BOTH)
def test_cached_rows_outlive_a_vacuum_and_others_end_with_an_error(
    ddl: str, writer: TableWriter, keeper: Maintenance, make_table: Make, rows: Rows
) -> None:
    table = make_table(ddl)
    writer.overwrite_partitions(rows((1, "old", "d1")), table)
    writer.overwrite_partitions(rows((2, "new", "d1")), table)
    cached, other = writer.read(table, version=1).cache(), writer.read(table, version=1)
    try:
        assert cached.count() == 1
        keeper.vacuum(table, older_than=timedelta(0), force=True)
        assert found(cached) == {(1, "old", "d1")}
        with pytest.raises(SPARK_ERRORS):
            other.collect()
    finally:
        cached.unpersist()


@pytest.mark.parametrize("kind", ["USING parquet", "STORED AS TEXTFILE"])
def test_an_unpartitioned_table_was_empty_before_its_first_version(
    kind: str, writer: TableWriter, make_table: Make, rows: Rows
) -> None:
    table = make_table(f"CREATE TABLE {{name}} (id BIGINT, note STRING) {kind}")
    writer.append(rows((1, "a", "")).drop("dt"), table)
    assert [writer.read(table, version=version).count() for version in (0, 1)] == [0, 1]
