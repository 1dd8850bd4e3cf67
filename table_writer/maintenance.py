"""Maintenance of tables, without Spark: history, rollback, recover, vacuum and what belongs to them.

Each call imports what it needs when it is made: a command starts as fast as its own call allows.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

from table_writer.checked import checked, nearest, require_age
from table_writer.errors import InvalidInputError, StorageError, counted, few, refuse_namesake
from table_writer.model.defaults import NEWEST_VERSIONS, SAFE_AGE, WORKERS
from table_writer.model.write_mode import WriteMode

if TYPE_CHECKING:
    from table_writer.config import TableWriterConfig
    from table_writer.jobs.announcing import Announcement
    from table_writer.many.round import ChosenTable
    from table_writer.model.table import PartitionValues
    from table_writer.protocol.log.placements import Placement
    from table_writer.protocol.operations.entry import RepublishResult
    from table_writer.protocol.table.open_table import OpenTable
    from table_writer.protocol.table.services import Services
    from table_writer.reports.certification_report import CertificationReport
    from table_writer.reports.erasure_report import ErasureReport
    from table_writer.reports.health_reports import DoctorReport
    from table_writer.reports.history_reports import (
        ChangesReport,
        HistoryReport,
        PartitionsReport,
        RecoverReport,
        RestoreReport,
        RollbackReport,
        VersionReport,
    )
    from table_writer.reports.leave_report import LeaveReport
    from table_writer.reports.many_reports import (
        Candidate,
        ErasuresReport,
        ManyReport,
        PassedOver,
        TablesReport,
        TableStatus,
    )
    from table_writer.reports.mirror_report import MirrorReport
    from table_writer.reports.page.table_page import TablePage
    from table_writer.reports.plan_report import RowsPlan
    from table_writer.reports.staged_report import StagedDetail, StagedReport
    from table_writer.reports.vacuum_reports import DiscardReport, UploadsReport, VacuumReport
    from table_writer.reports.write_result import WriteResult
    from table_writer.spark.session import SparkSession

OF_SPARK: Final = (
    *(mode.value for mode in WriteMode),
    "compact",
    "create_table",
    "deduplicate",
    "delete_where",
    "for_each_batch",
    "merge",
    "plan",
    "read",
    "read_changes",
    "rewrite",
    "sql",
    "stage",
    "update_where",
    "version_of",
)
"""Calls of a TableWriter that this class does not have, since they take Spark."""

ELSEWHERE: Final = {
    **dict.fromkeys(("upsert", "upsert_rows", "merge_into"), "merge"),
    **dict.fromkeys(("delete", "delete_from", "remove", "erase", "purge", "truncate"), "delete_where"),
    **dict.fromkeys(("update", "update_rows"), "update_where"),
    **dict.fromkeys(("dedupe", "dedup", "drop_duplicates", "distinct"), "deduplicate"),
    **dict.fromkeys(("insert", "insert_into", "add_rows"), "append"),
    **dict.fromkeys(("optimize", "coalesce", "rewrite_data_files"), "compact"),
    **dict.fromkeys(("execute", "query"), "sql"),
    **dict.fromkeys(("overwrite", "write", "save", "replace", "insert_overwrite"), ""),
}
"""What other libraries call it, with our names: no spelling is near. Empty: several do it, and a guess costs rows."""


def meant_by(name: str, known: Collection[str]) -> str:
    """Return a question for the call that a name may mean, as the end of a sentence; empty if none is near."""
    meant = ELSEWHERE.get(name)
    return nearest(name, known) if meant is None else meant and f"; did you mean {meant}?"


NOTHING_IN_THE_WAY: Final = "dry run: nothing was published, and nothing seems to be in the way"


@checked
class Maintenance:
    """Maintenance of tables that this library writes: from any machine, without Spark, safe while writers are at work.

    Only :meth:`erase_many` takes Spark. Each call takes the table as ``database.table``. With ``dry_run`` it checks
    everything, changes nothing, and returns what it would do.

    Parameters
    ----------
    metastore_uri
        ``thrift://host:port``, several separated by commas, or ``glue://REGION/CATALOG_ID``, of which both parts may be
        left out. Default: ``hive.metastore.uris`` of the Hadoop settings.
    config
        As for :class:`~table_writer.TableWriter`: ``hadoop`` holds Hadoop's settings (``fs.s3a.*``), ``s3`` what is to
        be said otherwise. Where neither names credentials, they are what the AWS SDK finds.
    services
        Opens the metastore and the stores; tests hand in doubles.

    Raises
    ------
    InvalidInputError
        No metastore is named, or a setting cannot be used.

    Examples
    --------
    >>> keeper = Maintenance(metastore_uri, config=TableWriterConfig(hadoop=hadoop_settings))
    >>> keeper.history("mart.orders").versions[0].rows
    2
    """

    def __init__(
        self,
        metastore_uri: str | None = None,
        *,
        config: TableWriterConfig | None = None,
        services: Services | None = None,
    ) -> None:
        from table_writer.config import TableWriterConfig
        from table_writer.protocol.table.services import Services

        refuse_namesake()
        self._services = services or Services.without_spark(metastore_uri, config or TableWriterConfig())

    if not TYPE_CHECKING:  # without this condition a type checker would accept every name

        def __getattr__(self, name: str) -> NoReturn:
            hint = nearest(name, [attribute for attribute in vars(Maintenance) if not attribute.startswith("_")])
            meant = ELSEWHERE.get(name, name)
            if meant in OF_SPARK:
                question = "" if meant == name else f"; did you mean {meant}"
                hint = f"{question}, which takes Spark: TableWriter(spark).{meant}(…)"
            # without obj Python adds no suggestion of its own
            raise AttributeError(f"Maintenance has no {name}{hint}", name=name, obj=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection to the metastore; a later call opens a new one."""
        self._services.metastore.close()

    def history(self, table: str, *, limit: int | None = None) -> HistoryReport:
        """List the versions of a table, newest first: who, when, what, rows, bytes, state.

        Parameters
        ----------
        limit
            Only so many of the newest. The size of the table after each version takes the whole log to tell: it is
            ``None`` where older versions are left unread.

        Examples
        --------
        >>> [version.state for version in keeper.history("mart.orders", limit=1).versions]
        ['published']
        """
        from table_writer.reports.history_facts import small_files_notes, summaries
        from table_writer.reports.history_reports import HistoryReport

        if limit is not None and limit < 1:
            raise InvalidInputError(f"limit={limit}: expected 1 or more")
        opened = self._open(table)
        state = opened.log.lister.read_newest(limit) if limit else opened.log.lister.read(listed_after=0)
        newest_versions = frozenset(sorted(state.versions)[-limit:] if limit else state.versions)
        history = opened.log.read_history(replace(state, versions=newest_versions))
        is_whole = newest_versions == state.versions and not state.listed_after
        notes = () if is_whole else ("the table's size takes the whole log to tell: leave limit out",)
        return HistoryReport(
            table=str(opened.table.name),
            versions=summaries(history, is_whole=is_whole),
            notes=(*small_files_notes(history, opened.table), *notes),
        )

    def show(self, table: str, version: int) -> VersionReport:
        """Show one version, partition by partition, with the checks of its write, its tags, and who wrote it.

        Parameters
        ----------
        version
            Its number in the history. ``InvalidInputError`` if the log does not have it any more.
        """
        from table_writer.reports.history_facts import partition_facts, version_summary
        from table_writer.reports.history_reports import VersionReport

        opened = self._open(table)
        state = opened.log.lister.read()
        record = opened.log.slots.find(version) if version > 0 else None
        if record is None:
            raise InvalidInputError(
                f"the log of {opened.table.name} has no version {version}: its newest is {state.newest}, and a vacuum"
                " may have trimmed old ones",
                table=str(opened.table.name),
            )
        return VersionReport(
            table=str(opened.table.name),
            summary=version_summary(record, opened.layout),
            partitions=partition_facts(opened.table, opened.layout, record.switched_partitions, record.entry),
            deletes=tuple(deleted.location for deleted in record.entry.deletes if not deleted.kept),
        )

    def changes(self, table: str, from_version: int, to_version: int) -> ChangesReport:
        """List the partitions that differ between two versions, by the log alone.

        Parameters
        ----------
        from_version
            The number of the older version; 0 is the state before the first one.
        to_version
            The number of the newer version.

        Returns
        -------
        ChangesReport
            Partitions that were added, replaced, appended to (by appends alone) or dropped, with rows before and after.
            One that a rollback has put back to where it was has not changed.

        Raises
        ------
        InvalidInputError
            The log does not know what readers saw after one of the two.

        Examples
        --------
        >>> [(one.name, one.change, one.rows_after) for one in keeper.changes("mart.orders", 0, 1).partitions]
        [('dt=2024-01-01', 'added', 2)]
        """
        from table_writer.protocol.log.changes import changes_between
        from table_writer.reports.history_reports import ChangesReport

        opened = self._open(table)
        changed = changes_between(opened.log.read_history(), from_version, to_version, opened.table)
        return ChangesReport(
            table=str(opened.table.name), from_version=from_version, to_version=to_version, partitions=tuple(changed)
        )

    def report(self, table: str, *, limit: int = NEWEST_VERSIONS) -> TablePage:
        """Look at a table once: versions, partitions, sizes, checks and problems, as a page.

        Reads only: log and metastore, and what a dry run of :meth:`vacuum` lists. Entries that cannot be read are named
        and do not keep it from saying what the others say.

        The page shows itself in notebooks, with pictures; ``save`` makes it one HTML file.

        Parameters
        ----------
        limit
            How many of the newest versions are read; all, where the log is damaged. The size of the table after each
            version takes the whole log to tell: it is ``None`` where older ones are left out.

        Raises
        ------
        InvalidInputError
            The files below the table's root are another table's, or the log was deleted.

        Examples
        --------
        >>> page = keeper.report("mart.orders")
        >>> page.health, len(page.partitions), page.to_html().startswith("<!doctype html>")
        ('ok', 1, True)
        """
        from table_writer.doctor.page import look_at

        if limit < 1:
            raise InvalidInputError(f"limit={limit}: expected 1 or more")
        return look_at(self._open(table), limit)

    def partitions(self, table: str, partitions: Collection[str] | None = None) -> PartitionsReport:
        """Say which version wrote the rows that readers find in partitions now.

        Of a partition that another tool has written or moved, the log knows no version.

        Parameters
        ----------
        partitions
            Names such as ``"dt=2024-01-01"``, also of partitions that are not there yet. Default: all. An unpartitioned
            table is one partition of itself, without a name.

        Raises
        ------
        InvalidInputError
            A name is none of this table's partitions, or the log cannot be read.

        Examples
        --------
        >>> [(one.name, one.state, one.rows) for one in keeper.partitions("mart.orders").partitions]
        [('dt=2024-01-01', 'published', 2)]
        """
        from table_writer.protocol.table.present import Present
        from table_writer.reports.history_reports import PartitionsReport

        opened = self._open(table)
        present = Present(opened, opened.partition_values(partitions))
        return PartitionsReport(table=str(opened.table.name), partitions=tuple(present))

    def recover(self, table: str, *, dry_run: bool = False, accept_loss: bool = False) -> RecoverReport:
        """Resolve every publish that was left in doubt, and correct what the metastore applied late.

        A publish whose metastore call was applied is recorded as published; one whose call was not is rolled forward.
        Partitions that another tool has moved since are left alone and named. A partition that a late call has put back
        to older rows of this library is corrected. A vacuum whose process died is finished. It waits for publishes
        whose time is not over yet and that readers do not see; calling it again changes nothing.

        Parameters
        ----------
        accept_loss
            Go on without entries of the log that are lost for good, and name them. Readers keep the partitions that
            they see now; a write that was planned before it conflicts. Their idempotency keys are forgotten.

        Raises
        ------
        InvalidInputError
            Entries of the log are lost, and ``accept_loss`` was not given; nothing was changed.
        MetastoreError, StorageError, OutcomeUnknownError
            It could not be resolved yet; call again.
        """
        from table_writer.jobs.announcing import announced
        from table_writer.model.table import TableName

        with announced(self._services, "recover", table, dry_run=dry_run) as announcement:
            opened = self._services.open_table(TableName.parse(table))
            announcement.follow(opened)
            return self._recover(opened, dry_run=dry_run, accept_loss=accept_loss)

    def _recover(self, opened: OpenTable, *, dry_run: bool, accept_loss: bool) -> RecoverReport:
        from table_writer.mirrors import follow as mirrors
        from table_writer.mirrors.follow import follow
        from table_writer.model.table import locations
        from table_writer.protocol.log.owner import is_of_earlier_table
        from table_writer.protocol.log.placements import Placement
        from table_writer.protocol.operations.correction import Correction
        from table_writer.protocol.vacuum.remover import interrupted
        from table_writer.protocol.vacuum.sweep import Vacuum
        from table_writer.reports.history_reports import RecoverReport

        is_of_earlier_table(opened.store, opened.layout, opened.owner)  # refuses the files of a table with another name
        lost_versions = opened.log.lister.accept_loss(dry_run=dry_run) if accept_loss else frozenset()
        opened.require_owner()  # only now: a table created again adopts no log with lost entries
        history = opened.log.read_recent(allow_lost=bool(lost_versions))
        in_doubt = [record.entry.version for record in history.records.publishes_in_doubt]
        if dry_run:
            partitions_now = opened.metastore.get_partitions(opened.table, sorted(history.placements.known_values))
            locations_now = locations(partitions_now)
            explained = opened.log.explained_history(history, locations_now, allow_lost=bool(lost_versions))
            placements = explained.placements.of_all(locations_now)
            return RecoverReport(
                table=str(opened.table.name),
                settled=dict.fromkeys(in_doubt, "in doubt"),
                put_right=opened.partition_names(_values_at(placements, Placement.BEHIND)),
                missing=opened.partition_names(_values_at(placements, Placement.MISSING)),
                unfinished_vacuums=tuple(entry.version for entry in interrupted(history)),
                lost=tuple(sorted(lost_versions)),
                dry_run=True,
            )
        resolution = Correction(opened).resolve_all(opened.table)
        finished_vacuums = Vacuum(opened, mirrors).finish()
        follow(opened, None)  # what fails is an event, and in the log of this process
        outcomes = {version: opened.log.slots.outcome(version) for version in in_doubt}
        recoveries = (*resolution.resolved, *resolution.corrected)
        moved_values = resolution.taken.union(*(recovery.superseded for recovery in recoveries))
        return RecoverReport(
            table=str(opened.table.name),
            settled={version: outcome.value for version, outcome in outcomes.items() if outcome},
            put_right=opened.partition_names(
                {values for correction in resolution.corrected for values in correction.partitions}
            ),
            superseded=opened.partition_names(moved_values),
            missing=opened.partition_names(_values_at(resolution.placements, Placement.MISSING)),
            finished_vacuums=finished_vacuums,
            unfinished_vacuums=tuple(entry.version for entry in interrupted(opened.log.read_recent())),
            lost=tuple(sorted(lost_versions)),
        )

    def tables(
        self, database: str | Collection[str] | None = None, *, unwritten: bool = False, workers: int = WORKERS
    ) -> TablesReport:
        """List the tables that this library has written: version, age, what is in doubt, what a vacuum frees.

        Reads only. Tables that this library has not written are passed over and counted. A table that cannot be looked
        at is ``"failed"``, with the error, and keeps no other from being looked at.

        Parameters
        ----------
        database
            Only tables of this database, or of several. Default: all.
        unwritten
            Say of each table that this library has not written whether it could be, and what is in the way.
        workers
            How many tables are looked at at once, each over a connection to the metastore of its own.

        Raises
        ------
        InvalidInputError
            There is no such database.
        MetastoreError
            The databases could not be listed.

        Examples
        --------
        >>> [(one.table, one.health) for one in keeper.tables("mart").tables]
        [('mart.orders', 'ok')]
        """
        from functools import partial

        from table_writer.many.round import Round, choose
        from table_writer.many.visit import TableVisit, candidate
        from table_writer.reports.many_reports import tables_report

        choice = choose(self._services.metastore, database=database)
        others = tuple(map(candidate, choice.others)) if unwritten else ()

        def look(services: Services, chosen_table: ChosenTable) -> TableStatus | Candidate | None:
            return TableVisit(services, chosen_table).status(unwritten=unwritten)

        return Round(self._services, choice, workers).run("look", look, partial(tables_report, others=others))

    def vacuum_many(
        self,
        tables: Collection[str] | None = None,
        *,
        database: str | Collection[str] | None = None,
        older_than: timedelta | None = None,
        dry_run: bool = False,
        force: bool = False,
        workers: int = WORKERS,
    ) -> ManyReport[VacuumReport]:
        """Vacuum many tables, each as :meth:`vacuum` does: those that are named, those of databases, or all.

        One that fails is in the report, and keeps no other from its turn. A table where nothing is to be done takes
        some ten requests, and two for each version since its log was last folded.

        Parameters
        ----------
        tables
            Their names, each ``database.table``; spelled differently they are the same.
        database
            Instead of tables: all those of a database that this library has written. Without both: all tables of all
            databases that it has written.
        older_than, dry_run, force
            As of :meth:`vacuum`.
        workers
            How many tables are vacuumed at once, each over a connection to the metastore of its own.

        Raises
        ------
        InvalidInputError
            The call is wrong: there is no such database, a name is none, or the age is too low. Nothing was done.
        MetastoreError
            The databases could not be listed. Nothing was done.
        KeyboardInterrupt
            Ctrl-C: no further table was begun, and those at work have ended; ``report`` of the exception says which.

        Examples
        --------
        >>> [one.table for one in keeper.vacuum_many(database="mart").results]
        ['mart.orders']
        """
        from table_writer.jobs.announcing import announced
        from table_writer.many.round import Round, choose
        from table_writer.many.visit import TableVisit
        from table_writer.protocol.vacuum.due import require_safe
        from table_writer.reports.many_reports import many_report

        if older_than is not None:
            require_safe("", older_than, SAFE_AGE, force=force)
        chosen_tables = Round(self._services, choose(self._services.metastore, tables, database), workers)

        def vacuum_table(services: Services, chosen_table: ChosenTable) -> VacuumReport | None:
            with (
                announced(services, "vacuum", str(chosen_table.name), dry_run=dry_run) as announcement,
                announcement.watch.step("vacuum"),
            ):
                visit = TableVisit(services, chosen_table, announcement.follow)
                return announcement.finished(visit.vacuum(older_than, force=force, dry_run=dry_run))

        return chosen_tables.run("vacuum", vacuum_table, many_report)

    def recover_many(
        self,
        tables: Collection[str] | None = None,
        *,
        database: str | Collection[str] | None = None,
        dry_run: bool = False,
        workers: int = WORKERS,
    ) -> ManyReport[RecoverReport]:
        """Recover many tables, each as :meth:`recover` does; errors and costs as of :meth:`vacuum_many`.

        A loss is accepted for one table at a time, by :meth:`recover`.

        Parameters
        ----------
        tables
            As of :meth:`vacuum_many`.
        database
            Instead of tables: all those of a database that this library has written.
        workers
            How many tables are recovered at once, each over a connection to the metastore of its own.

        Examples
        --------
        >>> [one.report.settled for one in keeper.recover_many(["mart.orders"]).results]
        [{}]
        """
        from table_writer.many.round import Round, choose
        from table_writer.many.visit import TableVisit
        from table_writer.reports.many_reports import many_report

        chosen_tables = Round(self._services, choose(self._services.metastore, tables, database), workers)

        def recover(services: Services, table: str) -> RecoverReport:
            return Maintenance(services=services).recover(table, dry_run=dry_run)

        def recover_table(services: Services, chosen_table: ChosenTable) -> RecoverReport | None:
            return TableVisit(services, chosen_table).recover(recover)

        return chosen_tables.run("recover", recover_table, many_report)

    def erase_many(
        self,
        where: str,
        tables: Collection[str] | None = None,
        *,
        spark: SparkSession | Mapping[str, str] | None = None,
        database: str | Collection[str] | None = None,
        salt: str = "",
        dry_run: bool = False,
    ) -> ErasuresReport[ErasureReport | RowsPlan]:
        """Erase the same rows from many tables, each as a delete with ``purge`` does, and certify what is gone.

        A table without the columns that ``where`` names is passed over, and the report names it. One that fails, or
        that may hold such rows and cannot be asked, keeps no other from its turn, and the report is not complete. Call
        it again after a failure, with the same salt: what is erased already stays so.

        Parameters
        ----------
        where
            Which rows: a predicate in SQL over columns alone. It is stored nowhere, since it may name a person.
        tables
            As of :meth:`vacuum_many`. Of a database those that this library has not written are counted, and not looked
            through; named ones are.
        spark
            The session that looks through the rows and writes what stays; ``TableWriter.erase_many`` gives its own.
            Or a mapping: the settings of a session that is started here and stopped at the end, such as
            ``spark.jars.packages`` with the jars of S3A. Default: the active session of this process, else one
            without such settings.
        database
            Instead of tables: all those of a database that this library has written.
        salt
            That of an earlier call, so that both have one hash of the predicate. Default: a new one.

        Returns
        -------
        ErasuresReport
            The certificate of each table, as :meth:`erasure` returns it, all with one salt and so with one hash of the
            predicate; with ``dry_run`` what each delete would do. The next vacuum of each table deletes the files; then
            :meth:`erasure_many` certifies it.

        Raises
        ------
        InvalidInputError
            The call is wrong: there is no such database, a name is none, or no table has the columns that the predicate
            names. Nothing was done.
        MetastoreError
            The databases could not be listed. Nothing was done.
        KeyboardInterrupt
            As of :meth:`vacuum_many`; but Spark cancels its jobs, so those at work end with an error.

        Examples
        --------
        >>> report = keeper.erase_many("id = 1", database="mart", dry_run=True)
        >>> [(one.table, one.report.deleted) for one in report.results]
        [('mart.orders', 1)]
        """
        from functools import partial

        from table_writer.jobs.session_services import SessionServices
        from table_writer.many.erase import AT_ONCE, OF_COLUMNS, Erase
        from table_writer.many.round import Round, choose
        from table_writer.reports.many_reports import erasures_report
        from table_writer.spark.session import a_session

        choice = choose(self._services.metastore, tables, database)  # a wrong call starts no Spark
        with a_session(self._services.config, spark) as session:
            services = self._services
            if not isinstance(services, SessionServices):
                services = SessionServices(session, services.config)
            erase = Erase(session, where, dry_run, **({"salt": salt} if salt else {}))
            make_report = partial(erasures_report, salt="" if dry_run else erase.salt, dry_run=dry_run)
            report = Round(services, choice, AT_ONCE).run("erase", erase.visit, make_report)
        passed_over = {*report.passed_over.values(), *report.not_looked_through.values()}
        if passed_over and not report.results and passed_over <= OF_COLUMNS:
            raise InvalidInputError(
                f"nothing was done: no table of {choice.label} has all columns that the predicate names. A text in it"
                " takes quotes, and a column no name of a table before it"
            )
        return report

    def erasure_many(
        self,
        tables: Collection[str] | None = None,
        *,
        database: str | Collection[str] | None = None,
        predicate_sha256: str = "",
        workers: int = WORKERS,
    ) -> ErasuresReport[ErasureReport]:
        """Certify the newest erasure of many tables, each as :meth:`erasure` does.

        A table that has no such erasure is named, and the report is not complete: name the tables whose certificates
        the erasure has returned, since the log does not know which others have no such columns.

        Parameters
        ----------
        tables
            As of :meth:`vacuum_many`.
        database
            Instead of tables: all those of a database that this library has written.
        predicate_sha256
            Only the erasure of one predicate, by the hash that its certificates have. Default: each table's newest.
        workers
            How many tables are looked at at once, each over a connection to the metastore of its own.

        Examples
        --------
        >>> keeper.erasure_many(database="mart", predicate_sha256="0" * 64).results
        ()
        """
        from table_writer.many.erase import certify
        from table_writer.many.round import Round, choose
        from table_writer.reports.many_reports import erasures_report

        chosen_tables = Round(self._services, choose(self._services.metastore, tables, database), workers)

        def certify_table(services: Services, chosen_table: ChosenTable) -> ErasureReport | PassedOver | None:
            return certify(services, chosen_table, predicate_sha256)

        return chosen_tables.run("look", certify_table, erasures_report)

    def rollback(
        self,
        table: str,
        *,
        version: int | None = None,
        write_id: str | None = None,
        as_of: datetime | None = None,
        partitions: Collection[str] | None = None,
        dry_run: bool = False,
    ) -> RollbackReport:
        """Put partitions back to an earlier version, in one metastore call, as a new version.

        Readers see all of the old rows or all of the new ones. All their files must still be there, and no other tool
        may have moved a partition: else it is refused, and nothing changes. Partitions that did not exist then
        are emptied in the same call and dropped afterwards. What a rollback replaces stays for the retention too, so a
        rollback can be rolled back.

        Parameters
        ----------
        version
            The version that readers shall see again; 0 is the state before the first one.
        write_id
            The write that published that version, instead of its number.
        as_of
            The newest version of this time or before, instead of both. The time has a zone; in whole seconds, as the
            history shows them, it means the end of its second.
        partitions
            Names such as ``"dt=2024-01-01"``. Default: all that changed since.

        Raises
        ------
        InvalidInputError
            It cannot be done: the files are gone, another tool has moved a partition, or there is no such version.
        ConflictError
            Somebody else published one of the partitions meanwhile; nothing changed.
        """
        from table_writer.jobs.announcing import announced
        from table_writer.mirrors.follow import follow
        from table_writer.protocol.log.versions import require_one_name, version_meant
        from table_writer.protocol.operations.rollback import roll_back
        from table_writer.reports.history_facts import partition_facts
        from table_writer.reports.history_reports import RollbackReport

        require_one_name(version, as_of, write_id)
        with announced(self._services, "rollback", table, dry_run=dry_run) as announcement:
            opened = self._open(table, announcement)
            if version is None:
                version = version_meant(opened.log.read_history(), opened.table, write_id=write_id, as_of=as_of)
            with announcement.watch.step("publish"):
                republished = roll_back(opened, version, opened.partition_values(partitions), dry_run=dry_run)
                mirror_notes = () if republished.version is None else follow(opened, republished.version)
            report = RollbackReport(
                table=str(opened.table.name),
                to_version=version,
                version=republished.version,
                partitions=partition_facts(opened.table, opened.layout, republished.partitions),
                notes=(*republished.notes, *mirror_notes),
                dry_run=dry_run,
            )
            return announcement.finished(report, write_id=republished.write_id)

    def vacuum(
        self, table: str, *, older_than: timedelta | None = None, dry_run: bool = False, force: bool = False
    ) -> VacuumReport:
        """Delete replaced data that is past its retention, and the files of dead writes.

        Deleted are: replaced data; files of abandoned entries; files, uploads and registrations of writes whose writer
        is dead and that never claimed an entry; uploads of late attempts; log entries on which nothing depends any
        more. What an erasure names is deleted whatever its age. Data of other tools is deleted file by file, only what
        was listed when it was replaced and is unchanged.
        What the metastore points at, or an entry in doubt names, stays. Run again, or twice at once, it ends the same.

        Parameters
        ----------
        older_than
            Age since the data was replaced, and since a dead writer's last sign of life. Default: the table's own
            retention, three days without one. That is the table property ``table_writer.retention`` (hours), and
            without it what each write has scheduled.
        force
            Allow an age under 24 hours, or under the table property ``table_writer.retention``: running queries
            may fail then.

        Returns
        -------
        VacuumReport
            With ``failures`` for what could not be deleted.

        Raises
        ------
        InvalidInputError
            The age is too low and ``force`` was not given.
        """
        from table_writer.jobs.announcing import announced
        from table_writer.jobs.vacuum_results import vacuum_report
        from table_writer.mirrors import follow as mirrors
        from table_writer.protocol.vacuum.due import vacuum_ages
        from table_writer.protocol.vacuum.sweep import Vacuum

        with announced(self._services, "vacuum", table, dry_run=dry_run) as announcement:
            opened = self._open(table, announcement)
            ages = vacuum_ages(opened, older_than, force=force)
            with announcement.watch.step("vacuum"):
                vacuumed = Vacuum(opened, mirrors).run(ages, dry_run=dry_run)
            return announcement.finished(vacuum_report(opened, vacuumed, dry_run=dry_run))

    def erasure(self, table: str, *, write_id: str | None = None, predicate_sha256: str = "") -> ErasureReport:
        """Certify an erasure: each object that may have held the deleted rows, whether it is gone, and what is not.

        It looks at the store now: keep the certificate that you get after the vacuum. Queries that began before may
        have read the rows, and a table that other jobs made of them has them still.

        Parameters
        ----------
        write_id
            Of the delete, as its result and the history have it. Default: the newest erasure.
        predicate_sha256
            Only the erasure of one predicate, by the hash that its certificate has.

        Returns
        -------
        ErasureReport
            ``remarks`` says what may hold whole rows and is not erased: versions of a bucket, files that readers or
            other tools have, writes that were not published yet. ``later`` says what holds single values, and when
            that goes: the log and mirrors. ``is_complete`` takes that no remark is left.

        Raises
        ------
        InvalidInputError
            The log has no such erasure, or no more.

        Examples
        --------
        >>> from table_writer import InvalidInputError
        >>> try:
        ...     keeper.erasure("mart.orders", write_id="nobody")
        ... except InvalidInputError as error:
        ...     print(error.message.partition(":")[0])
        the log of mart.orders has no erasure by write nobody
        """
        from table_writer.jobs.certificate import erasure_report

        return erasure_report(self._open(table), write_id, predicate_sha256)

    def mirror(
        self, table: str, *, as_: str, repair: bool = False, check: bool = False, drop: bool = False
    ) -> MirrorReport:
        """Bring the mirror of a table to its newest version, or make it: the same files as another table.

        Every version of which files are there becomes one of the mirror; where that cannot be, one stands for several.
        From then on whoever changes the table brings the mirror up, until it is dropped. A mirror is also made by the
        next publish where ``mirrors`` of a writer's config, or the table property ``table_writer.mirrors``, says so.

        Parameters
        ----------
        as_
            The kind: ``delta`` or ``iceberg``.
        repair
            Compare it with all that is there, and mend what differs or is damaged.
        check
            Compare, and change nothing.
        drop
            Delete what belongs to the mirror alone, once the table property does not name it any more. Writers whose
            config names it make it again.

        Raises
        ------
        InvalidInputError
            What lies where the mirror would be is not this library's, or it cannot show the table: other formats than
            Parquet, types that it does not have, partitions in other buckets, files of other tools that its readers
            would read wrongly, which the message names.

        Examples
        --------
        >>> keeper.mirror("mart.orders", as_="delta").state
        'in step'
        >>> keeper.mirror("mart.orders", as_="delta", drop=True).state
        'dropped'
        """
        from table_writer.config import require_mirrors
        from table_writer.jobs.announcing import announced
        from table_writer.mirrors.reporting import brought_up, compared, dropped

        require_mirrors([as_], "as_")
        if repair + check + drop > 1:
            raise InvalidInputError("repair, check and drop exclude each other")
        with announced(self._services, "mirror", table, as_, dry_run=check) as announcement:
            opened = self._open(table, announcement)
            if check:
                return compared(opened, as_)
            report = dropped(opened, as_) if drop else brought_up(opened, as_, anew=repair)
            return announcement.finished(report)

    def handover(self, table: str, *, to: str = "", undo: bool = False, dry_run: bool = False) -> MirrorReport:
        """Let a mirror go on as the table: its own engines may write to it, and this library writes no more.

        The mirror is made or mended, the log closed, every version in doubt ended; then the mirror is opened to all.
        Readers of the Hive table see its last version as before. Every write of this library is refused, a vacuum
        deletes nothing; :meth:`recover` and :meth:`restore` work on.

        Parameters
        ----------
        to
            The kind of mirror: ``delta`` or ``iceberg``.
        undo
            Make it a mirror again, while nobody has written to it, and open the log.

        Raises
        ------
        InvalidInputError
            It was handed over to the other kind; partitions lie where Delta would put files; the metastore compares
            nothing before it changes the Iceberg table (Hive 3, and 2.3 before 2.3.10); with ``undo``: it was not
            handed over, or was written since.
        ConflictError
            Others publish or vacuum right now. Call again.

        Examples
        --------
        >>> keeper.handover("mart.orders", to="delta").state
        'handed over'
        >>> keeper.handover("mart.orders", undo=True).state
        'taken back'
        """
        from table_writer.config import require_mirrors
        from table_writer.jobs.announcing import announced
        from table_writer.mirrors.handover import handed_over, taken_back

        if bool(to) == undo:
            raise InvalidInputError("say either to which kind of table it goes over, or undo")
        require_mirrors([to] if to else [], "to")
        mode = "undone handover" if undo else f"handover to {to}"
        with announced(self._services, "mirror", table, mode, dry_run=dry_run) as announcement:
            opened = self._open(table, announcement)
            report = taken_back(opened, dry_run=dry_run) if undo else handed_over(opened, to, dry_run=dry_run)
            return announcement.finished(report)

    def uploads(
        self,
        table: str,
        *,
        abort: bool = False,
        older_than: timedelta = SAFE_AGE,
        dry_run: bool = False,
        force: bool = False,
    ) -> UploadsReport:
        """List pending uploads below the table's root with their owners; abort those of dead writes if asked.

        Uploads of running writes and of other tools are never touched.

        Parameters
        ----------
        abort
            Give dead writes up: their uploads are aborted, their files and registrations deleted.
        older_than
            Age since a dead writer's last sign of life.
        force
            Allow an age under 24 hours.
        """
        from table_writer.jobs.announcing import announced
        from table_writer.protocol.vacuum.due import require_safe

        require_age("older_than", older_than)
        with announced(self._services, "vacuum", table, dry_run=dry_run or not abort) as announcement:
            opened = self._open(table, announcement)
            if abort:
                require_safe(str(opened.table.name), older_than, SAFE_AGE, force=force)
            seconds = older_than.total_seconds()
            return announcement.finished(self._uploads(opened, seconds, abort=abort, dry_run=dry_run))

    def _uploads(self, opened: OpenTable, seconds: float, *, abort: bool, dry_run: bool) -> UploadsReport:
        from table_writer.jobs.vacuum_results import upload_details, vacuum_report
        from table_writer.mirrors import follow as mirrors
        from table_writer.protocol.vacuum.due import Ages, look_for_traces
        from table_writer.protocol.vacuum.sweep import Vacuum
        from table_writer.reports.vacuum_reports import UploadsReport

        traces = look_for_traces(opened.store, opened.layout)
        uploads = tuple(opened.store.list_uploads(opened.layout.root.key))
        listed = upload_details(uploads, traces, opened.log.read_history(), seconds)
        report = UploadsReport(table=str(opened.table.name), uploads=listed)
        if not abort:
            return report
        only_dead_writes = Ages(replaced_seconds=math.inf, usual_seconds=math.inf, dead_write_seconds=seconds)
        vacuumed = Vacuum(opened, mirrors).run(only_dead_writes, dry_run=dry_run)
        swept = vacuum_report(opened, vacuumed, dry_run=dry_run)
        return replace(report, aborted=swept.aborted, deleted=swept.deleted, failures=swept.failures, dry_run=dry_run)

    def restore(self, table: str, *, partitions: Collection[str] | None = None, dry_run: bool = False) -> RestoreReport:
        """Add the partitions that the log knows and the metastore does not, in one metastore call.

        For a metastore whose database was lost: create the table again at its location, then restore. Publishes in
        doubt come first, each whole, and partitions at older rows are put back unless some are named. What another tool
        has moved stays; a partition whose files are not all there is named and left out.

        Writes to a table that was created again are refused until no partition is missing: they would take it for
        dropped. What this library never wrote is not in its log: ``MSCK REPAIR TABLE`` finds it afterwards. The files
        of an earlier table of the same name are adopted.

        Parameters
        ----------
        partitions
            Names such as ``"dt=2024-01-01"``. Default: all.
        """
        from table_writer.jobs.announcing import announced
        from table_writer.model.table import TableName

        with announced(self._services, "restore", table, dry_run=dry_run) as announcement:
            opened = self._services.open_table(TableName.parse(table))
            announcement.follow(opened)
            return self._restore(opened, opened.partition_values(partitions), announcement, dry_run=dry_run)

    def _restore(
        self,
        opened: OpenTable,
        chosen: Collection[PartitionValues] | None,
        announcement: Announcement,
        *,
        dry_run: bool,
    ) -> RestoreReport:
        from table_writer.mirrors.follow import follow
        from table_writer.protocol.log.owner import adopt_root, is_of_earlier_table, require_in_place
        from table_writer.protocol.operations.restore import restore_partitions
        from table_writer.reports.history_facts import partition_facts
        from table_writer.reports.history_reports import RestoreReport

        is_new = is_of_earlier_table(opened.store, opened.layout, opened.owner)
        if is_new:
            require_in_place(opened.store, opened.layout, opened.table)
            opened.require_all_columns()
        else:
            opened.require_owner()
        with announcement.watch.step("publish"):
            republished = restore_partitions(opened, chosen, dry_run=dry_run)
        notes = republished.notes
        if is_new and not dry_run and (missing_note := self._missing_note(opened, republished, chosen)):
            notes = (*notes, missing_note)
        elif is_new and not dry_run:
            try:
                adopt_root(opened.store, opened.layout, opened.owner)
            except StorageError as error:  # readers see the rows: an error would promise that they do not
                notes = (*notes, f"the files still belong to the earlier table, run it again: {error.message}")
        has_changed = republished.version is not None or bool(republished.notes)  # also where only doubt was resolved
        if has_changed and not dry_run:
            notes = (*notes, *follow(opened, republished.version))
        report = RestoreReport(
            table=str(opened.table.name),
            version=republished.version,
            partitions=partition_facts(opened.table, opened.layout, republished.partitions),
            not_there={opened.partition_names([values])[0]: reason for values, reason in republished.not_there.items()},
            present_count=republished.present_count,
            notes=notes,
            dry_run=dry_run,
        )
        return announcement.finished(report, write_id=republished.write_id)

    def _missing_note(
        self, opened: OpenTable, republished: RepublishResult, chosen_values: Collection[PartitionValues] | None
    ) -> str:
        """Name the partitions of a table created again that are not restored yet; a write would forget their rows."""
        from table_writer.protocol.operations.restore import restore_partitions

        if chosen_values is not None:
            republished = restore_partitions(opened, None, dry_run=True)
        restorable = () if chosen_values is None else republished.partitions
        missing_names = opened.partition_names(
            {*republished.not_there, *(partition.values for partition in restorable)}
        )
        if not missing_names:
            return ""
        name, names = opened.table.name, few(missing_names)
        other_way = f"; or go on without them: `table-writer adopt {name} --accept-loss`"
        return (
            f"{counted(len(missing_names), 'partition')} of the log still missing, and writes are refused until all are"
            f" back: {names}. Run `table-writer restore {name}`"
            f" again{other_way if opened.table.partition_columns else ''}"
        )

    def doctor(
        self, table: str, *, spark_conf: Mapping[str, str] | None = None, scratch_table: bool = False
    ) -> DoctorReport:
        """Look for what makes writing a table slow, unsafe or expensive, and say what to change.

        Examined are metastore, store, bucket, table and settings. Nothing that it makes stays.

        Parameters
        ----------
        spark_conf
            Settings of the Spark jobs that write the table (``spark.*``, ``spark.hadoop.*``), to be looked at as well.
        scratch_table
            Try which characters the metastore's database keeps, in an external table that is made in the same
            database, named ``table_writer_scratch_…``, and dropped again.

        Examples
        --------
        >>> {finding.check: finding.status for finding in keeper.doctor("mart.orders").findings}["owner"]
        'ok'
        """
        from table_writer.doctor.examination import examine
        from table_writer.model.table import TableName
        from table_writer.reports.health_reports import DoctorReport

        opened = self._services.open_table(TableName.parse(table))
        findings = examine(opened, spark_conf, scratch_table=scratch_table)
        return DoctorReport(table=str(opened.table.name), findings=findings)

    def examine_store(self, store: str) -> DoctorReport:
        """Try a store before its first write: can it do all that writes depend on? Nothing is left behind.

        Of conditional puts that race one wins; listings are complete, in order, and begin after any key; uploads are
        hidden until another client completes them; what is copied or read on condition is that very object. It puts
        some 1,200 small objects and one of 5 MiB below ``store``, under a name of its own, and deletes them.

        Parameters
        ----------
        store
            A place in it, such as ``"s3a://bucket/prefix"``; nothing needs to be there.

        Raises
        ------
        InvalidInputError
            No store can be opened for the location.

        Examples
        --------
        >>> report = keeper.examine_store("s3a://lakehouse/new")
        >>> {finding.check: finding.status for finding in report.findings}["key order"]
        'ok'
        """
        from table_writer.doctor.store import examine_opened
        from table_writer.model.location import Location

        place = Location.parse(store)
        return examine_opened(place, lambda: self._services.open_another(place))

    def leave(self, table: str) -> LeaveReport:
        """Say what this library keeps of a table, for those who stop using it: what stays, and what can go. Reads only.

        The table stays a plain Hive table: readers need the metastore and the files that it points to, and nothing else
        of what the library keeps.

        Examples
        --------
        >>> report = keeper.leave("mart.orders")
        >>> [holding.what for holding in report.holdings if holding.fate == "stays"]
        ['rows that readers see']
        """
        from table_writer.doctor.leave import look_at_holdings

        return look_at_holdings(self._open(table))

    def certify(
        self,
        location: str,
        *,
        database: str = "default",
        races: int = 1_000,
        kills: int = 50,
        minutes: float = 15.0,
        history: str | None = None,
    ) -> CertificationReport:
        """Put the promise to the test on a store and a metastore of your own, and say what held.

        It tries the store's contract, and lets claims race. Then it makes a table, lets writers overwrite and append
        while they are killed at random moments, and lets others read. It resolves what is in doubt, erases rows,
        vacuums, and looks through every object. A checker that imports nothing of this library judges what the
        processes have told. A call to the metastore counts as lost after 5 seconds, unless the config says another
        number than its default of 120. Everything lies below a name of its own, and is taken away at the end.

        Parameters
        ----------
        location
            A place in the store, such as ``"s3://bucket/prefix"``; nothing needs to be there.
        database
            The database in which the table is made, as an external table with a name of its own.
        races
            How many claims race, eight writers each.
        kills
            How many writers are killed.
        minutes
            After two fifths of these no further race begins, and after all of them no further writer is killed. What
            comes after that is still done, and the report says how much was tried. At most 60.
        history
            A new file for the history of writes and reads, as JSON lines. It is written also after Ctrl-C, and not at
            all if nothing was written or read.

        Returns
        -------
        CertificationReport
            ``holds`` says whether every promise held that was tried.

        Raises
        ------
        InvalidInputError
            A number is out of range, or no store can be opened for the location.

        Examples
        --------
        >>> report = keeper.certify("s3a://lakehouse/proof", races=20, kills=1)
        >>> report.holds
        True
        """
        from table_writer.doctor.certify import certify
        from table_writer.doctor.certify_steps import Extent

        services, extent = self._services, Extent(races=races, kills=kills, minutes=minutes)
        config = replace(services.config, hadoop={**services.session.hadoop, **services.config.hadoop})
        return certify(location, config, services, database=database, extent=extent, history=history or "")

    def adopt(self, table: str, *, accept_loss: bool = False) -> None:
        """Declare that the files below a table's root are this table's, after it was renamed, moved or created again.

        The log and all files stay. An unpartitioned table that a rename has left without its rows is pointed at them
        again, and so are the partitions of one that was created again and has none. Needed only when a write says so.

        Parameters
        ----------
        accept_loss
            Partitions that the log knows were dropped on purpose, if a table that was created again lacks some, or a
            renamed one all of them. And the table goes on without a log that is gone, or its newest entries, though the
            metastore names them: readers keep the rows that they see, history and idempotency keys are forgotten.

        Raises
        ------
        InvalidInputError
            Others have written where the table is now, its rows are not all there, some of its partitions are not in
            the metastore, or the files are those of another table that exists. The table is not adopted.
        MetastoreError, StorageError
            It may have changed something; call it again.
        """
        from table_writer.model.table import TableName
        from table_writer.protocol.operations.adopt import adopt

        adopt(self._services.open_table(TableName.parse(table)), accept_loss=accept_loss)

    def staged(self, table: str) -> StagedReport:
        """List the writes of a table that are staged, newest first: who, when, rows, checks, until when.

        Examples
        --------
        >>> keeper.staged("mart.orders").staged
        ()
        """
        from table_writer.jobs.staged_writes import StagedWrites
        from table_writer.reports.staged_report import StagedReport, staged_summary

        opened = self._open(table)
        staged_writes, unreadable = StagedWrites(opened).find_all()
        return StagedReport(
            table=str(opened.table.name),
            staged=tuple(map(staged_summary, reversed(staged_writes))),
            unreadable=unreadable,
        )

    def staged_write(self, table: str, write_id: str) -> StagedDetail:
        """Show one staged write: its partitions, its checks, and the column statistics from the footers of its files.

        :meth:`staged` lists each ``write_id``; ``InvalidInputError`` says why one is not staged any more, or not yet.
        """
        from table_writer.jobs.staged_writes import StagedWrites
        from table_writer.reports.staged_report import staged_detail

        return staged_detail(StagedWrites(self._open(table)).find(write_id))

    def publish(self, table: str, write_id: str, *, dry_run: bool = False) -> WriteResult | StagedDetail:
        """Make readers see a staged write: all its partitions in one metastore call.

        What was published already is left as it is: a job that runs again may publish again. Refused if a check of
        severity ``"error"`` has failed, or its files are not as they were staged.

        Parameters
        ----------
        write_id
            As :meth:`staged` lists it.

        Returns
        -------
        WriteResult
            As of every write; ``repeated`` if it was published already, by whatever process, or its idempotency key.
            A dry run that finds nothing in the way returns what :meth:`staged_write` returns.

        Raises
        ------
        CheckFailedError
            A check of severity ``"error"`` has failed.
        ConflictError
            Somebody else published one of its partitions since it was planned; it stays staged.
        InvalidInputError
            It is not staged any more, and was not published, or was rolled back; or it adds columns to the table, which
            takes Spark.
        StorageError, MetastoreError, OutcomeUnknownError
            As of every write. Unless the outcome is unknown, it stays staged.
        """
        from table_writer.jobs.announcing import announced
        from table_writer.jobs.results import repeated_result
        from table_writer.jobs.staged_writes import StagedWrites
        from table_writer.protocol.table.open_table import RepeatedError
        from table_writer.reports.staged_report import staged_detail

        with announced(self._services, "publish", table, dry_run=dry_run) as announcement:
            opened = self._open(table, announcement)
            announcement.concerns(opened, write_id=write_id)
            if not dry_run:
                return StagedWrites(opened).publish(write_id, announcement)
            try:
                staged = StagedWrites(opened).find_unpublished(write_id, dry_run=True)
                StagedWrites(opened).examine(staged.record)
            except RepeatedError as repeated:
                return repeated_result(repeated.entry, announcement.watch, write_id=write_id)
        return staged_detail(staged, notes=(NOTHING_IN_THE_WAY,))

    def discard(self, table: str, write_id: str, *, dry_run: bool = False) -> DiscardReport:
        """Delete a staged write, so that nobody can publish it any more.

        A write that was published is left alone.

        Parameters
        ----------
        write_id
            As :meth:`staged` lists it.

        Raises
        ------
        InvalidInputError
            It is not staged any more, or not yet; the message says which.
        ConflictError
            Another process has published it, or is about to.
        """
        from table_writer.jobs.announcing import announced
        from table_writer.jobs.staged_writes import StagedWrites
        from table_writer.jobs.vacuum_results import discard_report

        with announced(self._services, "discard", table, dry_run=dry_run) as announcement:
            opened = self._open(table, announcement)
            announcement.concerns(opened, write_id=write_id)
            vacuumed = StagedWrites(opened).discard(write_id, announcement, dry_run=dry_run)
            return announcement.finished(discard_report(opened, write_id, vacuumed, dry_run=dry_run))

    def _open(self, table: str, announcement: Announcement | None = None) -> OpenTable:
        from table_writer.model.table import TableName

        opened = self._services.open_table(TableName.parse(table))
        if announcement is not None:
            announcement.follow(opened)
        opened.require_owner()
        return opened


def __getattr__(name: str) -> Any:
    """Return a type of a call's parameters, which the check of its first call asks for."""
    if name == "Services":
        from table_writer.protocol.table.services import Services

        return Services
    if name == "SparkSession":
        from table_writer.spark.session import SparkSession

        return SparkSession
    if name == "TableWriterConfig":
        from table_writer.config import TableWriterConfig

        return TableWriterConfig
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _values_at(placements: Mapping[PartitionValues, Placement], placement: Placement) -> list[PartitionValues]:
    """Return the partitions with this placement."""
    return [values for values, found in placements.items() if found is placement]
