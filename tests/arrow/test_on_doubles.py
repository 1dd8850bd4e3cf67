"""The whole write over doubles: what would be lost in silence is refused, and leaves nothing behind."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from table_writer import ArrowWriter, InvalidInputError, SchemaMismatchError, check
from table_writer.arrow import rows as rows_of_arrow
from table_writer.model.location import Location
from table_writer.model.table import Column, Table
from table_writer.storage.object_store import visible_files
from tests.publish.world import ROOT, TABLE, World

T: Final = str(TABLE)
SERDE: Final = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"


def world_of(*partitioned_by: tuple[str, str], **columns: str) -> World:
    """Return a world whose table Hive has made."""
    world = World()
    world.metastore.drop_table(TABLE)
    table = Table(
        name=TABLE,
        kind="EXTERNAL_TABLE",
        location=ROOT,
        columns=tuple(Column(*one) for one in columns.items()),
        partition_columns=tuple(Column(*one) for one in partitioned_by),
        serde=SERDE,
        parameters={},
    )
    world.metastore.create_table(table)
    return world


def writer_of(world: World, **options: Any) -> ArrowWriter:
    return ArrowWriter(services=world.all_services(), **options)


def seen(world: World) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    found: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for values, partition in world.metastore.get_all_partitions(world.table).items():
        for info in visible_files(world.store, Location.parse(partition.location).key):
            stored = world.store.get(info.key)
            assert stored is not None
            found.setdefault(values, []).extend(pq.ParquetFile(io.BytesIO(stored.body)).read().to_pylist())
    return found


def numbered(*numbers: int) -> Any:
    return pa.table({"id": pa.array(numbers, pa.int64()), "n": pa.array(numbers, pa.int32())})


@pytest.mark.parametrize("values", [(2, 3), {2, 3}, np.array([2, 3]), map(int, "23"), iter([2, 3])], ids=repr)
def test_filters_are_read_once_whatever_they_are_made_of(values: Any) -> None:
    world = world_of(("n", "int"), id="bigint")
    writer = writer_of(world)
    writer.append(numbered(1, 2, 3), T)
    writer.overwrite_partitions(numbered(1), T, where=[("n", "not in", values)])
    assert {one[0] for one in seen(world)} == {"1", "2", "3"}
    assert world.keeper.history(T).versions[0].where == "`n` NOT IN (2, 3)"


@pytest.mark.parametrize(
    "where",
    [
        "n = 1",
        [],
        [[]],
        [None],
        [("n", "=")],
        [["n", "=", "a"]],
        [("n", "in", 5)],
        [("n", "in", "12")],
        [(1, "=", 2)],
        [("n", "is", 1)],
        [("x", "=", 1)],
        [("n", "=", "one")],
    ],
    ids=repr,
)
def test_what_are_no_filters_is_refused_in_words(where: Any) -> None:
    world = world_of(("n", "int"), id="bigint")
    with pytest.raises(InvalidInputError, match="where="):
        writer_of(world).overwrite_partitions(numbered(1), T, where=where)


def test_filters_are_spelled_as_literals_of_their_types() -> None:
    world = world_of(("n", "int"), id="bigint")
    writer = writer_of(world)
    writer.append(numbered(1), T)
    nan = float("nan")
    for value, text in ((np.int64(5), "5"), (pa.scalar(6), "6"), (2.5, "2.5D"), (nan, "double('nan')")):
        writer.overwrite_partitions(numbered(), T, where=[("n", "=", value)], if_empty="replace")
        assert world.keeper.history(T).versions[0].where == f"`n` = {text}"
    writer.overwrite_partitions(numbered(), T, where=[("n", "in", [])], if_empty="replace")
    assert world.keeper.history(T).versions[0].where == "FALSE"


def test_moments_of_early_years_name_partitions_of_their_own() -> None:
    world = world_of(("at", "timestamp"), id="bigint")
    writer = writer_of(world, time_zone="UTC")
    for number, year in enumerate((1, 500, 2024)):
        at = pa.array([datetime(year, 1, 1, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))
        writer.overwrite_partitions(pa.table({"id": [number], "at": at}), T)
    assert {one[0] for one in seen(world)} == {"0001-01-01 00:00:00", "0500-01-01 00:00:00", "2024-01-01 00:00:00"}


def test_times_of_a_partition_need_a_zone_also_where_hive_has_made_the_table() -> None:
    world = world_of(("at", "timestamp"), id="bigint")
    rows = pa.table({"id": [1], "at": pa.array([datetime(2024, 1, 1)], pa.timestamp("us"))})  # noqa: DTZ001
    with pytest.raises(SchemaMismatchError, match="time_zone='UTC'"):
        writer_of(world).append(rows, T)


def test_batches_are_those_that_their_reader_announces() -> None:
    world = world_of(("n", "int"), a="bigint", b="bigint")
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("n", pa.int32())])
    swapped = pa.record_batch({"b": [2], "a": [1], "n": pa.array([1], pa.int32())})
    with pytest.raises(SchemaMismatchError, match="other columns than its reader says"):
        writer_of(world).append(pa.RecordBatchReader.from_batches(schema, iter([swapped])), T)
    assert (seen(world), world.leftovers()) == ({}, [])


def test_a_reader_is_gone_through_once() -> None:
    world = world_of(("n", "int"), id="bigint")
    writer = writer_of(world)
    writer.append(numbered(1), T)
    reader = numbered(2).to_reader()
    assert writer.plan(reader, T, "overwrite_table", if_empty="replace").rows == 1
    with pytest.raises(InvalidInputError, match="gone through already"):
        writer.overwrite_table(reader, T, if_empty="replace")
    assert [one["id"] for (one,) in seen(world).values()] == [1]


def test_rows_are_cut_by_what_they_become(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(("n", "int"), id="bigint", note="string")
    monkeypatch.setattr(rows_of_arrow, "BYTES_AT_ONCE", 10_000)
    notes = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int8()), ["x" * 200])
    rows = pa.table({"id": range(1000), "note": notes, "n": pa.array([1] * 1000, pa.int32())})
    pieces = [piece.num_rows for batch in rows.to_batches() for piece in rows_of_arrow._pieces(batch)]
    assert sum(pieces) == 1000
    assert max(pieces) < 60
    assert writer_of(world).append(rows, T).rows == 1000


def test_listeners_are_told_of_what_is_staged() -> None:
    world, told = world_of(("n", "int"), id="bigint"), []
    world.config = type(world.config)(listeners=[told.append])
    writer_of(world).stage(numbered(1), T)
    assert [(one.operation, one.outcome) for one in told] == [("stage", "staged")]


def test_a_plan_tells_what_a_write_would_refuse() -> None:
    world = world_of(("d", "date"), id="bigint")
    far = pa.table({"id": [1], "d": pa.array([3_000_000], pa.date32())})
    assert "outside the years 1 to 9999" in writer_of(world).plan(far, T).problems[0]
    with pytest.raises(InvalidInputError, match="nope"):
        writer_of(world).plan(far, T, checks=[check.not_null("nope")])


def test_a_function_of_ones_own_is_refused_before_a_row_is_read() -> None:
    world = world_of(("n", "int"), id="bigint")
    reader = numbered(1).to_reader()
    with pytest.raises(InvalidInputError, match="takes Spark"):
        writer_of(world).append(reader, T, checks=[lambda frame: True])
    assert reader.read_all().num_rows == 1


def test_fields_that_may_not_be_null_take_spark() -> None:
    world = world_of(("n", "int"), id="bigint", s="struct<a:int>")
    described = (
        '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"s","type":'
        '{"type":"struct","fields":[{"name":"a","type":"integer","nullable":false,"metadata":{}}]},"nullable":true,'
        '"metadata":{}},{"name":"n","type":"integer","nullable":true,"metadata":{}}]}'
    )
    table = world.table
    parameters = {**table.parameters, "spark.sql.sources.schema": described}
    world.metastore._tables[TABLE] = replace(table, parameters=parameters)
    rows = numbered(1).append_column("s", pa.array([{"a": None}], pa.struct([("a", pa.int32())])))
    with pytest.raises(InvalidInputError, match="NOT NULL"):
        writer_of(world).append(rows, T)
