"""What can be done to a table, by this library and by other tools; each draws its arguments from its own seed."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from table_writer.model.entry import Key, ReplacedLocation, ReplacedObject
from table_writer.model.location import Location
from table_writer.model.meaning import Operation
from table_writer.model.partition_value import has_spellings
from table_writer.model.table import PartitionValues
from table_writer.model.write import Scope, WritePlan
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.listing import Listing
from table_writer.protocol.operations.publisher import GaveWayError
from table_writer.protocol.table.open_table import RepeatedError
from table_writer.storage.object_store import visible_files
from table_writer.storage.table_files import files_read_at
from tests.publish.world import value_of

from .oracle import Ids, Written

if TYPE_CHECKING:
    from .simulation import Simulation


class Operations:
    """All operations, named as histories name them, on the table of one simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self._on = simulation

    def _rows(self, values: Collection[str], *, in_place: bool = False) -> dict[str, Ids]:
        """Return rows of one file in each partition; of two where files show one by one."""
        self._on.next_id += 10
        first = {value: self._on.next_id + int(value[1:] or 0) for value in values}
        return {value: frozenset({one, one + 5} if in_place else {one}) for value, one in first.items()}

    def _values(self, random: Random) -> list[str]:
        return sorted(random.sample(self._on.partitions, random.randint(1, len(self._on.partitions))))

    def _plan(
        self,
        rows: dict[str, Ids],
        mode: WriteMode,
        *,
        scope: Scope | None = None,
        key: str = "",
        stream: str = "",
        in_place: bool = False,
        seen: Listing | None = None,
    ) -> WritePlan:
        mode, scope = self._as_replaced(mode, scope)
        plan = self._on.world.plan(mode, scope=scope, key=key, stream=stream, in_place=in_place, seen=seen)
        how = f"{mode.value}{' in place' * in_place}"
        self._on.tell(f"  plans {plan.write_id[-3:]} {how} { ({v: sorted(ids) for v, ids in rows.items()}) } {key}")
        of_all = f"{stream}:{key}" if key else ""
        self._on.oracle.writes[plan.write_id] = Written(mode, rows, len(self._on.oracle.effects), of_all)
        return plan

    def _as_replaced(self, mode: WriteMode, scope: Scope | None) -> tuple[WriteMode, Scope | None]:
        """Return how rows are replaced here: those of an unpartitioned table all at once."""
        is_whole = not self._on.world.table.partition_columns
        return (WriteMode.OVERWRITE_TABLE, None) if is_whole and not mode.facts.keeps_rows else (mode, scope)

    def _write(
        self, rows: dict[str, Ids], mode: WriteMode, *, scope: Scope | None = None, in_place: bool = False
    ) -> str:
        plan = self._plan(rows, mode, scope=scope, in_place=in_place)
        published = self._on.world.write(rows, plan=plan)
        self._acknowledge(plan.write_id)
        return f"published as {published.entry.version} {' '.join(published.notes)}"

    def _acknowledge(self, write_id: str, *, repeated: bool = False) -> None:
        with self._on.unhooked():
            self._on.oracle.acknowledged(write_id, repeated=repeated)

    def append(self, random: Random) -> str:
        return self._write(self._rows(self._values(random)), WriteMode.APPEND)

    def append_in_place(self, random: Random) -> str:
        return self._write(self._rows(self._values(random), in_place=True), WriteMode.APPEND, in_place=True)

    def compact(self, random: Random) -> str:
        """Write the rows of some files anew; others may be there by the time it publishes."""
        world, chosen = self._on.world, self._values(random)
        now = {value: one for value, one in world.partitions().items() if value in chosen}
        rows: dict[str, Ids] = {}
        compacted: dict[PartitionValues, ReplacedLocation] = {}
        for value, partition in now.items():
            prefix = Location.parse(partition.location).key
            files = list(files_read_at(world.store, world.layout, Location.parse(partition.location)))
            files = files[: random.randint(1, 4)]
            read = [world.store.get(one.key) for one in files]
            if not files or any("/" in one.key.removeprefix(prefix) for one in files) or None in read:
                continue
            rows[value] = frozenset(row for one in read if one for row in json.loads(one.body))
            objects = tuple(ReplacedObject(key=one.key, size_bytes=one.size_bytes, etag=one.etag) for one in files)
            compacted[partition.values] = ReplacedLocation(
                location=partition.location, delete_after=datetime.now(UTC), objects=objects
            )
        if not rows:
            return "nothing to compact"
        plan = replace(world.plan(WriteMode.APPEND), compacted=compacted)
        self._on.tell(f"  compacts as {plan.write_id[-3:]} { ({v: sorted(ids) for v, ids in rows.items()}) }")
        try:
            published = world.write(rows, plan=plan)
        except GaveWayError:
            return "gave way"
        return f"published as {published.entry.version}, gave up {sorted(published.given_up)}"

    def append_all(self, _: Random) -> str:
        return self._write(self._rows(self._on.partitions), WriteMode.APPEND)

    def overwrite(self, random: Random) -> str:
        return self._write(self._rows(self._values(random)), WriteMode.OVERWRITE_PARTITIONS)

    def overwrite_table(self, random: Random) -> str:
        return self._write(self._rows(self._values(random)), WriteMode.OVERWRITE_TABLE)

    def overwrite_where(self, random: Random) -> str:
        chosen = self._values(random)

        def selected(existing: Collection[PartitionValues]) -> frozenset[PartitionValues]:
            return frozenset(values for values in existing if value_of(values) in chosen)

        return self._write(self._rows(chosen[:1]), WriteMode.OVERWRITE_PARTITIONS, scope=selected)

    def create(self, random: Random) -> str:
        return self._write(self._rows(self._values(random)), WriteMode.CREATE_PARTITIONS)

    def append_once(self, random: Random) -> str:
        return self._once(random, WriteMode.APPEND)

    def overwrite_once(self, random: Random) -> str:
        return self._once(random, WriteMode.OVERWRITE_PARTITIONS)

    def append_in_place_once(self, random: Random) -> str:
        return self._once(random, WriteMode.APPEND, in_place=True)

    def _once(self, random: Random, mode: WriteMode, *, in_place: bool = False) -> str:
        return self._with_key(self._key(random), random, mode, in_place=in_place)

    def _with_key(
        self, key: str, random: Random, mode: WriteMode = WriteMode.APPEND, *, stream: str = "", in_place: bool = False
    ) -> str:
        rows, is_repeated = self._rows(self._values(random), in_place=in_place), False
        try:
            seen = self._on.world.services().require_new_key(Key(key, stream))
            plan = self._plan(rows, mode, key=key, stream=stream, in_place=in_place, seen=seen)
            write_id = plan.write_id
            self._on.world.write(rows, plan=plan)
        except RepeatedError as repeated:
            write_id, is_repeated = repeated.entry.write_id, True
        self._acknowledge(write_id, repeated=is_repeated)
        return f"published by {write_id[-3:]}"

    def _key(self, random: Random) -> str:
        return random.choice(("query/1", "query/2", "other"))

    def _staged_id(self, random: Random) -> str:
        """Return one of the writes that were staged last."""
        write_id = random.choice(self._on.staged[-3:])
        self._on.waiting.pop(write_id, None)
        return write_id

    def stage(self, random: Random) -> str:
        mode = random.choice((WriteMode.APPEND, WriteMode.APPEND, WriteMode.OVERWRITE_PARTITIONS))
        mode = random.choice((mode, mode, mode, mode, WriteMode.CREATE_PARTITIONS, WriteMode.OVERWRITE_TABLE))
        in_place = mode.facts.keeps_rows and random.random() < 0.5
        rows = self._rows(self._values(random), in_place=in_place)
        plan = self._plan(rows, mode, in_place=in_place)
        begun = self._on.now
        expires = random.choice((2_000.0, 600_000.0, 3_000_000.0))
        try:
            self._on.world.stage(rows, plan=plan, expires_after_seconds=expires)
        finally:
            self._on.staged.append(plan.write_id)
        self._on.waiting[plan.write_id] = begun + expires
        return f"staged {plan.write_id[-3:]} for {expires:.0f} s"

    def publish(self, random: Random) -> str:
        if not self._on.staged:
            return "nothing is staged"
        write_id = self._staged_id(random)
        self._on.tell(f"  of {write_id[-3:]}")
        result: Any = self._on.world.keeper.publish(self._on.table, write_id)
        self._acknowledge(write_id, repeated=result.repeated)
        return f"published as {result.version}{' before' if result.repeated else ''}"

    def discard(self, random: Random) -> str:
        if not self._on.staged:
            return "nothing is staged"
        write_id = self._staged_id(random)
        self._on.world.keeper.discard(self._on.table, write_id)
        self._on.oracle.discarded(write_id)
        return f"discarded {write_id[-3:]}"

    def recover(self, _: Random) -> str:
        report = self._on.world.keeper.recover(self._on.table)
        return f"resolved {report.settled} corrected {report.put_right} superseded {report.superseded}"

    def rollback(self, random: Random) -> str:
        newest = self._on.oracle.newest()
        version = random.randint(max(0, newest - 3), newest)
        entry = self._on.oracle.entry(version)
        if entry is not None and entry.operation is Operation.WRITE and random.random() < 0.3:
            report = self._on.world.keeper.rollback(self._on.table, write_id=entry.write_id)
        else:
            report = self._on.world.keeper.rollback(self._on.table, version=version)
        return f"rolled back to {report.to_version} as {report.version}"

    def restore(self, _: Random) -> str:
        self._on.oracle.has_restored = True
        report = self._on.world.keeper.restore(self._on.table)
        return f"restored {[one.name for one in report.partitions]} not there {report.not_there}"

    def adopt(self, random: Random) -> str:
        """The table is made again; its files are adopted."""
        if random.random() < 0.5:
            with self._on.unhooked():
                table = self._on.world.table
                self._on.world.metastore.create_table(replace(table, created_at_seconds=table.created_at_seconds + 60))
        self._on.world.keeper.adopt(self._on.table)
        return "adopted"

    def vacuum(self, random: Random) -> str:
        age = random.choice((None, None, timedelta(days=1)))
        report = self._on.world.keeper.vacuum(self._on.table, older_than=age)
        return f"deleted {len(report.deleted)} {report.failures}"

    def vacuum_all(self, random: Random) -> str:
        """By force: the one who does it has made sure that nobody is at work."""
        if len(self._on.processes) > 1 or self._on.pending:
            return self.vacuum(random)
        self._on.oracle.is_forced = True
        try:
            report = self._on.world.vacuum()
        finally:
            self._on.oracle.is_forced = False
            self._on.oracle.left.clear()
        return f"deleted {len(report.deleted)} {report.failures}"

    def abort_uploads(self, _: Random) -> str:
        report = self._on.world.keeper.uploads(self._on.table, abort=True, older_than=timedelta(days=1))
        return f"aborted {len(report.aborted)}"

    # Other tools, and time

    def _raced(self, value: str) -> bool:
        """Whether anybody of ours may be changing a partition at this moment."""
        log = self._on.world.layout.log_prefix  # a claim that is to come is of an entry that nobody can see yet
        if self._on.processes or any(one.service == "metastore" or log in one.key for one in self._on.pending):
            return True
        in_doubt = self._on.world.history().records.publishes_in_doubt
        return any(value in map(value_of, record.entry.partition_values) for record in in_doubt)

    def insert(self, random: Random) -> None:
        now = self._on.oracle.locations()
        empty = [value for value, where in now.items() if where.startswith(self._on.world.layout.all_placeholders.key)]
        value = random.choice(empty * 3 + self._on.partitions)
        where = now.get(value)
        if where is None:
            return
        ids = self._rows([value])[value]
        raced = self._raced(value)
        self._on.world.store.put(f"{where}other-{self._on.next_id}.json", json.dumps(sorted(ids)).encode())
        self._on.tell(f"another tool inserts {set(ids)} into {where.removeprefix(self._on.root)}{' in a race' * raced}")
        self._on.oracle.inserted(value, ids, raced=raced)

    def move(self, random: Random) -> None:
        value = random.choice(self._on.partitions)
        ids = self._rows([value])[value]
        records = self._on.world.history().records
        where = f"{self._on.root}dt={value}/" if value else self._on.root
        resolved = [one for one in records if one.recorded_by != one.entry.write_id]
        targets = {key for one in resolved for named in one.entry.partitions for key in named.targets()}
        own = self._on.world.layout.own.key
        is_added_to = any(key.startswith(where) and not key.startswith(own) for key in targets)
        raced, looks_late = self._raced(value), is_added_to or any(one.entry.rollback_to is not None for one in records)
        self._on.world.store.delete([info.key for info in visible_files(self._on.world.store, where)])
        blanks = self._blanks(random, value)
        self._on.world.written_by_another_tool(value, ids, blanks=blanks)
        if not value:
            self._on.world.pointed_by_another_tool(value, self._on.world.root)
        spelled = f"{value}{blanks * '_'}"
        self._on.tell(f"another tool puts {spelled} to {where} with {set(ids)}{' in a race' * raced}")
        self._on.oracle.other_tool(value, ids, where, raced=raced, looks_late=looks_late)

    def _blanks(self, random: Random, value: str) -> int:
        """Draw how another tool spells a partition; as it is spelled, where a write may be adding it just now."""
        drawn, world = random.randint(0, 2), self._on.world
        if not has_spellings(column.type for column in world.table.partition_columns):
            return 0
        names = world.metastore.get_partition_names(world.name)
        here = [len(name) - len(value) for (name,) in names if name.rstrip() == value]
        return drawn if not self._on.is_busy else here[0] if here else 0

    def drop(self, random: Random) -> None:
        value = random.choice(self._on.partitions)
        if not value:  # an unpartitioned table goes as a whole, or not at all
            return
        dropped = {
            value_of(one.values)
            for record in self._on.world.history().records
            for one in record.entry.partitions
            if one.new_location is None
        }
        raced, owner = self._raced(value), self._on.world.store._objects.get(self._on.world.layout.owner_key)
        is_made_again = owner is not None and str(self._on.world.table.created_at_seconds).encode() not in owner[0]
        looks_late = value in dropped or is_made_again  # a table that was made again gets its partitions when adopted
        self._on.world.dropped_by_another_tool(value)
        self._on.tell(f"another tool drops {value}{' in a race' * raced}")
        self._on.oracle.other_tool(value, frozenset(), None, raced=raced, looks_late=looks_late)

    def point_back(self, random: Random) -> None:
        """Another tool points a partition at files that a publish of ours has replaced, as far as they are there.

        Not in the last moment, when a vacuum has looked for the last time and is deleting them.
        """
        deleting = any(not one.entry.meaning.changes_partitions for one in self._on.world.history().records.in_doubt)
        data = self._on.world.layout.all_data.key
        old = [
            (value, where)
            for (value, where), ids in self._on.oracle.content.items()
            if where and where.startswith(data) and ids and frozenset(self._on.oracle.rows_at(where)) == ids
        ]
        if not old or deleting:
            return
        value, where = random.choice(old)
        blanks = self._blanks(random, value)
        self._on.world.pointed_by_another_tool(value, f"s3a://lake/{where}", blanks=blanks)
        self._on.tell(f"another tool points {value} at {where.removeprefix(self._on.root)}")
        ids = self._on.oracle.content[value, where]
        self._on.oracle.other_tool(value, ids, where, raced=True, looks_late=True)

    def reset_log(self, _: Random) -> None:
        """A person forgets the table's history, as the documentation says: once nobody is at work on it."""
        store, layout = self._on.world.store, self._on.world.layout
        if self._on.is_busy or self._on.world.history().records.in_doubt:
            return
        for key in [one for one in store._objects if one.startswith(layout.log_prefix)]:
            del store._objects[key]
        for key in (layout.owner_key, layout.checkpoint_key):
            store._objects.pop(key, None)
        with self._on.unhooked():  # partitions name the log that is gone: a person says that it is not missed
            self._on.world.keeper.adopt(self._on.table, accept_loss=True)
        self._on.tell("the log is deleted")
        self._on.forget_log()

    def rename(self, _: Random) -> str:
        """Another tool renames the table, which is adopted under its new name."""
        if len(self._on.processes) > 1 or self._on.pending:
            return "others are at work"
        with self._on.unhooked():
            self._on.rename()
        self._on.world.keeper.adopt(self._on.table)
        return "adopted"

    def wait(self, random: Random) -> None:
        seconds = random.choice((400.0, 4_000.0, 50_000.0, 90_000.0, 300_000.0, 1_500_000.0))
        self._on.tell(f"{seconds:.0f} s pass")
        self._on.advance(seconds)
