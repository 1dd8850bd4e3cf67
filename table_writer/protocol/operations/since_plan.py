"""What has become of a table since a write was planned, and what that means for the write.

It has to wait for what others have in doubt, and is refused by what they have published, dropped, altered or deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from table_writer.errors import (
    ConflictError,
    MetastoreError,
    OutcomeUnknownError,
    PartitionExistsError,
    TableWriterError,
    counted,
    few,
)
from table_writer.metastore.protocol import require_named
from table_writer.model.entry import EntryPartition, Key, LogEntry, Outcome
from table_writer.model.location import Location
from table_writer.model.table import PartitionsNow, PartitionValues, Table, shown_name
from table_writer.model.table_kind import refuse_others
from table_writer.model.write import WritePlan, no_partition, written_ids
from table_writer.protocol.log.listing import Listing
from table_writer.protocol.log.owner import precedes
from table_writer.protocol.log.records import SlotRecord
from table_writer.protocol.log.rules import QUERY_TAG, Standing, published_with_key, require_same_query, standing
from table_writer.protocol.loop import outcome_unknown
from table_writer.protocol.operations.base import unlisted_partitions
from table_writer.protocol.operations.entry import there_under_other_names
from table_writer.protocol.operations.recovery import Recovery
from table_writer.protocol.table.open_table import OpenTable, repetition_error
from table_writer.storage.table_files import existing_values


class SincePlan:
    """Compares a write's plan with what others have done since. It only reads, but for :meth:`end_other`."""

    def __init__(self, opened: OpenTable, plan: WritePlan) -> None:
        self.opened, self.plan = opened, plan

    def records(self, listing: Listing) -> Sequence[SlotRecord]:
        """Read every entry that this write did not see ended, as far as the log still has it."""
        plan = self.plan
        unseen: set[int] = {*range(plan.base_version + 1, listing.newest + 1), *plan.in_doubt, *listing.in_doubt}
        return self.opened.log.read_history(replace(listing, versions=listing.versions & unseen)).records

    def first_in_doubt(self, draft: LogEntry, records: Sequence[SlotRecord]) -> int | None:
        """Compare with every entry this write did not see ended; returns the oldest that must be resolved first."""
        plan = self.plan
        published = self._repetition(records, draft.key)
        if published is not None:
            if draft.stream:
                query_ids = [draft.tags[QUERY_TAG]] if QUERY_TAG in draft.tags else ()
                require_same_query(published.entry, draft.key, query_ids)
            raise repetition_error(published, plan.table)
        plan.concerns(frozenset().union(*(record.entry.partition_values for record in records)))  # asked once for all
        appends, layout = plan.mode.facts.keeps_rows and plan.based_on is None, plan.layout
        for record in records:
            verdict = standing(record, draft, plan.in_doubt, scope=plan.concerns, appends=appends, layout=layout)
            if verdict is Standing.IN_DOUBT:
                return record.entry.version
            if verdict is Standing.CONFLICT:
                raise self._conflict(record.entry, draft)
            if verdict is Standing.DELETED:
                raise _given_up_error(record.entry, draft, plan)
        return None

    def _repetition(self, records: Sequence[SlotRecord], key: Key) -> SlotRecord | None:
        """Return the write that has published the key; a rollback since the plan may have brought it back."""
        if not key:
            return None
        rolled_back = any(
            record.entry.rollback_to is not None and record.outcome is Outcome.PUBLISHED for record in records
        )
        return self.opened.log.find_key(key) if rolled_back else published_with_key(records, key)

    def _conflict(self, entry: LogEntry, draft: LogEntry) -> ConflictError:
        plan = self.plan
        planned = f"this write was planned at version {draft.base_version}"
        behind = planned if plan.based_on is None else f"version {plan.based_on}, on which its rows are based"
        again = "run it again if its rows should win"
        if plan.based_on is not None:
            again = "read() the table again, and write what you make of its rows, based on version_of() them"
        both = (entry.partition_values & draft.partition_values) | plan.concerns(entry.partition_values)
        return ConflictError(
            f"write {entry.write_id} (version {entry.version}, {entry.writer.get('user', '?')}@"
            f"{entry.writer.get('host', '?')}) has published {counted(len(both), 'partition')} of {draft.table} that"
            f" write {draft.write_id} wants to publish, after {behind}:"
            f" {_few_names(plan.table, both)}."
            f" The other write stays, this one changed nothing; {again}.",
            **draft.named,
        )

    def end_other(self, version: int, listing: Listing) -> None:
        """Wait for another entry, or end it; a failure says what that means for the write."""
        plan = self.plan
        entry = self.opened.log.slots.read(version).entry
        try:
            Recovery(self.opened).resolve(version, self.table(), end=listing.end)
        except TableWriterError as error:
            if plan.write_id in written_ids(plan.layout, entry):  # by another process: it may yet be seen
                raise outcome_unknown(entry, error) from error
            if not isinstance(error, OutcomeUnknownError):
                raise
            raise MetastoreError(
                f"version {version} of {plan.table.name}, left in doubt by another write of the same partitions, could"
                f" not be resolved: {error.message} Nothing of write {plan.write_id} was published.",
                **plan.named,
            ) from error

    def refuse_other_log(self, listing: Listing) -> None:
        """Refuse a plan whose base version says nothing of the log that is there now."""
        plan = self.plan
        name, needed = plan.table.name, {*range(plan.base_version + 1, listing.newest + 1), *plan.in_doubt}
        is_succeeded = any(precedes(plan.log_id, log_id) for log_id in listing.ids)
        if is_succeeded or listing.newest < plan.base_version or (plan.log_id and plan.log_id not in listing.ids):
            since = f"since write {plan.write_id} was planned"
            why = f"the log of {name} was begun again, or adopted without another one, {since}"
        elif not listing.versions.issuperset(needed):
            when = "at which it was planned" if plan.based_on is None else "on which its rows are based"
            why = (
                f"the log of {name} was trimmed, or lost entries, past version {plan.base_version} of write"
                f" {plan.write_id}, {when}"
            )
        else:
            return
        again = "Run it again" if plan.based_on is None else "Read the table again, and run it on those rows"
        raise ConflictError(
            f"{why}; what happened since cannot be told. This call published nothing. {again}; if it was staged, look"
            " first whether another process has published it.",
            **plan.named,
        )

    def table(self) -> Table:
        """Read the table; ``ConflictError`` if it is not the one any more for which the write was planned."""
        plan = self.plan
        table = self.opened.metastore.get_table(plan.table.name)
        if table is not None:
            require_named(plan.table.name, table, self.opened.metastore.uri)
        if table is None or table.created_at_seconds != plan.table.created_at_seconds:
            what = "dropped while it was being written"
        elif _description(table) != _description(plan.table):
            what = "altered (location, columns or format) while it was being written, or staged"
        else:
            refuse_others(table)
            return table
        raise ConflictError(f"{plan.table.name} was {what}; nothing was published. Run it again.", **plan.named)

    def with_emptied_partitions(self, draft: LogEntry, table: Table, newest: int) -> LogEntry:
        """Add the partitions that the write replaces with nothing: they are dropped.

        An unpartitioned table cannot be dropped. It gets a directory without rows.
        """
        plan = self.plan
        if plan.scope is no_partition:
            return draft
        nowhere = None if table.partition_columns else str(plan.data_location)
        names = self.opened.metastore.get_partition_names(table.name) if table.partition_columns else [()]
        left_out = unlisted_partitions(self.opened, newest, names) if table.partition_columns else ()
        emptied = plan.scope([*names, *left_out]) - draft.partition_values
        gone = tuple(EntryPartition.without_rows(values, nowhere) for values in sorted(emptied))
        return replace(draft, partitions=(*draft.partitions, *gone))

    def refuse_existing(self, now: PartitionsNow) -> None:
        """Raise ``PartitionExistsError`` if the mode adds partitions, and one of them exists."""
        plan = self.plan
        if not plan.mode.facts.only_creates:
            return
        existing = existing_values(self.opened.store, plan.layout, now)
        if existing:
            raise PartitionExistsError(
                f"write {plan.write_id} would create what is there already, {counted(len(existing), 'partition')} of"
                f" {plan.table.name}: {_few_names(plan.table, existing)}. Nothing was published. Use append or"
                " overwrite_partitions for them.",
                **plan.named,
            )

    def refuse_other_names(self, draft: LogEntry, now: PartitionsNow) -> None:
        """Raise ``ConflictError`` if another tool has added a partition of the write under another spelling."""
        plan = self.plan
        added = [
            partition.values for partition in draft.partitions if partition.new_location and partition.values not in now
        ]
        others = there_under_other_names(self.opened.metastore, plan.table, added, plan.spellings.time_zone)
        if others:
            values = min(others)
            raise ConflictError(
                f"another tool has added {shown_name(plan.table, values)} of {plan.table.name} in its own way since"
                f" write {plan.write_id} was planned: {others[values]}. Nothing was published. Run it again.",
                **plan.named,
            )


def _description(table: Table) -> tuple[object, ...]:
    """Return what decides whether files that were written for a table can be read through it."""
    columns = (table.columns_by, table.columns, table.partition_columns)
    return (table.root, *columns, table.input_format, table.serde)


def _given_up_error(vacuum: LogEntry, draft: LogEntry, plan: WritePlan) -> ConflictError:
    if not any(Location.parse(deletion.location).contains(plan.data_location) for deletion in vacuum.deletes):
        return ConflictError(
            f"write {draft.write_id} of {draft.table} would add files to a location that version {vacuum.version} of"
            " the log deletes: another tool has pointed readers there. Nothing was published. Run `table-writer doctor"
            f" {draft.table}`, or replace the partitions with {plan.table.overwrite_call}.",
            **draft.named,
        )
    return ConflictError(
        f"write {draft.write_id} of {draft.table} {vacuum.meaning.gave_up}: version {vacuum.version} of the log deletes"
        " its files. Nothing was published. Run it again.",
        **draft.named,
    )


def refuse_published(plan: WritePlan, records: Iterable[SlotRecord]) -> None:
    """Raise what a repetition raises if a record shows that the staged write was published, perhaps by a recovery."""
    for record in records:
        if record.outcome is Outcome.PUBLISHED and plan.write_id in written_ids(plan.layout, record.entry):
            raise repetition_error(record, plan.table)


def _few_names(table: Table, values: Collection[PartitionValues]) -> str:
    return few((shown_name(table, key) for key in sorted(values)), most=3)
