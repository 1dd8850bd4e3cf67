"""The visit of an erasure to one of many tables: what a delete with ``purge`` does, and its certificate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from table_writer.config import RowOptions
from table_writer.jobs.announcing import announced
from table_writer.jobs.certificate import NoErasureError, erasure_report
from table_writer.jobs.preview import plan_of_rows
from table_writer.jobs.rows.change import RowCall
from table_writer.jobs.rows.erasure import new_salt
from table_writer.jobs.rows.expressions import UnknownColumnError, predicate_of
from table_writer.jobs.rows.rewrite import Rewrite
from table_writer.jobs.rows.where import DeletedWhere, NamedTable
from table_writer.jobs.run import Steps
from table_writer.jobs.session_services import SessionServices
from table_writer.many.round import ChosenTable
from table_writer.many.visit import TableVisit
from table_writer.reports.many_reports import PassedOver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from table_writer.protocol.table.services import Services
    from table_writer.reports.erasure_report import ErasureReport
    from table_writer.reports.plan_report import RowsPlan

AT_ONCE: Final = 4  # tables, each of which runs jobs in the one session
RETRIES: Final = 5  # of a delete, while others publish what it has read


def certify(services: Services, chosen: ChosenTable, predicate_sha256: str) -> ErasureReport | PassedOver | None:
    """Certify the newest erasure of a table; ``None`` if it is none of this library's."""
    opened = TableVisit(services, chosen).opened()
    if opened is None:
        return None
    try:
        return erasure_report(opened, predicate_sha256=predicate_sha256)
    except NoErasureError:
        if chosen.found is None:  # the caller has named the table
            raise
        return PassedOver("its log has no such erasure")


@dataclass(frozen=True, slots=True)
class Erase:
    """Erases the same rows from one table after another."""

    spark: SparkSession
    where: str
    vacuums: bool
    dry_run: bool
    salt: str = field(default_factory=new_salt)

    def visit(self, services: Services, chosen: ChosenTable) -> ErasureReport | RowsPlan | PassedOver | None:
        """Erase the rows of one table; ``None`` if it is none of this library's.

        A table without the columns that the predicate names has nothing that it could be asked about.
        """
        if not isinstance(services, SessionServices):
            raise TypeError("an erasure takes the services of a session")
        visit = TableVisit(services, chosen)
        opened = visit.opened()
        if opened is None:
            return None
        change, name = DeletedWhere(self.where), str(chosen.name)
        steps = Steps(self.spark, services).of_call()
        with steps.show_progress(name, "erase"):  # Spark logs no predicate that it refuses
            try:
                predicate_of(NamedTable(self.spark, opened.table, change.names).blank, self.where, "where")
            except UnknownColumnError as unknown:
                return PassedOver(f"it has no column {unknown.column}")
            if self.dry_run:
                call = RowCall(change=change, options=RowOptions(), is_purge=True)
                return plan_of_rows(Rewrite(steps.spark, opened, call, counts_first=True))
        erased = steps.erase(name, change, RowOptions(retries=RETRIES), salt=self.salt)
        if self.vacuums:
            self._vacuum(services, visit)
        return erasure_report(opened, erased.write_id)

    @staticmethod
    def _vacuum(services: Services, visit: TableVisit) -> None:
        with announced(services, "vacuum", str(visit.chosen.name)) as announcement:
            following = TableVisit(services, visit.chosen, announcement.follow)
            with announcement.watch.step("vacuum"):
                announcement.finished(following.vacuum(None, force=False, dry_run=False))
