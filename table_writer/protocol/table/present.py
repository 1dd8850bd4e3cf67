"""The rows that readers see now: which version wrote those of each partition, as far as the log knows.

A partition that exists says nothing of its rows: they may be of last week. The metastore says where readers look, the
log which entry has put them there, and the entries behind that one whose rows they are: a rollback shows rows of an
earlier version again, and a compaction changes none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from table_writer.model.entry import LogEntry
from table_writer.model.location import Location, same_place
from table_writer.model.partition_facts import PartitionNow
from table_writer.model.table import Partition, PartitionValues, shown_name
from table_writer.protocol.log.changes import writes_behind
from table_writer.protocol.log.history import History
from table_writer.protocol.log.placements import Placement
from table_writer.protocol.log.records import SlotRecord
from table_writer.protocol.log.state import CurrentPartition
from table_writer.protocol.table.open_table import OpenTable
from table_writer.storage.object_store import many
from table_writer.storage.table_files import existing_values

PUBLISHED: Final = "published"
MISSING: Final = "missing"
IN_DOUBT: Final = "in doubt"
NOT_KNOWN: Final = "not known"


def placements_now(
    history: History, now: Mapping[PartitionValues, Partition], others: Iterable[PartitionValues] = ()
) -> dict[PartitionValues, Placement | None]:
    """Say where the metastore has the log's partitions, at a moment at which publishes may be at work, and some others.

    What a publish in doubt names is in doubt, unless readers find it where the newest published entry has put it.
    ``None``: the log does not know it, or no version has it and no late call has brought it.
    """
    doubtful, known = _doubtful(history), history.placements

    def where(values: PartitionValues) -> Placement | None:
        current, seen = history.state.current_partitions.get(values), now.get(values)
        here = None if seen is None else seen.location
        is_known = current is not None or known.correction_of(values, here) is not None
        placement = known.of(values, here) if is_known else None
        is_found = (
            current is not None and current.partition.new_location is not None and placement is Placement.IN_PLACE
        )
        return Placement.IN_DOUBT if values in doubtful and not is_found else placement

    return {values: where(values) for values in {*known.known_values, *others}}


def _doubtful(history: History) -> dict[PartitionValues, int]:
    """Return the partitions that publishes in doubt may have moved, with the newest version that names each."""
    doubted = (record.entry for record in history.records.publishes_in_doubt)
    return {values: entry.version for entry in doubted for values in entry.partition_values}


class Present:
    """The partitions of one table now. The metastore is read before the log: its entries explain what was seen."""

    def __init__(self, opened: OpenTable, wanted: Sequence[PartitionValues] | None) -> None:
        self._opened = opened
        metastore, table = opened.metastore, opened.table
        self._now = metastore.get_all_partitions(table) if wanted is None else metastore.get_partitions(table, wanted)
        self._existing = existing_values(opened.store, opened.layout, self._now)  # those that are more than a name
        self._history = history = opened.log.read_recent()
        self._wanted = (
            sorted({*self._now, *history.state.current_partitions}) if wanted is None else list(dict.fromkeys(wanted))
        )
        self._where = placements_now(history, self._now, self._wanted)
        self._doubtful = _doubtful(history)
        self._held = history.state.current_contents()

    def __iter__(self) -> Iterator[PartitionNow]:
        """Yield each partition in its order: those that were asked for, or all of them by their values."""
        placed = {
            self._history.state.current_partitions[values].version for values in self._wanted if self._is_found(values)
        }
        many(self._opened.log.slots.find, placed)  # several at once: the log keeps what it has read
        return map(self._rows_of, self._wanted)

    @cached_property
    def _whole_history(self) -> History:
        """All records that are left, where the newest entry of a partition did not write its rows itself."""
        return self._opened.log.read_history()

    def _is_found(self, values: PartitionValues) -> bool:
        """Return whether readers look where the newest published entry put a partition, and find more than a name."""
        if values not in self._existing or self._where[values] is not Placement.IN_PLACE:
            return False
        return self._history.state.current_partitions[values].partition.new_location is not None

    def _rows_of(self, values: PartitionValues) -> PartitionNow:
        current = self._history.state.current_partitions.get(values)
        if self._is_found(values):
            return self._of_a_version(values)
        if self._where[values] is Placement.IN_DOUBT:
            note = f"version {self._doubtful[values]} is being published, or was left in doubt: `recover` resolves it"
            return self._partition(values, IN_DOUBT, note)
        if values not in self._existing:
            return self._partition(values, MISSING, _why_missing(current))
        if current is None and self._where[values] is Placement.BEHIND:
            return self._partition(values, NOT_KNOWN, "a late call of a write that was given up; `recover` undoes it")
        if current is None:
            why = "another tool has written it, if anybody has, and of when its rows are, the log can't know"
            return self._partition(values, NOT_KNOWN, why)
        why = f"readers look elsewhere than where version {current.version} has put it: it has just been published, or"
        what = "another tool or a late call has moved it; `recover` says which, and corrects a late call"
        return self._partition(values, NOT_KNOWN, f"{why} {what}")

    def _of_a_version(self, values: PartitionValues) -> PartitionNow:
        current = self._history.state.current_partitions[values]
        beside_others = not current.partition.holds_all and values not in self._held  # whose rows nobody has counted
        content = self._held.get(values, current.partition)
        rows = None if beside_others else content.rows
        newest = self._opened.log.slots.find(current.version)
        is_write = newest is not None and newest.entry.meaning.brings_rows
        wrote = newest if is_write else self._writer_of(values, current.version)
        if wrote is not None:
            return self._partition(values, PUBLISHED, wrote=wrote.entry, rows=rows)
        if self._opened.layout.write_id_of(Location.parse(str(current.partition.new_location))) is None:
            return self._partition(
                values, NOT_KNOWN, f"version {current.version} has put back the rows of another tool"
            )
        note = f"its rows are older than version {current.version}: a vacuum has trimmed the entry that wrote them"
        return self._partition(values, PUBLISHED, note, rows=rows)

    def _writer_of(self, values: PartitionValues, version: int) -> SlotRecord | None:
        """Return the entry whose rows a later one has only put back, moved or compacted; ``None`` if it is trimmed."""
        history = self._whole_history
        wrote, named = next(writes_behind(history, values, version), (None, None))
        if wrote is None or named is None:
            return None
        if named.holds_all:  # a recovery may have carried out a rollback: the first entry that came here wrote the rows
            place = named.new_location
            came = [
                record
                for record, other in history.records.published_of(values)
                if same_place(other.new_location, place)
            ]
            wrote = next((record for record in reversed(came) if record.entry.version <= wrote.entry.version), wrote)
        if wrote.entry.mode is None:
            return None  # a rollback, a restore or a compaction is the oldest that is left
        first = wrote.entry.recovers or wrote.entry.version  # a correction shows again what that entry had published
        return wrote if history.records.has_all(first, version) else None

    def _partition(
        self,
        values: PartitionValues,
        state: str,
        note: str = "",
        *,
        wrote: LogEntry | None = None,
        rows: int | None = None,
    ) -> PartitionNow:
        """Describe a partition; ``wrote`` is the newest entry of which readers see rows."""
        return PartitionNow(
            name=shown_name(self._opened.table, values),
            state=state,
            version=wrote.version if wrote else None,
            write_id=(wrote.recovered_write_id or wrote.write_id) if wrote else None,
            published_at=wrote.created_at if wrote else None,
            rows=rows,
            note=note,
        )


def _why_missing(current: CurrentPartition | None) -> str:
    if current is None:
        return "it was never written"
    return f"{'another tool' if current.partition.new_location else f'version {current.version}'} has dropped it"
