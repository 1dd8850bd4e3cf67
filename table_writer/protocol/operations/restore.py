"""Add the partitions that the log knows and the metastore does not: its database was lost, or a drop came late."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from table_writer.errors import TableWriterError, counted, few
from table_writer.model.entry import ReplacedObject
from table_writer.model.location import Location
from table_writer.model.meaning import Operation
from table_writer.model.table import Partition, PartitionsNow, PartitionValues, locations
from table_writer.protocol.log.deadline import Deadline
from table_writer.protocol.log.history import History
from table_writer.protocol.log.placements import Placement
from table_writer.protocol.loop import Answer, Draft, PreviewableClaimant, preview, run
from table_writer.protocol.operations.copies import SeparateCopies
from table_writer.protocol.operations.correction import Correction
from table_writer.protocol.operations.entry import (
    FilesThere,
    NotThereError,
    RepublishResult,
    check_each,
    columns_of,
    files_there,
    is_same_file,
    left_locations,
    require_known,
    there_under_other_names,
)
from table_writer.protocol.operations.recovery import Recovery, doubts
from table_writer.protocol.operations.switch import ClaimedEntries
from table_writer.protocol.table.open_table import OpenTable
from table_writer.storage.object_store import ObjectStore
from table_writer.storage.table_files import files_read_at


def restore_partitions(
    opened: OpenTable, chosen: Collection[PartitionValues] | None, *, dry_run: bool
) -> RepublishResult:
    """Add all missing partitions, or the chosen ones, at their newest published locations, in one metastore call.

    An unpartitioned table that was made again is pointed at its rows. Of a metastore that was set back, partitions at
    older rows follow, unless some were chosen. Raises as a write does.
    """
    recovery = Recovery(opened, partial(_is_lost, opened))
    restore = _Restore(opened, recovery, chosen)
    added = preview(restore) if dry_run else run(restore)
    try:
        if chosen is not None or _is_open(opened, added.version):  # who would look further has to wait for the claim
            return added
        notes = _put_back(opened, recovery, dry_run=dry_run)
    except TableWriterError as error:
        if added.version is None:
            raise
        # readers see what was added: an error would promise that they do not
        notes = (f"partitions at older rows were not put back, run it again: {error.message}",)
    return replace(added, notes=added.notes + notes)


def _is_open(opened: OpenTable, version: int | None) -> bool:
    """Return whether the outcome of an own entry is not on record yet."""
    return version is not None and opened.log.slots.stored_outcome(version) is None


def _put_back(opened: OpenTable, recovery: Recovery, *, dry_run: bool) -> tuple[str, ...]:
    """Put partitions back that the metastore has at older rows of ours."""
    if dry_run:
        history = opened.log.read_history()
        here = locations(opened.metastore.get_partitions(opened.table, sorted(history.placements.known_values)))
        placements = history.placements.of_all(here)
        values, done = {v for v, placement in placements.items() if placement is Placement.BEHIND}, "to be put back"
    else:
        corrected = Correction(opened, recovery).resolve_all(opened.table).corrected
        values, done = {v for correction in corrected for v in correction.partitions}, "put back"
    names = few(opened.partition_names(values))
    return (f"{counted(len(values), 'partition')} {done} to the newest version: {names}",) if values else ()


_Missing = tuple[RepublishResult, PartitionsNow, list[str]]


@dataclass
class _Restore(PreviewableClaimant[History, _Missing, RepublishResult]):
    """Adds what the metastore has lost; by a result, what an unpartitioned table shows now, and what readers leave."""

    opened: OpenTable
    recovery: Recovery
    chosen: Collection[PartitionValues] | None
    ended: tuple[str, ...] = ()  # what was in doubt

    def __post_init__(self) -> None:
        self.copies = SeparateCopies(self.opened)

    def read(self) -> History:
        return self.opened.log.read_history()

    def waits(self, view: History) -> bool:
        ended = self.recovery.end_doubts(view, self.opened.table)
        self.ended += ended or ()
        return ended is not None

    def look(self, view: History) -> Answer[RepublishResult] | Draft[_Missing]:
        opened, history, chosen = self.opened, view, self.chosen
        table = opened.table
        wanted = {
            values: current.partition.new_location
            for values, current in sorted(history.state.current_partitions.items())
            if current.partition.new_location is not None and (chosen is None or values in chosen)
        }
        require_known(chosen or (), history, table)
        now = opened.metastore.get_partitions(table, list(wanted))
        lost = {v: partition for v, partition in now.items() if _was_made_again(opened, v, partition)}
        missing = {v: location for v, location in wanted.items() if v not in now or v in lost}
        unsure = {} if chosen else _why_not_restored(history, missing)
        unsure |= there_under_other_names(opened.metastore, table, missing)
        sure = {values: location for values, location in missing.items() if values not in unsure}
        found, not_there = check_each(sure, partial(_check, opened, history, lost))
        partitions = self.copies.partitions_of(found, history)
        result = RepublishResult(
            version=None,
            partitions=partitions,
            not_there=not_there | unsure,
            present_count=len(now) - len(lost),
            notes=(*self.ended, *doubts(history), *self.copies.notes),
        )
        if not partitions:
            return Answer(result)
        before = locations(lost)
        partitions = tuple(replace(partition, old_location=before.get(partition.values)) for partition in partitions)
        entry = opened.next_entry(
            history.end,
            Operation.RESTORE,
            write_id=self.copies.write_id,
            partitions=partitions,
            **columns_of(history, history.newest, lost),
        )
        return Draft(entry, (result, lost, [str(there.described.new_location) for there in found if there.others]))

    def planned(self, draft: Draft[_Missing]) -> RepublishResult:
        return draft.basis[0]

    def before_claim(self, draft: Draft[_Missing]) -> Draft[_Missing]:
        entry = replace(draft.entry, replaced=left_locations(self.opened, draft.basis[2]))
        self.copies.make()
        return replace(draft, entry=entry)

    def carry_out(self, draft: Draft[_Missing], deadline: Deadline) -> Answer[RepublishResult]:
        entry, (result, lost, _) = draft.entry, draft.basis
        notes = result.notes + ClaimedEntries(self.opened).carry_out(self.opened.table, entry, lost, deadline)
        return Answer(replace(result, version=entry.version, notes=notes, write_id=entry.write_id))


def _was_made_again(opened: OpenTable, values: PartitionValues, partition: Partition) -> bool:
    """Return whether this is an unpartitioned table that is back at its root: it has lost its rows."""
    return values == () and Location.parse(partition.location).same_place(opened.layout.root)


def _is_lost(opened: OpenTable, history: History, values: PartitionValues, partition: Partition | None) -> bool:
    """Return whether the metastore has lost a partition of an entry in doubt, as far as anybody can tell.

    A write adds a partition again that another tool has dropped; so does an entry that is carried out later.
    """
    if partition is None:
        return True
    if not _was_made_again(opened, values, partition):
        return False
    try:
        refuse_new_files(opened.store, history, opened.layout.root)
    except NotThereError:
        return False
    return True


def _check(
    opened: OpenTable,
    history: History,
    lost: Mapping[PartitionValues, Partition],
    values: PartitionValues,
    location: str,
) -> FilesThere:
    if values in lost:
        refuse_new_files(opened.store, history, opened.layout.root)
    there = files_there(opened.store, history, values, Location.parse(location))
    return replace(there, described=replace(there.described, old_location=None, new_location=location))


def refuse_new_files(store: ObjectStore, history: History, place: Location) -> None:
    """Hide no rows: what readers of a table that was made again, or moved, see must be what was replaced there once.

    Not another file of the same name: Hive names its first file ``000000_0`` each time. Nor what an entry was about to
    replace that was abandoned.
    """
    replaced = (old for record in history.records.published for old in record.entry.replaced)
    listed: dict[str, list[ReplacedObject]] = {}
    for replaced_object in (found for old in replaced for found in old.objects):
        listed.setdefault(replaced_object.key, []).append(replaced_object)
    there = files_read_at(store, history.layout, place)
    if not all(any(is_same_file(found, old) for old in listed.get(found.key, ())) for found in there):
        raise NotThereError(
            f"readers see files in {place} that are not those which were replaced there: others have written since, or"
            " these were copied there. If they are old copies, move them away"
        )


def _why_not_restored(history: History, missing: Iterable[PartitionValues]) -> dict[PartitionValues, str]:
    """Return the partitions that a lost entry may have dropped or replaced: if added, they would show rows again."""
    after = {values: history.lost_after(history.state.current_partitions[values].version) for values in missing}
    return {
        values: f"version {lost}, which is lost, may have dropped or replaced it: name it if it is to be added"
        for values, lost in after.items()
        if lost is not None
    }
