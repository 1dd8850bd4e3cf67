"""Put partitions back to an earlier version: a publish whose files are there already."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile

from table_writer.errors import InvalidInputError, counted
from table_writer.model.contents import Contents
from table_writer.model.entry import EntryPartition
from table_writer.model.location import Location, same_place
from table_writer.model.meaning import Operation
from table_writer.model.table import PartitionsNow, PartitionValues, Table, locations, shown_name
from table_writer.protocol.log.deadline import Deadline
from table_writer.protocol.log.history import History
from table_writer.protocol.log.past_states import PastLocation
from table_writer.protocol.log.placements import Placement
from table_writer.protocol.log.versions import require_version
from table_writer.protocol.loop import AGAIN, Again, Answer, Draft, PreviewableClaimant, preview, run
from table_writer.protocol.operations.base import has_grown
from table_writer.protocol.operations.copies import SeparateCopies, moved_error
from table_writer.protocol.operations.entry import (
    FilesThere,
    NotThereError,
    RepublishResult,
    check_each,
    columns_of,
    files_there,
    left_locations,
    require_known,
    there_under_other_names,
)
from table_writer.protocol.operations.in_place import missing_files
from table_writer.protocol.operations.recovery import Recovery, doubts
from table_writer.protocol.operations.switch import ClaimedEntries
from table_writer.protocol.table.open_table import OpenTable
from table_writer.storage.object_store import many
from table_writer.storage.table_files import (
    Listed,
    existing_values,
    files_read_at,
    is_named_by_us,
    objects_of_each,
    visible,
)


def roll_back(
    opened: OpenTable, version: int, chosen: Collection[PartitionValues] | None, *, dry_run: bool
) -> RepublishResult:
    """Put partitions, or only the chosen ones, back to where they were after ``version``, in one metastore call.

    Version 0 is the state before the first entry. Raises ``InvalidInputError`` with the reason for each partition
    if it cannot be done, ``ConflictError`` if somebody else published one of them meanwhile, and what a write does.
    """
    rollback = _Rollback(opened, version, chosen)
    return preview(rollback) if dry_run else run(rollback)


_Checked = tuple[PartitionsNow, tuple[str, ...]]


@dataclass
class _Rollback(PreviewableClaimant[History, _Checked, RepublishResult]):
    """Points partitions at rows that they had; it is carried out with those partitions as they are now, and notes."""

    opened: OpenTable
    version: int
    chosen: Collection[PartitionValues] | None
    first: dict[PartitionValues, str | None] | None = None  # where they were at the first look
    ended: tuple[str, ...] = ()  # what was in doubt

    def __post_init__(self) -> None:
        self.copies = SeparateCopies(self.opened)
        self.recovery = Recovery(self.opened)

    def read(self) -> History:
        return self.opened.log.read_history()

    def waits(self, view: History) -> bool:
        ended = self.recovery.end_doubts(view, self.opened.table)
        self.ended += ended or ()
        return ended is not None

    def look(self, view: History) -> Answer[RepublishResult] | Draft[_Checked] | Again:
        opened, history, version, chosen = self.opened, view, self.version, self.chosen
        table = opened.table
        opened.log.slots.require_open(str(table.name))
        require_version(history, version, table)
        targets = _targets(history, version, chosen, table)
        known = (
            history.placements.known_values if chosen is None else history.placements.known_values.intersection(chosen)
        )
        here = opened.metastore.get_partitions(table, sorted(known | targets.keys()))
        if has_grown(opened, table, here, history.end, compares=True):
            return AGAIN
        targets |= _states_brought_late(history, known - targets.keys(), here)
        now: PartitionsNow = {values: partition for values, partition in here.items() if values in targets}
        before = {values: locations(now).get(values) for values in targets}
        if self.first is not None and self.first != before:
            raise moved_error(table)
        self.first = before
        found = _checked_partitions(opened, history, version, targets, now)
        partitions = self.copies.partitions_of(found, history)
        if not partitions:
            _require_as_it_was(opened, history, version, chosen, targets, here)
            return Answer(RepublishResult(version=None, partitions=(), notes=self._notes(history)))
        entry = opened.next_entry(
            history.end,
            Operation.ROLLBACK,
            write_id=self.copies.write_id,
            rollback_to=version,
            partitions=partitions,
            **columns_of(history, version, now),
        )
        return Draft(entry, (now, self._notes(history)))

    def planned(self, draft: Draft[_Checked]) -> RepublishResult:
        return RepublishResult(version=None, partitions=draft.entry.partitions, notes=draft.basis[1])

    def _notes(self, history: History) -> tuple[str, ...]:
        return (*self.ended, *doubts(history), *self.copies.notes)

    def before_claim(self, draft: Draft[_Checked]) -> Draft[_Checked]:
        opened, (checked, notes) = self.opened, draft.basis
        left = [
            checked[partition.values].location for partition in draft.entry.partitions if partition.values in checked
        ]
        entry = replace(draft.entry, replaced=left_locations(opened, left))
        self.copies.make()
        now = opened.metastore.get_partitions(opened.table, list(self.first or ()))
        if locations(checked) != locations(now):
            raise moved_error(opened.table)  # while files were listed, which can take minutes
        opened.log.marks.remember_rollback(entry.version)
        return Draft(entry, (now, notes))

    def carry_out(self, draft: Draft[_Checked], deadline: Deadline) -> Answer[RepublishResult]:
        entry, (now, notes) = draft.entry, draft.basis
        notes += ClaimedEntries(self.opened).carry_out(self.opened.table, entry, now, deadline)
        result = RepublishResult(
            version=entry.version, partitions=entry.partitions, notes=notes, write_id=entry.write_id
        )
        return Answer(result)


def _require_as_it_was(
    opened: OpenTable,
    history: History,
    version: int,
    chosen: Collection[PartitionValues] | None,
    checked: Collection[PartitionValues],
    here: PartitionsNow,
) -> None:
    """Refuse to say that there is nothing to do where readers would not find the rows of the version.

    Looked at are the partitions that no version has changed since. Other tools' rows at a place of theirs stay theirs;
    what was appended there in place is ours.
    """
    states, before = history.past.at(version), locations(here)
    wanted = states.keys() if chosen is None else states.keys() & set(chosen)
    unchecked = {values: states[values] for values in wanted - set(checked)}

    def is_of_others(values: PartitionValues) -> bool:
        location = Location.parse_any(states[values].location or "")
        is_ours = location is None or opened.layout.own.contains(location) or _has_grown_there(history, location)
        return not is_ours and same_place(states[values].location, before.get(values))

    ours = {values: state for values, state in unchecked.items() if values in here and not is_of_others(values)}
    gone = {values: state for values, state in unchecked.items() if values not in here and state.location}
    _checked_partitions(opened, history, version, ours | gone, {values: here[values] for values in ours})


def _checked_partitions(
    opened: OpenTable,
    history: History,
    version: int,
    targets: Mapping[PartitionValues, PastLocation],
    now: PartitionsNow,
) -> tuple[FilesThere, ...]:
    """Return the partitions that must change, having checked that readers would find all of their files."""
    table, before = opened.table, locations(now)
    exists = existing_values(opened.store, opened.layout, now)
    reasons = {
        values: _why_not_put_back(history, version, values, target, before.get(values), exists=values in exists)
        for values, target in targets.items()
    }
    wrong = [f"{shown_name(table, values)}{reason}" for values, reason in reasons.items() if reason]
    changed: dict[PartitionValues, str | None] = {}
    staying: dict[PartitionValues, str] = {}
    possible = [values for values, reason in reasons.items() if not reason]
    with_rows = many(lambda values: _with_rows(opened, history, targets[values].location), possible)
    for values, wanted in zip(possible, with_rows, strict=True):
        grew = wanted is not None and history.past.surplus_names(Location.parse(wanted), version)
        if grew or not same_place(before.get(values), wanted):
            changed[values] = wanted
        elif wanted is not None and _has_rows_of_ours(history, Location.parse(wanted)):
            staying[values] = wanted  # from where its files may be gone
    places = map(Location.parse, filter(None, (*changed.values(), *staying.values())))
    ours = [place for place in places if opened.layout.all_data.contains(place)]
    files = _FilesOf(opened, history, version, before, objects_of_each(opened.store, opened.layout, ours))
    checked, not_there = check_each(changed, files.there)
    not_there |= check_each(staying, files.still_there)[1]
    added = [values for values in changed if values not in now]
    not_there |= there_under_other_names(opened.metastore, table, added)
    wrong += [f"{shown_name(table, values)}: {reason}" for values, reason in not_there.items()]
    if wrong:
        shown = "; ".join(wrong[:5]) + (f"; and {len(wrong) - 5} more" if len(wrong) > 5 else "")
        raise InvalidInputError(
            f"{len(wrong)} of {counted(len(targets), 'partition')} of {table.name} cannot be put back: {shown}."
            " Nothing changed. Run `table-writer recover` if a late call may be the reason; write again what was"
            " vacuumed, and bring back from older versions of the bucket's objects what is lost; or name the other"
            " partitions.",
            table=str(table.name),
        )
    return tuple(
        replace(there, described=replace(there.described, old_location=before.get(there.described.values)))
        for there in checked
        if there.others or not same_place(there.described.new_location, before.get(there.described.values))
    )


def _why_not_put_back(
    history: History, version: int, values: PartitionValues, target: PastLocation, current: str | None, *, exists: bool
) -> str:
    """Say why a partition is not touched, in what follows its name; empty if it is where the log has it."""
    published = history.state.current_partitions.get(values)
    newest = published.partition.new_location if published else None
    is_moved = history.placements.of(values, current) is not Placement.IN_PLACE
    if is_moved or (exists and not same_place(current, newest)):  # others may write where a placeholder was left
        where = Location.parse(current) if current else "no location"
        after = published.version if published else version
        return f" is at {where}, where another tool or a late call has put it after version {after}"
    if not target.known:
        return ": a vacuum has trimmed the entries that say where it was then, or a late call had moved it"
    if not target.sure:
        return f": another tool or a late call has moved it, and whether after version {version} is not known"
    return ""


def _with_rows(opened: OpenTable, history: History, target: str | None) -> str | None:
    """Return a location to go back to; of a name that a refused publish had left, none: there was no partition then.

    Where another tool had written under that name, there was one, and whether its rows are there still is looked at.
    """
    location = Location.parse(target) if target else None
    if location is None or not opened.layout.is_placeholder(location):
        return target
    had_rows = location.place in history.state.deleted_places or location.place in history.state.doomed_places
    return target if had_rows or any(files_read_at(opened.store, opened.layout, location)) else None


def _has_grown_there(history: History, location: Location) -> bool:
    """Return whether an append in place has added files at a location."""
    return location.place in history.state.grown_places


def _has_rows_of_ours(history: History, location: Location) -> bool:
    return history.layout.all_data.contains(location) or _has_grown_there(history, location)


def _require_added(
    opened: OpenTable, history: History, version: int, values: PartitionValues, location: Location
) -> None:
    """Raise ``NotThereError`` if files are gone that appends in place have added at another tool's location."""
    earlier = ((record, named) for record, named in history.records.published_of(values))
    until_then = (named for record, named in earlier if record.entry.version <= version)
    came = takewhile(lambda named: not named.holds_all and same_place(named.new_location, str(location)), until_then)
    missing = missing_files(opened.store, came)
    if missing:
        raise NotThereError(f"files that were appended at {location} are gone: {len(missing)}")


@dataclass(frozen=True, slots=True)
class _FilesOf:
    """The files of one version: what there is of them now."""

    opened: OpenTable
    history: History
    version: int
    before: Mapping[PartitionValues, str]  # where readers look
    seen: Listed  # what lies in directories of ours

    def there(self, values: PartitionValues, target: str | None) -> FilesThere:
        """Return what lies where a partition is to go; ``NotThereError`` if readers would not find all of its files."""
        if target is None:
            return FilesThere(EntryPartition.without_rows(values, None))
        opened, history = self.opened, self.history
        location, is_left = Location.parse(target), not same_place(self.before.get(values), target)
        if is_left and not opened.layout.is_placeholder(location) and not history.past.is_restorable(location):
            erasure = history.past.erasure_of(location)
            why = erasure.erased if erasure else "vacuumed, or were never this table's to keep"
            raise NotThereError(f"its files at {location} were {why}")
        found = self._found(values, location)
        return replace(found, described=replace(found.described, new_location=target))

    def still_there(self, values: PartitionValues, target: str) -> FilesThere:
        """Return what lies where a partition stays; ``NotThereError`` if rows of the version are gone from there.

        Readers look there, so rows that another tool has inserted stay. They are told by the names of files.
        """
        location, layout = Location.parse(target), self.opened.layout
        if not layout.all_data.contains(location):
            _require_added(self.opened, self.history, self.version, values, location)
            return FilesThere(EntryPartition.without_rows(values, target))
        files = visible(self.seen[location], location)
        ours = [file for file in files if is_named_by_us(file.key, location, layout)]
        known = self.history.past.content_at(values, location, version=self.version)
        if known is not None and Contents.of(ours) == known.contents:
            return FilesThere(known)
        return self._found(values, location)

    def _found(self, values: PartitionValues, location: Location) -> FilesThere:
        return files_there(self.opened.store, self.history, values, location, version=self.version, seen=self.seen)


def _targets(
    history: History, version: int, chosen: Collection[PartitionValues] | None, table: Table
) -> dict[PartitionValues, PastLocation]:
    """Return where the partitions were that are to be put back; of all, only if nobody has lost which ones changed."""
    states, lost = history.past.changed_since(version), history.lost_after(version)
    if chosen is not None:
        require_known(chosen, history, table)
        return {values: states[values] for values in sorted(chosen) if values in states}
    if lost is not None:
        raise InvalidInputError(
            f"version {lost} of {table.name} is lost: which partitions it changed after version {version} is not known."
            " Nothing changed. Name the partitions that are to be put back, or replace them with"
            f" {table.overwrite_call}",
            table=str(table.name),
        )
    return dict(sorted(states.items()))


def _states_brought_late(
    history: History, suspects: Collection[PartitionValues], now: PartitionsNow
) -> dict[PartitionValues, PastLocation]:
    """Return those of which readers see what a late call shows: nobody may be told that they are as they were."""
    placements = history.placements.of_all(locations(now), suspects)
    return {values: PastLocation(None, known=True) for values, where in placements.items() if where is Placement.BEHIND}
