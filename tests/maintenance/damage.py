"""Tables in every state, and every object of this library below them damaged: the damage matrix is made of these."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

import pytest

from table_writer.errors import LostResponseError, OutcomeUnknownError
from table_writer.jobs.complete import Completer
from table_writer.model.location import Location
from table_writer.model.table import TableName
from table_writer.model.write import WritePlan, WrittenFiles
from table_writer.model.write_mode import WriteMode
from table_writer.storage.object_store import visible_files
from table_writer.testing.memory_metastore import MemoryMetastore
from table_writer.testing.memory_store import MemoryStore
from tests.publish.world import ROOT, TABLE, DeathError, Fault, World

Rows = dict[str, frozenset[int]]
WEEKS_SECONDS: Final = 60 * 86_400.0
ANY_ID: Final = re.compile(r"[0-9]{8}T[0-9]{6}-[0-9a-f]{16}|(?<=id-)[0-9a-f]{16}")
OTHER_ROWS: Final = 100_000  # what another table's rows are above this one's


class RecordingStore(MemoryStore):
    """Remembers the bodies that objects had before."""

    def __init__(self) -> None:
        super().__init__()
        self.earlier: dict[str, list[bytes]] = {}

    def _store(self, key: str, body: bytes) -> None:
        if key in self._objects and self._objects[key][0] != body:
            self.earlier.setdefault(key, []).append(self._objects[key][0])
        super()._store(key, body)
        if key.endswith(".done"):
            self.outcome_put(key)

    outcome_put: Callable[[str], object] = staticmethod(str)


@dataclass
class Damaged(World):
    """A table of which an object may be damaged; ``acknowledged`` is what a caller may rely on."""

    store: RecordingStore = field(default_factory=RecordingStore)
    first_id: int = 0
    acknowledged: Rows = field(default_factory=dict)
    possible: Rows = field(default_factory=dict)  # of entries in doubt: readers may see them instead
    planned: tuple[WritePlan, WrittenFiles] | None = None
    early: tuple[WritePlan, WrittenFiles] | None = None  # as planned, but after the first write
    shrunk: frozenset[int] = frozenset()  # those of void whose loss the size of files shows
    void: frozenset[int] = frozenset()  # rows of the damaged object itself
    after: dict[int, Rows] = field(default_factory=dict)  # what readers saw after each version

    def of(self, *ids: int) -> frozenset[int]:
        """Rows of this table alone."""
        return frozenset(self.first_id + one for one in ids)

    def put(self, rows: Mapping[str, frozenset[int]], mode: WriteMode = WriteMode.OVERWRITE_PARTITIONS) -> None:
        self.write(rows, plan=self.plan(mode))
        self.early = self.early or self.prepared(40)

    def prepared(self, number: int) -> tuple[WritePlan, WrittenFiles]:
        """Do steps 1 to 3 of a write of the first partition, which goes on running."""
        whole = not self.table.partition_columns
        plan = self.plan(WriteMode.OVERWRITE_TABLE if whole else WriteMode.OVERWRITE_PARTITIONS)
        message = self._upload(plan, {"" if whole else "d1": self.of(number)})
        services = self.services()
        Completer.of(services).complete(plan.write_id, plan.data_location.key, [message], None)
        self.store.put(self.layout.registration_key(plan.write_id), services.registration(plan)._body)
        return plan, WrittenFiles.from_messages(plan, [message])

    def copied(self) -> Damaged:
        """Return an independent world in the same state."""
        other = replace(self, store=RecordingStore(), metastore=MemoryMetastore())
        other.store._objects.update(self.store._objects)
        other.store._uploads.update(self.store._uploads)
        other.metastore._tables.update(self.metastore._tables)
        other.metastore._partitions.update({name: dict(one) for name, one in self.metastore._partitions.items()})
        other.staged_ids = list(self.staged_ids)
        return other

    def seen(self) -> Rows:
        """What readers see; a file that cannot be read has no rows, and none is seen twice."""
        found: Rows = {}
        for value, partition in self.partitions().items():
            ids: list[int] = []
            for info in visible_files(self.store, Location.parse(partition.location).key):
                if "/_table_writer/" in info.key or value:
                    with suppress(ValueError):
                        ids += json.loads(self.store._objects[info.key][0])
            assert len(ids) == len(set(ids)), f"rows of {value} are seen twice: {ids}"
            found |= {value: frozenset(ids)} if ids else {}
        return found


def overwrites(world: Damaged) -> None:
    world.put({"d1": world.of(1, 2), "d2": world.of(3)})
    world.put({"d1": world.of(4), "d3": world.of(5)})
    world.put({"d4": world.of(6)}, WriteMode.CREATE_PARTITIONS)
    world.put({"d1": world.of(7)})


def whole_tables(world: Damaged) -> None:
    world.put({"d1": world.of(1), "d2": world.of(2)})
    world.put({"d1": world.of(3), "d3": world.of(4)}, WriteMode.OVERWRITE_TABLE)
    world.put({"d1": world.of(5)}, WriteMode.APPEND)


def appends(world: Damaged) -> None:
    world.written_by_another_tool("d5", world.of(50))
    world.put({"d1": world.of(1), "d2": world.of(2)})
    world.put({"d1": world.of(3), "d5": world.of(51)}, WriteMode.APPEND)
    plan = world.plan(WriteMode.APPEND)
    world.write({"d1": world.of(4)}, plan=plan, before_publish=lambda: world.put({"d1": world.of(5)}, WriteMode.APPEND))


def staged(world: Damaged) -> None:
    world.put({"d1": world.of(1), "d2": world.of(2)})
    world.stage({"d1": world.of(10)}, plan=world.plan(WriteMode.APPEND))
    world.put({"d2": world.of(3)})


def staged_overwrite(world: Damaged) -> None:
    world.put({"d1": world.of(1), "d2": world.of(2)})
    world.put({"d2": world.of(3)})
    world.stage({"d1": world.of(10)})


def in_doubt(world: Damaged) -> None:
    world.put({"d1": world.of(1), "d2": world.of(2)})
    world.put({"d2": world.of(3)})
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
        world.write({"d1": world.of(20)})
    world.possible = {"d1": world.of(20)}
    world.wait_out_claims()


def recovered(world: Damaged) -> None:
    world.put({"d1": world.of(1), "d2": world.of(2)})
    unanswered = Fault("metastore", "alter_partitions", 1, "before", LostResponseError)
    with world.inject(unanswered), pytest.raises(OutcomeUnknownError):
        world.write({"d1": world.of(3)})
    world.wait_out_claims()
    world.keeper.recover(str(world.name))
    world.put({"d2": world.of(4)})


def rolled_back(world: Damaged) -> None:
    world.put({"d1": world.of(1)})
    for batch in (1, 2, 3):
        world.write_once({"d1": world.of(10 + batch)}, WriteMode.APPEND, f"stream/{batch}")
    world.keeper.rollback(str(world.name), version=2)
    world.write_once({"d1": world.of(12)}, WriteMode.APPEND, "stream/2")


def rolled_back_last(world: Damaged) -> None:
    world.put({"d1": world.of(1), "d2": world.of(2)})
    world.put({"d1": world.of(3)})
    world.keeper.rollback(str(world.name), version=1)


def vacuumed(world: Damaged) -> None:
    """Entries trimmed, and a checkpoint that is an older copy of a newer one."""
    for number in range(1, 5):
        world.put({"d1": world.of(number), "d2": world.of(10 + number)})
    log = world.services().log
    state = log.lister.read()
    for version in (2, 4):
        body = json.dumps({"version": version, "log_id": min(state.ids)}).encode()
        world.store.put(world.layout.checkpoint_key, body)
    world.skipped_seconds += WEEKS_SECONDS
    world.keeper.vacuum(str(world.name))
    world.keeper.vacuum(str(world.name))  # trims what the first one was needed for
    world.put({"d1": world.of(5)})
    world.put({"d3": world.of(6)})


def unpartitioned(world: Damaged) -> None:
    table = world.table
    world.metastore.drop_table(world.name)
    world.metastore.create_table(replace(table, partition_columns=()))
    world.put({"": world.of(1)}, WriteMode.OVERWRITE_TABLE)
    world.put({"": world.of(2, 3)}, WriteMode.OVERWRITE_TABLE)
    world.put({"": world.of(4)}, WriteMode.APPEND)


STATES: Final[Mapping[str, Callable[[Damaged], None]]] = {
    one.__name__: one
    for one in (
        overwrites,
        whole_tables,
        appends,
        staged,
        staged_overwrite,
        in_doubt,
        recovered,
        rolled_back,
        rolled_back_last,
        vacuumed,
        unpartitioned,
    )
}


@cache
def state(name: str, *, of_another_table: bool = False) -> Damaged:
    """Return a table in a state, with a write that was planned, uploaded and registered before the damage."""
    world = Damaged(first_id=OTHER_ROWS) if of_another_table else Damaged()
    if of_another_table:
        world.name, world.root = TableName("mart", "invoices"), ROOT.replace("orders", "invoices")
        table = world.metastore.get_table(TABLE)
        assert table is not None
        world.metastore.create_table(replace(table, name=world.name, location=world.root))
    world.store.outcome_put = lambda key: world.after.update({int(key[-25:-5]): world.seen()})
    STATES[name](world)
    world.acknowledged = world.seen()
    world.planned = world.prepared(30)
    return world


def pattern(key: str, world: Damaged) -> str:
    """Return what a key of one table and of another with the same history have in common."""
    return ANY_ID.sub("#", key.removeprefix(world.layout.root.key))


def own_keys(world: Damaged) -> list[str]:
    """Return the objects of this library in the order in which they were put."""
    return [key for key in world.store._objects if key.startswith(world.layout.own.key)]


def numbered(world: Damaged) -> dict[str, tuple[str, int]]:
    seen: Counter[str] = Counter()
    found: dict[str, tuple[str, int]] = {}
    for key in own_keys(world):
        found[key] = pattern(key, world), seen[pattern(key, world)]
        seen[pattern(key, world)] += 1
    return found


@dataclass(frozen=True)
class Damage:
    """One object of a state, and what has become of it."""

    state: str
    number: int  # among the objects of this library
    kind: str
    what: str  # the object, for people

    def __str__(self) -> str:
        return f"{self.state}: {self.what} {self.kind}"

    def done(self) -> Damaged:
        """Return the damaged table."""
        world = state(self.state).copied()
        key = own_keys(world)[self.number]
        body = world.store._objects[key][0]
        age = world.store._objects[key][1].modified_at
        new_key, new = key, damaged_body(self.state, key, self.kind)
        if self.kind == "another table's" and new is not None and body == new:  # a mark: its name is what it says
            new_key = another_key(self.state, key)
        with suppress(ValueError, TypeError):
            world.void = frozenset(json.loads(body)) if "/data/" in key else frozenset()
        world.shrunk = world.void if self.kind in {"absent", "empty", "truncated"} else frozenset()
        del world.store._objects[key]
        if new is not None:
            world.store._store(new_key, new)
            made, info = world.store._objects[new_key]
            world.store._objects[new_key] = made, replace(info, modified_at=age)
        return world


def another_key(name: str, key: str) -> str:
    """Return under which name another table's counterpart would lie here."""
    other, own = state(name, of_another_table=True), numbered(state(name))[key]
    found = next(one for one, place in numbered(other).items() if place == own)
    return state(name).layout.root.key + found.removeprefix(other.layout.root.key)


def damaged_body(name: str, key: str, kind: str) -> bytes | None:
    world = state(name)
    body = world.store._objects[key][0]
    if kind == "absent":
        return None
    if kind == "an older copy":
        return world.store.earlier[key][0]
    if kind == "another table's":
        other, own = state(name, of_another_table=True), numbered(world)[key]
        found = next(one for one, place in numbered(other).items() if place == own)
        return other.store._objects[found][0]
    return body[: len(body) // 2] if kind == "truncated" else b""


def every_damage() -> Iterator[Damage]:
    for name in STATES:
        world, other = state(name), state(name, of_another_table=True)
        others = set(numbered(other).values())
        for number, key in enumerate(own_keys(world)):
            body, what = world.store._objects[key][0], pattern(key, world)
            kinds = ["absent"] + (["empty", "truncated"] if body else [])
            kinds += ["an older copy"] if key in world.store.earlier else []
            same_mark = not body and not ANY_ID.search(key)
            kinds += ["another table's"] if numbered(world)[key] in others and not same_mark else []
            for kind in kinds:
                yield Damage(name, number, kind, f"{what} ({number})")


__all__ = ["OTHER_ROWS", "STATES", "WEEKS_SECONDS", "Damage", "Damaged", "every_damage", "own_keys", "state"]
