"""An erasure: what may hold deleted rows, of all that readers have left, is named for the next vacuum."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Final

from pyspark.sql import SparkSession

from table_writer.errors import InvalidInputError, TableWriterError, counted
from table_writer.log.history import History
from table_writer.model.entry import Erasure, LogEntry
from table_writer.model.location import Location, Place
from table_writer.model.partition_value import canonical
from table_writer.model.table import PartitionValues, PastPartition, name_in, partition_values, shown_name
from table_writer.reports.rows_result import RowsResult
from table_writer.spark import open_gateway
from table_writer.spark.sql import SPARK_ERRORS, fetched
from table_writer.steps.rows.expressions import Predicate, predicate_of
from table_writer.steps.rows.hits import place_and_name
from table_writer.steps.rows.snapshot import FILE
from table_writer.steps.rows.where import DeletedWhere, NamedTable
from table_writer.steps.vacuum.sweep import FoundLocation, Vacuum
from table_writer.storage.object_store import ObjectInfo, is_hidden
from table_writer.table.open_table import OpenTable

READ_ERRORS: Final[tuple[type[Exception], ...]] = (*SPARK_ERRORS, InvalidInputError)


@dataclass(frozen=True, slots=True)
class LeftFiles:
    """The files in one directory of a location that readers have left."""

    directory: Location
    values: PartitionValues | None  # the partition; None: nobody knows of which they are
    files: tuple[ObjectInfo, ...]


@dataclass
class Erasing:
    """Names the objects that may hold the rows which a delete has taken from readers.

    Those are all that readers have left of the partitions which the delete has changed, and of other partitions what
    holds a row that the predicate is true of: such a row may have moved, or been replaced.
    """

    spark: SparkSession
    opened: OpenTable
    change: DeletedWhere
    _changed: frozenset[PartitionValues] = frozenset()
    _owners: dict[Place, PartitionValues] = field(default_factory=dict)  # of locations, by the log's entries
    _of_other_columns: set[Place] = field(default_factory=set)  # locations that were written with other columns
    _are_hit: dict[Place, bool] = field(default_factory=dict)  # by directory
    _unread: dict[Place, str] = field(default_factory=dict)  # why a directory could not be looked through

    def after(self, deleted: RowsResult) -> RowsResult:
        """Claim the erasure, and add to the delete's result what a person has to know."""
        predicate = self.change.predicate
        text = predicate if isinstance(predicate, str) else str(predicate)
        try:
            self._know_locations()
            erasure = Erasure(
                predicate_sha256=hashlib.sha256(text.encode()).hexdigest(),
                deleted_rows=deleted.deleted,
                write_id=deleted.write_id,
                remarks=self._remarks_on(deleted),
            )
            entry = Vacuum(self.opened).erase(erasure, self._choose)
        except TableWriterError as error:
            done = f"Version {deleted.version} has deleted the rows" if deleted.version else "Readers see no such row"
            error.add(f"{done}; what older versions hold of them is not to be erased yet: call it again.")
            raise
        return replace(deleted, write_id=deleted.write_id or entry.write_id, notes=(*deleted.notes, _note(entry)))

    def _know_locations(self) -> None:
        """Learn from the log which partition each location was of, and which were written with other columns."""
        for entry in (record.entry for record in self.opened.log.read_history().records):
            is_of_today = not entry.schema or entry.columns_by == self.opened.table.columns_by
            for partition in entry.partitions:
                for location in filter(None, map(Location.parse_any, partition.locations)):
                    self._owners.setdefault(location.place, partition.values)
                new_location = None if is_of_today else Location.parse_any(partition.new_location or "")
                self._of_other_columns |= {new_location.place} if new_location else set()

    def _remarks_on(self, deleted: RowsResult) -> tuple[str, ...]:
        """Note the partitions that the delete has changed; name files that are no vacuum's to delete."""
        remarks: list[str] = []
        if not self._predicate.is_pure:
            remarks.append("of other partitions' older rows the predicate was asked after the delete: it may differ")
        record = self.opened.log.slots.find(deleted.version) if deleted.version else None
        if record is not None:
            self._changed = frozenset(map(self._canonical, record.entry.partition_values))
            texts = (partition.old_location for partition in record.entry.partitions if partition.old_location)
            outside = (text for text in texts if not self.opened.layout.root.contains(Location.parse(text)))
            remarks += [f"{text} is not below the table's own directory: delete it yourself" for text in outside]
        return tuple(remarks)

    @property
    def _named_table(self) -> NamedTable:
        return NamedTable(self.spark, self.opened.table, self.change.names)

    @cached_property
    def _predicate(self) -> Predicate:
        return predicate_of(self._named_table.blank, self.change.predicate, "predicate")

    def _choose(
        self, history: History, found: Sequence[FoundLocation]
    ) -> tuple[tuple[FoundLocation, ...], tuple[str, ...]]:
        """Choose the locations that may hold the rows; name those of which that could not be found out."""
        by_location = [(location, self._left_files(history, location)) for location in found]
        others = {
            left.directory.place: left
            for _, groups in by_location
            for left in groups
            if left.values is not None and not self._is_changed(left)
        }
        for place in others.keys() & self._of_other_columns:
            self._are_hit[place] = False
            self._unread[place] = f"{others[place].directory} was written with other columns, and not looked through"
        self._look_through([left for place, left in others.items() if place not in self._are_hit])
        chosen = tuple(location for location, groups in by_location if any(map(self._may_hold_rows, groups)))
        remarks = [
            f"{left.directory} goes, though of which partition its files are is not known"
            for _, groups in by_location
            for left in groups
            if left.values is None
        ]
        remarks += [
            f"{place.left.location} has {counted(place.other_count, 'object')} that other tools have put there since"
            for place in found
            if place.other_count
        ]
        return chosen, (*remarks, *self._unread.values())

    def _is_changed(self, left: LeftFiles) -> bool:
        return left.values is not None and self._canonical(left.values) in self._changed

    def _may_hold_rows(self, left: LeftFiles) -> bool:
        return left.values is None or self._is_changed(left) or self._are_hit.get(left.directory.place, False)

    def _canonical(self, values: PartitionValues) -> PartitionValues:
        types = [column.type for column in self.opened.table.partition_columns]
        try:
            return canonical(values, types, self.spark.conf.get("spark.sql.session.timeZone") or "")
        except InvalidInputError:
            return values

    def _left_files(self, history: History, found: FoundLocation) -> list[LeftFiles]:
        """Group the files of a location by their directories, which tell the partition where the log does not."""
        location, layout = found.left.location, self.opened.layout
        content = history.state.contents.get(location.place)
        owner = self._owners.get(location.place, content.values if content is not None else None)
        below = layout.data(layout.write_id_of(location) or "") if layout.own.contains(location) else layout.root
        by_directory: dict[str, list[ObjectInfo]] = {}
        for file in found.objects:
            by_directory.setdefault(file.key.rpartition("/")[0] + "/", []).append(file)
        groups: list[LeftFiles] = []
        for key, files in by_directory.items():
            known = owner if key == location.key else None
            values = self._values_by_name(key.removeprefix(below.key).strip("/")) if known is None else known
            groups.append(LeftFiles(location.beside(key), values, tuple(files)))
        return groups

    def _values_by_name(self, name: str) -> PartitionValues | None:
        """Read the partition that a directory is named after."""
        table = self.opened.table
        if not table.partition_columns:
            return ()
        try:
            values = partition_values(name)
            return values if name_in(table, values).lower() == name.lower() else None
        except InvalidInputError:
            return None

    def _look_through(self, groups: Sequence[LeftFiles]) -> None:
        """Find the directories with rows that the predicate is true of; what Spark cannot read is tried by itself."""
        if not groups:
            return
        try:
            hits = self._directories_with_hits(groups)
        except READ_ERRORS as error:
            if len(groups) > 1:
                middle = len(groups) // 2
                self._look_through(groups[:middle])
                self._look_through(groups[middle:])
                return
            [left] = groups
            self._are_hit[left.directory.place] = False
            self._unread[left.directory.place] = f"{left.directory} cannot be looked through: {type(error).__name__}"
        else:
            self._are_hit |= {left.directory.place: left.directory.place in hits for left in groups}

    def _directories_with_hits(self, groups: Sequence[LeftFiles]) -> set[Place]:
        opened, table, gateway = self.opened, self.opened.table, open_gateway(self.spark)
        past = [self._as_past(left) for left in groups]
        rows = gateway.past_rows(
            opened,
            f"what readers have left of {table.name} cannot be read",
            [part for part in past if part.files],
            file_column=FILE,
        )
        hits = self._named_table.hit_rows(rows, self._predicate).select(FILE).distinct()
        paths = gateway.run(f"rows of {table.name}", partial(fetched, hits))
        places = {left.directory.place for left in groups}
        return {place_and_name(row[FILE], places, table)[0] for row in paths}

    def _as_past(self, left: LeftFiles) -> PastPartition:
        """Describe a directory for a read of exactly its files, but for those that no reader sees."""
        files = {file.key.removeprefix(left.directory.key): file for file in left.files}
        visible = {name: file for name, file in files.items() if not is_hidden(name)}
        return PastPartition(
            values=left.values or (),
            name=shown_name(self.opened.table, left.values or ()),
            location=str(left.directory),
            files=len(visible),
            bytes=sum(file.size_bytes for file in visible.values()),
            only=frozenset(visible),
        )


def _note(entry: LogEntry) -> str:
    erasure = entry.erasure
    count = len(erasure.keys) if erasure else 0
    return (
        f"{counted(count, 'replaced file')} to be erased by the next `table-writer vacuum {entry.table}`;"
        f" `table-writer erasure {entry.table} --write-id {entry.erasing_id}` says what is gone"
    )
