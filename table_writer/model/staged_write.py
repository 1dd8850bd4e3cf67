"""The stored form of a staged write: all that another process needs to look at it, publish it or discard it.

It is an object of its own, put once, frozen and versioned, and checks itself on load and on save: what is damaged or
hostile is an error before anything is decided by it. Keys are stored relative to the write's own directory, and
cannot leave it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from table_writer.errors import ConflictError, InvalidInputError, counted
from table_writer.model.check_result import CheckResult
from table_writer.model.column_statistics import ColumnStatistics
from table_writer.model.entry import MAX_NUMBER, WRITE_ID, Key
from table_writer.model.location import Location
from table_writer.model.partition_value import Spellings
from table_writer.model.table import ROOT_PARAMETER, Column, PartitionValues, Table, TableName
from table_writer.model.write import (
    FileKeys,
    Scope,
    TableLayout,
    WritePlan,
    WrittenFiles,
    WrittenPartition,
    every_partition,
    no_partition,
)
from table_writer.model.write_mode import WriteMode

STAGED_FORMAT: Final = 1
LONGEST_EXPIRY_SECONDS: Final = 365 * 86_400.0
SAME_NAMES: Final = (
    "mode",
    "created_at",
    "base_version",
    "log_id",
    "where",
    "in_place",
    "max_copied_bytes",
    "notes",
    "based_on",
)
"""Fields of a plan that are stored under their own names, as they are."""


@dataclass(frozen=True)
class RecordedScope:
    """The partitions that a predicate selected when the write was staged: evaluating it again would need Spark.

    It raises ``ConflictError`` when it is asked for a partition that has appeared since.

    Examples
    --------
    >>> scope = RecordedScope(frozenset({("1",), ("2",)}), frozenset({("1",)}), "dt = 1", "mart.orders", "w1")
    >>> scope([("1",), ("2",)])
    frozenset({('1',)})
    """

    known: frozenset[PartitionValues]  # the partitions that existed
    chosen: frozenset[PartitionValues]  # the partitions that are selected
    where: str
    table: str
    write_id: str

    def __call__(self, existing: Collection[PartitionValues]) -> frozenset[PartitionValues]:
        """Return those of the partitions that were selected."""
        unknown_values = sorted(set(existing) - self.known)
        if unknown_values:
            raise ConflictError(
                f"{self.table} has got {counted(len(unknown_values), 'partition')} since write {self.write_id} was"
                f" staged, for example {unknown_values[0]}: whether where={self.where!r} selects them takes Spark to"
                " say. Nothing was published. Publish from Python:"
                " TableWriter(spark).staged_write(table, write_id).publish()",
                table=self.table,
                write_id=self.write_id,
            )
        return frozenset(existing) & self.chosen


@dataclass(frozen=True, kw_only=True, slots=True)
class _Partition:
    """A partition as it is stored; ``files`` are keys below the write's own directory."""

    values: PartitionValues
    rows: int
    bytes: int
    raw_bytes: int | None
    files: tuple[str, ...]
    figures: str = ""  # of columns; records of older versions lack it


@dataclass(frozen=True, kw_only=True, slots=True)
class _Table:
    """The stored facts that tell whether the table is still the one that the write was planned for."""

    database: str
    name: str
    kind: str
    created_at_seconds: int
    columns: tuple[tuple[str, str, str], ...]  # name, type, comment
    partition_columns: tuple[tuple[str, str, str], ...]
    root: str
    input_format: str
    serde: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scope:
    known: tuple[PartitionValues, ...]
    chosen: tuple[PartitionValues, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Spellings:
    types: tuple[str, ...]
    time_zone: str
    names: tuple[tuple[PartitionValues, tuple[PartitionValues, ...]], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stored:
    """A record as it is stored, in this order."""

    format: int
    mode: WriteMode
    created_at: datetime
    base_version: int
    log_id: str
    hint: int  # the plan's checkpoint
    in_doubt: tuple[int, ...]
    schema: str
    added_schema: str
    where: str
    scope: _Scope | None  # the scope of a predicate; other scopes follow from the mode
    idempotency_key: str
    tags: dict[str, str]
    max_copied_bytes: int | None
    spellings: _Spellings
    notes: tuple[str, ...]
    table: _Table
    row_bytes: int
    statistics: dict[str, Any]
    partitions: tuple[_Partition, ...]
    checks: tuple[Any, ...]
    writer: dict[str, str]
    expires_after_seconds: float
    in_place: bool = False  # records of older versions lack it
    based_on: int | None = None  # the same


@dataclass(frozen=True, kw_only=True, slots=True)
class StagedRecord:
    """A write between steps 3 and 5."""

    files: WrittenFiles  # with the plan they were written by and the results of checks
    expires_after_seconds: (
        float  # so long after the record was put, by the store's clock, a vacuum may delete the files
    )
    added_schema: str = ""  # columns that the table gets with the publish, Spark's JSON; empty if there are none
    writer: Mapping[str, str] = field(default_factory=dict)  # who staged it

    @property
    def plan(self) -> WritePlan:
        """Return the plan of the write."""
        return self.files.plan

    def validate(self) -> None:
        """Check the record against itself; ``InvalidInputError`` lists what is wrong."""
        plan, prefix = self.plan, self.plan.data_location.key
        figures = [
            n
            for partition in self.files.partitions
            for n in (partition.rows, partition.bytes, partition.raw_bytes or 0)
        ]
        keys = [key for partition in self.files.partitions for key in partition.keys]
        values = [partition.values for partition in self.files.partitions]
        width, expiry = len(plan.table.partition_columns), self.expires_after_seconds
        is_below = (key.startswith(prefix) and ".." not in key.split("/") for key in keys)
        faults = {
            "its write_id is malformed": WRITE_ID.fullmatch(plan.write_id) is None,
            "it never expires": not 0 < expiry <= LONGEST_EXPIRY_SECONDS,
            "its base version is none": not 0 <= plan.base_version <= MAX_NUMBER,
            "created_at has no time zone": plan.created_at.utcoffset() is None,
            "a figure is negative, or one that nothing could have": not all(0 <= n <= MAX_NUMBER for n in figures),
            "a partition is named twice": len(set(values)) != len(values),
            "a partition has another number of values than the table has partition columns": (
                any(len(spelled_values) != width for spelled_values in values)
            ),
            "a file is not below its own directory": not all(is_below),
        }
        problems = [text for text, is_so in faults.items() if is_so]
        if problems:
            raise InvalidInputError(
                f"staged write {plan.write_id} of {plan.table.name} is not valid: {'; '.join(problems)}", **plan.named
            )

    def to_fields(self) -> dict[str, Any]:
        """Return the fields that are stored; a record that is not valid is never stored."""
        self.validate()
        plan, scope, spellings, files = self.plan, self.plan.scope, self.plan.spellings, self.files
        same_fields: dict[str, Any] = {name: getattr(plan, name) for name in SAME_NAMES}
        stored = _Stored(
            **same_fields,
            format=STAGED_FORMAT,
            idempotency_key=plan.key.text,
            hint=plan.checkpoint,
            in_doubt=tuple(sorted(plan.in_doubt)),
            schema=plan.schema,
            added_schema=self.added_schema,
            scope=_Scope(known=tuple(sorted(scope.known)), chosen=tuple(sorted(scope.chosen)))
            if isinstance(scope, RecordedScope)
            else None,
            tags=dict(plan.tags),
            spellings=_Spellings(
                types=spellings.types, time_zone=spellings.time_zone, names=tuple(spellings.names.items())
            ),
            table=_table_of(plan.table),
            row_bytes=files.row_bytes,
            statistics={name: column.to_json() for name, column in files.statistics.items()},
            partitions=tuple(
                _Partition(
                    values=partition.values,
                    rows=partition.rows,
                    bytes=partition.bytes,
                    raw_bytes=partition.raw_bytes,
                    files=tuple(key.removeprefix(plan.data_location.key) for key in partition.keys),
                    figures=partition.figures,
                )
                for partition in files.partitions
            ),
            checks=tuple(result.to_json() for result in files.checks),
            writer=dict(self.writer),
            expires_after_seconds=self.expires_after_seconds,
        )
        fields: dict[str, Any] = msgspec.to_builtins(stored, builtin_types=(datetime,))
        for name, unusual in (("in_place", plan.in_place), ("based_on", plan.based_on is not None)):
            if not unusual:
                del fields[name]
        for partition in fields["partitions"]:
            if not partition["figures"]:
                del partition["figures"]
        return {**fields, "created_at": plan.created_at.isoformat()}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any], *, layout: TableLayout, write_id: str) -> StagedRecord:
        """Read and validate the record of one write.

        An ``InvalidInputError`` says that it is damaged, of an unknown format, or names what is not this write's.
        """
        subject = f"staged write {write_id} below {layout.root}"
        try:
            if fields["format"] != STAGED_FORMAT:
                raise InvalidInputError(f"{subject} has format {fields['format']!r}: upgrade table_writer to read it")
            record = _record(msgspec.convert(fields, _Stored), layout, write_id)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            if isinstance(error, InvalidInputError):
                raise
            raise InvalidInputError(
                f"{subject} cannot be read: {type(error).__name__}: {error}. Put its record back from an older version"
                " of the object, or discard it and write it again"
            ) from error
        record.validate()
        return record


@dataclass(frozen=True, slots=True)
class FoundStaged:
    """A staged write as it was found; times are of the store's clock."""

    record: StagedRecord
    put_at: datetime
    age_seconds: float

    @property
    def expires_at(self) -> datetime:
        """Return the time from which on a vacuum deletes the write."""
        return self.put_at + timedelta(seconds=self.record.expires_after_seconds)

    @property
    def is_expired(self) -> bool:
        """Return whether the next vacuum deletes the write."""
        return self.age_seconds > self.record.expires_after_seconds


def _record(stored: _Stored, layout: TableLayout, write_id: str) -> StagedRecord:
    table = _table(stored.table, layout.root)
    spellings = stored.spellings
    same_fields: dict[str, Any] = {name: getattr(stored, name) for name in SAME_NAMES}
    plan = WritePlan(
        **same_fields,
        write_id=write_id,
        key=Key(stored.idempotency_key),
        table=table,
        layout=layout,
        schema=_schema(stored.schema),
        checkpoint=stored.hint,
        in_doubt=frozenset(stored.in_doubt),
        scope=_scope(stored, str(table.name), write_id),
        tags=stored.tags,
        spellings=Spellings(spellings.types, spellings.time_zone, dict(spellings.names), str(table.name)),
    )
    files = WrittenFiles(
        plan=plan,
        partitions=tuple(
            WrittenPartition(
                values=partition.values,
                keys=FileKeys([f"{plan.data_location.key}{name}" for name in partition.files]),
                rows=partition.rows,
                bytes=partition.bytes,
                raw_bytes=partition.raw_bytes,
                figures=partition.figures,
            )
            for partition in stored.partitions
        ),
        row_bytes=stored.row_bytes,
        checks=tuple(map(CheckResult.from_json, stored.checks)),
        statistics={name: ColumnStatistics.from_json(texts) for name, texts in stored.statistics.items()},
    )
    return StagedRecord(
        files=files,
        expires_after_seconds=stored.expires_after_seconds,
        added_schema=_schema(stored.added_schema),
        writer=stored.writer,
    )


def _table_of(table: Table) -> _Table:
    return _Table(
        database=table.name.database,
        name=table.name.name,
        kind=table.kind,
        created_at_seconds=table.created_at_seconds,
        columns=tuple((column.name, column.type, column.comment) for column in table.columns),
        partition_columns=tuple((column.name, column.type, column.comment) for column in table.partition_columns),
        root=table.root,
        input_format=table.input_format,
        serde=table.serde,
    )


def _table(stored: _Table, layout_root: Location) -> Table:
    if not Location.parse(stored.root).same_place(layout_root):
        raise InvalidInputError(f"it was staged for a table at {stored.root}, and lies below {layout_root}")
    return Table(
        name=TableName(stored.database, stored.name),
        kind=stored.kind,
        location=stored.root,
        columns=tuple(Column(*column) for column in stored.columns),
        partition_columns=tuple(Column(*column) for column in stored.partition_columns),
        parameters={ROOT_PARAMETER: stored.root},
        input_format=stored.input_format,
        serde=stored.serde,
        created_at_seconds=stored.created_at_seconds,
    )


def _scope(stored: _Stored, table: str, write_id: str) -> Scope:
    if stored.mode.facts.replaces_table:
        return every_partition
    if stored.scope is None:
        if stored.where:
            raise InvalidInputError("its predicate has no partitions")
        return no_partition
    return RecordedScope(frozenset(stored.scope.known), frozenset(stored.scope.chosen), stored.where, table, write_id)


def _schema(text: str) -> str:
    """Read a schema, which is empty or Spark's JSON of one."""
    if text and not isinstance(json.loads(text)["fields"], list):
        raise TypeError("a schema has no fields")
    return text
