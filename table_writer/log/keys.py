"""Which idempotency keys count: those of writes that were published and not rolled back. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from table_writer.log.history import SlotRecord
from table_writer.model.entry import LogEntry, Operation, Outcome
from table_writer.model.table import PartitionValues

__all__ = ["comes_before", "is_kept", "published_with_key"]


def published_with_key(records: Sequence[SlotRecord], key: str) -> LogEntry | None:
    """Return the newest published entry with this key, ``None`` if there is none that counts.

    The key of an abandoned entry is void. So is that of one whose partitions have all been rolled back to a version
    before it: its rows are gone, and the same call shall write them again.

    Parameters
    ----------
    records
        All records from some version up to the newest, ascending.
    key
        Not empty.
    """
    for record in reversed(records):
        entry = record.entry
        if entry.idempotency_key == key and entry.operation is Operation.WRITE and is_kept(record, records):
            return entry
    return None


def is_kept(record: SlotRecord, records: Sequence[SlotRecord]) -> bool:
    """Whether an entry was published, and not all of its partitions were rolled back to a version before it.

    Parameters
    ----------
    record
        The entry.
    records
        All records from some version at or before it up to the newest, ascending.
    """
    rollbacks = [r.entry for r in records if r.entry.rollback_to is not None and r.outcome is Outcome.PUBLISHED]
    switched = record.entry.partition_values - record.superseded
    return record.outcome is Outcome.PUBLISHED and any(
        _counts(record.entry.version, values, rollbacks, records[-1].entry.version) for values in switched
    )


def _counts(version: int, values: PartitionValues, rollbacks: Sequence[LogEntry], at: int) -> bool:
    """Whether what a version wrote to a partition was part of the table's history at a later version.

    A rollback takes the history of its target: so the question is asked again there.
    """
    for rollback in reversed(rollbacks):
        target = rollback.rollback_to
        if target is not None and version < rollback.version <= at and values in rollback.partition_values:
            return target >= version and _counts(version, values, rollbacks, target)
    return True


def comes_before(key: str, other: str) -> bool:
    """Whether a stream's key, ``query/batch``, is of an earlier batch of the other's stream.

    Examples
    --------
    >>> comes_before("orders/9", "orders/10"), comes_before("orders/10", "orders/10"), comes_before("a/1", "orders/10")
    (True, False, False)
    """
    (stream, _, batch), (of_other, _, later) = key.rpartition("/"), other.rpartition("/")
    return stream != "" and stream == of_other and batch.isdecimal() and later.isdecimal() and int(batch) < int(later)
