"""What becomes of an entry once it is claimed: switch, settle, or give up; the same for all that publishes."""

from __future__ import annotations

import logging
from typing import Final

from table_writer.errors import InvalidInputError, MetastoreError, OutcomeUnknownError, StorageError, TableWriterError
from table_writer.log.deadline import Deadline
from table_writer.log.table_log import TableLog
from table_writer.model.entry import LogEntry, Outcome
from table_writer.model.table import Table
from table_writer.publish.switch import PartitionsNow, Switch, outcome_unknown

__all__ = ["ABANDON_SECONDS", "ClaimedEntries"]

logger = logging.getLogger(__name__)

ABANDON_SECONDS: Final = 5.0  # giving up is one put; with less time left, recovery settles the entry


class ClaimedEntries:
    """Carries claimed entries out.

    Parameters
    ----------
    log, switch
        Services of the table.
    """

    def __init__(self, log: TableLog, switch: Switch) -> None:
        self._log = log
        self._switch = switch

    def claim(self, entry: LogEntry) -> bool:
        """Put the entry into its slot; ``False`` if somebody else was first.

        Raises
        ------
        OutcomeUnknownError
            The store did not answer: the claim may stand, and others will carry it out then.
        """
        try:
            return self._log.claim(entry)
        except StorageError as error:
            raise outcome_unknown(entry, error) from error
        except KeyboardInterrupt as stopped:
            raise _noted(stopped, entry) from None

    def carry_out(self, table: Table, entry: LogEntry, now: PartitionsNow, deadline: Deadline) -> tuple[str, ...]:
        """Make readers see what the entry says, and record that.

        Returns
        -------
        tuple of str
            What a person should know of steps that failed after readers had switched.

        Raises
        ------
        OutcomeUnknownError
            The switch may or may not have taken effect; the entry stays in doubt.
        MetastoreError, InvalidInputError
            The metastore refused; nothing changed, and the entry is on record as abandoned.
        """
        notes = self.switch(table, entry, now, deadline)
        return notes or self._settle(entry)

    def switch(self, table: Table, entry: LogEntry, now: PartitionsNow, deadline: Deadline) -> tuple[str, ...]:
        """Do only the switch; the caller records the outcome, unless something is left to do."""
        try:
            return self._switch.apply(table, entry, now, deadline)
        except (MetastoreError, InvalidInputError, OutcomeUnknownError) as failure:
            if self._is_on_record(entry):  # others have seen it, or carried it out, and may have moved on since
                return ()
            if not isinstance(failure, OutcomeUnknownError):
                self.give_up(entry, deadline, failure)
            raise
        except KeyboardInterrupt as stopped:
            raise _noted(stopped, entry) from None

    def _is_on_record(self, entry: LogEntry) -> bool:
        """Whether others have published all of an entry in its claimant's place."""
        try:
            record = self._log.read(entry.version)
        except TableWriterError as error:  # also where the entry itself is lost or damaged
            logger.warning("write_id=%s its outcome cannot be read: %s", entry.write_id, error)
            return False
        return record.outcome is Outcome.PUBLISHED and not record.superseded

    def _settle(self, entry: LogEntry) -> tuple[str, ...]:
        """Record the outcome. Readers have switched already, so nothing that fails here is a failure of the write."""
        try:
            self._log.settle(entry.version, Outcome.PUBLISHED, write_id=entry.write_id, of=entry.write_id)
        except TableWriterError as error:
            logger.warning("write_id=%s published, but its outcome was not recorded: %s", entry.write_id, error)
            return (f"published, but the log could not record it ({error.message}); the next write settles it.",)
        return ()

    def give_up(self, entry: LogEntry, deadline: Deadline, refusal: TableWriterError) -> None:
        """After a refusal, record that nothing was published: only while the claim is ours alone.

        Later, somebody may already be rolling the entry forward. For the same reason partitions that were added empty
        stay: a drop that arrives late would remove a partition that others have published since.
        """
        if not deadline.allows(ABANDON_SECONDS):
            raise outcome_unknown(entry, refusal) from refusal
        try:
            stands = self._log.settle(entry.version, Outcome.ABANDONED, write_id=entry.write_id, of=entry.write_id)
        except TableWriterError as failure:
            logger.warning("write_id=%s giving up failed: %s", entry.write_id, failure)
            raise outcome_unknown(entry, refusal) from refusal
        if stands is not Outcome.ABANDONED:
            raise outcome_unknown(entry, refusal) from refusal


def _noted(stopped: KeyboardInterrupt, entry: LogEntry) -> KeyboardInterrupt:
    """Tell whoever pressed Ctrl-C what may have become of the write."""
    stopped.add_note(outcome_unknown(entry, InvalidInputError("it was interrupted.")).message)
    return stopped
