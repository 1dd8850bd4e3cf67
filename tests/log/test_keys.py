"""Which entry has a key, where some entries are folded: what is read, and what must not be believed."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from table_writer.model.entry import Key, LogEntry
from table_writer.protocol.log.keys import KeySearch
from table_writer.protocol.log.known_keys import KnownKeys, key_digest
from table_writer.protocol.log.records import SlotRecord
from table_writer.protocol.log.state import TableState
from table_writer.protocol.log.trimming import Trimming

from .test_history import abandoned, history, in_doubt
from .test_rules import D1, D2, batch, entry, published, rollback


class Searched:
    """A log of these records, folded up to a version; what was read of it is kept."""

    def __init__(self, *records: SlotRecord | LogEntry, folded: int = 0, is_in_order: bool = True) -> None:
        all_records = history(*records).records
        self.records = {each.entry.version: each for each in all_records}
        self.fold: TableState | None = None
        if folded:
            self.fold = Trimming(history(*(each for each in all_records if each.entry.version <= folded))).fold("log-1")
        self.is_in_order = is_in_order
        self.found: list[int] = []
        self.read_whole_count = 0

    def find(self, version: int) -> SlotRecord | None:
        self.found.append(version)
        return self.records.get(version)

    def read_whole(self) -> list[SlotRecord]:
        self.read_whole_count += 1
        return list(self.records.values())

    def search(self) -> KeySearch:
        first = self.fold.version if self.fold else 0
        return KeySearch(
            find=self.find,
            read_whole=self.read_whole,
            versions=tuple(version for version in self.records if version > first),
            is_in_order=self.is_in_order,
            folded=self.fold.keys if self.fold else KnownKeys(),
        )

    def version_of(self, key: Key) -> int | None:
        record, _ = self.search().look_up(key)
        return record and record.entry.version


def call(version: int, key: str) -> LogEntry:
    return entry(version, D1, key=Key(key))


def batch_entry(version: int, number: int) -> LogEntry:
    return entry(version, D1, key=Key(f"q/{number}", "q"))


def test_a_folded_key_is_one_read_and_an_unknown_one_is_none() -> None:
    log = Searched(call(1, "a"), call(2, "b"), entry(3), call(4, "c"), folded=3)
    assert log.version_of(Key("a")) == 1
    assert log.found == [4, 1]
    assert log.version_of(Key("c")) == 4
    assert log.version_of(Key("z")) is None
    assert log.read_whole_count == 0


def test_a_folded_key_whose_outcome_is_lost_is_in_doubt_and_one_that_was_abandoned_is_free() -> None:
    for ended, version in ((in_doubt(call(1, "a")), 1), (abandoned(call(1, "a")), None)):
        log = Searched(call(1, "a"), entry(2), folded=2)
        log.records[1] = ended
        assert log.version_of(Key("a")) == version


def test_a_folded_key_whose_entry_is_trimmed_is_looked_for_in_the_whole_log() -> None:
    log = Searched(call(1, "a"), entry(2), folded=2)
    del log.records[1]
    assert log.version_of(Key("a")) is None
    assert log.read_whole_count == 1


def test_a_digest_that_two_keys_share_is_the_key_of_neither_until_all_is_read() -> None:
    log = Searched(call(1, "a"), call(2, "b"), folded=2)
    assert log.fold is not None
    log.fold = replace(log.fold, keys=KnownKeys(published={key_digest("a", ""): 2}))
    assert log.version_of(Key("a")) == 1
    assert log.read_whole_count == 1


@pytest.mark.parametrize("folded", [2, 3], ids=["after the fold", "folded too"])
def test_a_folded_key_is_free_again_once_its_rows_are_rolled_back(folded: int) -> None:
    records = (entry(1, D1), call(2, "a"), rollback(3, 1, D1))
    log = Searched(*records, folded=folded)
    assert log.version_of(Key("a")) is None
    assert log.read_whole_count == 1
    elsewhere = Searched(*records[:2], rollback(3, 1, D2), folded=folded)
    assert elsewhere.version_of(Key("a")) == 2, "other partitions were rolled back"
    if folded == 2:
        refused = Searched(*records[:2], abandoned(rollback(3, 1, D1)), folded=folded)
        assert (refused.version_of(Key("a")), refused.read_whole_count) == (2, 0)


def test_reading_back_ends_at_an_earlier_batch_of_the_stream_unless_batches_come_again() -> None:
    records = [batch_entry(number, number) for number in range(1, 6)]
    log = Searched(*records)
    assert (log.version_of(batch("q/6")), log.found) == (None, [5])
    assert Searched(*records, is_in_order=False).version_of(batch("q/2")) == 2
    again = Searched(*records, is_in_order=False)
    assert (again.version_of(batch("q/6")), len(again.found)) == (None, 5)
    single = Searched(*(call(number, f"q/{number}") for number in range(1, 6)))
    assert single.version_of(Key("q/2")) == 2, "keys of single calls come in no order"


def test_the_newest_batch_of_a_folded_stream_is_found_and_not_where_it_counts_no_more() -> None:
    records = (batch_entry(1, 1), batch_entry(2, 2), entry(3), entry(4))
    log = Searched(*records, folded=3)
    published_record, newest = log.search().look_up_batch(batch("q/3"))
    assert (published_record, newest) == (None, records[1])
    assert log.read_whole_count == 0
    assert log.search().look_up_batch(batch("q/2")) == (published(batch_entry(2, 2)), records[1])
    assert log.search().look_up_batch(batch("other/1")) == (None, None)
    log.records[2] = abandoned(records[1])
    assert log.search().look_up_batch(batch("q/3")) == (None, records[0])
    del log.records[2]
    assert log.search().look_up_batch(batch("q/3")) == (None, None)
    taken_back = Searched(*records[:3], rollback(4, 1, D1), folded=3)
    assert taken_back.search().look_up_batch(batch("q/2")) == (None, records[0])
    newer = Searched(*records[:3], batch_entry(4, 3), folded=3)
    assert newer.search().look_up_batch(batch("q/4")) == (None, newer.records[4].entry)


@pytest.mark.parametrize(("stream", "text"), [("q", b"q\0q/1"), ("", b"\0q/1")])
def test_folds_that_lie_in_a_store_know_keys_by_the_same_digests(stream: str, text: bytes) -> None:
    assert key_digest("q/1", stream) == hashlib.blake2b(text, digest_size=8).hexdigest()
