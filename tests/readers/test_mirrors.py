"""Trino's connectors for Delta and Iceberg find in mirrors what Spark finds in the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

import pytest
import trino.exceptions
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from table_writer import Maintenance, TableWriter, TableWriterConfig
from table_writer.model.table import TableName
from table_writer.testing import Lakehouse
from tests.mirrors.comparing import differing

from .tables import KINDS, TYPES, Tables
from .test_while_writing import DAYS, content, rows
from .trino_connectors import TrinoOfMirrors
from .watching import Watched

NOT_MIRRORED: Final = {"elsewhere", "types_using_orc"}  # of another writer; no Parquet
REFUSED_BY_DELTA: Final = (
    "INSERT INTO {delta} VALUES (9, 1, 'd0')",
    "DELETE FROM {delta}",
    "DELETE FROM {delta} WHERE id = 3",
    "UPDATE {delta} SET id = 1",
    "MERGE INTO {delta} t USING (SELECT 3 AS id) u ON t.id = u.id WHEN MATCHED THEN DELETE",
    "TRUNCATE TABLE {delta}",
    "ALTER TABLE {delta} ADD COLUMN q INT",
    "ALTER TABLE {delta} EXECUTE optimize",
    "CALL delta.system.vacuum('{database}', 'written_delta', '0s')",
)
TAKES_NOTHING: Final = (
    "ALTER TABLE {iceberg} EXECUTE remove_orphan_files(retention_threshold => '0s')",
    "DROP TABLE {delta}",
)
INT96: Final = "Unsupported Trino column type .* optional int96"


@pytest.fixture(scope="module")
def connectors(lakehouse: Lakehouse) -> Iterator[TrinoOfMirrors]:
    with TrinoOfMirrors(lakehouse) as server:
        yield server


@pytest.fixture(scope="module")
def writer(spark: SparkSession) -> TableWriter:
    return TableWriter(spark, config=TableWriterConfig(mirrors=["delta", "iceberg"]))


@pytest.fixture(scope="module")
def keeper(writer: TableWriter) -> Maintenance:
    return Maintenance(services=writer._services)


@pytest.fixture(scope="module")
def mirrored(spark: SparkSession, tables: Mapping[str, str], database: str, keeper: Maintenance) -> Mapping[str, str]:
    """Tables, one of which has timestamps that are not INT96, with both mirrors."""
    in_micros = Tables(spark, database)
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    in_micros._types("micros", KINDS["using"], TYPES)
    spark.conf.unset("spark.sql.parquet.outputTimestampType")
    named = {**tables, **in_micros.made}
    chosen = {name: named[name] for name in named.keys() - NOT_MIRRORED if "stored" not in name}  # the same files
    for name, table in chosen.items():
        for kind in ("delta", "iceberg"):
            if (name, kind) != ("values_doubles", "iceberg"):  # which is refused
                assert keeper.mirror(table, as_=kind).state == "in step"
    return chosen


def registered(connectors: TrinoOfMirrors, writer: TableWriter, table: str) -> str:
    """Let Trino know the mirror as a Delta table; returns its name."""
    root = str(writer._services.open_table(TableName.parse(table)).layout.root).rstrip("/").replace("s3a:", "s3:")
    database, name = table.split(".")
    connectors.rows(f"CALL system.register_table('{database}', '{name}_delta', '{root}')", "delta")
    return f"delta.{table}_delta"


def columns_of(frame: DataFrame) -> str:
    return ", ".join(f'"{column}"' for column in frame.columns)


def times_of(frame: DataFrame) -> Mapping[str, str]:
    """The columns that have timestamps, and their types."""
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema}
    return {column: kind for column, kind in kinds.items() if "timestamp" in kind}


def in_milliseconds(column: str, kind: str, *, is_rounded: bool) -> Column:
    half = F.expr(f"INTERVAL {500 if is_rounded else 0} MICROSECOND")

    def cut(time: Column) -> Column:
        return F.date_trunc("millisecond", time + half)

    return F.transform(column, cut) if kind.startswith("array") else cut(F.col(column))


def test_a_delta_mirror_is_read_as_spark_reads_the_table_with_times_to_the_millisecond(
    spark: SparkSession, mirrored: Mapping[str, str], connectors: TrinoOfMirrors, writer: TableWriter
) -> None:
    found = {}
    for name, table in mirrored.items():
        frame = spark.table(table)
        is_rounded = name == "micros"  # what is INT96 is cut off
        times = {
            column: in_milliseconds(column, kind, is_rounded=is_rounded) for column, kind in times_of(frame).items()
        }
        frame.withColumns(times).createOrReplaceTempView("in_milliseconds")
        read = connectors.rows(f"SELECT {columns_of(frame)} FROM {registered(connectors, writer, table)}")
        if different := differing(spark, "in_milliseconds", read):
            found[name] = different
    assert found == {}


def test_an_iceberg_mirror_is_read_as_spark_reads_the_table_but_for_times_in_int96(
    spark: SparkSession, mirrored: Mapping[str, str], connectors: TrinoOfMirrors
) -> None:
    found: dict[str, Any] = {}
    for name, table in mirrored.items():
        frame, mirror = spark.table(table), f"iceberg.{table}_iceberg"
        in_int96 = {} if name.startswith(("micros", "values")) else times_of(frame)
        for column in in_int96:
            with pytest.raises(trino.exceptions.TrinoUserError, match=INT96):
                connectors.rows(f'SELECT "{column}" FROM {mirror}')
        frame = frame.drop(*in_int96)
        if name != "values_doubles":
            read = connectors.rows(f"SELECT {columns_of(frame)} FROM {mirror}")
            if different := differing(spark, table, read, frame.columns):
                found[name] = different
    assert found == {}


def test_each_version_is_read_and_what_trino_is_told_to_write_is_refused_or_takes_no_row(
    spark: SparkSession, connectors: TrinoOfMirrors, writer: TableWriter, keeper: Maintenance, database: str
) -> None:
    table = f"{database}.written"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, gen INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    names = {"delta": f"delta.{table}_delta", "iceberg": f"iceberg.{table}_iceberg", "database": database}

    def generations(name: str, suffix: str = "") -> set[int]:
        found = connectors.rows(f"SELECT gen, count(DISTINCT dt) FROM {name} {suffix} GROUP BY gen")
        assert {days for _, days in found} == {len(DAYS)}
        return {gen for gen, _ in found}

    for gen in (1, 2):
        writer.overwrite_partitions(rows(spark, gen), table)
    writer.append(rows(spark, 3), table, carry="in_place")
    keeper.rollback(table, version=1)
    assert registered(connectors, writer, table) == names["delta"]
    listing = f'SELECT snapshot_id FROM iceberg.{database}."written_iceberg$snapshots" ORDER BY committed_at'
    snapshots = [snapshot_id for (snapshot_id,) in connectors.rows(listing)]
    expected = [{1}, {2}, {2, 3}, {1}]
    assert [generations(names["delta"], f"FOR VERSION AS OF {number}") for number in range(4)] == expected
    assert [generations(names["iceberg"], f"FOR VERSION AS OF {number}") for number in snapshots] == expected
    keeper.vacuum(table, older_than=timedelta(0), force=True)
    assert [generations(names["iceberg"], f"FOR VERSION AS OF {number}") for (number,) in connectors.rows(listing)]
    for statement in REFUSED_BY_DELTA:
        with pytest.raises(trino.exceptions.TrinoUserError, match=r"writer (features|version)|\[table_writer\]"):
            connectors.rows(statement.format(**names))
    with pytest.raises(trino.exceptions.TrinoQueryError, match="GC is disabled"):
        connectors.rows(f"ALTER TABLE {names['iceberg']} EXECUTE expire_snapshots(retention_threshold => '0s')")
    connectors.rows(f"ANALYZE {names['delta']}")  # asks for no feature: it commits the statistics that are missing
    assert "another tool has made commit 4" in str(keeper.mirror(table, as_="delta", check=True))
    assert keeper.mirror(table, as_="delta", repair=True).state == "in step"
    for statement in TAKES_NOTHING:
        assert generations(names["delta"]) == generations(names["iceberg"]) == {1}
        connectors.rows(statement.format(**names))
        for kind in ("delta", "iceberg"):
            assert keeper.mirror(table, as_=kind, check=True).state == "in step", statement
    connectors.rows(f"DROP TABLE {names['iceberg']}")
    assert {row.gen for row in spark.table(table).collect()} == {1}
    writer.overwrite_partitions(rows(spark, 5), table)
    assert generations(names["iceberg"]) == generations(registered(connectors, writer, table)) == {5}


def test_readers_see_all_partitions_of_one_generation_and_never_miss_a_file(
    spark: SparkSession,
    connectors: TrinoOfMirrors,
    writer: TableWriter,
    keeper: Maintenance,
    database: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = f"{database}.watched_mirrors"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, gen INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    writer.overwrite_partitions(rows(spark, 1), table)
    delta, iceberg = (
        Watched(name, DAYS) for name in (registered(connectors, writer, table), f"iceberg.{table}_iceberg")
    )
    changes = delta.changes
    iceberg.states = delta.states
    changes("first", lambda: None, content(1))
    with delta.read_by(connectors, 2), iceberg.read_by(connectors, 2):
        changes("overwrite", lambda: writer.overwrite_partitions(rows(spark, 2), table), content(2))
        changes("overwrite_table", lambda: writer.overwrite_table(rows(spark, 3), table), content(3))
        changes("in place", lambda: writer.append(rows(spark, 4), table, carry="in_place"), content(3, 4))
        changes("compact", lambda: writer.compact(table, min_files=2), content(3, 4))
        changes("rollback", lambda: keeper.rollback(table, version=2), content(2))
        aged = timedelta(seconds=10)
        changes("vacuum", lambda: keeper.vacuum(table, older_than=aged, force=True), content(2))
    for reader in (delta, iceberg):
        counts = reader.counts()
        with capsys.disabled():
            print(f"\n{reader.table}: {len(reader.answers)} queries of Trino: {dict(counts)}")
        assert reader.failures == []
        assert +counts == {"whole": len(reader.answers)}
        assert counts["whole"] >= 5, "a reader that has seen nothing proves nothing"
