"""A table goes on as its mirror: the log is closed, then everybody may write to the mirror; and back again.

A mark comes first, then the entry that it names, which takes the slot that a claim under way would have taken. From
then on the log is closed: nothing is claimed any more, and what was in doubt ends before others may write.

Of a handover and its undoing in one moment one wins: the undoing opens the log for handovers before its own entry, and
says in the mirror which entry that is; a handover goes on while it counts, from a mirror that no later entry has taken
back, by the mirror's own compare-and-set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from table_writer.errors import ConflictError, InvalidInputError, counted, few
from table_writer.mirrors import follow as mirrors
from table_writer.mirrors.follow import ATTEMPTS, TableMirror
from table_writer.mirrors.mirror import Held
from table_writer.mirrors.reporting import compared, mirror_report
from table_writer.model.entry import DeletedLocation, LogEntry, Outcome
from table_writer.model.location import Location
from table_writer.model.meaning import Operation
from table_writer.protocol.log.deadline import Deadline
from table_writer.protocol.log.listing import Listing
from table_writer.protocol.log.marks import LATE_CALL_SECONDS, Closing
from table_writer.protocol.log.slots import closed_error
from table_writer.protocol.loop import Answer, Claimant, Draft, run
from table_writer.protocol.operations.correction import Correction
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.vacuum.remover import interrupted
from table_writer.protocol.vacuum.sweep import Vacuum
from table_writer.reports.mirror_report import MirrorReport

DELTA: Final = "delta"
KEEPS_FILES: Final = {
    DELTA: "names a retention in VACUUM LITE, or takes delta.deletedFileRetentionDuration away and runs it",
    "iceberg": "sets gc.enabled=true",
}


def handed_over(opened: OpenTable, kind: str, *, dry_run: bool) -> MirrorReport:
    """Close the log of a table, and let others write to its mirror, which is made if there is none."""
    listing = opened.log.lister.read()
    _require_kind(opened, listing, kind)
    mirror = TableMirror(opened, kind, hands_over=True)
    if report := _done_before(opened, mirror):
        return report
    _require_guarded(opened, mirror)
    _require_no_late_drop(opened, mirror)
    _require_own_places(opened, kind)
    if dry_run:
        report = compared(opened, kind)
        return replace(report, notes=(*report.notes, "dry run: nothing was changed", *_notes(opened, kind)))
    if not listing.closings:  # what fails now leaves all as it was
        _settle(opened)
        mirror.bring_up(anew=True)
    own = Closing.of(run(_Closing(opened, Operation.HANDOVER, closes_for=kind)), kind)
    _settle(opened)
    for _ in range(ATTEMPTS):
        if report := _done_before(opened, mirror):
            return report
        held = mirror.bring_up(anew=True)
        _require_closed(opened, own, held)
        opened.log.marks.open_to_others(own.version)
        after = mirror.mirror.hand_over(held, own.version)
        if after is not None:
            return _handed_over(opened, kind, after)
        opened.log.marks.keep_from_others(own.version)
    raise ConflictError(f"others write to the {kind} mirror of {opened.table.name} all the time", table=_name(opened))


def _done_before(opened: OpenTable, mirror: TableMirror) -> MirrorReport | None:
    """Return the report of a mirror that others may write to already; it may say so no more after what they have done.

    Whoever replaces a table drops its properties with it.
    """
    held, listing = mirror.mirror.read(), opened.log.lister.read()
    may_be_theirs = any(closing.version in listing.opened for closing in listing.closings)
    if held is None or not (held.handed_over or (may_be_theirs and held.damage)):
        return None
    if not listing.closings:
        raise InvalidInputError(
            f"others write to the {mirror.kind} table in the place of a mirror of {opened.table.name}: version"
            f" {held.handed_over} of a log that is gone has handed it over. Nothing was changed. Move the metadata of"
            " that table away, and a mirror is made anew",
            table=_name(opened),
        )
    return _handed_over(opened, mirror.kind, held)


def _require_kind(opened: OpenTable, listing: Listing, kind: str) -> None:
    """Refuse a table that was handed over to the other kind of mirror."""
    if listing.closed_for not in ("", kind):
        raise closed_error(_name(opened), listing.closed_for)


def _require_guarded(opened: OpenTable, mirror: TableMirror) -> None:
    """Refuse where a version that this library writes could replace one that another engine has just written."""
    if why := mirror.mirror.why_unguarded():
        raise InvalidInputError(
            f"{opened.table.name} can be neither handed over nor taken back: {why}. Nothing was changed",
            table=_name(opened),
        )


def _require_no_late_drop(opened: OpenTable, mirror: TableMirror) -> None:
    """Refuse where a drop of an earlier mirror of this name may yet take the table out of its catalog."""
    number, marks = opened.log.lister.mirror(mirror.kind).dropped_to, opened.log.marks
    if mirror.mirror.numbers_versions or not number:
        return
    age_seconds = marks.age_of_mirror("dropped", mirror.kind, number)
    if age_seconds is not None and age_seconds < LATE_CALL_SECONDS:
        raise ConflictError(
            f"{opened.table.name} is not handed over yet: an {mirror.kind} mirror was dropped less than a day ago,"
            " and a call of that drop that comes late would take the new table out of its catalog. Nothing was changed."
            " Call again a day after the drop",
            table=_name(opened),
        )


def _require_closed(opened: OpenTable, own: Closing, held: Held) -> None:
    """Raise ``ConflictError`` if this handover was undone: the mirror says so before the log does."""
    if held.taken_back > own.version:
        opened.log.marks.reopen(held.taken_back, [own])
    if own not in opened.log.lister.read().closings:
        raise ConflictError(f"{opened.table.name} was taken back meanwhile. Call again", table=_name(opened))


def taken_back(opened: OpenTable, *, dry_run: bool) -> MirrorReport:
    """Make a mirror of it again, and open the log; refused once anybody else has written."""
    listing = opened.log.lister.read()
    if not listing.closings:
        raise InvalidInputError(f"{opened.table.name} was not handed over: its log is open", table=_name(opened))
    kind = listing.closed_for
    mirror = TableMirror(opened, kind, hands_over=True)
    _require_guarded(opened, mirror)
    found = mirror.mirror.read()
    if found is not None and found.is_dropped and not dry_run:
        _reopen(
            opened, run(_Closing(opened, Operation.TAKE_BACK)).version
        )  # a drop was faster: no mirror is left to be written to
        return MirrorReport(table=_name(opened), kind=kind, state="taken back")
    is_opened = any(closing.version in listing.opened for closing in listing.closings)
    if not is_opened and not dry_run:  # a handover that died may not have brought it up, or made it
        found = mirror.bring_up(found)
    held = _unwritten(opened, kind, found)
    if dry_run:
        return mirror_report(opened, kind, "handed over", held, notes=("dry run: nothing was changed",))
    version = run(_Closing(opened, Operation.TAKE_BACK)).version
    for _ in range(ATTEMPTS):
        held = _unwritten(opened, kind, mirror.mirror.read())
        if held.handed_over > version:
            raise ConflictError(f"{opened.table.name} was handed over again meanwhile", table=_name(opened))
        after = mirror.mirror.take_back(held, version)
        if after is not None:
            _reopen(opened, version)
            return mirror_report(opened, kind, "taken back", after)
    raise ConflictError(f"others write to the {kind} table of {opened.table.name} all the time", table=_name(opened))


def _reopen(opened: OpenTable, version: int) -> None:
    """Open the log again for all handovers before a version."""
    closings = opened.log.lister.read().closings
    opened.log.marks.reopen(version, [closing for closing in closings if closing.version < version])


def _unwritten(opened: OpenTable, kind: str, held: Held | None) -> Held:
    """Return what a mirror holds, if nobody else has written to it."""
    if held is None or held.damage:
        why = "it is gone" if held is None else held.damage
        raise InvalidInputError(
            f"{opened.table.name} cannot be taken back: the {kind} table was written since, and readers of the Hive"
            f" table would not see that ({why})",
            table=_name(opened),
        )
    return held


@dataclass(frozen=True)
class _Closing(Claimant[Listing, None, LogEntry]):
    """Claims an entry that deletes nothing, after the mark by which it closes the log for a kind of mirror.

    Before a claim has shown whether it stands, its mark stays: the mark alone closes nothing.
    """

    opened: OpenTable
    operation: Operation
    closes_for: str = ""

    def read(self) -> Listing:
        return self.opened.log.lister.read()

    def look(self, view: Listing) -> Draft[None]:
        if self.closes_for:
            _require_kind(self.opened, view, self.closes_for)
        entry = self.opened.next_entry(view.end, self.operation)
        return Draft(replace(entry, deletes=(DeletedLocation.kept_at(self.opened.layout.data(entry.write_id)),)), None)

    def before_claim(self, draft: Draft[None]) -> Draft[None]:
        if self.closes_for:
            self.opened.log.marks.close(Closing.of(draft.entry, self.closes_for))
        return draft

    def lost(self, draft: Draft[None]) -> None:
        if self.closes_for:
            self.opened.log.marks.withdraw(Closing.of(draft.entry, self.closes_for))

    def carry_out(self, draft: Draft[None], _: Deadline) -> Answer[LogEntry]:
        entry = draft.entry
        self.opened.log.slots.record_outcome(
            entry.version, Outcome.PUBLISHED, write_id=entry.write_id, of=entry.write_id
        )
        return Answer(entry)


def _settle(opened: OpenTable) -> None:
    """End what is in doubt, and vacuums that have died; ``ConflictError`` while others are at work."""
    Correction(opened).resolve_all(opened.table)
    Vacuum(opened, mirrors).finish()
    history = opened.log.read_recent()
    entries = [record.entry for record in history.records.in_doubt]
    died = {entry.version for entry in interrupted(history)}
    if waiting := [entry for entry in entries if entry.meaning.erases or entry.version in died]:
        what = "an erasure" if all(entry.meaning.erases for entry in waiting) else "a vacuum that was not finished"
        raise ConflictError(
            f"{opened.table.name} is not handed over yet: version {few(entry.version for entry in waiting)} is {what}."
            f" `table-writer vacuum {opened.table.name}` before: it carries that out, or says what keeps the files. And"
            f" `table-writer handover {opened.table.name} --undo` before that if the log is closed",
            table=_name(opened),
        )
    if entries:
        raise ConflictError(
            f"{opened.table.name} is not handed over yet: version {few(entry.version for entry in entries)} is under"
            " way. Call again",
            table=_name(opened),
        )


def _require_own_places(opened: OpenTable, kind: str) -> None:
    """Refuse partitions that lie where Delta puts files: readers of the Hive table would find new rows there."""
    if kind != DELTA:
        return
    root, own = opened.layout.root, opened.layout.own
    partitions = opened.metastore.get_all_partitions(opened.table).items()
    places = {values: Location.parse(partition.location) for values, partition in partitions}
    theirs = [values for values, place in places.items() if root.contains(place) and not own.contains(place)]
    if theirs:
        names = few(opened.partition_names(theirs)) if opened.table.partition_columns else "its files"
        raise InvalidInputError(
            f"{names} of {opened.table.name} lie where other tools put files, and so does Delta: readers of the Hive"
            " table would see both. Overwrite them with this library first, or drop them",
            table=_name(opened),
        )


def _handed_over(opened: OpenTable, kind: str, held: Held) -> MirrorReport:
    return mirror_report(opened, kind, "handed over", held, notes=tuple(_notes(opened, kind)))


def _notes(opened: OpenTable, kind: str) -> Iterator[str]:
    """Yield what a person should know of the Hive table from then on."""
    yield f"no file of the Hive table is deleted until somebody {KEEPS_FILES[kind]}: then its readers miss files"
    if opened.table.kind == "MANAGED_TABLE":
        yield (
            f"{opened.table.name} is a managed table: DROP TABLE deletes the files, of the new table too. Make it"
            " external before, by its table property EXTERNAL=TRUE"
        )
    if staged := sum(found.key.endswith(".json") for found in opened.store.list(opened.layout.all_staged.key)):
        yield f"{counted(staged, 'staged write')} can be published no more"


def _name(opened: OpenTable) -> str:
    return str(opened.table.name)
