"""A table that is open for work, with its store, log and settings."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import Any

from table_writer.checked import LONGEST_AGE
from table_writer.config import SessionSettings, TableWriterConfig, require_mirrors
from table_writer.errors import ConflictError, InvalidInputError, MetastoreError, PartlyPublishedError, counted, few
from table_writer.metastore.protocol import Metastore
from table_writer.metastore.settings import GLUE_SCHEME, as_hive_2
from table_writer.model.entry import Key, LogEntry
from table_writer.model.location import Place, without_login
from table_writer.model.meaning import Operation
from table_writer.model.table import (
    HOURS_PROPERTIES,
    MIRRORS_PROPERTY,
    RETENTION_PROPERTY,
    USER_PROPERTIES,
    PartitionValues,
    Table,
    name_in,
    partition_values,
    shown_name,
    unknown_properties,
)
from table_writer.model.write import TableLayout, WritePlan, new_write_id
from table_writer.protocol.log.deadline import Deadline
from table_writer.protocol.log.history import History
from table_writer.protocol.log.known_log import require_known_log, shown_partitions
from table_writer.protocol.log.listing import Listing
from table_writer.protocol.log.owner import Owner, require_in_place, require_owner
from table_writer.protocol.log.placements import Placement
from table_writer.protocol.log.records import LogEnd, SlotRecord
from table_writer.protocol.log.registration import Registration, writer_identity
from table_writer.protocol.log.rules import require_same_query
from table_writer.protocol.log.table_log import TableLog
from table_writer.storage.kinds import kind_of
from table_writer.storage.object_store import ObjectStore, StoreSettings
from table_writer.storage.store_kind import Renames, Tuning

logger = logging.getLogger(__name__)


class RepeatedError(Exception):
    """A write with this idempotency key, or this very write, was published meanwhile: there is nothing left to do."""

    def __init__(self, entry: LogEntry) -> None:
        super().__init__(f"published already, as version {entry.version}")
        self.entry = entry


def repetition_error(record: SlotRecord, table: Table) -> RepeatedError | PartlyPublishedError:
    """Return the error for a write that was published before, or was published in part."""
    if record.superseded:
        return partly_published_error(record.entry, record.superseded, table)
    return RepeatedError(record.entry)


def partly_published_error(
    entry: LogEntry, superseded: Collection[PartitionValues], table: Table
) -> PartlyPublishedError:
    """Return the error of a write some of whose partitions another tool had moved before they switched."""
    names = few(shown_name(table, values) for values in sorted(superseded))
    return PartlyPublishedError(
        f"version {entry.version} has published write {entry.write_id} of {entry.table} but for"
        f" {counted(len(superseded), 'partition')}: {names}. Another tool had moved them, and their rows are nowhere."
        " Write these partitions with a call of their own; or roll the table back to version"
        f" {entry.version - 1}, and repeat the whole call.",
        table=entry.table,
        write_id=entry.write_id,
    )


@dataclass(frozen=True, kw_only=True)
class OpenTable:
    """The facts, settings and services that work on one table needs."""

    table: Table  # as the metastore described it when it was opened
    layout: TableLayout
    store: ObjectStore
    store_settings: StoreSettings  # with which executors open the store for themselves
    metastore: Metastore
    session: SessionSettings  # the settings of the Spark session, or Hadoop's
    config: TableWriterConfig  # the user's own settings
    sleep: Callable[[float], None] = time.sleep  # waits between two looks; a double in tests
    # of the process, by what is remembered: a mirror as it was written last
    memory: dict[tuple[str, Place], Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def identity(self) -> dict[str, str]:
        """The identity of the writer: the process that asks, perhaps a fork of the one that opened the table."""
        return writer_identity(self.session.application_id)

    @property
    def event_facts(self) -> dict[str, Any]:
        """The fields of a :class:`TableEvent` that name the table and the writer."""
        identity = self.identity
        return {
            "table": str(self.table.name),
            "metastore": self._first_address(),
            "location": str(self.layout.root),
            "columns": self.table.columns,
            "partition_columns": self.table.partition_columns,
            **{name: identity[name] for name in ("user", "host", "application_id")},
        }

    def _first_address(self) -> str:
        """Return the same address in every process, whichever of several was chosen or is answering now."""
        named = self.config.metastore_uris or as_hive_2(self.session.hadoop).get("hive.metastore.uris", "").split(",")
        is_glue = self.metastore.uri.startswith(GLUE_SCHEME)
        return self.metastore.uri if is_glue else without_login(named[0].strip()) or self.metastore.uri

    @cached_property
    def log(self) -> TableLog:
        """The table's log."""
        return TableLog(self.store, self.layout, memory_bytes=self.config.log_memory_bytes)

    def next_entry(self, end: LogEnd, operation: Operation, **fields: Any) -> LogEntry:
        """Return the entry that this process would claim after the newest one; ``fields`` are the entry's own."""
        entry = LogEntry(
            table=str(self.table.name),
            version=end.newest + 1,
            in_doubt=end.in_doubt,
            write_id=new_write_id(),
            operation=operation,
            created_at=datetime.now(UTC),
            base_version=end.newest,
            publish_timeout_seconds=self.config.publish_timeout_seconds,
            writer=self.identity,
            log_id=self.log.slots.log_id,
        )
        return replace(entry, **fields)

    def deadline(self, entry: LogEntry) -> Deadline:
        """Return the time that this process has for an entry which it is about to claim."""
        return Deadline(entry.publish_timeout_seconds, claim_age=partial(self.log.slots.claim_age, entry))

    def registration(self, plan: WritePlan) -> Registration:
        """Return the sign of life of a write."""
        return Registration(self.store, plan, self.identity, heartbeat_seconds=self.config.heartbeat_seconds)

    def require_owner(self) -> None:
        """Raise ``InvalidInputError`` if the files below the root are another table's, or the table is not there."""
        log_id = require_owner(self.store, self.layout, self.owner, complete=self.require_all_columns)
        self.log.expect(log_id)
        require_in_place(self.store, self.layout, self.table)
        shown = {} if log_id else shown_partitions(self.metastore, self.table)
        require_known_log(self.store, self.layout, self.table, log_id, shown)

    def why_partial(self) -> str:
        """Say why the metastore may leave out of its answers what is there; empty if it does not."""
        return "" if self.config.sees_everything else self.metastore.why_partial(self.table)

    def require_all_columns(self) -> None:
        """Refuse a table that may have columns which its log does not know yet and this role does not see."""
        reason = "" if self.config.sees_everything else self.metastore.why_unproven(self.table)
        if reason:
            raise InvalidInputError(
                f"{self.table.name} may have columns that this role does not see: {reason}. A write would take them"
                " from everybody. Nothing was changed. If the role sees all columns, say so:"
                " TableWriterConfig(sees_everything=True), or --sees-everything.",
                table=str(self.table.name),
            )

    @property
    def owner(self) -> Owner:
        """The table, as ``owner.json`` is to name it."""
        return Owner.of(self.table, self.metastore.uri)

    def require_new_key(self, key: Key, query_ids: Collection[str] = ()) -> Listing | None:
        """Refuse an idempotency key that was published before; ``None`` without a key.

        That is a ``RepeatedError``, or a ``PartlyPublishedError`` where only a part was.

        ``query_ids`` says of a stream's batch which streaming queries may be writing it; a batch of another query than
        that of the stream's newest one is an ``InvalidInputError``.

        Returns what a plan builds on: the log as it was before the look. So an entry with the key that is published
        later is met at the claim.
        """
        if not key:
            return None
        self.require_owner()
        recent = self.log.list_recent()
        if key.stream:
            published, newest = self.log.find_batch(key, recent)
            require_same_query(newest, key, query_ids)
        else:
            published = self.log.find_key(key, recent)
        if published is not None:
            raise repetition_error(published, self.table)
        return self.log.lister.with_checkpoint(recent.listing)

    def listing_to_build_on(self, log_id: str, seen: Listing | None = None) -> Listing:
        """Return the log as a plan builds on it: as an earlier look of the same call found it, else as it is now.

        Raises ``ConflictError`` if that look was at another log, which somebody has deleted since, and
        ``InvalidInputError`` if the log is closed.
        """
        self.log.expect(log_id)
        if seen is None:
            seen = self.log.lister.read()
        self.log.slots.require_open(str(self.table.name))
        if seen.newest and log_id not in seen.ids:
            raise ConflictError(
                f"the log of {self.table.name} was deleted and begun again since this call began. This call changed"
                " nothing. Run it again.",
                table=str(self.table.name),
            )
        return seen

    def correct_statistics(self, history: History, placements: Mapping[PartitionValues, Placement]) -> bool:
        """Remove statistics that are not those of the newest published rows: a call may have been applied late.

        Returns whether that is done: what depends on rows alone goes on without it.
        """
        in_place = (values for values, where in placements.items() if where is Placement.IN_PLACE)
        wanted = {values: history.state.current_partitions[values].partition.column_figures() for values in in_place}
        try:
            wrong = self.metastore.differing_statistics(self.table, wanted) if wanted else ()
            if wrong:
                logger.warning("column statistics of %s of %s go", counted(len(wrong), "partition"), self.table.name)
                self.metastore.drop_statistics(self.table, wrong)
        except MetastoreError as error:
            logger.warning("column statistics of %s were not compared with its log: %s", self.table.name, error)
            return False
        return True

    @property
    def tuning(self) -> Tuning:
        """What Hadoop's settings say of parts and threads here."""
        return kind_of(self.layout.root).tuning(self.layout.root, self.session.hadoop)

    @property
    def renames(self) -> Renames:
        """Why Spark's own writer renames files here, and what helps."""
        return kind_of(self.layout.root).renames(self.layout.root, self.session.hadoop, self.session.missing_jar)

    def marks_success(self) -> bool:
        """Return whether ``_SUCCESS`` is to be put into the root."""
        wanted = self.session.hadoop.get("mapreduce.fileoutputcommitter.marksuccessfuljobs", "true")
        return wanted.lower() != "false" if self.config.mark_success is None else self.config.mark_success is not False

    def marks_partitions(self) -> bool:
        """Return whether each partition is to have a ``_SUCCESS`` of its own."""
        return self.config.mark_success == "partitions"

    def partition_names(self, values: Collection[PartitionValues]) -> tuple[str, ...]:
        """Return Hive's names of partitions for people, in the order of their values."""
        return tuple(shown_name(self.table, partition_values) for partition_values in sorted(values))

    def partition_values(self, names: Collection[str] | None) -> tuple[PartitionValues, ...] | None:
        """Read partition names as Hive spells them; ``None`` stands for all partitions."""
        if names is None:
            return None
        columns = [column.name for column in self.table.partition_columns]
        chosen: list[PartitionValues] = []
        for name in names:
            values = partition_values(name)
            if len(values) != len(columns) or name_in(self.table, values).lower() != name.lower():
                example = "/".join(f"{column}=…" for column in columns)
                raise InvalidInputError(
                    f"{name!r} is not a partition of {self.table.name}; expected {example} as SHOW PARTITIONS spells"
                    " it, with %3A for a colon",
                    table=str(self.table.name),
                )
            chosen.append(values)
        if not chosen:
            raise InvalidInputError("no partition is named; leave partitions out for all of them")
        return tuple(dict.fromkeys(chosen))

    @cached_property
    def retention(self) -> timedelta:
        """The time for which replaced data stays: the table's property wins over the config."""
        of_table = self.hours_property(RETENTION_PROPERTY)
        return self.config.retention if of_table is None else of_table

    @cached_property
    def mirrors(self) -> tuple[str, ...]:
        """The kinds of mirrors that the table is to have: its property wins over the config."""
        of_table = self.table.parameters.get(MIRRORS_PROPERTY)
        if of_table is None:
            return tuple(self.config.mirrors)
        return tuple(dict.fromkeys(kind for name in of_table.split(",") if (kind := name.strip().lower())))

    @property
    def followed_mirrors(self) -> tuple[str, ...]:
        """The kinds of mirrors that a change is put into: those that it is to have, and those that others have made.

        As the last listing of the log showed them; a mirror that others have made may be gone without a word.
        """
        others = [kind for kind, marks in self.log.lister.mirrors.items() if marks.is_there]
        return tuple(dict.fromkeys([*self.mirrors, *sorted(others)]))

    def require_properties(self) -> None:
        """Refuse a table with a property of this library's prefix that is unknown, or that is no number of hours."""
        for name, meant in unknown_properties(self.table.parameters).items():
            raise InvalidInputError(
                f"table_writer knows no table property {name}{meant or '.'} Take it away, or spell it right: ALTER"
                f" TABLE {self.table.name.sql} UNSET TBLPROPERTIES ('{name}'). Known are {', '.join(USER_PROPERTIES)}",
                table=str(self.table.name),
            )
        for name in HOURS_PROPERTIES:
            self.hours_property(name)
        require_mirrors(self.mirrors, f"table property {MIRRORS_PROPERTY} of {self.table.name}")

    def hours_property(self, name: str) -> timedelta | None:
        """Return a table property that is a number of hours, ``None`` if the table does not have it."""
        text = self.table.parameters.get(name)
        if text is None:
            return None
        try:
            hours = timedelta(hours=float(text))
        except (ValueError, OverflowError):
            hours = timedelta(days=-1)
        if not timedelta(0) <= hours <= LONGEST_AGE:
            raise InvalidInputError(
                f"table property {name}={text!r} of {self.table.name} is not a number of hours, from 0 to"
                f" {LONGEST_AGE // timedelta(hours=1):,} (100 years)",
                table=str(self.table.name),
            )
        return hours
