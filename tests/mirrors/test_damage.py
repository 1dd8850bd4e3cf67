"""A mirror that was damaged, deleted, or written by another tool is recognised, and mended by what follows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final
from unittest import mock

import pytest

from table_writer.errors import InvalidInputError
from table_writer.mirrors import follow
from table_writer.mirrors.delta import DeltaMirror
from table_writer.mirrors.delta.actions import APP_ID
from table_writer.protocol.table.root_markers import MOST_COMMITS_READ
from tests.maintenance.operations import ADDED, OLD
from tests.publish.world import ROOT, body_of

from .world import PREFIX, MirroredWorld, drop_elsewhere

TABLE: Final = "mart.orders"
ROOT_KEY: Final = ROOT.removeprefix("s3a://lake/")
POINTER: Final = f"{PREFIX}_last_checkpoint"
FOREIGN_INFO: Final = {"commitInfo": {"timestamp": 1, "operation": "WRITE", "engineInfo": "delta-rs:1.0"}}


def commit(number: int) -> str:
    return f"{PREFIX}{number:020d}.json"


def checkpoint(number: int) -> str:
    return f"{PREFIX}{number:020d}.checkpoint.parquet"


def mirrored(writes: int = 25) -> MirroredWorld:
    """Return a world whose mirror has two checkpoints, and commits after the newest."""
    world = MirroredWorld()
    world.write(OLD)
    for number in range(1, writes):
        world.write({"d1": frozenset({number})})
    world.memory.clear()
    return world


def foreign(*actions: dict[str, Any]) -> Callable[[MirroredWorld], None]:
    """Return another tool's commit."""

    def write(world: MirroredWorld) -> None:
        body = "\n".join(json.dumps(action) for action in (FOREIGN_INFO, *actions))
        world.store.put(commit(len(world.commits())), body.encode())

    return write


def foreign_delete(world: MirroredWorld) -> None:
    held = DeltaMirror(world.services()).read()
    assert held is not None
    path = next(iter(held.files[("d1",)].values()))["path"]
    foreign({"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True}})(world)


def foreign_vector(world: MirroredWorld) -> None:
    """Another tool deletes rows of a file by a vector."""
    held = DeltaMirror(world.services()).read()
    assert held is not None
    added = next(iter(held.files[("d1",)].values()))
    vector = {"storageType": "u", "pathOrInlineDv": "abc", "offset": 1, "sizeInBytes": 1, "cardinality": 1}
    foreign(
        {"remove": {"path": added["path"], "deletionTimestamp": 1, "dataChange": True}},
        {"add": {**added, "deletionVector": vector}},
    )(world)


def cut(key: str, size: int) -> Callable[[MirroredWorld], None]:
    return lambda world: world.store.put(key, body_of(world.store, key)[:size])


def delete(*keys: str) -> Callable[[MirroredWorld], None]:
    return lambda world: world.store.delete(list(keys))


def malformed(action: dict[str, Any]) -> bytes:
    """Return a commit of JSON that is not as the protocol has it."""
    return json.dumps(action).encode()


NEW_FILE: Final = {"path": "dt=d1/theirs.json", "partitionValues": {"dt": "d1"}, "size": 3, "modificationTime": 1}
DAMAGES: Final[dict[str, Callable[[MirroredWorld], None]]] = {
    "newest commit is gone": delete(commit(24)),
    "commit after the checkpoint is gone": delete(commit(22)),
    "commit of the checkpoint is gone": delete(commit(20)),
    "newest commit is cut off": cut(commit(24), 300),
    "commit in the middle is cut off": cut(commit(22), 300),
    "commit is empty": cut(commit(23), 0),
    "commit is no object": lambda world: world.store.put(commit(23), b"[1]\n2\n"),
    "pointer is cut off": cut(POINTER, 5),
    "pointer is gone": delete(POINTER),
    "pointer leads nowhere": lambda world: world.store.put(POINTER, b'{"version": 99, "size": 1}'),
    "checkpoint is gone": delete(checkpoint(20)),
    "checkpoint is cut off": cut(checkpoint(20), 200),
    "checkpoints are gone": delete(checkpoint(10), checkpoint(20)),
    "checkpoints are cut off": lambda world: (cut(checkpoint(10), 90)(world), cut(checkpoint(20), 90)(world), None)[2],
    "all is gone": lambda world: world.store.delete(world.store.list_files(PREFIX)),
    "all but the pointer is gone": lambda world: world.store.delete(world.store.list_files(PREFIX)[:-1]),
    "commit has an action without its path": lambda world: world.store.put(commit(23), malformed({"add": {"size": 1}})),
    "commit has an action of text": lambda world: world.store.put(commit(23), malformed({"remove": "x"})),
    "commit has no version of ours": lambda world: world.store.put(commit(23), malformed({"txn": {"appId": APP_ID}})),
    "another tool adds": foreign({"add": {**NEW_FILE, "dataChange": True}}),
    "another tool deletes": foreign_delete,
    "another tool deletes rows": foreign_vector,
    "another tool upgrades": foreign(
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": []}}
    ),
    "another tool has made two": lambda world: (foreign_delete(world), foreign()(world), None)[2],
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("by", ["repair", "write"])
def test_what_is_wrong_is_said_and_mended(damage: str, by: str) -> None:
    world = mirrored()
    DAMAGES[damage](world)
    report = world.keeper.mirror(TABLE, as_="delta", check=True)
    expected = {"newest commit is gone": "behind", "pointer is gone": "in step"}
    is_absent = damage.startswith("all")
    assert report.state == expected.get(damage, "absent" if is_absent else "damaged"), report
    if by == "repair":
        assert world.keeper.mirror(TABLE, as_="delta", repair=True).state == "in step"
    else:
        world.write(ADDED)
    assert world.mirrored_rows() == world.rows()
    assert world.keeper.mirror(TABLE, as_="delta", check=True).state == "in step"
    world.memory.clear()
    world.write({"d1": frozenset({1000})})
    assert world.mirrored_rows() == world.rows()
    assert readable_from_pointer(world)


def readable_from_pointer(world: MirroredWorld) -> bool:
    """Whether a reader that knows only the protocol gets from the pointer to the newest commit without a gap."""
    names = [key.removeprefix(PREFIX) for key in world.store.list_files(PREFIX)]
    commits = {int(name[:20]) for name in names if name.endswith(".json")}
    pointer = world.store.get(POINTER)
    first = -1 if pointer is None else json.loads(pointer.body)["version"]
    if pointer is not None and f"{first:020d}.checkpoint.parquet" not in names:
        return False
    return set(range(first + 1, max(commits) + 1)) <= commits


def test_a_commit_of_ours_over_one_of_another_tool_takes_away_what_that_has_done() -> None:
    world = mirrored(3)
    foreign_vector(world)
    world.write(ADDED)
    newest = [json.loads(line) for line in body_of(world.store, world.commits()[-1]).splitlines()]
    [removed] = [action["remove"] for action in newest if "remove" in action]
    assert removed["deletionVector"]["pathOrInlineDv"] == "abc"
    assert removed["path"] in {action["add"]["path"] for action in newest if "add" in action}


def test_statistics_of_another_tool_for_our_files_do_not_stay() -> None:
    world = mirrored(3)
    held = DeltaMirror(world.services()).read()
    assert held is not None
    added = [found for files in held.files.values() for found in files.values()]
    wrong = {"stats": '{"numRecords":7}', "dataChange": False}  # as an ANALYZE of Trino's writes them, feature or not
    foreign(*({"add": {**found, **wrong}} for found in added))(world)
    world.write({"d9": frozenset({9})})
    after = DeltaMirror(world.services()).read()
    assert after is not None
    stats = {path: found.get("stats") for files in after.files.values() for (path, _), found in files.items()}
    assert stats.keys() >= {found["path"] for found in added}
    assert wrong["stats"] not in stats.values()
    commits = len(world.commits())
    world.write({"d9": frozenset({10})})
    [newest] = [body_of(world.store, key) for key in world.commits()[commits:]]
    assert newest.count(b'{"add"') == 1, "they are told of once"


@pytest.mark.parametrize("body", [b'{"commitInfo":{}}\n{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}', b""])
def test_a_log_that_this_library_did_not_begin_is_refused_and_stays(body: bytes) -> None:
    world = MirroredWorld()
    with suppress(InvalidInputError):
        world.plan()
    world.store.put(commit(0), body)
    world.write(OLD)
    [note] = world.notes()
    assert "is a Delta log that this library did not begin" in note
    for named in ({}, {"repair": True}, {"check": True}, {"drop": True}):
        with pytest.raises(InvalidInputError, match="did not begin"):
            world.keeper.mirror(TABLE, as_="delta", **named)
    assert world.commits() == [commit(0)]
    assert body_of(world.store, commit(0)) == body
    world.write({"d1": frozenset({5})})
    assert world.vacuum().failures == ()
    assert world.leftovers() == []


def test_a_vacuum_deletes_nothing_of_a_log_that_this_library_did_not_begin() -> None:
    world = MirroredWorld()
    world.write(OLD)
    world.store.delete(world.store.list_files(PREFIX))
    for number in range(2 * MOST_COMMITS_READ):
        world.store.put(commit(number), b'{"commitInfo":{}}')
    world.store.put(checkpoint(90), b"theirs")
    world.store.put(POINTER, b'{"version": 90, "size": 1}')
    before = world.store.list_files(PREFIX)
    world.skipped_seconds += 40 * 86_400
    world.memory.clear()
    world.write(ADDED)
    assert world.costs[-1]["GetObject"] < 2 * MOST_COMMITS_READ
    assert world.vacuum().failures == ()
    assert world.store.list_files(PREFIX) == before


def test_a_vacuum_keeps_the_checkpoint_that_readers_are_sent_to() -> None:
    world = mirrored(21)
    assert json.loads(body_of(world.store, POINTER))["version"] == 10
    world.skipped_seconds += 31 * 86_400
    world.vacuum()
    assert world.commits()[0] == commit(10)
    assert world.keeper.mirror(TABLE, as_="delta", check=True).state == "in step"
    assert readable_from_pointer(world)


def test_a_mirror_that_another_tool_has_put_a_checkpoint_into_is_in_step() -> None:
    world = mirrored(15)
    key = checkpoint(14)
    world.write({"d1": frozenset({50})})
    world.store.put(key, body_of(world.store, checkpoint(10)))
    world.memory.clear()
    assert world.keeper.mirror(TABLE, as_="delta", check=True).state in {"in step", "differs"}
    world.keeper.mirror(TABLE, as_="delta", repair=True)
    assert world.mirrored_rows() == world.rows()


def test_drop_deletes_all_of_the_mirror_and_nothing_else() -> None:
    world = mirrored(12)
    before = {info.key for info in world.store.list(ROOT_KEY)}
    report = world.keeper.mirror(TABLE, as_="delta", drop=True)
    assert report.state == "dropped"
    gone = before - {info.key for info in world.store.list(ROOT_KEY)}
    assert gone == {key for key in before if key.startswith(PREFIX) or "/log/mirrored-" in key}
    assert world.keeper.mirror(TABLE, as_="delta", check=True).state == "absent"
    assert world.keeper.mirror(TABLE, as_="delta", drop=True).files == 0
    world.write(ADDED)
    assert world.mirrored_rows() == world.rows()


@pytest.mark.parametrize("given", [{"repair": True, "check": True}, {"check": True, "drop": True}])
def test_what_excludes_each_other_is_refused(given: dict[str, bool]) -> None:
    with pytest.raises(InvalidInputError, match="exclude each other"):
        mirrored(1).keeper.mirror(TABLE, as_="delta", **given)


def test_a_mirror_of_a_log_that_was_deleted_follows_the_new_one() -> None:
    world = mirrored(3)
    own = list(world.store.list(world.layout.log_prefix))
    world.store.delete([world.layout.owner_key, world.layout.checkpoint_key, *(info.key for info in own)])
    world.keeper.adopt(TABLE, accept_loss=True)
    world.write({"d2": frozenset({77})})
    assert world.mirrored_rows() == world.rows()


@pytest.mark.parametrize("size", [60, 150, 300])
@pytest.mark.parametrize("by", ["repair", "the next write", "drop"])
def test_a_mirror_whose_only_commit_is_cut_off_is_known_as_ours(size: int, by: str) -> None:
    world = MirroredWorld()
    world.write(OLD)
    cut(commit(0), size)(world)
    world.memory.clear()
    assert world.keeper.mirror(TABLE, as_="delta", check=True).state == "damaged"
    if by == "drop":
        assert world.keeper.mirror(TABLE, as_="delta", drop=True).files == 2  # and the commit that says so
        assert world.store.list_files(PREFIX) == []
        return
    if by == "repair":
        world.keeper.mirror(TABLE, as_="delta", repair=True)
    else:
        world.write(ADDED)
    assert world.mirrored_rows() == world.rows()
    assert readable_from_pointer(world)
    assert world.keeper.mirror(TABLE, as_="delta", check=True).state == "in step"


def otherwise(change: Callable[[dict[str, Any]], object]) -> Callable[[MirroredWorld], None]:
    """Let the newest commit say something else of the first file that it adds."""

    def write(world: MirroredWorld) -> None:
        actions = [json.loads(line) for line in body_of(world.store, world.commits()[-1]).splitlines()]
        change(next(action["add"] for action in actions if "add" in action))
        world.store.put(world.commits()[-1], "\n".join(map(json.dumps, actions)).encode())

    return write


@pytest.mark.parametrize(
    ("change", "state"),
    [
        (lambda added: added.update(size=1), "of another size"),
        (lambda added: added.update(partitionValues={"dt": "d7"}), "in another partition"),
        (lambda added: added.update(stats=json.dumps({"numRecords": 77})), "with another row count"),
        (lambda added: added.update(stats="{"), "with another row count"),
    ],
)
def test_check_compares_what_is_said_of_files_without_a_request_more(change: Any, state: str) -> None:
    world = mirrored(2)
    before = Counter(world.store.request_counts())
    assert world.keeper.mirror(TABLE, as_="delta", check=True).state == "in step"
    plain = Counter(world.store.request_counts()) - before
    otherwise(change)(world)
    world.memory.clear()
    before = Counter(world.store.request_counts())
    report = world.keeper.mirror(TABLE, as_="delta", check=True)
    assert Counter(world.store.request_counts()) - before == plain + Counter(PutObject=0)
    assert report.state == "differs"
    assert [difference.state for difference in report.differences] == [state]
    world.keeper.mirror(TABLE, as_="delta", repair=True)
    assert world.keeper.mirror(TABLE, as_="delta", check=True).state == "in step"
    assert world.mirrored_rows() == world.rows()
    for key in world.commits():
        told = [json.loads(line) for line in body_of(world.store, key).splitlines()]
        paths = [{one[kind]["path"] for one in told if kind in one} for kind in ("add", "remove")]
        assert not paths[0] & paths[1], "no commit takes a path and adds it"


def test_a_writer_that_remembers_a_mirror_that_was_dropped_begins_it_anew_after_its_numbers() -> None:
    world = mirrored(13)
    world.write(ADDED)
    newest = len(world.commits()) - 1
    for round_ in range(2):
        drop_elsewhere(world, "delta")
        world.write({"d1": frozenset({71 + round_})})
        assert world.mirrored_rows() == world.rows()
        assert world.commits()[0] == commit(newest + 2), "the number between is of the drop"
        assert readable_from_pointer(world)
        newest = int(world.commits()[-1][-25:-5])


@pytest.mark.parametrize("by", ["a person", "a person, and a writer that remembers it"])
def test_a_mirror_that_a_person_has_deleted_begins_anew_within_a_minute(by: str) -> None:
    world = mirrored(13)
    if "remembers" in by:
        world.write(ADDED)
    world.store.delete(list(world.store.list_files(PREFIX)))
    with mock.patch.object(follow, "SECONDS_BETWEEN_LOOKS", 0.0):
        world.write({"d1": frozenset({72})})
    assert world.mirrored_rows() == world.rows()
    assert readable_from_pointer(world)


def test_a_look_whether_a_mirror_is_there_costs_one_request() -> None:
    world = mirrored(13)
    for number in range(2):
        world.write({"d1": frozenset({80 + number})})
    plain = Counter(world.costs[-1])
    with mock.patch.object(follow, "SECONDS_BETWEEN_LOOKS", 0.0):
        world.write({"d1": frozenset({82})})
    assert Counter(world.costs[-1]) - plain == Counter(GetObject=1)


@pytest.mark.parametrize("last", ["", commit(4)])
def test_a_drop_leaves_what_a_writer_has_begun_meanwhile(last: str) -> None:
    world = mirrored(3)
    world.write(ADDED)
    world.at_store("delete", "after", lambda: world.write({"d1": frozenset({71})}), key=last)
    drop_elsewhere(world, "delta")
    world.store.on_call = None
    assert world.commits()[0] == commit(5)
    assert world.mirrored_rows() == world.rows()
    assert readable_from_pointer(world)


def test_a_mirror_that_is_brought_up_and_differs_is_not_said_to_be_in_step() -> None:
    """Somebody has taken a file from the mirror by a commit that reads as this library's own."""
    world = mirrored(3)
    held = DeltaMirror(world.services()).read()
    assert held is not None
    path = next(iter(held.files[("d1",)].values()))["path"]
    info = {"commitInfo": {"engineInfo": "table_writer/0", "tableWriter": {"version": held.version, "inDoubt": []}}}
    lines = [info, {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True}}]
    world.store.put(commit(len(world.commits())), "\n".join(map(json.dumps, lines)).encode())
    for call in (world.keeper.mirror(TABLE, as_="delta"), world.keeper.mirror(TABLE, as_="delta", check=True)):
        assert (call.state, [found.state for found in call.differences], call.healthy) == (
            "differs",
            ["missing"],
            False,
        )
        assert "--repair" in str(call)
    assert world.keeper.mirror(TABLE, as_="delta", repair=True).state == "in step"
    assert world.keeper.mirror(TABLE, as_="delta").state == "in step"
    assert world.mirrored_rows() == world.rows()
