"""One session for each call: that of its DataFrame, or of the streaming batch on its thread, or of the writer.

``batch.createOrReplaceTempView("updates")`` in ``foreachBatch`` makes a view of the query's own session. A writer of
the notebook's session merged an older view of that name instead, without a word.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from table_writer import ConflictError, InvalidInputError, TableWriter
from table_writer.check import expression, references
from table_writer.testing import Lakehouse

Listed = Callable[..., list[tuple[Any, ...]]]
Work = Callable[[DataFrame], object]
ON = "t.id = updates.id AND t.dt = updates.dt"
MERGE = f"MERGE INTO {{}} AS t USING updates ON {ON} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
NEW = ("CAST(value AS BIGINT) + 1 AS id", "'new' AS note", "'d1' AS dt")


@pytest.fixture
def in_batch(spark: SparkSession, tmp_path: Path) -> Callable[[Work], None]:
    """Call a function with one batch of a streaming query: rows 1 to 3."""

    def run(work: Work) -> None:
        def once(batch: DataFrame, number: int) -> None:
            if number == 0:
                work(batch.selectExpr(*NEW))

        stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
        started = stream.writeStream.foreachBatch(once).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = started.trigger(once=True).start()
        assert query.awaitTermination(120)

    return run


@pytest.fixture
def table(writer: TableWriter, orders: str, rows: Callable[..., Any], spark: SparkSession) -> str:
    """A table of one row, and a view ``updates`` in the notebook's session, from before the query."""
    writer.append(rows((1, "old", "d1")), orders)
    rows((1, "of the notebook", "d1")).createOrReplaceTempView("updates")
    return orders


def test_a_statement_in_a_batch_sees_the_views_of_the_batch(
    writer: TableWriter, table: str, in_batch: Callable[[Work], None], listed: Listed
) -> None:
    def work(batch: DataFrame) -> None:
        batch.createOrReplaceTempView("updates")
        writer.sql(MERGE.format(table))

    in_batch(work)
    assert listed(table) == [(1, "new", "d1"), (2, "new", "d1"), (3, "new", "d1")]
    writer.sql(MERGE.format(table))  # after the query the notebook's own view is meant
    assert listed(table)[0] == (1, "of the notebook", "d1")


def test_each_call_in_a_batch_looks_names_up_in_its_session(
    writer: TableWriter, table: str, in_batch: Callable[[Work], None], listed: Listed, rows: Callable[..., Any]
) -> None:
    def work(batch: DataFrame) -> None:
        batch.where("id = 2").createOrReplaceTempView("of_batch")
        in_view = "id IN (SELECT id FROM of_batch)"
        known = references("id", "of_batch", "id", severity="warn")
        (found,) = writer.append(batch, table, checks=[known]).checks
        assert found.failed_rows == 2
        assert writer.plan(None, table, "delete_where", predicate=in_view).deleted == 1
        assert writer.update_where(table, {"note": "'updated'"}, in_view).updated == 1
        chosen = {"note": "CASE WHEN updates.id IN (SELECT id FROM of_batch) THEN 'chosen' ELSE target.note END"}
        merged = writer.merge(batch.where("id > 1"), table, on=["dt", "id"], set=chosen)
        assert merged.updated == 2
        with writer.stage(batch, table) as staged:
            assert [one.failed_rows for one in staged.check(known)] == [2]
            found_again = writer.staged_write(table, staged.write_id)
            assert [one.failed_rows for one in found_again.check(known)] == [2]
        assert writer.delete_where(table, in_view, purge=True).deleted == 1

    in_batch(work)
    assert listed(table) == [(1, "new", "d1"), (1, "old", "d1"), (3, "new", "d1")]


def test_an_unknown_view_is_refused_with_the_session_in_which_it_was_looked_up(
    writer: TableWriter, table: str, in_batch: Callable[[Work], None], spark: Any
) -> None:
    said: list[str] = []

    def work(_: DataFrame) -> None:
        with pytest.raises(InvalidInputError) as refused:
            writer.sql(MERGE.format(table).replace("updates", "of_nobody"))
        said.append(refused.value.message)

    in_batch(work)
    assert "`of_nobody` cannot be found" in said[0]
    assert "Here that was the session of the streaming batch on this thread (batch.sparkSession)" in said[0]
    spark.newSession().sql("SELECT 1L AS id, 'x' AS note, 'd1' AS dt").createOrReplaceTempView("of_another")
    with pytest.raises(InvalidInputError, match="Here that was the session of the TableWriter"):
        writer.sql(MERGE.format(table).replace("updates", "of_another"))
    with pytest.raises(InvalidInputError, match="session of the DataFrame that the call is given"):
        writer.delete_where(table, "id IN (SELECT id FROM of_another)")


def test_a_frame_of_another_session_brings_its_views_and_its_settings(
    writer: TableWriter, table: str, another_session: Any, listed: Listed
) -> None:
    other = another_session
    other.sql("SELECT 1L AS id").createOrReplaceTempView("of_another")
    batch = other.sql("SELECT explode(array(1L, 2L)) AS id, 'new' AS note, 'd1' AS dt")
    (found,) = writer.append(batch, table, checks=[references("id", "of_another", "id", severity="warn")]).checks
    assert found.failed_rows == 1
    value = {"note": "CASE WHEN updates.id IN (SELECT id FROM of_another) THEN 'chosen' ELSE target.note END"}
    assert writer.merge(batch, table, on=["dt", "id"], set=value).updated == 3
    assert listed(table) == [(1, "chosen", "d1"), (1, "chosen", "d1"), (2, "new", "d1")]


def test_moments_of_a_frame_of_another_zone_are_one_value_from_the_first_step_to_the_last(
    writer: TableWriter, make_table: Callable[..., str], another_session: Any, spark: SparkSession
) -> None:
    """The name of a partition says what clocks show: those of the frame's session, for checks and staged writes too."""
    table = make_table("CREATE TABLE {name} (id BIGINT, hour TIMESTAMP) USING parquet PARTITIONED BY (hour)", "hours")
    another_session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    moment = "timestamp_seconds(1700000000)"
    rows = another_session.sql(f"SELECT 1L AS id, {moment} AS hour")
    chosen = "hour = timestamp_seconds(1700000000)"
    clock = "hour=2023-11-15 07%3A13%3A20"
    same = expression(chosen)
    assert [one.name for one in writer.append(rows, table, checks=[same]).partitions] == [clock]
    assert writer.overwrite_partitions(rows, table, where=chosen, checks=[same]).partitions[0].name == clock
    with writer.stage(rows, table, where=chosen, expires_in=timedelta(hours=1)) as staged:
        assert staged.dataframe().where(chosen).count() == 1
        assert [one.passed for one in staged.check(same)] == [True]
        assert [one.name for one in staged.publish().partitions] == [clock]
    staged = writer.stage(rows, table, where=chosen)  # is found and published in a session of another zone
    there = writer.staged_write(table, staged.write_id)
    assert [one.name for one in there.publish().partitions] == [clock]
    merged = writer.merge(rows, table, on=["hour", "id"], matched="update")
    assert (merged.updated, merged.inserted) == (1, 0)
    assert another_session.table(table).where(chosen).count() == 1
    staged = writer.stage(rows, table, where=chosen)
    writer.append(another_session.sql("SELECT 2L AS id, timestamp_seconds(0) AS hour"), table)
    with pytest.raises(ConflictError, match=r"with spark\.sql.session\.timeZone=Asia/Tokyo"):
        writer.staged_write(table, staged.write_id).publish()
    (published,) = TableWriter(another_session).staged_write(table, staged.write_id).publish().partitions
    assert published.name == clock


@pytest.mark.parametrize("columns", ["note STRING", "note STRING, code CHAR(2)"])  # read by tasks of ours, and by Spark
@pytest.mark.parametrize("search_above_bytes", [0, 1 << 30])
def test_a_session_that_passes_over_corrupt_files_loses_no_row_by_a_merge(
    columns: str, search_above_bytes: int, spark: Any, make_table: Callable[..., str], lakehouse: Lakehouse
) -> None:
    forgiving = spark.newSession()
    for name in ("ignoreCorruptFiles", "ignoreMissingFiles"):
        forgiving.conf.set(f"spark.sql.files.{name}", "true")
    table = make_table(f"CREATE TABLE {{name}} (id BIGINT, {columns}, dt STRING) USING parquet PARTITIONED BY (dt)")
    writer = TableWriter(forgiving)
    more = ", 'ab' AS code" if "code" in columns else ""
    rows = forgiving.sql(f"SELECT id, 'x' AS note{more}, 'd1' AS dt FROM range(100)")
    writer.append(rows.coalesce(1), table)
    (key,) = {
        found["Key"]
        for found in lakehouse.s3.list_objects_v2(Bucket=lakehouse.bucket)["Contents"]
        if table.replace(".", ".db/") in found["Key"] and found["Key"].endswith(".parquet")
    }
    body = lakehouse.s3.get_object(Bucket=lakehouse.bucket, Key=key)["Body"].read()
    broken = body[:4] + b"\xff" * 100 + body[104:]
    lakehouse.s3.put_object(Bucket=lakehouse.bucket, Key=key, Body=broken)
    with pytest.raises(Exception, match=r"(?i)corrupt|cannot be looked through|could not read|FAILED_READ_FILE|page"):
        writer.merge(rows.where("id = 1"), table, on=["dt", "id"], search_above_bytes=search_above_bytes)
    assert [version.version for version in writer.maintenance.history(table).versions] == [1]
