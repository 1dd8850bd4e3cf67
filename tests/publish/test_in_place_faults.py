"""Appends in place that do not come to their end: half of their files, requests after the claim, uploads that stay."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import pytest

from table_writer.errors import OutcomeUnknownError, StorageError
from table_writer.model.entry import Key, Outcome
from table_writer.model.location import Location
from table_writer.model.write import WritePlan
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.deadline import Deadline
from table_writer.protocol.table import open_table
from table_writer.testing.late import Late
from table_writer.testing.memory_store import MIN_PART_BYTES
from tests.publish.test_in_place import ONE, THREE, TWO, append
from tests.publish.world import DeathError, Fault, World, body_of, fail, without_answer, written


@dataclass
class TwoFiles(World):
    """Each row comes in a file of its own."""

    def _files(self, _: WritePlan, ids: frozenset[int]) -> Iterable[tuple[int, frozenset[int]]]:
        return [(row, frozenset({row})) for row in sorted(ids)]


@pytest.mark.parametrize("rows", [{"d1": frozenset({2, 3})}, {"d1": frozenset({2}), "d2": frozenset({3})}], ids=str)
@pytest.mark.parametrize("mended", ["sources", "targets"])
def test_half_of_one_whose_other_files_are_lost_has_no_outcome(rows: dict[str, frozenset[int]], mended: str) -> None:
    world = TwoFiles()
    old = {"d1": frozenset({1}), "d2": frozenset({9})}
    world.write(old)
    plan = world.plan(WriteMode.APPEND, in_place=True, key="batch")
    world.fails(Fault("store", "copy", 2, "before", DeathError), lambda: world.write(rows, plan=plan))
    world.wait_out_claims()
    (entry,) = (one.entry for one in world.history().records if one.entry.write_id == plan.write_id)
    sources = {target: source for one in entry.partitions for target, source in one.sources().items()}
    (visible,) = (target for target in sources if world.store.head(target))
    (lost,) = (source for target, source in sources.items() if target != visible)
    body = body_of(world.store, lost)
    world.store.delete([lost])
    for call in (lambda: world.keeper.recover("mart.orders"), lambda: append(world, THREE)):
        with pytest.raises(StorageError, match="half there") as failure:
            call()
        assert visible in str(failure.value)
        assert lost in str(failure.value)
        assert world.history().records.in_doubt[0].entry.version == entry.version
    if mended == "sources":
        world.store.put(lost, body)
    else:
        world.store.delete([visible])
    world.keeper.recover("mart.orders")
    all_rows = {value: ids | rows.get(value, frozenset()) for value, ids in old.items()}
    assert world.rows() == (all_rows if mended == "sources" else old)
    repeated = world.services().log.find_key(Key("batch")) is not None
    assert repeated == (mended == "sources")


def test_half_of_one_beside_a_partition_that_is_given_up_has_no_outcome() -> None:
    """The append adds to d1 and makes d2, which another tool drops, and whose file is lost."""
    world = TwoFiles()
    world.write({"d1": frozenset({1})})
    plan = world.plan(WriteMode.APPEND, in_place=True)
    with world.inject(Fault("store", "copy", 1, "after", DeathError)), pytest.raises(DeathError):
        world.write({"d1": frozenset({2, 3}), "d2": frozenset({4})}, plan=plan)
    place = Location.parse(world.partitions()["d2"].location).key
    (lost,) = (world.store.get(file.key) for file in list(world.store.list(place)))
    (key,) = (file.key for file in world.store.list(place))
    assert lost is not None
    world.store.delete([key])
    world.dropped_by_another_tool("d2")
    world.wait_out_claims()
    with pytest.raises(StorageError, match=r"half there.*cannot be finished.*Put back what is missing or has changed"):
        world.keeper.recover("mart.orders")
    world.store.put(key, lost.body)
    world.keeper.recover("mart.orders")
    assert world.rows() == {"d1": frozenset({1, 2, 3}), "d2": frozenset({4})}


def test_one_whose_files_are_lost_before_any_was_seen_is_abandoned() -> None:
    world = written(ONE)
    world.fails(Fault("store", "copy", 1, "before", DeathError), lambda: append(world, TWO))
    world.wait_out_claims()
    (partition,) = world.history().records[-1].entry.partitions
    world.store.delete(list(partition.sources().values()))
    world.keeper.recover("mart.orders")
    assert world.history().records[1].outcome is Outcome.ABANDONED
    assert world.rows() == ONE


LONG = "x" * MIN_PART_BYTES
DIRECTORY = "mart/orders/dt=d2/"


@dataclass
class LargeFiles(World):
    """Every file is copied in parts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.store.max_single_copy_bytes = 1


def in_another_tools_directory() -> LargeFiles:
    world = LargeFiles()
    world.write(ONE)
    world.written_by_another_tool("d2", frozenset({5}))
    return world


@pytest.mark.parametrize("call", ["create_upload", "upload_part", "complete_upload"])
def test_no_request_of_a_copy_in_parts_leaves_after_the_claim(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world, now = in_another_tools_directory(), [0.0]
    plan = world.plan(WriteMode.APPEND, in_place=True)
    monkeypatch.setattr(open_table, "Deadline", partial(Deadline, clock=lambda: now[0]))
    sent: list[str] = []

    def hook(name: str, phase: str, key: str) -> None:
        if key.startswith(DIRECTORY) and phase == "before":
            sent.append(name)
            now[0] += 10_000 * (name == call)

    world.store.on_call = hook
    if call == "complete_upload":  # the last one of all, and sent in time
        world.write({"d2": frozenset({6})}, plan=plan)
    else:
        with pytest.raises(OutcomeUnknownError, match="not enough to add 1 file"):
            world.write({"d2": frozenset({6})}, plan=plan)
    world.store.on_call = None
    requests = ["create_upload", "upload_part", "upload_part", "complete_upload"]
    assert [name for name in sent if name in requests] == requests[: requests.index(call) + 1]
    assert list(world.store.list_uploads(DIRECTORY)) == [], "what was begun is given up"
    world.recover_later()
    assert world.rows() == {**ONE, "d2": frozenset({5, 6})}


@pytest.mark.parametrize("call", ["upload_part", "complete_upload"])
def test_a_vacuum_aborts_what_a_dead_copy_in_parts_has_left_in_another_tools_directory(call: str) -> None:
    world = in_another_tools_directory()
    others = world.store.create_upload(f"{DIRECTORY}part-1-of-another-tool.parquet")
    world.fails(Fault("store", call, 2, "before", DeathError), lambda: append(world, {"d2": frozenset({6})}))
    (left,) = (one for one in world.store.list_uploads(DIRECTORY) if one.upload_id != others)
    details = {one.upload_id: one.owner for one in world.keeper.uploads("mart.orders").uploads}
    assert details == {left.upload_id: "in doubt", others: "another tool"}
    world.vacuum()
    assert len(list(world.store.list_uploads(DIRECTORY))) == 2, "it is in doubt: a recovery may be at it"
    world.recover_later()
    assert world.keeper.vacuum("mart.orders").aborted == (), "somebody may bring a file of that name back"
    world.skipped_seconds += timedelta(days=31).total_seconds()
    report = world.keeper.vacuum("mart.orders")
    assert [one.upload_id for one in report.aborted] == [left.upload_id]
    assert [one.upload_id for one in world.store.list_uploads(DIRECTORY)] == [others]
    assert world.rows() == {**ONE, "d2": frozenset({5, 6})}


@pytest.mark.parametrize("conditional", [True, False])
def test_a_late_delete_of_a_vacuum_takes_no_new_file_where_the_store_deletes_conditionally(conditional: bool) -> None:
    world = World()
    world.store.deletes_conditionally = conditional
    old = world.written_by_another_tool("d2", frozenset({5}))
    world.write({"d2": frozenset({6})})
    key = f"{DIRECTORY}part-0.json"
    world.at_store("delete", "before", lambda: fail(Late(StorageError("no answer"))), key)
    assert world.vacuum().failures != ()
    world.store.put(key, b"[7]")
    world.pointed_by_another_tool("d2", old.location)
    (delete,) = world.store.pending
    if conditional:
        with pytest.raises(StorageError, match="another object than the one that was listed"):
            delete()
        assert world.rows() == {"d2": frozenset({7})}
    else:
        delete()
        assert world.rows() == {}, "docs/explanation/limits.md says so"


def test_a_file_that_has_taken_the_name_of_a_replaced_one_is_kept_and_the_next_vacuum_is_done(world: World) -> None:
    world.written_by_another_tool("d2", frozenset({5}))
    world.write({"d2": frozenset({6})})
    key = f"{DIRECTORY}part-0.json"
    world.at_store("delete", "before", lambda: world.store.put(key, b"[7]"), key)
    (failure,) = world.vacuum().failures
    assert "It stays" in failure
    assert world.vacuum().failures == ()
    assert world.store.head(key) is not None


def with_a_late_alter() -> tuple[World, Callable[[], object]]:
    """An append in place whose alter is not answered, and comes after others have added more; and that call."""
    world = World()
    world.write({"d1": frozenset({1}), "d2": frozenset({5})})

    plan = world.plan(WriteMode.APPEND, in_place=True)
    alter = without_answer(world, lambda: world.write(TWO, plan=plan))
    world.wait_out_claims()
    append(world, THREE)
    return world, alter


def figures(world: World) -> tuple[str | None, ...]:
    parameters = world.partitions()["d1"].parameters
    names = ("numRows", "numFiles", "totalSize", "spark.sql.statistics.numRows")
    return tuple(parameters.get(name) for name in names)


@pytest.mark.parametrize("comes_next", ["recover", "append", "append by copy"])
def test_figures_that_a_late_alter_has_set_back_are_put_right(comes_next: str) -> None:
    world, alter = with_a_late_alter()
    assert figures(world) == ("3", "3", "9", "3")
    alter()
    assert figures(world) == ("2", "2", "6", "2")
    if comes_next == "recover":
        report = world.keeper.recover("mart.orders")
        assert figures(world) == ("3", "3", "9", "3")
        assert world.keeper.recover("mart.orders").put_right == ()
        assert len(report.put_right) == 1
    append(world, {"d1": frozenset({4})}, in_place=comes_next != "append by copy")
    assert figures(world) == ("4", "4", "12", "4")
    assert world.rows() == {"d1": frozenset({1, 2, 3, 4}), "d2": frozenset({5})}
    rows = {one.name: one.rows for one in world.keeper.partitions("mart.orders").partitions}
    assert rows == {"dt=d1": 4, "dt=d2": 1}
    world.skipped_seconds += timedelta(days=3).total_seconds()
    alter()  # a second time: nothing is ever sure of a lost call but its age
    world.keeper.recover("mart.orders")
    assert figures(world) == ("4", "4", "12", "4")


def test_of_files_that_another_tool_has_added_meanwhile_no_rows_are_claimed() -> None:
    world, alter = with_a_late_alter()
    alter()
    key = Location.parse(world.partitions()["d1"].location).key
    world.store.put(f"{key}part-of-another-tool.json", b"[7, 8]")
    world.keeper.recover("mart.orders")
    assert figures(world) == (None, "4", "15", None)
    assert world.rows()["d1"] == frozenset({1, 2, 3, 7, 8})


def test_a_vacuum_does_not_take_late_figures_for_looked_at() -> None:
    world, alter = with_a_late_alter()
    alter()
    world.skipped_seconds += timedelta(days=3).total_seconds()
    world.vacuum()
    append(world, {"d1": frozenset({4})})
    assert figures(world) == ("4", "4", "12", "4")
    world.vacuum()
    before = world.history().newest
    world.keeper.recover("mart.orders")
    assert world.history().newest == before
