"""What reports have said of a table, held against the table: then, and for as long as it was said to last."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from table_writer.mirrors.delta import DeltaMirror
from table_writer.protocol.table.root_markers import DELTA_LOG
from table_writer.reports.erasure_report import ErasureReport
from table_writer.reports.mirror_report import MirrorReport
from table_writer.reports.vacuum_reports import DeletedPath
from tests.fuzz.oracle import NONE, Ids
from tests.maintenance.erasures import holders

from .worlds import mirrored_rows

if TYPE_CHECKING:
    from .run import Run

CLOSED: Final = frozenset({"write", "compact", "rollback"})
"""Operations of entries that nobody carries out on a table that was handed over."""
HAS_ALL: Final = frozenset({"in step", "handed over", "taken back"})


@dataclass
class Promises:
    """Sentences of reports; what is not true is the oracle's to blame."""

    run: Run
    wanted: dict[str, Ids] = field(default_factory=dict)
    """The rows that were to be erased, by the write that has deleted them."""
    gone: dict[int, str] = field(default_factory=dict)
    """Rows of which a certificate has said that nothing holds them, with that of which write it was."""
    handed_over: int = 0
    """The version up to which entries are carried out, of a table that was said to be handed over; 0: it was not."""

    def given(self, certificate: ErasureReport) -> None:
        """Take a certificate: if it is complete nothing holds such a row, now and later."""
        if certificate.is_complete:
            self.gone |= dict.fromkeys(self.wanted.get(certificate.write_id, NONE), certificate.write_id)
            self.require_gone()

    def require_gone(self) -> None:
        """Nothing below the root holds a row that is said to be gone."""
        if found := holders(self.run.base, frozenset(self.gone)) if self.gone else []:
            places = [key.removeprefix(self.run.root) for key in found]
            self.run.oracle.blame(f"the certificate of {self.gone} is complete, and {places} hold such rows")

    def freed(self, deleted: Iterable[DeletedPath]) -> None:
        """Take what is said to be freed: no such object is there any more, unless a late request brings it back."""
        objects = self.run.base.store._objects
        there = [key for path in deleted for key in path.keys if key in objects]
        if there and not self.run.pending:
            self.run.oracle.blame(f"{there} are said to be deleted, and are there")

    def resolved(self, in_doubt: Iterable[int]) -> None:
        """Take that a recovery has come to its end: what was in doubt when it began has ended."""
        now = {record.entry.version for record in self.run.base.history().records.publishes_in_doubt}
        if left := sorted(now.intersection(in_doubt)):
            self.run.oracle.blame(f"recover has come to its end, and {left}, in doubt when it began, still are")

    def mirrors(self, report: MirrorReport, *, is_alone: bool, compares: bool) -> None:
        """Take what is said of the mirror, of which readers of the table know whether it is so.

        What other tools have done shows in it once somebody ``compares`` the two.
        """
        run, prefix = self.run, f"{self.run.root}{DELTA_LOG}/"
        if report.state == "handed over" and not self._is_taken_back:
            self.handed_over = run.oracle.newest()
        if report.state == "taken back":
            self.handed_over = 0
        left = [key for key in run.base.store._objects if key.startswith(prefix)] if report.state == "dropped" else ()
        if left and DeltaMirror(run.base.services()).read() is None:  # a late request of the drop itself
            left = ()
        if left and is_alone:
            run.oracle.blame(f"the mirror is said to be dropped, and {left} are there")
        if report.state in HAS_ALL and is_alone and (compares or not run.have_other_tools_changed):
            self.require_in_step(f"the mirror is said to be {report.state}")

    @property
    def _is_taken_back(self) -> bool:
        return any(worker.actor.operation == "take_back" for worker in self.run.workers)

    def end_drop(self) -> None:
        """Drop a mirror once more if a drop has failed, as each write's note says; then it is made again."""
        held = DeltaMirror(self.run.base.services()).read()
        if held is not None and held.is_dropped:
            for options in ({"drop": True}, {}):
                self.run.world.keeper.mirror(self.run.table, as_="delta", **options)

    def require_in_step(self, why: str) -> None:
        """Readers of the mirror see the rows that readers of the table see, if all is at rest."""
        run, oracle = self.run, self.run.oracle
        is_open = oracle.wild or oracle.soft or oracle.stale or run.pending
        if is_open or run.base.history().records.publishes_in_doubt:
            return
        rows = {value: sorted(oracle.rows_at(where)) for value, where in oracle.locations().items()}
        rows = {value: ids for value, ids in rows.items() if ids}
        mirrored = mirrored_rows(run.base)
        if mirrored != rows:
            oracle.blame(f"{why}, and its readers see {mirrored}, those of the table {rows}")

    def require_closed(self, version: int) -> None:
        """Nothing that was claimed after a handover changes what readers see."""
        entry = self.run.oracle.entry(version) if self.handed_over < version else None
        if self.handed_over and entry is not None and entry.operation.value in CLOSED:
            self.run.oracle.blame(f"version {version} shows, after the table was said to be handed over")
