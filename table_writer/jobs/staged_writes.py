"""Find, publish and discard the staged writes of one table, in any process, without Spark."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from table_writer.errors import CheckFailedError, ConflictError, InvalidInputError, StorageError, counted
from table_writer.jobs.announcing import Announcement, facts_of_staged
from table_writer.jobs.complete import Completer
from table_writer.jobs.results import Refresh, end_publish, repeated_result
from table_writer.jobs.running_write import Claiming
from table_writer.mirrors import follow as mirrors
from table_writer.model.check_result import CheckResult
from table_writer.model.entry import WRITE_ID
from table_writer.model.staged_write import FoundStaged, StagedRecord
from table_writer.model.write import WrittenFiles, written_ids
from table_writer.protocol.log.history import History
from table_writer.protocol.log.registration import (
    FoundRegistration,
    check_keys,
    put_check_results,
    read_check_results,
    read_registration,
    read_registrations,
    remove_registration,
    write_id_of_check,
)
from table_writer.protocol.log.rules import is_kept
from table_writer.protocol.operations.append import CopyFiles, require_as_staged
from table_writer.protocol.operations.publisher import Publisher, PublishResult
from table_writer.protocol.operations.recovery import Recovery
from table_writer.protocol.table.open_table import OpenTable, RepeatedError, repetition_error
from table_writer.protocol.vacuum.remover import VacuumResult
from table_writer.protocol.vacuum.sweep import Vacuum
from table_writer.reports.checks import CheckResults
from table_writer.reports.write_result import WriteResult

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class BySpark:
    """The work that only a Spark session can do at the publish of a staged write."""

    prepare: Callable[[StagedRecord], WrittenFiles]  # evaluates predicates and adds columns, before the claim
    copy_files: CopyFiles  # for an append
    refresh: Refresh


class StagedWrites:
    """The staged writes of one table: find, publish and discard them."""

    def __init__(self, opened: OpenTable) -> None:
        self._opened = opened

    def find(self, write_id: str) -> FoundStaged:
        """Return a staged write; ``InvalidInputError`` says why it is not staged any more, not yet, or unreadable."""
        registration = self._staged_registration(write_id)
        return self._read_staged(registration, check_keys(self._opened.store, self._opened.layout, write_id))

    def find_unpublished(self, write_id: str, *, dry_run: bool = False) -> FoundStaged:
        """Return a staged write that is to be published; the publish finds out if another process was faster.

        ``RepeatedError`` says that it was published and nothing is left to do, ``InvalidInputError`` also that it was
        rolled back since. An entry of it that is in doubt is resolved first, but not by a dry run.
        """
        try:
            return self.find(write_id)
        except InvalidInputError:
            history = self._opened.log.read_history()
            if write_id in history.records.ids_in_doubt and not dry_run:
                history, _ = Recovery(self._opened).resolved_history(self._opened.table)
            publication = history.records.publication(write_id)
            if publication is None:
                raise
            self._require_kept(write_id, history)
            raise repetition_error(publication, self._opened.table) from None

    def find_all(self) -> tuple[tuple[FoundStaged, ...], dict[str, str]]:
        """Return all staged writes in the order of their ``write_id``, and the reasons why others cannot be read.

        Those that were published meanwhile are left out; one whose publish is in doubt is not.
        """
        opened = self._opened
        check_keys_by_write: dict[str | None, list[str]] = {}
        for key in check_keys(opened.store, opened.layout):
            check_keys_by_write.setdefault(write_id_of_check(opened.layout, key), []).append(key)
        unreadable: dict[str, str] = {}
        staged_writes: list[FoundStaged] = []
        for write_id, registration in sorted(read_registrations(opened.store, opened.layout).items()):
            try:
                staged_writes += (
                    [self._read_staged(registration, check_keys_by_write.get(write_id, ()))]
                    if registration.is_staged
                    else []
                )
            except InvalidInputError as error:
                unreadable[write_id] = error.message
        if staged_writes:
            state = opened.log.lister.read(
                listed_after=min(staged.record.plan.base_version for staged in staged_writes)
            )
            entries = [record.entry for record in opened.log.read_history(state).records.published]
            possibly_published_ids = {write_id for entry in entries for write_id in written_ids(opened.layout, entry)}
            staged_writes = [
                staged for staged in staged_writes if staged.record.plan.write_id not in possibly_published_ids
            ]
        return tuple(staged_writes), unreadable

    def with_checks(self, write_id: str, results: Iterable[CheckResult]) -> FoundStaged:
        """Store the results of checks with a staged write, and return the write with them."""
        self._staged_registration(write_id)
        put_check_results(self._opened.store, self._opened.layout, write_id, results)
        return self.find(write_id)

    def require_discarded(self, write_id: str) -> None:
        """Raise ``ConflictError`` if a write that is not staged any more was published, or may be."""
        if write_id in self._opened.log.read_history().records.possibly_published_ids:
            raise ConflictError(
                f"write {write_id} of {self._opened.table.name} was published by another process, and not discarded."
                f" `table-writer history {self._opened.table.name}` shows its version; a rollback takes it back.",
                table=str(self._opened.table.name),
                write_id=write_id,
            )

    def examine(self, record: StagedRecord, *, with_spark: bool = False) -> None:
        """Raise what a publish would raise now, as far as that is known without a change."""
        try:
            self._publisher(None).examine(record.files)
        except RepeatedError:
            self._require_kept(record.plan.write_id, self._opened.log.read_history())
            raise
        self._require_publishable(record, with_spark=with_spark)
        listed_files = require_as_staged(self._opened.store, record.files)
        foreign_keys = listed_files.keys() - {key for partition in record.files.partitions for key in partition.keys}
        if foreign_keys:
            raise StorageError(
                f"{counted(len(foreign_keys), 'file')} of another origin among its files, such as {min(foreign_keys)}:"
                " it would not be published",
                table=str(record.plan.table.name),
                write_id=record.plan.write_id,
            )

    def publish(self, write_id: str, announcement: Announcement, by_spark: BySpark | None = None) -> WriteResult:
        """Do step 5 for a staged write: every publish of a staged write ends here.

        ``announcement`` is what listeners are told of it. Without ``by_spark`` this process does what it can. Raises
        ``CheckFailedError`` if the newest result of a check says that the rows are wrong, and what
        :meth:`find_unpublished` and every publish raise. Unless the outcome is unknown, the write stays staged.
        """
        watch = announcement.watch
        try:
            with watch.step("publish"):
                record = self.find_unpublished(write_id).record
                announcement.concerns(self._opened, **facts_of_staged(record))
                files, published = self._publish(record, by_spark)
        except RepeatedError as error:
            return announcement.finished(repeated_result(error.entry, watch, self._opened, write_id=write_id))
        result = end_publish(self._opened, files, published, watch, by_spark.refresh if by_spark else None)
        return announcement.finished(result, columns=files.plan.columns)

    def _publish(self, record: StagedRecord, by_spark: BySpark | None) -> tuple[WrittenFiles, PublishResult]:
        publisher = self._publisher(by_spark)
        try:
            publisher.require_unpublished(record.plan)
            self._require_publishable(record, with_spark=by_spark is not None)
            files = by_spark.prepare(record) if by_spark else record.files
            with Claiming(self._opened, record.plan) as claiming:
                published = publisher.publish(files, claiming, is_shared=True)
        except RepeatedError as error:
            if record.plan.write_id in written_ids(self._opened.layout, error.entry):
                self._remove_record(record.plan.write_id)
                self._require_kept(record.plan.write_id, self._opened.log.read_history())
            else:
                self.discard(record.plan.write_id)
            raise
        self._remove_record(record.plan.write_id)
        return files, published

    def _publisher(self, by_spark: BySpark | None) -> Publisher:
        return Publisher(self._opened, by_spark.copy_files if by_spark else Completer.of(self._opened).copy)

    def discard(
        self, write_id: str, announcement: Announcement | None = None, *, dry_run: bool = False
    ) -> VacuumResult:
        """Delete all of a staged write; a claim keeps others from publishing it meanwhile.

        ``announcement`` is what listeners are told of it. ``ConflictError`` says that it is published, or about to be.
        """
        registration = self._staged_registration(write_id)
        if announcement is not None:
            with suppress(InvalidInputError):  # a record that cannot be read can be discarded
                announcement.concerns(self._opened, **facts_of_staged(registration.record(self._opened.layout)))
        logger.info("write_id=%s is discarded%s", write_id, ", as a dry run" if dry_run else "")
        vacuumed = Vacuum(self._opened, mirrors).give_up(
            write_id, base_version=registration.base_version, dry_run=dry_run
        )
        if vacuumed.kept and not dry_run:
            self._remove_record(write_id)
        return vacuumed

    def _require_kept(self, write_id: str, history: History) -> None:
        """Refuse to call a write published if a rollback has taken all of it back."""
        publication = history.records.publication(write_id)
        if publication is not None and publication.entry.partitions and not is_kept(publication, history.records):
            raise self._refusal(
                write_id,
                f"was published as version {publication.entry.version}, and was rolled back since: nothing was"
                " published now. Where its rows are wanted, write them again",
            )

    def _require_publishable(self, record: StagedRecord, *, with_spark: bool) -> None:
        _require_passed(record.files)
        plan = record.plan
        if record.added_schema and not with_spark:
            raise self._refusal(
                plan.write_id,
                "adds columns to the table, which takes Spark; publish it from Python:"
                " TableWriter(spark).staged_write(table, write_id).publish()",
            )

    def _remove_record(self, write_id: str) -> None:
        """Delete the record and then the results of checks, for which nobody asks without the record."""
        store, layout = self._opened.store, self._opened.layout
        remove_registration(store, [layout.staged_key(write_id)], write_id)
        try:
            checks = check_keys(store, layout, write_id)
        except StorageError as failure:  # readers may have switched already; a vacuum deletes them
            logger.warning("write_id=%s results of its checks were not removed: %s", write_id, failure)
        else:
            remove_registration(store, checks, write_id)

    def _staged_registration(self, write_id: str) -> FoundRegistration:
        """Return the registration of a staged write; ``InvalidInputError`` says what became of any other write."""
        if not WRITE_ID.fullmatch(write_id):
            raise self._refusal(write_id, "is not staged: no write has such a name")
        registration = read_registration(self._opened.store, self._opened.layout, write_id)
        if registration is not None and registration.is_staged:
            return registration
        if registration is not None:
            raise self._refusal(write_id, "is still being written, and not staged yet")
        history = self._opened.log.read_history()
        newest_record = next(
            (record for record in reversed(history.records) if record.entry.write_id == write_id), None
        )
        found = history.records.publication(write_id) or newest_record
        if found is not None:
            outcome = found.outcome.value if found.outcome else "in doubt"
            raise self._refusal(
                write_id, f"is no staged write any more: it is version {found.entry.version} of the log, {outcome}"
            )
        raise self._refusal(write_id, "is not staged: it was discarded, has expired, or never was there")

    def _read_staged(self, registration: FoundRegistration, checks: Collection[str]) -> FoundStaged:
        record = registration.record(self._opened.layout)
        results = read_check_results(self._opened.store, checks)
        assert registration.put_at is not None  # noqa: S101 - it was read from a store
        return FoundStaged(
            replace(record, files=record.files.with_checks(results)), registration.put_at, registration.age_seconds
        )

    def _refusal(self, write_id: str, reason: str) -> InvalidInputError:
        name = self._opened.table.name
        return InvalidInputError(
            f"write {write_id!r} of {name} {reason}. `table-writer staged {name}` lists those that are staged.",
            table=str(name),
            write_id=write_id,
        )


def _require_passed(files: WrittenFiles) -> None:
    failed_results = [result for result in files.checks if result.stops]
    if failed_results:
        messages = "".join(f"\n  {result.name}: {result.message}" for result in failed_results)
        raise CheckFailedError(
            f"{len(failed_results)} of {counted(len(files.checks), 'check')} of staged write {files.plan.write_id} have"
            f" failed; nothing was published to {files.plan.table.name}:{messages}\nDiscard it and stage correct rows;"
            ' or, where you know better, run the check again with severity="warn".',
            results=CheckResults(files.checks),
            table=str(files.plan.table.name),
            write_id=files.plan.write_id,
        )
