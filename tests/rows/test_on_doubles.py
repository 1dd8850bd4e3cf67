"""What a change of rows takes for granted, without Spark: its snapshot, the files that stay, whom it conflicts with."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from table_writer import RowOptions, RowsResult
from table_writer.errors import ConflictError, InvalidInputError
from table_writer.jobs.rows import snapshot as snapshots
from table_writer.jobs.rows.kept import KeptFiles
from table_writer.jobs.rows.snapshot import Snapshot
from table_writer.jobs.rows.turns import Turn
from table_writer.jobs.running_write import RunningWrite
from table_writer.model.location import Location
from table_writer.model.table_read import ReadVersion
from table_writer.model.write import Scope, WritePlan, WrittenFiles, every_partition, no_partition
from table_writer.model.write_mode import WriteMode
from table_writer.storage.footers import read_footer
from table_writer.storage.object_store import ObjectInfo
from table_writer.testing.memory_store import MemoryStore
from tests.publish.conftest import world
from tests.publish.world import Rows, World, publisher_of

__all__ = ["world"]

NO_SPARK = object.__new__(SparkSession)


def snapshot_of(world: World) -> Snapshot:
    return Snapshot(NO_SPARK, world.services())


def based_on_newest(world: World, *, scope: Scope = no_partition, watched: Scope = no_partition) -> WritePlan:
    plan = world.plan(scope=scope)
    return replace(plan, based_on=ReadVersion(plan.base_version), watched=watched)


def test_a_snapshot_has_the_files_of_its_version(world: World) -> None:
    world.write({"d1": frozenset({1}), "d2": frozenset({2})})
    snapshot = snapshot_of(world)
    assert (snapshot.version, snapshot.selected) == (1, {("d1",), ("d2",)})
    world.write({"d1": frozenset({5})})
    (name,) = snapshot.files_of([("d1",), ("d9",)])[("d1",)]
    assert "part-00000" in name
    (read,) = snapshot.as_read([("d1",)]).files.values()
    assert set(read) == {name}
    stored = world.store.get(snapshot.open([("d1",)])[("d1",)].files[name].key)
    assert stored is not None
    assert json.loads(stored.body) == [1]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("part-other.json", "does not hold the files of version 1: another tool has added or deleted some"),
        ("HIVE_UNION_SUBDIR_1/part-0.json", "has files in directories of its own"),
    ],
)
def test_what_was_put_among_the_files_of_a_version_is_refused(name: str, words: str, world: World) -> None:
    world.write({"d1": frozenset({1}), "d2": frozenset({2})})
    location = Location.parse(world.partitions()["d1"].location)
    world.store.put(f"{location.key}{name}", b"[7]")
    snapshot = snapshot_of(world)
    with pytest.raises(InvalidInputError, match=words) as refused:
        snapshot.open(snapshot.selected)
    assert "dt=d1" in refused.value.message
    assert set(snapshot.open([("d2",)])) == {("d2",)}


def test_an_append_in_place_that_comes_before_the_files_are_listed_is_a_conflict(world: World) -> None:
    world.write({"d1": frozenset({1})})
    snapshot = snapshot_of(world)
    world.write({"d1": frozenset({2})}, plan=world.plan(WriteMode.APPEND, in_place=True))
    with pytest.raises(ConflictError, match="does not hold the files of version 1"):
        snapshot.open(snapshot.selected)
    (names,) = snapshot_of(world).files_of(snapshot.selected).values()
    assert len(names) == 2


def test_files_of_other_tools_are_what_is_there_when_it_is_opened(world: World) -> None:
    world.written_by_another_tool("d1", frozenset({1}))
    snapshot = snapshot_of(world)
    assert [*snapshot.files_of(snapshot.selected)[("d1",)]] == ["part-0.json"]
    assert snapshot.version == 0


def test_partitions_and_log_are_of_one_moment(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is published between both reads would be of the version, and its partition not be known."""
    world.write({"d1": frozenset({1})})
    pauses = [lambda: world.write({"d2": frozenset({2})})]
    read_all = world.metastore.get_all_partitions

    def paused(table: Any) -> Any:
        found = read_all(table)
        if pauses:
            pauses.pop()()
        return found

    monkeypatch.setattr(world.metastore, "get_all_partitions", paused)
    snapshot = snapshot_of(world)
    assert (snapshot.version, snapshot.selected) == (2, {("d1",), ("d2",)})
    pauses += [lambda: world.write({"d3": frozenset({3})})] * snapshots.MOST_LOOKS
    with pytest.raises(ConflictError, match="each of the 10 times"):
        snapshot_of(world)


def test_a_publish_of_what_a_write_has_only_read_is_a_conflict_too(world: World) -> None:
    world.write({"d1": frozenset({1})})
    watching, careless = based_on_newest(world, watched=every_partition), based_on_newest(world)
    other = world.write({"d2": frozenset({2})})
    with pytest.raises(ConflictError, match=other.entry.write_id):
        world.write({"d3": frozenset({3})}, plan=watching)
    world.write({"d3": frozenset({3})}, plan=careless)
    assert world.rows() == {"d1": frozenset({1}), "d2": frozenset({2}), "d3": frozenset({3})}


def test_a_staged_change_is_refused_once_what_it_has_only_read_is_published(world: World) -> None:
    world.write({"d1": frozenset({1})})
    world.stage({"d3": frozenset({3})}, plan=based_on_newest(world, watched=every_partition))
    other = world.write({"d2": frozenset({2})})
    with pytest.raises(ConflictError, match=other.entry.write_id):
        world.publish_staged()
    assert world.rows() == {"d1": frozenset({1}), "d2": frozenset({2})}


def test_what_is_watched_is_not_dropped_and_a_compaction_is_no_conflict(world: World) -> None:
    world.write({"d1": frozenset({1})})
    world.write({"d1": frozenset({2})}, plan=world.plan(WriteMode.APPEND))
    plan = based_on_newest(world, scope=frozenset([("d2",)]).intersection, watched=every_partition)
    world.compact("d1")
    world.write({"d3": frozenset({3})}, plan=plan)
    assert world.rows() == {"d1": frozenset({1, 2}), "d3": frozenset({3})}


def publish_beside(
    world: World, snapshot: Snapshot, plan: WritePlan, rows: Rows, before_publish: Callable[[], object] = int
) -> None:
    """Publish new rows beside all files of the snapshot."""
    services, files = world.services(), snapshot.files_of(snapshot.selected)
    kept = KeptFiles(files=files, rows={values: len(names) for values, names in files.items()})
    services.log.expect(plan.log_id)
    with RunningWrite(services, plan) as write:
        messages = (world._upload(plan, rows),)
        write.complete(messages)
        new = WrittenFiles.from_messages(replace(plan, reads=(snapshot.as_read(files),)), messages)
        for key, file in kept.copies(new).items():
            world.store.copy(file, key)
        before_publish()
        publisher_of(services).publish(kept.beside(new), write.claiming)


def test_files_that_stay_come_beside_the_new_ones(world: World) -> None:
    world.write({"d1": frozenset({1}), "d2": frozenset({2})})
    snapshot, plan = snapshot_of(world), based_on_newest(world)
    publish_beside(world, snapshot, plan, {"d1": frozenset({10, 11}), "d3": frozenset({3})})
    assert world.rows() == {"d1": frozenset({1, 10, 11}), "d2": frozenset({2}), "d3": frozenset({3})}
    entry = world.services().log.slots.read(2).entry
    figures = {one.values[0]: (one.rows, one.files, one.raw_bytes) for one in entry.partitions}
    assert figures == {"d1": (3, 2, None), "d2": (1, 1, None), "d3": (1, 1, 0)}


def test_files_that_come_while_it_copies_are_a_conflict(world: World) -> None:
    world.written_by_another_tool("d1", frozenset({1}))
    snapshot, plan = snapshot_of(world), based_on_newest(world)

    def another_file() -> None:
        world.store.put("mart/orders/dt=d1/part-1.json", b"[2]")

    with pytest.raises(ConflictError, match="dt=d1"):
        publish_beside(world, snapshot, plan, {"d1": frozenset({10})}, another_file)
    assert world.rows() == {"d1": frozenset({1, 2})}


@pytest.mark.parametrize("columns", [1, 3000])  # of which a footer is longer than what is read at first
def test_a_footer_of_parquet_tells_the_number_of_rows(columns: int) -> None:
    store, body = MemoryStore(), io.BytesIO()
    pq.write_table(pa.table({f"column {number}": [1, 2, 3] for number in range(columns)}), body)
    store.put("rows", body.getvalue())
    footer = read_footer(store, listed(store, "rows"))
    assert footer is not None
    assert (footer.row_count, len(footer.schema), footer.is_ours) == (3, columns, False)


@pytest.mark.parametrize("body", [b"", b"ORC", b"PAR1", b"no footer \x06\x00\x00\x00PAR1", b"\xff" * 9 + b"PAR1"])
def test_what_has_no_footer_that_can_be_read_is_counted_by_spark(body: bytes) -> None:
    store = MemoryStore()
    store.put("rows", body)
    assert read_footer(store, listed(store, "rows")) is None


def listed(store: MemoryStore, key: str) -> ObjectInfo:
    info = store.head(key)
    assert info is not None
    return info


@pytest.mark.parametrize("retries", [-1, 1001])
def test_retries_are_a_small_number(retries: int) -> None:
    assert RowOptions(retries=1000).retries == 1000
    with pytest.raises(InvalidInputError, match="expected 0 to 1,000"):
        RowOptions(retries=retries)


def test_a_result_says_in_one_line_what_became_of_rows() -> None:
    given: dict[str, Any] = {"table": "mart.orders", "mode": "merge", "write_id": "w"}
    result = RowsResult(**given, version=8, inserted=2, updated=1, deleted=0, replaced_files=1, replaced_bytes=9)
    assert result.to_text().startswith(
        "mart.orders version 8 inserted 2, updated 1, deleted 0 rows: 0 files instead of 1"
    )
    assert result.to_dict()["inserted"] == 2
    assert "nothing changed (merge)" in RowsResult(**given, version=None).to_text()
    assert "published before as version 8" in RowsResult(**given, version=8, repeated=True, inserted=None).to_text()


def test_who_has_lost_an_attempt_goes_first(world: World) -> None:
    services, looks = world.services(), list[float]()
    loser, other = Turn(), Turn()
    assert not loser.begin(services)
    loser.lost()

    def look(seconds: float) -> None:
        looks.append(seconds)
        assert not loser.begin(services)
        if len(looks) == 3:
            loser.end()

    assert other.begin(replace(services, sleep=look))
    assert len(looks) == 3
    assert not list(world.store.list(services.layout.turns.key))


def test_nobody_waits_for_who_is_gone(world: World) -> None:
    services = world.services()
    gone = Turn()
    gone.begin(services)
    gone.lost()
    world.store.put(f"{services.layout.turns.key}0.json", b"damaged")
    world.wait_out_claims()
    assert not Turn().begin(services)
    assert not list(world.store.list(services.layout.turns.key))


def test_a_partition_whose_readers_were_pointed_elsewhere_is_not_changed(world: World) -> None:
    """Whoever looked where the log has it would find no row, and readers see some."""
    world.write({"d1": frozenset({1}), "d2": frozenset({2})})
    other = world.metastore._partitions[world.name]
    elsewhere = world.partitions()["d2"].location
    other[("d1",)] = replace(other[("d1",)], location=elsewhere)
    snapshot = snapshot_of(world)
    with pytest.raises(InvalidInputError, match="where another tool or a late call has put it after version 1"):
        snapshot.open([("d1",)])
    assert set(snapshot.open([("d2",)])) == {("d2",)}
