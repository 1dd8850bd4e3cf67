"""The dry run: what it says is what the call then does, and it writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from table_writer import InvalidInputError, TableWriter, TableWriterError
from table_writer.metastore.hive import HiveMetastore
from table_writer.testing import Lakehouse
from tests.cells import first_fast

from .watched import Seen

Rows = Callable[..., Any]
Look = Callable[[str], Seen]
DONE = {"add": "added", "replace": "replaced", "append": "appended", "empty": "emptied"}


@pytest.fixture
def written(writer: TableWriter, orders: str, rows: Rows) -> str:
    rows((1, "spark", "d1"), (2, "spark", "d2")).write.insertInto(orders)
    writer.append(rows((3, "ours", "d3"), (4, "ours", "d4")), orders)
    return orders


CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "append": ("append", {}),
    "overwrite_partitions": ("overwrite_partitions", {}),
    "where": ("overwrite_partitions", {"where": "dt >= 'd2' OR dt IS NULL"}),
    "overwrite_table": ("overwrite_table", {}),
    "spark": ("append", {"engine": "spark"}),
}


@pytest.mark.connect
@pytest.mark.parametrize("call", first_fast(CALLS, 2))
def test_the_call_then_does_what_the_plan_says_and_the_plan_has_written_nothing(
    call: str, writer: TableWriter, written: str, rows: Rows, look: Look
) -> None:
    mode, options = CALLS[call]
    df = rows((20, "new", "d2"), (21, "new", "d2"), (30, "new", "d3"), (90, "new", None))
    before = look(written)
    plan = writer.plan(df, written, mode, **options)
    assert look(written) == before
    assert plan.ok, plan
    result = getattr(writer, mode)(df, written, **options)
    planned = [(one.name, DONE[one.action], one.rows, one.copied_files, one.copied_bytes) for one in plan.partitions]
    done = [(one.name, one.action, one.rows, one.copied_files, one.copied_bytes) for one in result.partitions]
    assert planned == sorted(done)
    assert {one.name: one.replaced_location for one in plan.partitions if one.replaced_location} == {
        one.name: before.locations[one.name] for one in result.partitions if one.action != "added"
    }
    assert {one.name for one in plan.partitions if not one.location} == {one.name for one in result.emptied}
    assert (plan.rows, plan.copied_bytes, plan.base_version) == (result.rows, result.copied_bytes, 1)


def test_a_plan_of_the_first_write_leaves_no_trace_either(
    writer: TableWriter, orders: str, rows: Rows, look: Look
) -> None:
    plan = writer.plan(rows((1, "a", "d1")), orders)
    assert look(orders) == Seen(locations={}, objects={}, uploads=frozenset())
    assert (plan.ok, plan.base_version, [one.name for one in plan.added]) == (True, 0, ["dt=d1"])


def test_what_the_first_write_would_be_refused_for_is_a_problem(
    spark: SparkSession, writer: TableWriter, make_table: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT) USING parquet", "codes")
    monkeypatch.setattr(HiveMetastore, "why_immovable", lambda *_: "Hive 4 keeps it where it is")
    for plan in (writer.plan(spark.range(5), table, "overwrite_table"), writer.plan(spark.range(5), table, "append")):
        assert not plan.ok
        assert [one for one in plan.problems if "Hive 4 keeps it where it is. Nothing was written" in one]
    with pytest.raises(InvalidInputError, match="Hive 4 keeps it where it is"):
        writer.overwrite_table(spark.range(5), table)


def test_an_unpartitioned_table_is_one_partition(
    spark: SparkSession, writer: TableWriter, make_table: Callable[..., str], look: Look
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT) USING parquet", "codes")
    spark.range(3).coalesce(1).write.insertInto(table)
    before = look(table)
    assert [one.action for one in writer.plan(spark.range(5), table, "overwrite_table").partitions] == ["replace"]
    plan = writer.plan(spark.range(5), table, "append")
    assert look(table) == before
    assert [(one.action, one.rows, one.copied_files) for one in plan.partitions] == [("append", 5, 1)]


PROBLEMS: dict[str, tuple[str, dict[str, Any], str]] = {
    "exists": ("create_partitions", {}, "2 partitions already there: dt=d2, dt=d3"),
    "too many bytes": ("append", {"max_copied_bytes": 10}, "above max_copied_bytes=10"),
    "outside": ("overwrite_partitions", {"where": "dt = 'd2'"}, "does not select: dt=d3"),
}


@pytest.mark.parametrize("case", first_fast(PROBLEMS))
def test_what_would_make_the_call_fail_is_said_and_does(
    case: str, writer: TableWriter, written: str, rows: Rows, look: Look
) -> None:
    mode, options, said = PROBLEMS[case]
    df = rows((20, "new", "d2"), (30, "new", "d3"))
    before = look(written)
    plan = writer.plan(df, written, mode, **options)
    assert not plan.ok
    assert any(said in problem for problem in plan.problems), plan.problems
    assert "would FAIL" in repr(plan)
    with pytest.raises(TableWriterError):
        getattr(writer, mode)(df, written, **options)
    assert look(written) == before


def test_a_partition_whose_files_cannot_be_copied_is_a_problem_of_an_append(
    spark: SparkSession, writer: TableWriter, written: str, rows: Rows, lakehouse: Lakehouse
) -> None:
    lakehouse.s3.create_bucket(Bucket="aside")
    spark.sql(f"ALTER TABLE {written} ADD PARTITION (dt='d8') LOCATION 's3a://aside/d8'")
    df = rows((8, "new", "d8"))
    assert writer.plan(df, written, "overwrite_partitions").ok
    plan = writer.plan(df, written, "append")
    assert not plan.ok
    assert "another bucket" in plan.problems[0]
    with pytest.raises(InvalidInputError, match="another bucket"):
        writer.append(df, written)


def test_an_empty_dataframe_is_a_problem_unless_it_may_be_empty(writer: TableWriter, written: str, rows: Rows) -> None:
    empty = rows((1, "a", "d1")).where("id > 1")
    assert "has no rows" in writer.plan(empty, written).problems[0]
    assert writer.plan(empty, written, if_empty="ignore").ok
    emptied = writer.plan(empty, written, "overwrite_table", if_empty="replace")
    assert [one.name for one in emptied.emptied] == ["dt=d1", "dt=d2", "dt=d3", "dt=d4"]


def test_the_verdict_on_the_schema_names_what_would_be_added_filled_and_converted(
    spark: SparkSession, writer: TableWriter, written: str, look: Look
) -> None:
    df = spark.sql("SELECT 1 AS id, 1.5D AS extra, 'd9' AS dt")
    before = look(written)
    assert not writer.plan(df, written).schema.fits
    assert "'note'" in writer.plan(df, written).schema.problems[0]
    verdict = writer.plan(df, written, schema="evolve").schema
    assert (verdict.added_columns, verdict.filled_columns) == (("extra: double",), ("note",))
    assert verdict.converted_columns == ("id: int -> bigint",)
    assert look(written) == before
    assert spark.table(written).columns == ["id", "note", "dt"]


def test_each_call_of_plan_runs_the_query_once(spark: SparkSession, writer: TableWriter, written: str) -> None:
    counted = spark.sparkContext.accumulator(0)

    def one_more(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            counted.add(batch.num_rows)
            yield batch

    df = spark.sql("SELECT id, 'x' AS note, concat('d', id) AS dt FROM range(4)")
    writer.plan(df.mapInArrow(one_more, df.schema), written, "append")
    assert counted.value == 4


def test_a_partition_described_otherwise_than_the_table_is_a_problem_of_an_append(
    spark: SparkSession, writer: TableWriter, make_table: Callable[..., str], rows: Rows
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, note STRING) PARTITIONED BY (dt STRING) STORED AS PARQUET")
    spark.sql(f"ALTER TABLE {table} ADD PARTITION (dt='d1')")
    orc = "org.apache.hadoop.hive.ql.io.orc.OrcSerde"
    spark.sql(f"ALTER TABLE {table} PARTITION (dt='d1') SET SERDE '{orc}'")
    df = rows((1, "new", "d1"))
    assert writer.plan(df, table).ok
    (problem,) = writer.plan(df, table, "append").problems
    assert problem.startswith(f"dt=d1 is stored as {orc}")
    with pytest.raises(InvalidInputError, match=f"is stored as {orc}"):
        writer.append(df, table)


def test_a_call_that_fails_before_its_first_byte_fails_in_the_plan(
    spark: SparkSession, writer: TableWriter, make_table: Callable[..., str], orders: str, rows: Rows
) -> None:
    df = rows((1, "a", "d1"))
    with pytest.raises(InvalidInputError, match="sort_by names 'price'"):
        writer.plan(df, orders, sort_by=["price"])
    odd = make_table(
        "CREATE TABLE {name} (id BIGINT, note STRING, dt STRING) USING parquet"
        " OPTIONS (compression 'lz77') PARTITIONED BY (dt)",
        "odd",
    )
    with pytest.raises(InvalidInputError, match="lz77"):
        writer.plan(df, odd)
    with pytest.raises(InvalidInputError, match="lz77"):
        writer.append(df, odd)


def test_limits_of_partition_columns_are_problems_of_the_schema(
    writer: TableWriter, make_table: Callable[..., str], rows: Rows
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, note STRING, dt VARCHAR(3)) USING parquet PARTITIONED BY (dt)")
    (problem,) = writer.plan(rows((1, "a", "d1"), (2, "b", "longer")), table).schema.problems
    assert "column dt is varchar(3), and 1 of 2 rows are longer, for example 'longer'" in problem


def test_dates_are_spelled_as_the_write_spells_them_and_a_year_that_it_cannot_spell_is_a_problem(
    spark: SparkSession, writer: TableWriter, make_table: Callable[..., str]
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, dt DATE, n INT) USING parquet PARTITIONED BY (dt, n)")
    far = "SELECT 1L AS id, date_add(DATE '0007-01-01', {} * 366 * 12000) AS dt, -7 AS n"
    plan = writer.plan(spark.sql(far.format(0)), table)
    assert (plan.ok, [one.name for one in plan.partitions]) == (True, ["dt=0007-01-01/n=-7"])
    assert [one.name for one in writer.append(spark.sql(far.format(0)), table).partitions] == ["dt=0007-01-01/n=-7"]
    (problem,) = writer.plan(spark.sql(far.format(1)), table).problems
    assert "outside the years 1 to 9999 cannot be written: +12" in problem
    with pytest.raises(TableWriterError, match="only the years 1 to 9999"):
        writer.append(spark.sql(far.format(1)), table)


def test_case_does_not_count_in_a_session_where_it_does(
    spark: SparkSession, writer: TableWriter, make_table: Callable[..., str], rows: Rows
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, note STRING, DT STRING) USING parquet PARTITIONED BY (DT)")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        plan = writer.plan(rows((1, "a", "d1"), (2, "b", None)), table)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert [(one.values, one.rows) for one in plan.partitions] == [(("__HIVE_DEFAULT_PARTITION__",), 1), (("d1",), 1)]


def test_a_key_that_was_published_is_a_note_and_the_call_would_change_nothing(
    writer: TableWriter, orders: str, rows: Rows
) -> None:
    df = rows((1, "a", "d1"))
    assert writer.plan(df, orders, "append", idempotency_key="run/7").notes == ()
    writer.append(df, orders, idempotency_key="run/7")
    plan = writer.plan(df, orders, "append", idempotency_key="run/7")
    assert plan.notes == ("idempotency_key='run/7' was published as version 1: the call would do nothing",)
    assert (plan.ok, plan.partitions) == (True, ())
    assert writer.append(df, orders, idempotency_key="run/7").repeated
