"""The evidence of a recovery: where each partition stands, which files are there, what has changed since."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from table_writer.model.contents import Contents
from table_writer.model.entry import EntryPartition, LogEntry
from table_writer.model.location import Location, same_place
from table_writer.model.message import write_id_in
from table_writer.model.table import WRITE_ID_PARAMETER, Partition, PartitionsNow, PartitionValues, locations
from table_writer.protocol.log import rules
from table_writer.protocol.log.history import History
from table_writer.protocol.log.placements import Placement
from table_writer.protocol.log.rules import PartitionState
from table_writer.protocol.operations.entry import NotThereError, check_each, there_under_other_names
from table_writer.protocol.operations.in_place import require_files, whole_partitions
from table_writer.protocol.operations.switch import states
from table_writer.protocol.table.open_table import OpenTable
from table_writer.storage.object_store import is_hidden
from table_writer.storage.table_files import files_read_at, written_placeholders

LostTest = Callable[[History, PartitionValues, Partition | None], bool]
"""Whether the metastore has lost a partition: else another tool has dropped or moved it."""


def never(*_: object) -> bool:
    """Take no partition for lost."""
    return False


class Evidence:
    """Looks at what an entry in doubt has done, and at what has come in its way."""

    def __init__(self, opened: OpenTable, is_lost: LostTest = never) -> None:
        self._log, self._store, self._layout = opened.log, opened.store, opened.layout
        self._metastore, self._table = opened.metastore, opened.table
        self._is_lost = is_lost

    def states(self, entry: LogEntry, now: PartitionsNow) -> dict[PartitionValues, PartitionState]:
        """Tell other tools from late calls of this library; for that the whole log is read, which is rarely needed.

        What the metastore has lost is as it was before the entry, or the entry would be torn: done where there was
        nothing to lose, and given up elsewhere.
        """
        whole = whole_partitions(self._store, entry.partitions)
        found, here = states(entry, now, self._layout, whole), locations(now)
        if PartitionState.SUPERSEDED in found.values():
            history = self._log.read_history()
            ids = self._chain_of(entry)
            for partition in entry.partitions:
                state = rules.recovered_state(
                    history, partition, here.get(partition.values), copied=partition.values in whole
                )
                shown = now.get(partition.values)
                if state is PartitionState.SUPERSEDED and self._is_lost(history, partition.values, shown):
                    state = PartitionState.BEFORE
                had_switched = partition.is_done_by_switch and _writer_of(shown) in ids
                found[partition.values] = (
                    PartitionState.SWITCHED_THEN_MOVED if state is PartitionState.SUPERSEDED and had_switched else state
                )
        added = [
            named.values
            for named in entry.partitions
            if named.values not in now and named.new_location and found[named.values] is PartitionState.BEFORE
        ]
        spelled_otherwise = there_under_other_names(self._metastore, self._table, added)
        found |= dict.fromkeys(spelled_otherwise, PartitionState.SUPERSEDED)
        wanted = {named.values: named for named in entry.partitions}
        for values in written_placeholders(self._store, self._layout, now) & found.keys():
            # another tool's rows stay: an entry that wants the partition gone has nothing left to do
            if wanted[values].new_location is None:
                found[values] = PartitionState.DONE
            elif not same_place(wanted[values].old_location, here[values]):  # if same, it has seen the rows there
                found[values] = PartitionState.SUPERSEDED
        return found

    def _chain_of(self, entry: LogEntry) -> frozenset[str]:
        """Return the ids in whose name the entry that is recovered may have been switched, by whomever."""
        ids, earlier = {entry.recovered_write_id}, self._log.slots.find(entry.recovers or 0)
        while earlier is not None:
            ids.add(earlier.entry.write_id)
            earlier = self._log.slots.find(earlier.entry.recovers or 0)
        return frozenset(ids)

    def lost_files(
        self, partitions: Iterable[EntryPartition], found: Mapping[PartitionValues, PartitionState]
    ) -> dict[PartitionValues, str]:
        """Return which files are missing of the partitions that readers do not look at yet."""
        ours = {
            partition.values: partition
            for partition in partitions
            if partition.new_location is not None
            and found[partition.values] is PartitionState.BEFORE
            and self._layout.all_data.contains(Location.parse(str(partition.own_location)))
        }
        _, lost = check_each(ours, lambda _, partition: require_files(self._store, self._layout, partition))
        return lost

    def why_not_carried_out(
        self, entry: LogEntry, found: Mapping[PartitionValues, PartitionState], here: Mapping[PartitionValues, str]
    ) -> dict[PartitionValues, str]:
        """Return why partitions are not switched to rows that were made of those which they had before the claim.

        Another tool may have inserted into them since, for days: its rows would be gone. That is so of copies, and of
        rows that were computed. A compaction changes no rows, and is never carried out by others. A partition that did
        not exist had no rows; one that was not shown to the writer, as AWS Glue hides some from a role, has them still.
        """
        before = {
            partition.values: partition
            for partition in entry.partitions
            if found[partition.values] is PartitionState.BEFORE and partition.left_location is not None
        }
        if hidden := self._hidden(entry, found, here):
            return dict.fromkeys(hidden, "it is there, and was not shown to the write, which has none of its rows")
        if entry.is_compaction:
            return dict.fromkeys(before, "a compaction is begun anew")
        if entry.keeps_rows:
            _, changed = check_each(before, lambda _, partition: self._require_copied(partition, entry))
        elif entry.depends_on_rows and before:
            history = self._log.read_history()
            _, changed = check_each(before, lambda _, partition: self._require_unchanged(partition, entry, history))
        else:
            changed = {}
        return changed

    def _hidden(
        self, entry: LogEntry, found: Mapping[PartitionValues, PartitionState], here: Mapping[PartitionValues, str]
    ) -> frozenset[PartitionValues]:
        """Return the partitions that an entry adds, and that are where the newest version before it has put them.

        Not at a placeholder: the entry's own call has added it. Nor if a call of that version may have come late, and
        brought back what another tool had dropped.
        """
        mode = entry.mode
        builds_on_rows = entry.depends_on_rows or (mode is not None and mode.facts.builds_on_what_is_there)
        added = {
            partition.values: here[partition.values]
            for partition in entry.partitions
            if partition.old_location is None
            and found[partition.values] is PartitionState.BEFORE
            and partition.values in here
            and not self._layout.is_placeholder(Location.parse(here[partition.values]))
        }
        if not builds_on_rows or not added:
            return frozenset()
        history = self._log.read_history()
        by_version, current = history.records.by_version, history.state.current_partitions
        recoveries = frozenset(history.unverified or ())
        recoveries -= self._log.marks.past_calls(recoveries)
        may_come_late = {by_version[version].entry.recovers for version in recoveries & by_version.keys()} | recoveries
        return frozenset(
            values
            for values, place in added.items()
            if history.placements.of(values, place) is Placement.IN_PLACE
            and values in current
            and current[values].version not in may_come_late
        )

    def _require_unchanged(self, partition: EntryPartition, entry: LogEntry, history: History) -> EntryPartition:
        """Return a partition whose files are those that the log knows, or that other tools had when it was claimed."""
        place = Location.parse(str(partition.old_location))
        surplus = history.past.surplus_names(place, history.newest)
        names = {file: file.key.removeprefix(place.key) for file in files_read_at(self._store, self._layout, place)}
        files = [file for file, name in names.items() if name not in surplus]
        known = history.past.content_at(partition.values, place)
        listed = [old.objects for old in entry.replaced if same_place(old.location, partition.old_location)]
        if known is not None:
            is_same = Contents.of(files) == known.contents
        elif self._layout.is_placeholder(place):
            is_same = not files
        else:
            visible = (found for objects in listed for found in objects if not is_hidden(found.key.rpartition("/")[2]))
            is_same = bool(listed) and {(file.key, file.size_bytes, file.etag) for file in files} == {
                (found.key, found.size_bytes, found.etag) for found in visible
            }
        if not is_same:
            raise NotThereError(f"files at {place} are not those any more of which its rows were computed")
        return partition

    def _require_copied(self, partition: EntryPartition, entry: LogEntry) -> EntryPartition:
        """Return a partition that holds what an append has copied, no file more and none less.

        Where it was then is what counts: an older call may have come since, and taken it elsewhere.
        """
        place = Location.parse(str(partition.old_location))
        target = Location.parse(str(partition.new_location))
        listed = ((where, files_read_at(self._store, self._layout, where)) for where in (place, target))
        sources_now, there = ({file.key.removeprefix(at.key): file for file in files} for at, files in listed)
        own_id = entry.recovered_write_id
        copies = {
            name: file for name, file in there.items() if write_id_in(name.rpartition("/")[2], (own_id,)) != own_id
        }
        changed = sources_now.keys() ^ copies.keys() | {
            name
            for name in sources_now.keys() & copies.keys()
            if sources_now[name].size_bytes != copies[name].size_bytes
            or sources_now[name].modified_at > copies[name].modified_at
        }
        if changed:
            raise NotThereError(f"files at {place} have changed since they were copied, for example {min(changed)}")
        return partition


def _writer_of(partition: Partition | None) -> str | None:
    return None if partition is None else partition.parameters.get(WRITE_ID_PARAMETER)
