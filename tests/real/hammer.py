"""A process that writes to one table as fast as it can, and what must hold for the log of a hammered table."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import Any

from table_writer.errors import ConflictError, MetastoreError, OutcomeUnknownError, StorageError
from table_writer.model.meaning import Operation
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.history import History
from tests.publish.world import TableWorld
from tests.real.real_world import CONFIG, Address

HASTY = replace(CONFIG, metastore_timeout_seconds=3, publish_timeout_seconds=12)
"""The claim of a killed process is waited for: it should not last."""

Written = tuple[int, str, int, list[str]]  # number of the process, outcome, version, partitions


def hammer(
    address: Address, table: str, number: int, values: list[str], seconds: float, results: Any, mode: WriteMode
) -> None:
    """Write random partitions until the time is over; every row says who wrote it, and when."""
    world = address.world(table, HASTY)
    dice = random.Random(number)
    ends = time.monotonic() + seconds
    count = 0
    while time.monotonic() < ends:
        count += 1
        chosen = sorted(dice.sample(values, dice.randint(1, len(values))))
        row = number * 1_000_000 + count
        try:
            plan = replace(world.plan(mode), tags={"row": str(row)})
            version = world.write({value: frozenset({row}) for value in chosen}, plan=plan).entry.version
            results.put((number, "published", version, chosen))
        except ConflictError as conflict:
            outrun = "without pause" in conflict.message  # an append that others outran: on a slow machine
            results.put((number, "outrun" if outrun else "conflict", 0, chosen))
        except (OutcomeUnknownError, MetastoreError, StorageError) as error:
            print(f"process {number}: {type(error).__name__}: {error}", flush=True)
            results.put((number, type(error).__name__, 0, chosen))


def settled(world: TableWorld) -> History:
    """Return the history when nothing is open any more: a busy metastore may have left an answer open."""
    world.wait_out_claims()  # type: ignore[attr-defined]
    world.keeper.recover(str(world.name))
    return world.history()


def assert_clean(world: TableWorld) -> None:
    """Check that a vacuum leaves nothing that nobody reads."""
    assert world.vacuum().failures == ()  # type: ignore[attr-defined]
    assert world.leftovers() == []  # type: ignore[attr-defined]


def assert_no_update_is_lost(world: TableWorld, history: History) -> int:
    """Check every pair of published writes, and what readers see; returns the number of overlapping pairs."""
    published = [record.entry for record in history.records.published if record.entry.operation is Operation.WRITE]
    pairs = 0
    for index, later in enumerate(published):
        for earlier in published[:index]:
            if later.mode is not WriteMode.APPEND and earlier.partition_values & later.partition_values:
                pairs += 1
                assert later.base_version >= earlier.version, "it was planned before the other one was published"
    now = {values: partition.location for values, partition in world.metastore.get_all_partitions(world.table).items()}
    for values, placed in history.state.current_partitions.items():
        assert now[values] == placed.partition.new_location, "readers see the newest published rows"
    return pairs


def rows_by_the_log(history: History) -> dict[str, frozenset[int]]:
    """Return what readers must see if every published write counts, in the order of the log."""
    rows: dict[str, frozenset[int]] = {}
    for record in history.records.published:
        if record.entry.operation is Operation.WRITE:
            new = frozenset({int(record.entry.tags["row"])})
            for (value,) in record.entry.partition_values:
                kept = rows.get(value, frozenset()) if record.entry.mode is WriteMode.APPEND else frozenset()
                rows[value] = kept | new
    return rows
