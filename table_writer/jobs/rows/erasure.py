"""An erasure: what may hold deleted rows, of all that readers have left, is named for the next vacuum."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Final

from pyspark.sql import SparkSession

from table_writer.errors import ConflictError, InvalidInputError, TableWriterError, counted, few
from table_writer.jobs.rows.expressions import Predicate, predicate_of
from table_writer.jobs.rows.hits import place_and_name
from table_writer.jobs.rows.snapshot import FILE
from table_writer.jobs.rows.where import DeletedWhere, NamedTable
from table_writer.mirrors import follow as mirrors
from table_writer.model.contents import Contents
from table_writer.model.entry import Erasure, LogEntry
from table_writer.model.location import Location, Place
from table_writer.model.partition_value import canonical
from table_writer.model.table import PartitionValues, PastPartition, name_in, partition_values, shown_name
from table_writer.protocol.log.history import History
from table_writer.protocol.operations.recovery import Recovery
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.vacuum.due import InUse, KeptLocation, is_used
from table_writer.protocol.vacuum.remover import FoundLocation
from table_writer.protocol.vacuum.sweep import ChosenLocations, Vacuum
from table_writer.reports.rows_result import RowsResult
from table_writer.spark import open_gateway
from table_writer.spark.sql import SPARK_ERRORS, fetched
from table_writer.storage.object_store import ObjectInfo, is_hidden
from table_writer.storage.table_files import files_read_at

LATER_ANSWER: Final = "of other partitions' older rows the predicate was asked after the delete: it may differ"
OUTSIDE: Final = "it is not below the table's own directory: delete it yourself"
READ_ERRORS: Final[tuple[type[Exception], ...]] = (*SPARK_ERRORS, InvalidInputError)


def new_salt() -> str:
    """Return what goes before a predicate when it is hashed: without it nobody can try predicates."""
    return secrets.token_hex(16)


class SeenAgainError(ConflictError):
    """Readers see such rows again: what came after the delete has brought them back. Delete them again."""


@dataclass(frozen=True, slots=True)
class LeftFiles:
    """The files in one directory of a location that readers have left, or that they have come to since."""

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
    since: int | None = None  # the newest version before the first delete; None: the delete's
    salt: str = field(default_factory=new_salt)
    _deleting: set[int] = field(default_factory=set)  # the versions of the deletes
    _changed: frozenset[PartitionValues] = frozenset()
    _owners: dict[Place, PartitionValues] = field(default_factory=dict)  # of locations, by the log's entries
    _outside: dict[Place, tuple[Location, PartitionValues]] = field(default_factory=dict)  # that no vacuum deletes
    _of_other_columns: set[Place] = field(default_factory=set)  # locations that were written with other columns
    _are_hit: dict[Place, bool] = field(default_factory=dict)  # by directory
    _unread: dict[Place, KeptLocation] = field(default_factory=dict)  # directories that could not be looked through

    def after(self, *deletes: RowsResult) -> RowsResult:
        """Claim the erasure, and add to the result of the deletes, mostly one, what a person has to know.

        Raises ``SeenAgainError`` if readers see such rows by then.
        """
        published = [deleted for deleted in deletes if deleted.version is not None]
        newest = (published or deletes)[-1]
        counts = [deleted.deleted for deleted in deletes if deleted.deleted is not None]
        deleted = replace(newest, deleted=sum(counts) if counts else None)
        self._deleting = {deleted.version for deleted in published if deleted.version is not None}
        predicate = self.change.predicate
        text = predicate if isinstance(predicate, str) else str(predicate)
        try:
            self._know_locations()
            erasure = Erasure(
                predicate_sha256=hashlib.sha256(f"{self.salt}{text}".encode()).hexdigest(),
                deleted_rows=deleted.deleted,
                write_id=deleted.write_id,
                unknown=() if self._predicate.is_pure else (LATER_ANSWER,),
            )
            entry = Vacuum(self.opened, mirrors).erase(erasure, self._choose, self._end_doubts)
        except TableWriterError as error:
            done = (
                f"Version {deleted.version} has deleted the rows" if deleted.version else "The delete found no such row"
            )
            error.add(f"{done}; what older versions hold of them is not to be erased yet: call it again.")
            raise
        return replace(
            deleted,
            write_id=deleted.write_id or entry.write_id,
            notes=(*deleted.notes, _note(entry)),
            predicate_salt=self.salt,
        )

    def _know_locations(self) -> None:
        """Learn what the log knows of locations, and which partitions the deletes have changed.

        Of each location: its partition, whether it was written with other columns, and whether no vacuum deletes there.
        """
        opened, partitioned = self.opened, bool(self.opened.table.partition_columns)
        for entry in (record.entry for record in opened.log.read_history().records):
            if entry.version in self._deleting:
                self._changed |= frozenset(map(self._canonical, entry.partition_values))
            is_of_today = not entry.schema or entry.columns_by == opened.table.columns_by
            for partition in entry.partitions:
                for location in filter(None, map(Location.parse_any, partition.locations)):
                    self._owners.setdefault(location.place, partition.values)
                    if not opened.layout.is_scheduled(location, partitioned=partitioned):
                        self._outside[location.place] = (location, partition.values)
                new_location = None if is_of_today else Location.parse_any(partition.new_location or "")
                self._of_other_columns |= {new_location.place} if new_location else set()

    @property
    def _named_table(self) -> NamedTable:
        return NamedTable(self.spark, self.opened.table, self.change.names)

    @cached_property
    def _predicate(self) -> Predicate:
        return predicate_of(self._named_table.blank, self.change.predicate, "predicate")

    def _end_doubts(self, history: History) -> bool:
        return Recovery(self.opened).end_doubts(history, self.opened.table) is not None

    def _choose(self, history: History, found: Sequence[FoundLocation]) -> ChosenLocations:
        """Choose the locations that may hold the rows; name those of which that could not be found out.

        An erasure is claimed only if what came since the deletes has brought none back: it would say that they are
        erased while readers see them.
        """
        self._require_unseen(history)
        by_location = [(location, self._left_files(history, location)) for location in found]
        outside = list(self._left_outside(history))
        others = {
            left.directory.place: left
            for left in (*outside, *(left for _, groups in by_location for left in groups))
            if left.values is not None and not self._is_changed(left)
        }
        for place in others.keys() & self._of_other_columns:
            self._are_hit[place] = False
            self._unread[place] = KeptLocation(
                others[place].directory, "it was written with other columns, and not looked through"
            )
        self._look_through([left for place, left in others.items() if place not in self._are_hit])
        chosen = tuple(location for location, groups in by_location if any(map(self._may_hold_rows, groups)))
        others_there = (
            KeptLocation(
                place.left.location, f"{counted(place.other_count, 'object')} that other tools have put there since"
            )
            for place in found
            if place.other_count
        )
        not_ours = (KeptLocation(left.directory, OUTSIDE) for left in outside if self._may_hold_rows(left))
        return chosen, (*others_there, *not_ours, *self._unread.values())

    def _left_outside(self, history: History) -> Iterator[LeftFiles]:
        """Yield what readers have left where no vacuum deletes; of another bucket nobody knows here what it holds."""
        opened = self.opened
        for location, values in self._outside.values():
            is_in_reach = location.place[:2] == opened.layout.root.place[:2]
            files = tuple(files_read_at(opened.store, opened.layout, location)) if is_in_reach else ()
            if location.place not in history.state.live_places and (files or not is_in_reach):
                yield LeftFiles(location, values if is_in_reach else None, files)

    def _require_unseen(self, history: History) -> None:
        """Refuse to erase rows that readers see again."""
        suspects = list(self._seen_since(history))
        places = {left.directory.place for left in suspects}
        for place in places:  # readers' locations may get files between two looks
            self._are_hit.pop(place, None)
        self._look_through(suspects)
        seen = [left for left in suspects if self._are_hit.get(left.directory.place, False)]
        for place in places:
            self._are_hit.pop(place, None)
        if seen:
            names = few(sorted({shown_name(self.opened.table, left.values or ()) for left in seen}), most=3)
            raise SeenAgainError(
                f"readers of {self.opened.table.name} see rows again that were deleted, in {names}: a rollback, another"
                " tool, or a write of such rows has brought them since.",
                table=str(self.opened.table.name),
            )

    def _seen_since(self, history: History) -> Iterator[LeftFiles]:
        """Yield what readers may see of such rows again: what was published since, and what they are to have left.

        Where the log does not know who has pointed readers to what they had left, it was another tool: as
        ``MSCK REPAIR TABLE`` does, which finds directories of partitions that are dropped.
        """
        opened, layout = self.opened, self.opened.layout
        since = min((version for version in (self.since, *self._deleting) if version is not None), default=0)
        now = opened.metastore.get_all_partitions(opened.table)
        parsed = {values: Location.parse_any(partition.location) for values, partition in now.items()}
        places = {values: location for values, location in parsed.items() if location is not None}
        current = history.state.current_partitions.items()
        published = {
            values for values, newest in current if newest.version > since and newest.version not in self._deleting
        }
        looked_at = InUse(layout, {location.place for location in places.values()})
        left_again = [left for left in history.state.left_locations.values() if is_used(looked_at, left)]
        around = [InUse(layout, {left.location.place}) for left in left_again]
        back = {values for values, location in places.items() if any(used.meets(location.place) for used in around)}
        for values in sorted(places.keys() & (published | back)):
            files = tuple(files_read_at(opened.store, layout, places[values]))
            yield LeftFiles(places[values], values, files)

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
            self._unread[left.directory.place] = KeptLocation(
                left.directory, f"it cannot be looked through: {type(error).__name__}"
            )
        else:
            self._are_hit |= {left.directory.place: left.directory.place in hits for left in groups}

    def _directories_with_hits(self, groups: Sequence[LeftFiles]) -> set[Place]:
        places = {left.directory.place for left in groups}
        past = [part for part in map(self._as_past, groups) if part.files]
        return {place_and_name(path, places, self.opened.table)[0] for path in self._paths_with_hits(past)}

    def _paths_with_hits(self, past: Sequence[PastPartition]) -> list[str]:
        """Ask Spark for the paths of files with rows that the predicate is true of."""
        opened, table, gateway = self.opened, self.opened.table, open_gateway(self.spark)
        subject = f"what readers have left of {table.name} cannot be read"
        rows = gateway.past_rows(opened, subject, past, file_column=FILE)
        hits = self._named_table.hit_rows(rows, self._predicate).select(FILE).distinct()
        return [row[FILE] for row in gateway.run(f"rows of {table.name}", partial(fetched, hits))]

    def _as_past(self, left: LeftFiles) -> PastPartition:
        """Describe a directory for a read of exactly its files, but for those that no reader sees."""
        files = {file.key.removeprefix(left.directory.key): file for file in left.files}
        visible = {name: file for name, file in files.items() if not is_hidden(name)}
        return PastPartition(
            values=left.values or (),
            name=shown_name(self.opened.table, left.values or ()),
            location=str(left.directory),
            only=frozenset(visible),
            **Contents.of(visible.values())._asdict(),
        )


def _note(entry: LogEntry) -> str:
    erasure = entry.erasure
    count = len(erasure.keys) if erasure else 0
    return (
        f"{counted(count, 'replaced file')} to be erased by the next `table-writer vacuum {entry.table}`;"
        f" `table-writer erasure {entry.table} --write-id {entry.erasing_id}` says what is gone"
    )
