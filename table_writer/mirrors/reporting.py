"""Calls on the mirror of a table: bring it up, repair it, compare it, drop it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from table_writer.errors import InvalidInputError
from table_writer.mirrors.changes import MustBeWholeError, OvertakenError
from table_writer.mirrors.fitting import advice
from table_writer.mirrors.follow import TableMirror, require_open
from table_writer.mirrors.mirror import Held, MirrorChange
from table_writer.model.table import MIRRORS_PROPERTY
from table_writer.protocol.table.open_table import OpenTable
from table_writer.reports.mirror_report import MirrorDifference, MirrorReport

LOOKS: Final = 5  # while others publish


def brought_up(opened: OpenTable, kind: str, *, anew: bool) -> MirrorReport:
    """Bring a mirror to the newest version, or make it; ``anew`` mends it where it differs, too.

    What it says afterwards is compared: a mirror that is followed may differ for a reason that no version tells.
    """
    require_open(opened)
    mirror = TableMirror(opened, kind)
    for _ in range(LOOKS):
        held = mirror.bring_up(anew=anew)
        report = _compared(opened, mirror, held, mirror.changes.whole(of_all=False))
        if report.state != "behind":
            break
    return replace(report, notes=mirror.notes or (() if report.healthy else report.notes))


def compared(opened: OpenTable, kind: str) -> MirrorReport:
    """Compare a mirror with the table, and change nothing."""
    mirror = TableMirror(opened, kind)
    held = mirror.mirror.read()
    if held is not None and held.handed_over:
        return mirror_report(opened, kind, "handed over", held)
    if held is not None and not held.is_dropped:
        return _compared(opened, mirror, held, mirror.changes.whole(to_the_end=True))
    try:
        whole = mirror.changes.whole(to_the_end=True)
    except InvalidInputError as refused:
        return MirrorReport(table=str(opened.table.name), kind=kind, state="absent", notes=(refused.message,))
    return MirrorReport(
        table=str(opened.table.name),
        kind=kind,
        state="absent",
        differences=_differences(_unfit(whole)),
        notes=_notes(opened, kind, whole),
    )


def _compared(opened: OpenTable, mirror: TableMirror, held: Held, whole: MirrorChange) -> MirrorReport:
    wanted = {file.key for files in whole.partitions.values() for file in files}
    states = dict.fromkeys(wanted - held.keys, "missing") | dict.fromkeys(held.keys - wanted, "surplus")
    differences = _differences({**states, **held.differing(whole), **_unfit(whole)})
    state = "damaged" if held.damage else "behind" if _is_behind(mirror, held) else "differs" if differences else ""
    notes = _notes(opened, mirror.kind, whole)
    return mirror_report(opened, mirror.kind, state or "in step", held, differences=differences, notes=notes)


def _differences(states: Mapping[str, str]) -> tuple[MirrorDifference, ...]:
    return tuple(MirrorDifference(key=key, state=states[key]) for key in sorted(states))


def _unfit(whole: MirrorChange) -> dict[str, str]:
    """Say of files, by their keys, why a mirror cannot show them."""
    return {file.key: file.unfit for files in whole.unfit.values() for file in files}


def _notes(opened: OpenTable, kind: str, whole: MirrorChange) -> tuple[str, ...]:
    return (*whole.notes, *([advice(opened, kind, whole)] if whole.unfit else []))


def dropped(opened: OpenTable, kind: str) -> MirrorReport:
    """Delete what is the mirror's alone; refused while the table says that there is one, or writers would go on."""
    if MIRRORS_PROPERTY in opened.table.parameters and kind in opened.mirrors:
        name = opened.table.name
        raise InvalidInputError(
            f"the table property {MIRRORS_PROPERTY} of {name} names its {kind} mirror, and writers would go on with it."
            f" Take it away first: ALTER TABLE {name.sql} UNSET TBLPROPERTIES ('{MIRRORS_PROPERTY}')",
            table=str(name),
        )
    count = TableMirror(opened, kind).drop()
    return MirrorReport(table=str(opened.table.name), kind=kind, state="dropped", files=count)


def _is_behind(mirror: TableMirror, held: Held) -> bool:
    try:
        return next(iter(mirror.changes.since(held)), None) is not None
    except (MustBeWholeError, OvertakenError):
        return True


def mirror_report(
    opened: OpenTable,
    kind: str,
    state: str,
    held: Held,
    *,
    differences: tuple[MirrorDifference, ...] = (),
    notes: tuple[str, ...] = (),
) -> MirrorReport:
    """Return the report of a mirror that is there."""
    return MirrorReport(
        table=str(opened.table.name),
        kind=kind,
        state=state,
        version=held.version,
        mirror_version=held.own_version,
        files=held.file_count,
        damage=held.damage,
        differences=differences,
        notes=notes,
    )
