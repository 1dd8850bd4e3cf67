"""The visit to one of many tables: what the call on one table does, for those that this library has written."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from table_writer.doctor.findings import dry_run_of_vacuum, misplaced_partitions, publishes_in_doubt
from table_writer.errors import InvalidInputError, TableWriterError
from table_writer.jobs.plan.file_options import is_arrows, require_writable
from table_writer.jobs.vacuum_results import vacuum_report
from table_writer.many.round import ChosenTable
from table_writer.mirrors import follow as mirrors
from table_writer.model.location import Location
from table_writer.model.table import Table
from table_writer.model.table_kind import format_of_others
from table_writer.protocol.log.known_log import log_named_here
from table_writer.protocol.log.placements import Placement
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.table.present import placements_now
from table_writer.protocol.table.services import Services, require_table
from table_writer.protocol.vacuum.due import vacuum_ages
from table_writer.protocol.vacuum.remover import interrupted
from table_writer.protocol.vacuum.sweep import Vacuum
from table_writer.reports.health_reports import FAILED, worst_health
from table_writer.reports.history_reports import RecoverReport
from table_writer.reports.many_reports import Candidate, TableStatus, error_facts
from table_writer.reports.vacuum_reports import VacuumReport
from table_writer.storage.kinds import kind_of

logger = logging.getLogger(__name__)
Recover = Callable[[Services, str], RecoverReport]


@dataclass(frozen=True, slots=True)
class TableVisit:
    """One visit to one table, with the connection of its worker."""

    services: Services
    chosen: ChosenTable
    on_open: Callable[[OpenTable], object] = id  # told of the table

    def opened(self) -> OpenTable | None:
        """Open the table as it is now; ``None`` if it is none of this library's, or was dropped since it was listed.

        A table that the caller has named is never passed over.
        """
        if self.chosen.found is None:
            opened = self.services.open_table(self.chosen.name)
            self.on_open(opened)
            others = format_of_others(opened.table)
            if others:
                raise InvalidInputError(
                    f"{opened.table.name} is of format {others}: only its own tools look after it",
                    table=str(self.chosen.name),
                )
            return opened
        listed = self.services.open_known_table(self.chosen.found)
        self.on_open(listed)
        if not _is_ours(listed):
            return None
        table = self.services.metastore.get_table(self.chosen.name)
        if table is None:
            return None
        return self.services.open_known_table(require_table(table, self.chosen.name, self.services.metastore.uri))

    def vacuum(self, older_than: timedelta | None, *, force: bool, dry_run: bool) -> VacuumReport | None:
        """Vacuum the table; ``None`` if it is none of this library's."""
        opened = self.opened()
        if opened is None:
            return None
        opened.require_owner()
        vacuumed = Vacuum(opened, mirrors).run(vacuum_ages(opened, older_than, force=force), dry_run=dry_run)
        return vacuum_report(opened, vacuumed, dry_run=dry_run)

    def recover(self, recover: Recover) -> RecoverReport | None:
        """Recover the table; ``None`` if it is none of this library's."""
        return None if self.opened() is None else recover(self.services, str(self.chosen.name))

    def status(self, *, unwritten: bool = False) -> TableStatus | Candidate | None:
        """Say how the table is; ``None`` if it is none of this library's, or whether it could be written."""
        opened: OpenTable | None = None
        try:
            opened = self.opened()
            if opened is None:
                return candidate(self.chosen.found) if unwritten and self.chosen.found else None
            return self._status(opened)
        except TableWriterError as error:
            return TableStatus(
                table=str(self.chosen.name),
                version=None if opened is None else _newest_version(opened),
                age_seconds=None,
                health=FAILED,
                error=error_facts(error),
            )

    def _status(self, opened: OpenTable) -> TableStatus:
        opened.require_owner()
        look, vacuumed = dry_run_of_vacuum(opened)
        history, placements = look.history, placements_now(look.history, look.partitions)
        findings = (*publishes_in_doubt(history, opened.table.name), *misplaced_partitions(opened, placements))
        behind = [values for values, where in placements.items() if where is Placement.BEHIND]
        in_doubt = (*vacuumed.in_doubt, *(entry.version for entry in interrupted(history)))
        report = vacuum_report(opened, vacuumed, dry_run=True)
        return TableStatus(
            table=str(self.chosen.name),
            version=history.newest,
            age_seconds=history.records[-1].age_seconds if history.records else None,
            in_doubt=tuple(sorted(in_doubt)),
            behind=opened.partition_names(behind),
            free_bytes=report.bytes_freed,
            health=worst_health(findings),
        )


def candidate(table: Table) -> Candidate:
    """Say whether this library could write a table, by the metastore's words alone."""
    try:
        require_writable(table, table.name, "")
        kind_of(Location.parse(table.root))
    except InvalidInputError as refusal:
        return Candidate(table=str(table.name), in_the_way=refusal.message.removesuffix(" Nothing was written."))
    return Candidate(table=str(table.name), writer="Arrow" if is_arrows(table) else "Spark")


def _is_ours(opened: OpenTable) -> bool:
    """Return whether this library keeps a log of the table, its owner, or a running or staged write: one request.

    A table that says that it has a log is none to pass over where that is gone.
    """
    if log_named_here(opened.table.parameters, opened.layout):
        return True
    page, _ = opened.store.list_page(opened.layout.own.key, start_after=opened.layout.log_prefix)
    return bool(page)


def _newest_version(opened: OpenTable) -> int | None:
    """Return the newest version of a table whose log cannot be used; ``None`` if it cannot be listed either."""
    try:
        return opened.log.lister.read(allow_lost=True).newest
    except TableWriterError as error:
        logger.info("the newest version of %s is not known: %s", opened.table.name, error)
        return None
