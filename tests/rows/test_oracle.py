"""Merges, deletions and updates of generated rows do to a table what they do to a list in Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from table_writer import TableWriter
from table_writer.jobs.rows.merge import Matched, Missing


class Row(NamedTuple):
    id: int | None
    n: int | None
    p: Any


PARTITIONS: Final[Mapping[str, Sequence[Any]]] = {  # by type, values of few partitions
    "STRING": ["a", "b/=%", "ü", None],
    "DATE": [date(2024, 2, 29), date(1969, 7, 20), None],
    "INT": [0, -7, None],
    "BIGINT": [2**62, 1, None],
    "SMALLINT": [1, 2, None],
    "TINYINT": [-128, 127, None],
    "BOOLEAN": [True, False, None],
    "DECIMAL(9,2)": [Decimal("1.50"), Decimal("-3.00"), None],
    "DOUBLE": [0.5, -1e300, None],
    "FLOAT": [0.5, -2.0, None],
    "TIMESTAMP": [datetime(2024, 1, 1, 12, 30, tzinfo=UTC).replace(tzinfo=None), datetime(2024, 1, 2), None],  # noqa: DTZ001
    "TIMESTAMP_NTZ": [datetime(2024, 1, 1, 12, 30), None],  # noqa: DTZ001
    "BINARY": [b"a", b"b/=", None],
    "CHAR(3)": ["a  ", "abc", None],
    "VARCHAR(3)": ["a", "abc", None],
}
IDS: Final = st.one_of(st.none(), st.integers(0, 5))
NUMBERS: Final = st.one_of(st.none(), st.integers(-9, 9))


def rows_of(kind: str) -> st.SearchStrategy[list[Row]]:
    return st.lists(st.builds(Row, IDS, NUMBERS, st.sampled_from(PARTITIONS[kind])), min_size=1, max_size=12)


def merged(
    rows: Sequence[Row], updates: Sequence[Row], key: Callable[[Row], Any], matched: str, missing: str
) -> tuple[list[Row], tuple[int, int, int]]:
    """Do to a list what a merge does to a table; returns it with the numbers of rows inserted, updated and deleted."""
    by_key = {key(row): row for row in updates}
    hit = [key(row) in by_key and None not in key(row) for row in rows]
    inserted = [row for row in updates if missing == "insert" and key(row) not in set(map(key, rows))]
    if matched == "delete":
        kept = [row for row, is_hit in zip(rows, hit, strict=True) if not is_hit]
    elif matched == "update":
        kept = [by_key[key(row)] if is_hit else row for row, is_hit in zip(rows, hit, strict=True)]
    else:
        kept = list(rows)
    counts = (len(inserted), sum(hit) * (matched == "update"), sum(hit) * (matched == "delete"))
    return kept + inserted, counts


@pytest.mark.slow
@pytest.mark.parametrize("kind", PARTITIONS)
def test_a_table_is_changed_as_a_list_is(
    kind: str, writer: TableWriter, spark: SparkSession, make_table: Callable[..., str]
) -> None:
    schema = f"id BIGINT, n INT, p {kind}"
    number = iter(range(1_000))

    def frame(rows: Sequence[Row]) -> Any:
        return spark.createDataFrame(
            [tuple(row) for row in rows], schema.replace(kind, "STRING") if "CHAR" in kind else schema
        )

    def content(table: str) -> Counter[Row]:
        spark.catalog.refreshTable(table)
        found = spark.table(table).collect()
        return Counter(Row(row.id, row.n, bytes(row.p) if kind == "BINARY" and row.p else row.p) for row in found)

    @settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        first=rows_of(kind),
        second=rows_of(kind),
        updates=rows_of(kind),
        on=st.sampled_from([["id"], ["id", "p"], ["p", "id", "n"]]),
        choice=st.sampled_from(
            [("update", "insert"), ("update", "ignore"), ("delete", "insert"), ("ignore", "insert")]
        ),
        threshold=st.integers(-9, 9),
        limit=st.sampled_from([0, 1 << 20]),
    )
    def is_the_same(
        first: list[Row],
        second: list[Row],
        updates: list[Row],
        on: list[str],
        choice: tuple[Matched, Missing],
        threshold: int,
        limit: int,
    ) -> None:
        def key(row: Row) -> Any:
            return tuple(getattr(row, name) for name in on)

        table = make_table(
            f"CREATE TABLE {{name}} (id BIGINT, n INT, p {kind}) USING parquet PARTITIONED BY (p)", f"t{next(number)}"
        )
        writer.append(frame(first), table)
        writer.append(frame(second), table)
        usable = list({key(row): row for row in updates if None not in key(row)}.values())
        matched, missing = choice
        rows, counts = merged([*first, *second], usable, key, matched, missing)
        result = writer.merge(frame(usable), table, on=on, matched=matched, missing=missing, search_above_bytes=limit)
        assert (result.inserted, result.updated, result.deleted) == counts
        assert content(table) == Counter(rows)

        gone = [row for row in rows if row.n is not None and row.n > threshold]
        assert writer.delete_where(table, f"n > {threshold}").deleted == len(gone)
        rows = [row for row in rows if row not in gone]
        assert content(table) == Counter(rows)

        target = updates[0].p
        hit = [row for row in rows if row.id == 1]
        moved = {"n": "n + 1", "p": spark_literal(target, kind)}
        assert writer.update_where(table, moved, where="id = 1").updated == len(hit)
        rows = [row._replace(n=None if row.n is None else row.n + 1, p=target) if row.id == 1 else row for row in rows]
        assert content(table) == Counter(rows)

        keys = {row.id for row in rows if row.id is not None}
        unkeyed = [row for row in rows if row.id is None]
        assert writer.deduplicate(table, on=["id"], keep=["n DESC"]).deleted == len(rows) - len(unkeyed) - len(keys)
        left = content(table)
        assert left - Counter(rows) == Counter()
        best = {one: max((row.n for row in rows if row.id == one and row.n is not None), default=None) for one in keys}
        assert {row.id: row.n for row in left if row.id is not None} == best
        assert left.total() == len(unkeyed) + len(keys)

    is_the_same()


def spark_literal(value: Any, kind: str) -> str:
    """Return a value in SQL, in the type of the partition column."""
    kind = "STRING" if "CHAR" in kind else kind
    text = value.decode() if isinstance(value, bytes) else str(value)
    return f"CAST({'NULL' if value is None else repr(text)} AS {kind})"
