"""The log as objects: listings, checkpoints, marks, and what is done where something of it is gone."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from table_writer.errors import ConflictError, InvalidInputError, StorageError
from table_writer.model.entry import MAX_TIMEOUT_SECONDS, Key, LogEntry, Outcome
from table_writer.protocol.log import listing, table_log
from table_writer.protocol.log.history import History
from table_writer.protocol.log.listing import CHECKPOINT_EVERY_VERSIONS
from table_writer.protocol.log.marks import LATE_CALL_SECONDS
from table_writer.protocol.log.owner import Owner
from table_writer.protocol.log.records import UNRECORDED
from table_writer.protocol.log.table_log import TableLog
from table_writer.protocol.log.trimming import OldEntries, Trimming
from table_writer.testing.memory_store import MemoryStore
from tests.publish.world import body_of

from .test_rules import D1, D2, D3, LAYOUT, at, batch, entry, published


class Log:
    """A log of so many entries, all but those in doubt ended."""

    def __init__(
        self, count: int, *, in_doubt: tuple[int, ...] = (), keys: dict[int, str] | None = None, stream: str = ""
    ) -> None:
        self.now = 1_000_000.0
        self.store = MemoryStore(clock=lambda: self.now)
        self.log = TableLog(self.store, LAYOUT)
        for version in range(1, count + 1):
            key = (keys or {}).get(version, "")
            one = entry(version, D1, key=Key(key, stream))
            self.add(one, ended=version not in in_doubt)

    def add(self, one: LogEntry, *, ended: bool = True) -> None:
        assert self.log.slots.claim(one)
        if ended:
            self.log.slots.record_outcome(one.version, Outcome.PUBLISHED, write_id=one.write_id, of=one.write_id)

    def mark(self, kind: str, version: int) -> None:
        self.store.put(f"{LAYOUT.log_prefix}{kind}-{version:020}", b"")

    def reads(self) -> int:
        return self.store.request_counts().get("GetObject", 0)


def test_a_listing_says_what_has_ended_is_in_doubt_and_orphaned() -> None:
    of = Log(6, in_doubt=(3, 5))
    of.mark("trimmed", 2)
    of.store.delete([LAYOUT.entry_key(2)])
    state = of.log.lister.read(listed_after=0)
    assert (state.newest, state.in_doubt, state.versions) == (6, {3, 5}, {1, 3, 4, 5, 6})
    assert (state.checkpoint, state.listed_after, state.trimmed) == (2, 0, 2)
    assert state.lost == frozenset()
    assert Log(6).log.lister.read().checkpoint == 6


def test_a_listing_shows_the_marks_of_the_log() -> None:
    of = Log(3)
    of.log.marks.remember_recovery(2)
    of.log.marks.remember_rollback(3)
    of.store.put(f"{LAYOUT.log_prefix}id-abc", b"")
    state = of.log.lister.read()
    assert (state.unverified, state.rolled_back, state.ids, state.newest) == ({2}, {3}, {"abc"}, 3)


def test_an_entry_is_lost_only_if_two_listings_in_a_row_miss_it() -> None:
    of = Log(6)
    missed = iter([3, 4, 5])
    found_page = of.store.list_page

    def list_page(prefix: str, *arguments: Any, **named: Any) -> Any:
        """As a file system does while entries come."""
        found, more = found_page(prefix, *arguments, **named)
        gone = LAYOUT.entry_key(next(missed, 0))
        return [one for one in found if one.key != gone], more

    of.store.list_page = list_page  # type: ignore[method-assign]
    assert of.log.lister.read(listed_after=0).versions == frozenset(range(1, 7))
    of.store.delete([LAYOUT.entry_key(3)])
    missed = iter([4, 5])
    assert of.log.lister.accept_loss() == {3}


@pytest.mark.parametrize("since", [0, 2, 4])
@pytest.mark.parametrize("gone", [(4,), (3, 4)], ids=str)
@pytest.mark.parametrize("outcomes_too", [True, False])
def test_entries_that_are_gone_and_were_not_trimmed_are_an_error_until_their_loss_is_accepted(
    since: int, gone: tuple[int, ...], outcomes_too: bool
) -> None:
    of = Log(6)
    of.log.trim([1])
    of.store.delete([LAYOUT.entry_key(version) for version in gone])
    if outcomes_too:
        of.store.delete([LAYOUT.outcome_key(version) for version in gone])
    fresh = TableLog(of.store, LAYOUT)
    with pytest.raises(InvalidInputError, match=f"are lost: {sum(one >= since for one in gone)} "):
        fresh.lister.read(listed_after=since)
    assert fresh.lister.read(listed_after=0, allow_lost=True).lost == set(gone)
    assert fresh.lister.accept_loss() == set(gone)
    assert fresh.lister.read(listed_after=since).lost == frozenset()
    assert fresh.lister.read(listed_after=since).newest == 6


def test_a_loss_is_accepted_where_no_listing_from_the_checkpoint_on_shows_it() -> None:
    of = Log(6)
    of.store.put(LAYOUT.checkpoint_key, b'{"version": 5}')
    of.store.delete([LAYOUT.entry_key(2)])
    assert of.log.lister.read().lost == frozenset()
    assert of.log.lister.accept_loss() == {2}
    assert of.log.read_history().lost == {2}


def test_of_many_lost_entries_five_are_named() -> None:
    log = Log(0).log
    assert "are lost: 5 (" in log.lister.lost_message(range(1, 6))
    assert "(version 1, 2, 3, 4, 5)" in log.lister.lost_message(range(1, 6))
    assert "(version 1, 2, 3, 4, 5, …)" in log.lister.lost_message(range(1, 7))


def test_an_entry_that_comes_while_the_log_is_listed_is_not_lost() -> None:
    """A file system may list a later name and not an earlier one that was put in between."""
    of = Log(3)
    hidden = body_of(of.store, LAYOUT.entry_key(2))
    of.store.delete([LAYOUT.entry_key(2)])

    def comes(call: str, phase: str, key: str) -> None:
        if (call, phase, key) == ("list_page", "after", LAYOUT.log_prefix):
            of.store.on_call = None
            of.store.put(LAYOUT.entry_key(2), hidden)

    of.store.on_call = comes
    assert of.log.lister.read(listed_after=0).versions == {1, 2, 3}


def test_an_outcome_of_another_entry_is_an_error() -> None:
    of = Log(1, in_doubt=(1,))
    of.log.slots.record_outcome(1, Outcome.PUBLISHED, write_id="r", of="another")
    with pytest.raises(InvalidInputError, match=r"it is of write another, not w1\. Delete it"):
        of.log.slots.read(1)


def test_a_log_that_is_not_the_one_that_is_expected_is_refused_and_a_lost_mark_is_put_back() -> None:
    of = Log(0)
    of.store.put(f"{LAYOUT.log_prefix}id-abc", b"")
    of.log.lister.read()
    of.add(entry(1, D1))
    of.store.delete([f"{LAYOUT.log_prefix}id-abc"])
    fresh = TableLog(of.store, LAYOUT)
    fresh.expect("other")
    owned = Owner(database="lake", name="t", created_at_seconds=1, metastore="thrift://a:9083")
    for owner in (None, b"{}", b"[", replace(owned, log_id="abc").to_json()):
        if owner is not None:
            of.store.put(LAYOUT.owner_key, owner)
        with pytest.raises(ConflictError, match="was deleted since this call began"):
            fresh.lister.read()
    of.store.put(LAYOUT.owner_key, replace(owned, log_id="other").to_json())
    with pytest.raises(InvalidInputError, match="is not the log that"):
        fresh.lister.read()
    fresh.expect("abc")
    assert fresh.lister.read().ids == {"abc"}
    assert of.log.lister.read().ids == {"abc"}, "the entry bears the id, too"


def test_an_entry_of_another_log_is_refused() -> None:
    of, other = Log(0), Log(0)
    for log, name in ((of, "abc"), (other, "xyz")):
        log.store.put(f"{LAYOUT.log_prefix}id-{name}", b"")
        log.log.lister.read()
        log.add(entry(1, D1))
    of.store.put(LAYOUT.entry_key(1), body_of(other.store, LAYOUT.entry_key(1)))
    fresh = TableLog(of.store, LAYOUT)
    fresh.lister.read()
    with pytest.raises(InvalidInputError, match="is of another log: it was copied here"):
        fresh.slots.read(1)


def test_a_checkpoint_of_another_log_is_passed_over() -> None:
    of = Log(0)
    of.store.put(f"{LAYOUT.log_prefix}id-abc", b"")
    of.log.lister.read()
    for version in (1, 2, 3):
        of.add(entry(version, D1))
    of.store.put(LAYOUT.checkpoint_key, b'{"version": 3, "log_id": "abc"}')
    assert of.log.lister.read().versions == {3}
    whole = of.log.lister.read(listed_after=0)
    assert of.log.lister.with_checkpoint(whole).listed_after == 3
    of.store.put(LAYOUT.checkpoint_key, b'{"version": 3, "log_id": "xyz"}')
    assert of.log.lister.read().versions == {1, 2, 3}
    assert of.log.lister.with_checkpoint(whole).listed_after == 0
    of.store.put(LAYOUT.checkpoint_key, b'{"version": 3}')
    assert of.log.lister.with_checkpoint(whole).listed_after == 3, "an older library did not say of which log it is"
    of.store.put(LAYOUT.checkpoint_key, b'{"version": 4}')
    assert of.log.lister.with_checkpoint(whole).listed_after == 0, "there is no such version"


def test_an_empty_log_begins_at_0_and_what_is_no_slot_is_passed_over() -> None:
    of = Log(0)
    for name in ("readme", "1.json", f"{1:020}.json.bak", f"{1:020}.txt"):
        of.store.put(f"{LAYOUT.log_prefix}{name}", b"x")
    state = of.log.lister.read()
    assert (state.newest, state.checkpoint, state.versions) == (0, 0, frozenset())


def test_a_listing_from_a_checkpoint_holds_it_and_what_came_after_it() -> None:
    of = Log(9)
    state = of.log.lister.read(listed_after=7)
    assert (state.versions, state.listed_after) == ({7, 8, 9}, 7)


def test_where_nothing_is_left_after_the_checkpoint_the_whole_log_is_listed() -> None:
    of = Log(3)
    assert of.log.lister.read(listed_after=50).versions == {1, 2, 3}
    assert of.log.lister.read(listed_after=50).listed_after == 0


def test_a_checkpoint_is_saved_every_so_many_versions_and_only_up_to_what_is_in_doubt() -> None:
    of = Log(CHECKPOINT_EVERY_VERSIONS - 1)
    of.log.lister.save_checkpoint(of.log.lister.read())
    assert of.store.get(LAYOUT.checkpoint_key) is None
    of.add(entry(CHECKPOINT_EVERY_VERSIONS, D1))
    of.add(entry(CHECKPOINT_EVERY_VERSIONS + 1, D1), ended=False)
    of.log.lister.save_checkpoint(of.log.lister.read())
    stored = body_of(of.store, LAYOUT.checkpoint_key)
    assert json.loads(stored) == {"version": CHECKPOINT_EVERY_VERSIONS, "log_id": ""}
    assert of.log.lister.read().versions == {CHECKPOINT_EVERY_VERSIONS, CHECKPOINT_EVERY_VERSIONS + 1}
    of.store.delete([LAYOUT.checkpoint_key])
    of.store.on_call = lambda call, *_: refuse() if call == "put" else None
    of.log.lister.save_checkpoint(of.log.lister.read(listed_after=0))  # only slower


def refuse() -> None:
    raise StorageError("AccessDenied")


@pytest.mark.parametrize(
    ("body", "version"),
    [(b'{"version": 2}', 2), (b'{"version": -7}', 0), (b'{"version": 1e999}', 0), (b"[]", 0), (b"", 0)],
)
def test_a_checkpoint_that_is_none_counts_as_none(body: bytes, version: int) -> None:
    of = Log(3)
    of.store.put(LAYOUT.checkpoint_key, body)
    assert of.log.lister.read().listed_after == version


def test_calls_may_come_until_a_day_after_the_longest_claim_and_recoveries_stay_until_somebody_forgets_them() -> None:
    of = Log(2)
    assert not of.log.marks.may_calls_come(1)
    of.log.marks.remember_recovery(1)
    of.log.marks.remember_recovery(2)
    of.now += MAX_TIMEOUT_SECONDS + LATE_CALL_SECONDS - 1
    assert of.log.marks.may_calls_come(1)
    of.now += 1
    assert not of.log.marks.may_calls_come(1)
    assert of.log.lister.read().unverified == of.log.read_history().unverified == {1, 2}
    of.log.marks.forget_recoveries([1])
    assert of.log.lister.read().unverified == of.log.read_history().unverified == {2}


@pytest.mark.parametrize("mark", ["remember_recovery", "remember_rollback"])
def test_what_must_be_noted_first_and_cannot_be_is_an_error(mark: str) -> None:
    of = Log(1)
    of.store.on_call = lambda call, *_: refuse() if call == "put" else None
    with pytest.raises(StorageError):
        getattr(of.log.marks, mark)(1)


def test_ages_and_who_recorded_are_those_of_the_objects() -> None:
    of = Log(1, in_doubt=(1,))
    of.now += 10
    assert of.log.slots.read(1).age_seconds == 10
    of.log.slots.record_outcome(
        1,
        Outcome.ABANDONED,
        write_id="somebody",
        superseded={D2: None, D1: "s3a://lake/t/d1/", D3: UNRECORDED},
        of="w1",
    )
    of.now += 5
    record = TableLog(of.store, LAYOUT).slots.read(1)
    assert (record.age_seconds, record.outcome_age_seconds, record.recorded_by) == (15, 5, "somebody")
    assert (record.outcome, record.superseded) == (Outcome.ABANDONED, {D1, D2, D3})
    assert record.superseded_locations == {D1: "s3a://lake/t/d1/", D2: None, D3: UNRECORDED}
    stored = body_of(of.store, LAYOUT.outcome_key(1))
    said = {"outcome": "abandoned", "version": 1, "recorded_by": "somebody", "of": "w1"}
    found = {"superseded": [["d1"], ["d2"], ["d3"]], "found": [[["d1"], "s3a://lake/t/d1/"], [["d2"], None]]}
    assert json.loads(stored) == {**said, **found}


def test_what_has_ended_is_read_once_and_what_is_in_doubt_again() -> None:
    of = Log(2, in_doubt=(2,))
    of.log.read_history()
    before = of.reads()
    of.log.read_history()
    assert of.reads() - before == 2, "the entry in doubt, and its outcome"


def test_an_entry_that_is_gone_is_left_out_of_the_history_and_missed_where_it_is_asked_for() -> None:
    of = Log(3)
    state = of.log.lister.read(listed_after=0)
    of.store.delete([LAYOUT.entry_key(2)])
    fresh = TableLog(of.store, LAYOUT)
    assert [one.entry.version for one in fresh.read_history(state).records] == [1, 3]
    assert fresh.slots.find(2) is None
    assert fresh.slots.outcome(2) is Outcome.PUBLISHED
    assert fresh.slots.outcome(9) is None
    with pytest.raises(InvalidInputError, match=r"log entry 2 .* is not there any more"):
        fresh.slots.read(2)


def test_a_file_larger_than_any_entry_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    of = Log(2)
    largest = max(info.size_bytes for info in of.store.list(LAYOUT.log_prefix))
    monkeypatch.setattr("table_writer.protocol.log.listing.MAX_BYTES", largest)
    assert of.log.lister.read().newest == 2
    monkeypatch.setattr("table_writer.protocol.log.listing.MAX_BYTES", largest - 1)
    with pytest.raises(InvalidInputError, match="that is no log entry"):
        of.log.lister.read()


def test_a_key_is_looked_for_from_the_newest_entry_on() -> None:
    of = Log(40, keys={3: "k", 38: "new"})
    newest = of.log.find_key(Key("new"))
    assert newest is not None
    assert newest.entry.version == 38
    assert TableLog(of.store, LAYOUT).find_key(Key("absent")) is None
    before = of.reads()
    assert TableLog(of.store, LAYOUT).find_key(Key("new")) == newest
    assert of.reads() - before < 20
    oldest = TableLog(of.store, LAYOUT).find_key(Key("k"))
    assert oldest is not None
    assert oldest.entry.version == 3


def test_a_stream_in_order_is_read_back_to_an_earlier_batch_unless_the_log_knows_a_rollback() -> None:
    of = Log(40, keys={number: f"q/{number}" for number in range(1, 41)}, stream="q")

    def reads_of(key: str) -> tuple[int | None, int]:
        before = of.reads()
        found = TableLog(of.store, LAYOUT).find_key(batch(key))
        return found and found.entry.version, of.reads() - before

    assert reads_of("q/40") == (40, 2)
    assert reads_of("q/41") == (None, 2)
    assert reads_of("other/1") == (None, 80)
    assert reads_of("q/9")[0] == 9
    of.log.marks.remember_rollback(7)
    assert reads_of("q/41") == (None, 80)
    of.log.trim([1, 2, 3, 7])
    assert reads_of("q/41") == (None, 2)


def test_a_key_that_only_looks_like_a_streams_is_found_behind_an_earlier_batch() -> None:
    of = Log(2, keys={1: "day/5", 2: "day/3"}, stream="")
    found = of.log.find_key(Key("day/5"))
    assert found is not None
    assert found.entry.version == 1
    assert of.log.find_key(batch("day/5")) is None


def test_the_first_outcome_stands_and_is_returned_to_whoever_comes_second() -> None:
    of = Log(1, in_doubt=(1,))
    assert of.log.slots.record_outcome(1, Outcome.ABANDONED, write_id="a").outcome is Outcome.ABANDONED
    assert of.log.slots.record_outcome(1, Outcome.PUBLISHED, write_id="b").outcome is Outcome.ABANDONED
    assert of.log.slots.read(1).recorded_by == "a"


def test_a_trim_says_so_first_and_entries_go_before_their_outcomes_and_nothing_else_goes() -> None:
    of = Log(4)
    done: list[str] = []
    of.store.on_call = lambda call, phase, key: (
        done.append(key) if call in {"put", "delete"} and phase == "after" else None
    )
    of.log.trim([2, 1])
    assert done == [
        f"{LAYOUT.log_prefix}trimmed-{2:020}",
        LAYOUT.entry_key(1),
        LAYOUT.entry_key(2),
        LAYOUT.outcome_key(1),
        LAYOUT.outcome_key(2),
    ]


def test_a_claim_that_does_not_stand_has_no_age() -> None:
    of = Log(1)
    of.now += 7
    assert of.log.slots.claim_age(entry(1, D1)) == 7.0
    assert of.log.slots.claim_age(entry(2, D1)) is None

    def fail(call: str, phase: str, key: str) -> None:
        raise StorageError("no answer")

    of.store.on_call = fail
    assert of.log.slots.claim_age(entry(1, D1)) is None, "nobody can say"


def test_the_last_word_is_the_first_that_was_taken_and_a_damaged_one_is_nobodys_here() -> None:
    of = Log(2)
    assert of.log.marks.last_word(1) == ""
    assert of.log.marks.take_last_word(1, "w1") == "w1"
    assert of.log.marks.take_last_word(1, "r2") == "w1"
    of.store.put(f"{LAYOUT.log_prefix}last-word-{2:020}", b"\xff\xfe")
    assert of.log.marks.take_last_word(2, "w2") not in {"", "w2"}


def test_how_partitions_came_to_where_they_are_is_looked_up_in_all_records_though_some_are_lost() -> None:
    of = Log(4)
    of.store.delete([LAYOUT.entry_key(2)])
    fold = Trimming(History(LAYOUT, [published(entry(1, D1))])).fold("log-1")
    folded = History(LAYOUT, [published(entry(4, D1))], fold=fold)
    assert of.log.explained_history(folded, {D1: at("w4")}) is folded
    found = of.log.explained_history(folded, {D1: at("w0")}, allow_lost=True)
    assert ([record.entry.version for record in found.records], found.lost) == ([1, 3, 4], {2})
    with pytest.raises(InvalidInputError, match="are lost"):
        of.log.explained_history(folded, {D1: at("w0")})


def test_no_fold_is_put_that_nobody_could_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_log, "FOLD_EVERY_VERSIONS", 2)
    of = Log(4)
    history = of.log.read_history()
    assert TableLog(of.store, LAYOUT, memory_bytes=1_000).save_fold(history, OldEntries()) is None
    assert not list(of.store.list(f"{LAYOUT.log_prefix}folded-"))
    assert of.log.save_fold(history, OldEntries()) == 3


def test_a_log_is_folded_once_it_has_grown_by_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    for needed, version in ((3, 3), (4, 0)):
        monkeypatch.setattr(table_log, "FOLD_EVERY_VERSIONS", needed)
        of = Log(4)
        assert of.log.fold_version(of.log.read_history()) == version


def test_a_slot_may_be_as_far_away_as_entries_can_be_lost_and_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MOST_LOST", 3)
    of = Log(2)
    of.add(entry(6, D1))
    assert of.log.lister.read(listed_after=0, allow_lost=True).lost == {3, 4, 5}
    of.store.delete([LAYOUT.entry_key(6), LAYOUT.outcome_key(6)])
    of.add(entry(7, D1))
    with pytest.raises(InvalidInputError, match="is far beyond the 3 entries of this log"):
        of.log.lister.read(listed_after=0, allow_lost=True)
