"""``_SUCCESS`` of each partition: below the root, after the switch, as long as the partition is there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy

import pytest

from table_writer.config import TableWriterConfig
from table_writer.errors import ConflictError, StorageError
from table_writer.jobs.results import repeated_result
from table_writer.mirrors import follow as mirrors
from table_writer.model.entry import Erasure
from table_writer.model.write_mode import WriteMode
from table_writer.progress import Stopwatch
from table_writer.protocol.vacuum.remover import FoundLocation
from table_writer.protocol.vacuum.sweep import Vacuum
from tests.glue.world import GlueWorld
from tests.maintenance.operations import APPENDED, MIXED, OLD, OPERATIONS, Operation
from tests.publish.world import DIED, TABLE, DeathError, World, body_of, fail

pytestmark = pytest.mark.usefixtures("in_one_thread")
MARKED = TableWriterConfig(mark_success="partitions")
PREFIX = "mart/orders/"
UNCHANGED = ("restore", "unpartitioned", "vacuum", "discard", "erasure", "abort", "late call")


def marked(world: World) -> set[str]:
    """Return the partitions that have a marker, as a sensor would find them."""
    names = (info.key.removeprefix(PREFIX) for info in world.store.list(f"{PREFIX}dt="))
    return {name.removesuffix("/_SUCCESS").removeprefix("dt=") for name in names if name.endswith("/_SUCCESS")}


def marker(world: World, value: str) -> dict[str, object]:
    return dict(json.loads(body_of(world.store, f"{PREFIX}dt={value}/_SUCCESS")))


@pytest.fixture
def world() -> World:
    return World(config=MARKED)


def of_operations() -> list[Operation]:
    return [one for one in OPERATIONS if one.publishes and not any(word in one.name for word in UNCHANGED)]


@pytest.mark.parametrize("operation", of_operations(), ids=str)
def test_after_each_operation_exactly_the_partitions_that_readers_see_have_a_marker(operation: Operation) -> None:
    world = World(config=MARKED)
    operation.prepare(world)
    for value in world.partitions():
        if value not in marked(world):  # of another tool
            world.store.put(f"{PREFIX}dt={value}/_SUCCESS", b"")
    before = {value: body_of(world.store, f"{PREFIX}dt={value}/_SUCCESS") for value in marked(world)}
    operation.run(world)
    assert marked(world) == set(world.partitions())
    newest = world.services().log.slots.read(world.history().newest).entry
    for partition in newest.partitions:
        value = partition.values[0]
        if partition.new_location is not None:
            assert body_of(world.store, f"{PREFIX}dt={value}/_SUCCESS") != before.get(value)
            assert marker(world, value)["jobId"] == newest.write_id


def test_a_marker_counts_its_partition_alone_and_comes_after_the_switch(world: World) -> None:
    seen: list[object] = []
    world.at_store("put", "before", lambda: seen.append(sorted(world.partitions())), key="dt=d2/_SUCCESS")
    world.write(OLD)
    assert seen == [["d1", "d2"]]
    assert marker(world, "d1")["metrics"] == marker(world, "d2")["metrics"] | {  # type: ignore[operator]
        "rows": 2,
        "bytes": 6,
        "committer_bytes_committed": 6,
        "table_writer.rows": 2,
    }


def test_markers_cost_a_request_a_partition_and_two_looks(world: World) -> None:
    world.write(OLD)

    def calls(config: TableWriterConfig) -> Counter[tuple[str, str]]:
        with world.recording() as sent:
            world.write(OLD, config=config)
        return Counter(sent)

    more = calls(MARKED) - calls(TableWriterConfig())
    assert more == {("store", "put"): 2, ("metastore", "get_partitions"): 2}


def test_without_the_setting_no_partition_has_one() -> None:
    world = World(config=TableWriterConfig(mark_success=True))
    world.write(OLD)
    assert marked(world) == set()


@pytest.mark.parametrize("call", ["put", "delete"])
def test_a_marker_that_fails_is_a_note_and_no_failure_of_the_write(world: World, call: str) -> None:
    world.write(OLD)
    world.at_store(call, "before", lambda: fail(StorageError("no")), key="_SUCCESS")
    result = world.write(MIXED, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    assert "_SUCCESS of 3 partitions may be missing or left: no" in result.notes
    assert world.rows() == MIXED


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_marker_that_comes_late_does_not_outlive_a_partition_that_another_writer_has_dropped(
    world: World, moment: str
) -> None:
    other = {"d2": frozenset({3})}
    world.at_store(
        "put", moment, lambda: world.write(other, plan=world.plan(WriteMode.OVERWRITE_TABLE)), key="dt=d1/_SUCCESS"
    )
    world.write({"d1": frozenset({1})})
    assert world.rows() == other
    assert marked(world) == {"d2"}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_removal_that_comes_late_does_not_take_the_marker_of_a_partition_that_is_there_again(
    world: World, moment: str
) -> None:
    world.write(OLD)
    world.at_store("delete", moment, lambda: world.write({"d1": frozenset({9})}), key="dt=d1/_SUCCESS")
    world.write({"d2": frozenset({3})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    assert marked(world) == set(world.rows()) == {"d1", "d2"}


def test_the_repetition_of_a_call_sets_what_its_first_attempt_has_not_come_to(world: World) -> None:
    world.at_store("put", "before", lambda: fail(DeathError()), key="dt=d2/_SUCCESS")
    with suppress(DeathError):
        world.write(OLD)
    entry = world.services().log.slots.read(1).entry
    assert world.rows() == OLD
    assert marked(world) < set(OLD)
    opened = world.services()
    assert repeated_result(entry, Stopwatch(world.metastore), opened).repeated
    assert marked(world) == set(OLD)
    world.write({"d2": frozenset({3})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    repeated_result(entry, Stopwatch(world.metastore), opened)
    assert marked(world) == {"d2"}


def test_who_resolves_a_write_sets_its_markers(world: World) -> None:
    world.write(OLD)
    with world.inject(DIED), suppress(DeathError):
        world.write(MIXED)
    world.wait_out_claims()
    assert marked(world) == set(OLD)
    world.write({"d5": frozenset({5})})
    world.keeper.recover(str(TABLE))
    assert marked(world) == set(world.rows()) == {"d1", "d2", "d5", "d9"}


@pytest.fixture
def adopted(world: World) -> World:
    """Return a table whose partitions lie where other tools put them, each with that tool's marker."""
    for value, ids in OLD.items():
        world.written_by_another_tool(value, ids)
        world.store.put(f"{PREFIX}dt={value}/_SUCCESS", b"")
    return world


@pytest.mark.parametrize("in_place", [True, False])
def test_a_partition_right_below_the_root_is_written_rolled_back_and_vacuumed_as_without_markers(
    adopted: World, in_place: bool
) -> None:
    if in_place:
        adopted.write(APPENDED, plan=adopted.plan(WriteMode.APPEND, in_place=True))
    version, rows = adopted.history().newest, adopted.rows()
    adopted.write(MIXED)
    assert marked(adopted) == set(adopted.rows())
    adopted.keeper.rollback(str(TABLE), version=version)
    assert adopted.rows() == rows
    assert marked(adopted) == set(rows)
    adopted.write(MIXED)
    report = adopted.vacuum()
    assert report.failures == ()
    assert marked(adopted) == set(adopted.rows())
    left = {info.key for info in adopted.store.list(PREFIX) if not info.key.startswith(f"{PREFIX}_")}
    assert left >= {f"{PREFIX}dt=d1/_SUCCESS"}
    assert not [key for key in left if key.startswith(f"{PREFIX}dt=d1/") and not key.endswith("/_SUCCESS")]


@pytest.mark.parametrize("config", [MARKED, TableWriterConfig()], ids=["marked", "without"])
def test_an_old_answer_of_glue_about_such_a_partition_is_not_taken_for_another_tools_work(
    config: TableWriterConfig,
) -> None:
    world = GlueWorld(config=config)
    world.written_by_another_tool("d1", frozenset({1}))
    stored = world.metastore.server.tables[TABLE].partitions
    before = deepcopy(stored["d1",])
    world.write({"d1": frozenset({2})})
    stored["d1",] = before
    with pytest.raises(ConflictError, match="where version 1 of the log has left them"):
        world.write({"d1": frozenset({3})}, plan=world.plan(WriteMode.APPEND))


def test_an_erasure_takes_no_marker_for_a_file_that_another_tool_has_put_there_since(adopted: World) -> None:
    adopted.write(MIXED)
    counts: list[int] = []

    def choose(_: object, found: Sequence[FoundLocation]) -> tuple[tuple[FoundLocation, ...], tuple[str, ...]]:
        counts.extend(one.other_count for one in found)
        return tuple(found), ()

    nothing = Erasure(predicate_sha256="", deleted_rows=0, write_id="")
    Vacuum(adopted.services(), mirrors).erase(nothing, choose, lambda _: False)
    assert counts == [0]
    adopted.keeper.vacuum(str(TABLE))
    assert adopted.keeper.erasure(str(TABLE)).is_complete
