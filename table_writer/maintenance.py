"""Maintenance of tables, without Spark: history, rollback, recover, vacuum and what belongs to them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final

from table_writer.checked import checked, require_age
from table_writer.display.reports import (
    DoctorReport,
    HistoryReport,
    RecoverReport,
    RestoreReport,
    RollbackReport,
    UploadsReport,
    VacuumReport,
    VersionReport,
)
from table_writer.display.versions import partition_details, summarised, upload_details, vacuum_report
from table_writer.doctor import examine
from table_writer.errors import InvalidInputError, StorageError
from table_writer.log.history import Placement
from table_writer.log.moved import require_in_place
from table_writer.log.owner import adopt_root, is_of_earlier_table
from table_writer.model.table import HISTORY_PROPERTY, PartitionValues, TableName
from table_writer.publish.recovery import placements
from table_writer.publish.restore import Restored
from table_writer.publish.rollback import version_of
from table_writer.retention import SAFE_AGE, require_safe, vacuum_age
from table_writer.services import TableServices
from table_writer.staged_maintenance import StagedMaintenance
from table_writer.vacuum.dead_writes import look_for_traces
from table_writer.vacuum.due import Ages

__all__ = ["Maintenance"]

HISTORY_RETENTION: Final = timedelta(days=30)


@checked
class Maintenance(StagedMaintenance):
    """Looks after tables that this library writes: from any machine, without Spark, safe while writers are at work.

    Parameters
    ----------
    metastore_uri
        ``thrift://host:port``, several separated by commas. Default: ``hive.metastore.uris`` of the Hadoop settings.
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

    def history(self, table: str, *, limit: int | None = None) -> HistoryReport:
        """List the versions of a table, newest first: who, when, what, rows, bytes, state.

        Parameters
        ----------
        table
            ``database.table``.
        limit
            Only so many of the newest.

        Examples
        --------
        >>> [version.state for version in keeper.history("mart.orders", limit=1).versions]
        ['published']
        """
        if limit is not None and limit < 1:
            raise InvalidInputError(f"limit={limit}: expected 1 or more")
        services = self._open(table)
        state = services.log.read_state(listed_after=0)
        newest = sorted(state.versions)[-limit:] if limit else state.versions
        history = services.log.read_history(replace(state, versions=frozenset(newest)))
        return HistoryReport(
            table=str(services.table.name), versions=tuple(summarised(record) for record in reversed(history.records))
        )

    def show(self, table: str, version: int) -> VersionReport:
        """Show one version, partition by partition.

        Raises
        ------
        InvalidInputError
            The log has no such entry, or not any more.
        """
        services = self._open(table)
        state = services.log.read_state(listed_after=0)
        if version not in state.versions:
            raise InvalidInputError(
                f"the log of {services.table.name} has no version {version}: its newest is {state.newest}, and a vacuum"
                " may have trimmed old ones",
                table=str(services.table.name),
            )
        record = services.log.read(version)
        return VersionReport(
            table=str(services.table.name),
            summary=summarised(record),
            partitions=partition_details(services.table, record.entry.partitions),
            deletes=tuple(deleted.location for deleted in record.entry.deletes),
        )

    def recover(self, table: str, *, dry_run: bool = False, accept_loss: bool = False) -> RecoverReport:
        """Settle every publish that was left in doubt, and put right what the metastore applied late.

        A publish whose metastore call was applied is recorded as published; one whose call was not is rolled forward.
        Partitions that another tool has moved since are left alone and named. A partition that a late call has put back
        to older rows of this library is put right. A vacuum whose process died is finished. It waits for publishes
        whose time is not over yet and that readers do not see; calling it again changes nothing.

        Parameters
        ----------
        table
            ``database.table``.
        dry_run
            Only say what is in doubt and what is not where it should be.
        accept_loss
            Go on without entries of the log that are lost for good, and name them. Readers keep the partitions that
            they see now; a write that was planned before it conflicts. Their idempotency keys are forgotten.

        Raises
        ------
        InvalidInputError
            Entries of the log are lost, and ``accept_loss`` was not given; nothing was changed.
        MetastoreError, StorageError, OutcomeUnknownError
            It could not be settled yet; call again.
        """
        services = self._services.open_table(TableName.parse(table))
        is_of_earlier_table(services.store, services.layout, services.owner)  # refuses those of another name
        lost = services.log.accept_loss(dry_run=dry_run) if accept_loss else frozenset()
        services.require_owner()  # after that: a table that was created again adopts no log of which entries are lost
        before = services.log.read_history(services.log.read_state(listed_after=0, allow_lost=bool(lost)))
        in_doubt = [record.entry.version for record in before.publishes_in_doubt]
        vacuum = services.vacuum()
        if dry_run:
            placed = placements(before, services.metastore.get_partitions(services.table, sorted(before.current)))
            return RecoverReport(
                table=str(services.table.name),
                settled=dict.fromkeys(in_doubt, "in doubt"),
                put_right=services.partition_names([v for v, where in placed.items() if where is Placement.BEHIND]),
                missing=services.partition_names([v for v, where in placed.items() if where is Placement.MISSING]),
                unfinished_vacuums=vacuum.interrupted(before),
                lost=tuple(sorted(lost)),
                dry_run=True,
            )
        done = services.recovery().settle_all(services.table)
        finished = vacuum.finish(services.table)
        outcomes = {version: services.log.outcome(version) for version in in_doubt}
        every = (*done.recovered, *done.put_right)
        return RecoverReport(
            table=str(services.table.name),
            settled={version: outcome.value for version, outcome in outcomes.items() if outcome},
            put_right=services.partition_names({values for one in done.put_right for values in one.partitions}),
            superseded=services.partition_names(done.taken.union(*(one.superseded for one in every))),
            missing=services.partition_names([v for v, where in done.placed.items() if where is Placement.MISSING]),
            finished_vacuums=finished,
            unfinished_vacuums=vacuum.interrupted(services.log.read_history()),
            lost=tuple(sorted(lost)),
        )

    def rollback(
        self,
        table: str,
        *,
        version: int | None = None,
        write_id: str | None = None,
        partitions: Collection[str] | None = None,
        dry_run: bool = False,
    ) -> RollbackReport:
        """Put partitions back to an earlier version, in one metastore call, as a new version.

        All their files must still be there: replaced data stays for the retention. Partitions that did not exist then
        are emptied in the same call and dropped afterwards. What a rollback replaces stays for the retention too, so a
        rollback can be rolled back.

        Parameters
        ----------
        table
            ``database.table``.
        version, write_id
            One of them: the version readers shall see again, or the write that published it. Version 0 is the state
            before the first one.
        partitions
            Names such as ``"dt=2024-01-01"``; by default all that changed since.
        dry_run
            Check everything and change nothing.

        Raises
        ------
        InvalidInputError
            It cannot be done: the files are gone, another tool has moved a partition, or there is no such version.
        ConflictError
            Somebody else published one of the partitions meanwhile; nothing changed.
        """
        if (version is None) == (write_id is None):
            raise InvalidInputError("a rollback needs a version or a write_id, one of the two")
        services = self._open(table)
        if version is None:
            version = version_of(services.log.read_history(), write_id or "", services.table)
        done = services.rollback().run(services.table, version, services.partition_values(partitions), dry_run=dry_run)
        return RollbackReport(
            table=str(services.table.name),
            to_version=version,
            version=done.version,
            partitions=partition_details(services.table, done.partitions),
            notes=done.notes,
            dry_run=dry_run,
        )

    def vacuum(
        self,
        table: str,
        *,
        older_than: timedelta | None = None,
        dry_run: bool = False,
        force: bool = False,
    ) -> VacuumReport:
        """Delete what readers have left for longer than the retention, and what dead writes have left behind.

        Deleted are: replaced data; files of abandoned entries; files, uploads and registrations of writes whose writer
        is dead and that never claimed an entry; uploads of late attempts; log entries on which nothing depends any
        more. Data of other tools is deleted file by file, only what was listed when it was replaced and is unchanged.
        What the metastore points at, or an entry in doubt names, stays. Run again, or twice at once, it ends the same.

        Parameters
        ----------
        table
            ``database.table``.
        older_than
            Age since the data was replaced, and since a dead writer's last sign of life. Default: the table property
            ``table_writer.retention`` (hours); without it what each write has scheduled, three days by default.
        dry_run
            Return exactly what would be deleted, and delete nothing.
        force
            Allow an age under 24 hours, or under the table's own retention: running queries may fail then.

        Returns
        -------
        VacuumReport
            With ``failures`` for what could not be deleted.

        Raises
        ------
        InvalidInputError
            The age is too low and ``force`` was not given.
        """
        services = self._open(table)
        age = vacuum_age(services, older_than, force=force)
        history = services.hours_property(HISTORY_PROPERTY)
        ages = Ages(
            replaced_seconds=None if age is None else age.total_seconds(),
            usual_seconds=services.retention.total_seconds(),
            dead_write_seconds=(max(services.retention, SAFE_AGE) if age is None else age).total_seconds(),
            history_seconds=(HISTORY_RETENTION if history is None else history).total_seconds(),
            least_seconds=0 if force else SAFE_AGE.total_seconds(),
        )
        found = services.vacuum().run(services.table, ages, dry_run=dry_run)
        return vacuum_report(services.table, services.layout, found, dry_run=dry_run)

    def uploads(
        self,
        table: str,
        *,
        abort: bool = False,
        older_than: timedelta = SAFE_AGE,
        dry_run: bool = False,
        force: bool = False,
    ) -> UploadsReport:
        """List pending uploads below the table's root, with whose they are; abort those of dead writes if asked.

        Parameters
        ----------
        table
            ``database.table``.
        abort
            Give dead writes up: their uploads are aborted, their files and registrations deleted. Uploads of running
            writes and of other tools are never touched.
        older_than
            Since a dead writer's last sign of life.
        dry_run
            With ``abort``: return what would be aborted and deleted, and change nothing.
        force
            Allow an age under 24 hours.
        """
        require_age("older_than", older_than)
        services = self._open(table)
        if abort:
            require_safe(services, older_than, SAFE_AGE, force=force)
        seconds = older_than.total_seconds()
        traces = look_for_traces(services.store, services.layout)
        uploads = tuple(services.store.list_uploads(services.layout.root.key))
        listed = upload_details(uploads, traces, services.log.read_history(), seconds)
        if not abort:
            return UploadsReport(table=str(services.table.name), uploads=listed)
        only_dead_writes = Ages(replaced_seconds=math.inf, usual_seconds=math.inf, dead_write_seconds=seconds)
        found = services.vacuum().run(services.table, only_dead_writes, dry_run=dry_run)
        swept = vacuum_report(services.table, services.layout, found, dry_run=dry_run)
        return UploadsReport(
            table=str(services.table.name),
            uploads=listed,
            aborted=swept.aborted,
            deleted=swept.deleted,
            failures=swept.failures,
            dry_run=dry_run,
        )

    def restore(self, table: str, *, partitions: Collection[str] | None = None, dry_run: bool = False) -> RestoreReport:
        """Add the partitions that the log knows and the metastore does not, in one metastore call.

        For a metastore whose database was lost: create the table again at its location, then restore. Partitions that
        the metastore has stay as they are; a partition whose files are not all there is named and left out. Writes to a
        table that was created again are refused until no partition is missing: they would take it for dropped. What
        this library never wrote is not in its log: ``MSCK REPAIR TABLE`` finds it afterwards.

        Parameters
        ----------
        table
            ``database.table``. Its files are adopted if they belonged to a table of the same name.
        partitions
            Names such as ``"dt=2024-01-01"``; by default all.
        dry_run
            Check everything and change nothing.
        """
        services = self._services.open_table(TableName.parse(table))
        chosen = services.partition_values(partitions)
        is_new = is_of_earlier_table(services.store, services.layout, services.owner)
        require_in_place(services.store, services.layout, services.table)
        done = services.restore().run(services.table, chosen, dry_run=dry_run)
        notes = done.notes
        if is_new and not dry_run and (missing := self._missing(services, done, chosen)):
            notes = (*notes, missing)
        elif is_new and not dry_run:
            try:
                adopt_root(services.store, services.layout, services.owner)
            except StorageError as error:  # readers see the rows: an error would promise that they do not
                notes = (*notes, f"the files still belong to the earlier table, run it again: {error.message}")
        return RestoreReport(
            table=str(services.table.name),
            version=done.version,
            partitions=partition_details(services.table, done.partitions),
            not_there={services.partition_names([values])[0]: reason for values, reason in done.not_there.items()},
            present_count=done.present_count,
            notes=notes,
            dry_run=dry_run,
        )

    def _missing(self, services: TableServices, done: Restored, chosen: Collection[PartitionValues] | None) -> str:
        """Say which partitions of a table that was created again are not back yet, whose rows a write would forget."""
        if chosen is not None:
            done = services.restore().run(services.table, None, dry_run=True)
        added = () if chosen is None else done.partitions
        missing = services.partition_names({*done.not_there, *(one.values for one in added)})
        if not missing:
            return ""
        name, shown = services.table.name, ", ".join(missing[:5]) + (", …" if missing[5:] else "")
        without = f"; or go on without them: `table-writer adopt {name} --accept-loss`"
        return (
            f"{len(missing)} partition(s) of the log are still missing, and writes are refused until they are back:"
            f" {shown}. Run `table-writer restore {name}` again{without if services.table.partition_columns else ''}"
        )

    def doctor(self, table: str, *, spark_conf: Mapping[str, str] | None = None) -> DoctorReport:
        """Examine metastore, store, bucket, table and settings; say what to change. Changes nothing that stays.

        Parameters
        ----------
        table
            ``database.table``.
        spark_conf
            Settings of the Spark jobs that write the table (``spark.*``, ``spark.hadoop.*``), to be looked at as well.

        Returns
        -------
        DoctorReport
            The findings, worst first, each with its advice.
        """
        services = self._services.open_table(TableName.parse(table))
        return DoctorReport(table=str(services.table.name), findings=examine(services, spark_conf))

    def adopt(self, table: str, *, accept_loss: bool = False) -> None:
        """Declare that the files below a table's root are this table's, after it was renamed, moved or created again.

        The log and all files stay. An unpartitioned table that a rename has left without its rows is pointed at them
        again, and so are the partitions of one that was created again and has none. Needed only when a write says so.

        Parameters
        ----------
        table
            ``database.table``.
        accept_loss
            Partitions that the log knows, and a table that was created again does not have, were dropped on purpose.

        Raises
        ------
        InvalidInputError
            Others have written where the table is now, its rows are not all there, some of its partitions are not in
            the metastore, or the files are those of another table that exists. The table is not adopted.
        MetastoreError, StorageError
            It may have changed something; call it again.
        """
        self._services.open_table(TableName.parse(table)).adopt(accept_loss=accept_loss)
