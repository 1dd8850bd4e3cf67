"""What step 1 asks of the table, its log and its root, wherever the rows of a write come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from table_writer.config import WriteOptions
from table_writer.errors import InvalidInputError, counted, few
from table_writer.jobs.plan.parquet_settings import FileSettings
from table_writer.metastore.settings import unusable_client
from table_writer.model.partition_value import Spellings, has_spellings
from table_writer.model.table import PartitionValues, Table, TableName, partition_name
from table_writer.model.table_kind import parameter
from table_writer.model.units import MIB
from table_writer.model.upload_spec import ParquetOptions, UploadSpec
from table_writer.model.write import Scope, TableLayout, WritePlan, WrittenFiles
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.known_log import name_log, require_known_log, shown_partitions
from table_writer.protocol.log.listing import Listing
from table_writer.protocol.log.owner import (
    other_tables,
    refuse_immovable,
    refuse_left_log,
    refuse_nested_roots,
    require_in_place,
    require_owner,
    take_root,
)
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.table.root_markers import refuse_marked_root, refuse_sink
from table_writer.storage.object_store import ObjectStore
from table_writer.storage.table_files import existing_values

LARGEST_PART_BYTES = 16 * MIB  # more memory per task for no speed that could be measured


class TablePlanner(ABC):
    """Plans writes to one table that was found writable."""

    def __init__(self, opened: OpenTable) -> None:
        self._opened = opened
        self._table = opened.table
        self._layout = opened.layout
        self._store = opened.store
        self._metastore = opened.metastore

    @abstractmethod
    def _partition_types(self) -> tuple[str, ...]:
        """Return the types of the partition columns, as :class:`Spellings` knows them."""

    def base(self, based_on: int | None, listing: Listing) -> int | None:
        """Return the version that the caller's rows are based on; refuse one that is yet to come."""
        if based_on is not None and based_on > listing.newest:
            raise InvalidInputError(
                f"{self._table.name} has no version {based_on}: its newest is {listing.newest}. version_of(rows, table)"
                " tells the version of rows that read() returned",
                table=str(self._table.name),
            )
        return based_on

    def first_write(self) -> tuple[str, ...]:
        """Return what a person should know of a table that this library has not written yet.

        Raises ``InvalidInputError`` if another table's files are in the way, or the metastore would not move the table.
        """
        self._opened.require_all_columns()
        refuse_nested_roots(self._store, self._layout, self._table, other_tables(self._metastore, self._table))
        now = shown_partitions(self._metastore, self._table)
        refuse_left_log(self._layout, self._table, now.values())
        require_known_log(self._store, self._layout, self._table, "", now)
        refuse_marked_root(self._store, self._layout.root, self._table)
        refuse_immovable(self._metastore, self._table)
        unusable = unusable_client(self._opened.session.hive_client, self._metastore.stated_version())
        stray = _stray_files(self._store, self._layout) if self._table.partition_columns else ()
        return (*([unusable] if unusable else ()), *stray)

    def _read_log(self, seen: Listing | None) -> tuple[str, Listing] | None:
        """Return the id of the log and what a plan builds on; ``None`` before the first write, which begins the log."""
        complete = self._opened.require_all_columns
        log_id = require_owner(self._store, self._layout, self._opened.owner, complete=complete, notes_columns=True)
        if not log_id:
            return None
        require_known_log(self._store, self._layout, self._table, log_id)
        refuse_sink(self._store, self._layout.root, self._table)
        return log_id, self._opened.listing_to_build_on(log_id, seen)

    def _own_root(
        self, read: Callable[[], tuple[str, Listing] | None], seen: Listing | None
    ) -> tuple[tuple[str, ...], str, Listing]:
        """Find out whose files these are; returns what a person should know, the id of the log, and what it says."""
        require_in_place(self._store, self._layout, self._table)
        found = read()
        if found is not None:
            return (), *found
        notes: list[str] = []
        owner = self._opened.owner
        log_id = take_root(self._store, self._layout, owner, first_write=lambda: notes.extend(self.first_write()))
        name_log(self._metastore, self._table, self._layout, log_id)
        return tuple(notes), log_id, self._opened.listing_to_build_on(log_id, seen)

    def spelled(self, existing: Iterable[PartitionValues], time_zone: str) -> Spellings:
        """Sort partitions that exist by their values: another tool may have spelled one in its own way.

        Raises ``InvalidInputError`` if two partitions are one value, or if a value depends on a time zone that is not
        known.
        """
        try:
            spelled = Spellings.of(existing, self._partition_types(), time_zone, table=str(self._table.name))
            spelled.require_clear()
        except InvalidInputError as error:
            error.table = str(self._table.name)
            raise
        return spelled

    def _existing_partitions(self, mode: WriteMode, options: WriteOptions) -> Sequence[PartitionValues]:
        """Read the partitions that exist, once, where it matters.

        It does for a predicate, for the mode that refuses them, and for types of which one value has several texts.
        """
        is_read = options.where or mode.facts.only_creates or has_spellings(self._partition_types())
        names = self._metastore.get_partition_names(self._table.name) if is_read else ()
        if not mode.facts.only_creates:
            return names
        found = self._metastore.get_partitions(self._table, names)
        return sorted(existing_values(self._store, self._layout, found))

    def existing_of(self, scope: Scope, mode: WriteMode, options: WriteOptions) -> Sequence[PartitionValues]:
        """Return the partitions that exist, where it matters; a predicate that fails on one fails now."""
        existing = self._existing_partitions(mode, options)
        if options.where:
            scope(existing)
        return existing

    def write_plan(
        self, write_id: str, mode: WriteMode, options: WriteOptions, log: tuple[str, Listing], **others: Any
    ) -> WritePlan:
        """Return the plan of a write, based on what the log of some id says; ``others`` are its other fields."""
        log_id, listing = log
        based_on = others["based_on"]
        return WritePlan(
            write_id=write_id,
            mode=mode,
            table=self._table,
            layout=self._layout,
            base_version=listing.newest if based_on is None else int(based_on),
            checkpoint=listing.listed_after,
            in_doubt=listing.in_doubt,
            created_at=datetime.now(UTC),
            log_id=log_id,
            named_by_caller=options.write_uuid != "",
            where=options.where,
            tags=dict(options.tags),
            in_place=options.carry == "in_place",
            max_copied_bytes=options.max_copied_bytes,
            **others,
        )

    def upload_spec(
        self,
        write_id: str,
        data_columns: Sequence[str],
        encoding: ParquetOptions,
        settings: FileSettings,
        options: WriteOptions,
        existing: Container[PartitionValues],
    ) -> UploadSpec:
        """Return all that a task needs to know, which writes rows as Parquet."""
        config = self._opened.config
        return UploadSpec(
            write_id=write_id,
            key_prefix=self._layout.data(write_id).key,
            store=self._opened.store_settings,
            data_columns=tuple(data_columns),
            partition_columns=tuple(column.name for column in self._table.partition_columns),
            file_options=replace(encoding, file_name_prefix=config.file_name_prefix),
            part_size_bytes=config.part_size_bytes
            or min(self._opened.tuning.part_bytes or LARGEST_PART_BYTES, LARGEST_PART_BYTES),
            upload_threads=config.upload_threads,
            max_open_files=config.max_open_files,
            buffer_bytes=config.buffer_bytes,
            row_group_bytes=config.row_group_bytes or settings.number("parquet.block.size", 128 * MIB),
            target_file_bytes=options.target_file_bytes,
            most_figures=config.most_figures if self._metastore.keeps_statistics(self._table) else 0,
            existing=existing,
        )


def require_mode(mode: WriteMode, options: WriteOptions, table: TableName, *, partitioned: bool) -> None:
    """Refuse a mode that the table has no use for, and options that the mode has none for."""
    options.require_fit(mode)
    if not partitioned and mode.facts.needs_partitions:
        raise InvalidInputError(
            f"{table} is not partitioned, so {mode.value} has nothing to tell apart: use append"
            f" ({WriteMode.APPEND.facts.replaces}) or overwrite_table ({WriteMode.OVERWRITE_TABLE.facts.replaces})."
            " Nothing was written.",
            table=str(table),
        )
    if partitioned and options.schema == "replace":
        raise InvalidInputError(
            f"{table} is partitioned, and each partition keeps columns of its own: schema='replace' would not reach"
            " them. Add columns with schema='evolve', or write into a new table. Nothing was written.",
            table=str(table),
        )


def refuse_immutable(table: Table, mode: WriteMode) -> None:
    """Refuse what Hive refuses: to add rows to a table that says that it is never added to."""
    if mode.facts.keeps_rows and parameter(table, "immutable") == "true":
        raise InvalidInputError(
            f"{table.name} is immutable, so Hive adds no rows to it: overwrite, or ALTER TABLE {table.name.sql} UNSET"
            " TBLPROPERTIES ('immutable'). Nothing was written.",
            table=str(table.name),
        )


def _stray_files(store: ObjectStore, layout: TableLayout) -> list[str]:
    """Report files that belong to no partition; markers such as ``_SUCCESS`` are no data."""
    names = [key.rpartition("/")[2] for key in store.list_files(layout.root.key)]
    data = [name for name in names if not name.startswith(("_", "."))]
    if not data:
        return []
    shown = few(data, most=3)
    return [f"{counted(len(data), 'file')} directly in {layout.root}: {shown}. No partition reads them; they stay."]


def require_inside(staged: WrittenFiles) -> None:
    """Refuse rows of partitions that the predicate of a write does not select."""
    plan = staged.plan
    if not plan.where:
        return
    inside = plan.scope([partition.values for partition in staged.partitions])
    outside = [partition for partition in staged.partitions if partition.values not in inside]
    if outside:
        columns = [column.name for column in plan.table.partition_columns]
        named = (
            f"{partition_name(columns, partition.values)} ({counted(partition.rows, 'row')})" for partition in outside
        )
        raise InvalidInputError(
            f"the DataFrame has rows in {counted(len(outside), 'partition')} of {plan.table.name} that"
            f" where={plan.where!r} does not select: {few(named, most=3)}. Nothing was"
            " published. Filter them out, or widen the predicate.",
            table=str(plan.table.name),
            write_id=plan.write_id,
        )
