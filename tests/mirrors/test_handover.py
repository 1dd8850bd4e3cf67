"""A table is handed over to its mirror and taken back: at no moment may both this library and others write to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any, Final
from unittest import mock

import pytest
from pyiceberg.table.update import RemovePropertiesUpdate, SetSnapshotRefUpdate

from table_writer.config import TableWriterConfig
from table_writer.errors import ConflictError, InvalidInputError, StorageError, TableWriterError
from table_writer.mirrors import follow as mirrors
from table_writer.mirrors.follow import KINDS
from table_writer.model.entry import LogEntry, Outcome
from table_writer.model.location import Location
from table_writer.model.meaning import Operation
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.listing import Lister
from table_writer.protocol.log.slots import Slots
from table_writer.protocol.loop import Claimant, Draft
from table_writer.protocol.vacuum.remover import Remover
from tests.maintenance.operations import ADDED, MIXED, OLD, REPLACED, dead_publisher, erase
from tests.publish.world import DeathError, Fault, insert

from .iceberg_world import IcebergWorld, rows_of_json
from .test_damage import foreign
from .test_iceberg_damage import foreign as foreign_iceberg
from .test_iceberg_damage import foreign_snapshot
from .world import MirroredWorld

pytestmark = pytest.mark.usefixtures("in_one_thread")

TABLE: Final = "mart.orders"
WORLDS: Final = {"delta": MirroredWorld, "iceberg": IcebergWorld}
FOREIGN: Final[dict[str, Callable[[Any], object]]] = {"delta": foreign(), "iceberg": foreign_iceberg(foreign_snapshot)}
SLOWLY: Final = ["delta", pytest.param("iceberg", marks=pytest.mark.slow)]
FAULTS: Final = [
    (phase, error)
    for phase, error in (("before", Exception), ("before", DeathError), ("after", Exception), ("after", DeathError))
]


@pytest.fixture(autouse=True)
def _rows_of_json() -> Iterator[None]:
    with rows_of_json():
        yield


@pytest.fixture(params=WORLDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def mirrored(kind: str) -> MirroredWorld:
    world = WORLDS[kind]()
    world.sleep = lambda seconds: setattr(world, "skipped_seconds", world.skipped_seconds + seconds)
    world.write(OLD)
    world.write(MIXED)
    return world


def hand_over(world: MirroredWorld, kind: str) -> object:
    return world.keeper.handover(TABLE, to=kind)


def take_back(world: MirroredWorld) -> object:
    return world.keeper.handover(TABLE, undo=True)


def is_open(world: MirroredWorld) -> bool:
    return not world.services().log.lister.read().closed_for


def is_opened_to_others(world: MirroredWorld, kind: str) -> bool:
    held = KINDS[kind](world.services()).read()
    return held is not None and held.handed_over > 0


def stored(world: MirroredWorld) -> frozenset[str]:
    return frozenset(info.key for info in world.store.list(world.layout.root.key))


WRITES: Final[dict[str, Callable[[MirroredWorld], object]]] = {
    "overwrite": lambda world: world.write(REPLACED),
    "append in place": lambda world: world.write(ADDED, plan=world.plan(WriteMode.APPEND), in_place=True),
    "compaction": lambda world: world.compact(),
    "rollback": lambda world: world.keeper.rollback(TABLE, version=1),
    "erasure": erase,
    "mirror": lambda world: world.keeper.mirror(TABLE, as_="delta"),
    "mirror repaired": lambda world: world.keeper.mirror(TABLE, as_="iceberg", repair=True),
}


@pytest.mark.parametrize("name", WRITES)
def test_after_a_handover_nothing_of_this_library_writes(kind: str, name: str) -> None:
    world = mirrored(kind)
    report = world.keeper.handover(TABLE, to=kind)
    assert (report.state, report.version, report.healthy) == ("handed over", 2, True)
    before = (world.rows(), world.mirrored_rows(), world.commits())
    with pytest.raises(
        InvalidInputError, match=r"mart\.orders was handed over.*Nothing was changed.*--undo|others write"
    ):
        WRITES[name](world)
    assert (world.rows(), world.mirrored_rows(), world.commits()) == before
    assert before[0] == before[1] == {**OLD, **MIXED}


def test_a_vacuum_deletes_nothing_says_why_and_fails_no_nightly_job(kind: str) -> None:
    world = mirrored(kind)
    world.write(REPLACED)
    hand_over(world, kind)
    before = stored(world)
    report = world.vacuum()
    assert (report.deleted, report.failures, report.version) == ((), (), None)
    assert [kept.reason for kept in report.kept] == ["the table was handed over, and no vacuum deletes any more"]
    assert world.keeper.vacuum_many([TABLE]).results[0].error is None
    assert stored(world) == before


def test_a_staged_write_is_told_of_and_can_be_published_no_more(kind: str) -> None:
    world = mirrored(kind)
    world.stage(ADDED)
    assert world.keeper.handover(TABLE, to=kind).notes[-1] == "1 staged write can be published no more"
    with pytest.raises(InvalidInputError, match="was handed over"):
        world.publish_staged()
    assert world.rows() == {**OLD, **MIXED}


def test_what_readers_see_can_be_brought_back_after_a_handover(kind: str) -> None:
    world = mirrored(kind)
    hand_over(world, kind)
    world.lose_metastore()
    world.keeper.restore(TABLE)
    assert world.rows() == {**OLD, **MIXED}
    assert world.keeper.recover(TABLE).settled == {}


def test_a_version_in_doubt_ends_first(kind: str) -> None:
    world = WORLDS[kind]()
    dead_publisher(world)
    hand_over(world, kind)
    assert world.rows() == world.mirrored_rows() == {**OLD, **MIXED}


def test_a_handover_that_is_repeated_leaves_what_others_have_written(kind: str) -> None:
    world = mirrored(kind)
    hand_over(world, kind)
    FOREIGN[kind](world)
    before = world.commits()
    assert world.keeper.handover(TABLE, to=kind).state == "handed over"
    assert world.keeper.mirror(TABLE, as_=kind, check=True).state == "handed over"
    with pytest.raises(InvalidInputError, match="was handed over"):
        world.keeper.mirror(TABLE, as_=kind, drop=True)
    assert world.commits() == before


def test_it_is_taken_back_while_nobody_else_has_written(kind: str) -> None:
    world = mirrored(kind)
    hand_over(world, kind)
    assert world.keeper.handover(TABLE, undo=True).state == "taken back"
    world.write(REPLACED)
    assert world.notes() == ()
    assert world.rows() == world.mirrored_rows() == {**OLD, **MIXED, **REPLACED}
    assert world.keeper.mirror(TABLE, as_=kind, check=True).state == "in step"
    assert world.vacuum().failures == ()
    hand_over(world, kind)
    assert is_opened_to_others(world, kind)


def test_it_is_not_taken_back_once_others_have_written(kind: str) -> None:
    world = mirrored(kind)
    hand_over(world, kind)
    FOREIGN[kind](world)
    before = world.commits()
    with pytest.raises(InvalidInputError, match=r"cannot be taken back.*was written since.*another tool has made"):
        take_back(world)
    assert world.commits() == before
    assert not is_open(world)


def test_rows_of_others_on_a_branch_keep_it_from_being_taken_back() -> None:
    world = mirrored("iceberg")
    hand_over(world, "iceberg")

    def branched(there: IcebergWorld) -> tuple[Any, ...]:
        added, _ = foreign_snapshot(there)
        return added, SetSnapshotRefUpdate.model_validate({"ref-name": "b", "type": "branch", "snapshot-id": 77})

    foreign_iceberg(branched)(world)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"cannot be taken back.*on a branch"):
        take_back(world)
    assert not is_open(world)


def test_after_a_handover_no_mirror_is_dropped_and_none_is_looked_after(kind: str) -> None:
    other = next(name for name in WORLDS if name != kind)
    world = mirrored(kind)
    world.keeper.mirror(TABLE, as_=other)
    hand_over(world, kind)
    before = stored(world)
    for options in ({}, {"repair": True}, {"drop": True}):
        with pytest.raises(InvalidInputError, match="was handed over"):
            world.keeper.mirror(TABLE, as_=other, **options)
    assert stored(world) == before


def test_tables_report_and_doctor_find_nothing_wrong_with_a_table_that_was_handed_over(kind: str) -> None:
    world = mirrored(kind)
    hand_over(world, kind)
    keeper = world.keeper
    assert [(found.version, found.health) for found in keeper.tables("mart").tables] == [(3, "ok")]
    assert keeper.report(TABLE).troubles == ()
    found = {finding.check: finding.status for finding in keeper.doctor(TABLE).findings}
    assert found["data to vacuum"] == found["dead writes"] == "ok"
    dry_run = keeper.vacuum(TABLE, dry_run=True)
    assert (dry_run.bytes_freed, "was handed over" in str(dry_run)) == (0, True)


def replaced_by_others(world: MirroredWorld, kind: str) -> None:
    """Another tool replaces the table, rows and properties."""
    if isinstance(world, IcebergWorld):
        forgotten = RemovePropertiesUpdate(removals=["table_writer.handed_over"])
        foreign_iceberg(lambda there: (forgotten, *foreign_snapshot(there)))(world)
    else:
        held = KINDS[kind](world.services()).read()
        foreign({"metaData": {**held.metadata, "configuration": {}}})(world)  # type: ignore[union-attr]


def test_a_handover_that_is_repeated_leaves_a_table_that_others_have_replaced(kind: str) -> None:
    world = mirrored(kind)
    hand_over(world, kind)
    replaced_by_others(world, kind)
    before = world.commits()
    assert world.keeper.handover(TABLE, to=kind).state == "handed over"
    with pytest.raises(InvalidInputError, match=f"cannot be taken back: the {kind} table was written since"):
        take_back(world)
    assert world.commits() == before


def test_a_handover_that_died_keeps_the_next_one_waiting_no_longer_than_a_publish(kind: str) -> None:
    world = mirrored(kind)

    def died(call: str, phase: str, key: str) -> None:
        if (call, phase) == ("put_if_absent", "before") and key.endswith(".done"):
            raise DeathError

    world.store.on_call = died
    with pytest.raises(DeathError):
        hand_over(world, kind)
    world.store.on_call = None
    assert not is_open(world)
    with pytest.raises(ConflictError, match="is under way"):
        hand_over(world, kind)
    world.skipped_seconds += world.services().config.publish_timeout_seconds + 1
    hand_over(world, kind)
    assert is_opened_to_others(world, kind)


def test_a_mirror_that_a_drop_is_deleting_is_not_written_to_by_the_undoing(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = mirrored(kind)
    hand_over(world, kind)
    mirror = KINDS[kind](world.services())
    if kind == "delta":
        dropped = replace(mirror.read(), is_dropped=True)
        monkeypatch.setattr(type(mirror), "read", lambda _: dropped)
    else:
        monkeypatch.setattr(type(mirror.read()), "is_dropped", True)
    before = (stored(world), world.commits())
    assert world.keeper.handover(TABLE, undo=True, dry_run=True).state == "handed over"
    assert (stored(world), world.commits()) == before
    report = world.keeper.handover(TABLE, undo=True)
    assert (report.state, report.version, is_open(world)) == ("taken back", None, True)
    assert world.commits() == before[1]


def test_an_erasure_that_waits_for_a_vacuum_is_named() -> None:
    world = mirrored("delta")
    world.write(REPLACED)
    erase(world)
    with pytest.raises(ConflictError, match=r"version 4 is an erasure.*table-writer vacuum mart\.orders"):
        hand_over(world, "delta")
    world.vacuum()
    hand_over(world, "delta")


def test_an_erasure_that_others_have_carried_out_keeps_nothing_from_being_handed_over() -> None:
    world = mirrored("delta")
    world.write(REPLACED)
    due = erase(world)
    remover = Remover(world.services(), mirrors)
    other = remover.entry(world.history(), Operation.VACUUM, due.deletes)  # of a vacuum that had looked before
    slots = world.services().log.slots
    assert slots.claim(other)
    for deleted in due.deletes:
        world.store.delete([info.key for info in world.store.list(Location.parse(deleted.location).key)])
    slots.record_outcome(other.version, Outcome.PUBLISHED, write_id=other.write_id, of=other.write_id)
    hand_over(world, "delta")


def test_a_vacuum_that_could_not_delete_is_named_with_what_helps() -> None:
    world = mirrored("delta")
    world.write(REPLACED)
    world.skipped_seconds += 5 * 86_400

    def refuse(call: str, phase: str, key: str) -> None:
        if (call, phase) == ("delete", "before") and "/data/" in key:
            raise StorageError("AccessDenied")

    world.store.on_call = refuse
    assert world.keeper.vacuum(TABLE).failures
    world.wait_out_claims()
    with pytest.raises(ConflictError, match=r"version 4 is a vacuum that was not finished\. `table-writer vacuum"):
        hand_over(world, "delta")
    assert world.keeper.vacuum(TABLE).failures
    world.store.on_call = None
    world.wait_out_claims()
    world.keeper.vacuum(TABLE)
    hand_over(world, "delta")


def test_calls_that_make_no_sense_are_refused(kind: str) -> None:
    world = mirrored(kind)
    other = next(name for name in WORLDS if name != kind)
    for options, message in (
        ({}, "either"),
        ({"to": kind, "undo": True}, "either"),
        ({"to": "hudi"}, "expected delta, iceberg"),
        ({"undo": True}, "was not handed over"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            world.keeper.handover(TABLE, **options)  # type: ignore[arg-type]
    hand_over(world, kind)
    with pytest.raises(InvalidInputError, match="was handed over"):
        hand_over(world, other)


def test_partitions_where_delta_would_put_files_are_refused() -> None:
    world = mirrored("delta")
    world.written_by_another_tool("d5", frozenset({5}))
    with pytest.raises(
        InvalidInputError, match=r"dt=d5 of mart\.orders lie where other tools put files, and so does Delta"
    ):
        hand_over(world, "delta")
    assert is_open(world)
    world.write({"d5": frozenset({5})})
    hand_over(world, "delta")


def test_empty_partitions_where_delta_would_put_files_are_refused() -> None:
    world = mirrored("delta")
    world.pointed_by_another_tool("d5", f"{world.root}dt=d5/")
    with pytest.raises(InvalidInputError, match=r"dt=d5 of mart\.orders lie where other tools put files"):
        hand_over(world, "delta")
    assert is_open(world)


def test_a_dry_run_says_what_is_in_the_way_and_changes_nothing(kind: str) -> None:
    world = mirrored(kind)
    world.stage(ADDED)
    keys = stored(world)
    report = world.keeper.handover(TABLE, to=kind, dry_run=True)
    assert report.state == "in step"
    assert "dry run: nothing was changed" in report.notes
    assert "1 staged write can be published no more" in report.notes
    assert stored(world) == keys
    hand_over(world, kind)
    keys = stored(world)
    assert world.keeper.handover(TABLE, undo=True, dry_run=True).state == "handed over"
    assert stored(world) == keys


CALLS: Final[dict[str, Callable[[MirroredWorld, str], object]]] = {
    "handover": hand_over,
    "undo": lambda world, _: take_back(world),
}


def prepared(kind: str, name: str) -> MirroredWorld:
    world = mirrored(kind)
    if name == "undo":
        hand_over(world, kind)
    return world


@pytest.mark.parametrize("kind", SLOWLY)
@pytest.mark.parametrize(("phase", "error"), FAULTS)
@pytest.mark.parametrize("name", CALLS)
def test_whatever_fails_only_one_may_write_and_the_call_can_be_repeated(
    kind: str, name: str, phase: str, error: type[BaseException]
) -> None:
    with prepared(kind, name).recording() as calls:
        world = prepared(kind, name)
    world = prepared(kind, name)
    with world.recording() as calls:
        CALLS[name](world, kind)
    for place, call in enumerate(calls):
        count = calls[: place + 1].count(call)
        world = prepared(kind, name)
        with world.inject(Fault(*call, count, phase, error)), suppress(TableWriterError, DeathError):  # type: ignore[arg-type]
            CALLS[name](world, kind)
        assert not (is_open(world) and is_opened_to_others(world, kind)), call
        world.memory.clear()
        world.wait_out_claims()
        if is_open(world) is (name == "handover"):
            CALLS[name](world, kind)
        if name == "handover" and not is_opened_to_others(world, kind):
            CALLS[name](world, kind)
        assert is_open(world) is (name == "undo"), call
        assert is_opened_to_others(world, kind) is (name == "handover"), call
        assert world.rows() == world.mirrored_rows() == {**OLD, **MIXED}


def at_each_call(
    make: Callable[[], MirroredWorld],
    first: Callable[[MirroredWorld], object],
    second: Callable[[MirroredWorld], object],
) -> Iterator[MirroredWorld]:
    """Yield worlds in which another process does all of the second before one of the calls that the first makes."""
    with (world := make()).recording() as calls:
        first(world)
    for place in range(len(calls)):
        world = make()
        interrupt(world, place, second)
        with suppress(TableWriterError):
            first(world)
        yield world


def interrupt(world: MirroredWorld, place: int, act: Callable[[MirroredWorld], object]) -> None:
    left = iter(range(place, -1, -1))

    def called(_: str, phase: str, *__: str) -> None:
        if phase == "before" and next(left, None) == 0:
            world.store.on_call = world.metastore.on_call = None
            memory, world.memory = world.memory, {}
            with suppress(TableWriterError):
                act(world)
            world.memory = memory

    world.store.on_call = world.metastore.on_call = called


def agree(world: MirroredWorld, kind: str) -> bool:
    """Whether others, if they may write, find the rows that readers of the table see."""
    world.wait_out_claims()
    world.keeper.recover(TABLE)
    is_one = not (is_open(world) and is_opened_to_others(world, kind))
    return is_one and (not is_opened_to_others(world, kind) or world.rows() == world.mirrored_rows())


def both(kind: str) -> Iterator[MirroredWorld]:
    """Yield worlds in which a write and a handover have met."""
    write: Callable[[MirroredWorld], object] = lambda world: world.write(REPLACED)  # noqa: E731
    yield from at_each_call(lambda: mirrored(kind), lambda world: hand_over(world, kind), write)
    yield from at_each_call(lambda: mirrored(kind), write, lambda world: hand_over(world, kind))


def test_a_write_that_meets_a_handover_is_in_both_or_refused(kind: str) -> None:
    worlds = list(both(kind))
    assert all(agree(world, kind) for world in worlds)
    assert {world.rows()["d2"] for world in worlds} == {OLD["d2"], REPLACED["d2"]}


def mark_alone(closing: Claimant[Any, Any, LogEntry]) -> LogEntry:
    draft = closing.look(closing.read())
    assert isinstance(draft, Draft)
    closing.before_claim(draft)
    return draft.entry


@pytest.mark.parametrize("kind", SLOWLY)
@pytest.mark.parametrize("mutated", ["claims go on", "no slot is taken"])
def test_a_handover_that_lets_a_claim_through_is_noticed(kind: str, mutated: str) -> None:
    mutations = {
        "claims go on": (mock.patch.object(Slots, "require_open"),),
        "no slot is taken": (
            mock.patch("table_writer.mirrors.handover.run", mark_alone),
            mock.patch.object(Lister, "_closes", return_value=True),
        ),
    }
    with ExitStack() as stack:
        for patch in mutations[mutated]:
            stack.enter_context(patch)
        assert not all(agree(world, kind) for world in both(kind))


def test_a_handover_that_meets_its_undoing_leaves_one_who_may_write(kind: str) -> None:
    for make in (lambda: half_handed_over(kind), lambda: prepared(kind, "undo")):
        for first, second in ((hand_over, take_back), (take_back, hand_over)):
            for world in at_each_call(make, lambda w, f=first: call(f, w, kind), lambda w, s=second: call(s, w, kind)):
                assert agree(world, kind)


def test_of_two_handovers_one_counts(kind: str) -> None:
    other = next(name for name in WORLDS if name != kind)
    for world in at_each_call(lambda: mirrored(kind), lambda w: hand_over(w, kind), lambda w: hand_over(w, other)):
        opened = [name for name in WORLDS if is_opened_to_others(world, name)]
        assert opened == [world.services().log.lister.read().closed_for]


def test_two_handovers_to_one_kind_leave_the_log_closed_whatever_the_slower_one_does(kind: str) -> None:
    world = mirrored(kind)

    def meanwhile() -> None:
        hand_over(world, kind)
        world.at_store("delete", "after", dies)

    def dies() -> None:
        raise DeathError

    world.at_store("put_if_absent", "before", meanwhile, key=f"{3:020d}.json")
    with suppress(DeathError):
        hand_over(world, kind)
    world.store.on_call = None
    assert is_opened_to_others(world, kind)
    assert not is_open(world)
    hand_over(world, kind)
    take_back(world)
    world.write(REPLACED)
    assert world.rows() == world.mirrored_rows()


def test_a_handover_that_died_before_its_claim_closes_nothing(kind: str) -> None:
    other = next(name for name in WORLDS if name != kind)
    world = mirrored(kind)
    died_at_its_claim(world, kind)
    assert len(closing_marks(world)) == 1
    assert is_open(world)
    hand_over(world, other)
    assert [name for name in WORLDS if is_opened_to_others(world, name)] == [other]
    assert world.services().log.lister.read().closed_for == other
    world.keeper.handover(TABLE, undo=True)
    assert is_open(world)


def test_a_claim_that_another_takes_leaves_no_mark_behind(kind: str) -> None:
    world = mirrored(kind)
    world.at_store("put_if_absent", "before", lambda: world.write(REPLACED), key=f"{3:020d}.json")
    hand_over(world, kind)
    assert len(closing_marks(world)) == 1
    assert world.rows() == world.mirrored_rows() == {**OLD, **MIXED, **REPLACED}
    take_back(world)
    assert is_open(world)


def test_what_cannot_be_mirrored_fails_before_the_log_is_closed(kind: str) -> None:
    world = mirrored(kind)
    world.pointed_by_another_tool("d5", world.located()["d1"])
    with pytest.raises(InvalidInputError, match="are both at"):
        hand_over(world, kind)
    assert closing_marks(world) == []
    assert world.services().log.lister.read().newest == 2
    world.dropped_by_another_tool("d5")
    hand_over(world, kind)


def test_a_handover_that_goes_on_has_what_other_tools_have_put_there_since(kind: str) -> None:
    world = half_handed_over(kind)
    assert not is_open(world)
    world.wait_out_claims()
    insert(world, "d1", 77)
    hand_over(world, kind)
    assert is_opened_to_others(world, kind)
    assert 77 in world.mirrored_rows()["d1"]
    assert world.rows() == world.mirrored_rows()


def half_handed_over(kind: str) -> MirroredWorld:
    """Return a world in which the last call of a handover never came: that by which others may write."""
    world = mirrored(kind)
    calls = ("store", "put_if_absent") if kind == "delta" else ("metastore", "alter_partitions")
    with (twin := mirrored(kind)).recording() as made:
        hand_over(twin, kind)
    with world.inject(Fault(*calls, made.count(calls), "before", DeathError)), suppress(DeathError):
        hand_over(world, kind)
    return world


def test_of_a_managed_table_it_is_said_what_a_drop_deletes(kind: str) -> None:
    world = mirrored(kind)
    world.metastore.create_table(replace(world.table, kind="MANAGED_TABLE"))
    (note,) = [note for note in world.keeper.handover(TABLE, to=kind).notes if "managed" in note]  # type: ignore[attr-defined]
    assert note == (
        "mart.orders is a managed table: DROP TABLE deletes the files, of the new table too. Make it external before,"
        " by its table property EXTERNAL=TRUE"
    )


def died_at_its_claim(world: MirroredWorld, kind: str) -> None:
    with (twin := mirrored(kind)).recording() as made:
        hand_over(twin, kind)
    marked = next(place for place, call in enumerate(made) if call == ("store", "put"))
    died = Fault("store", "put_if_absent", made[:marked].count(("store", "put_if_absent")) + 1, "before", DeathError)
    with world.inject(died), suppress(DeathError):
        hand_over(world, kind)


def closing_marks(world: MirroredWorld) -> list[str]:
    return [key for key in stored(world) if "/log/closed-" in key]


def go_on(world: MirroredWorld) -> None:
    """Write and vacuum, until what is old is trimmed."""
    for _ in range(3):
        world.write(REPLACED)
        world.skipped_seconds += 40 * 86_400
        assert world.vacuum().failures == ()


def test_a_mark_that_arrives_after_others_have_taken_its_slot_closes_nothing_and_goes_with_a_vacuum(kind: str) -> None:
    world = mirrored(kind)
    died_at_its_claim(world, kind)
    (mark,) = closing_marks(world)
    world.store.delete([mark])
    go_on(world)
    world.store.put(mark, b"")
    with mock.patch.object(Lister, "_closes", return_value=True):
        assert not is_open(world)  # what the mark alone would do
    assert is_open(world)
    go_on(world)
    assert closing_marks(world) == []
    assert world.rows() == world.mirrored_rows()


def test_a_mark_that_arrives_after_the_undoing_closes_nothing(kind: str) -> None:
    world = mirrored(kind)
    hand_over(world, kind)
    (mark,) = closing_marks(world)
    take_back(world)
    world.store.put(mark, b"")
    assert is_open(world)
    with pytest.raises(InvalidInputError, match="was not handed over"):
        take_back(world)
    hand_over(world, kind)
    assert is_opened_to_others(world, kind)
    assert not is_open(world)
    take_back(world)
    go_on(world)
    assert closing_marks(world) == []
    assert world.rows() == world.mirrored_rows()


def call(act: Callable[..., object], world: MirroredWorld, kind: str) -> object:
    return act(world, kind) if act is hand_over else act(world)


def test_a_table_without_a_mirror_gets_one(kind: str) -> None:
    world = WORLDS[kind](config=TableWriterConfig())
    world.write(OLD)
    hand_over(world, kind)
    assert world.rows() == world.mirrored_rows() == OLD
    assert is_opened_to_others(world, kind)
