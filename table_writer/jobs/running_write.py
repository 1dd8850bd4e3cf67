"""A write from its registration to its claim; if it fails before the claim, it is undone."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Self

from table_writer.errors import ConflictError, OutcomeUnknownError, StorageError, TableWriterError
from table_writer.jobs.complete import Completer, Spread
from table_writer.model.entry import LogEntry
from table_writer.model.location import Location
from table_writer.model.message import OWN_WRITE_ID, CommitMessage
from table_writer.model.process import this_process
from table_writer.model.staged_write import StagedRecord
from table_writer.model.table import TableName
from table_writer.model.write import WritePlan, new_write_id, written_ids
from table_writer.protocol.log.registration import id_was_used_error, put_staged
from table_writer.protocol.table.open_table import OpenTable, RepeatedError

logger = logging.getLogger(__name__)


@contextmanager
def readers_unharmed(table: str) -> Iterator[None]:
    """Add to an error of the block, in which nothing can be published, that readers see no change."""
    try:
        yield
    except BaseException as error:  # Ctrl-C as well
        _say_unharmed(error, table)
        raise


def _say_unharmed(error: BaseException | None, table: str, write_id: str = "") -> None:
    """Log, and add as a note, that nothing of this write was published, if the error does not say so itself.

    That is said of this write alone: meanwhile other writes may have been published, or recovered on the way.
    """
    if error is None or isinstance(error, TableWriterError | RepeatedError):
        return
    message = f"nothing of this write was published to {table}: it has changed no row that readers see"
    logger.warning(
        "%s ended by %s: %s", f"write_id={write_id}" if write_id else "a plan", type(error).__name__, message
    )
    error.add_note(message)


class MadeTable:
    """The table that a call makes before it writes (``if_missing``).

    If the call fails, the table stays, and the error says so. No metastore drops a table on the condition that nobody
    has written to it, and a request to drop it may be applied long after its answer was lost: to another writer's rows.
    """

    def __init__(self) -> None:
        self._name: TableName | None = None
        self._is_made = False

    @contextmanager
    def making(self, name: TableName) -> Iterator[None]:
        """Make the table within the block."""
        self._name = name
        yield
        self._is_made = True

    @property
    def notes(self) -> tuple[str, ...]:
        """Return a note that the table stays, for a call that wrote nothing; empty if the call made no table."""
        if self._name is None:
            return ()
        state = "was made by this call (if_missing), and" if self._is_made else "may have been made by this call; it"
        advice = f"call again, or DROP TABLE {self._name.sql}"
        return (f"table {self._name} {state} stays, without a row of this write: {advice}",)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, RepeatedError | OutcomeUnknownError):  # rows of this write may be in it
            return
        is_ours = isinstance(error, TableWriterError)
        for note in self.notes if self._is_made or not is_ours else ():  # else it says itself what was made
            if isinstance(error, TableWriterError):
                error.add(f"{note[0].upper()}{note[1:]}.")
            elif error is not None:
                error.add_note(note)


class Claiming:
    """The sending of a claim. Once it is sent, a log entry may name the files, and nobody may delete them.

    At the end of the block the fresh directories that no claim has named are discarded.
    """

    def __init__(self, opened: OpenTable, plan: WritePlan) -> None:
        self._claimed_ids: frozenset[str] = frozenset()  # the writes whose files the sent claim names
        self._process = this_process()
        self._opened = opened
        self._plan = plan
        self._exit = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self.is_ours:  # a forked child that leaves the block leaves all to its parent
            self._exit.__exit__(*raised)  # type: ignore[arg-type]  # passed on unchanged

    @property
    def is_ours(self) -> bool:
        """Return whether this process began the write, and is not a fork of it."""
        return self._process is this_process()

    @property
    def is_sent(self) -> bool:
        """Return whether a claim was sent and is not known to be lost."""
        return bool(self._claimed_ids)

    @contextmanager
    def __call__(self, entry: LogEntry) -> Iterator[Callable[[], None]]:
        """Send the claim of an entry within the block; call the value if the claim is known to be lost."""
        if not self.is_ours:
            raise ConflictError("another process began this write, and publishes it; this one, a fork of it, must not")
        self._claimed_ids = written_ids(self._plan.layout, entry)
        yield self._forget_claim

    def fresh_directory(self) -> Location:
        """Return a fresh directory, registered as that of a running write."""
        round_of_it = replace(self._plan, write_id=new_write_id(), named_by_caller=False)
        self._exit.enter_context(self._opened.registration(round_of_it))
        self._exit.callback(self._discard, round_of_it)
        logger.info("write_id=%s copies to %s", self._plan.write_id, round_of_it.data_location)
        return round_of_it.data_location

    def _discard(self, round_of_it: WritePlan) -> None:
        if round_of_it.write_id not in self._claimed_ids:
            Completer.of(self._opened).discard(round_of_it.data_location.key)

    def _forget_claim(self) -> None:
        self._claimed_ids = frozenset()


class RunningWrite:
    """A registered write. An error before its claim is sent discards its files; afterwards the log owns them."""

    def __init__(self, opened: OpenTable, plan: WritePlan) -> None:
        self._completer: Completer = Completer.of(opened)
        self._opened = opened
        self._plan = plan
        self._exit = ExitStack()
        self._is_handed_over = False
        self._registration = opened.registration(plan)
        self.claiming = Claiming(opened, plan)

    def __enter__(self) -> Self:
        with ExitStack() as registered:
            if self._plan.named_by_caller:
                self._take_name()
            registered.enter_context(self._registration)
            if self._plan.named_by_caller:  # now nobody else can begin a write of this name
                self._require_unused()
            self._exit.push(registered.pop_all())
        self._exit.push(self._discard)
        self._exit.enter_context(self.claiming)
        return self

    def __exit__(self, *raised: object) -> None:
        if self.claiming.is_ours:  # a forked child that leaves the block leaves all to its parent
            self._exit.__exit__(*raised)  # type: ignore[arg-type]  # passed on unchanged

    def complete(self, messages: Collection[CommitMessage], spread: Spread | None = None) -> None:
        """Do step 3: complete every file that a message names, and abort every other upload of this write.

        ``spread`` completes very many files; without it all are completed here.
        """
        prefix = self._plan.data_location.key
        self._completer.complete(self._plan.write_id, prefix, messages, spread)
        self._completer.abort_leftovers(prefix, messages)

    def _take_name(self) -> None:
        """Take the name that the caller gave, for ever: a request of an earlier write of this name may come late."""
        body = json.dumps({**self._opened.identity, "token": secrets.token_hex(8)}).encode()
        if not self._opened.store.put_if_absent(self._plan.layout.name_key(self._plan.write_id), body):
            raise id_was_used_error(self._plan.write_id, str(self._plan.table.name))

    def _require_unused(self) -> None:
        """Refuse a ``write_id`` of which there is any trace: files that are there belong to another write.

        A name that a caller gave has been taken in ``names/`` for ever. Only one that this library makes itself may be
        in the log without that, and only for such a name all of the log is read.
        """
        store, data, log = self._opened.store, self._plan.data_location.key, self._opened.log
        is_used = any(store.list_page(data)[0]) or any(store.list_uploads(data))
        if not is_used:
            history = log.read_history() if OWN_WRITE_ID.fullmatch(self._plan.write_id) else log.read_recent()
            is_named = any(self._is_named(record.entry) for record in history.records)
            is_used = is_named or self._plan.write_id in history.claimed_ids
        if is_used:
            raise id_was_used_error(self._plan.write_id, str(self._plan.table.name))

    def _is_named(self, entry: LogEntry) -> bool:
        """Return whether an entry is of a write with this name, or deletes its files."""
        deleted_locations = (Location.parse(deletion.location) for deletion in entry.deletes)
        data = self._plan.data_location
        return entry.write_id == self._plan.write_id or any(location.same_place(data) for location in deleted_locations)

    def stage(self, record: StagedRecord) -> None:
        """Stage the write: it belongs to no process any more, and any process may publish or discard it.

        After a ``StorageError`` it may be staged or not: nothing is deleted.
        """
        self._is_handed_over = True  # if the answer is lost, others may publish it
        try:
            put_staged(self._opened.store, record)
        except StorageError as error:
            name, write_id = self._plan.table.name, self._plan.write_id
            raise StorageError(
                f"whether write {write_id} of {name} is staged is not known: {error.message} Nothing was deleted;"
                f" `table-writer staged {name}` shows whether it is there. If not, a vacuum deletes its files.",
                table=str(name),
                write_id=write_id,
            ) from error

    def discard(self) -> None:
        """Delete the files of a write whose claim was never sent."""
        self._completer.discard(self._plan.data_location.key)

    def _discard(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if kind is not None and not (self.claiming.is_sent or self._is_handed_over):
            _say_unharmed(error, str(self._plan.table.name), self._plan.write_id)
            logger.info("write_id=%s failed before its claim; discarding its files", self._plan.write_id)
            self._completer.discard(self._plan.data_location.key)
