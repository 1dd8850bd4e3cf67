"""Add the partitions that the log knows and the metastore does not: its database was lost, or a drop came late."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial

from table_writer.errors import few
from table_writer.log.history import History
from table_writer.model.entry import EntryPartition, Operation
from table_writer.model.location import Location
from table_writer.model.table import Partition, PartitionValues, locations
from table_writer.steps.publish.entry import (
    NotThereError,
    RepublishResult,
    check_each,
    columns_of,
    files_there,
    require_known,
    there_under_other_names,
)
from table_writer.steps.publish.recovery import Recovery
from table_writer.steps.publish.switch import ClaimedEntries
from table_writer.storage.object_store import ObjectStore
from table_writer.storage.table_files import files_read_at
from table_writer.table.open_table import OpenTable


def restore_partitions(
    opened: OpenTable, chosen: Collection[PartitionValues] | None, *, dry_run: bool
) -> RepublishResult:
    """Add all missing partitions, or the chosen ones, at their newest published locations, in one metastore call.

    An unpartitioned table that was made again is pointed at its rows. Raises as a write does.
    """
    table, claimed, recovery = opened.table, ClaimedEntries(opened), Recovery(opened)
    resolved: tuple[str, ...] = ()
    while True:
        history, notes = recovery.history_for(table, dry_run=dry_run)
        resolved += notes
        wanted = {
            values: current.partition.new_location
            for values, current in sorted(history.state.current_partitions.items())
            if current.partition.new_location is not None and (chosen is None or values in chosen)
        }
        require_known(chosen or (), history, table)
        now = opened.metastore.get_partitions(table, list(wanted))
        root = opened.layout.root  # an unpartitioned table that is back there was made again: it has lost its rows
        lost: dict[PartitionValues, Partition] = {
            v: partition
            for v, partition in now.items()
            if v == () and Location.parse(partition.location).same_place(root)
        }
        missing = {v: location for v, location in wanted.items() if v not in now or v in lost}
        unsure = {} if chosen else _why_not_restored(history, missing)
        unsure |= there_under_other_names(opened.metastore, table, missing)
        sure = {values: location for values, location in missing.items() if values not in unsure}
        partitions, not_there = check_each(sure, partial(_check, opened, history, lost))
        result = RepublishResult(
            version=None,
            partitions=partitions,
            not_there=not_there | unsure,
            present_count=len(now) - len(lost),
            notes=resolved,
        )
        if dry_run or not partitions:
            return result
        before = locations(lost)
        partitions = tuple(replace(partition, old_location=before.get(partition.values)) for partition in partitions)
        columns = columns_of(history, history.newest, lost)
        entry = opened.next_entry(history.last_slot, Operation.RESTORE, "restore", partitions=partitions, **columns)
        deadline = opened.deadline(entry)
        if claimed.claim(entry):
            notes = claimed.carry_out(table, entry, lost, deadline)
            return replace(result, version=entry.version, notes=resolved + notes, write_id=entry.write_id)


def _check(
    opened: OpenTable,
    history: History,
    lost: Mapping[PartitionValues, Partition],
    values: PartitionValues,
    location: str,
) -> EntryPartition:
    if values in lost:
        refuse_new_files(opened.store, history, opened.layout.root)
    there = files_there(opened.store, history, values, Location.parse(location))
    if there.others:
        raise NotThereError(
            f"files of an append that was given up may lie at {location}, too, or come there for a day: delete them"
            f" ({few(sorted(there.others), most=3)}) and add the partition by hand (ALTER TABLE"
            f" {opened.table.name.sql} ADD PARTITION ... LOCATION)"
        )
    return replace(there.described, old_location=None, new_location=location)


def refuse_new_files(store: ObjectStore, history: History, place: Location) -> None:
    """Hide no rows: what readers of a table that was made again, or moved, see must be what was replaced there once."""
    replaced = (old for record in history.records for old in record.entry.replaced)
    listed = {found.key for old in replaced for found in old.objects}
    if any(found.key not in listed for found in files_read_at(store, history.layout, place)):
        raise NotThereError(f"others have written into {place} since; readers see that now")


def _why_not_restored(history: History, missing: Iterable[PartitionValues]) -> dict[PartitionValues, str]:
    """Return the partitions that a lost entry may have dropped or replaced: if added, they would show rows again."""
    after = {values: history.lost_after(history.state.current_partitions[values].version) for values in missing}
    return {
        values: f"version {lost}, which is lost, may have dropped or replaced it: name it if it is to be added"
        for values, lost in after.items()
        if lost is not None
    }
