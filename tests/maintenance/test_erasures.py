"""An erasure says of rows that they are gone only if they are, whatever comes between its steps and its vacuums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final
from unittest import mock

import pytest

from table_writer.errors import ConflictError, InvalidInputError, StorageError, TableWriterError
from table_writer.jobs.certificate import PLACES
from table_writer.jobs.rows.erasure import SeenAgainError
from table_writer.jobs.rows.snapshot import Snapshot
from table_writer.mirrors import follow as mirrors
from table_writer.model.entry import MAX_TIMEOUT_SECONDS, DeletedLocation, Key, Outcome
from table_writer.model.location import Location
from table_writer.model.meaning import Operation
from table_writer.model.table import Partition
from table_writer.model.table_read import ReadOf, TableRead
from table_writer.model.write import WrittenFiles
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.marks import LATE_CALL_SECONDS
from table_writer.protocol.operations.parameters import NO_FILES
from table_writer.protocol.table.past import Past
from table_writer.protocol.vacuum.due import DeadWrite
from table_writer.protocol.vacuum.remover import Remover, left_objects
from table_writer.storage.object_store import ObjectInfo, key_of
from tests.cells import first_fast
from tests.publish.world import (
    TABLE,
    DeathError,
    Fault,
    World,
    body_of,
    fail,
    insert,
    move,
    plain,
    publisher_of,
    without_answer,
)

from .erasures import NO_SPARK, deleted_rows, erasing, holders, purge
from .operations import erase

T: Final = str(TABLE)
ANN: Final = frozenset({2})
DAY_SECONDS: Final = 86_400
DIED: Final = Fault("metastore", "alter_partitions", 1, "before", DeathError)


def ids(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


def with_ann() -> World:
    """Return a table whose row 2 is of version 1, and has been replaced in d9."""
    world = World()
    world.sleep = lambda seconds: setattr(world, "skipped_seconds", world.skipped_seconds + seconds)
    world.write({"d1": ids(1), "d2": ids(2, 22), "d3": ids(3), "d9": ids(9)})
    world.write({"d3": ids(33)})
    return world


def recovered(world: World) -> None:
    world.wait_out_claims()
    world.keeper.recover(T)


def put_back(world: World, value: str, location: str) -> None:
    """Another tool adds a partition that is dropped, as ``MSCK REPAIR TABLE`` does, or points one elsewhere."""
    if value in world.partitions():
        world.dropped_by_another_tool(value)
    world.metastore.add_partitions(world.table, [Partition(values=(value,), location=location, parameters=NO_FILES)])


def first_place(world: World) -> str:
    """Return where the row was first."""
    return world.history().records[0].entry.partitions[1].new_location or ""


def dying(world: World, act: Callable[[], object]) -> None:
    with world.inject(DIED), suppress(DeathError):
        act()


def roll_back(world: World) -> None:
    world.keeper.rollback(T, version=2)


def compact_after_a_rollback(world: World) -> None:
    """A compaction that has chosen its files before the delete, and finds them again."""
    roll_back(world)
    world.compact("d2")


BETWEEN: Final[dict[str, Callable[[World], object]]] = {
    "nothing": lambda _: None,
    "rollback": roll_back,
    "rollback of one partition": lambda world: world.keeper.rollback(T, version=2, partitions=["dt=d2"]),
    "rollback to an earlier version": lambda world: world.keeper.rollback(T, version=1),
    "rollback that dies": lambda world: dying(world, lambda: roll_back(world)),
    "rollback that died and was recovered": lambda world: (dying(world, lambda: roll_back(world)), recovered(world)),
    "rollback and a compaction": compact_after_a_rollback,
    "rollback and an append": lambda world: (
        roll_back(world),
        world.write({"d2": ids(222)}, plan=world.plan(WriteMode.APPEND)),
    ),
    "rollback and an overwrite": lambda world: (roll_back(world), world.write({"d2": ids(222)})),
    "rollback of the rollback": lambda world: (roll_back(world), world.keeper.rollback(T, version=3)),
    "overwrite with the same row": lambda world: world.write({"d2": ids(2)}),
    "append of the same row elsewhere": lambda world: world.write({"d4": ids(2)}, plan=world.plan(WriteMode.APPEND)),
    "append in place of the same row": lambda world: world.write(
        {"d3": ids(2)}, plan=world.plan(WriteMode.APPEND, in_place=True)
    ),
    "append of another row": lambda world: world.write({"d2": ids(5)}, plan=world.plan(WriteMode.APPEND)),
    "another tool points back": lambda world: put_back(world, "d2", first_place(world)),
    "another tool moves it": lambda world: move(world, "d2", "elsewhere", 7),
    "drop and restore": lambda world: (world.dropped_by_another_tool("d2"), world.keeper.restore(T)),
    "a write that dies": lambda world: dying(world, lambda: world.write({"d2": ids(2)})),
    "vacuum": lambda world: world.vacuum(),
    "recover": lambda world: world.keeper.recover(T),
    "another purge": lambda world: purge(world, ids(33)),
}  # fmt: skip
MOMENTS: Final = ("before the claim", "at the claim", "after the claim", "after a vacuum that died", "after the vacuum")


def at_the_claim(world: World, act: Callable[[], object]) -> None:
    """Let something happen just before the next claim is put."""
    world.at_store("put_if_absent", "before", act, ".json")


NEW_ROWS: Final = (
    "overwrite with the same row",
    "append of the same row elsewhere",
    "append in place of the same row",
    "a write that dies",
)
"""Whoever writes such a row after the erasure was claimed has not got it from this table."""


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", BETWEEN)
def test_a_certificate_is_complete_only_if_no_reader_and_no_object_has_the_row(name: str, moment: str) -> None:
    world, act, write_id = with_ann(), BETWEEN[name], ""

    def happen() -> None:
        with suppress(TableWriterError):
            act(world)

    deleted = deleted_rows(world, ANN)
    if moment == "before the claim":
        happen()
    if moment == "at the claim":
        at_the_claim(world, happen)
    with suppress(SeenAgainError):
        write_id = erasing(world, ANN, 2).after(deleted).write_id
    world.store.on_call = None
    if moment == "after the claim":
        happen()
    if moment == "after a vacuum that died":
        with world.inject(Fault("store", "delete", 1, "before", DeathError)), suppress(DeathError):
            world.keeper.vacuum(T)
        happen()
    world.wait_out_claims()
    world.keeper.vacuum(T)
    if moment == "after the vacuum":
        happen()
    recovered(world)
    world.keeper.vacuum(T)
    is_new = name in NEW_ROWS and moment in MOMENTS[2:]
    if write_id and not is_new:
        certificate = world.keeper.erasure(T, write_id=write_id)
        assert not certificate.is_complete or holders(world, ANN) == [], certificate.to_text()
        assert certificate.is_complete or certificate.due or certificate.remarks
    purged_at_last(world)


def at_call(world: World, number: int, act: Callable[[], object]) -> None:
    """Let something happen just before the n-th call of store or metastore."""
    left = [number]

    def called(_: str, phase: str, *__: str) -> None:
        left[0] -= phase == "before"
        if left[0] == 0 and phase == "before":
            world.store.on_call = world.metastore.on_call = None
            act()

    world.store.on_call = world.metastore.on_call = called


@cache
def calls_of_an_erasure() -> int:
    world = with_ann()
    step = erasing(world, ANN, 2)
    deleted = deleted_rows(world, ANN)
    with world.recording() as calls:
        step.after(deleted)
    return len(calls)


@pytest.mark.parametrize("name", first_fast(list(BETWEEN), 6))
def test_whatever_comes_at_whatever_call_of_an_erasure_its_certificate_is_true(name: str) -> None:
    assert calls_of_an_erasure() > 15
    for number in range(1, calls_of_an_erasure() + 5):
        world, write_id = with_ann(), ""

        def happen(world: World = world) -> None:
            with suppress(TableWriterError):
                BETWEEN[name](world)

        step = erasing(world, ANN, 2)
        deleted = deleted_rows(world, ANN)
        at_call(world, number, happen)
        with suppress(SeenAgainError):
            write_id = step.after(deleted).write_id
        world.store.on_call = world.metastore.on_call = None
        newest = max(one.entry.version for one in world.history().records if one.entry.partitions)
        recovered(world)
        world.keeper.vacuum(T)
        if write_id and not (name in NEW_ROWS and newest > world.keeper.erasure(T, write_id=write_id).version):
            certificate = world.keeper.erasure(T, write_id=write_id)
            assert not certificate.is_complete or holders(world, ANN) == [], (number, certificate.to_text())
        purged_at_last(world)


def purged_at_last(world: World) -> None:
    """Require that whatever has happened a purge comes to its end: by a second one, and the vacuums of three days."""
    for _ in range(3):
        with suppress(SeenAgainError):
            purge(world, ANN)
    world.skipped_seconds += 3 * DAY_SECONDS
    world.keeper.recover(T)
    world.keeper.vacuum(T)
    assert holders(world, ANN) == []
    assert not [value for value, rows in world.rows().items() if rows & ANN]


def test_rows_that_came_back_are_told(world: World) -> None:
    with pytest.raises(SeenAgainError, match=r"see rows again that were deleted, in dt=d2: .* not to be erased yet"):
        purge(world, ANN, lambda: roll_back(world))
    with pytest.raises(InvalidInputError, match="has no erasure"):
        world.keeper.erasure(T)


@pytest.fixture
def world() -> World:
    return with_ann()


def test_new_rows_keep_no_erasure_from_its_claim(world: World) -> None:
    purge(world, ANN, lambda: world.write({"d2": ids(5)}, plan=world.plan(WriteMode.APPEND)))
    world.keeper.vacuum(T)
    assert world.keeper.erasure(T).is_complete
    assert world.rows()["d2"] == ids(5, 22)


def reading(world: World, place: str, of: ReadOf) -> tuple[TableRead, ...]:
    location = Location.parse(place)
    files = {info.key.removeprefix(location.key): (info.size_bytes, None) for info in world.store.list(location.key)}
    return (TableRead(of=of, files={location.place: files}, covers=frozenset),)


@pytest.mark.parametrize("of", [ReadOf.VERSION, ReadOf.PATHS])
@pytest.mark.parametrize("mode", [WriteMode.APPEND, WriteMode.OVERWRITE_PARTITIONS])
@pytest.mark.parametrize("moment", ["planned before", "planned after it", "after its vacuum", "at the claim", "staged"])
def test_rows_of_a_version_that_is_erased_are_not_written_anew(
    world: World, moment: str, mode: WriteMode, of: ReadOf
) -> None:
    reads = reading(world, world.partitions()["d2"].location, of)

    def plan() -> Any:
        return replace(world.plan(mode), reads=reads)

    planned, before_publish = plan(), int
    if moment == "at the claim":
        before_publish = partial(at_the_claim, world, lambda: purge(world, ANN))  # type: ignore[assignment]
    else:
        purge(world, ANN)
    if moment == "after its vacuum":
        world.keeper.vacuum(T)
    with pytest.raises(ConflictError, match=r"computed from files of mart\.orders that are erased on .* Nothing was"):
        if moment == "staged":
            publisher_of(world.services()).as_read(WrittenFiles(plan=plan(), partitions=()))
        is_before = moment in {"planned before", "at the claim"}
        world.write({"d5": ANN}, plan=planned if is_before else plan(), before_publish=before_publish)
    world.keeper.vacuum(T)
    world.skipped_seconds += 3 * DAY_SECONDS
    world.keeper.vacuum(T)
    assert holders(world, ANN) == []


@pytest.mark.parametrize("mode", [WriteMode.APPEND, WriteMode.OVERWRITE_PARTITIONS])
def test_rows_of_a_version_that_is_erased_are_not_written_anew_by_a_query_that_reads_the_table_too(
    world: World, mode: WriteMode
) -> None:
    place = world.partitions()["d2"].location
    reads = reading(world, place, ReadOf.VERSION) + reading(world, place, ReadOf.TABLE)
    plan = replace(world.plan(mode), reads=reads)
    with pytest.raises(ConflictError, match="that are erased on"):
        world.write({"d5": ANN}, plan=plan, before_publish=lambda: purge(world, ANN))


def test_files_of_an_abandoned_write_that_is_erased_are_not_written_anew(world: World) -> None:
    """It is named as its whole directory, and was read as one of its partitions."""
    abandoned_append(world)
    abandoned = world.history().records[2].entry.partitions[0].new_location
    assert abandoned is not None
    plan = replace(world.plan(), reads=reading(world, abandoned, ReadOf.PATHS))
    purge(world, ANN)
    with pytest.raises(ConflictError, match="that are erased on"):
        world.write({"d5": ANN}, plan=plan)


def test_a_write_of_what_readers_see_is_not_refused_for_an_earlier_erasure(world: World) -> None:
    place = world.partitions()["d2"].location
    purge(world, ANN)
    now = reading(world, world.partitions()["d2"].location, ReadOf.VERSION)
    world.write({"d5": ids(22)}, plan=replace(world.plan(), reads=now))
    assert place not in {one.location for one in world.partitions().values()}


def test_a_staged_or_running_write_is_named_until_it_is_gone_or_published(world: World) -> None:
    staged = world.stage({"d6": ANN})

    def remarks() -> tuple[str, ...]:
        world.keeper.vacuum(T)
        return world.keeper.erasure(T).remarks

    def purge_while_it_runs() -> None:
        purge(world, ANN)
        assert len(remarks()) == 2

    written = world.write({"d5": ids(5)}, before_publish=purge_while_it_runs)
    told = remarks()
    assert any(f"write {staged} is not published, " in remark for remark in told)
    assert any(f"{written.entry.write_id} was planned before the erasure and published after it" in one for one in told)
    world.discard_staged()
    assert len(remarks()) == 1
    purge(world, ANN)
    assert remarks() == ()


@pytest.mark.parametrize("place", ["s3a://lake/raw/d2/", "s3a://lake/mart/", "s3a://elsewhere/d2/"])
@pytest.mark.parametrize("how_long_ago", [0, 1, 2])
def test_older_rows_where_no_vacuum_deletes_are_named_however_long_ago_readers_left_them(
    world: World, place: str, how_long_ago: int
) -> None:
    world.store.put(f"{Location.parse(place).key}f.json", b"[2, 22]")
    world.pointed_by_another_tool("d2", place)
    for row in range(how_long_ago):
        world.write({"d2": ids(2, 222 + row)})
    purge(world, ANN)
    world.keeper.vacuum(T)
    assert world.keeper.erasure(T).remarks == (
        f"{place}: it is not below the table's own directory: delete it yourself",
    )
    world.store.delete([f"{Location.parse(place).key}f.json"])
    assert world.keeper.erasure(T).is_complete == (place != "s3a://elsewhere/d2/")


@pytest.mark.parametrize("row", [2, 3])
def test_older_rows_of_other_partitions_outside_the_root_are_named_if_they_are_such_rows(
    world: World, row: int
) -> None:
    world.store.put("raw/d3/f.json", f"[{row}]".encode())
    world.pointed_by_another_tool("d3", "s3a://lake/raw/d3/")
    world.write({"d3": ids(333)})
    purge(world, ANN)
    world.keeper.vacuum(T)
    assert world.keeper.erasure(T).is_complete == (row != 2)


def planned(world: World) -> Callable[[], object]:
    plan = world.plan(WriteMode.APPEND)
    return lambda: world.write({"d5": ANN}, plan=plan)


def planned_overwrite(world: World) -> Callable[[], object]:
    plan = replace(world.plan(), reads=reading(world, world.partitions()["d2"].location, ReadOf.TABLE))
    return lambda: world.write({"d5": ANN}, plan=plan)


def staged(world: World) -> Callable[[], object]:
    world.stage({"d5": ANN}, plan=world.plan(WriteMode.APPEND), expires_after_seconds=9 * DAY_SECONDS)
    return world.publish_staged


def staged_and_refused_once(world: World) -> Callable[[], object]:
    publish = staged(world)
    with world.inject(Fault("metastore", "add_partitions", 1, "before", Exception)), suppress(TableWriterError):
        publish()
    return publish


def killed_and_recovered(world: World) -> Callable[[], object]:
    plan = world.plan(WriteMode.APPEND)
    died = Fault("metastore", "add_partitions", 1, "before", DeathError)

    def act() -> None:
        with world.inject(died), suppress(DeathError):
            world.write({"d5": ANN}, plan=plan)
        recovered(world)

    return act


OLDER_PLANS: Final[dict[str, Callable[[World], Callable[[], object]]]] = {
    "an append": planned,
    "an overwrite of another partition": planned_overwrite,
    "a staged write": staged,
    "a staged write that was refused once": staged_and_refused_once,
    "a write that dies": killed_and_recovered,
}


@pytest.mark.parametrize("moment", ["before the delete", "before its switch", "before the erasure"])
@pytest.mark.parametrize("name", OLDER_PLANS)
def test_a_write_planned_before_an_erasure_and_published_after_it_is_named_by_every_certificate(
    name: str, moment: str
) -> None:
    world, acts = with_ann(), list[Callable[[], object]]()
    since = world.services().log.lister.read().newest

    def make() -> None:
        acts.append(OLDER_PLANS[name](world))

    if moment == "before the delete":
        make()
    if moment == "before its switch" and name != "a staged write that was refused once":
        world.at_metastore("alter_partitions", "before", make)
    deleted = deleted_rows(world, ANN)
    world.metastore.on_call = None
    if not acts:
        make()
    write_id = erasing(world, ANN, since).after(deleted).write_id
    world.keeper.vacuum(T)
    (act,) = acts
    act()
    assert world.rows()["d5"] == ANN
    for row in (55, 555):
        remarks = world.keeper.erasure(T, write_id=write_id).remarks
        assert any("was planned before the erasure and published after it" in remark for remark in remarks)
        world.write({"d5": ids(row)}, plan=world.plan(WriteMode.APPEND))  # its rows move on
        world.skipped_seconds += 4 * DAY_SECONDS
        world.keeper.vacuum(T)
    assert world.rows()["d5"] >= ANN
    purge(world, ANN)
    world.keeper.vacuum(T)
    assert world.keeper.erasure(T).is_complete


def test_a_write_of_before_that_is_given_up_is_named_until_its_files_are_gone(world: World) -> None:
    plan = world.plan(WriteMode.APPEND)
    purge(world, ANN)
    world.keeper.vacuum(T)
    with world.inject(Fault("metastore", "add_partitions", 1, "before", Exception)), suppress(TableWriterError):
        world.write({"d5": ANN}, plan=plan)
    assert len(holders(world, ANN)) == 1
    assert [remark.partition(", ")[0] for remark in world.keeper.erasure(T).remarks] == [
        f"write {plan.write_id} is not published"
    ]
    world.skipped_seconds += 4 * DAY_SECONDS
    world.keeper.vacuum(T)
    assert (holders(world, ANN), world.keeper.erasure(T).is_complete) == ([], True)


def test_a_write_that_was_planned_after_an_erasure_is_not_named_while_it_runs(world: World) -> None:
    purge(world, ANN)
    world.keeper.vacuum(T)
    told: list[bool] = []
    world.stage({"d6": ids(6)}, plan=world.plan(WriteMode.APPEND))
    world.write({"d5": ids(5)}, before_publish=lambda: told.append(world.keeper.erasure(T).is_complete))
    assert told == [True]
    assert world.keeper.erasure(T).is_complete


def test_a_write_that_is_published_while_a_certificate_looks_is_not_named(world: World) -> None:
    purge(world, ANN)
    world.keeper.vacuum(T)
    with world.recording() as calls:
        assert world.keeper.erasure(T).is_complete
    for number in range(1, len(calls) + 1):
        at_call(world, number, partial(world.write, {"d5": ids(50 + number)}))
        assert world.keeper.erasure(T).is_complete
    assert world.rows()["d5"] == ids(50 + len(calls))


MOVING_ON: Final[dict[str, Callable[[World], object]]] = {
    "append": lambda world: world.write({"d2": ids(5)}, plan=world.plan(WriteMode.APPEND)),
    "compaction": lambda world: world.compact("d2"),
    "nothing": lambda _: None,
}


@pytest.mark.parametrize("name", MOVING_ON)
def test_who_takes_over_rows_of_a_location_that_another_tool_has_put_back_is_named(name: str) -> None:
    world = World()
    world.sleep = lambda _: None
    world.written_by_another_tool("d2", ANN)
    world.write({"d9": ids(9)})
    purge(world, ANN)
    put_back(world, "d2", f"{world.root}dt=d2/")  # MSCK REPAIR TABLE
    MOVING_ON[name](world)
    for _ in range(2):
        world.skipped_seconds += 3 * DAY_SECONDS
        world.keeper.recover(T)
        world.keeper.vacuum(T)
        assert world.rows()["d2"] >= ANN
        assert not world.keeper.erasure(T).is_complete
    world.write({"d2": ids(2, 6)})
    world.skipped_seconds += 4 * DAY_SECONDS
    purge(world, ANN)
    world.keeper.vacuum(T)
    assert world.keeper.erasure(T).is_complete
    assert holders(world, ANN) == []


def test_a_compaction_that_was_under_way_has_brought_no_rows(world: World) -> None:
    world.write({"d1": ids(11)}, plan=world.plan(WriteMode.APPEND))
    world.compact("d1", "d2", before_publish=lambda: purge(world, ANN))
    world.keeper.vacuum(T)
    assert world.rows()["d2"] == ids(22)
    world.skipped_seconds += 4 * DAY_SECONDS
    world.keeper.vacuum(T)
    assert holders(world, ANN) == []
    assert world.keeper.erasure(T).is_complete


# Vacuums


def due_twice(world: World) -> None:
    """Let two locations be due, of which one is to be erased."""
    world.skipped_seconds += 5 * DAY_SECONDS  # of d3
    purge(world, ANN)


def outcomes(world: World) -> list[Outcome | None]:
    records = world.history().records
    return [record.outcome for record in records if not record.entry.meaning.changes_partitions]


def kept_by_a_late_call(world: World) -> None:
    """A recovery repeats what has died: the old row's location is that of a call that may come late."""
    place = world.history().records[0].entry.partitions[1].new_location
    assert place is not None
    (record,) = [one for one in world.history().records if one.entry.version == 1]
    world.services().log.marks.remember_recovery(record.entry.version)


def kept_since_readers_are_there(world: World) -> None:
    put_back(world, "d7", first_place(world))


KEEPING: Final = {"a late call": kept_by_a_late_call, "readers": kept_since_readers_are_there}
NO_LONGER: Final = {
    "a late call": lambda world: setattr(world, "skipped_seconds", world.skipped_seconds + LATE),
    "readers": lambda world: world.dropped_by_another_tool("d7"),
}
LATE: Final = MAX_TIMEOUT_SECONDS + LATE_CALL_SECONDS


@pytest.mark.parametrize("reason", KEEPING)
@pytest.mark.parametrize("after", ["vacuum", "recover"])
def test_a_vacuum_that_died_is_carried_out_only_once_all_is_gone_that_it_names(reason: str, after: str) -> None:
    world = with_ann()
    due_twice(world)
    with world.inject(Fault("store", "delete", 1, "before", DeathError)), suppress(DeathError):
        world.keeper.vacuum(T)
    world.wait_out_claims()
    KEEPING[reason](world)
    world.keeper.vacuum(T)
    assert len(holders(world, ANN)) == 1
    assert outcomes(world) == [None, None]
    assert world.keeper.erasure(T).due == 1
    NO_LONGER[reason](world)
    if after == "recover":
        world.keeper.recover(T)
    world.keeper.vacuum(T)
    assert holders(world, ANN) == []
    assert set(outcomes(world)) == {Outcome.PUBLISHED}
    assert world.keeper.erasure(T).is_complete


def refused(world: World, *keys: str) -> Callable[..., None]:
    def refuse(call: str, phase: str, key: str) -> None:
        if (call, phase) == ("delete", "before") and any(part in key for part in keys):
            raise StorageError("AccessDenied")

    return refuse


def test_what_may_not_be_deleted_is_not_freed_and_stays_due(world: World) -> None:
    due_twice(world)
    world.store.on_call = refused(world, "/data/")
    report = world.keeper.vacuum(T)
    world.store.on_call = None
    assert (report.bytes_freed, report.objects_deleted, report.deleted) == (0, 0, ())
    assert report.to_text().startswith("mart.orders: freed 0 B in 0 objects of 0 locations")
    assert report.failures == ("AccessDenied",)
    assert outcomes(world) == [None, None]
    world.wait_out_claims()
    assert world.keeper.vacuum(T).objects_deleted == 2
    assert set(outcomes(world)) == {Outcome.PUBLISHED}
    assert world.keeper.erasure(T).is_complete


def test_of_a_request_that_failed_that_is_freed_which_is_gone(world: World) -> None:
    due_twice(world)
    (key,) = holders(world, ANN)
    delete = world.store.delete

    def delete_others(items: Sequence[str | ObjectInfo]) -> None:
        delete([item for item in items if key_of(item) != key])
        if key in map(key_of, items):
            raise StorageError("AccessDenied")

    with mock.patch.object(world.store, "delete", delete_others):
        report = world.keeper.vacuum(T)
    assert [path.objects for path in report.deleted] == [1]
    assert holders(world, ANN) == [key]
    assert world.keeper.erasure(T).due == 1
    assert outcomes(world) == [None, None]
    world.wait_out_claims()
    world.keeper.vacuum(T)
    assert set(outcomes(world)) == {Outcome.PUBLISHED}


def test_a_dead_write_that_may_not_be_deleted_is_not_freed(world: World) -> None:
    call = Fault("store", "complete_upload", 2, "before", DeathError)
    with world.inject(call), suppress(DeathError):
        world.write({"d1": ids(5), "d2": ids(6)})
    world.skipped_seconds += 4 * DAY_SECONDS
    world.store.on_call = refused(world, "d1/", "d2/")
    report = world.keeper.vacuum(T)
    world.store.on_call = None
    assert [path.objects for path in report.deleted if path.reason.startswith("dead write")] == [0]
    assert (report.removed_registrations, len(report.aborted)) == ((), 1)
    assert world.keeper.vacuum(T).objects_deleted > 0


def all_but(world: World, key: str) -> Any:
    """Let one object be refused, while the request deletes the others."""
    delete = world.store.delete

    def delete_others(items: Sequence[str | ObjectInfo]) -> None:
        delete([item for item in items if key_of(item) != key])
        if key in map(key_of, items):
            raise StorageError("AccessDenied")

    return mock.patch.object(world.store, "delete", delete_others)


def keys_below(world: World) -> set[str]:
    return {info.key for info in world.store.list(world.layout.all_data.key)}


def test_of_a_dead_write_that_is_freed_which_is_gone_and_not_all_or_nothing(world: World) -> None:
    with world.inject(Fault("store", "put_if_absent", 1, "before", DeathError)), suppress(DeathError):
        world.write({"d1": ids(5), "d2": ids(6)})
    (key,) = holders(world, ids(6))
    world.skipped_seconds += 4 * DAY_SECONDS
    before = keys_below(world)
    with all_but(world, key):
        report = world.keeper.vacuum(T)
    gone = before - keys_below(world)
    assert (len(gone), report.objects_deleted) == (2, 2)
    before = keys_below(world)
    report = world.keeper.vacuum(T)
    assert report.objects_deleted == len(before - keys_below(world)) == 1


def test_nothing_of_a_dead_write_is_freed_where_nobody_can_look_again(world: World) -> None:
    with world.inject(Fault("store", "put_if_absent", 1, "before", DeathError)), suppress(DeathError):
        world.write({"d1": ids(5), "d2": ids(6)})
    world.skipped_seconds += 4 * DAY_SECONDS

    plan = world.keeper.vacuum(T, dry_run=True)
    assert plan.objects_deleted == 3
    objects = tuple(world.store.list(world.layout.all_data.key))
    write = DeadWrite(write_id="w", reason="", objects=objects, uploads=())
    world.store.on_call = lambda *_: fail(StorageError("no answer"))
    assert left_objects(world.store, world.layout.data("w"), write) == {item.key for item in objects}


@pytest.mark.parametrize("dry_run", [True, False])
def test_an_object_counts_once_though_two_locations_hold_it(world: World, dry_run: bool) -> None:
    come = abandoned_append(world)
    come()
    world.write({"d2": ids(8)})
    world.skipped_seconds += 4 * DAY_SECONDS
    before = keys_below(world)
    report = world.keeper.vacuum(T, dry_run=dry_run)
    if dry_run:
        world.keeper.vacuum(T)
    assert report.objects_deleted == len(before - keys_below(world)) == 5


def test_an_erasure_names_an_object_once_though_two_locations_hold_it(world: World) -> None:
    come = abandoned_append(world)
    come()
    world.write({"d2": ids(2, 8)})
    note = purge(world, ANN).notes[-1]
    objects = [erased.key for erased in world.keeper.erasure(T).objects]
    assert len(set(objects)) == len(objects)
    assert note.startswith(f"{len(objects)} replaced files to be erased")


def test_a_fold_forgets_no_key_of_an_entry_that_could_not_be_trimmed(world: World) -> None:
    world.write({"d1": ids(5)}, plan=world.plan(key="once"))
    for row in range(9):
        world.write({"d1": ids(50 + row)})
    world.skipped_seconds += 40 * DAY_SECONDS
    world.keeper.vacuum(T)
    assert 3 in world.keeper.vacuum(T, dry_run=True).trimmed_versions
    world.store.on_call = refused(world, "/log/0")
    with mock.patch("table_writer.protocol.log.table_log.FOLD_EVERY_VERSIONS", 5):
        report = world.keeper.vacuum(T)
    world.store.on_call = None
    assert report.trimmed_versions == ()
    fold = world.services().log.read_recent().fold
    assert fold is not None
    found = world.services().log.find_key(Key("once"))
    assert found is not None
    assert found.entry.idempotency_key == "once"


def test_registrations_uploads_and_entries_that_stay_are_not_said_to_be_gone(world: World) -> None:
    with world.inject(DIED), suppress(DeathError):
        world.write({"d1": ids(5)})
    world.skipped_seconds += 40 * DAY_SECONDS
    world.keeper.recover(T)
    world.store.on_call = refused(world, "/writes/", "/log/")
    report = world.keeper.vacuum(T)
    assert (report.removed_registrations, report.trimmed_versions) == ((), ())
    world.store.on_call = None
    assert world.keeper.vacuum(T).removed_registrations != ()


def deleted_by_another_vacuum(world: World) -> None:
    """One that has looked before the erasure was claimed, and has claimed after it, deletes the same files."""
    remover, history = Remover(world.services(), mirrors), world.history()
    entry = remover.entry(history, Operation.VACUUM, history.records[-1].entry.deletes)
    slots = world.services().log.slots
    assert slots.claim(entry)
    world.store.delete(holders(world, ANN))
    slots.record_outcome(entry.version, Outcome.PUBLISHED, write_id=entry.write_id, of=entry.write_id)


@pytest.mark.parametrize("call", ["vacuum", "recover"])
def test_an_erasure_whose_files_another_vacuum_has_deleted_is_carried_out(world: World, call: str) -> None:
    purge(world, ANN)
    deleted_by_another_vacuum(world)
    assert outcomes(world) == [None, Outcome.PUBLISHED]
    getattr(world.keeper, call)(T)
    assert set(outcomes(world)) == {Outcome.PUBLISHED}
    assert world.keeper.erasure(T).is_complete


def test_a_vacuum_that_is_under_way_is_not_ended_by_another(world: World) -> None:
    history = world.history()
    entry = Remover(world.services(), mirrors).entry(
        history, Operation.VACUUM, (DeletedLocation(location=str(world.layout.data("w")), replaced_by=None),)
    )
    assert world.services().log.slots.claim(entry)
    world.keeper.vacuum(T)
    assert outcomes(world) == [None]
    world.wait_out_claims()
    world.keeper.vacuum(T)
    assert outcomes(world) == [Outcome.PUBLISHED]


def test_where_readers_have_been_since_stays_for_its_retention(world: World) -> None:
    """A vacuum that died has named it; its readers of then are gone, and not those who have come since."""
    due_twice(world)
    with world.inject(Fault("store", "delete", 1, "before", DeathError)), suppress(DeathError):
        world.keeper.vacuum(T)
    world.wait_out_claims()
    put_back(world, "d2", first_place(world))
    world.write({"d2": ids(5)})
    kept = world.keeper.vacuum(T).kept
    assert any("its retention lasts" in path.reason for path in kept)
    assert len(holders(world, ANN)) == 1


# Recoveries


def killed(world: World) -> None:
    """A job that is killed, and the next one, which recovers what it has left."""
    dying(world, lambda: world.write({"d1": ids(1)}))
    world.wait_out_claims()
    world.write({"d1": ids(11)}, plan=world.plan(WriteMode.APPEND))


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("mode", [WriteMode.APPEND, WriteMode.OVERWRITE_PARTITIONS])
@pytest.mark.parametrize("is_in_doubt", [True, False], ids=["killed before the vacuum", "recovered before it"])
def test_a_job_that_is_killed_regularly_keeps_no_vacuum_from_its_work(
    mode: WriteMode, every: int, is_in_doubt: bool
) -> None:
    """Nor does it if the vacuum finds in doubt what the job has left, each time."""
    world = with_ann()
    world.write({"d5": ids(50)})
    purged_on = None
    with mock.patch("table_writer.protocol.log.table_log.FOLD_EVERY_VERSIONS", 10):
        for day in range(60):
            if day % every == 0:
                for moment in ("kill", "write") if not is_in_doubt else ("write", "kill"):
                    world.wait_out_claims()
                    if moment == "kill":
                        dying(world, lambda: world.write({"d1": ids(1)}))
                        continue
                    with suppress(ConflictError):  # after what it has recovered
                        world.write({"d1": ids(1)})
                    world.write({"d1": ids(1000 + day)}, plan=world.plan(mode))
            if day == 5:
                purge(world, ANN)
            world.keeper.vacuum(T)
            if day >= 5 and purged_on is None and world.keeper.erasure(T).is_complete:
                purged_on = day
            listing = world.services().log.lister.read(listed_after=0)
            assert len(listing.unverified) <= 5
            world.skipped_seconds += DAY_SECONDS / 2
    fold = world.services().log.read_recent().fold
    assert purged_on == 5
    assert listing.trimmed > 20 / every
    assert fold is not None
    assert fold.version > listing.newest - 60


def test_a_mark_is_taken_away_once_no_call_of_before_it_can_come_though_newer_ones_stay(world: World) -> None:
    marks = world.services().log.marks
    marks.remember_recovery(1)
    world.skipped_seconds += LATE - 100
    marks.remember_recovery(2)

    def unverified(call: str) -> frozenset[int]:
        getattr(world.keeper, call)(T)
        return world.services().log.lister.read(listed_after=0).unverified

    assert unverified("vacuum") == unverified("recover") == {1, 2}
    world.skipped_seconds += 200
    assert unverified("vacuum") == {2}
    marks.remember_recovery(1)
    world.skipped_seconds += LATE
    assert unverified("recover") == frozenset()


# What is kept elsewhere


def test_a_purge_that_found_no_row_is_not_complete(world: World) -> None:
    result = purge(world, ids(777))
    world.keeper.vacuum(T)
    certificate = world.keeper.erasure(T, write_id=result.write_id)
    assert (certificate.found_nothing, certificate.is_complete, certificate.due) == (True, False, 0)
    assert "NOTHING FOUND: neither readers nor older versions had such a row" in certificate.to_text()
    purge(world, ids(3))  # which only an older version has
    world.keeper.vacuum(T)
    assert world.keeper.erasure(T).is_complete


def test_the_hash_of_a_predicate_is_salted_and_the_salt_is_stored_nowhere(world: World) -> None:
    first, second = purge(world, ANN), purge(world, ids(3))
    found = [world.keeper.erasure(T, write_id=one.write_id).predicate_sha256 for one in (first, second)]
    texts = ["id in [2]", "id in [3]"]
    for result, text, hashed in zip((first, second), texts, found, strict=True):
        assert len(result.predicate_salt) == 32
        assert hashlib.sha256(f"{result.predicate_salt}{text}".encode()).hexdigest() == hashed
        assert hashed != hashlib.sha256(text.encode()).hexdigest()
    stored = b"".join(plain(body_of(world.store, info.key)) for info in world.store.list(world.layout.root.key))
    assert not any(result.predicate_salt.encode() in stored for result in (first, second))
    told = [str(first.event_facts()), first.to_text(), *first.notes]
    assert not any(first.predicate_salt in text for text in told)


def lived_in() -> World:
    """Return a table in which everything has been put that this library ever puts."""
    world = with_ann()
    world.config = replace(world.config, mirrors=("delta",))
    world.keeper.rollback(T, version=1)
    with mock.patch("table_writer.protocol.log.table_log.FOLD_EVERY_VERSIONS", 1):
        world.vacuum()
    killed(world)
    world.stage({"d6": ids(6)})
    dying(world, lambda: world.write({"d1": ids(7)}))
    purge(world, ANN)
    return world


def test_every_object_of_a_table_lies_in_a_place_that_a_certificate_speaks_of() -> None:
    world = lived_in()
    own = world.layout.own.key
    below = [f"{own}{part}".replace("_table_writer/../", "") for place in PLACES for part in place.below]
    keys = [info.key for info in world.store.list(world.layout.root.key)]
    assert [key for key in keys if not key.startswith(tuple(below))] == []
    directories = {key.removeprefix(own).partition("/")[0] for key in keys if key.startswith(own)}
    assert {"data", "log", "staged", "writes"} <= directories


def test_a_certificate_says_what_the_log_keeps_and_for_how_long(world: World) -> None:
    purge(world, ids(22, 2))  # all rows of d2: it is dropped
    world.keeper.vacuum(T)
    later = world.keeper.erasure(T).later
    assert "the log keeps names of partitions: an entry goes with a vacuum once it is 720 hours old" in later[0]
    assert "on version 1, 2, 3 something depends now" in later[1]
    assert "of 1 partition without rows the log keeps the name for as long as it is there" in later[2]


def test_a_certificate_names_figures_that_others_have_left_in_the_table(world: World) -> None:
    figure = {"spark.sql.statistics.colStats.id.max": "22"}
    world.metastore.create_table(replace(world.table, parameters={**world.table.parameters, **figure}))
    purge(world, ANN)
    assert any("as ANALYZE TABLE has found them" in text for text in world.keeper.erasure(T).later)


def test_a_purge_works_again_where_another_tool_has_put_a_dropped_partition_back() -> None:
    world = World()
    world.written_by_another_tool("d2", ANN)
    world.write({"d9": ids(9)})
    purge(world, ANN)
    world.write({"d9": ids(10)})
    put_back(world, "d2", f"{world.root}dt=d2/")  # MSCK REPAIR TABLE
    snapshot = Snapshot(NO_SPARK, world.services())
    assert set(snapshot.files_of(snapshot.existing)[("d2",)]) == {"part-0.json"}
    world.keeper.vacuum(T)
    assert world.rows()["d2"] == ANN
    purge(world, ANN)
    world.keeper.vacuum(T)
    assert world.keeper.erasure(T).is_complete
    assert holders(world, ANN) == []


def test_on_glue_a_dropped_partition_that_another_tool_has_put_back_is_dropped_again_and_erased() -> None:
    world = World()
    world.metastore.uri = "glue://eu-west-1"
    world.written_by_another_tool("d2", ANN)
    world.write({"d9": ids(9)})
    purge(world, ANN)
    world.write({"d9": ids(10)})
    put_back(world, "d2", f"{world.root}dt=d2/")  # MSCK REPAIR TABLE
    world.keeper.vacuum(T)
    snapshot = Snapshot(NO_SPARK, world.services())
    with pytest.raises(InvalidInputError, match=r"DROP PARTITION, and then `table-writer vacuum"):
        snapshot.files_of(snapshot.existing)
    world.dropped_by_another_tool("d2")
    world.keeper.vacuum(T)
    assert world.keeper.erasure(T).is_complete
    assert holders(world, ANN) == []


def test_a_drop_that_comes_between_the_looks_of_a_snapshot_is_none_of_another_tool() -> None:
    world = World()
    world.written_by_another_tool("d2", ANN)
    world.write({"d9": ids(9)})
    opened = world.services()
    before_the_log_is_read = partial(world.at_store, "list_page", "before", lambda: purge(world, ANN))
    world.at_metastore("get_partitions", "after", before_the_log_is_read)
    snapshot = Snapshot(NO_SPARK, opened)
    assert (world.store.on_call, snapshot.files_of([("d2",)])) == (None, {})


# Readers who come back to what is to be erased, and leave it again


def overwritten_where_it_was_put_back(world: World) -> None:
    purge(world, ANN)
    put_back(world, "d2", first_place(world))
    world.write({"d2": ids(5)})


def brought_by_a_late_call(world: World, *, in_place: bool = False) -> None:
    if in_place:
        append = partial(world.write, {"d2": ids(222)}, plan=world.plan(WriteMode.APPEND, in_place=True))
        come = without_answer(world, append)
    else:
        come = without_answer(world, lambda: world.write({"d2": ids(2, 222)}))
    recovered(world)
    purge(world, ANN)
    come()
    world.keeper.recover(T)


COMING_BACK: Final[dict[str, Callable[[World], None]]] = {
    "another tool": overwritten_where_it_was_put_back,
    "a late call": brought_by_a_late_call,
    "a late call of an append in place": partial(brought_by_a_late_call, in_place=True),
}


@pytest.mark.parametrize("after", ["nothing", "vacuum", "recover"])
@pytest.mark.parametrize("name", COMING_BACK)
def test_an_erasure_ends_once_its_files_are_gone_and_until_then_nobody_goes_back_to_them(name: str, after: str) -> None:
    world = with_ann()
    COMING_BACK[name](world)
    if after != "nothing":
        getattr(world.keeper, after)(T)
    while holders(world, ANN):
        assert None in outcomes(world)
        assert not world.keeper.erasure(T).is_complete
        assert shown_by_versions(world) == set()
        for version in range(1, world.services().log.lister.read().newest):
            with suppress(TableWriterError):
                world.keeper.rollback(T, version=version)
            assert not world.rows()["d2"] & ANN
        world.skipped_seconds += DAY_SECONDS
        world.keeper.vacuum(T)
        assert world.skipped_seconds < 9 * DAY_SECONDS
    world.keeper.vacuum(T)
    assert set(outcomes(world)) == {Outcome.PUBLISHED}
    assert world.keeper.erasure(T).is_complete


def test_new_files_of_another_tool_where_it_had_others_keep_no_erasure_from_its_end() -> None:
    world = World()
    world.written_by_another_tool("d2", ANN)
    world.write({"d9": ids(9)})
    purge(world, ANN)
    world.store.delete([f"{world.layout.root.key}dt=d2/part-0.json"])  # INSERT OVERWRITE
    world.store.put(f"{world.layout.root.key}dt=d2/part-1.json", b"[5]")
    put_back(world, "d2", f"{world.root}dt=d2/")
    world.write({"d2": ids(6)})
    world.keeper.vacuum(T)
    assert outcomes(world) == [Outcome.PUBLISHED]
    assert world.keeper.erasure(T).is_complete


def shown_by_versions(world: World) -> set[int]:
    """Return the versions that a read would show, and of which it would show the row."""
    shown: set[int] = set()
    for version in range(1, world.services().log.lister.read().newest):
        with suppress(TableWriterError):
            (past,) = Past(world.services(), version=version).partitions(["dt=d2"])
            files = world.store.list(Location.parse(past.location).key)
            rows = {row for file in files for row in json.loads(plain(body_of(world.store, file.key)))}
            shown |= {version} if rows & ANN else set()
    return shown


# Late calls


def abandoned_append(world: World) -> Callable[[], bool]:
    """An append without an answer, which a recovery gives up since another tool has inserted; returns the late call."""
    come = without_answer(world, lambda: world.write({"d2": ids(222)}, plan=world.plan(WriteMode.APPEND)))
    insert(world, "d2", 7)
    recovered(world)
    return come


def test_an_abandoned_write_stays_as_a_whole_while_its_call_may_bring_readers_into_it(world: World) -> None:
    come = abandoned_append(world)
    purge(world, ANN)
    world.keeper.vacuum(T)
    assert not world.keeper.erasure(T).is_complete
    assert come()
    assert world.rows()["d2"] == ids(2, 22, 222)
    world.keeper.recover(T)
    assert world.rows()["d2"] == ids(7, 22)
    purge(world, ANN)
    world.skipped_seconds += LATE + DAY_SECONDS
    world.keeper.recover(T)
    world.keeper.vacuum(T)
    assert (holders(world, ANN), world.rows()["d2"]) == ([], ids(7, 22))
    assert world.keeper.erasure(T).is_complete


def planned_after_all_was_left(world: World) -> None:
    """Stage a write that was planned when readers had left the row: a discard reads no older entries."""
    world.write({"d2": ids(23)})
    world.write({"d4": ids(4)})
    world.write({"d5": ids(55)})
    world.stage({"d1": ids(5)})


def test_a_discard_does_not_end_an_erasure_that_waits_for_its_vacuum() -> None:
    world = with_ann()
    planned_after_all_was_left(world)
    purge(world, ANN)
    due = world.history().records[-1].entry
    world.discard_staged()
    assert world.services().log.slots.outcome(due.version) is None
    world.keeper.vacuum(T)
    assert holders(world, ANN) == []
    assert world.keeper.erasure(T).is_complete


def test_a_discard_does_not_end_a_vacuum_that_was_refused() -> None:
    world = with_ann()
    planned_after_all_was_left(world)
    with mock.patch.object(world.store, "delete", side_effect=StorageError("AccessDenied")):
        refused = world.vacuum()
    world.wait_out_claims()
    world.discard_staged()
    assert refused.version is not None
    assert world.services().log.slots.outcome(refused.version) is None
    assert world.vacuum().failures == ()
    assert world.leftovers() == []


def test_what_another_tool_has_pointed_readers_back_to_is_not_erased() -> None:
    world = World()
    world.write({"d1": ids(1), "d2": ids(2)})
    before = world.partitions()
    world.write({"d1": ids(3), "d2": ids(4)})
    world.pointed_by_another_tool("d1", before["d1"].location)
    erased = erase(world)
    assert [deletion.location for deletion in erased.deletes] == [before["d2"].location]


def test_an_erasure_that_waits_for_its_vacuum_is_no_dead_one() -> None:
    world = World()
    world.write({"d1": ids(1, 2)})
    world.write({"d1": ids(2, 3)})
    purge(world, ANN)
    world.wait_out_claims()
    [status] = world.keeper.tables().tables
    assert (status.in_doubt, status.health) == ((), "ok")
    found = {finding.check: finding.status for finding in world.keeper.doctor(T).findings}
    assert found["log"] == "ok"
    assert found["erasures"] != "ok"
