"""Staged writes of one table: found, published, discarded; by any process, without Spark."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from table_writer.errors import CheckFailedError, InvalidInputError, StorageError, TableWriterError
from table_writer.log.history import written_ids
from table_writer.log.registration import (
    Registered,
    put_staged,
    read_registration,
    read_registrations,
    remove_registration,
)
from table_writer.log.turn import Turn, read_turns
from table_writer.model.check_result import CheckResult
from table_writer.model.entry import WRITE_ID
from table_writer.model.staged_write import FoundStaged, StagedRecord
from table_writer.model.write import StagedFiles, WriteMode
from table_writer.open_write import Claiming
from table_writer.publish.as_staged import require_as_staged
from table_writer.publish.carry_over import CopyFiles, Hold
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
        published = self._services.log.read_history(state).published_ids
        return tuple(one for one in found if one.record.plan.write_id not in published)

    def with_checks(self, write_id: str, results: Iterable[CheckResult]) -> FoundStaged:
        """Store the results of checks with a staged write, and return it as it is then; it expires later, too."""
        record = self.find(write_id).record
        put_staged(self._services.store, replace(record, files=record.files.with_checks(results)))
        return self.find(write_id)

    def examine(self, record: StagedRecord) -> None:
        """Raise what a publish would raise now, as far as can be told without changing anything."""
        _require_passed(record.files)
        self._services.publisher().examine(record.files)
        require_as_staged(self._services.store, record.files)

    def publish(
        self,
        record: StagedRecord,
        *,
        copies: Callable[[Hold], CopyFiles] | None = None,
        prepare: Callable[[StagedFiles], StagedFiles] | None = None,
    ) -> Published:
        """Do step 5 for staged files, exactly as they are.

        Parameters
        ----------
        record
            Freshly found.
        copies
            Makes what copies the files that an append brings along, given what is to be asked before each; by default
            this process copies them.
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
            published = self._publish(prepare(record.files) if prepare else record.files, copies or self._copied_here)
        except RepeatedError as repeated:
            if record.plan.write_id in written_ids(self._services.layout, repeated.entry):
                self._remove_signs(record.plan.write_id)
            else:
                self.discard(record.plan.write_id)
            raise
        self._remove_signs(record.plan.write_id)
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
            self._remove_signs(write_id)
        return done

    def _copied_here(self, hold: Hold) -> CopyFiles:
        return partial(self._services.completer().copy, before_each=hold)

    def _publish(self, staged: StagedFiles, copies: Callable[[Hold], CopyFiles]) -> Published:
        services, claiming = self._services, Claiming()
        if staged.plan.mode is not WriteMode.APPEND:
            return services.publisher().publish(staged, claiming, hold=_nobody_else)
        turn = Turn(services.store, staged.plan, services.identity, heartbeat_seconds=services.config.heartbeat_seconds)
        with ExitStack() as on_exit:
            on_exit.enter_context(turn)
            on_exit.push(lambda kind, *_: self._undo_copies(staged, claiming, turn) if kind else None)
            self._delete_copies(staged, turn)
            return services.publisher(copies(turn.require)).publish(staged, claiming, hold=turn.require)

    def _undo_copies(self, staged: StagedFiles, claiming: Claiming, turn: Turn) -> None:
        """Leave only what was staged behind a publish that failed; the next one would do the same."""
        try:
            if not claiming.is_sent:
                self._delete_copies(staged, turn)
        except TableWriterError as failure:
            logger.warning("write_id=%s copies were not removed: %s", staged.plan.write_id, failure)

    def _delete_copies(self, staged: StagedFiles, turn: Turn) -> None:
        """Delete what a publisher that died, or failed, has copied for an append: unless an entry names it."""
        log, plan = self._services.log, staged.plan
        history = log.read_history(log.read_state(listed_after=plan.base_version))
        if plan.write_id not in history.published_ids:
            beside = require_as_staged(self._services.store, staged)
            turn.require()
            self._services.store.delete(list(beside))

    def _remove_signs(self, write_id: str) -> None:
        """Say that nothing is left to do: the registration first, without which nobody asks for a turn."""
        store, layout = self._services.store, self._services.layout
        remove_registration(store, layout, write_id)
        try:
            store.delete(read_turns(store, layout, write_id))
        except StorageError as failure:
            logger.warning("write_id=%s its turns were not removed: %s", write_id, failure)

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


def _nobody_else() -> None:
    """Publishing touches no file of the write: the order of claims decides between two that do it at once."""


def _require_passed(staged: StagedFiles) -> None:
    failed = [result for result in staged.checks if result.stops]
    if failed:
        found = "".join(f"\n  {result.name}: {result.message}" for result in failed)
        raise CheckFailedError(
            f"{len(failed)} of {len(staged.checks)} checks of staged write {staged.plan.write_id} have failed; nothing"
            f" was published to {staged.plan.table.name}:{found}\nDiscard it and stage correct rows; or, where you know"
            ' better, run the check again with severity="warn".',
            results=staged.checks,
            table=str(staged.plan.table.name),
            write_id=staged.plan.write_id,
        )
