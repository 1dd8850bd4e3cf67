"""One write: its mode, its identity, its plan, and the states it goes through."""

from __future__ import annotations

import secrets
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec

from table_writer.model.check_result import CheckResult
from table_writer.model.column_figures import ColumnFigures, as_text, from_text, merged_figures
from table_writer.model.column_statistics import ColumnStatistics, MergedStatistics, as_spark_orders
from table_writer.model.entry import NO_KEY, Key, LogEntry, ReplacedLocation
from table_writer.model.hive_columns import hive_columns
from table_writer.model.location import Location, Place
from table_writer.model.message import CommitMessage, RowMark
from table_writer.model.partition_value import Spellings
from table_writer.model.table import Column, PartitionValues, Table, escape
from table_writer.model.table_read import TableRead
from table_writer.model.words import NO_WORDS, Words, in_short
from table_writer.model.write_mode import WriteMode

Scope = Callable[[Collection[PartitionValues]], frozenset[PartitionValues]]
"""Chooses, of partitions that exist, those that a write replaces even where it has no rows for them."""


SUCCESS: Final = "_SUCCESS"  # hidden from readers, by all of their rules


def no_partition(_: Collection[PartitionValues]) -> frozenset[PartitionValues]:
    """Replace only partitions that there are rows for."""
    return frozenset()


def every_partition(existing: Collection[PartitionValues]) -> frozenset[PartitionValues]:
    """Replace the whole table."""
    return frozenset(existing)


def new_write_id(now: datetime | None = None) -> str:
    """Return UTC time plus 64 random bits: sortable, never used twice.

    Examples
    --------
    >>> new_write_id(datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC))[:16]
    '20240102T030405-'
    """
    return f"{now or datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(8)}"


@dataclass(frozen=True)
class TableLayout:
    """The places where this library keeps its files below a table's root."""

    root: Location
    directory_name: str = "_table_writer"

    @cached_property
    def own(self) -> Location:
        """Return the directory of all files of this library."""
        return self.root.child(self.directory_name)

    @property
    def owner_key(self) -> str:
        """Return the key of the object that names the table to which the files belong."""
        return f"{self.own.key}owner.json"

    @property
    def checkpoint_key(self) -> str:
        """Return the key of the checkpoint."""
        return f"{self.own.key}checkpoint.json"

    @property
    def log_prefix(self) -> str:
        """Return the prefix of entries, outcomes, marks and folds."""
        return f"{self.own.key}log/"

    def entry_key(self, version: int) -> str:
        """Return the key of an entry: its slot."""
        return f"{self.log_prefix}{version:020d}.json"

    def outcome_key(self, version: int) -> str:
        """Return the key of an entry's outcome."""
        return f"{self.log_prefix}{version:020d}.done"

    def registration_key(self, write_id: str) -> str:
        """Return the key of the registration of a running write, which its process puts again and again."""
        return f"{self.registrations.key}{write_id}.json"

    def staged_key(self, write_id: str) -> str:
        """Return the key of the record of a staged write: put once, so that no late heartbeat replaces it."""
        return f"{self.all_staged.key}{write_id}.json"

    def name_key(self, write_id: str) -> str:
        """Return the key of the object that says that a caller has used this name; it stays for ever."""
        return f"{self.own.child('names').key}{write_id}"

    def data(self, write_id: str) -> Location:
        """Return the directory of one write, for its uploads and objects alone."""
        return self.all_data.child(write_id)

    def placeholder(self, write_id: str, values: PartitionValues = ()) -> Location:
        """Return the placeholder of a partition: the write puts no file there; files of other tools are rows."""
        return self.all_placeholders.child(write_id, *(f"p-{escape(value)}" for value in values))

    @cached_property
    def all_data(self) -> Location:
        """Return the directory in which every write has its own."""
        return self.own.child("data")

    @cached_property
    def all_placeholders(self) -> Location:
        """Return the directory of all placeholders."""
        return self.own.child("empty")

    @cached_property
    def registrations(self) -> Location:
        """Return the directory of the registrations of running writes."""
        return self.own.child("writes")

    @cached_property
    def turns(self) -> Location:
        """Return the directory of the turns of calls that have lost an attempt to others."""
        return self.own.child("turns")

    @cached_property
    def all_staged(self) -> Location:
        """Return the directory of the records of staged writes and of the results of their checks."""
        return self.own.child("staged")

    def is_placeholder(self, location: Location) -> bool:
        """Return whether a location is a placeholder; other tools may have put files there, so list it to be sure."""
        return self.all_placeholders.contains(location)

    def write_id_of(self, location: Location) -> str | None:
        """Return the write whose data a location is, by its path alone; ``None`` for other tools' data."""
        if not self.own.contains(location):
            return None
        directory, _, rest = self.own.relative_key(location).partition("/")
        write_id = rest.split("/")[0]
        return write_id if directory in {"data", "empty"} and write_id else None

    def places_around(self, location: Location) -> frozenset[Place]:
        """Return the place of a location, and that of its write's directory, as which an abandoned write is left."""
        write_id = self.write_id_of(location) if self.all_data.contains(location) else None
        return frozenset({location.place} if write_id is None else {location.place, self.data(write_id).place})

    def is_scheduled(self, location: Location, *, partitioned: bool) -> bool:
        """Return whether a vacuum deletes what is left at a location: not outside the root, nor around our directory.

        Only an unpartitioned table has its files in the root itself.
        """
        return self.root.contains(location) and not (partitioned and location.contains(self.own))

    def is_of_inner_root(self, key: str, location: Location) -> bool:
        """Return whether an object lies in the directory of another table whose root is below the location."""
        return f"/{self.directory_name}/" in f"/{key.removeprefix(location.key)}"

    @property
    def success_key(self) -> str:
        """Return the key of ``_SUCCESS``, the marker that other tools look for."""
        return f"{self.root.key}{SUCCESS}"

    def success_key_of(self, partition_name: str) -> str:
        """Return the key of a partition's marker: below the root, wherever the partition's rows are."""
        return f"{self.root.child(partition_name).key}{SUCCESS}"


def written_ids(layout: TableLayout, entry: LogEntry) -> frozenset[str]:
    """Return the writes whose files an entry points readers at: its own, or those of the entry that it recovers."""
    locations = (
        Location.parse(partition.own_location) for partition in entry.partitions if partition.own_location is not None
    )
    ids = {entry.write_id, entry.recovered_write_id, *(layout.write_id_of(location) for location in locations)}
    return frozenset(write_id for write_id in ids if write_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class WritePlan:
    """The plan that step 1 makes, and from which all later steps work."""

    write_id: str
    mode: WriteMode
    table: Table
    layout: TableLayout
    schema: str  # of the data columns, Spark's JSON
    base_version: int
    checkpoint: int  # up to this version nothing was in doubt, and nothing was listed
    in_doubt: frozenset[int]  # versions that were in doubt when the plan was made: published later, they conflict
    created_at: datetime
    log_id: str = ""  # the log that the versions belong to: a log that was reset counts from 1 again
    named_by_caller: bool = False  # the write_id was given, and may have been used before
    scope: Scope = no_partition
    where: str = ""  # the predicate behind the scope, for the log
    watched: Scope = no_partition  # which others the rows depend on: published by somebody else, they conflict too
    key: Key = NO_KEY
    tags: Mapping[str, str] = field(default_factory=dict)
    in_place: bool = False  # an append that adds its files where readers look already
    compacted: Mapping[PartitionValues, ReplacedLocation] = field(default_factory=dict)
    """Files whose rows this write has anew: an append that leaves them out of what it brings along."""
    max_copied_bytes: int | None = None  # of an append; None: no limit
    spellings: Spellings = field(default_factory=Spellings)
    """Partitions the metastore spells differently from Spark (``01`` for 1)."""
    notes: tuple[str, ...] = ()  # notes on the table for the result
    based_on: int | None = None  # the version that the caller's rows are computed from; then the base version is that
    replaced_schema: str = ""  # the table's columns, Spark's JSON, if it gets those of ``schema`` in place of them
    reads: tuple[TableRead, ...] = ()  # reads of this very table by the query behind the rows

    @property
    def data_location(self) -> Location:
        """Return the location of the files of this write."""
        return self.layout.data(self.write_id)

    def spelled(self, values: PartitionValues) -> PartitionValues:
        """Return a partition's values as the metastore spells them."""
        return self.spellings.get(values, values)

    def concerns(self, partitions: Collection[PartitionValues]) -> frozenset[PartitionValues]:
        """Return those of the partitions that the write replaces without rows, or whose rows its own depend on."""
        return self.scope(partitions) | self.watched(partitions)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the data columns of the table after the write."""
        return hive_columns(self.schema) if self.replaced_schema else self.table.columns

    @property
    def columns_by(self) -> str:
        """Return the write that has given the table, or gives it, the columns of its rows in place of others."""
        return self.write_id if self.replaced_schema else self.table.columns_by

    @property
    def builds_on_rows(self) -> bool:
        """Return whether what its partitions hold, or that they are not there, decides what readers will see."""
        return self.mode.facts.builds_on_what_is_there or bool(self.reads)

    @property
    def depends_on_rows(self) -> bool:
        """Return whether the rows are computed from those that its partitions had, and replace them."""
        return not self.mode.facts.keeps_rows and (bool(self.reads) or self.based_on is not None)

    @property
    def named(self) -> dict[str, str]:
        """Return the keywords with which an error names this write."""
        return {"table": str(self.table.name), "write_id": self.write_id}


class FileKeys(Collection[str]):
    """The keys of one partition's files, kept compressed: they differ in a few characters of some 200.

    Examples
    --------
    >>> keys = FileKeys(["mart/orders/dt=1/part-0", "mart/orders/dt=1/part-1"])
    >>> len(keys), max(keys)
    (2, 'mart/orders/dt=1/part-1')
    """

    __slots__ = ("_count", "_packed")

    def __init__(self, keys: Collection[str]) -> None:
        self._count = len(keys)
        self._packed = zlib.compress("\0".join(keys).encode(), level=1)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        return iter(zlib.decompress(self._packed).decode().split("\0") if self._count else ())

    def __contains__(self, key: object) -> bool:
        return any(key == item for item in self)


Packed = bytes


class WrittenFile(NamedTuple):
    """One file of a write, with what its task has told of it."""

    key: str
    size_bytes: int
    rows: int
    figures: str


def packed(files: Collection[WrittenFile]) -> bytes:
    """Return facts of files compressed: those of 100,000 are kept until a write ends."""
    return zlib.compress(msgspec.json.encode(files), level=1) if files else b""


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenPartition:
    """The files of one partition: objects that no table points at."""

    values: PartitionValues
    keys: Collection[str]
    rows: int
    bytes: int
    raw_bytes: int | None  # before compression, where the format tells
    figures: str = ""  # of its columns, for optimizers; empty where nobody has counted
    packed_files: Packed = b""  # what is known of each file; empty where nobody needs it

    def files(self) -> tuple[WrittenFile, ...]:
        """Return its files with what is known of each; none where that was not kept."""
        if not self.packed_files:
            return ()
        return msgspec.json.decode(zlib.decompress(self.packed_files), type=tuple[WrittenFile, ...])


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenFiles:
    """The files of a write between steps 3 and 5, by partition, in the order of the partitions' values."""

    plan: WritePlan
    partitions: tuple[WrittenPartition, ...]
    row_bytes: int = 0  # of a row in Arrow, where rows are widest; 0 where nobody has looked
    statistics: Mapping[str, ColumnStatistics] = field(default_factory=dict)  # of all files; what is missing is unknown
    checks: tuple[CheckResult, ...] = ()  # the newest of each, without rows of the data
    marks: Mapping[RowMark, int] = field(default_factory=dict)  # how many rows had which; empty where none had one
    words: Words = NO_WORDS  # of the call that changes rows, with its counts

    @classmethod
    def from_messages(
        cls, plan: WritePlan, messages: Iterable[CommitMessage], *, keeps_files: bool = False
    ) -> WrittenFiles:
        """Group the files that commit messages name by their partitions; the messages are read once.

        ``keeps_files``: what is known of each file is kept.
        """
        groups: dict[PartitionValues, _Group] = {}
        row_bytes, merged, marks = 0, MergedStatistics(), Counter[RowMark]()
        for message in messages:
            row_bytes = max(row_bytes, message.row_bytes)
            merged.add(message.statistics, message.row_count)
            marks.update(message.marks)
            for upload in message.uploads:
                group = groups.setdefault(upload.partition_values, _Group())
                group.keys.append(upload.key)
                group.rows += upload.row_count
                group.bytes += upload.size_bytes
                group.raw_bytes += upload.raw_size_bytes
                group.count(upload.figures)
                if keeps_files:
                    group.files.append(WrittenFile(upload.key, upload.size_bytes, upload.row_count, upload.figures))
        partitions = tuple(
            WrittenPartition(
                values=values,
                keys=FileKeys(partition.keys),
                rows=partition.rows,
                bytes=partition.bytes,
                raw_bytes=partition.raw_bytes,
                figures=as_text(partition.figures or {}),
                packed_files=packed(partition.files),
            )
            for values, partition in sorted(groups.items())
        )
        statistics = as_spark_orders(merged.columns, plan.schema)
        return cls(plan=plan, partitions=partitions, row_bytes=row_bytes, statistics=statistics, marks=marks)

    @property
    def row_count(self) -> int:
        """Return the number of rows in all files."""
        return sum(partition.rows for partition in self.partitions)

    @property
    def all_words(self) -> Words:
        """Return what the write says for people: its call, predicate and tags; how many rows, where it only adds."""
        plan, words = self.plan, self.words
        only_adds = plan.mode.facts.builds_on_what_is_there and not plan.compacted
        inserted = self.row_count if only_adds else words.inserted
        where, tags = words.where or in_short(plan.where), dict(plan.tags)
        return msgspec.structs.replace(words, where=where, inserted=inserted, tags=tags)

    def with_plan(self, **changes: Any) -> WrittenFiles:
        """Return the same files with a plan of which these fields are other ones."""
        return replace(self, plan=replace(self.plan, **changes))

    def with_checks(self, results: Iterable[CheckResult]) -> WrittenFiles:
        """Return the same files with these results, of which each replaces an earlier one of its check."""
        stored = (result.without_examples() for result in (*self.checks, *results))
        newest = {result.name: result for result in stored}
        return replace(self, checks=tuple(newest.values()))


@dataclass(slots=True)
class _Group:
    """The figures that are known so far of one partition's files."""

    keys: list[str] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    raw_bytes: int = 0
    figures: dict[str, ColumnFigures] | None = None  # None: no file was counted yet
    files: list[WrittenFile] = field(default_factory=list)

    def count(self, figures: str) -> None:
        """Add the figures of another file; a column that one file lacks is not known of all."""
        if self.figures is None:
            self.figures = from_text(figures)
        elif self.figures:
            self.figures = merged_figures([self.figures, from_text(figures)])
