"""Column statistics: the same contract over the double and a real metastore."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from hmsclient.genthrift.hive_metastore import ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.transport.TTransport import TMemoryBuffer

from table_writer.errors import MetastoreError
from table_writer.metastore.hive_statistics import column_description, column_descriptions
from table_writer.model.column_figures import ColumnFigures
from table_writer.model.table import Column, PartitionChange, PartitionValues, Table, TableName
from table_writer.testing.memory_metastore import MemoryMetastore
from tests.metastore.conftest import World

ACCURATE: Final = "COLUMN_STATS_ACCURATE"
TYPES: Final = {
    "tiny": ("tinyint", ColumnFigures("integer", 1, 2, -3, 4, distinct=2)),
    "wide": ("bigint", ColumnFigures("integer", 0, 2, -(2**63), 2**63 - 1, distinct=2)),
    "ratio": ("double", ColumnFigures("float", 0, 2, -1.5, 2.25, distinct=2)),
    "day": ("date", ColumnFigures("date", 0, 2, -719_162, 20_000, distinct=2)),
    "at": ("timestamp", ColumnFigures("timestamp", 0, 2, -1, 1_500_000, distinct=2)),
    "price": ("decimal(38,5)", ColumnFigures("decimal", 0, 2, "-99999999999999999999.99999", "0.00000", distinct=2)),
    "ok": ("boolean", ColumnFigures("boolean", 1, 5, true_values=2, distinct=2)),
    "name": ("varchar(20)", ColumnFigures("text", 0, 4, total_bytes=10, longest_bytes=7, distinct=3)),
    "raw": ("binary", ColumnFigures("binary", 0, 4, total_bytes=10, longest_bytes=7)),
    "nothing": ("int", ColumnFigures("integer", 9, 0, distinct=0)),
}
FIGURES: Final = {name: one for name, (_, one) in TYPES.items()}
NONE: Final = {
    "another type": ("int", ColumnFigures("text", 0, 1, total_bytes=1, longest_bytes=1, distinct=1)),
    "no bounds, for NaN": ("double", ColumnFigures("float", 0, 2, distinct=2)),
    "not counted": ("int", ColumnFigures("integer", 0, 2, 1, 2)),
    "nested": ("array<int>", ColumnFigures("integer", 0, 2, 1, 2, distinct=2)),
}
HOSTILE: Final = ("1", "UPPER Ä", "a/b c", "é=1", "x%2Fy", "__HIVE_DEFAULT_PARTITION__")


EMPTY: Final = Table(
    name=TableName("default", "t"), kind="EXTERNAL_TABLE", location="file:/t", columns=(), partition_columns=()
)


def table_of(world: World, *partition_columns: str) -> Table:
    columns = tuple(Column(name, kind) for name, (kind, _) in TYPES.items())
    return world.table(partition_columns, columns=columns, bucket_columns=())


@pytest.fixture(params=["memory", "hive"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """Glue's are its own: tests/glue."""
    if request.param == "hive":
        found: World = request.getfixturevalue("hive")
        return found
    double = MemoryMetastore()
    return World(double, f"file:{tmp_path}", double.create_table)


def test_what_hive_has_no_statistics_for_has_none() -> None:
    for kind, one in NONE.values():
        table = replace(EMPTY, columns=(Column("x", kind),))
        assert column_descriptions(table, {"x": one}) == {}


def test_bounds_of_a_timestamp_are_whole_seconds_around_it() -> None:
    table = replace(EMPTY, columns=(Column("at", "timestamp"),))
    assert column_descriptions(table, {"At": TYPES["at"][1]}) == {"at": ("longStats", -1, 2, 0, 2)}


@pytest.mark.parametrize("values", [(), *((one,) for one in HOSTILE)], ids=str)
def test_what_was_set_is_there_until_it_is_dropped(world: World, values: PartitionValues) -> None:
    store, table = world.metastore, table_of(world, *(["dt"] if values else []))
    if values:
        store.add_partitions(table, [world.partition(*values), world.partition("other")])
    assert store.differing_statistics(table, {values: {}}) == []
    store.set_statistics(table, {values: FIGURES})
    assert store.differing_statistics(table, {values: FIGURES}) == []
    assert store.differing_statistics(table, {values: {}}) == [values]
    other = {**FIGURES, "tiny": replace(FIGURES["tiny"], high=5)}
    assert store.differing_statistics(table, {values: other}) == [values]
    store.set_statistics(table, {values: other})
    assert store.differing_statistics(table, {values: other}) == []
    store.drop_statistics(table, [values])
    store.drop_statistics(table, [values])
    assert store.differing_statistics(table, {values: {}}) == []


def test_a_server_marks_them_as_accurate_and_an_alter_takes_the_mark_away_and_leaves_them(world: World) -> None:
    """What the second alter of a publish, and the removal before it, are there for."""
    store, table = world.metastore, table_of(world, "dt")
    store.add_partitions(table, [world.partition("1")])
    store.set_statistics(table, {("1",): FIGURES})
    marked = world.read(table, "1")
    assert ACCURATE in marked.parameters
    moved = PartitionChange(
        partition=marked,
        location=f"{world.root}/elsewhere/",
        set_parameters={},
        removed_parameters=frozenset({ACCURATE}),
    )
    store.alter_partitions(table, [moved])
    assert ACCURATE not in world.read(table, "1").parameters
    assert store.differing_statistics(table, {("1",): FIGURES}) == []
    assert store.differing_statistics(table, {("1",): {}}) == [("1",)]


def test_a_partition_that_is_dropped_takes_them_along(world: World) -> None:
    store, table = world.metastore, table_of(world, "dt")
    store.add_partitions(table, [world.partition("1")])
    store.set_statistics(table, {("1",): FIGURES})
    store.drop_partition(table, ("1",))
    store.drop_statistics(table, [("1",)])
    store.add_partitions(table, [world.partition("1")])
    assert store.differing_statistics(table, {("1",): {}}) == []
    with pytest.raises(MetastoreError):
        store.set_statistics(table, {("2",): FIGURES})


def test_bit_vectors_of_other_tools_are_no_text_and_stop_nobody() -> None:
    data = ttypes.ColumnStatisticsData(longStats=ttypes.LongColumnStatsData(1, 2, 0, 2, bitVectors=b"HL\xff\x80"))
    sent, read = TMemoryBuffer(), ttypes.ColumnStatisticsObj()
    ttypes.ColumnStatisticsObj("x", "int", data).write(TBinaryProtocolAccelerated(sent))
    read.read(TBinaryProtocolAccelerated(TMemoryBuffer(sent.getvalue())))
    assert column_description(read) == ("longStats", 1, 2, 0, 2)
    assert column_description(ttypes.ColumnStatisticsObj("x", "int", None)) == ("unknown",)
