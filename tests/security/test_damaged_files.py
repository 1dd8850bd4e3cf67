"""What was damaged or forged below ``_table_writer/``: whatever it says, only the table's own garbage goes."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pytest

from table_writer.errors import InvalidInputError, TableWriterError
from table_writer.model.location import Location
from tests.security.attacked import CALLS, NEIGHBOURS, ONE, TWO, Attacked, T, bodies, survives, survives_every_call

DEEP: Final = b"[" * 10_000 + b"]" * 10_000
NO_OBJECTS: Final = (b"", b"{", b"null", b"[]", b"1", b'"x"', b"\xff\xfe\xff", b"{}", DEEP, b'{"a":' * 10_000, b"\x00")


DONE: Final = "mart/orders/_table_writer/log/00000000000000000002.done"
OWNER: Final = "mart/orders/_table_writer/owner.json"
CHECKPOINT: Final = "mart/orders/_table_writer/checkpoint.json"


@pytest.mark.parametrize(
    "body",
    [
        *NO_OBJECTS,
        *(f'{{"outcome": {outcome}, "recorded_by": "x"}}'.encode() for outcome in ('"deleted"', "null", "[]", "NaN")),
        b'{"outcome": "published"}',
    ],
    ids=lambda body: repr(body[:30]),
)
def test_a_damaged_outcome_is_refused_by_name(body: bytes) -> None:
    ended = survives(DONE, body)
    assert all(DONE in text for text in ended.values()), ended


@pytest.mark.parametrize("recorded_by", ["../../x", "", "\u202e\x1b[2J", 7, None, ["x"], "x" * 100_000])
@pytest.mark.parametrize("outcome", ["published", "abandoned"])
def test_a_forged_outcome_deletes_nothing_that_readers_see(outcome: str, recorded_by: object) -> None:
    body = json.dumps({"outcome": outcome, "version": -7, "recorded_by": recorded_by}).encode()
    survives(DONE, body)


def test_an_outcome_without_an_entry_is_no_version_and_garbage_of_an_interrupted_trim() -> None:
    key = "mart/orders/_table_writer/log/00000000000000000001.done"

    def orphaned() -> Attacked:
        world = Attacked()
        world.services().log.trim([1])
        world.replace_body(key, b"not even JSON")
        world.garbage.add(key)
        return world

    ended = survives_every_call(orphaned)
    assert "has no version 1: the log holds" in ended.pop("rollback"), "its entry was trimmed"
    assert not any(ended.values()), ended
    assert [one.version for one in orphaned().keeper.history(T).versions] == [2]


def test_an_outcome_without_an_entry_that_nobody_has_trimmed_stops_everything() -> None:
    """Its entry was claimed, and is lost: so are those before it."""
    key = "mart/orders/_table_writer/log/00000000000000000009.done"
    ended = survives(key, b'{"outcome": "published", "recorded_by": "x"}')
    assert all("are lost: 7 (" in text for text in ended.values()), ended


@pytest.mark.parametrize(
    "body",
    [
        *NO_OBJECTS,
        b'{"format": 2}',
        b'{"format": 1, "database": "mart", "name": "orders"}',
        b'{"format": 1, "database": "mart", "name": "orders", "created_at_seconds": 1, "metastore": "", "extra": 1}',
        b'{"format": 1, "database": ["mart"], "name": {"a": 1}, "created_at_seconds": NaN, "metastore": null}',
        b'{"format": 1, "database": "mart", "name": "orders_v2", "created_at_seconds": 1, "metastore": ""}',
        b'{"format": 1, "database": "mart", "name": "orders", "created_at_seconds": "1", "metastore": ""}',
    ],
    ids=lambda body: repr(body[:70]),
)
def test_a_damaged_or_foreign_owner_stops_everything_by_name(body: bytes) -> None:
    ended = survives(OWNER, body, [name for name in CALLS if name != "restore"])  # which adopts a table made again
    assert all("_table_writer/owner.json" in text for text in ended.values()), ended
    world = Attacked()
    world.replace_body(OWNER, body)
    before = bodies(world.store)
    for call in (world.vacuum, lambda: world.write(TWO)):
        with pytest.raises(InvalidInputError, match=r"_table_writer/owner\.json"):
            call()
    assert bodies(world.store) == before


def test_an_owner_that_cannot_be_read_is_corrected_by_adopting() -> None:
    world = Attacked()
    world.replace_body(OWNER, DEEP)
    world.keeper.adopt(T)
    assert world.keeper.history(T).versions


VERSIONS: Final = (
    *("-1", "-1e300", "1e300", "1e999", "-1e999", "NaN", "99999999999999999999999999999999", "9223372036854775807"),
    *("3", "2", "1.9", '"2"', '"x"', '"../../x"', "[2]", "null", "true"),
)
CHECKPOINTS: Final = (*NO_OBJECTS, *(f'{{"version": {version}}}'.encode() for version in VERSIONS))


@pytest.mark.parametrize("body", CHECKPOINTS, ids=lambda body: repr(body[:50]))
def test_whatever_the_checkpoint_says_writes_and_calls_go_on_as_without_it(body: bytes) -> None:
    assert not any(survives(CHECKPOINT, body).values())
    world = Attacked()
    world.replace_body(CHECKPOINT, body)
    assert world.write({"d1": frozenset({77})}).entry.version == 3
    assert world.write({"d1": frozenset({78})}).entry.version == 4
    assert world.rows()["d1"] == {78}


NAMES: Final = (
    *("../../orders_v2/_table_writer/data/x.json", "../data/x.json", "..json", "...json", ".json", "/.json", "//.json"),
    *("a/b.json", "a b.json", "é.json", "\u202e.json", "\x1b[2J.json", "x" * 200 + ".json"),
    *("{live}/dt=d1.json", "{live}/.json", "{live}.json", "{live}.json/x.json", "x.json.json", "x", "x.txt"),
)
REGISTRATIONS: Final = (
    b"",
    DEEP,
    b"[]",
    b"\xff",
    b'{"renewed_every_seconds": NaN, "writer": {"pid": "x"}}',
    b'{"renewed_every_seconds": -1, "writer": []}',
    b'{"renewed_every_seconds": 1e999, "writer": {"pid": {}, "process": [1]}}',
    b'{"renewed_every_seconds": true, "write_id": "../../x"}',
)


@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name[:40]))
def test_a_registration_with_a_hostile_name_gives_no_file_up(name: str) -> None:
    def registered() -> Attacked:
        world = Attacked()
        world.replace_body(world.layout.registrations.key + name.replace("{live}", world.live_write_id), b"{}")
        world.garbage |= {key for key in bodies(world.store) if key.startswith(world.layout.registrations.key)}
        return world

    ended = survives_every_call(registered)
    assert not any(ended.values()), ended
    world = registered()
    world.vacuum()
    versions = [one.version for one in world.keeper.history(T).versions]
    deletes = {text for version in versions for text in world.keeper.show(T, version).deletes}
    assert deletes
    assert all(
        re.fullmatch(r"s3a://lake/mart/orders/_table_writer/data/[0-9a-zT-]{32}/(dt=d1/)?", one) for one in deletes
    )
    assert world.write({"d1": frozenset({77})}).entry.version


@pytest.mark.parametrize("body", REGISTRATIONS, ids=lambda body: repr(body[:40]))
def test_a_damaged_registration_counts_by_its_age_alone(body: bytes) -> None:
    world = Attacked()
    key = world.layout.registration_key(world.dead_write_id)
    assert survives(key, body)["vacuum"] == ""
    world.replace_body(key, body)
    assert key in world.vacuum().removed_registrations
    assert world.rows() == {**ONE, **TWO, "d5": frozenset({5})}


def test_a_registration_that_names_this_very_machine_with_an_endless_pid_is_read() -> None:
    world = Attacked()
    registration = world.services().identity
    body = {"renewed_every_seconds": 60, "writer": {"process": registration["process"], "pid": "9" * 5_000}}
    world.store.put(world.layout.registration_key("forged"), json.dumps(body).encode())
    world.vacuum()
    assert world.store.get(world.layout.registration_key("forged")) is not None, "it is young: who says it is dead?"


@pytest.mark.parametrize("name", ["../x", "..", " ", "", "é", "{live}", "a/b", "x" * 200, "\u202e"])
def test_stray_objects_among_the_data_never_stop_a_vacuum(name: str) -> None:
    world = Attacked()
    key = f"{world.layout.all_data.key}{name.replace('{live}', world.live_write_id)}/stray.json"
    world.replace_body(key, b"stray")
    before = bodies(world.store)
    world.vacuum()
    lost = before.keys() - bodies(world.store).keys()
    assert lost <= world.garbage | {key}


LONG_AGO: Final = "2001-01-01T00:00:00+00:00"
LOCATIONS: Final = (
    *("", ".", "./", "/", "//", "..", "://", "s3://", "\x00", "x" * 10_000),  # no places
    *("_table_writer", "_table_writer/", "_table_writer//", "_table_writer/./", "_table_writer_of_mine/"),
    *("_table_writer/data/", "_table_writer/data//", "_table_writer/empty/", "_table_writer/log/"),
    *("_table_writer/writes/", "_table_writer/owner.json", "_table_writer/data/ /", "_table_writer/data/\x00/"),
    *("_table_writer/data/\u202e/", "_table_writer/data/{live}/", "_table_writer/data/{live}/dt=d1/"),
    *("_table_writer//data/./{live}//dt=d1", "_table_writer/data/{live}/dt=d1/..", "_table_writer/data/{live}/dt=d"),
    *("dt=d5/", "dt=d5", "dt=d", "../orders_v2/", "%2e%2e/orders_v2/"),
    *("s3a://lake/", "s3a://lake", "S3://lake/mart/", "s3a://lake/mart/orders", "s3n://lake/mart/orders/"),
    *("s3a://lake/mart/orders_v2/", "s3a://lake/mart/orders /", "s3a://lake/mart/order"),
    *("s3a://lake/mart/orders/../orders_v2/", f"s3a://lake/{NEIGHBOURS[0].removesuffix('dt=d1/part-0.json')}"),
    *(f"s3a://{bucket}/mart/orders/_table_writer/data/{{live}}/dt=d1/" for bucket in ("other", "LAKE", "")),
    *("s3a:///lake/mart/orders/", "file:///etc/", "file:/etc/", "file://etc/"),
    *("hdfs://namenode/mart/orders/", "gs://lake/mart/orders/"),
)


def forged(location: str, *, by: str) -> Attacked:
    """A world in whose log somebody has said that readers have left a location, in one way or another."""
    world = Attacked()
    text = location.replace("{live}", world.live_write_id)
    listed = [
        {"key": info.key, "size": info.size_bytes, "etag": info.etag}
        for info in world.store.list("")
        if info.key not in NEIGHBOURS[-2:]
    ]
    live = tuple(Location.parse(one.location).key for one in world.partitions().values())
    unseen = [one for one in listed if not one["key"].startswith(live)]  # one that readers see spares them all
    partition = {"values": ["d3"], "rows": 0, "bytes": 0, "raw_bytes": 0, "files": 0, "old_location": text}
    left = {"location": text, "delete_after": LONG_AGO}
    deletes = [{"location": text, "replaced_by": None}, {"location": text, "replaced_by": 1}]
    ways: dict[str, dict[str, Any]] = {
        "replaced": {"replaced": [{**left, "objects": []}]},
        "replaced, every object listed": {"replaced": [{**left, "objects": listed}]},
        "replaced, every object listed that no reader sees": {"replaced": [{**left, "objects": unseen}]},
        "old location": {"partitions": [{**partition, "new_location": "_table_writer/data/forged/dt=d3/"}]},
        "vacuum that died": {"operation": "vacuum", "deletes": deletes},
        "abandoned": {"partitions": [{**partition, "new_location": text}]},
    }
    outcome = {"vacuum that died": None, "abandoned": "abandoned"}.get(by, "published")
    is_vacuum = "operation" in ways[by]
    world.add_entry(
        {"partitions": [], "replaced": [], "mode": None if is_vacuum else "append", **ways[by]}, outcome=outcome
    )
    return world


WAYS: Final = (
    *("replaced", "replaced, every object listed", "replaced, every object listed that no reader sees"),
    *("old location", "vacuum that died", "abandoned"),
)


@pytest.mark.parametrize("by", WAYS)
@pytest.mark.parametrize("call", ["vacuum", "recover"])
def test_a_location_in_the_log_deletes_nothing_that_is_not_the_tables_garbage(by: str, call: str) -> None:
    for location in LOCATIONS:
        error = survives_every_call(lambda location=location: forged(location, by=by), [call])[call]
        assert not error or "log entry 3" in error, (location, error)


@pytest.mark.parametrize("location", ["_table_writer/data/{live}/", "..", "file:///etc/", "", "s3a://other/x/"])
@pytest.mark.parametrize("by", WAYS)
def test_every_other_call_leaves_all_objects_as_they_are(by: str, location: str) -> None:
    survives_every_call(lambda: forged(location, by=by))


@pytest.mark.parametrize("location", LOCATIONS, ids=lambda text: repr(text[:60]))
def test_a_partition_that_another_tool_has_put_anywhere_does_not_make_a_vacuum_delete_more(location: str) -> None:
    world = Attacked()
    text = location.replace("{live}", world.live_write_id)
    if "://" not in text and not text.startswith("file:"):
        text = world.root + text
    world.pointed_by_another_tool("d7", text)
    before = bodies(world.store)
    try:
        CALLS["vacuum"](world.keeper)
    except TableWriterError as error:
        assert "full location" in str(error) or "'..'" in str(error)  # noqa: PT017  # other calls end without one
        assert bodies(world.store) == before
    lost = before.keys() - bodies(world.store).keys()
    assert lost <= world.garbage
