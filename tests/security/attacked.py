"""A table with neighbours, and every maintenance call on it: whatever is damaged, only its own garbage may go."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from time import time
from typing import Any, Final

import pytest

from table_writer.errors import TableWriterError
from table_writer.maintenance import Maintenance
from table_writer.model.entry import BODY
from table_writer.model.location import Location
from table_writer.storage.local.store import LocalStore
from table_writer.storage.object_store import ObjectStore
from table_writer.testing.memory_metastore import MemoryMetastore
from table_writer.testing.memory_store import MemoryStore
from tests.cli.shell import Shell
from tests.publish.world import TABLE, DeathError, Fault, TableWorld, World

T: Final = str(TABLE)
NOW: Final = timedelta(0)
LONGER_THAN_ANY_CLAIM_SECONDS: Final = 100_000  # and than any heartbeat
ONE: Final = {"d1": frozenset({1}), "d2": frozenset({2})}
TWO: Final = {"d1": frozenset({10})}
NEIGHBOURS: Final = (  # beside the table, above it, and below its root but of other tools
    "mart/orders_v2/_table_writer/data/20240101T000000-0000000000000000/dt=d1/part-0.json",
    "mart/orders_v2/_table_writer/log/00000000000000000001.json",
    "mart/orders_v2/dt=d1/part-0.json",
    "mart/orders /dt=d1/part-0.json",
    "mart/order/dt=d1/part-0.json",
    "mart/orders.json",
    "mart/part-0.json",
    "etc/passwd",
    "_table_writer/data/w/part-0.json",
    "mart/orders/notes.txt",
    "mart/orders/_table_writer_of_mine/data/w/part-0.json",
)
CALLS: Final[Mapping[str, Callable[[Maintenance], object]]] = {
    "history": lambda keeper: keeper.history(T),
    "show": lambda keeper: keeper.show(T, 2),
    "recover": lambda keeper: keeper.recover(T),
    "rollback": lambda keeper: keeper.rollback(T, version=1),
    "vacuum": lambda keeper: keeper.vacuum(T, older_than=NOW, force=True),
    "uploads": lambda keeper: keeper.uploads(T, abort=True, older_than=NOW, force=True),
    "restore": lambda keeper: keeper.restore(T),
}


class Attacked(World):
    """Version 2 has replaced d1 of version 1; a third write died; another tool wrote d5; others have files near by."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        super().__init__(store=store or MemoryStore())
        original = _original()
        self.store._objects.update(original.store._objects)
        self.store._uploads.update(original.store._uploads)
        self.metastore._tables.update(original.metastore._tables)
        self.metastore._partitions[self.name] = dict(original.metastore._partitions[self.name])
        self.skipped_seconds = original.skipped_seconds
        live = [Location.parse(one.location).key for one in self.partitions().values()]
        data = (info.key for info in self.store.list(self.layout.all_data.key))
        registered = (info.key for info in self.store.list(self.layout.registrations.key))
        self.garbage = {*(key for key in data if not key.startswith(tuple(live))), *registered}
        (self.dead_write_id,) = (
            set(self.store.list_directories(self.layout.all_data.key)) - self.services().log.read_history().claimed_ids
        )

    @property
    def live_write_id(self) -> str:
        """Whose rows readers see in d1."""
        write_id = self.layout.write_id_of(Location.parse(self.partitions()["d1"].location))
        assert write_id is not None
        return write_id

    def entry(self, version: int) -> dict[str, Any]:
        stored = self.store.get(self.layout.entry_key(version))
        assert stored is not None
        body = json.loads(stored.body)
        assert isinstance(body, dict)
        return body

    def replace_body(self, key: str, body: bytes) -> None:
        """Put a body in a place; nothing of it is young."""
        self.store.put(key, body)
        self.skipped_seconds += LONGER_THAN_ANY_CLAIM_SECONDS

    def add_entry(self, fields: Mapping[str, Any], *, outcome: str | None = "published") -> int:
        """Forge the next entry from the newest one."""
        version = max(1, self.services().log.lister.read(listed_after=0).newest)
        forged = {**self.entry(version), "version": version + 1, "base_version": version, "write_id": "forged"}
        for name, value in fields.items():
            (forged["body"] if name in BODY else forged)[name] = value
        self.replace_body(self.layout.entry_key(version + 1), json.dumps(forged).encode())
        if outcome is not None:
            done = {"outcome": outcome, "version": version + 1, "recorded_by": "forged"}
            self.replace_body(self.layout.outcome_key(version + 1), json.dumps(done).encode())
        return version + 1


@cache
def _original() -> World:
    """Write it all once: hundreds of attacks start from here."""
    world = World()
    world.write(ONE)
    world.write(TWO)
    world.written_by_another_tool("d5", frozenset({5}))
    with world.inject(Fault("store", "complete_upload", 2, "before", DeathError)), pytest.raises(DeathError):
        world.write({"d8": frozenset({8}), "d9": frozenset({9})})
    for key in NEIGHBOURS:
        world.store.put(key, f"of a neighbour: {key}".encode())
    world.skipped_seconds += LONGER_THAN_ANY_CLAIM_SECONDS
    return world


def bodies(store: ObjectStore) -> dict[str, bytes]:
    found = {info.key: store.get(info.key) for info in store.list("")}
    return {key: stored.body for key, stored in found.items() if stored is not None}


def bare_shell(world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A command line on a machine whose environment says nothing."""
    for name in ("TABLE_WRITER_METASTORE_URI", "HADOOP_CONF_DIR", "HIVE_CONF_DIR", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    return Shell(world, capsys, monkeypatch)


def local_world(directory: Path) -> TableWorld:
    """A table in a directory of this machine, where nothing is young."""
    store = LocalStore(clock=lambda: time() + LONGER_THAN_ANY_CLAIM_SECONDS)
    world = TableWorld(store=store, metastore=MemoryMetastore(), root=f"{directory.as_uri()}/orders/")
    world.metastore.create_table(replace(World().table, location=world.root))  # type: ignore[attr-defined]
    return world


def survives_every_call(make: Callable[[], Attacked], calls: Sequence[str] = tuple(CALLS)) -> dict[str, str]:
    """Run each call on a world of its own; returns how each ended: empty, or the error's text."""
    ended: dict[str, str] = {}
    for name in calls:
        world = make()
        before = bodies(world.store)
        try:
            CALLS[name](world.keeper)
            ended[name] = ""
        except TableWriterError as error:
            ended[name] = str(error)
        after = bodies(world.store)
        lost = {key for key, body in before.items() if after.get(key) != body}
        assert lost <= world.garbage, f"{name} has touched {sorted(lost - world.garbage)}"
    return ended


def survives(key: str, body: bytes, calls: Sequence[str] = tuple(CALLS)) -> dict[str, str]:
    """Run each call where the object of a key has this body."""

    def changed() -> Attacked:
        world = Attacked()
        world.replace_body(key, body)
        return world

    return survives_every_call(changed, calls)
