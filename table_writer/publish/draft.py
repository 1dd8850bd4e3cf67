"""The entry that a write claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from table_writer.errors import StorageError
from table_writer.model.entry import EntryPartition, LogEntry, Operation
from table_writer.model.partition_name import name_in
from table_writer.model.table import PartitionValues
from table_writer.model.write import StagedFiles, StagedPartition, WritePlan
from table_writer.publish.carry_over import Carried
from table_writer.publish.switch import PartitionsNow

__all__ = ["completed", "drafted"]


def drafted(staged: StagedFiles, *, publish_timeout_seconds: float, identity: Mapping[str, str]) -> LogEntry:
    """Return the entry of a write as far as its files tell: where partitions are now is not known yet."""
    plan = staged.plan
    partitions = tuple(
        EntryPartition(
            values=plan.spellings.get(one.values, one.values),
            old_location=None,
            new_location=_directory_of(one, plan),
            rows=one.rows,
            bytes=one.bytes,
            raw_bytes=one.raw_bytes,
            files=len(one.keys),
        )
        for one in staged.partitions
    )
    return LogEntry(
        table=str(plan.table.name),
        version=plan.base_version + 1,
        write_id=plan.write_id,
        operation=Operation.WRITE,
        mode=f"{plan.mode.value} where {plan.where}" if plan.where else plan.mode.value,
        created_at=datetime.now(UTC),
        base_version=plan.base_version,
        publish_timeout_seconds=publish_timeout_seconds,
        partitions=partitions,
        schema=plan.schema,
        row_bytes=staged.row_bytes,
        checks=staged.checks,
        idempotency_key=plan.idempotency_key,
        tags=dict(plan.tags),
        writer=dict(identity),
    )


def completed(
    partition: EntryPartition, now: PartitionsNow, carried: Mapping[PartitionValues, Carried]
) -> EntryPartition:
    """Say where readers look now, and count what an append brings along."""
    brought = carried.get(partition.values, Carried())
    return replace(
        partition,
        old_location=now[partition.values].location if partition.values in now else None,
        rows=_sum(partition.rows, brought.rows),
        bytes=partition.bytes + brought.bytes,
        raw_bytes=_sum(partition.raw_bytes, brought.raw_bytes),
        files=partition.files + brought.files,
    )


def _directory_of(staged: StagedPartition, plan: WritePlan) -> str:
    """Return where readers will look, which must be where the files are."""
    name = name_in(plan.table, staged.values)
    location = plan.data_location.child(name)
    if not all(key.startswith(location.key) for key in staged.keys):
        raise StorageError(
            f"files of partition {name} are not below {location}; nothing was published",
            table=str(plan.table.name),
            write_id=plan.write_id,
        )
    return str(location)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
