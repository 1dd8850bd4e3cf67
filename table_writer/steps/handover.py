"""A table goes on as its mirror: the log is closed, then everybody may write to the mirror; and back again.

A mark that closes the log comes first, then the entry that it names, which takes the slot that a claim under way would
have taken. So nothing is claimed any more once the entry stands, and what was in doubt ends before others may write.

Of a handover and its undoing in one moment one wins: the undoing takes away only marks of entries before its own, and
says in the mirror which entry that is; a handover goes on while its mark is there, from a mirror that no later entry
has taken back, by the mirror's own compare-and-set. Of two handovers the first one counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from table_writer.errors import ConflictError, InvalidInputError, counted, few
from table_writer.model.entry import HANDOVER, TAKE_BACK, DeletedLocation, Operation, Outcome
from table_writer.reports.mirror_report import MirrorReport
from table_writer.steps.mirroring import compared, mirror_report
from table_writer.steps.mirrors.follow import ATTEMPTS, TableMirror
from table_writer.steps.mirrors.mirror import Held
from table_writer.steps.publish.correction import Correction
from table_writer.steps.vacuum.sweep import CLAIM_SECONDS, Vacuum
from table_writer.table.open_table import OpenTable

DELTA: Final = "delta"
KEEPS_FILES: Final = {
    DELTA: "takes delta.deletedFileRetentionDuration away, or names a retention in VACUUM",
    "iceberg": "sets gc.enabled=true",
}


def handed_over(opened: OpenTable, kind: str, *, dry_run: bool) -> MirrorReport:
    """Close the log of a table, and let others write to its mirror, which is made if there is none."""
    closed_for = opened.log.lister.read().closed_for
    if closed_for not in {"", kind}:
        opened.log.slots.require_open(str(opened.table.name))
    mirror = TableMirror(opened, kind, hands_over=True)
    held = mirror.mirror.read()
    if held is not None and held.handed_over:
        return _handed_over(opened, kind, held)
    _require_own_places(opened, mirror)
    if dry_run:
        report = compared(opened, kind)
        return replace(report, notes=(*report.notes, "dry run: nothing was changed", *_notes(opened, kind)))
    if not closed_for:  # what fails now leaves all as it was
        _settle(opened)
        mirror.bring_up(anew=True)
    version = _claim(opened, HANDOVER, closes_for=kind)
    _settle(opened)
    for _ in range(ATTEMPTS):
        held = mirror.bring_up(anew=True)
        listing = opened.log.lister.read()
        if held.taken_back >= version or version not in listing.closings:
            raise ConflictError(f"{opened.table.name} was taken back meanwhile", table=_name(opened))
        if listing.closed_for != kind:
            opened.log.marks.reopen({version: kind})
            opened.log.slots.require_open(_name(opened))
        after = mirror.mirror.hand_over(held, version)
        if after is not None:
            return _handed_over(opened, kind, after)
    raise ConflictError(f"others write to the {kind} mirror of {opened.table.name} all the time", table=_name(opened))


def taken_back(opened: OpenTable, *, dry_run: bool) -> MirrorReport:
    """Make a mirror of it again, and open the log; refused once anybody else has written."""
    closings = opened.log.lister.read().closings
    kind = closings[min(closings)] if closings else ""
    if not kind:
        raise InvalidInputError(f"{opened.table.name} was not handed over: its log is open", table=_name(opened))
    mirror = TableMirror(opened, kind, hands_over=True)
    held = _unwritten(opened, kind, mirror.mirror.read())
    if dry_run:
        return mirror_report(opened, kind, "handed over", held, notes=("dry run: nothing was changed",))
    version = _claim(opened, TAKE_BACK)
    for _ in range(ATTEMPTS):
        held = _unwritten(opened, kind, mirror.mirror.read())
        after = mirror.mirror.take_back(held, version)
        if after is not None:
            opened.log.marks.reopen({number: to for number, to in closings.items() if number <= version})
            return mirror_report(opened, kind, "taken back", after)
    raise ConflictError(f"others write to the {kind} table of {opened.table.name} all the time", table=_name(opened))


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


def _claim(opened: OpenTable, mode: str, *, closes_for: str = "") -> int:
    """Claim an entry that deletes nothing, after the mark that closes the log for one; returns its version."""
    while True:
        newest = opened.log.lister.read().newest
        entry = opened.next_entry(newest, Operation.VACUUM, mode, publish_timeout_seconds=CLAIM_SECONDS)
        own = DeletedLocation(location=str(opened.layout.data(entry.write_id)), replaced_by=None, kept=True)
        entry = replace(entry, deletes=(own,))
        if closes_for:
            opened.log.marks.close(entry.version, closes_for)
        if opened.log.slots.claim(entry):
            opened.log.slots.record_outcome(
                entry.version, Outcome.PUBLISHED, write_id=entry.write_id, of=entry.write_id
            )
            return entry.version
        if closes_for:
            opened.log.marks.reopen({entry.version: closes_for})


def _settle(opened: OpenTable) -> None:
    """End what is in doubt, and vacuums that have died; ``ConflictError`` while others are at work."""
    Correction(opened).resolve_all(opened.table)
    Vacuum(opened).finish()
    history = opened.log.read_recent()
    if versions := [record.entry.version for record in history.records.in_doubt]:
        raise ConflictError(
            f"{opened.table.name} is not handed over yet: version {few(versions)} is under way. Call again",
            table=_name(opened),
        )


def _require_own_places(opened: OpenTable, mirror: TableMirror) -> None:
    """Refuse partitions that lie where Delta puts files: readers of the Hive table would find new rows there."""
    if mirror.kind != DELTA:
        return
    root, own = opened.layout.root.key, opened.layout.own.key
    theirs = [
        values
        for values, files in mirror.changes.whole().partitions.items()
        if any(file.key.startswith(root) and not file.key.startswith(own) for file in files)
    ]
    if theirs:
        names = few(opened.partition_names(theirs)) if opened.table.partition_columns else "its files"
        raise InvalidInputError(
            f"{names} of {opened.table.name} lie where other tools put files, and so does Delta: readers of the Hive"
            " table would see both. Overwrite them with this library first",
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
            f" external before: in Hive, ALTER TABLE {opened.table.name} SET TBLPROPERTIES ('EXTERNAL'='TRUE')"
        )
    if staged := sum(found.key.endswith(".json") for found in opened.store.list(opened.layout.all_staged.key)):
        yield f"{counted(staged, 'staged write')} can be published no more"


def _name(opened: OpenTable) -> str:
    return str(opened.table.name)
