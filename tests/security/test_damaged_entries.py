"""Entries of the log that were damaged or forged: an error that names the entry, or nothing that matters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from table_writer.errors import InvalidInputError
from table_writer.model.entry import BODY
from table_writer.protocol.log.listing import MAX_BYTES
from table_writer.storage.object_store import ObjectInfo
from table_writer.testing.memory_store import MemoryStore
from tests.security.attacked import CALLS, NOW, Attacked, T, bodies, survives

DEEP: Final = 10_000
BYTES: Final[dict[str, Callable[[bytes], bytes]]] = {
    "empty": lambda body: b"",
    "truncated": lambda body: body[: len(body) // 2],
    "its last byte cut off": lambda body: body[:-1],
    "twice in one file": lambda body: body * 2,
    "not JSON": lambda body: b"<xml/>",
    "zeros": lambda body: bytes(len(body)),
    "not UTF-8": lambda body: body.replace(b"mart", b"m\xff\xfet"),
    "null": lambda body: b"null",
    "a list": lambda body: b"[]",
    "a text": lambda body: b'"entry"',
    "a number": lambda body: b"1e999",
    "a number of 100,000 digits": lambda body: b"9" * 100_000,
    "lists 10,000 deep": lambda body: b"[" * DEEP + b"]" * DEEP,
    "objects 10,000 deep": lambda body: b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "an extra field 10,000 deep": lambda body: body[:-1] + b', "extra": ' + b"[" * DEEP + b"]" * DEEP + b"}",
}
NO_NUMBERS: Final = [float("nan"), float("inf"), float("-inf"), -1, 10**30, 2**63, None, [], {}, "x", ""]
NO_TIMES: Final = [None, 0, 1e300, "", "yesterday", "2024-01-01", "2024-01-01T00:00:00", "10000-01-01T00:00:00+00:00"]
NO_TEXTS: Final = [None, 1, [], {}, True, "\ud800"]


def deep(body: dict[str, Any], path: Sequence[str | int], value: object) -> bytes:
    place: Any = body["body"] if path[0] in BODY else body
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(body).encode()


def wrong_fields() -> Iterator[tuple[tuple[str | int, ...], object]]:
    """Every field of an entry with values that it may not have."""
    for name in ("version", "base_version", "publish_timeout_seconds"):
        yield from (((name,), value) for value in NO_NUMBERS)
    for name in ("rows", "bytes", "raw_bytes", "files"):
        optional = name in {"rows", "raw_bytes"}
        yield from ((("partitions", 0, name), value) for value in NO_NUMBERS if not (optional and value is None))
    yield from ((("recovers",), value) for value in NO_NUMBERS if value is not None)
    yield from ((("format",), value) for value in (0, 3, 99, "1", None, [1]))
    yield from ((("created_at",), value) for value in NO_TIMES)
    yield from ((("replaced", 0, "delete_after"), value) for value in NO_TIMES)
    yield from ((("key",), {"text": value}) for value in NO_TEXTS)
    yield from ((("key",), value) for value in (1, "k", [], {}))
    for name in ("table", "write_id", "mode", "schema"):
        yield from (((name,), value) for value in NO_TEXTS)
    yield from ((("write_id",), value) for value in ("", "../x", "a/b", "a b", "x" * 81, "é", ".x", "x\n"))
    yield from ((("operation",), value) for value in ("delete", "", None, 1, []))
    yield from ((("partitions",), value) for value in (None, 1, [1], [None], [[]], [{}], {"a": 1}, "ab"))
    yield from ((("replaced",), value) for value in (None, 1, [1], [{}], "ab"))
    yield from ((("deletes",), value) for value in (None, [1], [{}], [{"location": "dt=1/", "replaced_by": 1}]))
    yield from ((("tags",), value) for value in (None, [], "a", {"a": 1}, {"a": None}, {"\udfff": "a"}))
    yield from ((("counts",), value) for value in (None, "merge", 1))
    for name in ("call", "where"):
        yield from (((name,), value) for value in NO_TEXTS)
    for name in ("inserted", "updated", "deleted"):
        yield from ((("counts",), {name: value}) for value in NO_NUMBERS if value is not None)
    yield from ((("writer",), value) for value in (None, [], {"pid": 1}))
    yield from ((("partitions", 0, "values"), value) for value in (None, [1], [None], ["\ud800"]))
    for name in ("old_location", "new_location"):
        yield from (
            (("partitions", 0, name), value) for value in (1, [], True, "../../orders_v2/", "a/../b", "s3a://lake/../x")
        )
    yield from ((("partitions", 0, "source"), value) for value in (1, [], "../x", "_table_writer/data/w/dt=1/"))
    names = ("", "/a", "../a", "a/../b", "a//b", None, 1)
    yield from ((("partitions", 0, "added"), [{"name": name, "size": 1}]) for name in names)
    yield from ((("partitions", 0, "added"), value) for value in (None, 1, "ab", [1], [{}]))
    yield from ((("replaced", 0, "location"), value) for value in (None, 1, "../x", "s3a://lake/mart/orders/../x/"))
    yield from ((("replaced", 0, "objects"), value) for value in (None, 1, [1], [{"key": 1, "size": 1, "etag": ""}]))


def names_the_entry(text: str) -> bool:
    return "log entry 2 " in text or "00000000000000000002" in text


ENTRY: Final = "mart/orders/_table_writer/log/00000000000000000002.json"


def survives_entry(change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, str]:
    """Run each call on a log whose newest entry was changed."""
    return survives(ENTRY, json.dumps(change(Attacked().entry(2))).encode())


@pytest.mark.parametrize("damage", BYTES.values(), ids=BYTES)
def test_a_damaged_entry_is_refused_by_name_and_nothing_is_deleted(damage: Callable[[bytes], bytes]) -> None:
    ended = survives(ENTRY, damage(bodies(Attacked().store)[ENTRY]))
    assert all(names_the_entry(text) for text in ended.values()), ended


@pytest.mark.parametrize("outcome", ["published", None])
def test_no_field_can_hold_what_it_may_not(outcome: str | None) -> None:
    """One world for all: a refused entry changes nothing, so the next can take its place."""
    world = Attacked()
    entry_key, done_key = world.layout.entry_key(2), world.layout.outcome_key(2)
    if outcome is None:
        world.store.delete([done_key])
    before = bodies(world.store)
    for path, value in wrong_fields():
        world.replace_body(entry_key, deep(json.loads(before[entry_key]), path, value))
        forged = bodies(world.store)
        for call in (lambda: world.keeper.history(T), lambda: world.keeper.recover(T), lambda: vacuum(world)):
            with pytest.raises(InvalidInputError) as caught:
                call()
            assert names_the_entry(str(caught.value)), (path, value, str(caught.value))
        assert bodies(world.store) == forged, (path, value)


def vacuum(world: Attacked) -> object:
    return world.keeper.vacuum(T, older_than=NOW, force=True)


HARMLESS: Final[dict[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "an unknown field is ignored": lambda entry: {**entry, "extra": {"a": [1]}},
    "the year 9999": lambda entry: {**entry, "created_at": "9999-12-31T23:59:59-23:59"},
    "the year 1": lambda entry: {**entry, "created_at": "0001-01-01T00:00:00+23:59"},
    "another table's name, as after a rename": lambda entry: {**entry, "table": "mart.invoices"},
    "no schema": lambda entry: {**entry, "body": {**entry["body"], "schema": ""}},
}


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS)
def test_what_does_no_harm_is_read(change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    assert not any(survives_entry(change).values())


def test_a_byte_order_mark_that_an_editor_has_put_before_an_entry_is_read() -> None:
    world = Attacked()
    world.replace_body(world.layout.entry_key(2), json.dumps(world.entry(2)).encode("utf-8-sig"))
    assert world.keeper.history(T).versions[0].version == 2


def test_a_partition_named_twice_and_an_entry_in_the_wrong_slot_are_refused() -> None:
    twice = survives_entry(
        lambda entry: {**entry, "body": {**entry["body"], "partitions": entry["body"]["partitions"] * 2}}
    )
    assert all("named twice" in text for text in twice.values())
    moved = survives_entry(lambda _: Attacked().entry(1))
    assert all("moved or copied" in text for text in moved.values())


@pytest.mark.parametrize("values", [[], ["d1", "d2"]])
def test_values_of_another_number_of_columns_end_in_an_error_of_ours_or_in_none(values: list[str]) -> None:
    def changed(entry: dict[str, Any]) -> dict[str, Any]:
        entry["body"]["partitions"][0]["values"] = values
        return entry

    survives_entry(changed)


class Inflated(MemoryStore):
    """Says of one object that it is larger than any entry; whoever reads it has lost."""

    inflated = ""

    def list_page(self, prefix: str, *, start_after: str = "") -> tuple[Sequence[ObjectInfo], bool]:
        page, more = super().list_page(prefix, start_after=start_after)
        return [replace(one, size_bytes=MAX_BYTES + 1) if one.key == self.inflated else one for one in page], more

    def get(self, key: str) -> Any:
        assert key != self.inflated, "the body was read"
        return super().get(key)


@pytest.mark.parametrize("suffix", ["json", "done"])
def test_a_huge_file_in_the_log_is_refused_before_it_is_read(suffix: str) -> None:
    world = Attacked(Inflated())
    key = f"{world.layout.log_prefix}{2:020d}.{suffix}"
    before = bodies(world.store)
    world.store.inflated = key  # type: ignore[attr-defined]
    for call in CALLS.values():
        with pytest.raises(InvalidInputError, match=key):
            call(world.keeper)
    with pytest.raises(InvalidInputError, match=key):
        world.write({"d1": frozenset({77})})
    world.store.inflated = ""  # type: ignore[attr-defined]
    assert bodies(world.store) == before


STRAY: Final = (
    "00000000000000000003.json.bak",
    "3.json",
    "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٣.json",
    "٩" * 20 + ".json",
    "000000000000000000003.json",
    "../00000000000000000003.json",
    "00000000000000000003.JSON",
    "x/00000000000000000003.json",
    "-0000000000000000003.json",
    "00000000000000000003.json\n",
)


@pytest.mark.parametrize("name", STRAY)
def test_a_file_that_only_looks_like_an_entry_is_not_one(name: str) -> None:
    world = Attacked()
    key = world.layout.log_prefix + name
    assert not any(survives(key, b"stray").values())
    world.replace_body(key, b"stray")
    assert world.keeper.history(T).versions[0].version == 2
    assert world.write({"d1": frozenset({77})}).entry.version == 3


@pytest.mark.parametrize("slot", [10**20 - 1, 10**7])
@pytest.mark.parametrize("with_entry", [True, False], ids=["entry", "outcome alone"])
def test_a_slot_far_away_blocks_no_writer_silently_and_takes_no_memory(slot: int, with_entry: bool) -> None:
    """All versions in between are missing: whoever counted them one by one would fill the memory."""
    world = Attacked()
    entry = {**world.entry(2), "version": slot, "base_version": slot - 1}
    if with_entry:
        world.replace_body(world.layout.entry_key(slot), json.dumps(entry).encode())
    world.replace_body(world.layout.outcome_key(slot), b'{"outcome": "published", "recorded_by": "forged"}')
    for call in (
        lambda: world.keeper.history(T),
        lambda: world.keeper.recover(T),
        lambda: world.write({"d1": frozenset({77})}),
    ):
        with pytest.raises(InvalidInputError, match=f"{slot:020}"):
            call()
