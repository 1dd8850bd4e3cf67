"""Finish an entry whose writer is gone: claim a recover entry over the same partitions, then apply it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from table_writer.errors import MetastoreError, OutcomeUnknownError
from table_writer.log.rules import PartitionState, claim_is_over, partition_state
from table_writer.log.table_log import SlotRecord, TableLog
from table_writer.metastore.protocol import Metastore
from table_writer.model.entry import LogEntry, Operation, Outcome
from table_writer.model.location import Location
from table_writer.model.table import Table
from table_writer.model.write import TableLayout, new_write_id
from table_writer.publish.switch import ABANDON_SECONDS, Deadline, Switch, outcome_unknown

__all__ = ["Recovery"]

logger = logging.getLogger(__name__)

FIRST_WAIT_SECONDS = 0.05
LONGEST_WAIT_SECONDS = 5.0


class Recovery:
    """Settles entries in doubt.

    Parameters
    ----------
    log, metastore, switch
        Services of the table.
    layout
        Paths of the table.
    publish_timeout_seconds
        How long a recover entry is its claimant's alone.
    identity
        Who recovers, for the log.
    sleep
        Waits between two looks; a double in tests.
    """

    def __init__(  # noqa: PLR0913  # one parameter per service: they are what a test replaces
        self,
        log: TableLog,
        metastore: Metastore,
        switch: Switch,
        layout: TableLayout,
        *,
        publish_timeout_seconds: float,
        identity: Mapping[str, str],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._log = log
        self._metastore = metastore
        self._switch = switch
        self._layout = layout
        self._publish_timeout_seconds = publish_timeout_seconds
        self._identity = identity
        self._sleep = sleep

    def settle(self, version: int, table: Table, *, newest: int) -> None:
        """Wait until an entry is settled, or recover it once its claim has timed out.

        Returns when something changed: the caller reads the log again.
        """
        wait = FIRST_WAIT_SECONDS
        record = self._log.read(version)
        while record.outcome is None and not claim_is_over(record.entry, record.age_seconds):
            logger.warning("version=%d is being published by write_id=%s; waiting", version, record.entry.write_id)
            self._sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)
            record = self._log.read(version)
        if record.outcome is None:
            self.recover(record, table, newest=newest)

    def recover(self, record: SlotRecord, table: Table, *, newest: int) -> None:
        """Roll an entry forward, partition by partition, as far as no other tool has been there.

        Does nothing when somebody else claims the next slot first.

        Raises
        ------
        OutcomeUnknownError
            The metastore's answer was lost; the recover entry stays in doubt and can itself be recovered.
        MetastoreError
            The metastore refused; the entry stays in doubt.
        """
        original = record.entry
        deadline = Deadline(self._publish_timeout_seconds)
        claimed = replace(
            original,
            version=newest + 1,
            write_id=new_write_id(),
            operation=Operation.RECOVER,
            created_at=datetime.now(UTC),
            base_version=newest,
            settles=original.version,
            publish_timeout_seconds=self._publish_timeout_seconds,
            writer=dict(self._identity),
        )
        if not self._log.claim(claimed):
            return
        try:
            outcome = self._roll_forward(claimed, table, deadline)
        except OutcomeUnknownError:
            raise
        except MetastoreError as refusal:
            if not deadline.allows(ABANDON_SECONDS):  # somebody may already be recovering this recovery
                raise outcome_unknown(claimed, refusal) from refusal
            self._log.settle(claimed.version, Outcome.ABANDONED, write_id=claimed.write_id)
            raise
        # the original first: should we die in between, the recover entry is still there to be recovered
        self._log.settle(original.version, outcome, write_id=claimed.write_id)
        self._log.settle(claimed.version, outcome, write_id=claimed.write_id)
        logger.warning("version=%d recovered as version=%d: %s", original.version, claimed.version, outcome.value)

    def _roll_forward(self, entry: LogEntry, table: Table, deadline: Deadline) -> Outcome:
        now = self._metastore.get_partitions(table, [partition.values for partition in entry.partitions])
        states = {
            partition.values: partition_state(
                partition,
                now[partition.values].location if partition.values in now else None,
                empty_of(self._layout, entry),
            )
            for partition in entry.partitions
        }
        todo = tuple(p for p in entry.partitions if states[p.values] is PartitionState.BEFORE)
        superseded = [values for values, state in states.items() if state is PartitionState.SUPERSEDED]
        if superseded:
            logger.warning("version=%s superseded by another tool, left alone: %s", entry.settles, superseded)
        if todo:
            present = {p.values: now[p.values] for p in todo if p.values in now}
            self._switch.apply(table, replace(entry, partitions=todo), present, empty_of(self._layout, entry), deadline)
        return Outcome.ABANDONED if len(superseded) == len(entry.partitions) else Outcome.PUBLISHED


def empty_of(layout: TableLayout, entry: LogEntry) -> Location:
    """Return where the write whose files an entry names adds partitions that did not exist."""
    owner = layout.write_id_of(Location.parse(entry.partitions[0].new_location))
    return layout.empty(owner or entry.write_id)
