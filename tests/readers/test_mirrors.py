"""Trino's connectors for Delta and Iceberg find in mirrors what Spark finds in the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import timedelta
from typing import Any, Final

import pytest
import trino.exceptions
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import TimestampType

from table_writer import Maintenance, TableWriter, TableWriterConfig
from table_writer.model.table import TableName
from table_writer.testing import Lakehouse
from tests.mirrors.comparing import differing

from .tables import KINDS, TYPES, Tables
from .test_while_writing import DAYS, content, rows
from .trino_connectors import TrinoOfMirrors
from .watching import Watched

NOT_MIRRORED: Final = {"elsewhere", *(f"types_{kind}_orc" for kind in KINDS)}  # of another writer; no Parquet
INT96: Final = "Unsupported Trino column type .* optional int96"


@pytest.fixture(scope="module")
def connectors(lakehouse: Lakehouse) -> Iterator[TrinoOfMirrors]:
    with TrinoOfMirrors(lakehouse) as server:
        yield server


@pytest.fixture(scope="module")
def writer(spark: SparkSession) -> TableWriter:
    return TableWriter(spark, config=TableWriterConfig(mirrors=["delta", "iceberg"]))


@pytest.fixture(scope="module")
def mirrored(spark: SparkSession, tables: Mapping[str, str], database: str, writer: TableWriter) -> Mapping[str, str]:
    """All tables, and two whose timestamps are those of the other engines, with both mirrors."""
    micros = Tables(spark, database)
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    for name, kind in KINDS.items():
        micros._types(f"micros_{name}", kind, TYPES)
    spark.conf.unset("spark.sql.parquet.outputTimestampType")
    chosen = {name: table for name, table in {**tables, **micros.made}.items() if name not in NOT_MIRRORED}
    keeper = Maintenance(services=writer._services)
    for name, table in chosen.items():
        for kind in ("delta", "iceberg"):
            if (name, kind) != ("values_doubles", "iceberg"):  # which is refused
                assert keeper.mirror(table, as_=kind).state == "in step"
    return chosen


def registered(trino: TrinoOfMirrors, writer: TableWriter, table: str) -> str:
    """Let Trino know the mirror as a Delta table; returns its name."""
    root = str(writer._services.open_table(TableName.parse(table)).layout.root).rstrip("/").replace("s3a:", "s3:")
    database, name = table.split(".")
    trino.rows(f"CALL system.register_table('{database}', '{name}_delta', '{root}')", "delta")
    return f"delta.{table}_delta"


def columns_of(frame: DataFrame) -> str:
    return ", ".join(f'"{column}"' for column in frame.columns)


def timestamps_of(frame: DataFrame) -> set[str]:
    return {field.name for field in frame.schema if isinstance(field.dataType, TimestampType)}


def test_a_delta_mirror_is_read_as_spark_reads_the_table_but_for_microseconds(
    spark: SparkSession, mirrored: Mapping[str, str], connectors: TrinoOfMirrors, writer: TableWriter
) -> None:
    found = {}
    for name, table in mirrored.items():
        frame = spark.table(table)
        times = {column: F.date_trunc("millisecond", column) for column in timestamps_of(frame)}
        frame.withColumns(times).createOrReplaceTempView("in_milliseconds")
        read = connectors.rows(f"SELECT {columns_of(frame)} FROM {registered(connectors, writer, table)}")
        if different := differing(spark, "in_milliseconds", read):
            found[name] = different
    assert found == {}


def test_an_iceberg_mirror_is_read_as_spark_reads_the_table_but_for_int96(
    spark: SparkSession, mirrored: Mapping[str, str], connectors: TrinoOfMirrors
) -> None:
    found: dict[str, Any] = {}
    for name, table in mirrored.items():
        frame, mirror = spark.table(table), f"iceberg.{table}_iceberg"
        in_int96 = set() if name.startswith(("micros", "values")) else timestamps_of(frame)
        for column in in_int96:
            with pytest.raises(trino.exceptions.TrinoUserError, match=INT96):
                connectors.rows(f'SELECT "{column}" FROM {mirror}')
        frame = frame.drop(*in_int96)
        if name != "values_doubles":
            read = connectors.rows(f"SELECT {columns_of(frame)} FROM {mirror}")
            if different := differing(spark, table, read, frame.columns):
                found[name] = different
    assert found == {}


FOREIGN = (
    "INSERT INTO {t} VALUES (9, 'z', 'x')",
    "DELETE FROM {t}",
    "DELETE FROM {t} WHERE id = 3",
    "DELETE FROM {t} WHERE dt = 'x'",
    "UPDATE {t} SET id = 1",
    "MERGE INTO {t} t USING (SELECT 3 AS id) u ON t.id = u.id WHEN MATCHED THEN DELETE",
    "TRUNCATE TABLE {t}",
    "ALTER TABLE {t} ADD COLUMN q INT",
    "ALTER TABLE {t} EXECUTE optimize",
    "COMMENT ON TABLE {t} IS 'x'",
    "ANALYZE {t}",
    "ALTER TABLE {t} EXECUTE expire_snapshots(retention_threshold => '0s')",
    "ALTER TABLE {t} EXECUTE remove_orphan_files(retention_threshold => '0s')",
    "CALL delta.system.vacuum('{d}', '{n}', '0s')",
    "DROP TABLE {t}",
)


def test_x(spark, database, connectors, writer, capsys):
    keeper = Maintenance(services=writer._services)
    table = f"{database}.w"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, note STRING, dt STRING) USING parquet PARTITIONED BY (dt)")

    def three(number):
        return spark.createDataFrame([(number, "a", "x"), (number, "b", "y"), (number, "c", None)], "id BIGINT, note STRING, dt STRING")

    for n in range(12):
        writer.overwrite_partitions(three(n), table)
    writer.append(three(100), table, carry="in_place")
    delta = registered(connectors, writer, table)
    out = []
    def run(sql):
        try:
            out.append((sql, connectors.rows(sql, "delta")))
        except Exception as e:
            out.append((sql, str(e)))
        ice = keeper.mirror(table, as_="iceberg", check=True)
        out.append(("   ", sorted(r.id for r in spark.table(table).collect()), keeper.mirror(table, as_="delta", check=True).state, ice.state))
        if ice.state != "in step": out.append((ice.problems if hasattr(ice,"problems") else str(ice),)); out.append((keeper.mirror(table, as_="iceberg", repair=True).state,)); 
    snaps = connectors.rows(f"SELECT snapshot_id, summary FROM iceberg.{database}.\"w_iceberg$snapshots\" ORDER BY committed_at")
    out.append(snaps[-1])
    run(f"SELECT id FROM iceberg.{database}.w_iceberg FOR VERSION AS OF {snaps[2][0]}")
    run(f"SELECT id FROM {delta} FOR VERSION AS OF 3")
    run(f"SELECT version, operation FROM delta.{database}.\"w_delta$history\"")
    root = [k.key for k in writer._services.open_table(TableName.parse(table)).store.list(writer._services.open_table(TableName.parse(table)).layout.root.key)]
    for sql in FOREIGN:
        for kind in ("delta", "iceberg"):
            run(sql.format(t=delta if kind == "delta" else f"iceberg.{table}_iceberg", d=database, n="w_delta"))
            now = [k.key for k in writer._services.open_table(TableName.parse(table)).store.list(writer._services.open_table(TableName.parse(table)).layout.root.key)]
            out.append(("gone", set(root) - set(now)))
            out.append(("new", [x for x in set(now) - set(root) if "_iceberg" not in x][:5]))
    with capsys.disabled():
        for o in out:
            print("\n", *map(lambda x: str(x)[:700], o))


def test_readers_see_all_partitions_of_one_generation_and_never_miss_a_file(
    spark: SparkSession, connectors: TrinoOfMirrors, writer: TableWriter, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table, keeper = f"{database}.watched_mirror", Maintenance(services=writer._services)
    spark.sql(f"CREATE TABLE {table} (id BIGINT, gen INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    writer.overwrite_partitions(rows(spark, 1), table)
    readers = [Watched(name, DAYS) for name in (registered(connectors, writer, table), f"iceberg.{table}_iceberg")]


    first, second = readers
    second.states = first.states
    first.changes("nothing", lambda: None, content(1))
    with first.read_by(connectors, 2), second.read_by(connectors, 2):
        for gen in (2, 3):
            new = rows(spark, gen)
            first.changes("overwrite", lambda new=new: writer.overwrite_partitions(new, table), content(gen))
        first.changes("overwrite_table", lambda: writer.overwrite_table(rows(spark, 4), table), content(4))
        first.changes("append", lambda: writer.append(rows(spark, 5), table), content(4, 5))
        first.changes("in place", lambda: writer.append(rows(spark, 6), table, carry="in_place"), content(4, 5, 6))
        first.changes("compact", lambda: writer.compact(table, min_files=2), content(4, 5, 6))
        first.changes("rollback", lambda: keeper.rollback(table, version=2), content(2))
        aged = timedelta(seconds=10)
        first.changes("vacuum", lambda: keeper.vacuum(table, older_than=aged, force=True), content(2))
    for reader in readers:
        counts = reader.counts()
        with capsys.disabled():
            print(f"\n{reader.table}: {len(reader.answers)} queries of Trino: {dict(counts)}")
        assert reader.failures == []
        assert counts.keys() == {"whole", "failed"}
        assert counts["whole"] >= 5
