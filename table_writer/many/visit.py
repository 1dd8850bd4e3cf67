"""The visit to one of many tables: a glance, and a whole look only where something may have to be done."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from table_writer.display.many_report import BEHIND, FAILED, IN_DOUBT, TableStatus, error_facts
from table_writer.display.reports import RecoverReport, VacuumReport
from table_writer.display.versions import vacuum_report
from table_writer.errors import InvalidInputError, TableWriterError
from table_writer.log.history import Placement
from table_writer.log.idle import Findings, Glance, OwnListing, leave_note, list_own
from table_writer.log.open_table import OpenTable, Services, require_table
from table_writer.log.owner import require_in_place
from table_writer.many.round import ChosenTable
from table_writer.model.table_kind import format_of_others
from table_writer.vacuum.due import Ages, Look, vacuum_ages
from table_writer.vacuum.sweep import Vacuum, VacuumResult, interrupted

logger = logging.getLogger(__name__)
Recover = Callable[[Services, str], RecoverReport]


@dataclass(frozen=True, slots=True)
class TableVisit:
    """One visit to one table, with the connection of its worker."""

    services: Services
    chosen: ChosenTable
    on_open: Callable[[OpenTable], object] = id  # told of the table

    def opened(self) -> OpenTable:
        """Open the table as its database listed it, or look it up if the caller has named it."""
        if self.chosen.found is not None:
            opened = self.services.open_known_table(self.chosen.found)
            self.on_open(opened)
            return opened
        opened = self.services.open_table(self.chosen.name)
        self.on_open(opened)
        others = format_of_others(opened.table)
        if others:
            raise InvalidInputError(
                f"{opened.table.name} is of format {others}: only its own tools look after it",
                table=str(self.chosen.name),
            )
        return opened

    def opened_anew(self, opened: OpenTable) -> OpenTable | None:
        """Open the table as it is now; ``None`` if it was dropped since its database was listed."""
        if self.chosen.found is not None:
            table = self.services.metastore.get_table(self.chosen.name)
            if table is None:
                return None
            opened = self.services.open_known_table(require_table(table, self.chosen.name, self.services.metastore.uri))
        return opened

    def is_passed_over(self, glance: Glance) -> bool:
        """Return whether this library has not written the table; one that the caller has named is never passed over."""
        return glance.is_foreign and self.chosen.found is not None

    def vacuum(self, older_than: timedelta | None, *, force: bool, dry_run: bool) -> VacuumReport | None:
        """Vacuum the table; ``None`` if it is none of this library's."""
        opened = self.opened()
        glance = Glance.at(opened.store, opened.layout)
        if self.is_passed_over(glance):
            return None
        ages = vacuum_ages(opened, older_than, force=force)
        if glance.quiet_note(opened.table, repr(ages)) is not None:
            require_in_place(opened.store, opened.layout, opened.table)
            return VacuumReport(table=str(self.chosen.name), dry_run=dry_run)
        now = self.opened_anew(opened)
        if now is None:
            return None
        now.require_owner()
        ages = vacuum_ages(now, older_than, force=force)
        vacuum = Vacuum(now)
        found = vacuum.run(ages, dry_run=dry_run)
        if not dry_run and _has_changed(found):
            _look_again(now)
        elif not dry_run and vacuum.look is not None:
            _leave_idle_note(now, glance.listing, vacuum.look, ages)
        return vacuum_report(now.table, now.layout, found, dry_run=dry_run)

    def recover(self, recover: Recover, *, dry_run: bool) -> RecoverReport | None:
        """Recover the table; ``None`` if it is none of this library's."""
        opened = self.opened()
        glance = Glance.at(opened.store, opened.layout)
        if self.is_passed_over(glance):
            return None
        note = glance.settled_note(opened.table, opened.metastore)
        if note is not None:
            require_in_place(opened.store, opened.layout, opened.table)
            missing = opened.partition_names(note.missing)
            return RecoverReport(table=str(self.chosen.name), missing=missing, dry_run=dry_run)
        now = self.opened_anew(opened)
        if now is None:
            return None
        report = recover(self.services, str(self.chosen.name))
        if not dry_run:
            _look_again(now)
        return report

    def status(self) -> TableStatus | None:
        """Say how the table is; ``None`` if it is none of this library's."""
        glance: Glance | None = None
        try:
            opened = self.opened()
            glance = Glance.at(opened.store, opened.layout)
            return None if self.is_passed_over(glance) else self._status(opened, glance)
        except TableWriterError as error:
            newest = glance.listing.newest[0] if glance else None
            age_seconds = glance.age_seconds if glance else None
            return TableStatus(
                table=str(self.chosen.name),
                version=newest,
                age_seconds=age_seconds,
                health=FAILED,
                error=error_facts(error),
            )

    def _status(self, opened: OpenTable, glance: Glance) -> TableStatus | None:
        ages = vacuum_ages(opened)
        is_quiet = glance.quiet_note(opened.table, repr(ages)) is not None
        note = glance.settled_note(opened.table, opened.metastore) if is_quiet else None
        if note is not None:
            require_in_place(opened.store, opened.layout, opened.table)
            return TableStatus(
                table=str(self.chosen.name), version=note.version, age_seconds=glance.age_seconds, free_bytes=0
            )
        now = self.opened_anew(opened)
        if now is None:
            return None
        now.require_owner()
        vacuum = Vacuum(now)
        vacuum_result = vacuum.run(ages, dry_run=True)
        if vacuum.look is None:
            raise TypeError("a vacuum always looks")
        history, placements = vacuum.look.history, vacuum.look.placements()
        behind = now.partition_names([values for values, where in placements.items() if where is Placement.BEHIND])
        in_doubt = (*vacuum_result.in_doubt, *(entry.version for entry in interrupted(history)))
        objects = [item for place in vacuum_result.locations for item in place.objects]
        objects += [item for write in vacuum_result.dead_writes for item in write.objects]
        newest = history.records[-1] if history.records else None
        return TableStatus(
            table=str(self.chosen.name),
            version=history.newest,
            age_seconds=None if newest is None else newest.age_seconds,
            in_doubt=tuple(sorted(in_doubt)),
            behind=behind,
            free_bytes=sum(item.size_bytes for item in objects),
            health=BEHIND if behind else IN_DOUBT if in_doubt else "ok",
        )


def _look_again(opened: OpenTable) -> None:
    """Look at everything once more, so that the next look is short; what fails here has done no harm."""
    try:
        opened.require_owner()
        ages, vacuum = vacuum_ages(opened), Vacuum(opened)
        listing = list_own(opened.store, opened.layout)
        vacuum.run(ages, dry_run=True)
        if vacuum.look is not None:
            _leave_idle_note(opened, listing, vacuum.look, ages)
    except TableWriterError as error:
        logger.warning("%s is looked through as a whole again next time: %s", opened.table.name, error)


def _has_changed(found: VacuumResult) -> bool:
    tidied = found.leftover_uploads or found.stale_registrations or found.trimmed or found.folded
    return bool(found.version or tidied or found.failures)


def _leave_idle_note(opened: OpenTable, listing: OwnListing, look: Look, ages: Ages) -> None:
    placements = look.placements()
    findings = Findings(
        version=look.history.newest,
        settings=repr(ages),
        quiet_seconds=look.quiet_seconds(ages),
        write_ids=look.traces.write_ids,
        placed=None if Placement.BEHIND in placements.values() else placements,
        partitions=look.partitions,
    )
    leave_note(opened.store, opened.layout, opened.table, listing, findings)
