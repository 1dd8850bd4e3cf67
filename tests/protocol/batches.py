"""A switch that is several calls, as in AWS Glue: in the model, each of them takes one partition.

Whatever is not said here is as everywhere else. What readers see is weaker: partitions switch one after another.
"""

from __future__ import annotations

from typing import Any, Final

from table_writer.model.entry import Outcome

from .keeping import Keeping
from .requests import LOST, MISSING, OK, REFUSED, Phase, ReadLog, ReadMetastore, Send
from .state import Call, Slot

TRIES: Final = 3


class Batches(Keeping):
    """What a Glue gateway sends for one switch."""

    def is_confirmable(self, slot: Slot) -> bool:
        """Nothing is confirmed: what was refused for load is sent again, though all is where it shall be."""
        del slot
        return False

    def switch(self, job: Any, present: tuple[str, ...], attempt: int) -> Phase:
        stay = tuple((values, new) for values, _, new in job.changes if new is not None)
        if attempt == 1 and not present:
            return "add_each", job, stay, ("drop", job)
            yield
        missing = tuple((values, f"@{job.write_id}/{values}") for values, _ in stay if values not in present)
        shown = (*present, *(values for values, _ in missing))
        return "add_each", job, missing, ("alter", job, shown, attempt)

    def add_each(self, job: Any, places: tuple[tuple[str, str], ...], then: Any) -> Phase:
        for number, place in enumerate(places):
            answer = yield self.send_batch(job, ("add", (place,)), number)
            if answer != OK:
                return "call_failed", job, LOST if number else answer
        return then

    def alter(self, job: Any, present: tuple[str, ...], attempt: int) -> Phase:
        kind, places, *_ = self.one_alter(job, present)
        for number, place in enumerate(places):
            call: Call = (kind, (place,))
            answer = yield self.send_batch(job, call, number)
            is_certain = number == 0 and answer != REFUSED  # a refusal for load may be false: it was sent again
            if answer == REFUSED:
                answer = yield self.send_batch(job, call, number)
            while self.is_sent_again(answer):
                answer = yield self.send_batch(job, call, number)
            if answer == MISSING and is_certain and attempt < TRIES:
                return "look_again", job, attempt
            if answer != OK:
                return "call_failed", job, answer if is_certain else LOST
        return "drop", job

    def call_failed(self, job: Any, answer: str) -> Phase:
        """What is seen after a lost answer proves nothing: an earlier call may have done it."""
        if answer != LOST or self.believes_what_it_sees():
            return (yield from super().call_failed(job, answer))
        log = yield ReadLog()
        is_done = log.slots[job.version - 1].outcome is Outcome.PUBLISHED
        return ("record_outcome", job, job.to_record) if is_done else job.unknown

    def believes_what_it_sees(self) -> bool:
        """Whether reading back decides about a call without an answer."""
        return False

    def look_again(self, job: Any, attempt: int) -> Phase:
        partitions = tuple(values for values, _, _ in job.changes)
        now = yield ReadMetastore(partitions)
        shown = tuple(values for values, code in zip(partitions, now, strict=True) if code is not None)
        return "switch", job, shown, attempt + 1

    def send_batch(self, job: Any, call: Call, number: int) -> Send:
        """Each call must be in time, not only the first."""
        del number
        return self.send(job, call)

    def is_sent_again(self, answer: str) -> bool:
        """A call without an answer is not: the first may come late, and nobody would look for it."""
        del answer
        return False
