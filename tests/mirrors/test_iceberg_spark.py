"""Iceberg's own library reads a mirror as Spark reads the table; what it writes there is overruled.

Run: ``make test-delta``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from benchmarks.contenders import CONTENDERS
from table_writer import Maintenance, TableWriter, TableWriterConfig
from table_writer.errors import ConflictError, InvalidInputError
from table_writer.testing import lakehouse as start_lakehouse
from tests.readers.tables import Tables, spelled

from .others import DDL, HIVES, SPELLINGS, another, people, put_local_file

pytestmark = pytest.mark.needs("delta")

FOREIGN: Final = (
    "INSERT INTO {t} VALUES (9, 'z', 'x')",
    "INSERT OVERWRITE {t} VALUES (9, 'z', 'x')",
    "DELETE FROM {t} WHERE id = 3",
    "UPDATE {t} SET id = 1",
    "MERGE INTO {t} AS t USING (SELECT 3 AS id) AS u ON t.id = u.id WHEN MATCHED THEN DELETE",
    "ALTER TABLE {t} ADD COLUMN q INT",
    "ALTER TABLE {t} SET TBLPROPERTIES ('gc.enabled' = 'true')",
    "CALL iceberg.system.rewrite_data_files(table => '{n}', options => map('rewrite-all', 'true'))",
    "CALL iceberg.system.rewrite_manifests('{n}')",
)


@pytest.fixture(scope="module")
def iceberg_spark() -> Iterator[SparkSession]:
    iceberg = CONTENDERS["iceberg"]
    chosen = {
        "spark.jars": ",".join(map(str, iceberg.jars())),
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalog.iceberg.cache-enabled": "false",
        "spark.driver.memory": "2g",
        **iceberg.settings,
    }
    with start_lakehouse(storage="file", spark_conf=chosen) as lake:
        lake.spark.sql(f"CREATE DATABASE mirrored LOCATION '{lake.warehouse}/mirrored.db'")
        yield lake.spark


def test_iceberg_reads_every_table_as_spark_does(iceberg_spark: SparkSession) -> None:
    tables = Tables(iceberg_spark, "mirrored")
    tables.make_all()
    keeper, found = Maintenance(services=tables._writer._services), {}
    left_out = {"elsewhere", "values_doubles"}  # of another writer; refused
    read = {name: table for name, table in tables.made.items() if "orc" not in name and name not in left_out}
    for name, table in read.items():
        keeper.mirror(table, as_="iceberg")
        sparks, mirrored = iceberg_spark.table(table), iceberg_spark.table(f"iceberg.{table}_iceberg")
        names = [f"`{column}`" for column in sparks.columns]
        expected = spelled(sparks.collect(), sparks.schema)
        theirs = spelled(mirrored.select(*names).collect(), sparks.schema)
        if theirs != expected:
            found[name] = [pair for pair in zip(theirs, expected, strict=False) if pair[0] != pair[1]][:3]
        assert mirrored.count() == sparks.count()
    assert len(read) > 15
    assert found == {}


def test_rows_that_were_read_from_the_mirror_replace_none_that_were_published_since(
    iceberg_spark: SparkSession,
) -> None:
    writer = TableWriter(iceberg_spark, config=TableWriterConfig(mirrors=["iceberg"]))
    iceberg_spark.sql("CREATE TABLE mirrored.s (id BIGINT, dt STRING) USING parquet PARTITIONED BY (dt)")

    def rows(*values: tuple[int, str]) -> Any:
        return iceberg_spark.createDataFrame(list(values), "id BIGINT, dt STRING")

    writer.overwrite_partitions(rows((1, "x"), (2, "y")), "mirrored.s")
    mirror = "iceberg.mirrored.s_iceberg"
    (snapshot,) = iceberg_spark.sql(f"SELECT snapshot_id FROM {mirror}.snapshots").first() or ()
    writer.overwrite_partitions(rows((7, "x")), "mirrored.s")
    older = iceberg_spark.sql(f"SELECT id, dt FROM {mirror} VERSION AS OF {snapshot} WHERE dt = 'x'")
    with pytest.raises(ConflictError, match="changed since they were read"):
        writer.overwrite_partitions(older.selectExpr("id + 1 AS id", "dt"), "mirrored.s")
    writer.overwrite_partitions(iceberg_spark.table(mirror).selectExpr("id + 1 AS id", "dt"), "mirrored.s")
    assert {tuple(row) for row in iceberg_spark.table("mirrored.s").collect()} == {(8, "x"), (3, "y")}
    other = "iceberg.mirrored.other"  # a table of Iceberg that is nobody's mirror is read as ever
    iceberg_spark.sql(f"CREATE TABLE {other} (id BIGINT, dt STRING) USING iceberg")
    iceberg_spark.sql(f"INSERT INTO {other} VALUES (9, 'x')")
    writer.overwrite_partitions(iceberg_spark.table(other), "mirrored.s")
    assert {tuple(row) for row in iceberg_spark.table("mirrored.s").collect()} == {(9, "x"), (3, "y")}


def test_iceberg_has_each_version_and_what_it_writes_is_overruled(iceberg_spark: SparkSession) -> None:
    writer = TableWriter(iceberg_spark, config=TableWriterConfig(mirrors=["iceberg"]))
    iceberg_spark.sql("CREATE TABLE mirrored.w (id BIGINT, note STRING, dt STRING) USING parquet PARTITIONED BY (dt)")

    def rows(number: int) -> Any:
        values = [(number, "a", "x"), (number, "b", "y"), (number, "c", None)]
        return iceberg_spark.createDataFrame(values, "id BIGINT, note STRING, dt STRING").repartition(2)

    for number in range(4):
        writer.overwrite_partitions(rows(number), "mirrored.w")
    writer.append(rows(100), "mirrored.w", carry="in_place")
    mirror = "iceberg.mirrored.w_iceberg"
    listed = iceberg_spark.sql(f"SELECT snapshot_id, summary FROM {mirror}.snapshots ORDER BY committed_at")
    snapshots = listed.collect()
    assert [row.summary["table_writer.version"] for row in snapshots] == ["1", "2", "3", "4", "5"]
    third = iceberg_spark.sql(f"SELECT id FROM {mirror} VERSION AS OF {snapshots[2].snapshot_id}")
    assert {row.id for row in third.collect()} == {2}
    counted = iceberg_spark.sql(f"SELECT count(*), min(id), max(id) FROM {mirror}").first()
    assert tuple(counted or ()) == (6, 3, 100)
    keeper = Maintenance(services=writer._services)
    before = {row.id for row in iceberg_spark.table("mirrored.w").collect()}
    for statement in FOREIGN:
        iceberg_spark.sql(statement.format(t=mirror, n="mirrored.w_iceberg")).collect()
        assert {row.id for row in iceberg_spark.table("mirrored.w").collect()} == before, statement
        state = keeper.mirror("mirrored.w", as_="iceberg", check=True).state
        assert state == ("in step" if "ADD COLUMN" in statement else "damaged"), statement
        assert keeper.mirror("mirrored.w", as_="iceberg", repair=True).state == "in step"
        found = iceberg_spark.sql(f"SELECT id FROM {mirror}")
        assert sorted(row.id for row in found.collect()) == [3, 3, 3, 100, 100, 100], statement
        assert iceberg_spark.table(mirror).columns == ["id", "note", "dt"]


def test_a_table_that_was_handed_over_is_icebergs_own(iceberg_spark: SparkSession) -> None:
    writer = TableWriter(iceberg_spark)
    iceberg_spark.sql("CREATE TABLE mirrored.h (id BIGINT, note STRING, dt STRING) USING parquet PARTITIONED BY (dt)")
    for number in (1, 2):
        values = [(number, "a", "x"), (number, "b", "y"), (number, "c", None)]
        writer.append(iceberg_spark.createDataFrame(values, "id BIGINT, note STRING, dt STRING"), "mirrored.h")
    keeper = Maintenance(services=writer._services)
    keeper.handover("mirrored.h", to="iceberg")
    handed, table = "iceberg.mirrored.h_iceberg", {"t": "iceberg.mirrored.h_iceberg", "n": "mirrored.h_iceberg"}
    for statement in (
        "INSERT INTO {t} VALUES (9, 'z', 'x')",
        "DELETE FROM {t} WHERE id = 1 AND dt = 'y'",
        "MERGE INTO {t} AS t USING (SELECT 2 AS id) AS u ON t.id = u.id WHEN MATCHED THEN UPDATE SET note = 'm'",
        "CALL iceberg.system.rewrite_data_files(table => '{n}', options => map('rewrite-all', 'true'))",
    ):
        iceberg_spark.sql(statement.format(**table)).collect()
    rows = iceberg_spark.table(handed).collect()
    assert Counter((row.id, row.note) for row in rows) == {(1, "a"): 1, (1, "c"): 1, (2, "m"): 3, (9, "z"): 1}
    assert sorted(row.id for row in iceberg_spark.table("mirrored.h").collect()) == [1, 1, 1, 2, 2, 2]
    expire = "CALL iceberg.system.expire_snapshots(table => 'mirrored.h_iceberg', older_than => TIMESTAMP '2100-01-01')"
    with pytest.raises(Exception, match="GC is disabled"):  # however py4j passes it on
        iceberg_spark.sql(expire).collect()
    with pytest.raises(InvalidInputError, match="was handed over"):
        writer.append(iceberg_spark.table("mirrored.h"), "mirrored.h")


@pytest.mark.parametrize("ddl", [DDL, HIVES], ids=["Spark's table", "Hive's table"])
def test_iceberg_reads_files_of_others_in_every_spelling(iceberg_spark: SparkSession, ddl: str) -> None:
    table = f"mirrored.others_{'spark' if ddl == DDL else 'hive'}"
    iceberg_spark.sql(ddl.replace("{stored}", "USING parquet").format(name=table))
    writer = TableWriter(iceberg_spark, config=TableWriterConfig(mirrors=["iceberg"]))
    writer.append(another(iceberg_spark, table, 3, "b"), table)
    for number, spell in enumerate(SPELLINGS.values()):
        extra = pa.array(["not the partition's"] * 2)
        rows = people(spell).append_column("DT" if number % 2 else "dt", extra).append_column("Extra", extra)
        put_local_file(iceberg_spark, table, f"dt=s{number}", rows)
    keeper = Maintenance(services=writer._services)
    for _ in range(2):
        assert keeper.mirror(table, as_="iceberg", repair=True).state == "in step"
        sparks, mirrored = iceberg_spark.table(table), iceberg_spark.table(f"iceberg.{table}_iceberg")
        assert spelled(mirrored.collect(), sparks.schema) == spelled(sparks.collect(), sparks.schema)
        assert mirrored.where("userId = 1 AND home.City = 'Berlin'").count() == len(SPELLINGS)
        assert mirrored.count() == sparks.count()
        writer.append(another(iceberg_spark, table, 4, "s1"), table)  # copies what another tool wrote
