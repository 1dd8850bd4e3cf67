"""The stored form of a staged write: all that another process needs to look at it, publish it or discard it.

It is an object of its own, put once, frozen and versioned, and checks itself on load and on save: what is damaged or
hostile is an error before anything is decided by it. Keys are stored relative to the write's own directory, and
cannot leave it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from table_writer.errors import ConflictError, InvalidInputError, counted
from table_writer.model.check_result import CheckResult
from table_writer.model.column_statistics import ColumnStatistics
from table_writer.model.entry import MAX_NUMBER, WRITE_ID, require_understood
from table_writer.model.location import Location, Place
from table_writer.model.table import COLUMNS_PARAMETER, ROOT_PARAMETER, Column, PartitionValues, Table
from table_writer.model.table_read import FileFacts, ReadOf, ReadVersion, TableRead
from table_writer.model.units import DAY_SECONDS
from table_writer.model.words import NO_WORDS, Words
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
LONGEST_EXPIRY_SECONDS: Final = 365.0 * DAY_SECONDS
OTHER_NAMES: Final = {"checkpoint": "hint", "key": "idempotency_key"}
NOT_STORED: Final = frozenset({"write_id", "layout", "named_by_caller", "compacted"})
"""Fields that follow from the place of the record, and those that no staged write has."""

OF_ROWS: Final = frozenset({"reads", "watched"})
"""Fields that only a write has which depends on rows of its table."""

STORED_SCOPES: Final[Mapping[Scope, str]] = {no_partition: "none", every_partition: "every"}

PLAN_NAMES: Final = {
    item.name: OTHER_NAMES.get(item.name, item.name)
    for item in dataclasses.fields(WritePlan)
    if item.name not in NOT_STORED | OF_ROWS
}
"""The other fields of a plan, each with its key in a record; one that a record lacks has its default."""

TABLE_NAMES: Final = ("kind", "created_at_seconds", "input_format", "serde")
"""Facts that tell whether the table is still the one of the plan; its parameters may hold a login, and stay out."""

COLUMN_LISTS: Final = ("columns", "partition_columns")
SPELLING_NAMES: Final = ("types", "time_zone")
Columns = list[tuple[str, str, str]]  # as stored: name, type, comment
PARTITION_NAMES: Final = tuple(
    item.name for item in dataclasses.fields(WrittenPartition) if item.name not in {"keys", "packed_files"}
)


@dataclass(frozen=True)
class RecordedScope:
    """The partitions that a predicate selected when the write was staged: evaluating it again would need Spark.

    It raises ``ConflictError`` when it is asked for a partition that has appeared since. Without a predicate it is
    these partitions for ever.

    Examples
    --------
    >>> scope = RecordedScope(frozenset({("1",), ("2",)}), frozenset({("1",)}), "dt = 1", "mart.orders", "w1")
    >>> scope([("1",), ("2",)])
    frozenset({('1',)})
    """

    known: frozenset[PartitionValues]  # the partitions that existed
    chosen: frozenset[PartitionValues]  # the partitions that are selected
    where: str = ""
    table: str = ""
    write_id: str = ""
    time_zone: str = ""  # of the session that can say it, where that is known to be another

    def to_fields(self) -> dict[str, Any]:
        """Return the fields that are stored."""
        return {"known": sorted(self.known), "chosen": sorted(self.chosen)}

    def __call__(self, existing: Collection[PartitionValues]) -> frozenset[PartitionValues]:
        """Return those of the partitions that were selected."""
        unknown_values = sorted(set(existing) - self.known) if self.where else ()
        if unknown_values:
            in_zone = f", with spark.sql.session.timeZone={self.time_zone}" if self.time_zone else ""
            raise ConflictError(
                f"{self.table} has got {counted(len(unknown_values), 'partition')} since write {self.write_id} was"
                f" staged, for example {unknown_values[0]}: whether where={self.where!r} selects them takes Spark to"
                " say. Nothing was published. Publish from Python:"
                f" TableWriter(spark).staged_write(table, write_id).publish(){in_zone}",
                table=self.table,
                write_id=self.write_id,
            )
        return frozenset(existing) & self.chosen


class _OtherFields(msgspec.Struct):
    """The fields of a record beside those of the plan."""

    format: int
    added_schema: str
    row_bytes: int
    statistics: dict[str, Any]
    partitions: list[dict[str, Any]]
    checks: list[Any]
    writer: dict[str, str]
    expires_after_seconds: float
    is_read_version: bool = False
    words: Words = NO_WORDS


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

    @property
    def called(self) -> str:
        """Return by what name people know the write: that of the call that changes rows; else its mode."""
        return self.files.words.call or self.plan.mode.value

    @property
    def words(self) -> Words:
        """Return what the write says for people."""
        return self.files.all_words

    def validate(self) -> None:
        """Check the record against itself; ``InvalidInputError`` lists what is wrong."""
        plan, prefix = self.plan, self.plan.data_location.key
        figures = [
            n
            for partition in self.files.partitions
            for n in (partition.rows, partition.bytes, partition.raw_bytes or 0)
        ]
        figures += self.files.words.counts.values()
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
            "what it depends on cannot be recorded": (
                any(read.covers is not frozenset for read in plan.reads)
                or not (isinstance(plan.watched, RecordedScope) or plan.watched in STORED_SCOPES)
            ),
        }
        problems = [text for text, is_so in faults.items() if is_so]
        if problems:
            raise InvalidInputError(
                f"staged write {plan.write_id} of {plan.table.name} is not valid: {'; '.join(problems)}", **plan.named
            )

    def to_fields(self) -> dict[str, Any]:
        """Return the fields that are stored; a record that is not valid is never stored."""
        self.validate()
        plan, files, prefix = self.plan, self.files, self.plan.data_location.key
        is_fixed = isinstance(plan.scope, RecordedScope) and not plan.where
        is_of_rows = bool(plan.reads) or plan.watched is not no_partition or is_fixed
        stored = {
            **{stored_name: getattr(plan, name) for name, stored_name in PLAN_NAMES.items()},
            "format": STAGED_FORMAT,
            "created_at": plan.created_at.isoformat(),
            "based_on": None if plan.based_on is None else int(plan.based_on),
            "in_doubt": sorted(plan.in_doubt),
            "added_schema": self.added_schema,
            "scope": plan.scope.to_fields() if isinstance(plan.scope, RecordedScope) else None,
            "watched": _watched_fields(plan.watched),
            "is_read_version": isinstance(plan.based_on, ReadVersion),
            "reads": [list(read.files.items()) for read in plan.reads],
            "idempotency_key": plan.key.text,
            "spellings": {
                **{name: getattr(plan.spellings, name) for name in SPELLING_NAMES},
                "names": list(plan.spellings.names.items()),
            },
            "table": _table_fields(plan.table),
            "row_bytes": files.row_bytes,
            "statistics": {name: column.to_json() for name, column in files.statistics.items()},
            "partitions": [_partition_fields(partition, prefix) for partition in files.partitions],
            "words": files.words,
            "checks": [result.to_json() for result in files.checks],
            "writer": self.writer,
            "expires_after_seconds": self.expires_after_seconds,
        }
        is_usual_by_name = {
            "in_place": not plan.in_place,
            "based_on": plan.based_on is None,
            "is_read_version": not isinstance(plan.based_on, ReadVersion),
            "replaced_schema": not plan.replaced_schema,
            "words": files.words == NO_WORDS,
            **dict.fromkeys(OF_ROWS, not is_of_rows),
        }
        for name, is_usual in is_usual_by_name.items():
            if is_usual:
                del stored[name]
        fields: dict[str, Any] = msgspec.to_builtins(stored)
        return fields

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any], *, layout: TableLayout, write_id: str) -> StagedRecord:
        """Read and validate the record of one write.

        An ``InvalidInputError`` says that it is damaged, of an unknown format, or names what is not this write's.
        """
        subject = f"staged write {write_id} below {layout.root}"
        try:
            require_understood(fields, subject, STAGED_FORMAT)
            record = _record(fields, layout, write_id)
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


def _record(fields: Mapping[str, Any], layout: TableLayout, write_id: str) -> StagedRecord:
    """Read a record; msgspec holds each value against the annotation of its field."""
    other = msgspec.convert(fields, _OtherFields)
    table, spellings = _table(fields["table"], layout.root), fields["spellings"]
    plan_fields = {
        **{name: fields[stored_name] for name, stored_name in PLAN_NAMES.items() if stored_name in fields},
        "write_id": write_id,
        "layout": layout,
        "table": table,
        "schema": _schema(fields["schema"]),
        "log_id": fields["log_id"],
        "scope": _scope(fields, str(table.name), write_id),
        "key": {"text": fields["idempotency_key"]},
        "spellings": {
            **{name: spellings[name] for name in SPELLING_NAMES},
            "names": dict(msgspec.convert(spellings["names"], list[tuple[PartitionValues, Any]])),
            "table": str(table.name),
        },
    }
    plan = msgspec.convert(plan_fields, WritePlan)
    if other.is_read_version and plan.based_on is not None:
        plan = dataclasses.replace(plan, based_on=ReadVersion(plan.based_on))
    if fields.keys() & OF_ROWS:
        reads = msgspec.convert(fields["reads"], list[list[tuple[Place, dict[str, FileFacts]]]])
        plan = dataclasses.replace(
            plan,
            watched=_watched(fields["watched"], str(table.name), write_id),
            reads=tuple(TableRead(of=ReadOf.TABLE, files=dict(files), covers=frozenset) for files in reads),
        )
    files = WrittenFiles(
        plan=plan,
        partitions=tuple(_partition(partition, plan.data_location.key) for partition in other.partitions),
        row_bytes=other.row_bytes,
        checks=tuple(map(CheckResult.from_json, other.checks)),
        words=other.words,
        statistics={name: ColumnStatistics.from_json(texts) for name, texts in other.statistics.items()},
    )
    return StagedRecord(
        files=files,
        expires_after_seconds=other.expires_after_seconds,
        added_schema=_schema(other.added_schema),
        writer=other.writer,
    )


def _partition_fields(partition: WrittenPartition, prefix: str) -> dict[str, Any]:
    """Return what is stored of a partition: its keys below the write's own directory; no figures if there are none."""
    fields = {name: getattr(partition, name) for name in PARTITION_NAMES if name != "figures" or partition.figures}
    return {**fields, "files": [key.removeprefix(prefix) for key in partition.keys]}


def _partition(fields: Mapping[str, Any], prefix: str) -> WrittenPartition:
    partition = msgspec.convert({**fields, "keys": fields["files"]}, WrittenPartition)
    return dataclasses.replace(partition, keys=FileKeys([f"{prefix}{name}" for name in partition.keys]))


def _table_fields(table: Table) -> dict[str, Any]:
    return {
        **{name: getattr(table, name) for name in TABLE_NAMES},
        "database": table.name.database,
        "name": table.name.name,
        **{name: list(map(dataclasses.astuple, getattr(table, name))) for name in COLUMN_LISTS},
        "root": table.root,
        **({"columns_by": table.columns_by} if table.columns_by else {}),
    }


def _table(fields: Mapping[str, Any], layout_root: Location) -> Table:
    root = fields["root"]
    if not Location.parse(root).same_place(layout_root):
        raise InvalidInputError(f"it was staged for a table at {root}, and lies below {layout_root}")
    table_fields = {
        **{name: fields[name] for name in TABLE_NAMES},
        "name": {"database": fields["database"], "name": fields["name"]},
        "location": root,
        **{name: [Column(*column) for column in msgspec.convert(fields[name], Columns)] for name in COLUMN_LISTS},
        "parameters": {ROOT_PARAMETER: root, COLUMNS_PARAMETER: fields.get("columns_by", "")},
    }
    return msgspec.convert(table_fields, Table)


def _scope(fields: Mapping[str, Any], table: str, write_id: str) -> Scope:
    if WriteMode(fields["mode"]).facts.replaces_table:
        return every_partition
    if fields["scope"] is None:
        if fields["where"]:
            raise InvalidInputError("its predicate has no partitions")
        return no_partition
    scope_fields = {**fields["scope"], "where": fields["where"], "table": table, "write_id": write_id}
    return msgspec.convert(scope_fields, RecordedScope)


def _watched_fields(watched: Scope) -> str | dict[str, Any]:
    if isinstance(watched, RecordedScope):
        return {**watched.to_fields(), "where": watched.where}
    return STORED_SCOPES[watched]


def _watched(stored: Any, table: str, write_id: str) -> Scope:
    if isinstance(stored, str):
        return {text: scope for scope, text in STORED_SCOPES.items()}[stored]
    return msgspec.convert({**stored, "where": stored["where"], "table": table, "write_id": write_id}, RecordedScope)


def _schema(text: str) -> str:
    """Read a schema, which is empty or Spark's JSON of one."""
    if text and not isinstance(json.loads(text)["fields"], list):
        raise TypeError("a schema has no fields")
    return text


for kind in (WritePlan, WrittenPartition, Table, RecordedScope, _OtherFields):
    msgspec.json.Decoder(kind)  # prepared here: msgspec 0.22 crashes when two threads prepare it at once
