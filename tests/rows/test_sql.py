"""A statement of SQL does exactly what it says, by the call that it stands for; or it is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from table_writer import InvalidInputError, TableWriter

Rows = Callable[..., Any]
Listed = Callable[[str], list[tuple[Any, ...]]]

FIRST = ((1, "a", "d1"), (2, None, "d1"), (3, "c", "d2"))


@pytest.fixture(scope="module")
def source(spark: SparkSession) -> None:
    """A feed of three rows: one of them is in the table; its key has two names."""
    columns = "id BIGINT, key BIGINT, note STRING, dt STRING, extra INT"
    rows = [(3, 3, "C", "d2", 1), (4, 4, "D", "d2", 2), (5, 5, None, "d3", 3)]
    spark.createDataFrame(rows, columns).createOrReplaceTempView("feed")


@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ("DELETE FROM {t} WHERE id = 1 OR note = 'c'", [2]),
        ("/* all */ delete from {t} AS a where a.id in (SELECT id FROM feed) -- of the feed", [1, 2]),
        ("DELETE FROM {t} AS a WHERE EXISTS (SELECT 1 FROM feed WHERE feed.id = a.id)", [1, 2]),
        ("DELETE FROM {t} WHERE {t}.id < 3 AND spark_catalog.{t}.dt = 'd1' AND orders.note IS NULL;", [1, 3]),
        ("DELETE FROM spark_catalog.{t} WHERE note IS NULL", [1, 3]),
        ("DELETE FROM {t}", []),
    ],
)
def test_delete_takes_the_rows_that_its_condition_is_true_of(
    statement: str, left: list[int], writer: TableWriter, orders: str, rows: Rows, listed: Listed, source: None
) -> None:
    writer.overwrite_partitions(rows(*FIRST), orders)
    assert writer.sql(statement.format(t=orders)).deleted == 3 - len(left)
    assert [row[0] for row in listed(orders)] == left


@pytest.mark.parametrize(
    ("statement", "updated", "after"),
    [
        (
            "UPDATE {t} AS a SET a.note = upper(a.note) || a.id, dt = 'd9' WHERE a.id <> 2",
            2,
            [(1, "A1", "d9"), (2, None, "d1"), (3, "C3", "d9")],
        ),
        ("UPDATE {t} SET {t}.id = 2.0 * id", 3, [(2, "a", "d1"), (4, None, "d1"), (6, "c", "d2")]),
        ("UPDATE {t} SET note = (SELECT max(id) FROM feed) WHERE id = 1", 1, [(1, "5", "d1"), *FIRST[1:]]),
    ],
)
def test_update_sets_what_it_says_as_spark_would_store_it(
    statement: str,
    updated: int,
    after: list[tuple[Any, ...]],
    writer: TableWriter,
    orders: str,
    rows: Rows,
    listed: Listed,
    source: None,
) -> None:
    writer.overwrite_partitions(rows(*FIRST), orders)
    assert writer.sql(statement.format(t=orders)).updated == updated
    assert listed(orders) == sorted(after, key=repr)


UPSERTED = [(1, "a", "d1"), (2, None, "d1"), (3, "C", "d2"), (4, "D", "d2"), (5, None, "d3")]


@pytest.mark.parametrize(
    ("statement", "counts", "after"),
    [
        (
            "USING feed ON feed.id = orders.id AND {t}.dt <=> feed.dt"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
            (2, 1, 0),
            UPSERTED,
        ),
        (
            "AS a USING (SELECT key AS k, note AS n, dt FROM feed) AS b ON a.id = b.k"
            " WHEN MATCHED THEN UPDATE SET a.note = n, dt = b.dt"
            " WHEN NOT MATCHED BY TARGET THEN INSERT (dt, a.id, note) VALUES (b.dt, b.k, n)",
            (2, 1, 0),
            UPSERTED,
        ),
        (
            "AS a USING (WITH c AS (SELECT * FROM feed WHERE id <> 4) SELECT * FROM c) b ON a.id = key"
            " WHEN MATCHED THEN UPDATE SET note = concat(a.note, b.note, extra + 0.5)",
            (0, 1, 0),
            [*FIRST[:2], (3, "cC1.5", "d2")],
        ),
        ("a USING feed AS s ON s.id = a.id WHEN MATCHED THEN DELETE", (0, 0, 1), FIRST[:2]),
        (
            "a USING {t} AS s ON s.id = a.id AND s.dt = a.dt WHEN MATCHED THEN UPDATE SET a.note = 'x' || s.id",
            (0, 3, 0),
            [(1, "x1", "d1"), (2, "x2", "d1"), (3, "x3", "d2")],
        ),
        (
            "a USING (VALUES (7.0, 1.5, 'd1')) AS s(n, note, dt) ON a.id = CAST(n AS BIGINT)"
            " WHEN NOT MATCHED THEN INSERT (id, note, dt) VALUES (n, note, dt)",
            "ON .* expected a column of the table and one of the source",
            FIRST,
        ),
        (
            "a USING (VALUES (7, 1.5, 'd1')) AS s(id, note, dt) ON a.id = s.id WHEN NOT MATCHED THEN INSERT *",
            (1, 0, 0),
            [*FIRST, (7, "1.5", "d1")],
        ),
    ],
)
def test_merge_does_what_its_clauses_say(
    statement: str,
    counts: Any,
    after: Any,
    writer: TableWriter,
    orders: str,
    rows: Rows,
    listed: Listed,
    source: None,
) -> None:
    writer.overwrite_partitions(rows(*FIRST), orders)
    if isinstance(counts, str):
        with pytest.raises(InvalidInputError, match=counts):
            writer.sql(f"MERGE INTO {orders} {statement}".format(t=orders))
    else:
        result = writer.sql(f"MERGE INTO {orders} {statement}".format(t=orders), tags={"by": "sql"})
        assert (result.inserted, result.updated, result.deleted) == counts
    assert listed(orders) == sorted(after, key=repr)
