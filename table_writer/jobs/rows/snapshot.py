"""The partitions of one table as of one version, each with exactly the files of which its rows are read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from table_writer.errors import ConflictError, InvalidInputError
from table_writer.jobs.plan.planner import Where
from table_writer.jobs.plan.types import partition_schema
from table_writer.jobs.rows.small_files import LARGEST_BYTES, SmallFiles
from table_writer.model.contents import Contents
from table_writer.model.location import Location, Place, same_place
from table_writer.model.table import NULL_PARTITION, PartitionValues, PastPartition, Table, shown_name
from table_writer.model.table_read import ReadOf, ReadVersion, TableRead
from table_writer.model.write import Scope, every_partition
from table_writer.protocol.operations.recovery import Recovery
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.table.past import Past
from table_writer.spark import open_gateway
from table_writer.spark.sql import quoted
from table_writer.spark.types import literal
from table_writer.storage.footers import MOST_FOOTERS, Footer, read_footer
from table_writer.storage.object_store import ObjectInfo, SourceChangedError, many
from table_writer.storage.parquet_rows import FilesOfTask
from table_writer.storage.table_files import files_read_at

FILE: Final = "__table_writer_file"  # the column of the path of each row's file
MOST_LOOKS: Final = 10  # at a table to which others publish meanwhile
Files = Mapping[PartitionValues, Mapping[str, ObjectInfo]]
"""By partition: files by their names below its location."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotPartition:
    """A partition as it was, and the files that hold its rows, by their names below its location."""

    past: PastPartition
    files: Mapping[str, ObjectInfo]

    @property
    def place(self) -> Place:
        """Return where its files are."""
        return Location.parse(self.past.location).place

    def with_only(self, names: Collection[str]) -> PastPartition:
        """Return the same partition for a read of some of its files."""
        some = Contents.of(self.files[name] for name in names)
        return replace(self.past, **some._asdict(), only=frozenset(names), written_until=None)


class Snapshot:
    """One table after its newest version, before which nothing is in doubt.

    ``where`` selects partitions; all that exist are selected without it. Files are listed once, when a partition is
    opened, and only these are read and replaced: what others add later is no part of it, and stops the publish.
    """

    def __init__(
        self,
        spark: SparkSession,
        opened: OpenTable,
        where: str = "",
        selects_by: str = "where",
        *,
        counts_marks: bool = False,
    ) -> None:
        self.spark = spark
        self.opened = opened
        self.counts_marks = counts_marks  # whoever writes the changed rows can count what becomes of each
        self._selects_by = selects_by  # what of the call leaves partitions out
        opened.require_owner()
        self._past, self._newest_entry = _newest(opened)
        self._known: dict[PartitionValues, PastPartition | None] = {}  # None: without rows
        self._moved: set[PartitionValues] = set()  # to where the log has not put them
        self._opened_partitions: dict[PartitionValues, SnapshotPartition] = {}
        self._footers: dict[tuple[PartitionValues, str], Footer | None] = {}
        self.scope: Scope = (
            Where(spark, where, partition_schema(self.table), str(self.table.name)) if where else every_partition
        )

    @property
    def table(self) -> Table:
        """The table's description."""
        return self.opened.table

    @property
    def version(self) -> ReadVersion:
        """The version that the rows are of."""
        return ReadVersion(self._past.version)

    @property
    def existing(self) -> frozenset[PartitionValues]:
        """The partitions that there are; an unpartitioned table is one partition of itself."""
        return self._past.existing

    @cached_property
    def selected(self) -> frozenset[PartitionValues]:
        """The partitions that exist and that ``where`` selects."""
        return self.scope(self.existing)

    def open(self, partitions: Collection[PartitionValues]) -> dict[PartitionValues, SnapshotPartition]:
        """Return those of the partitions that had rows, with their files.

        Raises ``InvalidInputError`` if nobody knows what readers saw of one, or if it holds other files by now.
        """
        past_partitions = self._past_partitions(partitions)
        unopened = [past for values, past in past_partitions.items() if values not in self._opened_partitions]
        for partition in many(self._with_files, unopened):
            self._opened_partitions[partition.past.values] = partition
        return {values: self._opened_partitions[values] for values in past_partitions}

    def files_of(self, partitions: Collection[PartitionValues]) -> Files:
        """Return the files that hold the rows of some partitions."""
        return {values: partition.files for values, partition in self.open(partitions).items()}

    def rows(
        self, names: Mapping[PartitionValues, Collection[str]], *, with_file: bool = False, by_spark: bool = False
    ) -> DataFrame:
        """Return the rows of some files, which are named by partition, with the columns that the table has today.

        ``by_spark``: whoever gets them may ask Spark for the file of each, which only its own reader tells.
        """
        opened = self.open(names)
        if not (with_file or by_spark) and (small := self._small_files(names)):
            return self._reader.rows(small)
        chosen = [opened[values].with_only(file_names) for values, file_names in names.items() if file_names]
        return self._read(chosen, FILE if with_file else "")

    def scan(self, partitions: Collection[PartitionValues]) -> DataFrame:
        """Return all rows of some partitions, and their files, which Spark lists: those that a query leaves out, never.

        Files of other tools are listed now: nothing else tells which there were.
        """
        return self._read(many(self._as_listed, self._past_partitions(partitions).values()), FILE)

    def _as_listed(self, past: PastPartition) -> PastPartition:
        """Return a partition for a scan, which fails if it looks into one whose rows cannot be changed."""
        if past.bytes is not None:
            return past
        try:
            partition = self.open([past.values])[past.values]
        except (ConflictError, InvalidInputError):
            return replace(past, files=0, bytes=1)
        return partition.with_only(partition.files)

    def footers_of(self, files: Collection[tuple[PartitionValues, str]]) -> list[Footer | None]:
        """Return the footers of files, of which each is read once; ``None`` of one that only Spark can read."""
        unread = [file for file in files if file not in self._footers]
        found = self.files_of({values for values, _ in unread})
        objects = [found[values][name] for values, name in unread]
        self._footers |= zip(unread, many(partial(read_footer, self.opened.store), objects), strict=True)
        return [self._footers[file] for file in files]

    @cached_property
    def _reader(self) -> SmallFiles:
        return SmallFiles(self.spark, self.opened)

    def _small_files(self, names: Mapping[PartitionValues, Collection[str]]) -> FilesOfTask:
        """Return the files, with their partitions, if all are small and need no conversion; else none."""
        every = [(values, name) for values, file_names in names.items() for name in file_names]
        found = self.files_of(names)
        sizes = [found[values][name].size_bytes for values, name in every]
        if (
            self._reader.schema is None
            or len(every) > MOST_FOOTERS
            or max(sizes, default=LARGEST_BYTES) >= LARGEST_BYTES
        ):
            return []
        try:
            are_read = all(map(self._reader.can_read, self.footers_of(every)))
        except SourceChangedError:  # Spark says which
            return []
        return [(found[values][name], values) for values, name in every] if are_read else []

    def is_smaller(self, partitions: Collection[PartitionValues], limit_bytes: int) -> bool:
        """Return whether the files of partitions are not larger together; if the log says so, they are not listed."""
        known = sum(past.bytes or 0 for past in self._past_partitions(partitions).values())
        if known > limit_bytes:
            return False
        listed = self.files_of(partitions).values()
        return Contents.of(file for files in listed for file in files.values()).bytes <= limit_bytes

    @property
    def places(self) -> dict[Place, PartitionValues]:
        """Where the partitions are that were asked for."""
        places: dict[Place, PartitionValues] = {}
        for past in filter(None, self._known.values()):
            values = places.setdefault(Location.parse(past.location).place, past.values)
            if values != past.values:
                raise InvalidInputError(
                    f"{past.name} of {self.table.name} shares {past.location} with {shown_name(self.table, values)}:"
                    " whose rows are there cannot be told. Nothing was published. Replace both with"
                    " overwrite_partitions.",
                    table=str(self.table.name),
                )
        return places

    def require_unchanged(self, error: Exception) -> None:
        """Say why the rows of a partition cannot be changed, if that is what an error of Spark's is about."""
        if self._past.subject in str(error):
            self.open(self._known)

    def _read(self, partitions: Sequence[PastPartition], file_column: str) -> DataFrame:
        try:
            return open_gateway(self.spark).past_rows(
                self.opened, self._past.subject, partitions, file_column=file_column
            )
        except InvalidInputError as error:  # over Spark Connect, which lists the files at once
            self.require_unchanged(error)
            raise

    def _past_partitions(self, partitions: Collection[PartitionValues]) -> dict[PartitionValues, PastPartition]:
        """Return those of the partitions that had rows."""
        unasked = self.existing.intersection(partitions) - self._known.keys()
        if unasked:
            names = self.opened.partition_names(unasked) if self.table.partition_columns else None
            self._known |= dict.fromkeys(unasked)
            self._known |= {past.values: past for past in self._past.partitions(names)}
            self._known |= {values: self._as_readers_see(values, self._known[values]) for values in unasked}
        asked = ((values, self._known.get(values)) for values in partitions)
        return {values: past for values, past in asked if past is not None}

    def _as_readers_see(self, values: PartitionValues, past: PastPartition | None) -> PastPartition | None:
        """Return a partition of the version; one whose readers are pointed elsewhere fails when it is looked into."""
        now, location = self._past.location_now(values), None if past is None else past.location
        if now is None or self.opened.layout.is_placeholder(now) or same_place(str(now), location):
            return past
        self._moved.add(values)
        return PastPartition(values=values, name=shown_name(self.table, values), location=str(now), files=0, bytes=1)

    def as_read(self, partitions: Collection[PartitionValues]) -> TableRead:
        """Describe what was read of some partitions, for the comparison with what readers see before the switch."""
        files = {
            partition.place: {
                name: (file.size_bytes, int(file.modified_at.timestamp())) for name, file in partition.files.items()
            }
            for partition in self.open(partitions).values()
        }
        return TableRead(of=ReadOf.TABLE, files=files, covers=frozenset)

    def refusal(self, message: str) -> InvalidInputError | ConflictError:
        """Return the error for files that are not as the version has them: others may have published meanwhile."""
        has_moved = self.opened.log.lister.read().newest > self._newest_entry
        return (ConflictError if has_moved else InvalidInputError)(message, table=str(self.table.name))

    def _with_files(self, past: PastPartition) -> SnapshotPartition:
        location = Location.parse(past.location)
        listed = files_read_at(self.opened.store, self.opened.layout, location)
        files = {file.key.removeprefix(location.key): file for file in listed}
        files = {name: file for name, file in files.items() if name not in past.without}
        reason = self._why_not_changed(past, location, files)
        if reason:
            raise self.refusal(
                f"{past.name} of {self.table.name} {reason}: its rows cannot be changed one by one. Nothing was"
                f" published. {self._advice(past.values)}"
            )
        return SnapshotPartition(past=past, files=files)

    def _advice(self, values: PartitionValues) -> str:
        """Say what to do about a partition whose rows cannot be changed."""
        columns = self.table.partition_columns
        if not columns:
            return "Replace its rows with overwrite_table."
        texts = ("NULL" if text == NULL_PARTITION else literal(text) for text in values)
        named = " AND ".join(f"{quoted(column.name)} <=> {text}" for column, text in zip(columns, texts, strict=True))
        return (
            "Replace all of its rows with overwrite_partitions, or leave it out: add"
            f" NOT ({named}) to {self._selects_by}."
        )

    def _why_not_changed(self, past: PastPartition, location: Location, files: Mapping[str, ObjectInfo]) -> str:
        """Say why a partition's files cannot be replaced in part; empty if they can."""
        if past.values in self._moved:
            return f"is at {location}, where another tool or a late call has put it after version {self.version}"
        if location.place[:2] != self.opened.layout.root.place[:2]:
            return f"lies in another bucket, at {location}"
        if any("/" in name for name in files):
            return "has files in directories of its own"
        if past.contents is not None and not Contents.of(files.values()).may_be(past.contents):
            return f"does not hold the files of version {self.version}: another tool has added or deleted some"
        return ""


def _newest(opened: OpenTable) -> tuple[Past, int]:
    """Return the newest version, of which the metastore has shown all switches, and the newest entry that was seen.

    The metastore is read before the log. What was published in between would be of the version, and not be shown. An
    entry in doubt before a published one is resolved first: no version could have the rows of that.
    """
    recovery = Recovery(opened)
    for _ in range(MOST_LOOKS):
        history = opened.log.read_recent()
        in_doubt = [record.entry.version for record in history.records.publishes_in_doubt]
        oldest = min(in_doubt, default=history.newest + 1)
        if any(record.entry.version > oldest for record in history.records.published):
            recovery.resolve(oldest, opened.table, end=history.end)
            continue
        past = Past(opened)
        if past.version < oldest:
            return past, history.newest
    raise ConflictError(
        f"others have published to {opened.table.name} each of the {MOST_LOOKS} times that its partitions were read."
        " Nothing was published. Run it again later.",
        table=str(opened.table.name),
    )
