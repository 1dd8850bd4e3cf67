"""A publish that sets column statistics after its switch: for that it alters its partitions once more.

What is kept of statistics themselves is not in the model: no rule of it reads them, and wrong ones are removed by
comparing them with the log. What could lose rows is the second alter.
"""

from __future__ import annotations

from table_writer.model.entry import Operation

from .keeping import Protocol
from .requests import LOST, TOO_LATE, Phase, ReadMetastore
from .state import Slot, place_of
from .writes import Job


class Telling(Protocol):
    """The rules of a write with figures of columns."""

    def is_confirmable(self, slot: Slot) -> bool:
        """Its claimant has a call left to send, though all is where it shall be."""
        return slot.operation is not Operation.WRITE and super().is_confirmable(slot)

    def drop(self, job: Job) -> Phase:
        phase = yield from super().drop(job)
        return ("unmark", job) if phase[0] == "record_outcome" else phase

    def unmark(self, job: Job) -> Phase:
        """Alter what is where it was put, and change nothing of it."""
        stay = tuple((values, new) for values, _, new in job.changes if new is not None)
        now = yield ReadMetastore(tuple(values for values, _ in stay))
        there = tuple((values, new) for (values, new), code in zip(stay, now, strict=True) if place_of(code) == new)
        answer = (yield self.send(job, ("alter", there))) if there else None
        return job.unrecorded if answer in {LOST, TOO_LATE} else ("record_outcome", job, job.to_record)
