"""A fold and the records after it: what they say, what they refuse, and what may still be trimmed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from table_writer.model.entry import DeletedLocation, Key, LogEntry
from table_writer.model.location import Location
from table_writer.model.meaning import Operation
from table_writer.protocol.log.fold import fold_from_json, fold_to_json
from table_writer.protocol.log.history import History
from table_writer.protocol.log.known_keys import KnownKeys, key_digest
from table_writer.protocol.log.placements import Placement
from table_writer.protocol.log.records import SlotRecord
from table_writer.protocol.log.state import TableState
from table_writer.protocol.log.trimming import OldEntries, Trimming, counts_twice, foldable

from .test_history import abandoned, history, in_doubt, in_place, left, replacing
from .test_rules import D1, D2, D3, LAYOUT, THEIRS, at, entry, published, rollback

OLD = {"outcome_age_seconds": 100.0}
NOTHING_GONE = OldEntries(frozenset(range(1, 9)), frozenset(range(1, 9)), 0)


def fold_of(*records: SlotRecord | LogEntry) -> TableState:
    return Trimming(history(*records)).fold("log-1")


def after(fold: TableState, *records: SlotRecord | LogEntry) -> History:
    return history(*records).but(fold=fold)


def full() -> tuple[SlotRecord | LogEntry, ...]:
    """A log in which there is something of all that a fold says."""
    sweeps = entry(7, operation=Operation.VACUUM, deletes=(DeletedLocation(location=at("w2", D2), replaced_by=3),))
    back = replace(rollback(5, 2, D2), partitions=entry(5, D2, old=at("w3", D2), write_id="w2").partitions)
    return (
        replace(replacing(1), key=Key("k")),
        entry(2, D2, key=Key("q/1", "q")),
        entry(3, D2, old=at("w2", D2)),
        in_place(4, "a"),
        back,
        entry(6, D2, old=at("w2", D2)),
        sweeps,
        entry(8, D3, old=at("w6", D3)),
    )


def test_a_fold_is_the_same_after_storage_and_below_another_root_says_the_same_of_that() -> None:
    fold = fold_of(*full())
    assert all(
        (
            fold.current_partitions,
            fold.left_locations,
            fold.deleted_places,
            fold.contents,
            fold.versions_by_place,
            fold.grown_places,
            fold.vacuums,
        )
    )
    assert all((fold.keys.older_batches, fold.keys.published, fold.keys.rollbacks))
    stored = fold_to_json(fold)
    assert fold_from_json(stored, layout=LAYOUT, older_seconds=0.0) == fold
    assert str(LAYOUT.root).encode() not in stored
    elsewhere = replace(LAYOUT, root=Location.parse("s3://other/moved/"))
    moved = fold_from_json(stored, layout=elsewhere, older_seconds=0.0)
    assert str(LAYOUT.root) not in str(moved)
    assert moved.grown_places == {Location.parse(at("w1").replace(str(LAYOUT.root), str(elsewhere.root))).place}


def test_a_fold_that_was_stored_before_the_state_was_one_says_what_its_entries_come_to() -> None:
    stored = (Path(__file__).parents[1] / "model/stored/fold.json").read_bytes()
    assert fold_from_json(stored, layout=LAYOUT, older_seconds=0.0) == fold_of(*full())


def test_a_fold_that_is_read_later_says_greater_ages() -> None:
    fold = fold_of(*full())
    read = fold_from_json(fold_to_json(fold), layout=LAYOUT, older_seconds=7.0)
    ages = [
        (each.age_seconds, then.age_seconds)
        for each, then in zip(read.left_locations.values(), fold.left_locations.values(), strict=True)
    ]
    ages += [
        (each.age_seconds, then.age_seconds)
        for each, then in zip(read.current_partitions.values(), fold.current_partitions.values(), strict=True)
    ]
    assert {now - then for now, then in ages} == {7.0}


def test_what_is_folded_at_any_version_and_read_on_says_what_all_records_say() -> None:
    records = full()
    for cut in range(1, len(records)):
        found = after(fold_of(*records[:cut]), *records[cut:])
        assert found.state.facts() == history(*records).state.facts()
        assert Trimming(found).fold("log-1") == fold_of(*records)


def test_a_fold_stands_for_its_entries_while_no_call_of_theirs_may_have_come_since() -> None:
    fold = fold_of(*full())
    assert fold.stands_for([])
    assert fold.stands_for([9])
    assert not fold.stands_for([8]), "the last of its own"
    assert not fold.stands_for([9, 1])


@pytest.mark.parametrize(
    "ask",
    [
        lambda found: found.records.publication("w1"),
        lambda found: found.records.possibly_published_ids,
        lambda found: found.past.changed_since(1),
        lambda found: found.past.at(1),
        lambda found: found.past.is_deleted(Location.parse(at("w1"))),
        lambda found: found.past.content_at(D1, Location.parse(at("w1"))),
        lambda found: next(found.records.published_of(D1), None),
        lambda found: found.past.surplus_names(Location.parse(at("w1")), 1),
        lambda found: found.past.is_restorable(Location.parse(at("w1"))),
    ],
)
def test_a_question_that_takes_the_entries_before_a_fold_is_refused(ask: Callable[[History], object]) -> None:
    with pytest.raises(LookupError, match="entries up to version 1 were not read"):
        ask(after(fold_of(entry(1, D1)), entry(2, D2)))
    ask(history(entry(1, D1), entry(2, D2)))


@pytest.mark.parametrize(
    ("now", "needed"),
    [
        (at("w2"), False),
        (at("w1"), True),  # a late call, or a metastore that was set back
        (THEIRS, False),  # another tool's
        ("no location", False),
        (at("w3"), True),
    ],
)
def test_entries_before_a_fold_are_needed_where_a_partition_is_at_another_place_of_ours(now: str, needed: bool) -> None:
    records = entry(1, D1), entry(2, D1, old=at("w1"))
    assert after(fold_of(*records)).needs_entries({D1: now}) is needed
    assert not history(*records).needs_entries({D1: now}), "all of them were read"
    assert not after(fold_of(*records)).needs_entries({D2: now}), "the log has never published it"
    behind = after(fold_of(entry(1, D1)), entry(2, D1, old=at("w1")), entry(3, D1, old=at("w2")))
    assert not behind.needs_entries({D1: at("w2")}), "the records after the fold explain it"


@pytest.mark.parametrize(
    ("oldest", "stays"),
    [
        (NOTHING_GONE, True),
        (
            OldEntries(frozenset({1, 3, 4, 5, 6}), frozenset({1, 3, 4, 5, 6}), 2),
            False,
        ),  # of version 2 only, all is gone
        (OldEntries(frozenset({1, 2, 4, 5, 6}), frozenset({1, 2, 4, 5, 6}), 3), True),
    ],
    ids=["both there", "the one between gone", "another one gone"],
)
def test_a_folded_rollback_stays_while_an_entry_between_it_and_its_target_does(oldest: OldEntries, stays: bool) -> None:
    records = [published(each, **OLD) for each in (entry(1, D1), entry(2), rollback(3, 1), *map(entry, range(4, 7)))]
    found = after(fold_of(*records), published(entry(7, D1), **OLD), entry(8))
    assert (3 not in Trimming(found, oldest).versions(99.0)) is stays


def test_a_rollback_after_a_fold_stays_for_the_keys_of_folded_entries_too() -> None:
    folded = fold_of(*(published(entry(number), **OLD) for number in (1, 2, 3)))
    gone = OldEntries(frozenset({1, 2}), frozenset({1, 2}), 0)
    for to, stays in ((2, True), (3, False)):
        found = after(folded, published(entry(4), **OLD), published(rollback(5, to), **OLD), entry(6))
        assert (5 not in Trimming(found, gone).versions(99.0)) is stays
    keyed = after(folded, published(entry(4, key=Key("k")), **OLD), published(rollback(5, 3), **OLD), entry(6))
    assert 5 not in Trimming(keyed, gone).versions(99.0), "the key of version 4"


def test_of_folded_entries_those_go_that_ended_long_ago_and_on_which_nothing_depends() -> None:
    records = [published(each, **OLD) for each in (entry(1), entry(2, D1), entry(3, D2), entry(4))]
    found = after(fold_of(*records), published(entry(5, D2, old=at("w3", D2)), **OLD), published(entry(6), **OLD))
    every = OldEntries(frozenset({1, 2, 3, 4}), frozenset({1, 2, 3, 4}), 0)
    assert Trimming(found, every).versions(99.0) == {1, 3}, "2 says where a partition is, 4 ends the fold"
    assert Trimming(found, replace(every, ended_versions=frozenset({1}))).versions(99.0) == {1}
    assert Trimming(found).versions(99.0) == frozenset()


def test_what_a_vacuum_deleted_that_a_fold_says_is_left_keeps_that_vacuum() -> None:
    folded = fold_of(*(published(each, **OLD) for each in (entry(1, D1), entry(2, D1, old=at("w1")), entry(3))))
    sweeps = entry(5, operation=Operation.VACUUM, deletes=(DeletedLocation(location=at("w1"), replaced_by=2),))
    later = [published(each, **OLD) for each in (entry(4, D1, old=at("w2")), sweeps, entry(6))]
    found, every = after(folded, *later, entry(7)), OldEntries(frozenset({1, 2, 3}), frozenset({1, 2, 3}), 0)
    assert left(found) == {at("w2"): 4}
    assert Trimming(found, every).versions(99.0) == {1, 2, 6}, "who reads the fold would take the files to be there"


def test_a_fold_knows_the_newest_published_write_of_a_key_and_the_newest_of_a_stream() -> None:
    keyed = (
        entry(1, key=Key("k")),
        entry(2, key=Key("k")),
        abandoned(entry(3, key=Key("k"))),
        entry(4, key=Key("k"), operation=Operation.RECOVER, recovers=1),
        entry(5, key=Key("q/2", "q")),
        entry(6, key=Key("old/7", "old")),
    )
    fold = fold_of(*keyed)
    stream = {key_digest("k", ""): 2, key_digest("q/2", "q"): 5, key_digest("old/7", "old"): 6}
    assert fold.keys.published == stream
    assert fold.keys.older_batches == {"q": 5, "old": 6}
    newer = Trimming(after(fold, entry(7, key=Key("q/3", "q")))).fold("log-1")
    assert (newer.keys.older_batches, newer.keys.published) == (
        {"q": 7, "old": 6},
        {**stream, key_digest("q/3", "q"): 7},
    )


def test_a_fold_names_no_entry_that_is_trimmed() -> None:
    records = (entry(1, key=Key("k")), rollback(2, 0), entry(3, D1), in_place(4, "a", location=at("w3")))
    fold = Trimming(history(*records)).fold("log-1", trimmed=(1, 2, 3))
    assert (fold.keys.published, fold.keys.rollbacks, fold.versions_by_place) == (
        {},
        {},
        {Location.parse(at("w3")).place: (4,)},
    )
    found = after(fold_of(*records), entry(5))
    again = Trimming(found, OldEntries(frozenset({4}), frozenset({4}), 3)).fold("log-1")
    assert (again.keys.published, again.keys.rollbacks, again.versions_by_place) == (
        {},
        {},
        {Location.parse(at("w3")).place: (4,)},
    )
    assert Trimming(found).fold("log-1") == fold_of(*records, entry(5)), "nothing says that any is gone"


@pytest.mark.parametrize(
    ("rollbacks", "version", "voids"),
    [(((5, 2),), 3, True), (((5, 2),), 2, False), (((5, 2),), 5, False), (((5, 2),), 4, True), ((), 3, False)],
)
def test_a_fold_says_which_versions_a_rollback_may_have_taken_back(
    rollbacks: tuple[tuple[int, int], ...], version: int, voids: bool
) -> None:
    assert KnownKeys(rollbacks=dict(rollbacks)).voids(version) is voids


@pytest.mark.parametrize(
    ("oldest", "gone"),
    [
        (OldEntries(frozenset({3}), frozenset({3}), 2), True),
        (OldEntries(frozenset({3}), frozenset({2, 3}), 2), False),  # it was listed
        (OldEntries(frozenset({3}), frozenset({3}), 1), False),  # no vacuum may have deleted it
        (OldEntries(frozenset({2}), frozenset({3}), 2), False),  # the listing may have ended before it
        (OldEntries(frozenset(), frozenset(), 2), False),
    ],
)
def test_an_entry_is_gone_if_a_listing_beyond_it_misses_it_and_a_vacuum_may_have_trimmed_it(
    oldest: OldEntries, gone: bool
) -> None:
    assert oldest.is_gone(2) is gone


def test_all_that_ended_before_what_is_in_doubt_may_be_folded() -> None:
    ended = [published(entry(number, D1)) for number in (1, 2, 3)]
    assert foldable(history(*ended)) == 2, "the newest stays"
    assert foldable(history(*ended, in_doubt(entry(4)), entry(5), entry(6))) == 3
    assert foldable(history(in_doubt(entry(1)), entry(2))) == 0
    assert foldable(history(*ended[:1])) == foldable(history()) == 0
    assert foldable(history(*ended).but(unverified={1})) == 0, "a call of before may come late"
    assert foldable(history(*ended).but(unverified=frozenset())) == 2


def test_an_append_in_place_that_was_done_again_though_it_is_folded_takes_its_entry_to_count_it() -> None:
    fold = fold_of(entry(1, D1), in_place(2, "a"))
    again = replace(in_place(3, "a"), operation=Operation.RECOVER, recovers=2, write_id="r3")
    assert counts_twice(after(fold, again))
    assert not counts_twice(history(entry(1, D1), in_place(2, "a"), again)), "all was read"
    assert not counts_twice(after(fold, in_place(3, "b"), replace(again, version=4, recovers=3)))
    assert not counts_twice(after(fold, in_place(3, "b")))
    assert not counts_twice(after(fold, entry(3, D1, operation=Operation.RECOVER, recovers=2))), "it adds no file"


def test_two_readings_differ_if_they_place_leave_or_hold_anything_differently() -> None:
    first, second = entry(1, D1), entry(2, D1, old=at("w1"))
    facts = history(first, second).state.facts()
    assert history(first, second).state.facts() == facts
    for other in (
        (first, entry(2, D1, D2, old=at("w1"))),
        (first, second, entry(3)),
        (
            first,
            second,
            entry(3, operation=Operation.VACUUM, deletes=(DeletedLocation(location=at("w1"), replaced_by=2),)),
        ),
        (first, second, in_doubt(entry(3, D2))),
        (first, replace(second, partitions=(replace(second.partitions[0], rows=9),))),
        (first, replace(second, version=3)),
        (first, replace(second, replaced=replacing(2).replaced)),
    ):
        assert history(*other).state.facts() != facts


def test_writes_of_which_a_fold_names_files_have_claimed() -> None:
    fold = fold_of(
        replacing(1), entry(2, D1, old=at("w1")), abandoned(entry(3, D2)), in_place(4, "a", location=at("w2"))
    )
    assert after(fold).claimed_ids == {"w1", "w2", "w3", "w4"}
    assert after(fold, entry(5, D2)).claimed_ids == {"w1", "w2", "w3", "w4", "w5"}


def test_where_a_partition_of_a_folded_log_is_in_place_it_is_in_place() -> None:
    found = after(fold_of(entry(1, D1)), entry(2, D2))
    assert found.placements.of(D1, at("w1")) is Placement.IN_PLACE
    assert found.placements.of(D1, THEIRS) is Placement.MOVED
    assert (found.newest, after(fold_of(entry(1, D1))).newest) == (2, 1)
