"""Staged writes of one table: found, published, discarded; by any process, without Spark."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from table_writer.complete import Completer
from table_writer.display.write_result import CheckResults, WriteResult
from table_writer.errors import CheckFailedError, ConflictError, InvalidInputError, StorageError, counted
from table_writer.log.history import History
from table_writer.log.open_table import OpenTable, RepeatedError, repetition_error
from table_writer.log.registration import (
    FoundRegistration,
    check_keys,
    put_check_results,
    read_check_results,
    read_registration,
    read_registrations,
    remove_registration,
    write_id_of_check,
)
from table_writer.log.rules import is_kept
from table_writer.model.check_result import CheckResult
from table_writer.model.entry import WRITE_ID
from table_writer.model.staged_write import FoundStaged, StagedRecord
from table_writer.model.write import WrittenFiles, written_ids
from table_writer.publish.append import CopyFiles, require_as_staged
from table_writer.publish.publisher import Publisher, PublishResult
from table_writer.publish.recovery import Recovery
from table_writer.vacuum.sweep import Vacuum, VacuumResult
from table_writer.write.announcing import Announcement, facts_of_plan
from table_writer.write.results import Refresh, finished, repeated_result
from table_writer.write.running_write import Claiming

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class BySpark:
    """What a session does about the publish of a staged write, which other processes do without."""

    prepare: Callable[[StagedRecord], WrittenFiles]  # before anything is claimed: predicates, columns that are added
    copy_files: CopyFiles  # what an append brings along
    refresh: Refresh


class StagedWrites:
    """Finds, publishes and discards the staged writes of one table."""

    def __init__(self, opened: OpenTable) -> None:
        self._opened = opened

    def find(self, write_id: str) -> FoundStaged:
        """Return one; ``InvalidInputError`` says why it is not staged any more, or not yet, or cannot be read."""
        registered = self._registered(write_id)
        return self._found(registered, check_keys(self._opened.store, self._opened.layout, write_id))

    def find_unpublished(self, write_id: str, *, dry_run: bool = False) -> FoundStaged:
        """Return one that is to be published; it may have been published a moment ago, which publishing finds out.

        ``RepeatedError`` says that it was published and nothing is left to do, ``InvalidInputError`` also that it was
        rolled back since. An entry of it that is in doubt is resolved first, but not by a dry run.
        """
        try:
            return self.find(write_id)
        except InvalidInputError:
            history = self._opened.log.read_history()
            if write_id in history.ids_in_doubt and not dry_run:
                history, _ = Recovery(self._opened).resolved_history(self._opened.table)
            published = history.publication(write_id)
            if published is None:
                raise
            self._require_kept(write_id, history)
            raise repetition_error(published, self._opened.table) from None

    def find_all(self) -> tuple[tuple[FoundStaged, ...], dict[str, str]]:
        """Return all in the order of their ``write_id``, and why the others cannot be read.

        Those that were published meanwhile are left out; one whose publish is in doubt is not.
        """
        opened = self._opened
        checked: dict[str | None, list[str]] = {}
        for key in check_keys(opened.store, opened.layout):
            checked.setdefault(write_id_of_check(opened.layout, key), []).append(key)
        unreadable: dict[str, str] = {}
        found: list[FoundStaged] = []
        for write_id, registered in sorted(read_registrations(opened.store, opened.layout).items()):
            try:
                found += [self._found(registered, checked.get(write_id, ()))] if registered.is_staged else []
            except InvalidInputError as error:
                unreadable[write_id] = error.message
        if found:
            state = opened.log.read_state(listed_after=min(one.record.plan.base_version for one in found))
            entries = [record.entry for record in opened.log.read_history(state).published_records]
            published = {one for entry in entries for one in written_ids(opened.layout, entry)}
            found = [one for one in found if one.record.plan.write_id not in published]
        return tuple(found), unreadable

    def with_checks(self, write_id: str, results: Iterable[CheckResult]) -> FoundStaged:
        """Store the results of checks with a staged write, and return it as it is then."""
        self._registered(write_id)
        put_check_results(self._opened.store, self._opened.layout, write_id, results)
        return self.find(write_id)

    def require_discarded(self, write_id: str) -> None:
        """Raise ``ConflictError`` if a write that is not staged any more was published, or may be."""
        if write_id in self._opened.log.read_history().published_ids:
            raise ConflictError(
                f"write {write_id} of {self._opened.table.name} was published by another process, and not discarded."
                f" `table-writer history {self._opened.table.name}` shows its version; a rollback takes it back.",
                table=str(self._opened.table.name),
                write_id=write_id,
            )

    def examine(self, record: StagedRecord, *, with_spark: bool = False) -> None:
        """Raise what a publish would raise now, as far as can be told without changing anything."""
        try:
            self._publisher(None).examine(record.files)
        except RepeatedError:
            self._require_kept(record.plan.write_id, self._opened.log.read_history())
            raise
        self._require_publishable(record, with_spark=with_spark)
        found = require_as_staged(self._opened.store, record.files)
        beside = found.keys() - {key for one in record.files.partitions for key in one.keys}
        if beside:
            raise StorageError(
                f"{counted(len(beside), 'file')} of another origin among its files, such as {min(beside)}: it would not"
                " be published",
                table=str(record.plan.table.name),
                write_id=record.plan.write_id,
            )

    def publish(self, write_id: str, told: Announcement, by_spark: BySpark | None = None) -> WriteResult:
        """Do step 5 for staged files, exactly as they are: whoever publishes a staged write ends here.

        ``told`` is what listeners learn of it. Without ``by_spark`` this process does what it can. Raises
        ``CheckFailedError`` if the newest result of a check says that the rows are wrong, and what
        :meth:`find_unpublished` and every publish raise. Unless the outcome is unknown, the write stays staged.
        """
        watch = told.watch
        try:
            with watch.step("publish"):
                record = self.find_unpublished(write_id).record
                told.about(self._opened, **facts_of_plan(record.plan))
                files, published = self._publish(record, by_spark)
        except RepeatedError as repeated:
            return told.done(repeated_result(repeated.entry, watch, write_id=write_id))
        result = finished(self._opened, files, published, watch, by_spark.refresh if by_spark else None)
        return told.done(result, columns=files.plan.table.columns)

    def _publish(self, record: StagedRecord, by_spark: BySpark | None) -> tuple[WrittenFiles, PublishResult]:
        publisher = self._publisher(by_spark)
        try:
            publisher.require_unpublished(record.plan)
            self._require_publishable(record, with_spark=by_spark is not None)
            files = by_spark.prepare(record) if by_spark else record.files
            with Claiming(self._opened, record.plan) as claiming:
                published = publisher.publish(files, claiming, is_shared=True)
        except RepeatedError as repeated:
            if record.plan.write_id in written_ids(self._opened.layout, repeated.entry):
                self._remove_record(record.plan.write_id)
                self._require_kept(record.plan.write_id, self._opened.log.read_history())
            else:
                self.discard(record.plan.write_id)
            raise
        self._remove_record(record.plan.write_id)
        return files, published

    def _publisher(self, by_spark: BySpark | None) -> Publisher:
        return Publisher(self._opened, by_spark.copy_files if by_spark else Completer.of(self._opened).copy)

    def discard(self, write_id: str, told: Announcement | None = None, *, dry_run: bool = False) -> VacuumResult:
        """Delete all of a staged write; a claim keeps every publisher from publishing it meanwhile.

        ``told`` is what listeners learn of it. ``ConflictError`` says that it is published, or about to be.
        """
        registered = self._registered(write_id)
        if told is not None:
            with suppress(InvalidInputError):  # what cannot be read can be discarded
                told.about(self._opened, **facts_of_plan(registered.record(self._opened.layout).plan))
        logger.info("write_id=%s is discarded%s", write_id, ", as a dry run" if dry_run else "")
        done = Vacuum(self._opened).give_up(write_id, base_version=_base_version(registered), dry_run=dry_run)
        if done.kept and not dry_run:
            self._remove_record(write_id)
        return done

    def _require_kept(self, write_id: str, history: History) -> None:
        """Refuse to say of a write that it was published when a rollback has taken all of it back."""
        published = history.publication(write_id)
        if published is not None and published.entry.partitions and not is_kept(published, history.records):
            raise self._refusal(
                write_id,
                f"was published as version {published.entry.version}, and was rolled back since: nothing was published"
                " now. Where its rows are wanted, write them again",
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
        """Delete the record and the results of checks: the record first, since without it nobody asks for results."""
        store, layout = self._opened.store, self._opened.layout
        remove_registration(store, [layout.staged_key(write_id)], write_id)
        try:
            checks = check_keys(store, layout, write_id)
        except StorageError as failure:  # readers may have switched already; a vacuum deletes them
            logger.warning("write_id=%s results of its checks were not removed: %s", write_id, failure)
        else:
            remove_registration(store, checks, write_id)

    def _registered(self, write_id: str) -> FoundRegistration:
        """Return the record of a staged write; refuse all others, and say what became of them."""
        if not WRITE_ID.fullmatch(write_id):
            raise self._refusal(write_id, "is not staged: no write has such a name")
        registered = read_registration(self._opened.store, self._opened.layout, write_id)
        if registered is not None and registered.is_staged:
            return registered
        if registered is not None:
            raise self._refusal(write_id, "is still being written, and not staged yet")
        history = self._opened.log.read_history()
        newest = next((one for one in reversed(history.records) if one.entry.write_id == write_id), None)
        own = history.publication(write_id) or newest
        if own is not None:
            outcome = own.outcome.value if own.outcome else "in doubt"
            raise self._refusal(
                write_id, f"is no staged write any more: it is version {own.entry.version} of the log, {outcome}"
            )
        raise self._refusal(write_id, "is not staged: it was discarded, has expired, or never was there")

    def _found(self, registered: FoundRegistration, checks: Collection[str]) -> FoundStaged:
        record = registered.record(self._opened.layout)
        results = read_check_results(self._opened.store, checks)
        assert registered.put_at is not None  # noqa: S101 - it was read from a store
        return FoundStaged(
            replace(record, files=record.files.with_checks(results)), registered.put_at, registered.age_seconds
        )

    def _refusal(self, write_id: str, why: str) -> InvalidInputError:
        name = self._opened.table.name
        return InvalidInputError(
            f"write {write_id!r} of {name} {why}. `table-writer staged {name}` lists those that are staged.",
            table=str(name),
            write_id=write_id,
        )


def _base_version(registered: FoundRegistration) -> int:
    """Return at which version a write was planned; 0, before all of them, where that cannot be read."""
    base_version = registered.staged.get("base_version")
    return base_version if isinstance(base_version, int) and base_version > 0 else 0


def _require_passed(staged: WrittenFiles) -> None:
    failed = [result for result in staged.checks if result.stops]
    if failed:
        found = "".join(f"\n  {result.name}: {result.message}" for result in failed)
        raise CheckFailedError(
            f"{len(failed)} of {counted(len(staged.checks), 'check')} of staged write {staged.plan.write_id} have"
            f" failed; nothing was published to {staged.plan.table.name}:{found}\nDiscard it and stage correct rows;"
            ' or, where you know better, run the check again with severity="warn".',
            results=CheckResults(staged.checks),
            table=str(staged.plan.table.name),
            write_id=staged.plan.write_id,
        )
