"""Operations whose reports are taken at their word, beside what readers see; and other tools that leave no report."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

from table_writer.errors import TableWriterError
from table_writer.model.location import Location
from table_writer.model.write import TableLayout, WritePlan
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.known_log import require_known_log, shown_partitions
from table_writer.reports.rows_result import RowsResult
from tests.fuzz.operations import Operations
from tests.maintenance.erasures import erasing
from tests.publish.world import value_of

from .actors import ChosenOperations
from .worlds import ActorWorld

ELSEWHERE = ".writes"
"""The directory of another configuration."""


class OtherConfiguration(ActorWorld):
    """The world as a process has it open whose configuration names another directory."""

    @property
    def layout(self) -> TableLayout:
        return TableLayout(Location.parse(self.root), ELSEWHERE)

    def plan(self, mode: WriteMode = WriteMode.OVERWRITE_PARTITIONS, **options: Any) -> WritePlan:
        """Look first whether the metastore knows of another log, as the first write of a writer does."""
        table = self.table
        require_known_log(self.store, self.layout, table, "", shown_partitions(self.metastore, table))
        return super().plan(mode, **options)


class ReportingOperations(ChosenOperations):
    """The operations of all actors."""

    # Erasures

    def purge(self, _: Random) -> str:
        """Delete the oldest row of each partition, and one that was there before, and let a vacuum erase them."""
        on, world = self._on, self._on.world
        values = self._values(_)
        with on.unhooked():
            held = {value: on.oracle.rows_at(where) for value, where in on.oracle.locations().items()}
        oldest = {value: min(on.oracle.shown.get(value, {0})) for value in values}
        wanted = frozenset(oldest.values()) | {min(held[value]) for value in values if held.get(value)}
        since = world.services().log.lister.read().newest
        rest = {value: frozenset(held[value]) - wanted for value in values if wanted & {*held.get(value, ())}}
        plan = self._plan(
            rest,
            WriteMode.OVERWRITE_PARTITIONS,
            scope=lambda here: frozenset(one for one in here if value_of(one) in rest),
        )
        plan = replace(plan, based_on=plan.base_version)
        entry = world.write({value: ids for value, ids in rest.items() if ids}, plan=plan).entry
        self._acknowledge(plan.write_id)
        deleted = RowsResult(
            table=on.table, mode="delete_where", write_id=entry.write_id, version=entry.version, deleted=len(wanted)
        )
        on.promises.wanted[entry.write_id] = wanted
        try:
            result = erasing(world, wanted, since).after(deleted)
        except TableWriterError as error:
            if f"Version {entry.version} has deleted the rows" not in error.message:
                raise
            return f"deleted {sorted(wanted)}, not erased: {error.message}"
        return f"purged {sorted(wanted)} {result.notes}"

    def certificate(self, _: Random) -> str:
        """Ask for the certificate of the newest erasure."""
        certificate = self._on.world.keeper.erasure(self._on.table)
        with self._on.unhooked():
            self._on.promises.given(certificate)
        return f"certified: {certificate.is_complete}, {certificate.due} due, {certificate.remarks}"

    # Reports on what is done

    def vacuum(self, _: Random) -> str:
        report = self._on.world.keeper.vacuum(self._on.table)
        with self._on.unhooked():
            self._on.promises.freed(report.deleted)
        return f"deleted {len(report.deleted)} {report.failures}"

    def recover(self, random: Random) -> str:
        with self._on.unhooked():
            in_doubt = [one.entry.version for one in self._on.base.history().records.publishes_in_doubt]
        said = Operations.recover(self, random)
        with self._on.unhooked():
            self._on.promises.resolved(in_doubt)
        return said

    def look(self, _: Random) -> str:
        """Make all calls that say what is there, or what would be done: none changes anything, and none fails."""
        on, table = self._on, self._on.table
        keeper = on.world.keeper
        newest = len(keeper.history(table).versions)
        for call in (
            lambda: keeper.report(table),
            lambda: keeper.partitions(table),
            lambda: keeper.staged(table),
            lambda: keeper.staged_write(table, "nobody"),
            lambda: keeper.erasure(table),
            lambda: keeper.uploads(table),
            lambda: keeper.recover(table, dry_run=True),
            lambda: keeper.vacuum(table, dry_run=True),
            lambda: keeper.rollback(table, version=0, dry_run=True),
            lambda: keeper.restore(table, dry_run=True),
            lambda: keeper.doctor(table),
            lambda: keeper.show(table, 1),
            lambda: keeper.changes(table, 0, newest),
        ):
            with suppress(TableWriterError):  # what is refused says so
                call()
        return "looked"

    # Mirrors

    def _reports_on_mirror(self, **options: Any) -> str:
        """Make a call on the mirror; what it says is so if nobody else has been at work meanwhile."""
        keeper, others = self._on.world.keeper, self._on.calls_of_others
        handover = "to" in options or "undo" in options
        table, compares = self._on.table, bool(options) and "undo" not in options
        report = keeper.handover(table, **options) if handover else keeper.mirror(table, as_="delta", **options)
        with self._on.unhooked():
            self._on.promises.mirrors(report, is_alone=others == self._on.calls_of_others, compares=compares)
        return f"{report.state} {report.damage}".strip()

    def mirror(self, _: Random) -> str:
        return self._reports_on_mirror()

    def repair_mirror(self, _: Random) -> str:
        return self._reports_on_mirror(repair=True)

    def check_mirror(self, _: Random) -> str:
        return self._reports_on_mirror(check=True)

    def drop_mirror(self, _: Random) -> str:
        return self._reports_on_mirror(drop=True)

    def handover(self, _: Random) -> str:
        return self._reports_on_mirror(to="delta")

    def take_back(self, _: Random) -> str:
        return self._reports_on_mirror(undo=True)

    # Other configurations, and other tools

    def append_by_another_configuration(self, _: Random) -> str:
        """Append by a configuration that names another directory: it would keep a second log."""
        on, world = self._on, self._on.world
        if on.oracle.newest() == 0:
            return "there is no log beside which this would be a second one"
        config = replace(world.config, directory_name=ELSEWHERE)
        rows = self._rows(self._values(_))
        other = OtherConfiguration(store=world.store, metastore=world.metastore, sleep=world.sleep, config=config)
        plan = other.plan(WriteMode.APPEND)
        other.write(rows, plan=plan)
        with on.unhooked():
            on.oracle.blame(f"{ELSEWHERE} has a log of its own")
        return "published"

    def static_overwrite(self, _: Random) -> None:
        """Spark's INSERT OVERWRITE without PARTITION: all that is below the root goes, this library's directory too."""
        on, world = self._on, self._on.world
        if on.is_busy or world.history().records.in_doubt:
            return
        (value,) = self._values(_)
        for key in [one for one in world.store._objects if one.startswith(on.root)]:
            del world.store._objects[key]
        where = on.oracle.locations().get(value, f"{on.root}dt={value}/" if value else on.root)
        ids = self._rows([value])[value]
        for other in on.oracle.locations().keys() - {value}:
            world.dropped_by_another_tool(other)
            on.oracle.other_tool(other, frozenset(), None, raced=False, looks_late=False)
        world.store.put(f"{where}static-{on.next_id}.json", f"[{min(ids)}]".encode())
        if value not in on.oracle.locations():
            world.pointed_by_another_tool(value, f"s3a://lake/{where}")
        on.oracle.other_tool(value, ids, on.oracle._where(where), raced=False, looks_late=False)
        on.forget_log()
        on.staged.clear()
        on.waiting.clear()
        on.read_anew()

    def set_back(self, _: Random) -> None:
        """The metastore's database is set back to a backup: to what it held some versions ago."""
        on, world, oracle = self._on, self._on.world, self._on.oracle
        version = oracle.newest() - self._actor.back
        kept = on.metastores.get(version)
        deleting = any(not one.entry.meaning.changes_partitions for one in world.history().records.in_doubt)
        if kept is None or deleting:
            return
        raced, before = on.is_busy, oracle.locations()
        now = on.base.taken()
        on.base.give(kept)
        after = oracle.locations()
        moved = [value for value in sorted(before.keys() | after.keys()) if before.get(value) != after.get(value)]
        if any(not self._is_whole(value, after.get(value)) for value in moved):
            on.base.give(now)  # files of then are gone: whoever sets it back loses rows
            return
        current = world.history().state.current_partitions
        for value in moved:
            where, data = oracle._where(after.get(value)), world.layout.all_data.key
            newest = current[value,].partition.new_location if (value,) in current else None
            is_newest = newest is not None and Location.parse(newest).key == after.get(value)
            # the log has not all of it, or the backup has what it has: another tool's move since then is gone
            if raced or where is None or is_newest or not before.get(value, "").startswith(data):
                ids = oracle.content.get((value, where), frozenset())
                oracle.other_tool(value, ids, where, raced=True, looks_late=True)
            else:
                oracle.stale.add(value)
        oracle._seen = oracle.locations()
        on.tell(f"the metastore is set back to version {version}: {moved} are where they were")

    def _is_whole(self, value: str, where: str | None) -> bool:
        oracle = self._on.oracle
        known = oracle.content.get((value, oracle._where(where)))
        return where is None or (known is not None and frozenset(oracle.rows_at(where)) == known)
