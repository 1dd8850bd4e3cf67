"""A write whose query reads its own table is published only if readers see what the query has read.

The log tells what this library has published since the plan. It does not tell what a session remembers: cached rows,
lists of files, the location of an unpartitioned table; nor what other tools have written since. Files do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from table_writer.errors import ConflictError, InvalidInputError, counted, few
from table_writer.model.location import Location, Place, PlaceSet
from table_writer.model.table import PartitionsNow, PartitionValues, partition_values
from table_writer.model.table_read import Files, ReadOf, TableRead, same_files
from table_writer.model.write import WritePlan
from table_writer.protocol.log.history import History
from table_writer.protocol.log.records import SlotRecord
from table_writer.protocol.table.open_table import OpenTable
from table_writer.storage.object_store import many
from table_writer.storage.table_files import listed_files


def require_as_read(
    opened: OpenTable, plan: WritePlan, now: PartitionsNow, written: Collection[PartitionValues]
) -> None:
    """Raise ``ConflictError`` if a partition of the write is not as the query behind its rows has read it.

    ``now`` is where readers look for those of the ``written`` partitions that exist. A caller who says what the rows
    are based on is believed about older versions and paths, which are read on purpose, and not about the table itself.
    """
    counting = [read for read in plan.reads if read.of is ReadOf.TABLE or plan.based_on is None]
    if not counting or not written:
        return
    look = _ReadCheck(opened, plan, now, frozenset(written))
    stale = frozenset(values for read in counting for values in look.changed_partitions(read))
    if stale:
        names = few(opened.partition_names(stale), most=3)
        raise ConflictError(
            f"the rows of write {plan.write_id} were computed from {plan.table.name}, and not from what its readers see"
            f" now: {counted(len(stale), 'partition')} changed since they were read, or since Spark listed or cached"
            f" the files: {names}. Nothing was published. Read the table again, and write again.",
            **plan.named,
        )


def require_not_erased(opened: OpenTable, plan: WritePlan, records: Iterable[SlotRecord] | None = None) -> None:
    """Raise ``ConflictError`` if the query behind the rows has read what an erasure names, and would bring it back.

    That is a query of an older version, or of paths: what is read of the table itself is compared with what readers
    see. It may have been made before the erasure, and the write planned afterwards: so the whole log is asked.
    ``records`` are those that the write has not seen ended, for the question just before the claim.
    """
    places = {place for read in plan.reads if read.of is not ReadOf.TABLE for place in read.files}
    if plan.based_on is not None:  # a change of rows replaces the partitions that it has read, and they are compared
        places -= {place for read in plan.reads if read.of is ReadOf.TABLE for place in read.files}
    if not places:
        return
    around = frozenset().union(*(opened.layout.places_around(Location(*place)) for place in places))
    for record in opened.log.read_history().records if records is None else records:
        if record.erased_places & around:
            raise ConflictError(
                f"the rows of write {plan.write_id} were computed from files of {plan.table.name} that are"
                f" {record.entry.erased}. Nothing was published. Read the table again, and write again.",
                **plan.named,
            )


def read_now(opened: OpenTable, now: PartitionsNow) -> TableRead:
    """Return the read of what readers see of some partitions."""
    parsed = (Location.parse_any(partition.location) for partition in now.values())
    places = {location.place: location for location in parsed if location is not None}
    listed = many(lambda location: listed_files(opened.store, opened.layout, location), places.values())
    return TableRead(of=ReadOf.TABLE, files=dict(zip(places, listed, strict=True)), covers=frozenset)


@dataclass(frozen=True)
class _ReadCheck:
    """The partitions of one write as readers see them just before the claim."""

    opened: OpenTable
    plan: WritePlan
    now: PartitionsNow
    written: frozenset[PartitionValues]

    def changed_partitions(self, read: TableRead) -> Iterator[PartitionValues]:
        """Yield the partitions that are not as they were read; one that a compaction has moved is."""
        here = {values: location for values, location in self._locations.items() if location.place in read.files}
        for (values, location), files in zip(here.items(), many(self._files, here.values()), strict=True):
            if not same_files(read.files[location.place], files):
                yield values
        elsewhere = self._locations.keys() - here.keys()
        unseen = read.covers(elsewhere) if elsewhere and read.of is not ReadOf.PATHS else frozenset()
        with_rows = {values for values in unseen if not same_files({}, self._files(self._locations[values]))}
        places = PlaceSet(self._places)  # with directories below them, which a table may read too
        gone = (place for place in read.files if not places.holds(place))
        left = {values for place in gone for values in self._read_before(place, read)}
        yield from (values for values in with_rows | left if not self._is_compacted(values, read))

    @cached_property
    def _locations(self) -> Mapping[PartitionValues, Location]:
        parsed = {values: Location.parse_any(partition.location) for values, partition in self.now.items()}
        return {values: location for values, location in parsed.items() if location is not None}

    @cached_property
    def _places(self) -> frozenset[Place]:
        return frozenset(location.place for location in self._locations.values())

    @cached_property
    def _history(self) -> History:
        return self.opened.log.read_history()

    @cached_property
    def _former_places(self) -> Mapping[Place, PartitionValues]:
        """Return the places where readers have looked for each partition, as far as the log still says."""
        named = (partition for record in self._history.records.published for partition in record.entry.partitions)
        texts = (
            (partition.values, text)
            for partition in named
            for text in (partition.old_location, partition.new_location)
            if text
        )
        parsed = ((values, Location.parse_any(text)) for values, text in texts)
        return {location.place: values for values, location in parsed if location is not None}

    def _files(self, location: Location) -> Files:
        return listed_files(self.opened.store, self.opened.layout, location)

    def _read_before(self, place: Place, read: TableRead) -> Iterator[PartitionValues]:
        """Yield the partition of the write whose rows were read at a place where readers look for none of them now."""
        values = self._values_of(place)
        if values is not None and values not in self.written:
            return
        if read.of is ReadOf.PATHS:  # readers may never have looked there
            values = self._former_places.get(place)
        elif values is None:
            values = self._former_places.get(place, min(self.written))
        if values in self.written and not same_files({}, read.files[place]):
            yield values

    def _values_of(self, place: Place) -> PartitionValues | None:
        """Read a partition out of the names of its directories, as this library, Spark and Hive make them."""
        width = len(self.plan.table.partition_columns)
        names = [name for name in place[2].split("/") if name][-width:] if width else []
        try:
            values = partition_values("/".join(names)) if names else ()
        except InvalidInputError:
            return None
        return self.plan.spelled(values) if len(values) == width else None

    def _is_compacted(self, values: PartitionValues, read: TableRead) -> bool:
        """Return whether nothing but compactions have moved a partition since it was read, and no row came or went."""
        location = self._locations.get(values)
        if location is None:
            return False
        known = self._history.past.content_at(values, location)
        files = {name: facts for name, facts in self._files(location).items() if facts[0]}
        if known is None or (known.files, known.bytes) != (len(files), sum(size for size, _ in files.values())):
            return False
        for record, partition in self._history.records.published_of(values):
            old = Location.parse_any(partition.old_location or "")
            if not record.entry.is_compaction or old is None or known.rows is None:
                return False
            before = self._history.past.content_at(values, old, version=record.entry.version - 1)
            if before is None or before.rows != known.rows:
                return False
            held = read.files.get(old.place)
            if held is not None:
                sizes = [size for size, _ in held.values() if size]
                return (len(sizes), sum(sizes)) == (before.files, before.bytes)
        return False
