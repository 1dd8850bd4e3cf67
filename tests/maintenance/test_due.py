"""What may be deleted now, by the log, the metastore's locations and ages alone; and which writes are dead."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from table_writer.errors import InvalidInputError
from table_writer.model.entry import ReplacedLocation, ReplacedObject
from table_writer.model.location import Location
from table_writer.model.table import Partition
from table_writer.model.write import new_write_id
from table_writer.protocol.log.records import SlotRecord
from table_writer.protocol.log.state import LeftLocation
from table_writer.protocol.log.trimming import Trimming
from table_writer.protocol.vacuum.due import (
    Ages,
    DueLocations,
    due_locations,
    in_use,
    is_used,
    look_for_traces,
    may_go,
    require_safe,
)
from table_writer.storage.object_store import UploadInfo
from tests.log.test_history import abandoned, history, replacing
from tests.log.test_rules import D1, D2, LAYOUT, THEIRS, at, entry, published, rollback
from tests.publish.world import DeathError, Fault, World

HOUR = 3600.0
USUAL = Ages(replaced_seconds=None, usual_seconds=2 * HOUR, dead_write_seconds=HOUR)


def partition(location: str) -> Partition:
    return Partition(values=D1, location=location)


def chosen(found: DueLocations) -> list[str]:
    return [str(one.location) for one in found.locations]


def replaced_ours(age_seconds: float) -> tuple[SlotRecord, SlotRecord]:
    return published(entry(1, D1)), published(entry(2, D1, old=at("w1")), outcome_age_seconds=age_seconds)


@pytest.mark.parametrize(
    ("ages", "scheduled", "seconds"),
    [
        (USUAL, None, 2 * HOUR),
        (USUAL, 5 * HOUR, 5 * HOUR),
        (replace(USUAL, replaced_seconds=HOUR), 5 * HOUR, HOUR),
        (replace(USUAL, replaced_seconds=0.0), None, 0.0),
        (replace(USUAL, replaced_seconds=0.0, least_seconds=HOUR), None, HOUR),
        (replace(USUAL, least_seconds=3 * HOUR), None, 3 * HOUR),
    ],
)
def test_how_long_a_location_stays(ages: Ages, scheduled: float | None, seconds: float) -> None:
    left = LeftLocation(location=Location.parse(THEIRS), left_by=1, age_seconds=0.0, retention_seconds=scheduled)
    assert ages.of_replaced(left) == seconds
    assert ages.history_seconds == math.inf


def test_a_location_goes_at_its_age_and_not_a_second_earlier() -> None:
    young, old = history(*replaced_ours(2 * HOUR - 1)), history(*replaced_ours(2 * HOUR))
    assert chosen(due_locations(young, in_use(young, []), USUAL)) == []
    (kept,) = due_locations(young, in_use(young, []), USUAL).kept
    assert (str(kept.location), kept.reason) == (at("w1"), "its retention lasts 0.0 more hours")
    assert due_locations(old, in_use(old, []), USUAL) == DueLocations(tuple(old.state.left_locations.values()), ())
    assert (
        "lasts 1.5 more hours"
        in due_locations(history(*replaced_ours(HOUR / 2)), in_use(old, []), USUAL).kept[0].reason
    )


@pytest.mark.parametrize("there", [at("w1"), f"{at('w1')}below/", str(LAYOUT.data("w1")), "s3://lake/"])
def test_a_location_that_readers_look_at_below_or_from_above_stays(there: str) -> None:
    old = history(*replaced_ours(3 * HOUR))
    found = due_locations(old, in_use(old, [partition(there)]), USUAL)
    assert chosen(found) == []
    assert "readers may look there" in found.kept[0].reason


def test_readers_of_the_root_do_not_look_into_this_librarys_directory() -> None:
    old = history(*replaced_ours(3 * HOUR))
    assert chosen(due_locations(old, in_use(old, [partition("s3n://lake/t")]), USUAL)) == [at("w1")]


def test_a_staged_write_whose_publish_was_given_up_stays() -> None:
    old = history(published(entry(1, D1)), replace(abandoned(entry(2, D1)), outcome_age_seconds=3 * HOUR))
    used = in_use(old, [])
    assert chosen(due_locations(old, used, USUAL)) == [str(LAYOUT.data("w2"))]
    assert chosen(due_locations(old, used, USUAL, ["w1"])) == [str(LAYOUT.data("w2"))]
    found = due_locations(old, used, USUAL, ["w2"])
    assert (chosen(found), found.kept[0].reason) == ([], "the write is staged, and has not expired")


def test_a_directory_around_one_that_stays_is_not_deleted() -> None:
    given_up = replace(abandoned(entry(1, D1)), outcome_age_seconds=3 * HOUR)
    old = history(given_up, published(entry(2, D1, old=at("w1")), outcome_age_seconds=HOUR))
    assert chosen(due_locations(old, in_use(old, []), USUAL)) == []
    older = history(given_up, published(entry(2, D1, old=at("w1")), outcome_age_seconds=3 * HOUR))
    assert chosen(due_locations(older, in_use(older, []), USUAL)) == [str(LAYOUT.data("w1")), at("w1")]


def test_what_other_tools_wrote_goes_only_where_it_is_listed_and_below_the_root() -> None:
    def scheduled(location: str, *objects: ReplacedObject) -> DueLocations:
        one = entry(1, D1, old=location)
        schedule = ReplacedLocation(location=location, delete_after=one.created_at, objects=objects)
        found = history(published(replace(one, replaced=(schedule,)), outcome_age_seconds=3 * HOUR))
        return due_locations(found, in_use(found, []), USUAL)

    listed = ReplacedObject(key="t/dt=d1/a", size_bytes=1, etag="e")
    assert chosen(scheduled(THEIRS, listed)) == [THEIRS]
    assert chosen(scheduled(THEIRS)) == []
    assert chosen(scheduled("s3a://lake/elsewhere/", msgspec.structs.replace(listed, key="elsewhere/a"))) == []
    assert chosen(scheduled("s3a://other/t/dt=d1/", listed)) == []


@pytest.mark.parametrize(
    ("key", "location", "allowed"),
    [
        ("t/dt=d1/a", THEIRS, True),
        ("t/dt=d1/x/a", THEIRS, True),
        ("t/dt=d2/a", THEIRS, False),
        ("t/dt=d1", THEIRS, False),
        ("t2/dt=d1/a", "s3a://lake/t2/dt=d1/", False),
        ("t/_table_writer/log/1.json", "s3a://lake/t/", False),
        ("t/_table_writer/owner.json", "s3a://lake/t/_table_writer/", False),
        ("t/part-0", "s3a://lake/t/", True),
    ],
)
def test_an_entry_cannot_name_an_object_elsewhere(key: str, location: str, allowed: bool) -> None:
    named = ReplacedObject(key=key, size_bytes=1, etag="e")
    assert may_go(history(), Location.parse(location), named) is allowed


def test_of_other_tools_files_none_goes_while_readers_look_at_one() -> None:
    found = history(published(replacing(1), outcome_age_seconds=3 * HOUR))
    (left,) = found.state.left_locations.values()
    assert is_used(in_use(found, [partition(THEIRS)]), left)
    assert is_used(in_use(found, [partition("s3a://lake/t/")]), left)
    assert not is_used(in_use(found, [partition("s3a://lake/t/dt=d11/")]), left)
    assert not is_used(in_use(found, [partition("s3a://lake/t/dt=d1/below/")]), left), "its files lie above"


def test_a_location_that_cannot_be_read_stops_everything() -> None:
    with pytest.raises(InvalidInputError, match=r"\('d1',\) cannot be read.*SET LOCATION"):
        in_use(history(), [partition("nowhere")])


def test_locations_go_in_the_order_in_which_readers_left_them() -> None:
    names = ("w3", "w1", "w2")
    records = [published(entry(1, D1, write_id=names[0]))]
    for number in (1, 2):
        one = entry(number + 1, D1, write_id=names[number], old=at(names[number - 1]))
        records.append(published(one, outcome_age_seconds=3 * HOUR))
    found = history(*records)
    assert chosen(due_locations(found, in_use(found, []), USUAL)) == [at("w3"), at("w1")]


@pytest.fixture
def world() -> World:
    world = World()
    world.write({"d1": frozenset({1})})
    return world


def given_up(world: World, *, call: str = "complete_upload", number: int = 1) -> str:
    """Return a write that died with what it had by then, and its registration gone."""
    plan = world.plan()
    with world.inject(Fault("store", call, number, "before", DeathError)), pytest.raises(DeathError):
        world.write({"d1": frozenset({5}), "d2": frozenset({6})}, plan=plan)
    world.store.delete([world.layout.registration_key(plan.write_id)])
    return plan.write_id


def dead(world: World, older_than_seconds: float) -> dict[str, str]:
    found = world.history()
    traces = look_for_traces(world.store, world.layout)
    used = in_use(found, world.partitions().values())
    return {one.write_id: one.reason for one in traces.dead_writes(world.store, found, used, older_than_seconds)}


@pytest.mark.parametrize("number", [1, 2], ids=["only uploads", "an object and an upload"])
def test_a_write_without_a_registration_is_as_old_as_its_youngest_trace(world: World, number: int) -> None:
    write_id = given_up(world, number=number)
    world.skipped_seconds += 2 * HOUR
    world.store.create_upload(f"{world.layout.data(write_id).key}late")
    world.skipped_seconds += HOUR - 1
    assert dead(world, HOUR) == {}
    world.skipped_seconds += 2
    assert dead(world, HOUR) == {write_id: "it has no registration and is 1.0 hours old"}
    world.store.put(f"{world.layout.data(write_id).key}later", b"x")
    assert dead(world, HOUR) == {}


def test_one_write_that_lives_hides_no_other_that_is_dead(world: World) -> None:
    writes = [given_up(world) for _ in range(3)]
    world.skipped_seconds += 2 * HOUR
    alive = min(writes)
    world.store.put(f"{world.layout.data(alive).key}now", b"x")
    assert set(dead(world, HOUR)) == set(writes) - {alive}
    location = f"{world.layout.data(alive)}dt=d7/"
    world.skipped_seconds += 2 * HOUR
    world.pointed_by_another_tool("d7", location)
    assert set(dead(world, HOUR)) == set(writes) - {alive}, "readers look at it"


def test_why_a_write_is_dead_is_said(world: World) -> None:
    plan = world.plan()
    with world.inject(Fault("store", "complete_upload", 1, "before", DeathError)), pytest.raises(DeathError):
        world.write({"d1": frozenset({5})}, plan=plan)
    staged = world.stage({"d1": frozenset({6})}, expires_after_seconds=HOUR)
    world.skipped_seconds += 2 * HOUR
    assert dead(world, HOUR) == {
        plan.write_id: "its writer gave its last sign of life 2.0 hours ago",
        staged: "it was staged 2.0 hours ago",
    }
    world.keeper.vacuum(str(world.name), older_than=timedelta(0), force=True)
    world.store.put(f"{plan.data_location.key}straggler", b"x")
    assert dead(world, HOUR) == {plan.write_id: "given up in version 2"}


def test_a_write_that_ever_claimed_is_none_of_them(world: World) -> None:
    for info in list(world.store.list(world.layout.registrations.key)):
        world.store.delete([info.key])
    world.skipped_seconds += 100 * HOUR
    assert dead(world, 0.0) == {}


def test_a_directory_that_no_write_could_have_is_nobodys(world: World) -> None:
    world.store.put(f"{world.layout.all_data.key}.hidden/x", b"x")
    world.store.put(f"{world.layout.all_data.key}file", b"x")
    world.store.create_upload(f"{world.layout.all_data.key}.hidden/y")
    world.skipped_seconds += 100 * HOUR
    assert dead(world, 0.0) == {}


def test_a_partition_that_may_be_hidden_keeps_every_place_where_it_ever_was() -> None:
    back = replace(rollback(4, 0, D2), partitions=(replace(entry(4, D2).partitions[0], new_location=None),))
    source = replace(entry(5, D1, old=at("w2")).partitions[0], source=at("w5"), new_location=at("w2"))
    found = history(
        entry(1, D1, old=THEIRS),
        entry(2, D1, old=at("w1")),
        entry(3, D2),
        back,
        replace(entry(5), partitions=(source,)),
    )
    hidden, shown = in_use(found, [], lambda: "a filter"), in_use(found, [partition(at("w2"))], lambda: "a filter")
    assert all(hidden.meets(Location.parse(at(name)).place) for name in ("w1", "w2", "w5"))
    assert hidden.meets(Location.parse(THEIRS).place)
    assert not hidden.meets(Location.parse(at("w3", D2)).place), "it shall not exist"
    assert not shown.meets(Location.parse(at("w1")).place), "the metastore shows it"
    assert not in_use(found, []).meets(Location.parse(at("w1")).place), "nothing is hidden"


def test_a_partition_that_may_be_hidden_keeps_the_places_that_a_fold_says_it_has_left() -> None:
    records = (entry(1, D1, D2), entry(2, D1, D2, old=at("w1")), entry(3, D1, old=at("w2")))
    folded = history().but(fold=Trimming(history(*records)).fold("log-1"))
    there = Partition(values=D2, location=at("w2", D2))
    used = in_use(folded, [there], lambda: "a filter")
    assert all(used.meets(Location.parse(at(name)).place) for name in ("w2", "w3"))
    assert used.meets(Location.parse(at("w1")).place), "where it was first, by the fold's list of what is left"
    assert not used.meets(Location.parse(at("w9")).place)


def test_an_upload_is_its_writes_by_its_directory_or_by_an_id_in_its_name(world: World) -> None:
    traces = replace(look_for_traces(world.store, world.layout), layout=LAYOUT)
    known, unheard_of = history(entry(1, D1)), new_write_id()
    expected = {
        f"{LAYOUT.data('w9').key}part-0": "w9",
        f"t/dt=d1/part-00000-{unheard_of}-0-0.json": unheard_of,
        "t/dt=d1/part-00000-w1-0-0.json": "w1",
        "t/dt=d1/part-0.json": None,
        f"t/{unheard_of}/part-0.json": None,
    }
    for key, write_id in expected.items():
        upload = UploadInfo(key=key, upload_id="u", initiated_at=traces.now - timedelta(seconds=5))
        assert traces.write_id_of(upload, known) == write_id
        assert traces.age_seconds(upload) == 5.0
        assert traces.age_seconds(replace(upload, initiated_at=traces.now + timedelta(seconds=5))) == 0.0


def test_copies_to_other_tools_places_are_aborted_once_they_are_as_old_as_dead_writes(world: World) -> None:
    traces = replace(look_for_traces(world.store, world.layout), layout=LAYOUT, registered={}, uploads={})
    found, doubtful = history(entry(1, D1)), history(SlotRecord(entry(1, D1), None, 0.0))
    for age, aborted in ((HOUR - 1, 0), (HOUR, 1)):
        at_that_time = traces.now - timedelta(seconds=age)
        ours = UploadInfo(key="t/dt=d1/part-00000-w1-0-0.json", upload_id="u", initiated_at=at_that_time)
        copies = [ours, replace(ours, key="t/dt=d1/part-0.json")]
        seen = replace(traces, elsewhere=tuple(copies))
        assert seen.leftover_uploads(found, HOUR) == tuple(copies[:aborted])
        assert seen.leftover_uploads(doubtful, HOUR) == (), "it may be copied now"
        own = replace(seen, elsewhere=(), uploads={"w1": copies[:1], "w2": copies[1:]})
        assert own.leftover_uploads(found, HOUR) == tuple(copies[:1]), "no claim of it is in doubt: whatever its age"
        assert own.leftover_uploads(doubtful, HOUR) == ()


def test_locations_stay_for_reasons_that_come_later_too() -> None:
    found = history(*replaced_ours(2 * HOUR))
    all_due = due_locations(found, in_use(found, []), USUAL)
    (left,) = all_due.locations
    kept = all_due.with_kept({left.location.place: "why"})
    assert (kept.locations, [(each.location, each.reason) for each in kept.kept]) == ((), [(left.location, "why")])
    assert kept.with_kept({}).kept == kept.kept
    assert all_due.with_kept({Location.parse(at("w9")).place: "why"}) == all_due


@pytest.mark.parametrize(
    ("seconds", "force", "refused"), [(-1, True, True), (59, False, True), (59, True, False), (60, False, False)]
)
def test_an_age_below_the_least_takes_force_and_a_negative_one_is_none(
    seconds: float, force: bool, refused: bool
) -> None:
    age, least = timedelta(seconds=seconds), timedelta(minutes=1)
    if not refused:
        require_safe("mart.t", age, least, force=force)
        return
    with pytest.raises(InvalidInputError) as error:
        require_safe("mart.t", age, least, force=force)
    if seconds > 0:
        assert "0:00:59 is less than 0:01:00" in str(error.value)
        assert error.value.table == "mart.t"
