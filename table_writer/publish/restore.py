"""Add the partitions that the log knows and the metastore does not: its database was lost, or a drop came late."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from table_writer.errors import InvalidInputError
from table_writer.log.deadline import Deadline
from table_writer.log.files import files_read_at
from table_writer.log.history import History
from table_writer.model.entry import EntryPartition, LogEntry, Operation
from table_writer.model.location import Location
from table_writer.model.partition_name import shown_name
from table_writer.model.table import Partition, PartitionValues, Table
from table_writer.model.write import new_write_id
from table_writer.publish.files_there import NotThereError, check_each, files_there, there_under_other_names
from table_writer.publish.parts import PublishParts
from table_writer.publish.switch import locations
from table_writer.storage.object_store import ObjectStore

__all__ = ["Restore", "Restored", "refuse_new_files"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Restored:
    """What a restore added, and what it could not."""

    version: int | None
    partitions: tuple[EntryPartition, ...]
    not_there: Mapping[PartitionValues, str]  # the reason why a partition was not added
    present_count: int  # partitions of the log that the metastore has
    notes: tuple[str, ...] = ()


class Restore:
    """Rebuilds partitions of one table from its log.

    Parameters
    ----------
    parts
        Services of the table.
    """

    def __init__(self, parts: PublishParts) -> None:
        self._parts = parts

    def run(self, table: Table, chosen: Collection[PartitionValues] | None, *, dry_run: bool) -> Restored:
        """Add all missing partitions at their newest published locations, in one metastore call.

        An unpartitioned table that was made again is pointed at its rows.

        Parameters
        ----------
        table
            Freshly read.
        chosen
            Only these partitions; ``None``: all that the log knows.
        dry_run
            Check everything and change nothing.

        Raises
        ------
        OutcomeUnknownError, MetastoreError, StorageError
            As for a write.
        """
        settled: tuple[str, ...] = ()
        while True:
            history, notes = self._parts.recovery.history_for(table, dry_run=dry_run)
            settled += notes
            wanted = {
                values: placed.partition.new_location
                for values, placed in sorted(history.current.items())
                if placed.partition.new_location is not None and (chosen is None or values in chosen)
            }
            _require_known(chosen, history, table)
            now = self._parts.metastore.get_partitions(table, list(wanted))
            lost = {values: one for values, one in now.items() if self._was_made_again(values, one)}
            missing = {v: location for v, location in wanted.items() if v not in now or v in lost}
            unsure = {} if chosen else _perhaps_dropped(history, missing)
            unsure |= there_under_other_names(self._parts.metastore, table, missing)
            sure = {values: location for values, location in missing.items() if values not in unsure}
            partitions, not_there = check_each(sure, partial(self._check, history, lost))
            found = Restored(
                version=None,
                partitions=partitions,
                not_there=not_there | unsure,
                present_count=len(now) - len(lost),
                notes=settled,
            )
            if dry_run or not partitions:
                return found
            before = locations(lost)
            partitions = tuple(replace(one, old_location=before.get(one.values)) for one in partitions)
            entry = self._entry(history, table, partitions)
            deadline = Deadline(self._parts.publish_timeout_seconds)
            if self._parts.claimed.claim(entry):
                notes = self._parts.claimed.carry_out(table, entry, lost, deadline)
                return replace(found, version=entry.version, notes=settled + notes)

    def _was_made_again(self, values: PartitionValues, now: Partition) -> bool:
        """Whether this is an unpartitioned table, back at its root: made again it exists, without its rows."""
        return values == () and Location.parse(now.location).same_place(self._parts.layout.root)

    def _check(
        self, history: History, lost: Mapping[PartitionValues, Partition], values: PartitionValues, location: str
    ) -> EntryPartition:
        if values in lost:
            refuse_new_files(self._parts.store, history, self._parts.layout.root)
        found = files_there(self._parts.store, history, values, Location.parse(location))
        return replace(found, old_location=None, new_location=location)

    def _entry(self, history: History, table: Table, partitions: tuple[EntryPartition, ...]) -> LogEntry:
        return LogEntry(
            table=str(table.name),
            version=history.newest + 1,
            write_id=new_write_id(),
            operation=Operation.RESTORE,
            mode="restore",
            created_at=datetime.now(UTC),
            base_version=history.newest,
            publish_timeout_seconds=self._parts.publish_timeout_seconds,
            partitions=partitions,
            writer=dict(self._parts.identity),
        )


def refuse_new_files(store: ObjectStore, history: History, place: Location) -> None:
    """Hide no rows: what readers of a table that was made again, or moved, see must be what was replaced there once."""
    listed = {found.key for record in history.records for one in record.entry.replaced for found in one.objects}
    if any(found.key not in listed for found in files_read_at(store, history.layout, place)):
        raise NotThereError(f"others have written into {place} since; readers see that now")


def _require_known(chosen: Collection[PartitionValues] | None, history: History, table: Table) -> None:
    unknown = [values for values in chosen or () if values not in history.current]
    if unknown:
        raise InvalidInputError(
            f"partition {shown_name(table, unknown[0])} of {table.name} is not in the log: this library never wrote it",
            table=str(table.name),
        )


def _perhaps_dropped(history: History, missing: Iterable[PartitionValues]) -> dict[PartitionValues, str]:
    """Return the partitions that a lost entry may have dropped or replaced: added, they would show rows again."""
    after = {values: history.lost_after(history.current[values].version) for values in missing}
    return {
        values: f"version {lost}, which is lost, may have dropped or replaced it: name it if it is to be added"
        for values, lost in after.items()
        if lost is not None
    }
