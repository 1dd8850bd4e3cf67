"""Entries check themselves: what is stored was valid, what is read is trusted only after a check."""

from __future__ import annotations

import gzip
import json
import re
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partialmethod
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_writer.errors import InvalidInputError
from table_writer.model.entry import BODY, EntryPartition, Key, LogEntry, Outcome, ReplacedLocation, ReplacedObject
from table_writer.model.location import Location
from table_writer.model.meaning import OF_OPERATION, Operation
from table_writer.model.write import TableLayout
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log import slots as slots_module
from table_writer.protocol.log import stored as stored_module
from table_writer.protocol.log.owner import Owner, require_owner
from table_writer.protocol.log.registration import read_registrations
from table_writer.protocol.log.stored import Allowance
from table_writer.protocol.log.table_log import TableLog
from table_writer.testing.memory_store import MemoryStore
from tests.publish.world import body_of

ROOT = Location.parse("s3a://lake/mart/orders")
NOW = datetime(2024, 1, 1, tzinfo=UTC)


def entry(version: int = 1, **changes: Any) -> LogEntry:
    fields: dict[str, Any] = {
        "table": "mart.orders",
        "version": version,
        "write_id": f"w{version}",
        "operation": Operation.WRITE,
        "created_at": NOW,
        "base_version": version - 1,
        "publish_timeout_seconds": 300.0,
        "partitions": (
            EntryPartition(
                values=("d1", "a/b %"),
                old_location="s3://elsewhere/x/",
                new_location="s3a://lake/mart/orders/_table_writer/data/w1/dt=d1/p=a%2Fb %25/",
                rows=1,
                bytes=2,
                raw_bytes=3,
                files=1,
            ),
        ),
        "replaced": (
            ReplacedLocation(
                location="s3a://lake/mart/orders/dt=d1/",
                delete_after=NOW,
                objects=(ReplacedObject(key="mart/orders/dt=d1/part", size_bytes=7, etag="e"),),
            ),
        ),
        **changes,
    }
    if fields["operation"] is Operation.WRITE:
        fields.setdefault("mode", WriteMode.OVERWRITE_PARTITIONS)
    if not OF_OPERATION[fields["operation"]].changes_partitions:
        del fields["partitions"], fields["replaced"]
    return LogEntry(**fields)


def test_an_entry_survives_storage() -> None:
    assert LogEntry.from_json(entry().to_json(ROOT), root=ROOT, version=1) == entry()


def test_locations_below_the_root_are_stored_relative_to_it() -> None:
    text = entry().to_json(ROOT).decode()
    assert '"new_location": "_table_writer/data/w1/' in text
    moved = LogEntry.from_json(text.encode(), root=Location.parse("s3://copy/t"), version=1)
    assert moved.partitions[0].new_location.startswith("s3://copy/t/_table_writer/data/w1/")
    assert moved.partitions[0].old_location == "s3://elsewhere/x/"


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 0, "base_version": 0},
        {"base_version": 1},
        {"write_id": "../x"},
        {"write_id": ""},
        {"created_at": datetime(2024, 1, 1)},  # noqa: DTZ001  # that is the point
        {"publish_timeout_seconds": 0},
        {"operation": Operation.RECOVER},
        {"operation": Operation.RECOVER, "recovers": 1},
        {"recovers": 1},
        {"partitions": entry().partitions * 2},
    ],
    ids=str,
)
def test_an_entry_that_contradicts_itself_is_never_stored(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        entry(**changes).to_json(ROOT)


@given(cut=st.integers(min_value=0, max_value=len(entry().to_json(ROOT)) - 1))
def test_a_truncated_entry_is_an_error_and_never_half_an_entry(cut: int) -> None:
    with pytest.raises(InvalidInputError):
        LogEntry.from_json(entry().to_json(ROOT)[:cut], root=ROOT, version=1)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("format", 3),
        ("version", 2),
        ("version", "x"),
        ("operation", "drop"),
        ("partitions", None),
        ("partitions", [{"values": ["d1"], "old_location": None, "new_location": "../../x/"}]),
        ("partitions", [1]),
        ("tags", {"a": 1}),
        ("call", 1),
        *(("counts", {"deleted": wrong}) for wrong in (-1, 2**63, "all", 1.5)),
        ("writer", []),
        ("created_at", "yesterday"),
        ("write_id", None),
        *(("row_bytes", wrong) for wrong in (-1, 2**63, "wide", None, 1e400)),
    ],
)
def test_a_hostile_entry_is_an_error(field: str, value: object) -> None:
    stored = json.loads(entry().to_json(ROOT))
    (stored["body"] if field in BODY else stored)[field] = value
    with pytest.raises(InvalidInputError):
        LogEntry.from_json(json.dumps(stored).encode(), root=ROOT, version=1)


@pytest.mark.parametrize("where", ["new_location", "old_location"])
def test_a_location_that_leaves_the_root_is_an_error(where: str) -> None:
    stored = json.loads(entry().to_json(ROOT))
    stored["body"]["partitions"][0][where] = "_table_writer/data/../../../other/"
    with pytest.raises(InvalidInputError, match=r"\.\.|leaves"):
        LogEntry.from_json(json.dumps(stored).encode(), root=ROOT, version=1)


def with_partitions(count: int, version: int = 1) -> LogEntry:
    (one,) = entry().partitions
    return entry(version, partitions=tuple(replace(one, values=(f"d{number}", "p")) for number in range(count)))


@pytest.mark.parametrize(("count", "readable"), [(1, True), (100, True), (1_000, False)])
def test_a_long_entry_is_stored_compressed_and_a_short_one_as_text(count: int, readable: bool) -> None:
    store = MemoryStore()
    given = with_partitions(count)
    assert log_of(store).slots.claim(given)
    assert log_of(store).slots.claim(given), "the same entry is the same bytes: a claim is recognised by them"
    stored = body_of(store, TableLayout(ROOT).entry_key(1))
    text = given.to_json(ROOT)
    assert (stored == text) == readable
    assert readable or (gzip.decompress(stored) == text and len(stored) < len(text) / 10)
    assert log_of(store).slots.read(1).entry == given


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "its end is missing": lambda body: body[:-1],
    "half of it is missing": lambda body: body[: len(body) // 2],
    "only its first bytes are left": lambda body: body[:2],
    "something follows": lambda body: body + b"{}",
    "it is there twice": lambda body: body * 2,
    "a byte is another": lambda body: body[:500] + bytes([body[500] ^ 1]) + body[501:],
    "its checksum is another": lambda body: body[:-8] + bytes(4) + body[-4:],
    "something else is compressed": lambda _: gzip.compress(b"[1]"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_compressed_entry_is_an_error_that_names_it(damage: Callable[[bytes], bytes]) -> None:
    store = MemoryStore()
    log_of(store).slots.claim(with_partitions(1_000))
    key = TableLayout(ROOT).entry_key(1)
    stored = body_of(store, key)
    store.put(key, damage(stored))
    with pytest.raises(InvalidInputError, match="log entry 1 below"):
        log_of(store).slots.read(1)


def test_what_unpacks_to_more_than_any_entry_is_refused_before_it_fills_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stored_module, "MAX_BYTES", 1_000_000)
    store = MemoryStore()
    store.put(TableLayout(ROOT).entry_key(1), gzip.compress(bytes(50_000_000)))
    with peak_below(10_000_000), pytest.raises(InvalidInputError, match="when unpacked"):
        log_of(store).slots.read(1)


@contextmanager
def peak_below(most_bytes: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most_bytes
    finally:
        tracemalloc.stop()


def log_with(bodies: Iterable[bytes], **settings: Any) -> TableLog:
    store, layout = MemoryStore(), TableLayout(ROOT)
    for version, body in enumerate(bodies, start=1):
        store.put(layout.entry_key(version), body)
        store.put(layout.outcome_key(version), b'{"outcome": "published", "recorded_by": "w1"}')
    return TableLog(store, layout, **settings)


BOMBS: dict[str, bytes] = {  # of an entry: what little bytes unpack to, and what unpacked bytes parse to
    "zeros": gzip.compress(bytes(30_000_000)),
    "empty lists": gzip.compress(b"[" + b"[]," * 1_000_000 + b"0]"),
    "empty lists as text": b"[" + b"[]," * 1_000_000 + b"0]",
    "dicts as text": b"[" + b'{"a":0.5},' * 300_000 + b"0]",
    "a wide letter": ('["' + "a" * 5_000_000 + '😀"]').encode(),
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_entries_that_grow_when_they_are_read_end_in_an_error_before_they_fill_the_memory(bomb: bytes) -> None:
    log = log_with([bomb] * 6, memory_bytes=20_000_000)
    with peak_below(25_000_000), pytest.raises(InvalidInputError, match="log entry 1 below"):
        log.read_history()


def test_all_entries_of_a_reading_share_one_allowance_and_the_first_that_does_not_fit_is_named() -> None:
    bodies = [with_partitions(2_000, version).to_json(ROOT) for version in range(1, 9)]
    needed = stored_module.memory_bytes(bodies[-1])
    with peak_below(6 * needed), pytest.raises(InvalidInputError, match="log_memory_bytes") as refused:
        log_with(bodies, memory_bytes=4 * needed).read_history()
    assert re.search(r"log entry \d|/log/\d{20}\.done", refused.value.message)
    with pytest.raises(InvalidInputError, match="log_memory_bytes"):
        log_with(bodies, memory_bytes=4 * needed).find_key(Key("no/such"))
    assert len(log_with(bodies, memory_bytes=9 * needed).read_history().records) == 8


@pytest.mark.slow
def test_what_was_read_before_takes_nothing_of_a_later_reading() -> None:
    bodies = [with_partitions(2_000, version).to_json(ROOT) for version in range(1, 9)]
    log = log_with(bodies, memory_bytes=9 * stored_module.memory_bytes(bodies[-1]))
    assert [*log.read_history().records] == [*log.read_history().records]


def test_an_outcome_that_is_longer_than_any_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots_module, "MAX_OUTCOME_BYTES", 10_000)
    log = log_with([entry().to_json(ROOT)])
    log.store.put(TableLayout(ROOT).outcome_key(1), b'{"outcome": "published"' + b" " * 20_000 + b"}")
    with pytest.raises(InvalidInputError, match=r"the outcome at .* cannot be read: it has 20,024 bytes"):
        log.read_history()


@pytest.mark.parametrize("name", ["owner_key", "checkpoint_key"])
def test_a_small_object_that_is_long_is_not_parsed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def parsed(body: bytes) -> Any:
        assert len(body) <= stored_module.READABLE_BYTES
        return json.loads(body)

    monkeypatch.setattr(stored_module, "json", SimpleNamespace(loads=parsed))
    store, layout = MemoryStore(), TableLayout(ROOT)
    store.put(getattr(layout, name), b'{"version": 1, "x": "' + bytes(100_000) + b'"}')
    log = TableLog(store, layout)
    assert (log.lister.read().newest, log.find_key(Key("a/1", "a"))) == (0, None)
    if name == "owner_key":
        owner = Owner(database="mart", name="orders", created_at_seconds=1, metastore="thrift://a:1")
        with pytest.raises(InvalidInputError, match="no more than 65,536 are expected"):
            require_owner(store, layout, owner)


def test_registrations_share_one_allowance_and_the_one_that_does_not_fit_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, layout = MemoryStore(), TableLayout(ROOT)
    body = json.dumps({"writer": {str(number): "x" for number in range(1_000)}}).encode()
    for number in range(4):
        store.put(layout.registration_key(f"w{number}"), body)
    assert len(read_registrations(store, layout)) == 4
    monkeypatch.setattr(Allowance, "__init__", partialmethod(Allowance.__init__, 3 * stored_module.memory_bytes(body)))
    with pytest.raises(InvalidInputError, match=r"w3\.json cannot be read beside the others"):
        read_registrations(store, layout)


def test_a_writer_stores_as_text_what_compresses_better_than_a_reader_believes() -> None:
    (one,) = entry().partitions
    long = entry(partitions=tuple(replace(one, values=("x" * 2_000, str(number))) for number in range(1_000)))
    store = MemoryStore()
    assert log_of(store).slots.claim(long)
    stored = body_of(store, TableLayout(ROOT).entry_key(1))
    assert stored == long.to_json(ROOT)
    assert log_of(store).slots.read(1).entry == long


def test_an_entry_that_nobody_could_read_is_refused_before_it_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_module, "MAX_BYTES", 100_000)
    store = MemoryStore()
    with pytest.raises(InvalidInputError, match="fewer partitions") as caught:
        log_of(store).slots.claim(with_partitions(1_000))
    assert (caught.value.table, caught.value.write_id) == ("mart.orders", "w1")
    assert list(store.list("")) == []


def test_a_long_outcome_is_compressed_and_read_like_a_short_one() -> None:
    store, given = MemoryStore(), with_partitions(5_000)
    log = log_of(store)
    log.slots.claim(given)
    log.slots.record_outcome(1, Outcome.PUBLISHED, write_id="w1", superseded=dict.fromkeys(given.partition_values))
    done = body_of(store, TableLayout(ROOT).outcome_key(1))
    assert done.startswith(b"\x1f\x8b")
    assert log_of(store).slots.read(1).superseded == given.partition_values
    store.put(TableLayout(ROOT).outcome_key(1), done[:-1])
    with pytest.raises(InvalidInputError, match="outcome"):
        log_of(store).slots.read(1)


def log_of(store: MemoryStore) -> TableLog:
    return TableLog(store, TableLayout(ROOT))


def test_the_newest_version_takes_two_requests_however_long_the_log_is() -> None:
    store = MemoryStore()
    log = log_of(store)
    for version in range(1, 701):
        assert log.slots.claim(entry(version))
        log.slots.record_outcome(version, Outcome.PUBLISHED, write_id="w")
        if version % 100 == 0:
            log.lister.save_checkpoint(log.lister.read())
    before = sum(store.request_counts().values())
    state = log.lister.read()
    assert state.newest == 700
    assert not state.in_doubt
    assert sum(store.request_counts().values()) - before == 2


def test_a_slot_is_claimed_once() -> None:
    log = log_of(MemoryStore())
    assert log.slots.claim(entry())
    assert not log.slots.claim(entry(write_id="other"))
    assert log.slots.claim(entry()), "a repeated claim of our own is ours"


@pytest.mark.parametrize("body", [b"", b"{}", b'{"outcome": "maybe"}', b"[1]", b"\xff"])
def test_an_unreadable_outcome_is_an_error_not_a_guess(body: bytes) -> None:
    store = MemoryStore()
    log = log_of(store)
    log.slots.claim(entry())
    store.put(TableLayout(ROOT).outcome_key(1), body)
    with pytest.raises(InvalidInputError):
        log.slots.read(1)
