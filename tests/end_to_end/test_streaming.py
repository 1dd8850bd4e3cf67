"""Structured Streaming: every row of every batch exactly once, whatever the query is killed at."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from table_writer import InvalidInputError, Maintenance, TableWriter

from .killed_stream import QUERY, Carry, query
from .killed_writer import IN_PLACE
from .test_kills import OF_ANY_SESSION, require_killed

Rows = Callable[..., Any]
Start = Callable[..., None]
STATES = ("before the claim", "after the claim", "after the switch", "after its outcome")  # that a restart tells apart


def put_file(source: Path, number: int) -> None:
    """Add a batch: two rows, one of them in a partition that every batch has."""
    source.mkdir(exist_ok=True)
    rows = [{"id": number, "note": "all", "dt": "every"}, {"id": number, "note": "own", "dt": f"d{number}"}]
    (source / f"{number}.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def expected(count: int) -> list[tuple[Any, ...]]:
    return sorted([(n, "all", "every") for n in range(count)] + [(n, "own", f"d{n}") for n in range(count)])


def seen(spark: SparkSession, table: str) -> list[tuple[Any, ...]]:
    spark.catalog.refreshTable(table)
    return sorted(tuple(row) for row in spark.table(table).collect())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for number in range(3):
        put_file(tmp_path / "source", number)
    return tmp_path / "source"


@pytest.fixture
def run(spark: SparkSession, writer: TableWriter, orders: str, source: Path, tmp_path: Path) -> Callable[..., None]:
    """Run the query until it has read all files."""

    def until_done(carry: Carry = "copy") -> None:
        started = query(spark, writer, orders, str(source), str(tmp_path / "checkpoint"), carry)
        try:
            assert started.awaitTermination(300)
        finally:
            started.stop()

    return until_done


@pytest.mark.connect
def test_each_batch_is_one_version_and_a_replayed_one_is_recognised(
    run: Callable[[], None], spark: SparkSession, keeper: Maintenance, orders: str, source: Path, tmp_path: Path
) -> None:
    run()
    assert seen(spark, orders) == expected(3)
    keys = [one.idempotency_key for one in keeper.history(orders).versions]
    assert keys == [f"{QUERY}/{batch}" for batch in (2, 1, 0)]
    (tmp_path / "checkpoint" / "commits" / "2").unlink()  # as if the query had died before it could note the batch
    (tmp_path / "checkpoint" / "commits" / ".2.crc").unlink(missing_ok=True)
    put_file(source, 3)
    run()
    assert seen(spark, orders) == expected(4)
    assert [one.version for one in keeper.history(orders).versions] == [4, 3, 2, 1]


@pytest.mark.slow
@pytest.mark.connect
def test_a_batch_without_rows_writes_nothing(
    run: Callable[[], None], spark: SparkSession, keeper: Maintenance, orders: str, source: Path
) -> None:
    (source / "1.json").write_text("")
    run()
    assert {row[0] for row in seen(spark, orders)} == {0, 2}
    assert len(keeper.history(orders).versions) == 2


@pytest.mark.connect
def test_each_call_with_the_same_batch_id_counts_once_and_queries_do_not_meet(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows
) -> None:
    first, second = (writer.for_each_batch(orders, "append", name) for name in ("first", "second"))
    for write_batch in (first, first, second):
        write_batch(rows((1, "a", "d1")), 0)
    assert seen(spark, orders) == [(1, "a", "d1")] * 2


@pytest.mark.parametrize(
    ("mode", "name", "options"),
    [
        ("append", "", {}),
        ("appends", "q", {}),
        ("append", "q", {"idempotency_key": "k"}),
        ("append", "q", {"where": "x"}),
    ],
)
def test_a_bad_call_fails_before_the_query_starts(
    mode: str, name: str, options: Any, writer: TableWriter, orders: str
) -> None:
    with pytest.raises(InvalidInputError):
        writer.for_each_batch(orders, mode, name, **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "carry"),
    [
        *((one, "copy") for one in STATES),
        *((one, "in_place") for one in IN_PLACE if one != "between two copies"),  # each batch has one
    ],
)
def test_a_query_killed_during_its_second_batch_has_every_row_once_after_a_restart(
    moment: str,
    carry: Carry,
    run: Callable[..., None],
    spark: SparkSession,
    writer: TableWriter,
    orders: str,
    source: Path,
    tmp_path: Path,
) -> None:
    session = {name: value for name, value in spark.sparkContext.getConf().getAll() if name.startswith(OF_ANY_SESSION)}
    (tmp_path / "session.json").write_text(json.dumps(session))
    script = Path(__file__).with_name("killed_stream.py")
    words = (tmp_path / "session.json", orders, source, tmp_path / "checkpoint", moment, "1", carry)
    require_killed(tmp_path, script, *words)
    before = seen(spark, orders)  # files of one millisecond come in any order
    assert before, "the first batch was published"
    assert set(before) < set(expected(3))
    run(carry)
    assert seen(spark, orders) == expected(3)
    assert not writer._services.open_to_write(orders).log.lister.read().in_doubt
