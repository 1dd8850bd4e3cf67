"""A note in the log of a table, for people: it changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from table_writer.model.entry import LogEntry, Outcome
from table_writer.model.meaning import Operation
from table_writer.model.words import Words
from table_writer.protocol.log.deadline import Deadline
from table_writer.protocol.log.listing import Listing
from table_writer.protocol.loop import Claimant, Draft, Nothing, run
from table_writer.protocol.table.open_table import OpenTable


def add_note(opened: OpenTable, text: str) -> LogEntry:
    """Put a note into the log; returns its entry."""
    return run(_Note(opened, text))


@dataclass
class _Note(Claimant[Listing, None, LogEntry]):
    """Claims an entry that has ended once it is claimed."""

    opened: OpenTable
    text: str

    def read(self) -> Listing:
        return self.opened.log.lister.read()

    def look(self, view: Listing) -> Draft[None]:
        words = Words(tags={"note": self.text})
        return Draft(self.opened.next_entry(view.end, Operation.NOTE, "note", words=words), None)

    def carry_out(self, draft: Draft[None], _: Deadline) -> Nothing[LogEntry]:
        entry = draft.entry
        outcome = Outcome.PUBLISHED
        self.opened.log.slots.record_outcome(entry.version, outcome, write_id=entry.write_id, of=entry.write_id)
        return Nothing(entry)
