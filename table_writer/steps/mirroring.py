"""Calls on the mirror of a table: bring it up, repair it, compare it, drop it."""

from __future__ import annotations

from table_writer.errors import InvalidInputError
from table_writer.model.table import MIRRORS_PROPERTY
from table_writer.reports.mirror_report import MirrorDifference, MirrorReport
from table_writer.steps.mirrors.changes import MustBeWholeError, OvertakenError
from table_writer.steps.mirrors.fitting import advice
from table_writer.steps.mirrors.follow import TableMirror
from table_writer.steps.mirrors.mirror import Held
from table_writer.table.open_table import OpenTable


def brought_up(opened: OpenTable, kind: str, *, anew: bool) -> MirrorReport:
    """Bring a mirror to the newest version, or make it; ``anew`` mends it where it differs, too."""
    _require_open(opened)
    mirror = TableMirror(opened, kind)
    held = mirror.bring_up(anew=anew)
    return mirror_report(opened, kind, "in step", held, notes=mirror.notes)


def compared(opened: OpenTable, kind: str) -> MirrorReport:
    """Compare a mirror with the table, and change nothing."""
    mirror = TableMirror(opened, kind)
    held = mirror.mirror.read()
    held = None if held is None or held.is_dropped else held
    if held is not None and held.handed_over:
        return mirror_report(opened, kind, "handed over", held)
    try:
        whole = mirror.changes.whole(to_the_end=True)
    except InvalidInputError as refused:
        if held is not None:
            raise
        return MirrorReport(table=str(opened.table.name), kind=kind, state="absent", notes=(refused.message,))
    unfit = {file.key: file.unfit for files in whole.unfit.values() for file in files}
    notes = (*whole.notes, *([advice(opened, kind, whole)] if unfit else []))
    if held is None:
        found = tuple(MirrorDifference(key=key, state=state) for key, state in sorted(unfit.items()))
        return MirrorReport(table=str(opened.table.name), kind=kind, state="absent", differences=found, notes=notes)
    wanted = {file.key for files in whole.partitions.values() for file in files}
    states = dict.fromkeys(wanted - held.keys, "missing") | dict.fromkeys(held.keys - wanted, "surplus")
    states |= held.differing(whole) | unfit
    differences = tuple(MirrorDifference(key=key, state=states[key]) for key in sorted(states))
    state = "damaged" if held.damage else "behind" if _is_behind(mirror, held) else "differs" if differences else ""
    return mirror_report(opened, kind, state or "in step", held, differences=differences, notes=notes)


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


def _require_open(opened: OpenTable) -> None:
    """Refuse a table that was handed over: its mirrors stay, of either kind."""
    opened.log.lister.read(allow_lost=True)
    opened.log.slots.require_open(str(opened.table.name))


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
