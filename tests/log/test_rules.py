"""The rules by which writers agree, one decision at a time; ``tests/explore`` tries what follows from them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from table_writer.errors import InvalidInputError
from table_writer.model.entry import AddedFile, DeletedLocation, EntryPartition, Key, LogEntry, Outcome
from table_writer.model.location import Location
from table_writer.model.meaning import OF_OPERATION, Operation
from table_writer.model.table import PartitionValues
from table_writer.model.words import Words
from table_writer.model.write import TableLayout, every_partition
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.deadline import Deadline
from table_writer.protocol.log.history import History
from table_writer.protocol.log.marks import LATE_CALL_SECONDS
from table_writer.protocol.log.records import SlotRecord
from table_writer.protocol.log.rules import (
    QUERY_TAG,
    Effect,
    PartitionState,
    Standing,
    claim_is_over,
    comes_before,
    effect,
    is_covered,
    is_kept,
    newest_of_stream,
    partition_state,
    published_with_key,
    rebuilt_outcome,
    recovered_state,
    require_same_query,
    standing,
    to_switch,
)

LAYOUT = TableLayout(Location.parse("s3a://lake/t"))
D1, D2, D3 = ("d1",), ("d2",), ("d3",)
PUBLISHED, ABANDONED = Outcome.PUBLISHED, Outcome.ABANDONED


def at(write_id: str, values: PartitionValues = D1) -> str:
    return str(LAYOUT.data(write_id).child(f"dt={values[0]}"))


def batch(text: str) -> Key:
    """Return the key of a stream's batch, ``query/batch``."""
    return Key(text, text.rpartition("/")[0])


def entry(version: int, *values: PartitionValues, old: str | None = None, **changes: Any) -> LogEntry:
    write_id = str(changes.pop("write_id", f"w{version}"))
    partitions = tuple(
        EntryPartition(
            values=one, old_location=old, new_location=at(write_id, one), rows=1, bytes=1, raw_bytes=1, files=1
        )
        for one in values
    )
    fields: dict[str, Any] = {
        "table": "mart.t",
        "version": version,
        "write_id": write_id,
        "operation": Operation.WRITE,
        "created_at": datetime(2024, 1, 1, tzinfo=UTC),
        "base_version": version - 1,
        "publish_timeout_seconds": 300.0,
        "partitions": partitions,
        **changes,
    }
    if fields["operation"] is Operation.WRITE:
        fields.setdefault("mode", WriteMode.OVERWRITE_PARTITIONS)
    if not OF_OPERATION[fields["operation"]].changes_partitions:
        del fields["partitions"]
    return LogEntry(**fields)


def vacuum(version: int, *locations: Location | str) -> LogEntry:
    deletes = tuple(DeletedLocation(location=str(one), replaced_by=None) for one in locations)
    return entry(version, operation=Operation.VACUUM, deletes=deletes)


def published(one: LogEntry, **changes: Any) -> SlotRecord:
    fields = {"age_seconds": 0.0, "recorded_by": one.write_id, **changes}
    return SlotRecord(one, fields.pop("outcome", PUBLISHED), **fields)


@pytest.mark.parametrize(
    ("theirs", "outcome", "expected"),
    [
        (entry(5, D1), PUBLISHED, Standing.EARLIER),
        (entry(6, D1), PUBLISHED, Standing.CONFLICT),
        (entry(6, D1, D3), PUBLISHED, Standing.CONFLICT),
        (entry(6, D3), PUBLISHED, Standing.UNRELATED),
        (entry(6, D1), ABANDONED, Standing.UNRELATED),
        (entry(6, D1), None, Standing.IN_DOUBT),
        (entry(5, D1), None, Standing.IN_DOUBT),
        (entry(6, D3), None, Standing.UNRELATED),
        (entry(4, D1), PUBLISHED, Standing.CONFLICT),  # it was in doubt at the plan
        (entry(4, D1), ABANDONED, Standing.UNRELATED),
        (entry(6, D3, key=Key("k")), None, Standing.IN_DOUBT),
        (entry(6, D3, key=Key("k")), PUBLISHED, Standing.UNRELATED),
        (entry(6, D3, key=Key("other")), None, Standing.UNRELATED),
        (vacuum(6, LAYOUT.data("mine")), PUBLISHED, Standing.DELETED),
        (vacuum(6, LAYOUT.data("mine")), None, Standing.DELETED),
        (vacuum(6, LAYOUT.data("mine")), ABANDONED, Standing.UNRELATED),
        (vacuum(6, at("mine", D2)), PUBLISHED, Standing.DELETED),
        (vacuum(6, LAYOUT.data("others")), None, Standing.UNRELATED),
        (vacuum(5, LAYOUT.data("mine")), PUBLISHED, Standing.UNRELATED),  # its writer had seen it
        (vacuum(4, LAYOUT.data("mine")), PUBLISHED, Standing.DELETED),  # in doubt at the plan
    ],
    ids=str,
)
def test_what_another_entry_means_to_a_write_that_was_planned_at_version_5(
    theirs: LogEntry, outcome: Outcome | None, expected: Standing
) -> None:
    draft = entry(7, D1, D2, write_id="mine", base_version=5, key=Key("k"))
    assert standing(SlotRecord(theirs, outcome, 0.0), draft, {4}, layout=LAYOUT) is expected


def test_a_write_without_a_key_has_no_key_in_common_with_another() -> None:
    assert standing(SlotRecord(entry(6, D3), None, 0.0), entry(7, D1), ()) is Standing.UNRELATED
    keyed = entry(7, D1, key=Key("k"))
    assert standing(SlotRecord(entry(6, D3), None, 0.0), keyed, ()) is Standing.UNRELATED
    assert standing(SlotRecord(replace(keyed, version=6), None, 0.0), entry(7, D3), ()) is Standing.UNRELATED


def test_a_write_that_builds_on_what_is_there_conflicts_with_nobody_and_waits_for_all() -> None:
    draft = entry(7, D1, base_version=5)
    assert standing(SlotRecord(entry(6, D1), PUBLISHED, 0.0), draft, (), appends=True) is Standing.EARLIER
    assert standing(SlotRecord(entry(6, D1), None, 0.0), draft, (), appends=True) is Standing.IN_DOUBT
    deletes_it = vacuum(6, LAYOUT.data("w7"))
    assert standing(SlotRecord(deletes_it, None, 0.0), draft, (), appends=True) is Standing.DELETED


def test_what_a_predicate_selects_counts_as_much_as_what_has_rows() -> None:
    draft = entry(7, D1, base_version=5)

    def only_d3(existing: Collection[PartitionValues]) -> frozenset[PartitionValues]:
        return frozenset(existing) & {D3}

    assert standing(SlotRecord(entry(6, D3), PUBLISHED, 0.0), draft, (), scope=only_d3) is Standing.CONFLICT
    assert standing(SlotRecord(entry(6, D2), PUBLISHED, 0.0), draft, (), scope=only_d3) is Standing.UNRELATED
    assert standing(SlotRecord(entry(6, D2), None, 0.0), draft, (), scope=every_partition) is Standing.IN_DOUBT


def test_a_write_of_nothing_is_given_up_by_its_directory_alone() -> None:
    nothing = entry(7, write_id="mine", base_version=5)
    deletes_it = vacuum(6, LAYOUT.data("mine"))
    assert standing(SlotRecord(deletes_it, None, 0.0), nothing, (), layout=LAYOUT) is Standing.DELETED
    assert standing(SlotRecord(deletes_it, None, 0.0), nothing, ()) is Standing.UNRELATED


def test_a_claim_is_over_only_after_its_own_time() -> None:
    assert not claim_is_over(entry(1), 300.0)
    assert claim_is_over(entry(1), 300.1)


EMPTY = str(LAYOUT.placeholder("w9"))
THEIRS = "s3a://lake/t/dt=d1/"


@pytest.mark.parametrize(
    ("old", "new", "places"),
    [
        (None, "new", {None: "BEFORE", EMPTY: "BEFORE", "new": "DONE", THEIRS: "SUPERSEDED"}),
        ("old", "new", {"old": "BEFORE", "new": "DONE"}),
        ("old", "new", dict.fromkeys([None, EMPTY, THEIRS, "no location at all"], "SUPERSEDED")),
        ("old", None, {None: "DONE", EMPTY: "EMPTIED", "old": "BEFORE", THEIRS: "SUPERSEDED"}),
        (None, None, {None: "DONE", EMPTY: "EMPTIED"}),
        ("same", "same", {"same": "DONE"}),
    ],
)
def test_where_a_partition_stands_is_told_by_its_location_alone(
    old: str | None, new: str | None, places: dict[str | None, str]
) -> None:
    def full(text: str | None) -> str | None:
        return at(text) if text in {"old", "new", "same"} else text

    wanted = replace(entry(1, D1).partitions[0], old_location=full(old), new_location=full(new))
    assert {now: partition_state(wanted, full(now), LAYOUT).name for now in places} == places


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([PartitionState.DONE], Effect.ALL),
        ([PartitionState.DONE, PartitionState.EMPTIED], Effect.ALL),
        ([PartitionState.BEFORE], Effect.NONE),
        ([PartitionState.BEFORE, PartitionState.SUPERSEDED], Effect.NONE),
        ([PartitionState.DONE, PartitionState.BEFORE], Effect.SOME),
        ([PartitionState.EMPTIED, PartitionState.SUPERSEDED], Effect.SOME),
        ([], Effect.SOME),
    ],
)
def test_a_call_took_effect_on_all_partitions_or_on_none_or_nobody_can_tell(
    states: list[PartitionState], expected: Effect
) -> None:
    assert effect(states) is expected


def test_a_recovery_sends_all_but_what_others_moved_and_nothing_where_nothing_is_left() -> None:
    done, before, moved = PartitionState.DONE, PartitionState.BEFORE, PartitionState.SUPERSEDED
    assert to_switch({D1: done, D2: before, D3: moved}) == {D1, D2}
    assert to_switch({D1: done, D2: PartitionState.EMPTIED}) == {D1, D2}
    assert to_switch({D1: done, D3: moved}) == frozenset()
    assert to_switch({}) == frozenset()


def test_a_recovery_rolls_forward_where_only_late_calls_of_this_library_have_been() -> None:
    history = History(LAYOUT, [published(entry(1, D1)), published(entry(2, D1, old=at("w1")))])
    wanted = entry(3, D1, old=at("w2")).partitions[0]
    assert recovered_state(history, wanted, at("w2")) is PartitionState.BEFORE
    assert recovered_state(history, wanted, at("w1")) is PartitionState.BEFORE
    assert recovered_state(history, wanted, at("w3")) is PartitionState.DONE
    assert recovered_state(history, wanted, THEIRS) is PartitionState.SUPERSEDED
    unknown = entry(3, D3, old=THEIRS).partitions[0]
    assert recovered_state(history, unknown, at("w1", D3)) is PartitionState.SUPERSEDED
    assert recovered_state(history, unknown, THEIRS) is PartitionState.BEFORE


def test_a_recovery_of_an_append_in_place_goes_by_whether_its_files_are_there() -> None:
    history = History(LAYOUT, [published(entry(1, D1))])
    added = (AddedFile(name="a", size_bytes=1),)
    wanted = replace(entry(2, D1, old=at("w1")).partitions[0], new_location=at("w1"), source=at("w2"), added=added)
    assert recovered_state(history, wanted, at("w1"), copied=True) is PartitionState.DONE
    assert recovered_state(history, wanted, at("w1")) is PartitionState.BEFORE
    assert recovered_state(history, wanted, THEIRS, copied=True) is PartitionState.SUPERSEDED


LOST = entry(2, D1, D2, old=at("w1"))


@pytest.mark.parametrize(
    ("later", "covered"),
    [
        ([published(entry(3, D2))], True),
        ([published(entry(3, D3))], False),
        ([published(entry(3, D1), outcome=ABANDONED)], False),
        ([SlotRecord(entry(3, D1), None, 0.0)], True),  # nobody claims over one in doubt
        ([published(vacuum(3, at("w2", D2)))], True),
        ([published(vacuum(3, LAYOUT.data("w2")))], True),
        ([SlotRecord(vacuum(3, LAYOUT.data("w2")), None, 0.0)], True),  # it may have deleted them already
        ([published(vacuum(3, LAYOUT.data("w2")), outcome=ABANDONED)], False),
        ([published(vacuum(3, LAYOUT.data("w1")))], False),
        ([published(entry(4, D1, operation=Operation.RECOVER, recovers=3))], True),  # that one was claimed over it
        ([published(entry(4, D1, operation=Operation.RECOVER, recovers=3), outcome=ABANDONED)], False),
        ([SlotRecord(entry(4, D1, operation=Operation.RECOVER, recovers=3), None, 0.0)], False),
        ([published(entry(4, D1, operation=Operation.RECOVER, recovers=2))], False),  # its own recovery
        ([published(entry(4, D1, operation=Operation.RECOVER, recovers=1))], False),
        ([published(entry(4, D1, operation=Operation.RECOVER))], False),
        ([published(entry(4, D3, operation=Operation.RECOVER, recovers=3))], False),
        ([], False),
    ],
)
def test_an_entry_without_outcome_over_which_something_was_published_or_deleted_had_ended_before(
    later: list[SlotRecord], covered: bool
) -> None:
    history = History(LAYOUT, [published(entry(1, D1, D2)), SlotRecord(LOST, None, 0.0), *later])
    assert is_covered(history, LOST) is covered


def test_what_was_deleted_before_an_entry_does_not_cover_it() -> None:
    earlier = published(vacuum(1, LAYOUT.data("w2")))
    assert not is_covered(History(LAYOUT, [earlier, SlotRecord(LOST, None, 0.0)]), LOST)


@pytest.mark.parametrize(
    ("later", "now", "expected"),
    [
        ([entry(3, D2, old=at("w2", D2))], {}, PUBLISHED),
        ([entry(3, D2, old=at("w1", D2))], {}, ABANDONED),
        ([entry(3, D2, old=at("w1", D2))], {D1: at("w2")}, PUBLISHED),  # nobody has named d1 since, and it is there
        ([entry(3, D2, old=at("w1", D2)), entry(4, D1, old=at("w1"))], {D1: at("w2")}, ABANDONED),
        ([entry(4, D1, D2, old=at("w1"))], {}, PUBLISHED),  # version 3 was trimmed: it may have found it done
        ([entry(3, D3), entry(4, D1, D2, old=at("w1"))], {}, ABANDONED),
    ],
)
def test_a_lost_outcome_is_what_the_next_entry_found(
    later: list[LogEntry], now: dict[PartitionValues, str], expected: Outcome
) -> None:
    history = History(LAYOUT, [SlotRecord(LOST, None, 0.0), *map(published, later)])
    assert rebuilt_outcome(history, LOST, now, {}) == (expected, frozenset())


def test_a_lost_outcome_is_that_of_the_recovery_which_carried_the_entry_out() -> None:
    recovery = replace(entry(3, D1, D2, operation=Operation.RECOVER, recovers=2), partitions=LOST.partitions)
    after = published(entry(4, D1, old=at("w9")))
    found = published(recovery, superseded=frozenset({D1}))
    history = History(LAYOUT, [SlotRecord(LOST, None, 0.0), found, after])
    assert rebuilt_outcome(history, LOST, {}, {}) == (PUBLISHED, {D1})
    given_up = History(LAYOUT, [SlotRecord(LOST, None, 0.0), replace(found, outcome=ABANDONED), after])
    assert rebuilt_outcome(given_up, LOST, {}, {}) == (ABANDONED, frozenset())


@pytest.mark.parametrize(
    ("copied", "expected"),
    [({D1: True}, PUBLISHED), ({D1: None}, PUBLISHED), ({D1: False}, ABANDONED), ({D1: False, D2: True}, PUBLISHED)],
)
def test_a_lost_outcome_of_an_append_in_place_is_told_by_its_files(
    copied: dict[PartitionValues, bool | None], expected: Outcome
) -> None:
    added = (AddedFile(name="a", size_bytes=1),)
    lost = replace(
        LOST, partitions=tuple(replace(each, source=each.new_location, added=added) for each in LOST.partitions)
    )
    now = {values: at("w2", values) for values in (D1, D2)}
    history = History(LAYOUT, [SlotRecord(lost, None, 0.0)])
    assert rebuilt_outcome(history, lost, now, copied) == (expected, frozenset())


def test_a_lost_outcome_of_what_drops_partitions_is_told_by_their_absence() -> None:
    dropped = replace(rollback(2, 0), partitions=(replace(LOST.partitions[0], new_location=None),))
    history = History(LAYOUT, [SlotRecord(dropped, None, 0.0)])
    assert rebuilt_outcome(history, dropped, {}) == (PUBLISHED, frozenset())
    assert rebuilt_outcome(history, dropped, {D1: EMPTY}) == (PUBLISHED, frozenset())
    assert rebuilt_outcome(history, dropped, {D1: at("w1")}) == (ABANDONED, frozenset())


def test_batches_of_one_stream_come_in_the_order_of_their_numbers() -> None:
    for key, other in (("q/1", "q/2"), ("q/9", "q/10"), ("a/b/1", "a/b/2")):
        assert comes_before(key, other)
        assert not comes_before(other, key)
    for other in ("q/1", "a/2", "q/x", "q/"):
        assert not comes_before("q/1", other)
    for key, other in (("a/1/1", "a/2/2"), ("1", "2"), ("/1", "/2"), ("q/x", "q/2")):
        assert not comes_before(key, other), "these are no two batches of one stream"


def rollback(version: int, to: int, *values: PartitionValues) -> LogEntry:
    return entry(version, *values, operation=Operation.ROLLBACK, rollback_to=to)


def test_a_key_counts_unless_all_of_its_partitions_were_rolled_back_before_it() -> None:
    keyed = published(entry(2, D1, D2, key=Key("k")))
    first = published(entry(1, D1))

    def counts(*later: SlotRecord, one: SlotRecord = keyed) -> bool:
        records = [first, one, *later]
        assert is_kept(one, records) is (published_with_key(records, Key("k")) is not None)
        return is_kept(one, records)

    assert counts()
    assert not counts(one=replace(keyed, outcome=ABANDONED))
    assert not counts(one=replace(keyed, outcome=None))
    assert not counts(one=replace(keyed, superseded=frozenset({D1, D2})))
    assert counts(published(rollback(3, 1, D1)))
    assert not counts(published(rollback(3, 1, D1, D2)))
    assert not counts(published(rollback(3, 1, D1)), one=replace(keyed, superseded=frozenset({D2})))
    assert counts(published(rollback(3, 2, D1, D2)))
    assert counts(replace(published(rollback(3, 1, D1, D2)), outcome=ABANDONED))
    assert counts(published(rollback(3, 1, D1, D2)), published(rollback(4, 2, D1, D2)))
    assert not counts(published(rollback(3, 1, D1, D2)), published(rollback(4, 3, D1, D2)))
    assert counts(published(entry(3, D1)), published(rollback(4, 3, D1, D2)))


def test_a_key_is_found_by_its_newest_write_and_never_by_what_recovered_or_rolled_back() -> None:
    first, second = entry(1, D1, key=Key("k")), entry(2, D1, key=Key("k"))
    assert published_with_key([published(first), published(second)], Key("k")) == published(second)
    assert published_with_key([published(first)], Key("other")) is None
    assert published_with_key([published(first), published(second, outcome=ABANDONED)], Key("k")) == published(first)
    again = replace(second, operation=Operation.RECOVER, recovers=1)
    assert published_with_key([published(first), published(again)], Key("k")) == published(first)


def test_the_keys_of_batches_and_of_single_calls_never_meet() -> None:
    call = published(entry(1, D1, key=Key("orders/2")))
    of_stream = published(entry(2, D1, key=Key("orders/2", "orders")))
    assert published_with_key([call, of_stream], Key("orders/2")) == call
    assert published_with_key([of_stream, call], batch("orders/2")) == of_stream
    assert newest_of_stream([of_stream, call], "orders") == of_stream.entry
    assert published_with_key([call], batch("orders/2")) is None
    assert published_with_key([of_stream], Key("orders/2")) is None


def test_the_newest_batch_of_a_stream_is_a_write_that_counts() -> None:
    first, second = (entry(number, D1, key=Key(f"a/b/{number}", "a/b")) for number in (1, 2))
    assert newest_of_stream([published(first), published(second)], "a/b") == second
    assert newest_of_stream([published(first), published(second, outcome=ABANDONED)], "a/b") == first
    assert newest_of_stream([published(first), published(second), published(rollback(3, 1, D1))], "a/b") == first
    again = replace(second, version=3, operation=Operation.RECOVER, recovers=2)
    assert newest_of_stream([published(first), published(again)], "a/b") == first
    assert newest_of_stream([published(first)], "a") is None
    assert newest_of_stream([], "a/b") is None


def test_a_key_counts_by_the_rollbacks_of_its_partition_alone() -> None:
    keyed = published(entry(2, D1, key=Key("k")))
    records = [published(entry(1, D1)), keyed, published(rollback(3, 1, D2)), published(entry(4, D1))]
    assert is_kept(keyed, records)
    assert is_kept(records[3], [*records, published(rollback(5, 4, D1))]), "to itself"
    twice = [*records[:2], published(rollback(3, 1, D1)), published(rollback(4, 2, D1)), published(rollback(5, 3, D1))]
    assert not is_kept(keyed, twice), "version 3 was without it"
    assert is_kept(keyed, [*twice, published(rollback(6, 4, D1))])


BATCH = entry(7, D1, key=Key("q/5", "q"), words=Words(tags={QUERY_TAG: "id-1"}))


@pytest.mark.parametrize("query_ids", [["id-1"], ["id-2", "id-1"]])
def test_a_batch_of_the_query_that_wrote_the_newest_is_let_through_whatever_its_number(query_ids: list[str]) -> None:
    for number in (0, 5, 6):
        require_same_query(BATCH, batch(f"q/{number}"), query_ids)


def test_a_batch_of_another_query_is_refused_and_both_queries_are_named() -> None:
    with pytest.raises(InvalidInputError) as error:
        require_same_query(BATCH, batch("q/6"), ["id-3", "id-2"])
    text = str(error.value)
    assert "batch 6 of query_name='q'" in text
    assert "checkpoint (id-2, id-3) than the one (id-1)" in text
    assert "'q/5' as version 7" in text
    assert error.value.table == "mart.t"


def test_where_nobody_knows_the_query_only_an_earlier_batch_than_the_newest_is_refused() -> None:
    for number in (5, 6):
        require_same_query(BATCH, batch(f"q/{number}"), [])
    with pytest.raises(InvalidInputError, match="another checkpoint than the one that has written"):
        require_same_query(BATCH, batch("q/4"), [])
    untold = replace(BATCH, words=Words())
    require_same_query(untold, batch("q/4"), ["id-2"])
    require_same_query(None, batch("q/0"), ["id-2"])


@pytest.mark.parametrize(
    ("deleted", "meets"),
    [
        (THEIRS, False),  # the listed files of other tools alone: nothing below
        (f"{THEIRS}below/", True),
        (at("w2"), True),
        (str(LAYOUT.data("w2")), True),
        (str(LAYOUT.data("w3")), False),
    ],
)
def test_a_vacuum_meets_a_write_where_it_deletes_what_readers_shall_see_or_what_is_copied(
    deleted: str, meets: bool
) -> None:
    added = (AddedFile(name="a", size_bytes=1),)
    partition = replace(entry(9, D1).partitions[0], new_location=f"{THEIRS}below/", source=at("w2"), added=added)
    draft = replace(entry(9, D1, base_version=5), partitions=(partition,))
    expected = Standing.DELETED if meets else Standing.UNRELATED
    assert standing(published(vacuum(6, deleted)), draft, (), layout=LAYOUT) is expected


def test_a_compaction_by_another_changes_no_rows_and_is_no_conflict() -> None:
    compacted = entry(6, D1, operation=Operation.COMPACT)
    draft = entry(7, D1, base_version=5)
    assert standing(published(compacted), draft, ()) is Standing.EARLIER
    assert standing(SlotRecord(compacted, None, 0.0), draft, ()) is Standing.IN_DOUBT


class Clocks:
    """A clock that goes on while the machine is suspended, the wall clock, and the store's age of the claim."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, age: float | None = None) -> None:
        self.boot, self.wall, self.age, self.asked = 50.0, 1_000.0, age, 0
        monkeypatch.setattr("table_writer.protocol.log.deadline.wall_seconds", lambda: self.wall)
        self.deadline = Deadline(100.0, lambda: self.boot, claim_age=self.claim_age)

    def claim_age(self) -> float | None:
        self.asked += 1
        return self.age

    def pass_on(self, seconds: float, *, wall: float | None = None) -> None:
        self.boot += seconds
        self.wall += seconds if wall is None else wall


def test_a_deadline_allows_what_ends_in_time_and_asks_no_store_while_clocks_agree(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clocks = Clocks(monkeypatch)
    clocks.pass_on(60.0, wall=61.0)
    assert clocks.deadline.allows(40.0)
    assert not clocks.deadline.allows(40.1)
    assert clocks.asked == 0
    assert not clocks.deadline.has_leapt()


@pytest.mark.parametrize(
    ("age", "allowed"),
    [(None, 10.0), (90.0, 10.0), (50.0, 50.0), (20.0, 80.0), (0.0, 80.0)],
    ids=["nobody knows", "paused", "paused for less", "somebody set the clock", "younger than the clock says"],
)
def test_where_clocks_disagree_the_claims_own_age_decides_and_else_the_longer_time(
    monkeypatch: pytest.MonkeyPatch, age: float | None, allowed: float
) -> None:
    clocks = Clocks(monkeypatch, age)
    clocks.pass_on(20.0, wall=90.0)
    assert clocks.deadline.allows(allowed)
    assert not clocks.deadline.allows(allowed + 0.1)
    assert clocks.asked == 1, "what it has missed is known from then on"
    assert clocks.deadline.has_leapt()
    clocks.pass_on(5.0)
    assert clocks.deadline.allows(allowed - 5.0)
    assert not clocks.deadline.allows(allowed - 4.9)
    assert clocks.asked == 1


@pytest.mark.parametrize(("wall", "leapt"), [(20.0, False), (30.0, False), (30.1, True), (10.0, False), (9.9, True)])
def test_a_leap_is_more_than_ten_seconds_between_two_clocks(
    monkeypatch: pytest.MonkeyPatch, wall: float, leapt: bool
) -> None:
    clocks = Clocks(monkeypatch)
    clocks.pass_on(20.0, wall=wall)
    assert clocks.deadline.has_leapt() is leapt


def test_no_call_comes_a_day_after_it_was_sent() -> None:
    assert LATE_CALL_SECONDS == 24 * 3600
