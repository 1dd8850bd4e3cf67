"""Staged writes of one table: found, published, discarded; by any process, without Spark."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace

from table_writer.errors import CheckFailedError, InvalidInputError, StorageError, TableWriterError
from table_writer.log.registration import (
    Registered,
    put_staged,
    read_registration,
    read_registrations,
    remove_registration,
)
from table_writer.log.turn import Turn
from table_writer.model.check_result import CheckResult
from table_writer.model.entry import WRITE_ID, Outcome
from table_writer.model.staged_write import FoundStaged, StagedRecord
from table_writer.model.write import StagedFiles, WriteMode, WritePlan
from table_writer.open_write import Claiming
from table_writer.publish.as_staged import require_as_staged
from table_writer.publish.carry_over import CopyFiles
from table_writer.publish.publisher import Published, RepeatedError
from table_writer.services import TableServices
from table_writer.vacuum.sweep import Vacuumed

__all__ = ["StagedWrites"]

logger = logging.getLogger(__name__)


class StagedWrites:
    """Staged writes of one table.

    Parameters
    ----------
    services
        The table's.
    """

    def __init__(self, services: TableServices) -> None:
        self._services = services

    def find(self, write_id: str) -> FoundStaged:
        """Return one.

        Raises
        ------
        InvalidInputError
            There is none of this name any more, or not yet.
        """
        if not WRITE_ID.fullmatch(write_id):
            raise self._refusal(write_id, "is not staged: no write has such a name")
        registered = read_registration(self._services.store, self._services.layout, write_id)
        if registered is not None and registered.is_staged:
            return self._found(registered)
        if registered is not None:
            raise self._refusal(write_id, "is still being written, and not staged yet")
        records = self._services.log.read_history().records
        published = next((one.entry.version for one in records if one.entry.write_id == write_id), None)
        if published is not None:
            raise self._refusal(write_id, f"is no staged write any more: it is version {published} of the log")
        raise self._refusal(write_id, "is not staged: it was discarded, has expired, or never was there")

    def is_there(self, write_id: str) -> bool:
        """Whether something of this name waits to be published or discarded."""
        registered = read_registration(self._services.store, self._services.layout, write_id)
        return registered is not None and registered.is_staged

    def find_all(self) -> tuple[FoundStaged, ...]:
        """Return all, in the order of their ``write_id``; those that were published meanwhile are left out."""
        registered = read_registrations(self._services.store, self._services.layout)
        found = [self._found(one) for _, one in sorted(registered.items()) if one.is_staged]
        if not found:
            return ()
        state = self._services.log.read_state(listed_after=min(one.record.plan.base_version for one in found))
        records = self._services.log.read_history(state).records
        published = {one.entry.write_id for one in records if one.outcome is Outcome.PUBLISHED}
        return tuple(one for one in found if one.record.plan.write_id not in published)

    def with_checks(self, write_id: str, results: Iterable[CheckResult]) -> FoundStaged:
        """Store the results of checks with a staged write, and return it as it is then; it expires later, too."""
        record = self.find(write_id).record
        put_staged(self._services.store, replace(record, files=record.files.with_checks(results)))
        return self.find(write_id)

    def examine(self, record: StagedRecord) -> None:
        """Raise what a publish would raise now, as far as can be told without changing anything."""
        _require_passed(record.files)
        require_as_staged(self._services.store, record.files)
        self._services.publisher().examine(record.files)

    def publish(
        self,
        record: StagedRecord,
        *,
        copy_files: CopyFiles | None = None,
        prepare: Callable[[StagedFiles], StagedFiles] | None = None,
    ) -> Published:
        """Do step 5 for staged files, exactly as they are.

        Parameters
        ----------
        record
            Freshly found.
        copy_files
            Copies what an append brings along; by default this process does.
        prepare
            Called before anything is claimed: what only Spark can do.

        Raises
        ------
        CheckFailedError
            The newest result of a check says that the rows are wrong.
        RepeatedError
            Another process has published it, or its idempotency key.
        StorageError, MetastoreError, ConflictError, OutcomeUnknownError
            As of every publish. Unless the outcome is unknown, the write stays staged.
        """
        _require_passed(record.files)
        if prepare is None and record.added_schema:
            raise self._refusal(
                record.plan.write_id,
                "adds columns to the table, which takes Spark; publish it from Python:"
                " TableWriter(spark).staged_write(table, write_id).publish()",
            )
        try:
            published = self._publish(prepare(record.files) if prepare else record.files, copy_files)
        except RepeatedError as repeated:
            if repeated.entry.write_id == record.plan.write_id:
                remove_registration(self._services.store, self._services.layout, record.plan.write_id)
            else:
                self.discard(record.plan.write_id)
            raise
        remove_registration(self._services.store, self._services.layout, record.plan.write_id)
        return published

    def discard(self, write_id: str, *, dry_run: bool = False) -> Vacuumed:
        """Delete all of a staged write; a claim keeps every publisher from publishing it meanwhile.

        Raises
        ------
        ConflictError
            It is published, or about to be.
        """
        if not dry_run:
            logger.info("write_id=%s is discarded", write_id)
        done = self._services.vacuum().give_up(self._services.table, write_id, dry_run=dry_run)
        if done.kept and not dry_run:
            remove_registration(self._services.store, self._services.layout, write_id)
        return done

    def _publish(self, staged: StagedFiles, copy_files: CopyFiles | None) -> Published:
        services, claiming = self._services, Claiming()
        with ExitStack() as on_exit:
            if staged.plan.mode is WriteMode.APPEND:
                on_exit.enter_context(self._turn(staged))
                on_exit.push(lambda kind, *_: self._remove_copies(staged, claiming) if kind else None)
                self._delete_copies(staged)
            elif beside := require_as_staged(services.store, staged):
                raise StorageError(
                    f"{len(beside)} file(s) that are none of staged write {staged.plan.write_id} lie among its files,"
                    f" such as {min(beside)}: readers would see their rows, which were not checked. Nothing was"
                    " published. Remove them, or discard the write and stage it again.",
                    table=str(staged.plan.table.name),
                    write_id=staged.plan.write_id,
                )
            return services.publisher(copy_files).publish(staged, claiming)

    def _turn(self, staged: StagedFiles) -> Turn:
        services = self._services
        return Turn(services.store, staged.plan, services.identity, heartbeat_seconds=services.config.heartbeat_seconds)

    def _remove_copies(self, staged: StagedFiles, claiming: Claiming) -> None:
        """Leave only what was staged behind a publish that failed; the next one would do the same."""
        try:
            if not claiming.is_sent:
                self._delete_copies(staged)
        except TableWriterError as failure:
            logger.warning("write_id=%s copies were not removed: %s", staged.plan.write_id, failure)

    def _delete_copies(self, staged: StagedFiles) -> None:
        """Delete what a publisher that died, or failed, has copied for an append: unless an entry names it."""
        beside = require_as_staged(self._services.store, staged)
        if beside and not self._is_claimed(staged.plan):
            self._services.store.delete(beside)

    def _is_claimed(self, plan: WritePlan) -> bool:
        """Whether readers look at these files, or may do so once an entry is settled."""
        records = self._services.log.read_history(self._services.log.read_state(listed_after=plan.base_version)).records
        return any(one.entry.write_id == plan.write_id and one.outcome is not Outcome.ABANDONED for one in records)

    def _found(self, registered: Registered) -> FoundStaged:
        record = registered.record(self._services.layout)
        assert registered.put_at is not None  # noqa: S101 - it was read from a store
        return FoundStaged(record, registered.put_at, registered.age_seconds)

    def _refusal(self, write_id: str, why: str) -> InvalidInputError:
        name = self._services.table.name
        return InvalidInputError(
            f"write {write_id!r} of {name} {why}. `table-writer staged {name}` lists those that are staged.",
            table=str(name),
            write_id=write_id,
        )


def _require_passed(staged: StagedFiles) -> None:
    failed = [result for result in staged.checks if result.stops]
    if failed:
        found = "".join(f"\n  {result.name}: {result.message}" for result in failed)
        raise CheckFailedError(
            f"{len(failed)} of {len(staged.checks)} checks of staged write {staged.plan.write_id} have failed; nothing was"
            f" published to {staged.plan.table.name}:{found}\nDiscard it and stage correct rows; or, where you know"
            ' better, run the check again with severity="warn".',
            results=staged.checks,
            table=str(staged.plan.table.name),
            write_id=staged.plan.write_id,
        )
