"""The order of a publish: look at the log and the metastore, claim an entry, switch, settle."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from table_writer.errors import (
    ConflictError,
    MetastoreError,
    OutcomeUnknownError,
    StorageError,
)
from table_writer.log.deadline import Deadline
from table_writer.log.rules import Standing, standing
from table_writer.log.table_log import LogState
from table_writer.model.entry import EntryPartition, LogEntry, Operation
from table_writer.model.message import PendingUpload
from table_writer.model.partition_name import name_in
from table_writer.model.table import PartitionValues, Table
from table_writer.model.write import StagedFiles, WritePlan
from table_writer.publish.parts import PublishParts
from table_writer.publish.replaced import Replaced, replaced_locations
from table_writer.publish.switch import PartitionsNow, locations

__all__ = ["Published", "Publisher"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """A publish that took effect."""

    entry: LogEntry
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Look:
    """The metastore and the replaced files as they were just before the claim."""

    table: Table
    now: PartitionsNow
    entry: LogEntry
    notes: tuple[str, ...]


class Publisher:
    """Publishes staged files of one table.

    Parameters
    ----------
    parts
        Services of the table.
    """

    def __init__(self, parts: PublishParts) -> None:
        self._parts = parts

    def publish(
        self, staged: StagedFiles, claiming: Callable[[], AbstractContextManager[Callable[[], None]]]
    ) -> Published:
        """Make readers see the staged files: all partitions at once, or none.

        Parameters
        ----------
        staged
            Files that no table points at.
        claiming
            Entered around the sending of a claim; from then on the log, not the caller, owns the files. Its value is
            called when the claim was certainly lost.

        Raises
        ------
        ConflictError
            A partition was published, or moved, by somebody else since the plan. Nothing changed.
        OutcomeUnknownError
            The switch may or may not have taken effect; nothing is deleted.
        MetastoreError
            The metastore refused; nothing changed.
        """
        draft = self._draft(staged)
        state = self._parts.log.read_state(
            listed_after=min({staged.plan.base_version, *(v - 1 for v in staged.plan.in_doubt)})
        )
        while True:
            self._refuse_trimmed(staged.plan, state)
            waiting_for = self._first_in_doubt(draft, state, staged.plan)
            if waiting_for is not None:
                self._settle_other(waiting_for, staged.plan, state)
            else:
                look = self._look(staged.plan, replace(draft, version=state.newest + 1))
                deadline = Deadline(self._parts.publish_timeout_seconds)
                with claiming() as lost:
                    if self._parts.claimed.claim(look.entry):
                        return self._carry_out(look, staged.plan, deadline, state)
                    lost()
            state = self._parts.log.read_state(listed_after=state.listed_after)

    def _settle_other(self, version: int, plan: WritePlan, state: LogState) -> None:
        try:
            self._parts.recovery.settle(version, self._table(plan), newest=state.newest)
        except OutcomeUnknownError as error:
            raise MetastoreError(
                f"version {version} of {plan.table.name}, left in doubt by another write of the same partitions, could"
                f" not be settled: {error.message} Nothing of write {plan.write_id} was published.",
                table=str(plan.table.name),
                write_id=plan.write_id,
            ) from error

    def _carry_out(self, look: _Look, plan: WritePlan, deadline: Deadline, state: LogState) -> Published:
        notes = self._parts.claimed.carry_out(look.table, look.entry, look.now, deadline)
        if not notes:
            self._parts.log.remember_settled(replace(state, newest=look.entry.version, listed_after=plan.hint))
        return Published(entry=look.entry, notes=look.notes + notes)

    def _draft(self, staged: StagedFiles) -> LogEntry:
        plan = staged.plan
        partitions = tuple(
            EntryPartition(
                values=plan.spellings.get(values, values),
                old_location=None,
                new_location=_directory_of(uploads, plan, name_in(plan.table, values)),
                rows=sum(upload.row_count for upload in uploads),
                bytes=sum(upload.size_bytes for upload in uploads),
                raw_bytes=sum(upload.raw_size_bytes for upload in uploads),
                files=len(uploads),
            )
            for values, uploads in staged.by_partition().items()
        )
        return LogEntry(
            table=str(plan.table.name),
            version=plan.base_version + 1,
            write_id=plan.write_id,
            operation=Operation.WRITE,
            mode=plan.mode.value,
            created_at=datetime.now(UTC),
            base_version=plan.base_version,
            publish_timeout_seconds=self._parts.publish_timeout_seconds,
            partitions=partitions,
            schema=plan.schema,
            writer=dict(self._parts.identity),
        )

    def _look(self, plan: WritePlan, draft: LogEntry) -> _Look:
        """Read the table and the partitions again: the only look that a claim is based on."""
        table = self._table(plan)
        values = [partition.values for partition in draft.partitions]
        now = self._parts.metastore.get_partitions(table, values)
        replaced = self._replaced(plan, now)
        while replaced.listed_files:  # listing takes time, in which another tool may have moved a partition
            before, now = now, self._parts.metastore.get_partitions(table, values)
            if locations(before) == locations(now):
                break
            replaced = self._replaced(plan, now)
        old = locations(now)
        partitions = tuple(replace(one, old_location=old.get(one.values)) for one in draft.partitions)
        entry = replace(draft, created_at=datetime.now(UTC), partitions=partitions, replaced=replaced.locations)
        return _Look(table, now, entry, replaced.notes)

    def _replaced(self, plan: WritePlan, now: PartitionsNow) -> Replaced:
        return replaced_locations(
            self._parts.store, plan.layout, list(locations(now).values()), datetime.now(UTC) + self._parts.retention
        )

    def _table(self, plan: WritePlan) -> Table:
        table = self._parts.metastore.get_table(plan.table.name)
        if table is None or table.created_at_seconds != plan.table.created_at_seconds:
            raise ConflictError(
                f"{plan.table.name} was dropped while it was being written; nothing was published. Run it again.",
                table=str(plan.table.name),
                write_id=plan.write_id,
            )
        if (table.location, table.columns, table.partition_columns) != (
            plan.table.location,
            plan.table.columns,
            plan.table.partition_columns,
        ):
            raise ConflictError(
                f"{plan.table.name} was altered (location or columns) while it was being written;"
                " nothing was published. Run it again.",
                table=str(plan.table.name),
                write_id=plan.write_id,
            )
        return table

    def _first_in_doubt(self, draft: LogEntry, state: LogState, plan: WritePlan) -> int | None:
        """Compare with every entry this write has not seen settled; returns the oldest that must be settled first."""
        unseen: set[int] = {*range(plan.base_version + 1, state.newest + 1), *plan.in_doubt, *state.in_doubt}
        for version in sorted(unseen):
            record = self._parts.log.read(version)
            verdict = standing(record.entry, record.outcome, draft, plan.in_doubt)
            if verdict is Standing.IN_DOUBT:
                return version
            if verdict is Standing.CONFLICT:
                raise self._conflict(record.entry, draft, plan)
            if verdict is Standing.DELETED:
                raise ConflictError(
                    f"a vacuum (version {version}) has given up write {draft.write_id} of {draft.table}, which gave no"
                    " sign of life for too long, and deletes its files; nothing was published. Run it again.",
                    table=draft.table,
                    write_id=draft.write_id,
                )
        return None

    def _conflict(self, entry: LogEntry, draft: LogEntry, plan: WritePlan) -> ConflictError:
        both: list[PartitionValues] = sorted(entry.partition_values & draft.partition_values)
        shown = ", ".join(name_in(plan.table, values) for values in both[:3]) + (", …" if len(both) > 3 else "")
        return ConflictError(
            f"{len(both)} partition(s) of {draft.table} that write {draft.write_id} wants to publish were published by"
            f" write {entry.write_id} (version {entry.version}, {entry.writer.get('user', '?')}@"
            f"{entry.writer.get('host', '?')}) after this write was planned at version {draft.base_version}: {shown}."
            " The other write stays, this one changed nothing; run it again if its rows should win.",
            table=draft.table,
            write_id=draft.write_id,
        )

    def _refuse_trimmed(self, plan: WritePlan, state: LogState) -> None:
        if not state.versions.issuperset(range(plan.base_version + 1, state.newest + 1)):
            raise ConflictError(
                f"the log of {plan.table.name} was trimmed past version {plan.base_version}, at which this write was"
                " planned; what happened since cannot be told. Nothing was published; run it again.",
                table=str(plan.table.name),
                write_id=plan.write_id,
            )


def _directory_of(uploads: Sequence[PendingUpload], plan: WritePlan, name: str) -> str:
    """Return where readers will look, which must be where the files are."""
    location = plan.data_location.child(name)
    if not all(upload.key.startswith(location.key) for upload in uploads):
        raise StorageError(
            f"files of partition {name} are not below {location}; nothing was published",
            table=str(plan.table.name),
            write_id=plan.write_id,
        )
    return str(location)
