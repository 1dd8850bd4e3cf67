"""What a write would do to partitions, and what would stop it, wherever its rows come from; nothing is written."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from table_writer.config import WriteOptions
from table_writer.errors import counted, few
from table_writer.model.entry import EntryPartition
from table_writer.model.location import Location
from table_writer.model.meaning import Operation
from table_writer.model.partition_facts import PartitionFacts
from table_writer.model.partition_value import Spellings
from table_writer.model.table import Partition, PartitionValues, name_in, shown_name
from table_writer.model.write import Scope, new_write_id
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.records import LogEnd
from table_writer.protocol.log.rules import Standing, standing
from table_writer.protocol.table.open_table import OpenTable
from table_writer.reports.layout import size
from table_writer.storage.table_files import existing_values, files_of_each, why_not_copied

USUAL_DATE: Final = re.compile(r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}")
"""Dates of the years 1 to 9999, as Spark spells them: those that Arrow's engine can write."""


class LookAhead(ABC):
    """A look at the partitions that a write would change."""

    def __init__(self, opened: OpenTable, mode: WriteMode, options: WriteOptions, scope: Scope) -> None:
        self._opened = opened
        self._mode = mode
        self._options = options
        self._scope = scope

    @abstractmethod
    def _spellings(self, names: Collection[PartitionValues]) -> Spellings:
        """Sort partitions that exist by their values."""

    def _rows_and_partitions(
        self, rows: Mapping[PartitionValues, int]
    ) -> tuple[Mapping[PartitionValues, int], Mapping[PartitionValues, Partition]]:
        """Return the row counts, by the metastore's spelling, and the existing partitions that would change."""
        table, metastore = self._opened.table, self._opened.metastore
        names = metastore.get_partition_names(table.name)
        spellings = self._spellings(names)
        counts = {spellings.get(values, values): count for values, count in rows.items()}
        other_values = self._scope(names) - counts.keys()
        partitions_now = metastore.get_partitions(table, sorted({*counts, *other_values}))
        existing_now = existing_values(self._opened.store, self._opened.layout, partitions_now)
        return counts, {values: partition for values, partition in partitions_now.items() if values in existing_now}

    def _other_carry(self, carried_sizes: Mapping[PartitionValues, Sequence[int]]) -> Iterator[str]:
        """Say what an append would cost with the other ``carry``."""
        files, total = sum(map(len, carried_sizes.values())), f"{size(sum(map(sum, carried_sizes.values())))}"
        if files and self._options.carry == "in_place":
            yield f"carry='copy' would copy {counted(files, 'file')} ({total}), and show all rows at once"
        elif files:
            yield (
                f"carry='in_place' would copy none of these {counted(files, 'file')} ({total}); new files appear one by"
                " one then"
            )

    def _partitions(
        self,
        counts: Mapping[PartitionValues, int],
        partitions_now: Mapping[PartitionValues, Partition],
        carried_sizes: Mapping[PartitionValues, Sequence[int]],
    ) -> tuple[PartitionFacts, ...]:
        data = self._opened.layout.data(new_write_id())
        planned = []
        for values in sorted({*counts, *partitions_now}):
            name, rows, partition_now = (
                name_in(self._opened.table, values),
                counts.get(values, 0),
                partitions_now.get(values),
            )
            is_in_place = partition_now is not None and self._is_in_place(partition_now)
            copied_sizes = () if is_in_place else carried_sizes.get(values, ())
            planned.append(
                PartitionFacts(
                    name=name,
                    values=values,
                    action=self._action(rows or len(copied_sizes), partition_now),
                    location=str(partition_now.location if partition_now and is_in_place else data.child(name))
                    if rows or copied_sizes
                    else "",
                    rows=rows,
                    old_location=partition_now.location if partition_now and not is_in_place else None,
                    copied_files=len(copied_sizes),
                    copied_bytes=sum(copied_sizes),
                )
            )
        return tuple(planned)

    def _is_in_place(self, partition: Partition) -> bool:
        """Return whether files are added at the location that the partition has."""
        is_append = self._mode.facts.keeps_rows and self._options.carry == "in_place"
        return is_append and not self._opened.layout.is_placeholder(Location.parse(partition.location))

    def _action(self, holds: int, partition: Partition | None) -> str:
        if not holds:
            return "empty"
        if partition is None:
            return "add"
        return "append" if self._mode.facts.keeps_rows else "replace"

    def _sizes(self, partitions_now: Mapping[PartitionValues, Partition]) -> dict[PartitionValues, list[int]]:
        """Return the sizes of the files that an append copies; none where the append would be refused."""
        layout = self._opened.layout
        places = {
            values: Location.parse(partition.location)
            for values, partition in partitions_now.items()
            if not why_not_copied(layout, partition)
        }
        files = files_of_each(self._opened.store, layout, places.values())
        return {values: [file.size_bytes for file in files[place]] for values, place in places.items()}

    def _uncopied_partitions(self, partitions_now: Mapping[PartitionValues, Partition]) -> Iterator[str]:
        """Name the partitions for which an append would be refused."""
        for values, partition in sorted(partitions_now.items()) if self._mode.facts.keeps_rows else ():
            if reason := why_not_copied(self._opened.layout, partition):
                yield (
                    f"{shown_name(self._opened.table, values)} {reason}: its files cannot be put beside new ones;"
                    f" replace it with {self._opened.table.overwrite_call}"
                )

    def _conflicts_since(self, based_on: int | None, values: Collection[PartitionValues]) -> Iterator[str]:
        """Name the versions after ``based_on`` that the write would conflict with."""
        if based_on is None:
            return
        log = self._opened.log
        draft = self._opened.next_entry(
            LogEnd(based_on),
            Operation.WRITE,
            mode=self._mode,
            partitions=tuple(EntryPartition.without_rows(named_values, None) for named_values in values),
        )
        unseen = log.unseen_at(based_on)
        listing = log.lister.read(listed_after=min({based_on, *(v - 1 for v in unseen)}))
        if not unseen <= listing.versions:
            yield f"what happened since based_on={based_on} cannot be told: entries of then were trimmed, or are lost"
        for record in log.read_history(listing).records:
            if standing(record, draft, unseen, scope=self._scope) is Standing.CONFLICT:
                yield f"version {record.entry.version} has published partitions of it after based_on={based_on}"

    def _problems(self, planned: tuple[PartitionFacts, ...]) -> Iterator[str]:
        existing_names = [partition.name for partition in planned if partition.replaced_location is not None]
        if self._mode.facts.only_creates and existing_names:
            yield f"{counted(len(existing_names), 'partition')} already there: {few(existing_names, most=3)}"
        copied_bytes, limit = sum(partition.copied_bytes for partition in planned), self._options.max_copied_bytes
        if limit is not None and copied_bytes > limit:
            yield (
                f"{size(copied_bytes)} would have to be copied, above max_copied_bytes={limit}: partition more finely,"
                f" or use {self._opened.table.overwrite_call}"
            )
        selected = self._scope([partition.values for partition in planned])
        outside_names = [
            partition.name for partition in planned if self._options.where and partition.values not in selected
        ]
        if outside_names:
            yield (
                f"the DataFrame has rows in {counted(len(outside_names), 'partition')} that"
                f" where={self._options.where!r} does not select: {few(outside_names, most=3)}"
            )
        if self._options.if_empty == "error" and not any(partition.rows for partition in planned):
            yield "the DataFrame has no rows, and if_empty='error'"
