"""The visit of an erasure to one of many tables: what a delete with ``purge`` does, and its certificate.

A predicate may name a person, so nothing that is reported of a table repeats it, or a value of a row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from table_writer.config import RowOptions
from table_writer.errors import InvalidInputError, TableWriterError
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
from table_writer.model.table import PREFIX
from table_writer.reports.many_reports import PassedOver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from table_writer.protocol.table.open_table import OpenTable
    from table_writer.protocol.table.services import Services
    from table_writer.reports.erasure_report import ErasureReport
    from table_writer.reports.plan_report import RowsPlan

AT_ONCE: Final = 4  # tables, each of which runs jobs in the one session
RETRIES: Final = 5  # of a delete, while others publish what it has read
CONDITION: Final = re.compile(r"\[[A-Z][A-Z0-9_.]+\]")  # of an error of Spark, whose words may have values of rows
TEXTS: Final = re.compile(r"'[^']*'")  # what is in double quotes may be a name, by a setting of the session
HIDES_QUOTES: Final = re.compile(r"\\|--|/\*")  # then nobody knows without Spark's parser where a text ends
NAMES: Final = re.compile(r"`([^`]+)`|([^\W\d]\w*)")
GONE: Final = PassedOver("it was dropped, renamed or moved since it was listed", may_hold=True)
MOVED: Final = PassedOver("this library has written it, and its log is not where the table lies now", may_hold=True)
NOT_ASKED: Final = PassedOver("it has none of the columns that the predicate names")
HALF_ASKED: Final = PassedOver(
    "it has only some of the columns that the predicate names (a text takes quotes)", may_hold=True
)
OF_COLUMNS: Final = {NOT_ASKED.why, HALF_ASKED.why}  # if nothing else is to be said, the predicate is at fault
ONCE_ASKED: Final = PassedOver(
    "it has none of the columns that the predicate names, and older versions had other columns", may_hold=True
)


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
        return PassedOver("its log has no such erasure", may_hold=True)


@dataclass(frozen=True, slots=True)
class Erase:
    """Erases the same rows from one table after another."""

    spark: SparkSession
    where: str
    dry_run: bool
    salt: str = field(default_factory=new_salt)

    def visit(self, services: Services, chosen: ChosenTable) -> ErasureReport | RowsPlan | PassedOver | None:
        """Erase the rows of one table; ``None`` if it is none of this library's.

        A table without the columns that the predicate names has nothing that it could be asked about.
        """
        if not isinstance(services, SessionServices):
            raise TypeError("an erasure takes the services of a session")
        opened = TableVisit(services, chosen).opened()
        if opened is None:
            return self._of_others(services, chosen)
        try:
            return self._erased(services, str(chosen.name))
        except TableWriterError as error:
            raise self._without_values(error) from None
        except Exception as error:  # noqa: BLE001  # of Spark's jobs, or a fault of ours: its words may have values, too
            condition = CONDITION.search(str(error))
            raise self._unsaid(TableWriterError, condition[0] if condition else type(error).__name__) from None

    @staticmethod
    def _of_others(services: Services, chosen: ChosenTable) -> PassedOver | None:
        """Say of a table that has no log where it lies whether it is another tool's, or has gone from there."""
        now = services.metastore.get_table(chosen.name)
        if now is None or chosen.found is None or now.root != chosen.found.root:
            return GONE
        return MOVED if any(name.startswith(PREFIX) for name in now.parameters) else None

    def _erased(self, services: SessionServices, name: str) -> ErasureReport | RowsPlan | PassedOver:
        change = DeletedWhere(self.where)
        steps = Steps(self.spark, services).of_call()
        with steps.show_progress(name, "erase"):  # Spark logs no predicate that it refuses
            opened = services.open_to_write(name)
            passed_over = self._passed_over(opened, change)
            if passed_over is not None:
                return passed_over
            if self.dry_run:
                call = RowCall(change=change, options=RowOptions(), is_purge=True)
                return plan_of_rows(Rewrite(steps.spark, opened, call, counts_first=True))
        erased = steps.erase(name, change, RowOptions(retries=RETRIES), salt=self.salt)
        return erasure_report(opened, erased.write_id)

    def _passed_over(self, opened: OpenTable, change: DeletedWhere) -> PassedOver | None:
        """Say why a table is not asked; ``None`` if it is.

        Of a table that a predicate names no column of, it would be true of all rows or of none. A subquery would find
        other rows in the tables whose turn comes later.
        """
        frame = NamedTable(self.spark, opened.table, change.names).blank
        try:
            predicate = predicate_of(frame, self.where, "where")
        except UnknownColumnError:
            if names_in(self.where) & {column.lower() for column in frame.columns}:
                return HALF_ASKED
            return self._not_asked(opened)
        if predicate.has_subquery:
            raise InvalidInputError(
                "the predicate asks another table, whose rows may be erased by the time that a later table is asked:"
                " write the values out",
                table=str(opened.table.name),
            )
        return None if predicate.names else self._not_asked(opened)

    @staticmethod
    def _not_asked(opened: OpenTable) -> PassedOver:
        entries = [record.entry for record in opened.log.read_history().records]
        had_others = any(entry.schema and entry.columns_by != opened.table.columns_by for entry in entries)
        return ONCE_ASKED if had_others else NOT_ASKED

    def _without_values(self, error: TableWriterError) -> TableWriterError:
        """Return an error that says neither the predicate nor a value of a row."""
        condition = CONDITION.search(error.message)
        if condition is not None:
            return self._unsaid(type(error), condition[0], table=error.table, write_id=error.write_id)
        return type(error)(error.message.replace(self.where, "…"), table=error.table, write_id=error.write_id)

    @staticmethod
    def _unsaid(kind: type[TableWriterError], name: str, **known: str) -> TableWriterError:
        return kind(
            f"Spark cannot ask the predicate of its rows: {name}. Nothing more is said, since it may name a person:"
            " delete_where(…, purge=True) on this table alone shows the reason",
            **known,
        )


def names_in(predicate: str) -> set[str]:
    """Return the words of a predicate that may name a column, in lower case; rather too many than too few.

    Examples
    --------
    >>> sorted(names_in("`Kind` = 'a person' AND id = 7"))
    ['and', 'id', 'kind']
    """
    words = predicate if HIDES_QUOTES.search(predicate) else TEXTS.sub(" ", predicate)
    return {(quoted or plain).lower() for quoted, plain in NAMES.findall(words)}
