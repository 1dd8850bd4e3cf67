"""What a long log costs: each operation over 10,000 and 100,000 old entries and 5,000 partitions, on doubles.

A store in memory stands for S3, each of whose requests takes 20 ms, on as many threads as in reality. The first vacuum
reads all entries and folds them; what comes after that should not depend on how many there are.

Run: ``python -m benchmarks.long_log [--entries 10000,100000] [--partitions 5000] [--latency-ms 20] [--json FILE]``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.scale_world import BODY, PARTITION_COLUMNS, TABLE, ScaleWorld, partition
from table_writer.jobs.running_write import RunningWrite
from table_writer.model.entry import (
    DeletedLocation,
    EntryPartition,
    Key,
    LogEntry,
    Operation,
    Outcome,
    ReplacedLocation,
)
from table_writer.model.message import CommitMessage
from table_writer.model.table import Partition, partition_name
from table_writer.model.write import WrittenFiles, new_write_id
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.records import LogEnd
from table_writer.protocol.table.open_table import OpenTable
from tests.publish.world import publisher_of

ENTRIES = (10_000, 100_000)
VACUUM_EVERY = 1_000
CLAIM_IS_OVER_SECONDS = 4_000


class DeathError(BaseException):
    """The writer is gone."""


@dataclass
class LongLog:
    """A table of many versions, each of which has replaced one partition; vacuums have deleted what they replaced."""

    entries: int
    partitions: int = 5_000
    latency_seconds: float = 0.0
    keys: Callable[[int], str] = "stream/{}".format
    world: ScaleWorld = field(init=False)
    log_id: str = field(init=False)

    def __post_init__(self) -> None:
        self.world = ScaleWorld(files=2, partitions=2, latency_seconds=self.latency_seconds)
        opened = self.world.services
        self.log_id = min(opened.log.lister.read().ids)
        data, at = opened.layout.all_data, datetime.now(UTC)
        live: dict[int, str] = {}
        replaced: list[tuple[str, int]] = []
        for version in range(1, self.entries + 1):
            if version % VACUUM_EVERY == 0 and replaced:
                deletes = tuple(DeletedLocation(location=one, replaced_by=by) for one, by in replaced)
                entry = self._entry(version, at, Operation.VACUUM, deletes=deletes)
                replaced = []
            else:
                number, write_id = version % self.partitions, new_write_id(at)
                values, old = partition(number), live.get(number)
                live[number] = str(data.child(write_id, partition_name(PARTITION_COLUMNS, values)))
                replaced += [(old, version)] if old else []
                entry = self._entry(
                    version,
                    at,
                    Operation.WRITE,
                    mode=WriteMode.OVERWRITE_PARTITIONS,
                    write_id=write_id,
                    key=Key(self.keys(version), self.keys(version).rpartition("/")[0]),
                    partitions=(
                        EntryPartition(
                            values=values,
                            old_location=old,
                            new_location=live[number],
                            rows=1,
                            bytes=len(BODY),
                            raw_bytes=len(BODY),
                            files=1,
                        ),
                    ),
                    replaced=(ReplacedLocation(location=old, delete_after=at + timedelta(days=3)),) if old else (),
                )
            self.store(entry, Outcome.PUBLISHED)
        self.world.metastore.add_partitions(
            opened.table, [Partition(values=partition(number), location=location) for number, location in live.items()]
        )
        for location in live.values():
            self.world.store._store(f"{location.split('/', 3)[3]}part-0.parquet", BODY)

    def _entry(self, version: int, at: datetime, operation: Operation, **fields: object) -> LogEntry:
        entry = self.world.services.next_entry(LogEnd(version - 1), operation)
        return replace(entry, created_at=at, log_id=self.log_id, **fields)

    def store(self, entry: LogEntry, outcome: Outcome | None) -> None:
        """Put an entry there as its writer had left it, without a request."""
        opened = self.world.services
        store, layout = self.world.store, opened.layout
        store._store(layout.entry_key(entry.version), entry.to_json(layout.root))
        if outcome is not None:
            body = {
                "outcome": outcome.value,
                "version": entry.version,
                "recorded_by": entry.write_id,
                "of": entry.write_id,
            }
            store._store(layout.outcome_key(entry.version), json.dumps(body).encode())

    def opened(self) -> OpenTable:
        """Open the table anew: a process that remembers nothing."""
        opened = self.world.all_services.open_table(TABLE)
        opened.require_owner()
        return opened


@dataclass
class Cost:
    """What one operation took."""

    entries: int
    operation: str
    seconds: float
    requests: int


class Measured:
    """Runs the operations one after the other, each in a process that remembers nothing."""

    def __init__(self, log: LongLog) -> None:
        self._log = log
        self.costs: list[Cost] = []

    @contextmanager
    def _measured(self, operation: str) -> Iterator[None]:
        store = self._log.world.store
        before, start = sum(store.request_counts().values()), time.perf_counter()
        with self._log.world.latency():
            yield
        seconds = time.perf_counter() - start
        requests = sum(store.request_counts().values()) - before
        self.costs.append(Cost(self._log.entries, operation, seconds, requests))

    def run(self) -> list[Cost]:
        """Fold the log, then do everything."""
        world, keeper, table = self._log.world, self._log.world.keeper, str(TABLE)
        keeper.vacuum(table)  # reads everything, once
        with self._measured("plan"):
            self._log.opened().log.lister.read()
        with self._measured("publish"):
            self._write(self._log.opened())
        with self._measured("recover, nothing in doubt"):
            keeper.recover(table)
        with suppress(DeathError):
            self._write(self._log.opened(), dies=True)
        world.store.skipped_seconds += CLAIM_IS_OVER_SECONDS
        with self._measured("recover, one in doubt"):
            assert keeper.recover(table).settled, "the entry of a dead writer is resolved"
        with self._measured("vacuum"):
            keeper.vacuum(table)
        with self._measured("history --limit 20"):
            assert len(keeper.history(table, limit=20).versions) == 20
        with self._measured("a stream's next batch"):
            assert self._log.opened().require_new_key(Key(f"stream/{10 * self._log.entries}", "stream"))
        with self._measured("a new idempotency key"):
            assert self._log.opened().require_new_key(Key("a/new-key"))
        with self._measured("a write with write_uuid"):
            self._write(self._log.opened(), name=f"my-write-{self._log.entries}")
        return self.costs

    def _write(self, opened: OpenTable, *, name: str = "", dies: bool = False) -> None:
        world = self._log.world
        plan = world.plan()
        plan = replace(plan, write_id=name, named_by_caller=True) if name else plan
        with RunningWrite(opened, plan) as write:
            messages = map(CommitMessage.from_bytes, world.sent(plan, complete=True))
            if dies:
                world.metastore.on_call = _die
            try:
                publisher_of(opened).publish(WrittenFiles.from_messages(plan, messages), write.claiming)
            finally:
                world.metastore.on_call = None


def _die(method: str, phase: str) -> None:
    if method == "alter_partitions" and phase == "before":
        raise DeathError


def measure(entries: int, partitions: int, latency_ms: int) -> list[Cost]:
    """Return what each operation costs over so many entries."""
    return Measured(LongLog(entries, partitions, latency_ms / 1_000)).run()


def main() -> int:
    """Print a table: a line for each operation, seconds and requests for each number of entries."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", default=",".join(map(str, ENTRIES)))
    parser.add_argument("--partitions", type=int, default=5_000)
    parser.add_argument("--latency-ms", type=int, default=20)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sizes = [int(one) for one in options.entries.split(",")]
    costs = [one for size in sizes for one in measure(size, options.partitions, options.latency_ms)]
    print("| operation |" + "".join(f" {size:,} entries |" for size in sizes))
    print("|---|" + "---|" * len(sizes))
    for operation in dict.fromkeys(one.operation for one in costs):
        cells = (f" {one.seconds:.2f} s, {one.requests:,} requests |" for one in costs if one.operation == operation)
        print(f"| {operation} |" + "".join(cells))
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in costs], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
