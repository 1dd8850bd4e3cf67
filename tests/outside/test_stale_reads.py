"""A table is changed on top of a stale read: read it, change some rows, overwrite it, while somebody else publishes.

Reported of Spark and of table formats alike: a frame that Spark resolved or cached before others wrote stays on old
files (apache/spark#13419, qubole/rubix#61; of Iceberg's updates apache/iceberg#8383), and after the next overwrite the
others' rows are gone, without a word. Each way of holding such rows is a row of :data:`HELD`; what others may have done
since, of :data:`CHANGES`; and how a table is stored, of :data:`TABLES`. In all of them the other's rows are there
afterwards, or the write is refused. What no plan shows goes with ``based_on``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast

from table_writer import ConflictError, InvalidInputError, Maintenance, TableWriter
from table_writer.spark import reads
from table_writer.testing import Lakehouse

SCHEMA: Final = "id INT, v STRING, dt STRING"
OTHERS: Final = 3  # the row that somebody else publishes
DDL: Final = "CREATE TABLE {} (id INT, v STRING, dt STRING) USING parquet PARTITIONED BY (dt)"


@dataclass(frozen=True)
class Desk:
    """A session with a writer, and somebody else, who shares nothing with the session."""

    spark: SparkSession
    writer: TableWriter
    elsewhere: Maintenance
    database: str

    def rows(self, *values: tuple[int, str, str]) -> DataFrame:
        return self.spark.createDataFrame(list(values), SCHEMA)

    def table(self, ddl: str = DDL) -> str:
        """Make a table with two rows in d1 and one in d2; the session has read it."""
        name = f"{self.database}.t{uuid4().hex[:8]}"
        self.spark.sql(ddl.format(name))
        self.put(self.rows((1, "a", "d1"), (2, "b", "d1"), (9, "z", "d2")), name)
        self.spark.table(name).count()
        return name

    def put(self, rows: DataFrame, name: str) -> None:
        is_partitioned = "PARTITIONED" in str(self.spark.sql(f"SHOW CREATE TABLE {name}").first())
        (self.writer.overwrite_partitions if is_partitioned else self.writer.overwrite_table)(rows, name)

    def another_appends(self, name: str, carry: Any = "copy", partition: str = "d1") -> None:
        self.publish(name, self.rows((OTHERS, "other", partition)), "append", carry=carry)

    def publish(self, name: str, rows: DataFrame, mode: str, **options: Any) -> None:
        staged = self.writer.stage(rows, name, mode=mode, **options)
        self.elsewhere.publish(name, staged.write_id)  # as a process without Spark does

    def ids(self, name: str) -> list[int]:
        self.spark.catalog.refreshTable(name)
        return sorted(row.id for row in self.spark.table(name).collect())

    def path(self, name: str) -> str:
        """Return the directory of partition d1."""
        described = self.spark.sql(f"DESCRIBE FORMATTED {name} PARTITION (dt = 'd1')").where("col_name = 'Location'")
        return str(described.collect()[0][1])


@pytest.fixture(scope="module")
def desk(spark: SparkSession, lakehouse: Lakehouse) -> Iterator[Desk]:
    database = f"stale_{uuid4().hex[:8]}"
    spark.sql(f"CREATE DATABASE {database} LOCATION '{lakehouse.warehouse}/{database}.db'")
    writer = TableWriter(spark)
    yield Desk(spark, writer, Maintenance(services=writer._services), database)
    spark.catalog.clearCache()
    for view in spark.catalog.listTables():
        if view.isTemporary:
            spark.catalog.dropTempView(view.name)
    spark.sql(f"DROP DATABASE {database} CASCADE")


def of_d1(frame: DataFrame) -> DataFrame:
    return frame.where("dt = 'd1'").select("id", "v", "dt")


def cached(frame: DataFrame) -> DataFrame:
    frame.cache().count()
    return frame


def by_rdd(frame: DataFrame) -> DataFrame:
    return frame.sparkSession.createDataFrame(frame.rdd.map(tuple), SCHEMA)


def looked_up(desk: Desk, sql: str, name: str) -> DataFrame:
    return desk.spark.sql(sql.format(name))


def from_view(desk: Desk, name: str) -> DataFrame:
    view = f"{desk.database}.v{uuid4().hex[:8]}"
    desk.spark.sql(f"CREATE VIEW {view} AS SELECT * FROM {name}")
    return of_d1(desk.spark.table(view))


def from_cached_table(desk: Desk, name: str) -> DataFrame:
    view = f"c{uuid4().hex[:8]}"
    desk.spark.sql(f"CACHE LAZY TABLE {view} AS SELECT * FROM {name} WHERE dt = 'd1'")
    desk.spark.table(view).count()
    return looked_up(desk, "SELECT id, v, dt FROM {0} WHERE id IN (SELECT id FROM {0}) OR id < 0", view)


def from_twin(desk: Desk, name: str) -> DataFrame:
    """Read the partition that another table, of the same files, had been given before."""
    twin = f"{desk.database}.w{uuid4().hex[:8]}"
    root = desk.path(name).split("/_table_writer/")[0]
    desk.spark.sql(f"{DDL.format(twin).replace('TABLE', 'EXTERNAL TABLE')} LOCATION '{root}'")
    desk.spark.sql(f"ALTER TABLE {twin} ADD PARTITION (dt = 'd1') LOCATION '{desk.path(name)}'")
    return of_d1(desk.spark.table(twin))


def from_second_api(desk: Desk, name: str) -> DataFrame:
    session = desk.spark.newSession()
    session.conf.set("spark.sql.sources.useV1SourceList", "")
    return session.read.parquet(desk.path(name)).selectExpr("id", "v", "'d1' AS dt")


Held = Callable[[Desk, str], DataFrame]
HELD: Final[dict[str, Held]] = {
    "frame": lambda d, t: of_d1(d.spark.table(t)),
    "frame of spark_catalog": lambda d, t: of_d1(d.spark.table(f"spark_catalog.{t}")),
    "frame of another session": lambda d, t: of_d1(d.spark.newSession().table(t)),
    "view": from_view,
    "CTE": lambda d, t: looked_up(d, "WITH c AS (SELECT * FROM {}) SELECT * FROM c WHERE dt = 'd1'", t),
    "scalar subquery": lambda d, t: looked_up(
        d, "SELECT id, v, dt FROM {0} WHERE dt = (SELECT min(dt) FROM {0}) AND id <= (SELECT max(id) FROM {0})", t
    ),
    "old version": lambda d, t: of_d1(d.writer.read(t, version=1)),
    "newest version": lambda d, t: of_d1(d.writer.read(t)),
    "old version and new rows": lambda d, t: of_d1(d.writer.read(t, version=1)).union(d.rows((7, "new", "d1"))),
    "old version joined with today's": lambda d, t: (
        d.writer.read(t, version=1).join(d.spark.table(t).select("id", "dt"), ["id", "dt"]).select("id", "v", "dt")
    ),
    "partition's path": lambda d, t: d.spark.read.parquet(d.path(t)).selectExpr("id", "v", "'d1' AS dt"),
    "path, by the second API": from_second_api,
    "list of files": lambda d, t: d.spark.read.parquet(*d.spark.read.parquet(d.path(t)).inputFiles()).selectExpr(
        "id", "v", "'d1' AS dt"
    ),
    "write's directory": lambda d, t: of_d1(d.spark.read.format("parquet").load(d.path(t).rsplit("/", 1)[0])),
    "another table of the same files": from_twin,
    "RDD": lambda d, t: by_rdd(of_d1(d.spark.table(t))),
    "CACHE TABLE": from_cached_table,
    "cached, by the second API": lambda d, t: cached(from_second_api(d, t)),
    "cached, joined with itself": lambda d, t: (
        cached(of_d1(d.spark.table(t))).join(d.spark.table(t).select("id").distinct(), "id").select("id", "v", "dt")
    ),
}
CACHED: Final = [way for way in HELD if way.lower().startswith("cache")]


@pytest.fixture(scope="module")
def changed_since(desk: Desk) -> tuple[str, dict[str, DataFrame]]:
    """A table of which all uncached ways were resolved before somebody else has published to it."""
    name = desk.table()
    frames = {way: held(desk, name) for way, held in HELD.items() if way not in CACHED}
    desk.another_appends(name)
    return name, frames


@pytest.mark.parametrize("way", [way for way in HELD if way not in CACHED])
def test_no_row_of_others_is_lost_by_a_frame_from_before(
    desk: Desk, changed_since: tuple[str, dict[str, DataFrame]], way: str
) -> None:
    name, frames = changed_since
    with suppress(ConflictError):
        desk.put(frames[way], name)
    assert OTHERS in desk.ids(name)


@pytest.mark.slow
@pytest.mark.parametrize("way", CACHED)
def test_cached_rows_are_refused_and_read_anew_after_that(desk: Desk, way: str) -> None:
    name = desk.table()
    frame = HELD[way](desk, name)
    desk.another_appends(name, carry="in_place")
    with pytest.raises(ConflictError, match=r"Read the table again"):
        desk.put(frame, name)
    assert desk.ids(name) == [1, 2, 3, 9]
    desk.put(frame, name)
    assert desk.ids(name) == [1, 2, 3, 9]


@pytest.mark.slow
def test_what_was_empty_when_rows_were_cached_was_read_as_well(desk: Desk) -> None:
    name = desk.table()
    there = desk.spark.table(name).where("dt = 'd0'").selectExpr("id", "v AS there")  # an upsert into a new partition
    merged = desk.rows((5, "mine", "d0")).join(there.hint("merge"), "id", "full").selectExpr("id", "v", "'d0' AS dt")
    merged = cached(merged)
    desk.another_appends(name, partition="d0")
    with pytest.raises(ConflictError, match=r"Read the table again"):
        desk.put(merged, name)


@pytest.mark.slow
@pytest.mark.parametrize("value", ["a b", "x=y", None])
def test_odd_names_of_partitions_are_recognized_behind_an_rdd(desk: Desk, value: str) -> None:
    name = desk.table()
    desk.put(desk.rows((1, "a", value)), name)
    held = by_rdd(desk.spark.table(name).where("id = 1 AND dt IS DISTINCT FROM 'd1'").select("id", "v", "dt"))
    desk.another_appends(name, partition=value)
    with pytest.raises(ConflictError, match=r"Read the table again"):
        desk.put(held, name)


@pytest.mark.slow
def test_a_stream_that_looks_rows_up_in_its_own_table_is_compared(desk: Desk, tmp_path: Path) -> None:
    name = desk.table()
    desk.rows((1, "new", "d1")).write.parquet(f"file://{tmp_path}/in")
    there = desk.spark.table(name).where("dt = 'd1'").selectExpr("id", "v AS there")
    new = desk.spark.readStream.schema(SCHEMA).parquet(f"file://{tmp_path}/in").join(broadcast(there), "id", "left")
    refused: list[ConflictError] = []

    def write(rows: DataFrame, batch_id: int) -> None:
        desk.another_appends(name)
        try:
            desk.writer.for_each_batch(name, "overwrite_partitions", "upsert")(rows.drop("there"), batch_id)
        except ConflictError as error:
            refused.append(error)

    stream = new.writeStream.foreachBatch(write).option("checkpointLocation", f"file://{tmp_path}/seen")
    stream.trigger(availableNow=True).start().awaitTermination()
    assert (len(refused), desk.ids(name)) == (1, [1, 2, 3, 9])


class Change(NamedTuple):
    """What somebody else does, and which rows are there then."""

    make: Callable[[Desk, str], object]
    ids: list[int]
    is_conflict: bool = True
    held: Callable[[DataFrame], DataFrame] = by_rdd  # a session's own writes renew what it has cached


CHANGES: Final[dict[str, Change]] = {
    "appends in place": Change(lambda d, t: d.another_appends(t, carry="in_place"), [1, 2, 3, 9]),
    "adds a partition": Change(lambda d, t: d.another_appends(t, partition="d0"), [1, 2, 3, 9], held=cached),
    "drops": Change(
        lambda d, t: d.publish(t, d.rows((8, "x", "d1")).where("id < 0"), "overwrite_partitions", **EMPTIED), [9]
    ),
    "writes with another tool": Change(lambda d, t: d.spark.sql(f"INSERT INTO {t} VALUES (3, '', 'd1')"), [1, 2, 3, 9]),
    "compacts": Change(lambda d, t: d.writer.compact(t, min_files=2), [1, 2, 9], is_conflict=False),
    "changes another partition": Change(lambda d, t: d.another_appends(t, partition="d2"), [1, 2, 3, 9], False),
}
EMPTIED: Final[dict[str, Any]] = {"where": "dt = 'd1'", "if_empty": "replace"}


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_what_others_did_since_the_rows_were_read_is_noticed_unless_no_row_changed(desk: Desk, change: str) -> None:
    name, made = desk.table(), CHANGES[change]
    held = made.held(desk.spark.table(name).where("dt < 'd2'").select("id", "v", "dt"))
    made.make(desk, name)
    try:
        desk.writer.overwrite_partitions(held, name, where="dt < 'd2'")
        is_refused = False
    except ConflictError:
        is_refused = True
    assert (is_refused, desk.ids(name)) == (made.is_conflict, made.ids)


TABLES: Final = {
    "USING, unpartitioned": "CREATE TABLE {} (id INT, v STRING, dt STRING) USING parquet",
    "STORED AS PARQUET": "CREATE TABLE {} (id INT, v STRING) PARTITIONED BY (dt STRING) STORED AS PARQUET",
    "STORED AS TEXTFILE": "CREATE TABLE {} (id INT, v STRING) PARTITIONED BY (dt STRING) STORED AS TEXTFILE",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", TABLES)
def test_however_a_table_is_stored_its_stale_rows_are_refused_and_fresh_ones_are_not(desk: Desk, kind: str) -> None:
    name = desk.table(TABLES[kind])
    held = cached(desk.spark.table(name)).where("id < 100")
    desk.another_appends(name)
    with pytest.raises(ConflictError):
        desk.put(held, name)
    desk.put(desk.spark.table(name).where("id < 100"), name)
    assert desk.ids(name) == [1, 2, 3, 9]


@pytest.mark.slow
def test_rows_whose_origin_no_plan_shows_say_their_version(desk: Desk) -> None:
    name = desk.table()
    read = desk.writer.read(name)
    version = desk.writer.version_of(read.where("id > 0").join(desk.rows((1, "a", "d1")).select("id"), "id"), name)
    rows = desk.spark.createDataFrame(read.where("dt = 'd1'").toPandas(), SCHEMA)
    desk.another_appends(name)
    (problem,) = desk.writer.plan(rows, name, based_on=version).problems
    assert "version 2 has published" in problem
    for write in (desk.writer.overwrite_partitions, desk.writer.append, desk.writer.overwrite_table):
        with pytest.raises(ConflictError, match=r"after version 1, on which its rows are based"):
            write(rows, name, based_on=version)
    with pytest.raises(InvalidInputError, match=r"has no version 9"):
        desk.writer.append(rows, name, based_on=9)
    with desk.writer.stage(rows, name, based_on=version) as staged, pytest.raises(ConflictError, match="after version"):
        desk.elsewhere.publish(name, staged.write_id)
    assert desk.ids(name) == [1, 2, 3, 9]
    assert desk.writer.version_of(desk.writer.read(name), name) == 2
    assert desk.writer.append(rows, name, based_on=2).appended
    with pytest.raises(InvalidInputError, match="version is not known"):
        desk.writer.version_of(rows, name)


@pytest.mark.slow
def test_a_compaction_is_no_reason_to_read_again_and_older_rows_come_back_on_purpose(desk: Desk) -> None:
    name = desk.table()
    for number in range(2):
        desk.writer.append(desk.rows((20 + number, "more", "d1")), name)
    read = desk.writer.read(name).where("dt = 'd1'")
    old = desk.writer.read(name, version=1).where("dt = 'd1'")
    assert desk.writer.compact(name, min_files=2).partitions
    desk.writer.overwrite_partitions(read, name)
    with pytest.raises(ConflictError):
        desk.writer.overwrite_partitions(old, name)
    desk.writer.overwrite_partitions(old, name, based_on=desk.writer.version_of(desk.writer.read(name), name))
    assert desk.ids(name) == [1, 2, 9]


def test_rows_of_a_version_whose_directory_has_grown_since_are_to_be_read_again(desk: Desk) -> None:
    name = desk.table()
    held = desk.writer.read(name).where("dt = 'd1'")
    desk.another_appends(name, carry="in_place")
    with pytest.raises(ConflictError, match="Read the table again"):
        desk.writer.overwrite_partitions(held, name)
    assert desk.ids(name) == [1, 2, 3, 9]


def test_a_staged_write_may_be_read_and_written_again(desk: Desk) -> None:
    name = desk.table()
    with desk.writer.stage(desk.rows((5, "staged", "d1")), name) as staged:
        desk.writer.overwrite_partitions(staged.dataframe().selectExpr("id + 1 AS id", "v", "dt"), name)
    assert desk.ids(name) == [6, 9]


@pytest.mark.slow
def test_an_unpartitioned_table_that_has_moved_is_read_where_it_is_now(desk: Desk) -> None:
    name = desk.table(TABLES["USING, unpartitioned"])
    frame = desk.spark.table(name).where("id < 100")
    joined = frame.join(desk.spark.table(name).groupBy("dt").count(), "dt").select("id", "v", "dt")
    inside = looked_up(desk, "SELECT * FROM {0} WHERE id <= (SELECT max(id) FROM {0})", name)
    desk.another_appends(name)
    with pytest.raises(ConflictError, match="Read the table again"):
        desk.put(inside, name)
    desk.put(joined, name)
    assert desk.ids(name) == [1, 2, 3, 9]
    desk.publish(name, desk.rows((4, "other", "d1")), "append")
    desk.put(desk.spark.table(name).union(frame.where("id = 1").selectExpr("id + 10", "v", "dt")), name)
    assert desk.ids(name) == [1, 2, 3, 4, 9, 11]


@pytest.mark.slow
def test_a_partition_beside_those_that_were_read_of_an_older_version_may_be_anyones(desk: Desk) -> None:
    name = desk.table(TABLES["STORED AS TEXTFILE"])
    desk.another_appends(name, partition="d3")
    part = desk.writer.read(name, version=1, partitions=["dt=d1"])
    whole = desk.writer.read(name, version=1)
    new = desk.rows((7, "mine", "d3"))
    with pytest.raises(ConflictError, match="dt=d3"):
        desk.put(whole.where("dt < 'd2'").unionByName(whole.where("dt = 'd3'")).unionByName(new), name)
    desk.put(part.unionByName(new), name)
    assert desk.ids(name) == [1, 2, 7, 9]


def test_what_an_engine_reads_that_nobody_here_knows_is_read_by_its_name_or_not_at_all(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = desk.table()
    kept = cached(desk.spark.table(name).where("id < 50"))
    monkeypatch.setattr(reads, "kind_of_scan", lambda _: "ScanOfAnotherEngine")
    desk.put(of_d1(desk.spark.table(name)), name)
    with desk.writer.stage(of_d1(desk.spark.table(name)), name) as staged:
        desk.spark.sql(f"INSERT INTO {name} VALUES ({OTHERS}, '', 'd1')")  # as another tool does
        with pytest.raises(ConflictError, match="Read the table again"):
            staged.publish()
    by_path = desk.spark.read.parquet(desk.path(name)).selectExpr("id", "v", "'d1' AS dt")
    for rows in (by_path, kept):
        with pytest.raises(InvalidInputError, match=r"scans that .* not know \(ScanOfAnotherEngine\).*by its name"):
            desk.put(rows, name)
    assert desk.ids(name) == [1, 2, OTHERS, 9]
