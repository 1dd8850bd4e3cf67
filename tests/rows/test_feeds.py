"""Change feeds in one switch: updates that say which rows go, late and doubled ones, and columns that come along."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer import InvalidInputError, RowsResult, SchemaMismatchError, TableWriter

from .conftest import Listed

FEED = "op STRING, id BIGINT, note STRING, dt STRING"
CREATE = "CREATE TABLE {name} (id BIGINT, note STRING, dt STRING) USING parquet PARTITIONED BY (dt)"
MARKED = "op STRING, id BIGINT, seq BIGINT, note STRING, dt STRING"
CREATE_MARKED = CREATE.replace("note STRING", "seq BIGINT, note STRING, gone BOOLEAN")


class Change(NamedTuple):
    """A change of a feed."""

    op: str
    id: int
    seq: int
    note: str
    dt: str


def counts(result: RowsResult) -> tuple[int | None, ...]:
    return (result.inserted, result.updated, result.deleted)


@pytest.fixture
def orders(make_table: Callable[..., str], writer: TableWriter, spark: SparkSession) -> str:
    table = make_table(CREATE)
    rows = [(1, "a", "d1"), (2, "b", "d1"), (3, "c", "d2")]
    writer.append(spark.createDataFrame(rows, "id BIGINT, note STRING, dt STRING"), table)
    return table


@pytest.fixture(params=[0, 1 << 20], ids=["searched", "rewritten"])
def limit(request: pytest.FixtureRequest) -> int:
    """Return up to which size partitions are rewritten whole: both ways give the same."""
    return int(request.param)


def test_inserts_updates_and_deletes_are_one_version(
    writer: TableWriter, spark: SparkSession, orders: str, listed: Listed, limit: int
) -> None:
    feed = [("U", 1, "A", "d1"), ("D", 2, None, "d1"), ("I", 4, "n", "d3"), ("D", 9, None, "d1"), (None, 3, "C", "d2")]
    before = len(writer.maintenance.history(orders).versions)
    updates = spark.createDataFrame(feed, FEED)
    result = writer.merge(updates, orders, on=["id", "dt"], delete="op = 'D'", search_above_bytes=limit)
    assert counts(result) == (1, 2, 1)
    assert listed(orders) == [(1, "A", "d1"), (3, "C", "d2"), (4, "n", "d3")]
    assert len(writer.maintenance.history(orders).versions) == before + 1
    assert result.version is not None
    again = writer.merge(updates, orders, on=["id"], delete=F.col("op") == "D", search_above_bytes=limit)
    assert counts(again) == (0, 3, 0)


def test_a_plan_tells_what_a_feed_would_do(writer: TableWriter, spark: SparkSession, orders: str) -> None:
    updates = spark.createDataFrame([("D", 1, None, "d1"), ("I", 7, "n", "d1"), ("D", 8, None, "d1")], FEED)
    plan: Any = writer.plan(updates, orders, "merge", on=["id"], delete="op = 'D'")
    assert (plan.inserted, plan.updated, plan.deleted) == (1, 0, 1)


def test_of_the_feeds_own_columns_only_what_says_delete_is_passed_over(
    writer: TableWriter, spark: SparkSession, orders: str, listed: Listed
) -> None:
    updates = spark.createDataFrame([("D", 1, None, "d1")], FEED).withColumn("at", F.lit(1))
    with pytest.raises(SchemaMismatchError, match="'at'"):
        writer.merge(updates, orders, on=["id"], delete="op = 'D'")
    with pytest.raises(SchemaMismatchError, match="'op'"):
        writer.merge(updates.drop("at"), orders, on=["id"], delete="note = 'D'")
    assert counts(writer.merge(updates, orders, on=["id"], delete="updates.op = 'D' AND at = 1")) == (0, 0, 1)
    assert listed(orders) == [(2, "b", "d1"), (3, "c", "d2")]


@pytest.mark.parametrize(
    ("said", "options"),
    [
        ("delete: matched='delete' deletes the row of every update", {"delete": "op = 'D'", "matched": "delete"}),
        ("deleted_flag='gone': expected delete", {"deleted_flag": "gone"}),
        ("deleted_flag.*has no column 'gone'", {"delete": "op = 'D'", "deleted_flag": "gone"}),
        ("deleted_flag='note': expected a BOOLEAN column", {"delete": "op = 'D'", "deleted_flag": "note"}),
        ("newest_by='id': the table would forget .* deleted_flag", {"delete": "op = 'D'", "newest_by": "id"}),
        ("newest_by='id': the table would forget .* deleted_flag", {"matched": "delete", "newest_by": "id"}),
        ("delete='no = 1': .*cannot be resolved", {"delete": "no = 1"}),
        ("delete='id' is bigint, not boolean", {"delete": "id"}),
        (r"delete='rand\(\) < 0.5' is about other rows", {"delete": "rand() < 0.5"}),
        ("schema='evolve': expected matched='update' without set", {"schema": "evolve", "set": {"note": "'x'"}}),
        ("schema='replace': expected one of strict, evolve", {"schema": "replace"}),
        ("deleted_flag='id': on, set or newest_by names it too", {"delete": "op = 'D'", "deleted_flag": "id"}),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_read(
    writer: TableWriter, spark: SparkSession, orders: str, listed: Listed, said: str, options: dict[str, Any]
) -> None:
    updates = spark.createDataFrame([("D", 1, None, "d1")], FEED)
    before = listed(orders)
    with pytest.raises(InvalidInputError, match=said):
        writer.merge(updates, orders, on=["id"], **options)
    assert listed(orders) == before


def test_marked_rows_keep_late_updates_from_coming_back(
    make_table: Callable[..., str], writer: TableWriter, spark: SparkSession, listed: Listed, limit: int
) -> None:
    table = make_table(CREATE_MARKED)

    def merged(*changes: Change, **options: Any) -> tuple[int | None, ...]:
        rows = spark.createDataFrame([tuple(change) for change in changes], MARKED)
        return counts(
            writer.merge(
                rows,
                table,
                on=["id", "dt"],
                delete="op = 'D'",
                deleted_flag="gone",
                newest_by="seq",
                search_above_bytes=limit,
                **options,
            )
        )

    assert merged(Change("I", 1, 1, "a", "d1"), Change("I", 2, 1, "b", "d1")) == (2, 0, 0)
    assert merged(Change("D", 1, 5, "", "d1"), Change("U", 1, 4, "late", "d1")) == (0, 1, 0)
    assert merged(Change("U", 1, 3, "later", "d1")) == (0, 0, 0)
    assert merged(Change("D", 3, 9, "", "d1")) == (1, 0, 0)  # its insert is still on the way
    assert merged(Change("I", 3, 8, "late", "d1")) == (0, 0, 0)
    assert listed(table) == [(1, 5, "", True, "d1"), (2, 1, "b", False, "d1"), (3, 9, "", True, "d1")]
    assert merged(Change("U", 1, 6, "again", "d1")) == (0, 1, 0)
    of_set = {"set": {"seq": "updates.seq", "note": "concat(target.note, updates.op)"}}
    assert merged(Change("D", 2, 7, "", "d1"), **of_set) == (0, 1, 0)
    assert listed(table) == [(1, 6, "again", False, "d1"), (2, 7, "bD", True, "d1"), (3, 9, "", True, "d1")]


@st.composite
def batches(draw: Any) -> list[list[Change]]:
    """Changes of a few keys with growing numbers, out of order and some of them twice, cut into batches."""
    ops = draw(st.lists(st.tuples(st.sampled_from("IUD"), st.integers(0, 4)), min_size=1, max_size=25))
    changes = [Change(op, key, seq, f"{op}{seq}", f"d{key % 2}") for seq, (op, key) in enumerate(ops)]
    changes += draw(st.lists(st.sampled_from(changes), max_size=5))
    changes = draw(st.permutations(changes))
    size = draw(st.integers(1, 12))
    return [changes[begin : begin + size] for begin in range(0, len(changes), size)]


@pytest.mark.parametrize("in_stream", [False, True], ids=["calls", "a stream"])
def test_feeds_in_any_order_end_as_their_newest_changes(
    in_stream: bool, make_table: Callable[..., str], writer: TableWriter, spark: SparkSession, listed: Listed
) -> None:
    numbers = iter(range(1000))
    options: Any = {"on": ["id", "dt"], "delete": "op = 'D'", "deleted_flag": "gone", "newest_by": "seq"}

    @settings(max_examples=4, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(feed=batches())
    def ends_so(feed: list[list[Change]]) -> None:
        table = make_table(CREATE_MARKED, f"feed{next(numbers)}")
        write = writer.for_each_batch(table, "merge", "changes", **options)
        for number, batch in enumerate(feed):
            rows = spark.createDataFrame([tuple(change) for change in batch], MARKED)
            if in_stream:
                write(rows, number)
            else:
                writer.merge(rows, table, **options)
        newest: dict[int, Change] = {}
        for change in (change for batch in feed for change in batch):
            newest[change.id] = max(newest.get(change.id, change), change, key=lambda one: one.seq)
        assert listed(table) == sorted(
            ((one.id, one.seq, one.note, one.op == "D", one.dt) for one in newest.values()), key=repr
        )

    ends_so()


def test_a_feed_may_bring_a_column(
    writer: TableWriter, spark: SparkSession, orders: str, listed: Listed, limit: int
) -> None:
    feed = [("U", 1, "A", "d1", 7), ("D", 2, None, "d1", 8), ("I", 4, "n", "d3", 9)]
    updates = spark.createDataFrame(feed, f"{FEED}, weight INT")
    with pytest.raises(SchemaMismatchError, match="ADD COLUMNS"):
        writer.merge(updates, orders, on=["id"], delete="op = 'D'")
    result = writer.merge(
        updates, orders, on=["id", "dt"], delete="op = 'D'", schema="evolve", search_above_bytes=limit
    )
    assert counts(result) == (1, 1, 1)
    assert spark.table(orders).columns == ["id", "note", "weight", "dt"]
    assert listed(orders) == [(1, "A", 7, "d1"), (3, "c", None, "d2"), (4, "n", 9, "d3")]
    older = spark.createDataFrame([("U", 1, "d1"), ("I", 5, "d1")], "op STRING, id BIGINT, dt STRING")
    again = writer.merge(older, orders, on=["id", "dt"], delete="op = 'D'", schema="evolve", search_above_bytes=limit)
    assert counts(again) == (1, 1, 0)
    assert listed(orders) == [(1, "A", 7, "d1"), (3, "c", None, "d2"), (4, "n", 9, "d3"), (5, None, None, "d1")]


def test_clauses_in_sql_are_one_switch(writer: TableWriter, spark: SparkSession, orders: str, listed: Listed) -> None:
    feed = [("U", 1, "A", "d1"), ("D", 2, None, "d1"), ("I", 4, "n", "d1"), ("X", 5, "no", "d1"), ("D", 6, "", "d1")]
    spark.createDataFrame(feed, FEED).createOrReplaceTempView("feed")
    result = writer.sql(
        f"""MERGE INTO {orders} AS t USING feed AS f ON t.id = f.id
        WHEN MATCHED AND f.op = 'D' THEN DELETE
        WHEN MATCHED AND f.op = 'U' THEN UPDATE SET note = concat(t.note, f.note)
        WHEN NOT MATCHED AND f.op = 'I' THEN INSERT (id, dt) VALUES (f.id * 10, f.dt)
        WHEN NOT MATCHED BY SOURCE AND t.dt = 'd2' THEN UPDATE SET note = 'unseen'"""
    )
    assert counts(result) == (1, 2, 1)  # type: ignore[arg-type]
    assert listed(orders) == [(1, "aA", "d1"), (3, "unseen", "d2"), (40, None, "d1")]


def test_rows_that_the_source_lacks_are_bounded(
    writer: TableWriter, spark: SparkSession, orders: str, listed: Listed
) -> None:
    spark.createDataFrame([("U", 1, "A", "d1")], FEED).createOrReplaceTempView("feed")
    statement = f"""MERGE INTO {orders} AS t USING feed AS f ON t.id = f.id
        WHEN MATCHED THEN UPDATE SET note = f.note WHEN NOT MATCHED BY SOURCE THEN DELETE"""
    with pytest.raises(InvalidInputError, match=r"every partition.*where="):
        writer.sql(statement)
    assert counts(writer.sql(statement, where="dt = 'd1'")) == (0, 1, 1)  # type: ignore[arg-type]
    assert listed(orders) == [(1, "A", "d1"), (3, "c", "d2")]
    empty = statement.replace("USING feed AS f", "USING (SELECT * FROM feed WHERE false) AS f")
    assert counts(writer.sql(empty, where="dt = 'd2'")) == (0, 0, 1)  # type: ignore[arg-type]
    assert listed(orders) == [(1, "A", "d1")]


def test_names_that_both_sides_have_mean_the_side_of_their_clause(
    writer: TableWriter, spark: SparkSession, orders: str, listed: Listed
) -> None:
    """As Spark resolves them: values of an insert over the source, what is not matched by the source over the table."""
    spark.createDataFrame([("U", 1, "A", "d1"), ("I", 4, "n", "d1")], FEED).createOrReplaceTempView("feed")
    statement = f"""MERGE INTO {orders} AS t USING feed AS f ON t.id = f.id AND t.dt = f.dt
        WHEN MATCHED THEN UPDATE SET note = f.note
        WHEN NOT MATCHED AND note <> 'x' THEN INSERT (id, note, dt) VALUES (id, upper(note), dt)
        WHEN NOT MATCHED BY SOURCE AND dt = 'd2' THEN UPDATE SET note = concat(note, '?')"""
    for where in ("", "dt >= 'd1'"):  # searched, and rewritten
        writer.overwrite_table(
            spark.createDataFrame([(1, "a", "d1"), (3, "c", "d2")], "id BIGINT, note STRING, dt STRING"), orders
        )
        result = writer.sql(statement, **({"where": where} if where else {}))
        assert counts(result) == (1, 2, 0)  # type: ignore[arg-type]
        assert listed(orders) == [(1, "A", "d1"), (3, "c?", "d2"), (4, "N", "d1")]


def test_a_condition_with_a_subquery_is_refused(writer: TableWriter, spark: SparkSession, orders: str) -> None:
    spark.createDataFrame([("U", 1, "A", "d1")], FEED).createOrReplaceTempView("feed")
    with pytest.raises(InvalidInputError, match=r"condition of WHEN MATCHED: a subquery may answer otherwise"):
        writer.sql(
            f"MERGE INTO {orders} AS t USING feed AS f ON t.id = f.id"
            " WHEN MATCHED AND EXISTS (SELECT 1 FROM feed g WHERE g.id = t.id) THEN DELETE"
        )


def test_what_says_that_a_row_goes_is_held_to_no_limit(
    make_table: Callable[..., str], writer: TableWriter, spark: SparkSession, listed: Listed
) -> None:
    table = make_table(
        "CREATE TABLE {name} (id INT, v VARCHAR(3)) PARTITIONED BY (dt STRING) STORED AS PARQUET", "short"
    )
    writer.append(spark.createDataFrame([(1, "a", "d1"), (2, "b", "d1")], "id INT, v STRING, dt STRING"), table)
    feed = spark.createDataFrame(
        [("D", 1, "far too long", "d1"), ("U", 2, "c", "d1")], "op STRING, id INT, v STRING, dt STRING"
    )
    assert counts(writer.merge(feed, table, on=["id", "dt"], delete="op = 'D'")) == (0, 1, 1)
    assert listed(table) == [(2, "c", "d1")]


def test_columns_that_an_insert_leaves_out_get_their_defaults(
    make_table: Callable[..., str], writer: TableWriter, spark: SparkSession, listed: Listed
) -> None:
    table = make_table(
        "CREATE TABLE {name} (id BIGINT, state STRING DEFAULT 'open', dt STRING) USING parquet PARTITIONED BY (dt)",
        "withs",
    )
    spark.createDataFrame([(1, "d1")], "id BIGINT, dt STRING").createOrReplaceTempView("feed")
    merge = (
        f"MERGE INTO {table} t USING feed f ON t.id = f.id WHEN NOT MATCHED THEN INSERT (id, dt) VALUES (f.id, f.dt)"
    )
    assert counts(writer.sql(merge)) == (1, 0, 0)  # type: ignore[arg-type]
    assert listed(table) == [(1, "open", "d1")]


def test_a_column_that_a_feed_brings_keeps_its_limit_and_comment(
    writer: TableWriter, spark: SparkSession, orders: str
) -> None:
    updates = spark.sql("SELECT 1L AS id, 'x' AS note, CAST('gold' AS STRING) AS tier, 'd1' AS dt")
    updates = updates.withColumn("tier", F.col("tier").alias("tier", metadata={"comment": "of the customer"}))
    writer.merge(updates, orders, on=["id"], schema="evolve")
    assert spark.table(orders).schema["tier"].metadata.get("comment") == "of the customer"
