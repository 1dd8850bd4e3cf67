"""Delta's own library reads a mirror as Spark reads the table, and refuses to write to it.

Run: ``make test-delta``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from benchmarks.contenders import CONTENDERS
from table_writer import Maintenance, TableWriter, TableWriterConfig
from table_writer.errors import InvalidInputError
from table_writer.model.table import TableName
from table_writer.testing import lakehouse as start_lakehouse
from tests.readers.tables import Tables, spelled

from .others import DDL, another, people, put_local_file

pytestmark = pytest.mark.needs("delta")

REFUSED: Final = (
    "VACUUM {t} RETAIN 0 HOURS",
    "VACUUM {t}",
    "VACUUM {t} LITE",
    "INSERT INTO {t} VALUES (9, 'z', 'x')",
    "INSERT OVERWRITE {t} VALUES (9, 'z', 'x')",
    "DELETE FROM {t} WHERE id = 3",
    "UPDATE {t} SET id = 1",
    "MERGE INTO {t} AS t USING (SELECT 3 AS id) AS u ON t.id = u.id WHEN MATCHED THEN DELETE",
    "OPTIMIZE {t}",
    "ALTER TABLE {t} ADD COLUMN q INT",
    "ALTER TABLE {t} SET TBLPROPERTIES ('a' = 'b')",
    "ALTER TABLE {t} DROP FEATURE table_writer",
    "RESTORE TABLE {t} TO VERSION AS OF 0",
)


@pytest.fixture(scope="module")
def delta_spark() -> Iterator[SparkSession]:
    delta = CONTENDERS["delta"]
    chosen = {
        "spark.jars": ",".join(map(str, delta.jars())),
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "2g",
        **delta.settings,
    }
    with start_lakehouse(storage="file", spark_conf=chosen) as lake:
        lake.spark.sql(f"CREATE DATABASE mirrored LOCATION '{lake.warehouse}/mirrored.db'")
        yield lake.spark


def location(writer: TableWriter, table: str) -> str:
    return str(writer._services.open_table(TableName.parse(table)).layout.root).rstrip("/")


def test_delta_reads_every_table_as_spark_does(delta_spark: SparkSession) -> None:
    tables = Tables(delta_spark, "mirrored")
    tables.make_all()
    keeper, found = Maintenance(services=tables._writer._services), {}
    read = {name: table for name, table in tables.made.items() if "orc" not in name and name != "elsewhere"}
    for name, table in read.items():
        keeper.mirror(table, as_="delta")
        sparks = delta_spark.table(table)
        mirrored = delta_spark.read.format("delta").load(location(tables._writer, table))
        names = [f"`{column}`" for column in sparks.columns]
        theirs = spelled(mirrored.select(*names).collect(), sparks.schema)
        if (theirs, mirrored.dtypes) != (spelled(sparks.collect(), sparks.schema), sparks.dtypes):
            found[name] = theirs
        assert mirrored.count() == sparks.count()
    assert len(read) > 15
    assert found == {}


def test_delta_has_each_version_and_writes_none(delta_spark: SparkSession, tmp_path: Path) -> None:
    writer = TableWriter(delta_spark, config=TableWriterConfig(mirrors=["delta"]))
    delta_spark.sql("CREATE TABLE mirrored.w (id BIGINT, note STRING, dt STRING) USING parquet PARTITIONED BY (dt)")

    def rows(number: int) -> Any:
        values = [(number, "a", "x"), (number, "b", "y"), (number, "c", None)]
        return delta_spark.createDataFrame(values, "id BIGINT, note STRING, dt STRING").repartition(2)

    for number in range(12):
        writer.overwrite_partitions(rows(number), "mirrored.w")
    writer.append(rows(100), "mirrored.w", carry="in_place")
    mirror = f"delta.`{location(writer, 'mirrored.w')}`"
    assert [row.version for row in delta_spark.sql(f"DESCRIBE HISTORY {mirror}").collect()] == list(range(12, -1, -1))
    assert {row.id for row in delta_spark.sql(f"SELECT id FROM {mirror} VERSION AS OF 4").collect()} == {4}
    counted = delta_spark.sql(f"SELECT count(*), min(id), max(id) FROM {mirror}").first()
    assert tuple(counted or ()) == (6, 11, 100)
    for statement in REFUSED:
        with pytest.raises(Exception, match=r"table_writer|feature|protocol"):  # however py4j passes it on
            delta_spark.sql(statement.format(t=mirror)).collect()
    keeper = Maintenance(services=writer._services)
    assert keeper.mirror("mirrored.w", as_="delta", check=True).state == "in step"
    assert {row.id for row in delta_spark.table("mirrored.w").collect()} == {11, 100}
    stream = delta_spark.readStream.format("delta").load(location(writer, "mirrored.w"))
    query = stream.writeStream.format("memory").queryName("seen").option("checkpointLocation", str(tmp_path))
    query.trigger(availableNow=True).start().awaitTermination()
    assert delta_spark.table("seen").count() == 6


def test_a_table_that_was_handed_over_is_deltas_own(delta_spark: SparkSession) -> None:
    writer = TableWriter(delta_spark)
    delta_spark.sql("CREATE TABLE mirrored.h (id BIGINT, note STRING, dt STRING) USING parquet PARTITIONED BY (dt)")
    for number in (1, 2):
        values = [(number, "a", "x"), (number, "b", "y"), (number, "c", None)]
        writer.append(delta_spark.createDataFrame(values, "id BIGINT, note STRING, dt STRING"), "mirrored.h")
    keeper = Maintenance(services=writer._services)
    keeper.handover("mirrored.h", to="delta")
    handed = f"delta.`{location(writer, 'mirrored.h')}`"
    for statement in (
        "INSERT INTO {t} VALUES (9, 'z', 'x')",
        "DELETE FROM {t} WHERE id = 1 AND dt = 'y'",
        "MERGE INTO {t} AS t USING (SELECT 2 AS id) AS u ON t.id = u.id WHEN MATCHED THEN UPDATE SET note = 'm'",
        "OPTIMIZE {t}",
        "ALTER TABLE {t} ADD COLUMN q INT",
        "VACUUM {t}",
        "VACUUM {t} LITE",
    ):
        delta_spark.sql(statement.format(t=handed)).collect()
    rows = delta_spark.sql(f"SELECT id, note FROM {handed}").collect()
    assert Counter((row.id, row.note) for row in rows) == {(1, "a"): 1, (1, "c"): 1, (2, "m"): 3, (9, "z"): 1}
    assert sorted(row.id for row in delta_spark.table("mirrored.h").collect()) == [1, 1, 1, 2, 2, 2]
    with pytest.raises(InvalidInputError, match="was handed over"):
        writer.append(delta_spark.table("mirrored.h"), "mirrored.h")
    delta_spark.sql(f"CREATE TABLE mirrored.h_delta USING delta LOCATION '{location(writer, 'mirrored.h')}'")
    assert delta_spark.table("mirrored.h_delta").count() == 6


def test_a_stream_of_the_mirror_reads_each_row_once_after_appends_compactions_and_vacuums(
    delta_spark: SparkSession, tmp_path: Path
) -> None:
    table = "mirrored.streamed"
    delta_spark.sql(f"CREATE TABLE {table} (id INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    writer = TableWriter(delta_spark, config=TableWriterConfig(mirrors=["delta"]))

    def rows(*ids: int) -> Any:
        return delta_spark.createDataFrame([(one, "d1") for one in ids], "id INT, dt STRING")

    def streamed() -> Counter[int]:
        source = delta_spark.readStream.format("delta").load(location(writer, table))
        query = source.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start(str(tmp_path / "sink")).awaitTermination()
        return Counter(row.id for row in delta_spark.read.parquet(str(tmp_path / "sink")).collect())

    writer.append(rows(1, 2), table)
    assert streamed() == Counter({1: 1, 2: 1})
    writer.append(rows(3), table)
    writer.append(rows(4), table, carry="in_place")
    writer.compact(table)
    writer.append(rows(5), table)
    Maintenance(services=writer._services).vacuum(table)
    assert streamed() == Counter(dict.fromkeys(range(1, 6), 1))


def test_delta_reads_files_of_others_by_names_whatever_their_ids(delta_spark: SparkSession) -> None:
    table = "mirrored.others"
    delta_spark.sql(DDL.replace("{stored}", "USING parquet").format(name=table))
    writer = TableWriter(delta_spark, config=TableWriterConfig(mirrors=["delta"]))
    writer.append(another(delta_spark, table, 3, "b"), table)
    put_local_file(delta_spark, table, "dt=ids", people(ids={"userId": 2, "Amount": 1, "City": 4, "Zip": 3}))
    put_local_file(delta_spark, table, "dt=lower", people(str.lower))
    keeper = Maintenance(services=writer._services)
    with pytest.raises(InvalidInputError, match=r"dt=lower/theirs\.parquet of mirrored\.others spells column"):
        keeper.mirror(table, as_="delta", repair=True)
    for partition in ("ids", "lower"):  # copied: what lies beside this library's own files is not handed over at all
        writer.append(another(delta_spark, table, 4, partition), table)
    with pytest.raises(InvalidInputError, match=r"dt=lower/theirs\.parquet of mirrored\.others spells column"):
        keeper.handover(table, to="delta")
    writer.overwrite_partitions(delta_spark.table(table).where("dt = 'lower'"), table)
    assert keeper.mirror(table, as_="delta", repair=True).state == "in step"
    sparks = delta_spark.table(table)
    mirrored = delta_spark.read.format("delta").load(location(writer, table))
    assert spelled(mirrored.collect(), sparks.schema) == spelled(sparks.collect(), sparks.schema)
    assert mirrored.where("userId = 1 AND home.City = 'Berlin'").count() == 2


@pytest.mark.parametrize("statement", ["VACUUM {t} RETAIN 0 HOURS", "VACUUM {t} LITE RETAIN 0 HOURS"])
def test_after_a_handover_only_a_vacuum_lite_deletes_what_this_library_has_written(
    delta_spark: SparkSession, statement: str
) -> None:
    table = f"mirrored.vacuumed_{'lite' if 'LITE' in statement else 'whole'}"
    delta_spark.sql(f"CREATE TABLE {table} (id BIGINT, dt STRING) USING parquet PARTITIONED BY (dt)")
    writer = TableWriter(delta_spark)
    for number in (1, 2):
        rows = delta_spark.createDataFrame([(number, "x"), (number, "y")], "id BIGINT, dt STRING")
        writer.append(rows, table)
    Maintenance(services=writer._services).handover(table, to="delta")
    root, handed = Path(location(writer, table).removeprefix("file:")), f"delta.`{location(writer, table)}`"

    def own_files() -> set[Path]:
        return set((root / "_table_writer").rglob("*.parquet"))

    before = own_files()
    delta_spark.sql(f"UPDATE {handed} SET id = id + 10")
    delta_spark.sql(statement.format(t=handed).replace("RETAIN 0 HOURS", "")).collect()
    assert own_files() == before, "kept by the property of the table"
    assert sorted(row.id for row in delta_spark.table(table).collect()) == [1, 1, 2, 2]
    delta_spark.sql(f"ALTER TABLE {handed} UNSET TBLPROPERTIES ('delta.deletedFileRetentionDuration')")
    delta_spark.sql(statement.format(t=handed)).collect()
    assert own_files() == (set() if "LITE" in statement else before)
    found = delta_spark.sql(f"SELECT id FROM {handed}").collect()
    assert sorted(row.id for row in found) == [11, 11, 12, 12]
