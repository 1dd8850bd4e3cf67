"""The loop: read, look, claim and carry out, for every operation in the same order. Nobody else claims an entry."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, Literal, TypeVar

from table_writer.errors import InvalidInputError, OutcomeUnknownError, StorageError, TableWriterError
from table_writer.model.entry import LogEntry
from table_writer.protocol.log.deadline import Deadline
from table_writer.protocol.table.open_table import OpenTable

View = TypeVar("View")
Basis = TypeVar("Basis")
Facts = TypeVar("Facts")


class Round(enum.Enum):
    """What comes after a round that has led to nothing."""

    AGAIN = "the log may have grown, or a slot was lost: read it, and look again"


AGAIN: Final = Round.AGAIN
Again = Literal[Round.AGAIN]


@dataclass(frozen=True, slots=True)
class Answer(Generic[Facts]):
    """The end of an operation: what the caller is told, though nothing was to be claimed, or once all is done."""

    facts: Facts


@dataclass(frozen=True, slots=True)
class Prepare:
    """Something must be done before anything can be claimed, such as copies; it takes time, and a new round begins."""

    step: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Draft(Generic[Basis]):
    """An entry that is to be claimed, and what its look has found: by that it is carried out."""

    entry: LogEntry
    basis: Basis
    is_claimed: bool = False  # by a process that has died since: the entry goes on


class Claimant(ABC, Generic[View, Basis, Facts]):
    """An operation of this process, until its entry has ended: its services, and what it remembers over rounds."""

    opened: OpenTable

    @abstractmethod
    def read(self) -> View:
        """Read the log, as far back as is needed."""

    def waits(self, view: View) -> bool:  # noqa: ARG002  # others wait for nothing
        """Settle what must be settled before the claim; returns whether there was anything: then a new round begins."""
        return False

    @abstractmethod
    def look(self, view: View) -> Answer[Facts] | Draft[Basis] | Prepare | Again:
        """Look at the table, and say what is to be claimed, or to be done before."""

    def before_claim(self, draft: Draft[Basis]) -> Draft[Basis] | Answer[Facts]:
        """Put what must be there before the claim, such as copies and marks; returns the draft with what that shows."""
        return draft

    def deadline(self, draft: Draft[Basis]) -> Deadline:
        """Return until when the claimant may send anything: its time begins before the claim is sent."""
        return self.opened.deadline(draft.entry)

    def owning(self, draft: Draft[Basis]) -> AbstractContextManager[Callable[[], object]]:
        """Enter around the claim and what comes of it; the value is called if the slot was certainly lost."""
        return nullcontext(partial(self.lost, draft))

    def lost(self, draft: Draft[Basis]) -> None:
        """Take back what stood before a claim that somebody else was faster at; then a new round begins."""

    @abstractmethod
    def carry_out(self, draft: Draft[Basis], deadline: Deadline) -> Answer[Facts] | Again:
        """Do what the claimed entry says, and record how it ended; or give it up, and look again."""


class PreviewableClaimant(Claimant[View, Basis, Facts]):
    """One that can say beforehand what it would do; its looks ask for nothing to be done."""

    @abstractmethod
    def look(self, view: View) -> Answer[Facts] | Draft[Basis] | Again:
        """Look at the table, and say what is to be claimed."""

    @abstractmethod
    def planned(self, draft: Draft[Basis]) -> Facts:
        """Return what the caller of a dry run is told."""


def run(claimant: Claimant[View, Basis, Facts]) -> Facts:
    """Run rounds until there is an answer."""
    end: Answer[Facts] | Again = AGAIN
    while isinstance(end, Round):
        end = attempt(claimant)
    return end.facts


def preview(claimant: PreviewableClaimant[View, Basis, Facts]) -> Facts:
    """Return what would be done; nothing is changed."""
    found: Answer[Facts] | Draft[Basis] | Again = AGAIN
    while isinstance(found, Round):
        found = claimant.look(claimant.read())
    return claimant.planned(found) if isinstance(found, Draft) else found.facts


def attempt(claimant: Claimant[View, Basis, Facts]) -> Answer[Facts] | Again:
    """Run one round of a claimant."""
    view = claimant.read()
    if claimant.waits(view):
        return AGAIN
    found = claimant.look(view)
    if isinstance(found, Prepare):
        found.step()
        return AGAIN
    if not isinstance(found, Draft):
        return found
    draft = claimant.before_claim(found)
    if isinstance(draft, Answer):
        return draft
    deadline = claimant.deadline(draft)
    with claimant.owning(draft) as lost:
        if draft.is_claimed or _claim(claimant.opened, draft.entry):
            return claimant.carry_out(draft, deadline)
        lost()
    return AGAIN


def _claim(opened: OpenTable, entry: LogEntry) -> bool:
    """Put the entry into its slot; ``False`` if somebody else was first.

    Raises ``OutcomeUnknownError`` if the store did not answer: the claim may stand, and others will carry it out then.
    """
    try:
        return opened.log.slots.claim(entry)
    except StorageError as error:
        if not entry.meaning.changes_partitions:
            raise
        raise outcome_unknown(entry, error) from error
    except KeyboardInterrupt as stopped:
        if not entry.meaning.changes_partitions:
            raise
        raise with_note(stopped, entry) from None


def outcome_unknown(entry: LogEntry, error: TableWriterError) -> OutcomeUnknownError:
    """Return the error for an unknown outcome, with what to do."""
    return OutcomeUnknownError(
        f"it is not known whether write {entry.write_id} of {entry.table} was published (version {entry.version}):"
        f" {error.message} Do not retry and do not delete anything; its files are kept. To resolve it, run"
        f" `table-writer recover {entry.table}` or TableWriter(spark).recover({entry.table!r}); the next write of these"
        f" partitions would do so too, once {entry.publish_timeout_seconds:g} s have passed.",
        **entry.named,
    )


def with_note(stopped: KeyboardInterrupt, entry: LogEntry) -> KeyboardInterrupt:
    """Add a note to the interruption: what may have become of the write."""
    stopped.add_note(outcome_unknown(entry, InvalidInputError("it was interrupted.")).message)
    return stopped
