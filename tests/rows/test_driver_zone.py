"""The zone and the calendar of the driver's Python do not matter: only Spark looks at values.

PySpark makes naive datetimes of timestamps, in the zone of its process: where that has summer time, two hours of a day
are one (NVIDIA/cudf-spark#6920, SPARK-31328). And Python knows the years 1 to 9999 alone, while 9999-12-31 and
0001-01-01 stand for "for ever" and "never" in many tables (NVIDIA/cudf-spark#7535).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer import InvalidInputError, SchemaMismatchError, TableWriter
from table_writer.check import in_range, unique
from tests.cells import first_fast

ZONES: Final = {"Europe/Berlin": "2024-10-27 00:00:00", "America/New_York": "2024-11-03 05:00:00"}
"""Zones of a driver, and the first of the two hours, in UTC, that its clocks show twice."""
SESSION_ZONE: Final = "spark.sql.session.timeZone"
Rows = list[tuple[str, int, int]]


@pytest.fixture
def in_zone(spark: SparkSession) -> Iterator[Callable[[str], None]]:
    """Let a test choose the zone of the driver's process; the session's is UTC."""
    zone, session_zone = os.environ.get("TZ"), spark.conf.get(SESSION_ZONE)

    def choose(name: str | None) -> None:
        if name is None:
            os.environ.pop("TZ", None)
        else:
            os.environ["TZ"] = name
        time.tzset()

    spark.conf.set(SESSION_ZONE, "UTC")
    yield choose
    choose(zone)
    spark.conf.set(SESSION_ZONE, str(session_zone))


class Hours:
    """A table of hourly partitions over the hour that comes twice: one row an hour, of one key."""

    def __init__(self, spark: SparkSession, name: str, first: str) -> None:
        self.spark, self.name = spark, name
        begin = f"unix_micros(timestamp_ltz '{first}')"
        self._hours = spark.sql(f"SELECT number, timestamp_micros({begin} + number * 3600000000) AS hour FROM"
                                " (SELECT explode(sequence(0, 3)) AS number)").localCheckpoint()  # fmt: skip

    def of(self, n: int, *numbers: int) -> DataFrame:
        """Return rows of some of the hours, by their numbers; of all without any."""
        chosen = self._hours.where(F.col("number").isin(*numbers)) if numbers else self._hours
        return chosen.select(F.lit(1).alias("id"), F.lit(n).alias("n"), "hour")

    def rows(self, rows: DataFrame | None = None) -> list[tuple[int, int]]:
        """Return the number of the hour and ``n`` of each row, of the table or of other rows."""
        self.spark.catalog.refreshTable(self.name)
        found = (self.spark.table(self.name) if rows is None else rows).join(self._hours, "hour", "left")
        return sorted((row.number, row.n) for row in found.select("number", "n").collect())

    def moment(self, number: int) -> str:
        """Return an hour as SQL says it."""
        [row] = self._hours.where(F.col("number") == number).select(F.unix_micros("hour")).collect()
        return f"timestamp_micros({row[0]})"


@pytest.fixture(params=first_fast(ZONES))
def hours(
    request: pytest.FixtureRequest, spark: SparkSession, in_zone: Callable[[str], None], make_table: Callable[..., str]
) -> Hours:
    in_zone(request.param)
    ddl = "CREATE TABLE {name} (id INT, n INT, hour TIMESTAMP) USING parquet PARTITIONED BY (hour)"
    return Hours(spark, make_table(ddl, "hours"), ZONES[request.param])


@pytest.mark.parametrize("search_above_bytes", [1 << 30, 0])
def test_a_merge_finds_the_key_in_either_of_two_hours_that_the_drivers_clock_shows_alike(
    hours: Hours, writer: TableWriter, search_above_bytes: int
) -> None:
    writer.append(hours.of(0), hours.name)
    for number in range(4):
        merged: Any = writer.merge(
            hours.of(1, number), hours.name, on=["hour", "id"], search_above_bytes=search_above_bytes
        )
        assert (merged.inserted, merged.updated) == (0, 1)
    assert hours.rows() == [(0, 1), (1, 1), (2, 1), (3, 1)]
    together: Any = writer.merge(hours.of(2), hours.name, on=["id", "hour"], search_above_bytes=search_above_bytes)
    assert (together.inserted, together.updated) == (0, 4)
    keys = hours.of(0, 1).select("hour", "id")
    plan: Any = writer.plan(keys, hours.name, "merge", on=["hour", "id"], matched="delete", missing="ignore")
    gone: Any = writer.merge(keys, hours.name, on=["hour", "id"], matched="delete", missing="ignore")
    assert (plan.deleted, gone.deleted) == (1, 1)
    assert hours.rows() == [(0, 2), (2, 2), (3, 2)]


def test_every_other_call_tells_the_two_hours_apart(hours: Hours, writer: TableWriter) -> None:
    def delete_second(rows: DataFrame) -> DataFrame:
        return rows.where(F.expr(f"hour <> {hours.moment(1)}"))

    version = writer.append(hours.of(0).union(hours.of(9)), hours.name).version
    assert len(writer.plan(hours.of(5), hours.name, "overwrite_partitions").partitions) == 4
    assert writer.update_where(hours.name, {"n": "n + 1"}, where=f"hour = {hours.moment(1)}").updated == 2
    assert writer.deduplicate(hours.name, on=["id", "hour"], keep=["n DESC"]).deleted == 4
    assert hours.rows() == [(0, 9), (1, 10), (2, 9), (3, 9)]
    assert writer.delete_where(hours.name, f"hour = {hours.moment(0)}").deleted == 1
    assert hours.rows() == [(1, 10), (2, 9), (3, 9)]
    writer.rewrite(hours.name, delete_second, where=f"hour <= {hours.moment(1)}")
    assert hours.rows() == [(2, 9), (3, 9)]
    writer.overwrite_partitions(hours.of(7, 1), hours.name)
    writer.append(hours.of(8, 0), hours.name)
    last = writer.version_of(writer.read(hours.name), hours.name)
    assert hours.rows() == [(0, 8), (1, 7), (2, 9), (3, 9)]
    assert hours.rows(writer.read(hours.name, version=version)) == sorted((n, v) for n in range(4) for v in (0, 9))
    changes = writer.read_changes(hours.name, last - 2, last, key=["hour", "id"])
    assert hours.rows(changes) == [(0, 8), (1, 7)]


EXTREMES: Final = {
    "the end of time, west of it": ("America/New_York", "timestamp_ltz '9999-12-31 23:59:59.999999'", "TIMESTAMP"),
    "the first day, west of Greenwich": ("America/New_York", "timestamp_ltz '0001-01-01 00:00:00'", "TIMESTAMP"),
    "a date before year 1": ("UTC", "date '-0044-03-15'", "DATE"),
    "the end of time, east of Greenwich": ("Asia/Tokyo", "timestamp_ltz '9999-12-31 23:59:59.999999'", "TIMESTAMP"),
    "the first day, east of it": ("Asia/Tokyo", "timestamp_ltz '0001-01-01 00:00:00'", "TIMESTAMP"),
    "a moment after 9999": ("UTC", "timestamp_ltz '123456-01-01 00:00:00.5'", "TIMESTAMP"),
    "a local time after 9999": ("UTC", "timestamp_ntz '10000-01-01 00:00:00'", "TIMESTAMP_NTZ"),
    "a date after 9999": ("UTC", "date '10000-01-01'", "DATE"),
}


@pytest.mark.parametrize("extreme", first_fast(EXTREMES, 3))
def test_values_that_python_has_not_are_keys_like_others(
    extreme: str,
    writer: TableWriter,
    spark: SparkSession,
    in_zone: Callable[[str], None],
    make_table: Callable[..., str],
) -> None:
    zone, value, kind = EXTREMES[extreme]
    in_zone(zone)
    table = make_table(f"CREATE TABLE {{name}} (id INT, until {kind}, n INT, dt STRING) USING parquet"
                       " PARTITIONED BY (dt)", "validity")  # fmt: skip
    rows = spark.sql(f"SELECT 1 AS id, {value} AS until, 1 AS n, 'a' AS dt")
    first: Any = writer.append(rows, table, checks=[unique("until"), in_range("n", min=1)]).version
    merged: Any = writer.merge(rows.withColumn("n", F.lit(2)), table, on=["id", "until"])
    assert (merged.inserted, merged.updated) == (0, 1)
    plan: Any = writer.plan(rows, table, "merge", on=["until"])
    assert plan.updated == 1
    assert writer.merge(rows, table, on=["id"], newest_by="until").updated == 0
    assert writer.update_where(table, {"n": "n + 1"}, where=f"until = {value}").updated == 1
    changes = writer.read_changes(table, first, first + 2, key=["until"])
    assert sorted((row["_change_type"], row.n) for row in changes.select("_change_type", "n").collect()) == [
        ("update_after", 3),
        ("update_before", 1),
    ]
    with pytest.raises(InvalidInputError, match=r"until=.*, id=1 is there 2 times"):
        writer.merge(rows.union(rows), table, on=["until", "id"])
    assert writer.append(rows, table).rows == 1
    assert writer.deduplicate(table, on=["until"], keep=["n"]).deleted == 1
    assert writer.delete_where(table, f"until >= {value}").deleted == 1


@pytest.mark.parametrize("extreme", first_fast([name for name in EXTREMES if "date" not in name], 2))
def test_moments_that_python_has_not_are_partitions_like_others(
    extreme: str,
    writer: TableWriter,
    spark: SparkSession,
    in_zone: Callable[[str], None],
    make_table: Callable[..., str],
) -> None:
    zone, value, kind = EXTREMES[extreme]
    in_zone(zone)
    table = make_table(f"CREATE TABLE {{name}} (id INT, until {kind}) USING parquet PARTITIONED BY (until)", "validity")
    rows, other = (spark.sql(f"SELECT 1 AS id, {text} AS until") for text in (value, f"{kind} '2024-01-01'"))
    rows.write.insertInto(table)
    plan = writer.plan(rows, table, "overwrite_partitions")
    assert [(partition.action, partition.rows) for partition in plan.partitions] == [("replace", 1)]
    assert plan.problems == ()
    assert writer.merge(other, table, on=["id", "until"]).inserted == 1
    merged: Any = writer.merge(rows, table, on=["id", "until"])
    assert (merged.inserted, merged.updated) == (0, 1)
    assert writer.append(rows, table).rows == 1
    assert writer.deduplicate(table, on=["until"], keep=["id"]).deleted == 1
    assert writer.overwrite_partitions(rows, table, where=f"until = {value}").rows == 1
    assert writer.update_where(table, {"id": "id + 1"}, where=f"until = {value}").updated == 1
    assert writer.delete_where(table, f"until = {value}").deleted == 1
    [(text,)] = spark.sql(f"SELECT CAST({value} AS STRING)").collect()
    assert writer.sql(f"INSERT INTO {table} PARTITION (until = '{text}') SELECT 3").rows == 1
    assert sorted(row.id for row in spark.table(table).select("id").collect()) == [1, 3]


@pytest.mark.parametrize("extreme", [name for name in EXTREMES if "date" in name])
def test_a_date_that_the_metastore_has_not_is_no_partition_of_ours_and_keeps_no_other_from_being_changed(
    extreme: str, writer: TableWriter, spark: SparkSession, make_table: Callable[..., str]
) -> None:
    _, value, _ = EXTREMES[extreme]
    table = make_table("CREATE TABLE {name} (id INT, until DATE) USING parquet PARTITIONED BY (until)", "validity")
    rows, other = (spark.sql(f"SELECT 1 AS id, {text} AS until") for text in (value, "DATE '2024-01-01'"))
    rows.write.insertInto(table)
    for number in (1, 0):
        assert writer.merge(other, table, on=["id", "until"]).inserted == number
    assert writer.update_where(table, {"id": "id + 1"}, where="until = DATE '2024-01-01'").updated == 1
    assert writer.merge(rows, table, on=["id", "until"], matched="delete", missing="ignore").deleted == 1
    assert writer.deduplicate(table, on=["until"], keep=["id"]).deleted == 0
    with pytest.raises(InvalidInputError, match="only the years 1 to 9999 can be written"):
        writer.merge(rows, table, on=["id", "until"])
    (problem,) = writer.plan(rows, table).problems
    assert "partition dates outside the years 1 to 9999 cannot be written" in problem


@pytest.mark.parametrize("engine", ["arrow", "spark"])
def test_an_hour_that_no_name_of_a_partition_tells_from_the_one_before_is_refused(
    engine: Any, hours: Hours, writer: TableWriter, spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    """Readers would see the first of both: a merge would find no row of the second, and insert each again."""
    zone = request.node.callspec.params["hours"]
    writer.append(hours.of(0), hours.name, engine=engine)
    spark.conf.set(SESSION_ZONE, zone)
    said = rf"column hour is a partition's timestamp, and 1 of 2 rows are of the second of two hours .* {zone} show"
    with pytest.raises(SchemaMismatchError, match=said):
        writer.append(hours.of(1, 1, 2), hours.name, engine=engine)
    plan = writer.plan(hours.of(1, 1), hours.name)
    assert "1 of 1 rows are of the second of two hours" in plan.schema.problems[0]
    with pytest.raises(SchemaMismatchError, match="are of the second of two hours"):
        writer.merge(hours.of(1, 1), hours.name, on=["hour", "id"])
    spark.conf.set(SESSION_ZONE, "UTC")
    assert hours.rows() == [(0, 0), (1, 0), (2, 0), (3, 0)]
    spark.conf.set(SESSION_ZONE, zone)
    assert [writer.append(hours.of(1, number), hours.name, engine=engine).rows for number in (0, 2, 3)] == [1, 1, 1]
