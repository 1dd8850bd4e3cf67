"""Purges over doubles: the real erasure after a delete, where only what asks Spark is answered here."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from pyspark.sql import SparkSession

from table_writer.errors import InvalidInputError
from table_writer.jobs.rows.erasure import Erasing
from table_writer.jobs.rows.where import DeletedWhere
from table_writer.model.location import Location
from table_writer.model.table import PastPartition, shown_name
from table_writer.reports.rows_result import RowsResult
from tests.publish.world import TableWorld, plain, value_of

Ids = frozenset[int]
NO_SPARK = object.__new__(SparkSession)
IN_UTC: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda _: "UTC"))


@dataclass
class ErasingOnDoubles(Erasing):
    """The erasure of rows with some ids: files are lists of ids."""

    wanted: Ids = frozenset()

    @cached_property
    def _predicate(self) -> Any:
        return SimpleNamespace(is_pure=True)

    def _paths_with_hits(self, past: Sequence[PastPartition]) -> list[str]:
        """Answer as Spark does, which fails at the first file that is not there."""
        assert all(part.name == shown_name(self.opened.table, part.values) for part in past)
        assert all(part.files == len(part.only or ()) and (part.bytes or 0) > 0 for part in past)
        paths = [f"{part.location}{name}" for part in past for name in sorted(part.only or ())]
        return [path for path in paths if self.wanted & self._ids_of(path)]

    def _ids_of(self, path: str) -> Ids:
        stored = self.opened.store.get(Location.parse(path).key.rstrip("/"))
        if stored is None or not stored.body.startswith(b"["):
            raise InvalidInputError(f"{path} cannot be read")
        return frozenset(json.loads(stored.body))


def deleted_rows(world: TableWorld, ids: Ids) -> RowsResult:
    """Delete rows by an overwrite of the partitions that hold them, as ``delete_where`` does."""
    held = {value: rows for value, rows in world.rows().items() if rows & ids}
    version, write_id = None, ""
    if held:
        plan = world.plan(scope=lambda existing: frozenset(one for one in existing if value_of(one) in held))
        rest = {value: rows - ids for value, rows in held.items() if rows - ids}
        entry = world.write(rest, plan=replace(plan, based_on=plan.base_version)).entry
        version, write_id = entry.version, entry.write_id
    count = sum(len(rows & ids) for rows in held.values())
    return RowsResult(table=str(world.name), mode="delete_where", write_id=write_id, version=version, deleted=count)


def erasing(world: TableWorld, ids: Ids, since: int | None = None) -> ErasingOnDoubles:
    """Return the erasure that follows a delete."""
    change = DeletedWhere(f"id in {sorted(ids)}")
    return ErasingOnDoubles(IN_UTC, world.services(), change, since=since, wanted=ids)


def purge(world: TableWorld, ids: Ids, between: Callable[[], object] = int) -> RowsResult:
    """Delete rows and let the next vacuum erase them; ``between`` happens between the two steps."""
    since = world.services().log.lister.read().newest
    deleted = deleted_rows(world, ids)
    between()
    return erasing(world, ids, since).after(deleted)


def holders(world: TableWorld, ids: Ids) -> list[str]:
    """Return the objects of rows, wherever they are below the root, that hold one of these."""
    found = []
    for info in world.store.list(world.layout.root.key):
        stored = world.store.get(info.key)
        body = b"" if stored is None else plain(stored.body)
        if body.startswith(b"[") and ids & frozenset(json.loads(body)):
            found.append(info.key)
    return found
