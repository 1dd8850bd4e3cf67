"""The report of a certification: which promises held on a store and a metastore, where and when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from table_writer.reports.layout import Column, Figure, State
from table_writer.reports.report import Report

HELD: Final = "held"
BROKEN: Final = "broken"
FAILED: Final = "failed"
NOT_TRIED: Final = "not tried"


@dataclass(frozen=True, kw_only=True)
class Proof:
    """One promise that was put to the test.

    Parameters
    ----------
    promise
        What was tried.
    state
        ``"held"``, ``"broken"``, ``"failed"`` (it could not be tried to its end) or ``"not tried"``.
    message
        How often it was tried, or what has broken it.
    seconds
        How long it took; 0 where it is one of several judgements of the same history.
    """

    promise: str
    state: str
    message: str
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, repr=False)
class CertificationReport(
    Report,
    rows="proofs",
    columns=(
        State("state", "state"),
        Column("promise", "promise"),
        Column("how", "message"),
        Figure("seconds", "seconds", lambda seconds: f"{seconds:.1f}" if seconds else "-"),
    ),
    derived=("holds",),
):
    """What held on a person's own store and metastore; ``table`` is the location that was tried.

    Parameters
    ----------
    store
        Which kind of store, and where it answers.
    metastore
        Its address and version; empty where none was named.
    version
        Of this library.
    machine
        Python and operating system of the machine that tried it.
    began_at, ended_at
        By the clock of that machine.
    proofs
        Each promise with how it ended.
    history
        The file of the history of writes and reads, if one was asked for.
    notes
        What else a person should know.
    """

    store: str
    metastore: str
    version: str
    machine: str
    began_at: datetime
    ended_at: datetime
    proofs: tuple[Proof, ...]
    history: str = ""
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Return whether every promise that was tried held, and none could not be tried to its end."""
        return all(proof.state in {HELD, NOT_TRIED} for proof in self.proofs)

    def _headline(self) -> str:
        counts = {
            state: sum(proof.state == state for proof in self.proofs) for state in (BROKEN, FAILED, HELD, NOT_TRIED)
        }
        return ": " + ", ".join(f"{count} {state}" for state, count in counts.items() if count)

    def _lines(self) -> Iterator[str]:
        yield f"store: {self.store}"
        yield f"metastore: {self.metastore or 'none was named, so no write was tried'}"
        minutes = (self.ended_at - self.began_at).total_seconds() / 60
        yield f"table_writer {self.version}, {self.machine}; {self.began_at:%Y-%m-%d %H:%M} UTC, {minutes:.1f} minutes"
        if self.history:
            yield f"history: {self.history}"
        yield from self.notes
