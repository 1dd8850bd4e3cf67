"""The tests of s3committer, retold: fail, append and replace on partitioned output, through tables instead of paths.

There the unit is a directory, and "untouched" means that no request was sent for it. Here it means more: the same
location in the metastore and the same objects, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from table_writer import Maintenance, PartitionExistsError, StorageError, TableWriter
from table_writer.model.location import Location
from table_writer.testing import Lakehouse
from tests.cells import first_fast

from .watched import Seen, failing_with

Look = Callable[[str], Seen]
Stopped = Callable[..., TableWriter]
MODES = ("overwrite_partitions", "append", "create_partitions", "overwrite_table")
OLD = [(1, "old", "d1", 1), (2, "old", "d1", 2), (3, "old", "d2", 1)]


@pytest.fixture
def hourly(writer: TableWriter, make_table: Callable[..., str], batch: Callable[..., DataFrame]) -> str:
    """A table with partitions d1/1, d1/2 and d2/1 that Spark wrote, and one of ours beside them."""
    table = make_table(
        "CREATE TABLE {name} (id BIGINT, note STRING, dt STRING, hour INT) USING parquet PARTITIONED BY (dt, hour)"
    )
    batch(*OLD).write.insertInto(table)
    writer.overwrite_partitions(batch((4, "ours", "d3", 1)), table)
    return table


@pytest.fixture
def batch(spark: SparkSession) -> Callable[..., DataFrame]:
    return lambda *rows: spark.createDataFrame(list(rows), "id BIGINT, note STRING, dt STRING, hour INT").coalesce(1)


def written(spark: SparkSession, table: str) -> list[tuple[Any, ...]]:
    spark.catalog.refreshTable(table)
    return sorted(tuple(row) for row in spark.table(table).collect())


def test_fail_with_one_existing_among_many_new_changes_nothing_and_leaves_nothing(
    spark: SparkSession, writer: TableWriter, hourly: str, batch: Callable[..., DataFrame], look: Look
) -> None:
    before, rows = look(hourly), written(spark, hourly)
    many = [(100 + hour, "new", "d1", hour) for hour in range(2, 22)]
    with pytest.raises(PartitionExistsError, match="dt=d1/hour=2"):
        writer.create_partitions(batch(*many), hourly)
    assert look(hourly) == before, "no file, no upload, no registration, no entry of the log"
    assert written(spark, hourly) == rows


def test_fail_adds_partitions_beside_existing_siblings(
    spark: SparkSession, writer: TableWriter, hourly: str, batch: Callable[..., DataFrame], look: Look
) -> None:
    before = look(hourly)
    result = writer.create_partitions(batch((5, "new", "d1", 3), (6, "new", "d9", 1)), hourly)
    after = look(hourly)
    assert [one.name for one in result.added] == ["dt=d1/hour=3", "dt=d9/hour=1"]
    assert before.locations.items() <= after.locations.items()
    assert before.data.items() <= after.data.items()
    assert written(spark, hourly) == sorted([*OLD, (4, "ours", "d3", 1), (5, "new", "d1", 3), (6, "new", "d9", 1)])


@pytest.mark.parametrize("method", ["append", "overwrite_partitions"])
def test_append_and_replace_change_the_partitions_with_rows_and_no_parent_or_sibling(
    method: str, spark: SparkSession, writer: TableWriter, hourly: str, batch: Callable[..., DataFrame], look: Look
) -> None:
    before = look(hourly)
    getattr(writer, method)(batch((5, "new", "d1", 1), (6, "new", "d3", 1)), hourly)
    after = look(hourly)
    changed = {name for name, location in after.locations.items() if location != before.locations.get(name)}
    assert changed == {"dt=d1/hour=1", "dt=d3/hour=1"}
    assert before.data.items() <= after.data.items(), "every old object is still there, byte for byte"
    assert all(after.files_of(name) == before.files_of(name) for name in before.locations.keys() - changed)
    new = [(5, "new", "d1", 1), (6, "new", "d3", 1)]
    kept = [*OLD, (4, "ours", "d3", 1)] if method == "append" else [row for row in OLD if row[0] != 1]
    assert written(spark, hourly) == sorted([*kept, *new])


def test_append_keeps_old_files_under_their_names_byte_for_byte_and_has_none_twice(
    writer: TableWriter, hourly: str, batch: Callable[..., DataFrame], look: Look, lakehouse: Lakehouse
) -> None:
    def bodies() -> dict[str, bytes]:
        seen = look(hourly)
        prefix = Location.parse(seen.locations["dt=d1/hour=1"]).key
        found = {name: f"{prefix}{name}" for name in seen.files_of("dt=d1/hour=1")}
        return {
            name: lakehouse.s3.get_object(Bucket=lakehouse.bucket, Key=key)["Body"].read()
            for name, key in found.items()
        }  # ETags tell less: that of a copy is another than that of an upload in parts

    for number in range(2):
        before = bodies()
        writer.append(batch((10 + number, "new", "d1", 1)), hourly)
        after = bodies()
        assert before.items() <= after.items()
        assert len(after) == len(set(after.values())) == len(before) + 1


def test_replace_drops_old_files_only_after_the_retention(
    spark: SparkSession,
    writer: TableWriter,
    keeper: Maintenance,
    hourly: str,
    batch: Callable[..., DataFrame],
    look: Look,
) -> None:
    before = look(hourly)
    writer.overwrite_partitions(batch((5, "new", "d1", 1), (6, "new", "d3", 1)), hourly)
    assert keeper.vacuum(hourly).deleted == ()
    assert before.data.items() <= look(hourly).data.items()
    keeper.vacuum(hourly, older_than=timedelta(0), force=True)
    replaced = [before.locations["dt=d1/hour=1"], before.locations["dt=d3/hour=1"]]
    prefixes = tuple(Location.parse(location).key for location in replaced)
    gone = before.data.keys() - look(hourly).data.keys()
    assert gone == {key for key in before.data if key.startswith(prefixes)}
    assert written(spark, hourly) == sorted([*OLD[1:], (5, "new", "d1", 1), (6, "new", "d3", 1)])


@pytest.mark.parametrize("method", first_fast(MODES))
def test_a_failing_task_leaves_nothing_visible_and_nothing_behind(
    method: str, spark: SparkSession, writer: TableWriter, hourly: str, look: Look
) -> None:
    before = look(hourly)
    failing = spark.range(0, 40, 1, 2).select(
        "id",
        F.when(F.col("id") == 39, F.raise_error("broken row")).otherwise("x").alias("note"),
        F.concat(F.lit("new"), F.col("id") % 3).alias("dt"),
        F.lit(1).alias("hour"),
    )
    with pytest.raises(Exception, match="broken row"):
        getattr(writer, method)(failing, hourly)
    assert look(hourly) == before


@pytest.mark.parametrize("method", first_fast(MODES))
def test_a_complete_that_fails_leaves_nothing_behind(
    method: str, spark: SparkSession, stopped: Stopped, hourly: str, batch: Callable[..., DataFrame], look: Look
) -> None:
    before, rows = look(hourly), written(spark, hourly)
    failing = stopped(("complete_upload", "before", "hour=4"), failing_with(StorageError("refused")))
    with pytest.raises(StorageError, match="refused"):
        getattr(failing, method)(batch(*[(20 + hour, "new", "d7", hour) for hour in range(6)]), hourly)
    assert look(hourly) == before
    assert written(spark, hourly) == rows


@pytest.mark.parametrize("method", first_fast(MODES))
def test_a_job_without_rows_changes_nothing(method: str, writer: TableWriter, hourly: str, look: Look) -> None:
    before = look(hourly)
    empty = writer._spark.table(hourly).where("id < 0")
    assert getattr(writer, method)(empty, hourly, if_empty="ignore").version is None
    assert look(hourly) == before


def test_tasks_without_rows_write_no_file(spark: SparkSession, writer: TableWriter, hourly: str, look: Look) -> None:
    few_of_many = spark.range(0, 8, 1, 8).where("id IN (1, 5)").selectExpr("id", "'x' note", "'d9' dt", "1 hour")
    result = writer.create_partitions(few_of_many, hourly, engine="arrow")
    files = look(hourly).files_of("dt=d9/hour=1")
    assert result.files == len(files) == 2
    assert all(size > 0 for _, size in files.values())


def test_every_file_name_has_the_id_of_its_write_before_the_first_dot_and_once(
    writer: TableWriter, hourly: str, batch: Callable[..., DataFrame], look: Look
) -> None:
    result = writer.create_partitions(batch((5, "new", "d8", 1), (6, "new", "d9", 1)), hourly)
    names = [name for one in result.partitions for name in look(hourly).files_of(one.name)]
    assert len(names) == 2
    assert all(name.partition(".")[0].count(result.write_id) == name.count(result.write_id) == 1 for name in names)


HIDDEN = (
    "_SUCCESS",
    ".part-0.parquet.crc",
    "_temporary/0/_temporary/attempt_1/part-9.parquet",
    ".hive-staging_1/part-8.parquet",
    "part-7.parquet._COPYING_",
)


def test_hidden_files_of_other_tools_are_not_copied_and_break_nothing(
    spark: SparkSession,
    writer: TableWriter,
    hourly: str,
    batch: Callable[..., DataFrame],
    look: Look,
    lakehouse: Lakehouse,
) -> None:
    before = look(hourly)
    prefix = Location.parse(before.locations["dt=d1/hour=1"]).key
    for name in HIDDEN:
        lakehouse.s3.put_object(Bucket=lakehouse.bucket, Key=f"{prefix}{name}", Body=b"no parquet")
    lakehouse.s3.put_object(Bucket=lakehouse.bucket, Key=f"{prefix}marker/", Body=b"")
    result = writer.append(batch((5, "new", "d1", 1)), hourly)
    assert result.copied_files == len(before.files_of("dt=d1/hour=1"))
    assert not look(hourly).files_of("dt=d1/hour=1").keys() & set(HIDDEN)
    assert written(spark, hourly) == sorted([*OLD, (4, "ours", "d3", 1), (5, "new", "d1", 1)])


def test_empty_files_of_other_tools_are_brought_along_and_read_as_no_rows(
    spark: SparkSession,
    writer: TableWriter,
    hourly: str,
    batch: Callable[..., DataFrame],
    look: Look,
    lakehouse: Lakehouse,
) -> None:
    prefix = Location.parse(look(hourly).locations["dt=d1/hour=1"]).key
    lakehouse.s3.put_object(Bucket=lakehouse.bucket, Key=f"{prefix}part-99999", Body=b"")
    rows = written(spark, hourly)
    writer.append(batch((5, "new", "d1", 1)), hourly)
    assert look(hourly).files_of("dt=d1/hour=1")["part-99999"][1] == 0
    assert written(spark, hourly) == sorted([*rows, (5, "new", "d1", 1)])


def test_sub_directories_of_an_old_partition_come_along_as_they_are(
    spark: SparkSession,
    writer: TableWriter,
    hourly: str,
    batch: Callable[..., DataFrame],
    look: Look,
    lakehouse: Lakehouse,
) -> None:
    before = look(hourly)
    (name,) = before.files_of("dt=d1/hour=1")
    prefix = Location.parse(before.locations["dt=d1/hour=1"]).key
    source = {"Bucket": lakehouse.bucket, "Key": f"{prefix}{name}"}
    for directory in ("1", "2/deep"):  # as Hive's UNION ALL leaves them
        lakehouse.s3.copy_object(Bucket=lakehouse.bucket, Key=f"{prefix}{directory}/{name}", CopySource=source)
    rows = written(spark, hourly)
    old = look(hourly).files_of("dt=d1/hour=1")
    result = writer.append(batch((5, "new", "d1", 1)), hourly)
    assert result.copied_files == 3
    assert old.items() <= look(hourly).files_of("dt=d1/hour=1").items()
    assert written(spark, hourly) == sorted([*rows, (5, "new", "d1", 1)]), "each reader sees what it saw, and the new"


def test_pending_uploads_of_another_job_on_the_same_table_are_left_alone(
    spark: SparkSession,
    writer: TableWriter,
    keeper: Maintenance,
    stopped: Stopped,
    hourly: str,
    batch: Callable[..., DataFrame],
    look: Look,
) -> None:
    seen: list[Seen] = []

    def other_job() -> None:
        writer.overwrite_partitions(batch((6, "other", "d1", 2)), hourly)
        keeper.vacuum(hourly)
        seen.append(look(hourly))

    slow = stopped(("complete_upload", "before", ""), other_job, None)
    slow.overwrite_partitions(batch((5, "slow", "d1", 1)), hourly)
    assert len(seen[0].uploads) == 1, "this job's, with all its parts"
    assert look(hourly).uploads == frozenset()
    assert written(spark, hourly) == sorted(
        [(5, "slow", "d1", 1), (6, "other", "d1", 2), (3, "old", "d2", 1), (4, "ours", "d3", 1)]
    )
