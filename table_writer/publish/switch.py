"""THE switch: one metastore call after which readers see new rows. No other file changes what readers see."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from table_writer.errors import (
    LostResponseError,
    MetastoreError,
    OutcomeUnknownError,
    PartitionMissingError,
    TableWriterError,
)
from table_writer.log.rules import PartitionState, partition_state
from table_writer.metastore.protocol import Metastore
from table_writer.model.entry import EntryPartition, LogEntry
from table_writer.model.location import Location
from table_writer.model.table import Partition, PartitionChange, PartitionValues, Table
from table_writer.publish.parameters import new_parameters, stale_parameters

__all__ = ["ABANDON_SECONDS", "Deadline", "PartitionsNow", "Switch", "boot_seconds", "outcome_unknown"]

logger = logging.getLogger(__name__)

ABANDON_SECONDS: Final = 5.0  # giving up is one put; with less time left, recovery settles the entry
NO_FILES: Final = {"numFiles": "0", "numRows": "0", "totalSize": "0", "rawDataSize": "0"}
"""With its figures given, the metastore does not list an added location for them."""

PartitionsNow = Mapping[PartitionValues, Partition]
"""Partitions as the metastore has just shown them; those that do not exist are absent."""


def boot_seconds() -> float:
    """Return seconds on a clock that goes on while the machine is suspended, where the system has one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Deadline:
    """The time a claimant has. It starts before the claim is sent, so it ends before anybody else thinks it does.

    Parameters
    ----------
    seconds
        Time from now.
    clock
        Seconds that only grow; a double in tests.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = boot_seconds) -> None:
        self._clock = clock
        self._end = clock() + seconds

    def allows(self, seconds: float) -> bool:
        """Whether something that takes this long still ends in time."""
        return self._clock() + seconds <= self._end


class Switch:
    """Carries out a claimed entry in the metastore.

    Parameters
    ----------
    metastore
        Retries nothing that changes something.
    call_timeout_seconds
        How long one call may take; no call is sent that could end after the claim's own timeout.
    """

    def __init__(self, metastore: Metastore, *, call_timeout_seconds: float) -> None:
        self._metastore = metastore
        self._call_timeout_seconds = call_timeout_seconds

    def apply(self, table: Table, entry: LogEntry, now: PartitionsNow, empty: Location, deadline: Deadline) -> None:
        """Point every partition of the entry at its new location, in one metastore transaction.

        Nothing replaced: one add. Otherwise one alter; partitions that do not exist are first added at ``empty``,
        where no file ever is, so that no row appears before the alter.

        Raises
        ------
        OutcomeUnknownError
            The metastore's answer was lost, and the change cannot be seen: it may yet be applied.
        MetastoreError
            The metastore refused; nothing changed.
        """

        def in_time() -> None:
            self._require_time(entry, deadline)

        try:
            if now:
                self._alter(table, entry, now, empty, in_time)
            else:
                added = [_added(entry, partition) for partition in entry.partitions]
                self._metastore.add_partitions(table, added, before_send=in_time)
        except MetastoreError as error:
            self._settle(table, entry, empty, error)

    def _alter(
        self, table: Table, entry: LogEntry, now: PartitionsNow, empty: Location, in_time: Callable[[], None]
    ) -> None:
        present = dict(now)
        for _ in range(3):  # another tool may drop a partition between our look and the alter
            missing = [partition for partition in entry.partitions if partition.values not in present]
            if missing:
                placeholders = [
                    Partition(values=partition.values, location=str(empty), parameters=NO_FILES)
                    for partition in missing
                ]
                self._metastore.add_partitions(table, placeholders, before_send=in_time)
                present |= {partition.values: partition for partition in placeholders}
            try:
                changes = [_changed(entry, partition, present[partition.values]) for partition in entry.partitions]
                return self._metastore.alter_partitions(table, changes, before_send=in_time)
            except PartitionMissingError:
                logger.warning("write_id=%s a partition vanished before the switch; adding it again", entry.write_id)
                present = dict(self._metastore.get_partitions(table, [p.values for p in entry.partitions]))
        raise PartitionMissingError(
            f"partitions of {table.name} vanish as fast as they are added: another tool is dropping them",
            table=str(table.name),
            write_id=entry.write_id,
        )

    def _require_time(self, entry: LogEntry, deadline: Deadline) -> None:
        if not deadline.allows(self._call_timeout_seconds):
            raise MetastoreError(
                f"{entry.publish_timeout_seconds:g} s were not enough to publish; nothing was sent after them."
                " Look at the metastore's load, or raise publish_timeout_seconds, and retry.",
                table=entry.table,
                write_id=entry.write_id,
            )

    def _settle(self, table: Table, entry: LogEntry, empty: Location, error: MetastoreError) -> None:
        """Look whether a call that failed took effect after all."""
        try:
            now = self._metastore.get_partitions(table, [partition.values for partition in entry.partitions])
        except MetastoreError as failure:
            logger.warning("write_id=%s reading back failed as well: %s", entry.write_id, failure)
            raise outcome_unknown(entry, error) from error
        states = {
            partition_state(partition, now[partition.values].location if partition.values in now else None, empty)
            for partition in entry.partitions
        }
        if states == {PartitionState.DONE}:
            logger.warning("write_id=%s the metastore's answer was lost, the switch took effect", entry.write_id)
            return
        if isinstance(error, LostResponseError):
            raise outcome_unknown(entry, error) from error
        raise error


def outcome_unknown(entry: LogEntry, error: TableWriterError) -> OutcomeUnknownError:
    """Say that nobody knows, and what to do."""
    return OutcomeUnknownError(
        f"it is not known whether write {entry.write_id} of {entry.table} was published (version {entry.version}):"
        f" {error.message} Do not retry and do not delete anything; its files are kept. To settle it, call"
        f" TableWriter(spark).recover({entry.table!r}); the next write of these partitions would do so too, once"
        f" {entry.publish_timeout_seconds:g} s have passed.",
        table=entry.table,
        write_id=entry.write_id,
    )


def _added(entry: LogEntry, partition: EntryPartition) -> Partition:
    return Partition(
        values=partition.values, location=partition.new_location, parameters=new_parameters(entry, partition)
    )


def _changed(entry: LogEntry, partition: EntryPartition, current: Partition) -> PartitionChange:
    return PartitionChange(
        partition=current,
        location=partition.new_location,
        set_parameters=new_parameters(entry, partition),
        removed_parameters=stale_parameters(current.parameters),
    )
