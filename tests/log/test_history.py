"""What a log says as a whole, from its records alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from table_writer.model.entry import (
    AddedFile,
    DeletedLocation,
    Key,
    LogEntry,
    Operation,
    Outcome,
    ReplacedLocation,
    ReplacedObject,
)
from table_writer.model.location import Location
from table_writer.model.table import VERSION_PARAMETER
from table_writer.model.write import written_ids
from table_writer.protocol.log.history import History
from table_writer.protocol.log.past_states import PastLocation
from table_writer.protocol.log.placements import Placement, RightPlace
from table_writer.protocol.log.records import UNRECORDED, SlotRecord
from table_writer.protocol.log.trimming import Trimming, foldable

from .test_rules import D1, D2, D3, EMPTY, LAYOUT, THEIRS, at, entry, published, rollback, vacuum

OLD = {"outcome_age_seconds": 100.0}
OBJECT = ReplacedObject(key="t/dt=d1/part-0", size_bytes=7, etag="e")


def history(*records: SlotRecord | LogEntry) -> History:
    return History(LAYOUT, [one if isinstance(one, SlotRecord) else published(one) for one in records])


def in_doubt(one: LogEntry) -> SlotRecord:
    return SlotRecord(one, None, 0.0)


def abandoned(one: LogEntry) -> SlotRecord:
    return published(one, outcome=Outcome.ABANDONED)


def left(of: History) -> dict[str, int]:
    return {str(one.location): one.left_by for one in of.state.left_locations.values()}


def replacing(version: int, **changes: object) -> LogEntry:
    one = entry(version, D1, old=THEIRS)
    schedule = ReplacedLocation(location=THEIRS, delete_after=one.created_at + timedelta(hours=2), objects=(OBJECT,))
    return replace(one, replaced=(replace(schedule, **changes),))


def test_an_empty_log_says_nothing() -> None:
    empty = history()
    assert (empty.newest, empty.records.in_doubt, empty.records.published, empty.in_use()) == (0, (), (), frozenset())
    assert empty.claimed_ids == empty.records.possibly_published_ids == empty.records.ids_in_doubt == frozenset()


def test_entries_in_doubt_are_told_apart_and_a_vacuum_changes_no_partition() -> None:
    records = (published(entry(1, D1)), in_doubt(entry(2, D1)), in_doubt(vacuum(3, at("w9"))), vacuum(4, at("w8")))
    found = history(*records)
    assert [one.entry.version for one in found.records.in_doubt] == [2, 3]
    assert [one.entry.version for one in found.records.publishes_in_doubt] == [2]
    assert [one.entry.version for one in found.records.published] == [1]
    assert found.newest == 4


def test_a_write_is_known_by_its_own_name_and_by_every_location_that_an_entry_names() -> None:
    recovery = entry(3, D1, operation=Operation.RECOVER, recovers=2, write_id="r3")
    recovery = replace(recovery, partitions=(replace(recovery.partitions[0], new_location=at("w2")),))
    found = history(abandoned(entry(1)), abandoned(entry(2, D1, old=at("w0"))), in_doubt(recovery), vacuum(4, at("w8")))
    assert found.claimed_ids == {"w0", "w1", "w2"}
    assert found.records.possibly_published_ids == found.records.ids_in_doubt == {"w2"}
    assert written_ids(LAYOUT, recovery) == {"r3", "w2"}
    assert written_ids(LAYOUT, replace(entry(5, D1, old=at("w0")), partitions=())) == {"w5"}


def test_the_publication_of_a_write_is_the_first_entry_that_showed_it_to_readers() -> None:
    recovery = entry(2, D1, operation=Operation.RECOVER, recovers=1, write_id="r2")
    recovery = replace(recovery, partitions=entry(1, D1).partitions)
    back = replace(rollback(4, 2, D1), partitions=entry(1, D1).partitions)
    found = history(abandoned(entry(1, D1)), recovery, entry(3, D1), back)
    publication = found.records.publication("w1")
    assert publication is not None
    assert publication.entry.version == 2
    assert found.records.publication("w3") is found.records[2]
    assert found.records.publication("w4") is None
    assert found.records.publication("w9") is None


def test_in_use_is_where_readers_look_and_where_they_may_look_once_all_is_resolved() -> None:
    found = history(entry(1, D1), entry(2, D2), abandoned(entry(3, D1)), in_doubt(entry(4, D1, old=at("w1"))))
    assert found.in_use() == {Location.parse(at(*one)).place for one in (("w1",), ("w2", D2), ("w4",))}
    dropped = replace(entry(2, D1, old=at("w1")).partitions[0], new_location=None)
    gone = replace(rollback(2, 0, D1), partitions=(dropped,))
    assert history(entry(1, D1), gone).in_use() == frozenset()
    assert history(entry(1, D1), in_doubt(gone)).in_use() == {Location.parse(at("w1")).place}


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (at("w2"), Placement.IN_PLACE),
        (at("w2").replace("s3a", "s3n"), Placement.IN_PLACE),
        (at("w1"), Placement.BEHIND),
        (at("w3"), Placement.MOVED),
        (THEIRS, Placement.MOVED),
        ("not a location", Placement.MOVED),
        (None, Placement.MISSING),
        (EMPTY, Placement.MISSING),  # of a publish that was refused
        (str(LAYOUT.placeholder("w1", D1)), Placement.BEHIND),
        (str(LAYOUT.placeholder("w1", D2)), Placement.MISSING),  # where no call of ours puts this partition
        (str(LAYOUT.placeholder("w1")), Placement.MISSING),
    ],
)
def test_where_a_partition_is_compared_with_where_the_log_has_put_it(now: str | None, expected: Placement) -> None:
    found = history(entry(1, D1, D2), entry(2, D1, old=at("w1")))
    assert found.placements.of(D1, now) is expected


@pytest.mark.parametrize(
    ("unverified", "answered", "late"),
    [([3], False, True), (None, False, True), ([3], True, False), ([], False, False), ([9], False, False)],
    ids=["unanswered", "whoever has not listed", "answered", "verified since", "another recovery's"],
)
def test_what_others_can_do_too_is_a_late_call_only_if_one_was_unanswered_and_nobody_has_verified_since(
    unverified: list[int] | None, answered: bool, late: bool
) -> None:
    first = replace(rollback(1, 0, D1), partitions=(replace(entry(1, D1).partitions[0], new_location=THEIRS),))
    second = replace(rollback(2, 0, D1), partitions=(replace(entry(2, D1).partitions[0], new_location=None),))
    recovery = entry(3, D2, operation=Operation.RECOVER, recovers=2)
    by = {} if answered else {"recorded_by": recovery.write_id}
    records = [published(first, **by), published(second, **by), published(recovery), published(entry(4, D1))]
    found = History(LAYOUT, records, unverified)
    assert found.placements.of(D1, THEIRS) is (Placement.BEHIND if late else Placement.MOVED)
    assert found.placements.of(D1, None) is (Placement.BEHIND if late else Placement.MISSING)


def test_a_call_of_an_entry_may_come_late_where_its_outcome_was_rebuilt_and_a_recoverys_own_may_not() -> None:
    first = replace(rollback(1, 0, D1), partitions=(replace(entry(1, D1).partitions[0], new_location=THEIRS),))
    recovery = replace(first, operation=Operation.RECOVER)
    for one, unverified, expected in (
        (first, {1}, Placement.BEHIND),
        (first, {2}, Placement.MOVED),
        (recovery, {1}, Placement.MOVED),
    ):
        found = History(LAYOUT, [published(one), published(entry(2, D1))], unverified)
        assert found.placements.of(D1, THEIRS) is expected


def test_no_entry_is_trimmed_or_folded_whose_call_may_have_come_late_unseen() -> None:
    first, second = (
        replace(entry(number, operation=Operation.RECOVER, recovers=number - 1), partitions=entry(4, D2).partitions)
        for number in (5, 6)
    )
    old = [published(entry(number), outcome_age_seconds=100.0) for number in (1, 2, 3)]
    died = published(entry(4, D2), recorded_by=first.write_id, outcome_age_seconds=100.0)
    again = published(first, recorded_by=second.write_id, outcome_age_seconds=100.0)
    records = [*old, died, again, published(second, outcome_age_seconds=100.0), published(entry(7, D2)), entry_of_d1()]

    def kept(*unverified: int) -> tuple[frozenset[int], int]:
        found = History(LAYOUT, records, unverified)
        return frozenset(range(1, 7)) - Trimming(found).versions(99.0), foldable(found)

    assert kept() == (frozenset(), 7)
    assert kept(5, 6) == kept(6) == ({4, 5, 6}, 3)
    assert kept(5) == ({4, 5}, 3)
    assert kept(2) == ({2}, 1), "a mark of an outcome that was rebuilt"
    assert kept(9) == (frozenset(), 7), "it has not claimed its entry yet: what it recovers is in doubt, or published"
    lost = History(LAYOUT, [one for one in records if one.entry.version != 5], [5])
    assert (Trimming(lost).versions(99.0), foldable(lost)) == (frozenset(), 0)


def entry_of_d1() -> SlotRecord:
    return published(entry(8, D1))


def test_calls_may_come_late_to_where_entries_want_to_go_that_a_recovery_has_ended() -> None:
    recovery = entry(3, D2, operation=Operation.RECOVER, recovers=2)
    records = [published(entry(1, D1)), published(entry(2, D2), recorded_by=recovery.write_id), published(recovery)]
    location = Location.parse(str(entry(2, D2).partitions[0].new_location))
    assert History(LAYOUT, records, [3]).placements.late_places.holds(location.place)
    assert History(LAYOUT, records, [3]).placements.late_places.meets(location.beside(LAYOUT.data("w2").key).place)
    assert not History(LAYOUT, records, []).placements.late_places.meets(location.place)


def test_a_partition_that_was_dropped_is_in_place_while_it_is_gone_or_empty() -> None:
    dropped = replace(rollback(2, 0, D1), partitions=(replace(entry(2, D1).partitions[0], new_location=None),))
    found = history(entry(1, D1), dropped)
    assert found.placements.of(D1, None) is Placement.IN_PLACE
    assert found.placements.of(D1, EMPTY) is Placement.IN_PLACE
    assert found.placements.of(D1, at("w1")) is Placement.BEHIND
    assert found.placements.of(D1, THEIRS) is Placement.MOVED


def test_the_state_at_a_version_is_what_the_newest_entry_up_to_then_had_made() -> None:
    found = history(
        entry(1, D1),
        entry(2, D2, old=THEIRS),
        entry(3, D1, old=at("w1")),
        abandoned(entry(4, D1, old=at("w3"))),
        entry(5, D1),
    )
    assert found.past.changed_since(0) == {D1: PastLocation(None, known=True), D2: PastLocation(THEIRS, known=True)}
    assert found.past.changed_since(1) == {D1: PastLocation(at("w1"), known=True), D2: PastLocation(THEIRS, known=True)}
    assert found.past.changed_since(2) == {D1: PastLocation(at("w1"), known=True)}
    assert found.past.changed_since(3) == found.past.changed_since(4) == {D1: PastLocation(at("w3"), known=True)}
    assert found.past.changed_since(5) == {}


def test_a_state_that_only_trimmed_entries_tell_is_not_known() -> None:
    found = history(entry(1, D1), entry(4, D1, D2, old=at("w2")), entry(5, D1))
    assert found.past.changed_since(1) == {
        D1: PastLocation(at("w1"), known=True),
        D2: PastLocation(at("w2"), known=False),
    }
    assert found.past.changed_since(3)[D1] == PastLocation(at("w1"), known=False), "2 or 3 may have moved it"
    assert found.past.changed_since(3)[D2] == PastLocation(at("w2"), known=True)
    assert found.past.changed_since(4) == {D1: PastLocation(at("w4"), known=True)}
    borne_out = history(entry(1, D1), entry(4, D1, old=at("w1")))
    assert borne_out.past.changed_since(3) == {D1: PastLocation(at("w1"), known=True)}


def test_the_newest_word_on_the_files_of_a_location_is_returned() -> None:
    first = replace(entry(1, D1), partitions=(replace(entry(1, D1).partitions[0], rows=5),))
    again = replace(rollback(3, 1, D1), partitions=(replace(entry(1, D1).partitions[0], rows=6),))
    found = history(first, entry(2, D1), again)
    described = found.past.content_at(D1, Location.parse(at("w1").replace("s3a", "s3")))
    assert described is not None
    assert described.rows == 6
    assert found.past.content_at(D1, Location.parse(THEIRS)) is None
    assert found.past.content_at(D2, Location.parse(at("w1"))) is None


def test_what_readers_have_left_is_scheduled_with_all_that_the_log_knows_of_it() -> None:
    mine = replace(entry(1, D1), partitions=(replace(entry(1, D1).partitions[0], bytes=11),))
    found = history(mine, published(entry(2, D1, old=at("w1")), outcome_age_seconds=60.0))
    (one,) = found.state.left_locations.values()
    assert (str(one.location), one.left_by, one.age_seconds) == (at("w1"), 2, 60.0)
    assert (one.retention_seconds, one.objects, one.bytes) == (None, (), 11)
    (theirs,) = history(replacing(1)).state.left_locations.values()
    assert (theirs.retention_seconds, theirs.objects, theirs.bytes) == (7200.0, (OBJECT,), 7)
    past = replacing(1, delete_after=replacing(1).created_at - timedelta(days=1))
    assert [left.retention_seconds for left in history(past).state.left_locations.values()] == [0.0]


def test_a_schedule_of_our_own_files_keeps_what_is_known_of_their_size() -> None:
    mine = replace(entry(1, D1), partitions=(replace(entry(1, D1).partitions[0], bytes=11),))
    second = entry(2, D1, old=at("w1"))
    schedule = ReplacedLocation(location=at("w1"), delete_after=second.created_at + timedelta(days=3))
    (one,) = history(mine, replace(second, replaced=(schedule,))).state.left_locations.values()
    assert (one.bytes, one.retention_seconds) == (11, 3 * 86_400.0)


def test_a_location_to_which_readers_come_back_is_left_no_more() -> None:
    back = replace(rollback(3, 1, D1), partitions=(replace(entry(1, D1).partitions[0], old_location=at("w2")),))
    found = history(entry(1, D1), entry(2, D1, old=at("w1")), back)
    assert left(found) == {at("w2"): 3}
    assert left(history(abandoned(entry(1, D1)))) == {str(LAYOUT.data("w1")): 1}
    dropped = replace(entry(2, D1).partitions[0], old_location=at("w2"), new_location=None)
    both = replace(rollback(3, 1, D1, D2), partitions=(dropped, entry(1, D2).partitions[0]))
    found = history(entry(1, D2), entry(2, D1, D2), both)
    assert left(found) == {at("w2"): 3, at("w2", D2): 3}, "one is dropped, and readers come back to the other"
    recovery = replace(entry(2, operation=Operation.RECOVER, recovers=1), partitions=entry(1, D1).partitions)
    assert left(history(abandoned(entry(1, D1)), recovery)) == {}
    elsewhere = replace(rollback(2, 0, D1), partitions=entry(1, D1).partitions)
    assert left(history(abandoned(elsewhere))) == {}, "its files are another write's"
    assert left(history(abandoned(rollback(2, 0, D1)))) == {at("w2"): 2}, "it has copied them"
    restore = entry(2, D1, operation=Operation.RESTORE)
    assert left(history(abandoned(restore))) == {at("w2"): 2}, "so has a restore"


def test_a_partition_that_another_tool_had_moved_was_never_left_nor_come_to() -> None:
    one = published(replacing(1), superseded=frozenset({D1}))
    found = history(one)
    assert left(found) == {at("w1"): 1}, "what was written for it is nobody's"
    assert found.state.current_partitions == {}
    half = entry(2, D1, D2, old=THEIRS)
    schedule = replacing(2).replaced
    found = history(published(replace(half, replaced=schedule), superseded=frozenset({D2})))
    assert left(found) == {at("w2", D2): 2, THEIRS: 2}
    assert set(found.state.current_partitions) == {D1}


def test_what_a_vacuum_deleted_is_left_no_more_and_what_it_may_be_deleting_cannot_come_back() -> None:
    first = (entry(1, D1), entry(2, D1, old=at("w1")))
    place = Location.parse(at("w1")).place
    deletes = (DeletedLocation(location=at("w1"), replaced_by=2),)
    sweeps = entry(3, operation=Operation.VACUUM, deletes=deletes)
    kept = replace(sweeps, deletes=(replace(deletes[0], kept=True),))
    assert history(*first).past.is_restorable(Location.parse(at("w1")))
    done, doubtful, given_up, spared = (
        history(*first, one) for one in (sweeps, in_doubt(sweeps), abandoned(sweeps), kept)
    )
    assert (left(done), done.state.deleted_places, done.state.doomed_places) == ({}, {place: 3}, {})
    assert (left(doubtful), doubtful.state.deleted_places, doubtful.state.doomed_places) == (
        {at("w1"): 2},
        {},
        {place: 2},
    )
    assert (left(given_up), given_up.state.deleted_places, given_up.state.doomed_places) == ({at("w1"): 2}, {}, {})
    assert (left(spared), spared.state.deleted_places, spared.state.doomed_places) == ({at("w1"): 2}, {}, {})
    can_come_back = [one.past.is_restorable(Location.parse(at("w1"))) for one in (done, doubtful, given_up, spared)]
    assert can_come_back == [False, False, True, True]


def test_a_vacuum_of_what_was_left_once_deletes_nothing_that_was_left_again() -> None:
    again = (
        entry(1, D1),
        entry(2, D1, old=at("w1")),
        replace(rollback(3, 1, D1), partitions=(replace(entry(1, D1).partitions[0], old_location=at("w2")),)),
        entry(4, D1, old=at("w1")),
    )
    sweeps = entry(5, operation=Operation.VACUUM, deletes=(DeletedLocation(location=at("w1"), replaced_by=2),))
    found = history(*again, in_doubt(sweeps))
    assert found.state.outstanding_locations(sweeps) == ()
    swept = history(*again, sweeps)
    assert left(swept) == {at("w1"): 4, at("w2"): 3}
    assert not swept.past.is_restorable(Location.parse(at("w1"))), "deleted it is, by whatever the vacuum knew"
    newer = replace(sweeps, deletes=(replace(sweeps.deletes[0], replaced_by=4),))
    assert [str(one.location) for one in found.state.outstanding_locations(newer)] == [at("w1")]
    assert found.state.outstanding_locations(replace(newer, deletes=(replace(newer.deletes[0], kept=True),))) == ()
    assert not history(*again[:2], sweeps).past.is_restorable(Location.parse(at("w1")))
    back = history(*again[:2], replace(sweeps, version=3, base_version=2), replace(again[3], version=4))
    assert not back.past.is_restorable(Location.parse(at("w2", D2)))


def test_entries_are_trimmed_only_when_ended_for_longer_than_asked_and_never_the_newest() -> None:
    first, second = published(entry(1), **OLD), published(entry(2), **OLD)
    doubtful = replace(in_doubt(entry(3)), outcome_age_seconds=100.0)
    where_d1_is, newest = published(entry(4, D1), **OLD), published(entry(5), **OLD)
    found = history(first, second, doubtful, where_d1_is, newest)
    assert Trimming(found).versions(99.0) == {1, 2}
    assert Trimming(found).versions(100.0) == frozenset()


def test_the_newest_key_of_each_stream_stays_and_what_voids_a_key() -> None:
    keys = ("a/1", "b/1", "a/2", "c", "", "", "")
    records = [
        published(entry(n + 1, key=Key(key, key.partition("/")[0] if "/" in key else "")), **OLD)
        for n, key in enumerate(keys)
    ]
    assert Trimming(history(*records)).versions(99.0) == {1, 4, 5, 6}
    voids = replace(records[4], entry=replace(rollback(5, 3), write_id="w5"))
    assert Trimming(history(*records[:4], voids, *records[5:])).versions(99.0) == {1, 4, 6}
    voids_nothing = replace(voids, entry=replace(voids.entry, rollback_to=4))
    assert Trimming(history(*records[:4], voids_nothing, *records[5:])).versions(99.0) == {1, 4, 5, 6}


def in_place(version: int, name: str, *, location: str = at("w1"), **changes: object) -> LogEntry:
    """An append of a file to a partition in place."""
    one = entry(version, D1, old=location, **changes)
    added = (AddedFile(name=name, size_bytes=1),)
    partition = replace(one.partitions[0], new_location=location, source=one.partitions[0].new_location, added=added)
    return replace(one, partitions=(partition,))


def described(found: History, version: int | None = None) -> tuple[int | None, int, int] | None:
    one = found.past.content_at(D1, Location.parse(at("w1")), version=version)
    return one and (one.rows, one.bytes, one.files)


def test_files_that_appends_in_place_have_added_count_once_each_and_only_once_they_are_published() -> None:
    again = replace(in_place(3, "a", operation=Operation.RECOVER, recovers=2), write_id="r3")
    found = history(entry(1, D1), in_place(2, "a"), again, abandoned(in_place(4, "b")), in_doubt(in_place(5, "c")))
    assert described(found) == (2, 2, 2)
    assert [described(found, version) for version in (1, 2, 3)] == [(1, 1, 1), (2, 2, 2), (2, 2, 2)]
    moved = published(in_place(2, "a"), superseded=frozenset({D1}))
    assert described(history(entry(1, D1), moved)) == (1, 1, 1)
    back = replace(rollback(3, 1, D1), partitions=entry(1, D1).partitions)
    assert described(history(entry(1, D1), in_place(2, "a"), back)) == (1, 1, 1), "a newer entry says what is there"
    assert described(history(entry(1, D1), in_place(2, "a"), entry(3, D1)), 3) == (2, 2, 2)


def test_of_files_that_were_only_added_beside_others_nothing_is_known() -> None:
    assert described(history(in_place(2, "a"))) is None
    assert described(history(in_place(2, "a"), in_place(3, "b"))) is None


def test_what_lies_where_partitions_are_counts_each_added_file_once() -> None:
    again = replace(in_place(3, "a", operation=Operation.RECOVER, recovers=2), write_id="r3")
    found = history(entry(1, D1), in_place(2, "a"), again, in_place(4, "b"), entry(5, D2, old=THEIRS))
    assert {values: one.files for values, one in found.state.current_contents().items()} == {D1: 3, D2: 1}
    assert history(in_place(2, "a")).state.current_contents() == {}, "nobody has counted what it was added to"
    swept = entry(5, operation=Operation.VACUUM, deletes=(DeletedLocation(location=at("w1"), replaced_by=None),))
    assert history(entry(1, D1), swept).state.current_contents() == {}


def test_files_of_appends_in_place_that_are_no_part_of_a_version_are_surplus() -> None:
    refused = abandoned(in_place(4, "never"))
    given_up = published(in_place(5, "late"), outcome=Outcome.ABANDONED, recorded_by="r9")
    moved = published(in_place(6, "moved"), superseded=frozenset({D1}))
    found = history(
        entry(1, D1), in_place(2, "a"), in_place(3, "b"), refused, given_up, moved, in_doubt(in_place(7, "c"))
    )
    place = Location.parse(at("w1"))
    assert found.past.surplus_names(place, 1) == {"a", "b", "late", "moved", "c"}
    assert found.past.surplus_names(place, 2) == {"b", "late", "moved", "c"}
    assert found.past.surplus_names(place, 7) == {"late", "moved", "c"}
    assert found.past.surplus_names(Location.parse(at("w2")), 7) == frozenset()
    again = replace(in_place(3, "a", operation=Operation.RECOVER, recovers=2), write_id="r3")
    lost = published(in_place(2, "a"), outcome=Outcome.ABANDONED, recorded_by="r3")
    redone = history(entry(1, D1), lost, again)
    assert (redone.past.surplus_names(place, 1), redone.past.surplus_names(place, 2)) == ({"a"}, frozenset()), (
        "it has the version of the first"
    )


def test_entries_that_tell_which_files_a_location_held_stay_while_it_does() -> None:
    records = [
        published(each, **OLD) for each in (entry(1, D1), in_place(2, "a"), in_place(3, "b"), entry(4), entry(5))
    ]
    assert Trimming(history(*records)).versions(99.0) == {4}
    replaced = [*records[:3], published(entry(4, D1, old=at("w1")), **OLD), published(entry(5), **OLD)]
    assert Trimming(history(*replaced)).versions(99.0) == frozenset(), "readers have left it, and it is not deleted"
    sweeps = entry(5, operation=Operation.VACUUM, deletes=(DeletedLocation(location=at("w1"), replaced_by=4),))
    assert Trimming(history(*replaced[:4], published(sweeps, **OLD), entry(6))).versions(99.0) == {1, 2, 3}


def test_the_entry_that_a_recovery_is_finishing_stays_and_so_does_a_recovery_of_one_in_doubt() -> None:
    first, second = published(entry(1), **OLD), published(entry(2), **OLD)
    recovery = entry(3, operation=Operation.RECOVER, recovers=1)
    assert Trimming(history(first, second, in_doubt(recovery), entry(4))).versions(99.0) == {2}
    again = published(entry(3, operation=Operation.RECOVER, recovers=2), **OLD)
    assert Trimming(history(first, in_doubt(entry(2)), again, entry(4))).versions(99.0) == {1}


def test_a_vacuum_stays_as_long_as_an_entry_that_replaced_what_it_deleted() -> None:
    deletes = tuple(DeletedLocation(location=at(name), replaced_by=by) for name, by in (("w1", 2), ("w9", None)))
    sweeps = published(entry(3, operation=Operation.VACUUM, deletes=deletes), **OLD)
    records = [published(entry(1, D1), **OLD), published(entry(2, D1, old=at("w1")), **OLD), sweeps]
    assert Trimming(history(*records, entry(4))).versions(99.0) == {1}, "2 says where the partition is"
    gone = history(*records, published(entry(4, D1, old=at("w2")), **OLD), entry(5))
    assert Trimming(gone).versions(99.0) == {1, 2, 3}
    young = [records[0], published(entry(2, D1, old=at("w1"))), sweeps, published(entry(4, D1, old=at("w2"))), entry(5)]
    assert Trimming(history(*young)).versions(99.0) == {1}


def versions_of_batches(*keys: tuple[str, str]) -> frozenset[int]:
    records = [
        published(entry(number + 1, key=Key(key, stream)), outcome_age_seconds=100.0)
        for number, (key, stream) in enumerate(keys)
    ]
    return Trimming(history(*records, entry(len(keys) + 1))).versions(99.0)


def test_keys_of_single_calls_go_and_the_newest_batch_of_each_stream_stays() -> None:
    assert versions_of_batches(("a/1", ""), ("a/2", "")) == {1, 2}
    assert versions_of_batches(("a/1", "a"), ("a/2", "a"), ("b/1", "b")) == {1}
    assert versions_of_batches(("a/2", "a"), ("a/3", "")) == {2}


@pytest.mark.parametrize(
    ("text", "late"), [("3", False), ("2", True), ("4", True), ("5", True), ("9", False), ("x", False), ("", False)]
)
def test_parameters_of_an_older_version_or_of_one_that_never_came_are_late(text: str, late: bool) -> None:
    moved = published(in_place(5, "c"), superseded=frozenset({D1}))
    found = history(entry(1, D1), in_place(2, "a"), in_place(3, "b"), abandoned(in_place(4, "d")), moved)
    assert found.placements.has_late_parameters(D1, {VERSION_PARAMETER: text}) is late
    assert not found.placements.has_late_parameters(D1, {})


def test_parameters_of_the_entry_that_a_recovery_has_finished_are_not_late() -> None:
    again = replace(in_place(4, "a", operation=Operation.RECOVER, recovers=3), write_id="r4")
    found = history(entry(1, D1), entry(2), in_place(3, "a"), again)
    assert not found.placements.has_late_parameters(D1, {VERSION_PARAMETER: "3"})
    assert found.placements.has_late_parameters(D1, {VERSION_PARAMETER: "2"})
    trimmed = found.but(records=found.records[:1])
    assert not trimmed.placements.has_late_parameters(D1, {VERSION_PARAMETER: "1"})


def test_lost_entries_after_a_version_are_told_and_make_every_other_place_somebody_elses() -> None:
    found = history(entry(1, D1), entry(2, D1, old=at("w1")), entry(6)).but(lost=(4, 5))
    assert [found.lost_after(version) for version in (1, 3, 4, 5, 6)] == [4, 4, 5, None, None]
    assert [one.end.newest for one in (found, found.but(lost=(7,)), history())] == [6, 7, 0]
    assert found.placements.of(D1, at("w2")) is Placement.IN_PLACE
    assert found.placements.of(D1, at("w1")) is Placement.MOVED, "a lost entry may have put it back"
    assert found.but(lost=()).placements.of(D1, at("w1")) is Placement.BEHIND
    assert found.but(lost=(1,)).placements.of(D1, at("w1")) is Placement.BEHIND


def given_up_entry(**changes: object) -> History:
    """Version 2 was given up by the recovery of version 3, and its call may come late."""
    record = published(entry(2, D1, old=at("w1")), outcome=Outcome.ABANDONED, recorded_by="w3")
    recovery = entry(3, operation=Operation.RECOVER, recovers=2)
    return history(entry(1, D1), replace(record, **changes), recovery)


def test_where_a_partition_goes_back_to_after_the_late_call_of_a_given_up_entry_is_told() -> None:
    found = given_up_entry()
    assert found.placements.correction_of(D1, at("w2")) == RightPlace(1, at("w1"))
    assert found.placements.of(D1, at("w2")) is Placement.BEHIND
    for location in (at("w1"), THEIRS, "no location", None):
        assert found.placements.correction_of(D1, location) is None
    assert found.placements.correction_of(D2, at("w2")) is None
    assert given_up_entry(found={D1: THEIRS}).placements.correction_of(D1, at("w2")) == RightPlace(2, THEIRS)
    assert given_up_entry(found={D1: None}).placements.correction_of(D1, at("w2")) == RightPlace(2, None)
    assert given_up_entry(found={D1: "no location"}).placements.of(D1, at("w2")) is Placement.MOVED


def test_a_partition_at_the_name_that_the_newest_entry_has_added_counts_as_none() -> None:
    assert history(entry(1, D1)).placements.of(D1, str(LAYOUT.placeholder("w1", D1))) is Placement.MISSING


def test_no_call_comes_late_of_an_entry_that_was_refused_or_verified_or_published_since() -> None:
    def is_late(found: History) -> bool:
        return found.placements.of(D1, at("w2")) is Placement.BEHIND

    assert not is_late(given_up_entry(recorded_by="w2"))
    assert not is_late(given_up_entry().but(unverified=()))
    assert is_late(given_up_entry().but(unverified=(3,)))
    assert not is_late(given_up_entry().but(unverified=(9,)))
    assert is_late(given_up_entry(outcome=Outcome.PUBLISHED, superseded=frozenset({D1})))
    assert not is_late(given_up_entry(outcome=Outcome.PUBLISHED))
    since = history(*given_up_entry(found={D1: THEIRS}).records, entry(4, D1, old=at("w1")))
    assert since.placements.correction_of(D1, at("w2")) == RightPlace(4, at("w4")), "its call is one of an older entry"


def test_a_partition_that_was_never_published_is_known_while_the_call_of_a_given_up_entry_may_come() -> None:
    new = published(entry(2, D1), outcome=Outcome.ABANDONED, recorded_by="w3", found={D1: None})
    found = history(new, entry(3)).but(unverified=(3,))
    assert (found.placements.known_values, found.but(unverified=()).placements.known_values) == ({D1}, frozenset())
    assert found.placements.correction_of(D1, at("w2")) == RightPlace(2, None)
    assert found.placements.of(D1, at("w2")) is Placement.BEHIND
    assert [found.placements.of(D1, one) for one in (THEIRS, None)] == [Placement.MOVED, Placement.MISSING]


def test_what_is_added_late_came_where_nothing_was() -> None:
    """A tool has dropped since what the recovery had found: only an alter can take a partition from there."""
    added = published(entry(2, D1), outcome=Outcome.ABANDONED, recorded_by="w3", found={D1: THEIRS})
    found = history(added, entry(3)).but(unverified=(3,))
    assert found.placements.correction_of(D1, at("w2")) == RightPlace(2, None)
    moved = replace(added, entry=entry(2, D1, old=at("w0")))
    assert history(moved, entry(3)).but(unverified=(3,)).placements.correction_of(D1, at("w2")) == RightPlace(2, THEIRS)
    again = entry(3, operation=Operation.RECOVER, recovers=2)
    altered = replace(added, entry=replace(again, partitions=added.entry.partitions), recorded_by="w4")
    done_again = history(added, altered, entry(4)).but(unverified=(3, 4))
    assert done_again.placements.correction_of(D1, at("w2")) == RightPlace(3, THEIRS)


@pytest.mark.parametrize("location", [at("w2"), None, str(LAYOUT.placeholder("w2", D1)), EMPTY])
def test_a_given_up_call_that_moves_or_empties_or_drops_a_partition_is_behind(location: str | None) -> None:
    moves = entry(2, D1, old=at("w1"))
    target = location if location == at("w2") else None
    moves = replace(moves, partitions=(replace(moves.partitions[0], new_location=target),))
    record = published(moves, outcome=Outcome.ABANDONED, recorded_by="w3", found={D1: THEIRS})
    found = history(entry(1, D1), record, entry(3, operation=Operation.RECOVER, recovers=2))
    assert found.placements.of(D1, location) is Placement.BEHIND
    assert found.placements.of(D1, THEIRS) is Placement.MOVED
    assert found.but(unverified=()).placements.of(D1, location) in {Placement.MISSING, Placement.MOVED}


def test_the_newest_recovery_that_has_found_a_partition_says_where_older_calls_are_undone_to() -> None:
    last = published(entry(4, D1, old=THEIRS), outcome=Outcome.ABANDONED, recorded_by="w5", found={D1: f"{THEIRS}y/"})
    later = entry(5, operation=Operation.RECOVER, recovers=4)
    found = history(*given_up_entry(found={D1: THEIRS}).records, last, later)
    for location in (at("w2"), at("w4")):
        assert found.placements.correction_of(D1, location) == RightPlace(4, f"{THEIRS}y/")
    assert found.placements.of(D1, at("w1")) is Placement.IN_PLACE, "another tool has put it back"


def test_among_our_own_files_a_recovery_has_found_what_a_late_call_had_moved() -> None:
    given_up = given_up_entry(found={D1: at("w0")}).records
    newest = replace(given_up[0], entry=entry(1, D1, write_id="w1"))
    older = history(entry(0, D1, write_id="w0"), newest, *given_up[1:])
    assert older.placements.correction_of(D1, at("w2")) == RightPlace(1, at("w1"))
    another = given_up_entry(found={D1: at("w0")})
    assert another.placements.correction_of(D1, at("w2")) == RightPlace(2, at("w0")), (
        "no call of this partition leads there"
    )
    written = str(LAYOUT.placeholder("w0", D1))  # another tool has, or the recovery would not have left it alone
    assert given_up_entry(found={D1: written}).placements.correction_of(D1, at("w2")) == RightPlace(2, written)


def test_the_alter_of_an_append_in_place_that_was_given_up_sets_its_location_again() -> None:
    added = published(in_place(2, "a"), outcome=Outcome.ABANDONED, recorded_by="w3", found={D1: THEIRS})
    found = history(entry(1, D1), added, entry(3)).but(unverified=(3,))
    assert found.placements.of(D1, at("w1")) is Placement.BEHIND
    never_moved = history(entry(1, D1), replace(added, found={D1: at("w1")}), entry(3))
    assert never_moved.but(unverified=(3,)).placements.of(D1, at("w1")) is Placement.IN_PLACE


def test_copies_of_an_abandoned_append_and_what_it_had_replaced_unseen_are_left() -> None:
    fresh = abandoned(in_place(2, "a"))
    assert left(history(entry(1, D1), fresh)) == {str(LAYOUT.data("w2")): 2}
    schedule = replacing(2).replaced[0]
    unseen = replace(schedule, location=at("w7"))
    one = replace(entry(2, D1, old=at("w1")), replaced=(unseen, schedule, replace(schedule, location=at("w1"))))
    assert left(history(abandoned(one))) == {str(LAYOUT.data("w2")): 2, at("w7"): 2}, (
        "neither what readers see, nor theirs"
    )
    sizes = {each.left_by: each.bytes for each in history(abandoned(entry(3, D1, D2))).state.left_locations.values()}
    assert sizes == {3: 2}


def test_what_a_rollback_would_have_pointed_at_is_not_its_own_to_leave() -> None:
    back = replace(rollback(3, 1, D1), partitions=entry(3, D1, write_id="w1").partitions)
    superseded = published(back, superseded=frozenset({D1}))
    assert left(history(entry(1, D1), entry(2, D1, old=at("w1")), superseded)) == {at("w1"): 2}


def test_readers_come_back_to_a_write_whose_first_entry_was_abandoned() -> None:
    found = history(abandoned(entry(1, D1)), entry(2, D1, write_id="w1"))
    assert left(found) == {}
    assert left(history(abandoned(entry(1, D1)), abandoned(entry(2, D2)), entry(3, D1, write_id="w1"))) == {
        str(LAYOUT.data("w2")): 2
    }


def test_a_state_is_sure_where_nobody_can_have_moved_the_partition_in_between() -> None:
    bore_out = history(entry(1, D1), entry(2, D2), entry(3, D1, old=at("w1").replace("s3a", "s3")))
    assert bore_out.past.changed_since(2)[D1].sure
    moved = history(entry(1, D1), entry(2, D2), entry(3, D1, old=THEIRS))
    assert not moved.past.changed_since(2)[D1].sure
    assert moved.past.changed_since(1)[D1].sure, "version 1 itself has put it there"
    assert moved.past.changed_since(2)[D1].location == at("w1")


def test_partitions_that_were_never_moved_since_are_where_they_were() -> None:
    found = history(entry(1, D1, D2), entry(2, D1, old=at("w1")), published(entry(3, D2), superseded=frozenset({D2})))
    assert found.past.at(1) == {D1: PastLocation(at("w1"), known=True), D2: PastLocation(at("w1", D2), known=True)}
    assert found.past.at(2) == {D1: PastLocation(at("w2"), known=True), D2: PastLocation(at("w1", D2), known=True)}


def test_what_a_vacuum_deleted_is_deleted_until_readers_look_there_again() -> None:
    first = (entry(1, D1), entry(2, D1, old=at("w1")))
    sweeps = entry(3, operation=Operation.VACUUM, deletes=(DeletedLocation(location=at("w1"), replaced_by=2),))
    place, now = Location.parse(at("w1")), Location.parse(at("w2"))
    assert not history(*first).past.is_deleted(place)
    assert history(*first, sweeps).past.is_deleted(place)
    assert history(*first, in_doubt(sweeps)).past.is_deleted(place), "it may be deleting it"
    assert not history(*first, sweeps).past.is_deleted(now)
    back = replace(rollback(4, 1, D1), partitions=(replace(entry(1, D1).partitions[0], old_location=at("w2")),))
    assert not history(*first, sweeps, back).past.is_deleted(place)
    again = entry(5, D1, old=at("w1"))
    assert not history(*first, sweeps, back, again).past.is_deleted(place), "they have left it once more"
    late = replace(sweeps, version=6)
    assert history(*first, back, again, late).past.is_deleted(place), "by whatever the vacuum knew"


def test_what_the_metastore_was_found_to_be_is_told_of_partitions_that_were_left_alone() -> None:
    one = published(entry(1, D1, D2, D3), superseded=frozenset({D1, D2}), found={D1: THEIRS})
    assert one.superseded_locations == {D1: THEIRS, D2: UNRECORDED}
    assert replace(one, found={D2: None}).superseded_locations == {D1: UNRECORDED, D2: None}, "it was nowhere"
    assert [named.values for named in one.switched_partitions] == [D3]
    assert [named.values for named in replace(one, outcome=None).switched_partitions] == [D1, D2, D3]


def test_a_reading_up_to_a_version_is_what_it_would_have_been_then() -> None:
    records = (entry(1, D1), entry(2, D1, old=at("w1")), entry(3, D2))
    found = history(*records).but(unverified={2}, lost=(9,))
    then = found.up_to(2)
    assert (then.newest, set(then.state.current_partitions), then.unverified, then.lost) == (2, {D1}, {2}, (9,))
    assert then.layout == found.layout
