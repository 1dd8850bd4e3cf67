"""Few rows are uploaded by the driver: the same files, and never rows of two runs of their query."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark documents it

from table_writer import (
    CheckFailedError,
    InvalidInputError,
    NewTable,
    PartitionExistsError,
    SchemaMismatchError,
    TableWriter,
    WriteResult,
)
from table_writer.jobs.upload.job import run_upload, upload_few
from table_writer.model.units import MIB
from table_writer.spark import few_rows, open_gateway
from table_writer.spark.connect import sources_explained
from table_writer.spark.few_rows import FewRows
from table_writer.spark.gateway import QuerySources
from table_writer.spark.sql import SPARK_ERRORS
from table_writer.storage.object_store import open_store
from table_writer.testing import Lakehouse
from tests.upload.rows_of_all_types import COLUMNS, LOCAL_TIMESTAMPS, TIMESTAMPS, spec_of, table


@pytest.fixture
def few(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> TableWriter:
    """A writer whose driver takes little: 2,048 rows of 512 bytes."""
    monkeypatch.setattr(few_rows, "MOST_BYTES", MIB)
    monkeypatch.setattr(few_rows, "_in_vain", set())
    return TableWriter(spark)


@pytest.fixture
def orders(spark: SparkSession, lakehouse_database: str) -> str:
    name = f"{lakehouse_database}.orders"
    spark.sql(f"CREATE TABLE {name} (id BIGINT NOT NULL, note STRING, dt STRING) USING parquet PARTITIONED BY (dt)")
    return name


def numbered(spark: SparkSession, count: int, *, tasks: int = 3, note: str = "concat('n', id)") -> DataFrame:
    return spark.range(0, count, 1, tasks).selectExpr("id", f"{note} AS note", "concat('d', id % 2) AS dt")


def test_few_rows_go_through_the_driver_and_the_result_says_so(
    spark: SparkSession, few: TableWriter, orders: str
) -> None:
    by_driver = few.overwrite_partitions(numbered(spark, 100), orders)
    assert (by_driver.uploaded_by, by_driver.rows, by_driver.files) == ("driver", 100, 2)
    assert "uploaded by the driver" in by_driver.to_text()
    assert json.loads(by_driver.to_json())["uploaded_by"] == "driver"
    by_executors = few.overwrite_partitions(numbered(spark, 100), orders, engine="arrow")
    assert (by_executors.uploaded_by, by_executors.files) == ("executors", 6)
    assert spark.table(orders).exceptAll(numbered(spark, 100)).count() == 0
    uploads = ("CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload")
    assert [by_driver.storage_requests[kind] for kind in uploads] == [2, 2, 2]
    assert [by_executors.storage_requests[kind] for kind in uploads] == [6, 6, 6]


def test_a_small_write_starts_no_python_worker(spark: SparkSession, few: TableWriter, orders: str) -> None:
    """Here none could start."""
    executable = spark.sparkContext.pythonExec
    spark.sparkContext.pythonExec = "/no/python/here"
    try:
        assert few.append(numbered(spark, 10), orders).uploaded_by == "driver"
        with pytest.raises(SPARK_ERRORS, match="/no/python/here"):
            few.append(numbered(spark, 10), orders, engine="arrow")
    finally:
        spark.sparkContext.pythonExec = executable


def test_a_struct_may_be_null_that_has_a_field_which_never_is(
    spark: SparkSession, few: TableWriter, lakehouse_database: str
) -> None:
    """PySpark's own ``toArrow`` fails on each of these columns."""
    maybe = "if(id > 0, named_struct('a', id), null)"
    kinds = (maybe, f"array({maybe})", f"map('k', {maybe})", f"named_struct('b', {maybe})")
    rows = spark.range(3).selectExpr("id", *(f"{kind} AS c{number}" for number, kind in enumerate(kinds)))
    name = f"{lakehouse_database}.structs"
    assert few.append(rows, name, if_missing=NewTable()).uploaded_by == "driver"
    shown = [f"to_json(struct({column})) AS {column}" for column in rows.columns]
    assert spark.table(name).selectExpr(*shown).exceptAll(rows.selectExpr(*shown)).count() == 0


def test_files_are_byte_for_byte_those_of_a_task(spark: SparkSession, tmp_path: Path) -> None:
    of_all = [*(COLUMNS | TIMESTAMPS).items()]
    groups = [dict(of_all[begin : begin + 6]) for begin in range(0, len(of_all), 6)]  # with few lists each
    for number, columns in enumerate((*groups, LOCAL_TIMESTAMPS)):
        rows = table(spark, columns)
        spec = spec_of(rows, tmp_path / str(number))
        store = open_store(spec.store)
        bodies, messages = [], []
        wide = FewRows(table="mart.all", rows=rows, max_bytes=MIB, seen_row_bytes=10_000)
        for sent in (upload_few(wide, spec, store), run_upload(rows, spec)):
            assert sent is not None
            (message,) = sent
            (upload,) = message.uploads
            store.complete_upload(upload.key, upload.upload_id, upload.parts)
            (file,) = (tmp_path / str(number) / "w1").glob("*.parquet")
            bodies.append(file.read_bytes())
            messages.append((message.row_count, message.row_bytes, message.statistics, message.marks))
            file.unlink()
        assert bodies[0] == bodies[1]
        assert messages[0] == messages[1]


def test_what_is_too_much_is_written_by_executors_from_one_run_of_the_query(
    spark: SparkSession, few: TableWriter, orders: str, lakehouse_database: str
) -> None:
    """Spark thinks all of these small; a run that was thrown away has left no row."""
    spark.sql(
        f"CREATE OR REPLACE VIEW {lakehouse_database}.exploding AS SELECT explode(sequence(1L, 30000L)) AS id,"
        " CAST(current_timestamp() AS STRING) AS note, 'd1' AS dt"
    )
    repeat = F.udf(lambda number: "x" * (3 if number < 2000 else 200_000), "string")
    lies = {
        "a view that explodes": spark.table(f"{lakehouse_database}.exploding"),
        "a function that makes texts": spark.range(0, 2020, 1, 4).select(
            "id", repeat("id").alias("note"), F.lit("d1").alias("dt")
        ),
        "a cross join": spark.range(300)
        .crossJoin(spark.range(300).withColumnRenamed("id", "other"))
        .selectExpr("id * 300 + other AS id", "CAST(current_timestamp() AS STRING) AS note", "'d1' AS dt"),
        "a row that is wider than the bound": spark.sql("SELECT 1L AS id, repeat('x', 2000000) AS note, 'd1' AS dt"),
    }
    counts = {"a view that explodes": 30_000, "a function that makes texts": 2020, "a cross join": 90_000}
    for what, rows in lies.items():
        few_rows._in_vain.clear()
        result = few.overwrite_table(rows, orders)
        assert (what, result.uploaded_by) == (what, "executors")
        found = spark.table(orders)
        assert (what, found.count(), found.select("id").distinct().count()) == (what, *[counts.get(what, 1)] * 2)
        if what in ("a view that explodes", "a cross join"):
            assert found.select("note").distinct().count() == 1, what  # the moment of one run


def test_the_bound_holds_to_the_row(spark: SparkSession, few: TableWriter, orders: str) -> None:
    assert few.overwrite_table(numbered(spark, 2048), orders).uploaded_by == "driver"
    assert few.overwrite_table(numbered(spark, 2049), orders).uploaded_by == "executors"
    width = 512 - 9 - 5 - (5 + 2)  # bytes of the other columns, in Arrow, with what says that they are not null
    for extra, by in ((0, "driver"), (1, "executors")):
        name = f"{orders}_{by}"
        spark.sql(f"CREATE TABLE {name} LIKE {orders}")
        result = few.overwrite_table(numbered(spark, 2, note=f"repeat('x', {width + extra})"), name)
        assert (extra, result.uploaded_by) == (extra, by)
    again = few.overwrite_table(numbered(spark, 2, note="repeat('x', 2000)"), name)  # four times what was seen
    assert again.uploaded_by == "driver"


def test_rows_of_fixed_types_need_no_look(spark: SparkSession, lakehouse_database: str, few: TableWriter) -> None:
    name = f"{lakehouse_database}.numbers"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, price DECIMAL(10,2)) USING parquet")
    rows = spark.range(20_000).selectExpr("id", "CAST(id AS DECIMAL(10,2)) AS price")
    assert few.append(rows, name).uploaded_by == "driver"
    assert few.append(rows.union(rows).union(rows), name).uploaded_by == "executors"
    assert spark.table(name).count() == 80_000


def test_a_query_that_somebody_counts_runs_once(spark: SparkSession, few: TableWriter, orders: str) -> None:
    observation = Observation()
    rows = numbered(spark, 5000).observe(observation, F.count(F.lit(1)).alias("rows"))
    assert few.append(rows, orders).uploaded_by == "executors"
    assert observation.get == {"rows": 5000}


def test_a_query_with_code_of_the_user_runs_once(spark: SparkSession, few: TableWriter, orders: str) -> None:
    calls = spark.sparkContext.accumulator(0)

    def count(number):  # type: ignore[no-untyped-def]  # PySpark looks at hints
        calls.add(1)
        return f"n{number}"

    rows = spark.range(5000).select("id", F.udf(count, "string")("id").alias("note"), F.lit("d1").alias("dt"))
    assert few.append(rows, orders).uploaded_by == "executors"
    assert calls.value == 5000


def test_an_order_that_the_user_has_made_stays(spark: SparkSession, few: TableWriter, orders: str) -> None:
    """A limit over it would hold the first rows of all tasks, however wide, in Java's memory."""
    rows = numbered(spark, 100, tasks=3)
    for ordered in (rows.orderBy("note"), rows.sortWithinPartitions("note"), rows.orderBy("note").where("id > 3")):
        result = few.overwrite_table(ordered, orders)
        assert result.uploaded_by == "executors"


def test_rows_that_were_not_few_are_not_asked_about_again(
    spark: SparkSession, few: TableWriter, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So each batch of a stream is computed once; another table is asked about."""
    asked: list[str] = []
    ran = few_rows.arrow_batches
    monkeypatch.setattr(few_rows, "arrow_batches", lambda rows: asked.append("x") or ran(rows))
    for _ in range(3):
        assert few.append(numbered(spark, 3000), orders).uploaded_by == "executors"
    assert len(asked) == 1
    other = f"{orders}_other"
    spark.sql(f"CREATE TABLE {other} LIKE {orders}")
    assert few.append(numbered(spark, 3), other).uploaded_by == "driver"


def test_wide_schemas_are_not_measured(spark: SparkSession, few: TableWriter, lakehouse_database: str) -> None:
    """Java would compile a loop for each list."""
    for number, (columns, kind, by) in enumerate(
        ((8, "array(id)", "driver"), (9, "array(id)", "executors"), (100, "''", "driver"), (101, "''", "executors"))
    ):
        rows = spark.range(3).selectExpr(*(f"{kind} AS c{column}" for column in range(columns)))
        result = few.append(rows, f"{lakehouse_database}.wide_{number}", if_missing=NewTable())
        assert (columns, result.uploaded_by) == (columns, by)


def test_sources_that_may_be_large_are_not_asked(
    spark: SparkSession, few: TableWriter, orders: str, tmp_path: Path
) -> None:
    tasks = spark.sparkContext.defaultParallelism
    for count, by in ((2 * tasks + 1, "executors"), (2 * tasks, "driver")):
        rdd = spark.sparkContext.parallelize([(1, "a", "d1")] * 3, count)
        result = few.overwrite_table(spark.createDataFrame(rdd, "id LONG, note STRING, dt STRING"), orders)
        assert (count, result.uploaded_by) == (count, by)
    spark.range(200_000).write.parquet(f"file://{tmp_path}/large")
    large = spark.read.parquet(f"file://{tmp_path}/large").where("id < 10")
    chosen = large.selectExpr("id", "'a' AS note", "'d1' AS dt")
    assert few.overwrite_table(chosen, orders).uploaded_by == "executors"


def test_a_result_that_spark_refuses_goes_to_executors(
    spark: SparkSession, few: TableWriter, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Any, write_id: str, work: Callable[[], Any], *others: Any) -> Any:
        if isinstance(work, partial) and work.func is few_rows.arrow_batches:
            raise PythonException("Total size of serialized results is bigger than spark.driver.maxResultSize (1 B)")
        return ran(self, write_id, work, *others)

    gateway = type(open_gateway(spark))
    ran = gateway.run
    monkeypatch.setattr(gateway, "run", refuse)
    assert few.append(numbered(spark, 10), orders).uploaded_by == "executors"
    assert spark.table(orders).count() == 10


def test_rows_are_in_the_order_that_is_asked_for(
    spark: SparkSession, few: TableWriter, orders: str, lakehouse: Lakehouse
) -> None:
    rows = numbered(spark, 1000, tasks=4, note="sha2(CAST(id AS STRING), 256)")
    for distribution in ("none", "hash", "rebalance"):
        result = few.overwrite_table(rows, orders, sort_by=["note desc"], distribution=distribution)
        assert (result.uploaded_by, result.files) == ("driver", 2)
        for partition in result.partitions:
            location = spark.read.parquet(partition.location).toArrow()
            notes = location.column("note").to_pylist()
            assert notes == sorted(notes, reverse=True)
            assert len(notes) == 500


def test_what_is_refused_of_a_task_is_refused_of_the_driver(spark: SparkSession, few: TableWriter, orders: str) -> None:
    few.append(numbered(spark, 10), orders)

    def fails(number):  # type: ignore[no-untyped-def]  # PySpark looks at hints
        raise ZeroDivisionError(f"row {number}")

    short = f"{orders}_short"
    spark.sql(f"CREATE TABLE {short} (id BIGINT, note VARCHAR(3), dt STRING) USING parquet PARTITIONED BY (dt)")

    cases: list[tuple[type[Exception], str, Callable[[], WriteResult]]] = [
        (PartitionExistsError, "dt=d0", lambda: few.create_partitions(numbered(spark, 10), orders)),
        (
            SchemaMismatchError,
            "10 of 10 rows",
            lambda: few.append(numbered(spark, 1000).where("id > 990 OR id = 100"), short),
        ),
        (
            InvalidInputError,
            "partition 'dt=xxx",
            lambda: few.append(spark.sql("SELECT 1L AS id, 'a' AS note, repeat('x', 1100) AS dt"), orders),
        ),
        (
            PythonException,
            "ZeroDivisionError: row",
            lambda: few.append(numbered(spark, 10).withColumn("note", F.udf(fails, "string")("id")), orders),
        ),
        (
            CheckFailedError,
            "note",
            lambda: few.append(numbered(spark, 10), orders, checks=[lambda df: _fail("note is wrong")]),
        ),
    ]
    for kind, said, call in cases:
        with pytest.raises(kind, match=said) as caught:
            call()
        assert getattr(caught.value, "write_id", "none of ours") != ""
    assert spark.table(orders).count() == 10


def _fail(message: str) -> None:
    raise AssertionError(message)


def test_merges_staged_writes_and_batches_of_a_stream_go_that_way_too(
    spark: SparkSession, few: TableWriter, orders: str, tmp_path: Path
) -> None:
    few.overwrite_table(numbered(spark, 20), orders)
    changes = numbered(spark, 25, note="'new'").where("id > 15")
    merged = few.merge(changes, orders, on=["id", "dt"])
    assert (merged.uploaded_by, merged.inserted, merged.updated) == ("driver", 5, 4)
    deleted = few.delete_where(orders, "id < 5")
    assert (deleted.uploaded_by, deleted.deleted) == ("driver", 5)
    staged = few.stage(numbered(spark, 3), orders, mode="append", expires_in=timedelta(hours=1))
    assert staged.rows == 3
    assert staged.publish().uploaded_by == ""  # by this call, nothing was
    source = tmp_path / "source"
    numbered(spark, 4).write.json(f"file://{source}")
    results: list[WriteResult] = []
    stream = spark.readStream.schema("id LONG, note STRING, dt STRING").json(f"file://{source}")
    stream.writeStream.trigger(availableNow=True).option("checkpointLocation", f"file://{tmp_path}/check").foreachBatch(
        lambda df, number: results.append(few.append(df, orders))
    ).start().awaitTermination()
    assert [(result.uploaded_by, result.rows) for result in results] == [("driver", 4)]
    assert spark.table(orders).count() == 20 + 5 - 5 + 3 + 4


def test_rows_may_be_none(spark: SparkSession, few: TableWriter, orders: str) -> None:
    few.append(numbered(spark, 3), orders)
    nothing = few.overwrite_table(numbered(spark, 0), orders, if_empty="replace")
    assert (nothing.uploaded_by, nothing.rows, spark.table(orders).count()) == ("driver", 0, 0)


def test_types_that_are_too_deep_to_be_weighed_go_to_executors(
    spark: SparkSession, few: TableWriter, lakehouse_database: str
) -> None:
    deep = spark.sql("SELECT 1L AS id, CAST(NULL AS array<array<array<array<array<array<int>>>>>>) AS deep")
    assert few.append(deep, f"{lakehouse_database}.deep", if_missing=NewTable()).uploaded_by == "executors"


COST = """== Optimized Logical Plan ==
Project [id#1L], Statistics(sizeInBytes={total})
+- Join Inner, Statistics(sizeInBytes=1.2E+30 B)
   :- LocalRelation [id#1L], Statistics(sizeInBytes=120.0 B)
   +- Filter isnotnull(id#2L), Statistics(sizeInBytes=4.5 KiB)
      +- Relation spark_catalog.mart.orders[id#2L] parquet, Statistics(sizeInBytes={leaf})

== Physical Plan ==
{physical}
"""


@pytest.mark.parametrize(
    ("leaf", "physical", "expected"),
    [
        ("4.5 KiB", "Scan", 120 + 4608),
        ("8.0 EiB", "Scan", None),
        ("1.5 GiB", "Scan", 120 + 1_610_612_736),
        ("4.5 KiB", "... Truncated plan of 9 characters", None),
    ],
)
def test_a_connect_client_reads_sizes_of_leaves_where_spark_explains_a_plan(
    leaf: str, physical: str, expected: int | None
) -> None:
    found = sources_explained(COST.format(total="9.0 B", leaf=leaf, physical=physical))
    assert found == (None if expected is None else QuerySources(size_bytes=expected, is_plain=False))
    assert sources_explained("== Physical Plan ==\nScan") is None
    assert (
        sources_explained(COST.format(total="9.0 B", leaf="9.0 B", physical="").replace("Filter", "Sort [id ASC]"))
        is None
    )
