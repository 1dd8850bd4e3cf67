"""How the commit grows: 10² … 10⁵ files, 10 … 5,000 partitions; each step's own code, on doubles.

A store in memory stands for S3. With a latency each of its requests takes that long, on as many threads as in reality;
eight tasks of sixteen threads stand for the executors that complete very many uploads. That is a simulation: without a
network, without Spark, without a store's limit on requests a second. The last curve is a real Hive metastore's.

Run: ``python -m benchmarks.scale [--files 100000] [--latency-ms 0,20] [--json FILE] [--picture FILE]``. A step
that grows worse than its input is an error. ``--points 9384:3000`` measures writes of so many files in so many
partitions alone, each step with its requests.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import time
import tracemalloc
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Final

from benchmarks.scale_metastore import measure
from benchmarks.scale_picture import draw
from benchmarks.scale_world import TABLE, ScaleWorld
from table_writer.jobs.running_write import RunningWrite
from table_writer.jobs.upload.job import check_messages
from table_writer.model.message import CommitMessage, CommitMessages
from table_writer.model.write import WritePlan, WrittenFiles
from table_writer.spark.executors import jobs
from table_writer.testing import MetastoreServer
from tests.publish.world import publisher_of

FILES: Final = (100, 1_000, 10_000, 100_000)
FILES_PER_PARTITION: Final = 20  # in the curve over files: up to 5,000 partitions
PARTITIONS: Final = (10, 100, 1_000, 5_000)
FILES_WITH_PARTS: Final = {"of one part": (1,), "of which every fifth has ten parts": (1, 1, 1, 1, 10)}
STEPS: Final = ("messages", "complete", "publish", "recover", "history", "vacuum")
CLAIMS_ARE_OVER_SECONDS: Final = 4_000
NOISE: Final = 2.0  # a step may take so many times what a straight line allows, since the machine has other work too
LEAST_SECONDS: Final = 0.25  # shorter ones are not compared


class DeathError(BaseException):
    """The writer is gone."""


@dataclass
class Point:
    """One write of so many files in so many partitions, and what followed."""

    files: int
    partitions: int
    latency_ms: int
    seconds: dict[str, float] = field(default_factory=dict)
    requests: dict[str, int] = field(default_factory=dict)
    entry_bytes: int = 0
    entry_text_bytes: int = 0
    calls_of_publish: dict[str, int] = field(default_factory=dict)
    partitions_read: int = 0  # by the vacuum, in the metastore


def point(files: int, partitions: int, latency_ms: int) -> Point:
    """Overwrite all partitions, read the log, vacuum what was replaced; then die in another overwrite, and recover."""
    world = ScaleWorld(files, partitions, latency_seconds=latency_ms / 1000)
    found = Point(files, partitions, latency_ms)

    @contextmanager
    def timed(step: str) -> Iterator[None]:
        gc.collect()
        gc.freeze()  # what the doubles hold is not the driver's, and would be searched again and again
        before, began = sum(world.store.request_counts().values()), time.perf_counter()
        with world.latency():
            yield
        found.seconds[step] = time.perf_counter() - began
        found.requests[step] = sum(world.store.request_counts().values()) - before

    world.written_before()
    plan = world.plan()
    sent = world.sent(plan)
    with RunningWrite(world.services, plan) as write:
        with timed("messages"):
            messages, staged = received(world, plan, sent)
        with timed("complete"):
            world.complete(write, messages)
        calls = Counter(world.metastore.call_counts())
        with timed("publish"):
            published = publisher_of(world.services).publish(staged, write.claiming)
        found.calls_of_publish = dict(Counter(world.metastore.call_counts()) - calls)
    found.entry_text_bytes = len(published.entry.to_json(plan.layout.root))
    stored = world.store.head(plan.layout.entry_key(published.entry.version))
    found.entry_bytes = stored.size_bytes if stored else 0
    with timed("history"):
        world.keeper.history(str(TABLE))
    world.store.skipped_seconds += CLAIMS_ARE_OVER_SECONDS
    with timed("vacuum"), world.counted_partitions() as read:
        report = world.keeper.vacuum(str(TABLE), older_than=timedelta(0), force=True)
    found.partitions_read = sum(read)
    assert sum(len(path.keys) for path in report.deleted) == files, report.failures
    die_while_publishing(world)
    world.store.skipped_seconds += CLAIMS_ARE_OVER_SECONDS
    with timed("recover"):
        settled = world.keeper.recover(str(TABLE)).settled
    assert list(settled.values()) == ["published"]
    gc.unfreeze()
    return found


def received(world: ScaleWorld, plan: WritePlan, sent: Sequence[bytes]) -> tuple[CommitMessages, WrittenFiles]:
    """What the driver does with what ``collect`` has brought."""
    messages = check_messages(sent, world.spec(plan))
    return messages, WrittenFiles.from_messages(plan, messages)


def die_while_publishing(world: ScaleWorld) -> None:
    """Leave a write in doubt: its entry is claimed, its metastore call was never sent."""

    def die(method: str, phase: str) -> None:
        if (method, phase) == ("alter_partitions", "before"):
            raise DeathError

    plan = world.plan()
    messages = map(CommitMessage.from_bytes, world.sent(plan, complete=True))
    staged = WrittenFiles.from_messages(plan, messages)
    world.metastore.on_call = die
    with suppress(DeathError), RunningWrite(world.services, plan) as write:
        publisher_of(world.services).publish(staged, write.claiming)
    world.metastore.on_call = None


def driver_bytes(files: int, partitions: int, parts: Sequence[int] = (1,)) -> float:
    """Return the most that the driver holds for each file, from ``collect`` to the end of the publish.

    The double's own partitions, which a real driver does not hold, are counted too.
    """
    world = ScaleWorld(files, partitions, parts)
    world.written_before()
    plan = world.plan()
    given = world.sent(plan, complete=False)
    tracemalloc.start()
    try:
        sent = [bytearray(message) for message in given]
        with RunningWrite(world.services, plan) as write:
            messages, staged = received(world, plan, sent)
            collected = tracemalloc.get_traced_memory()[1]
            tracemalloc.reset_peak()
            deque(jobs(upload for message in messages for upload in message.uploads), maxlen=0)
            completing = tracemalloc.get_traced_memory()[1]
            del messages, sent
            tracemalloc.reset_peak()
            publisher_of(world.services).publish(staged, write.claiming)
            publishing = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return max(collected, completing, publishing) / files


def growth(points: Sequence[Point], size: Callable[[Point], int]) -> Iterator[str]:
    """Name the steps that grow worse than their input."""
    for smaller, larger in pairwise(points):
        for step in STEPS:
            allowed = max(smaller.seconds[step], LEAST_SECONDS) * size(larger) / size(smaller) * NOISE
            if larger.seconds[step] > allowed:
                yield (
                    f"{step}: {smaller.seconds[step]:.2f} s for {size(smaller):,}, {larger.seconds[step]:.2f} s for"
                    f" {size(larger):,} at {larger.latency_ms} ms a request: worse than linear"
                )


def table(title: str, points: Sequence[Point]) -> str:
    head = f"{'files':>8}{'partitions':>12}" + "".join(f"{step:>10}" for step in STEPS)
    lines = [
        f"{one.files:8,}{one.partitions:12,}"
        + "".join(f"{one.seconds[step]:10.2f}" for step in STEPS)
        + f"{sum(one.requests.values()):12,}{one.entry_text_bytes:13,}{one.entry_bytes:12,}"
        for one in points
    ]
    return "\n".join([title, head + f"{'requests':>12}{'entry text':>13}{'stored':>12}", *lines])


def steps_of(one: Point) -> str:
    """Return a line for each step of a write."""
    lines = [f"\n{one.files:,} files, {one.partitions:,} partitions, {one.latency_ms} ms a request"]
    lines += [f"  {step:10}{one.seconds[step]:9.2f} s{one.requests[step]:12,} requests" for step in STEPS]
    return "\n".join([*lines, f"  entry: {one.entry_bytes:,} bytes; of the publish: {one.calls_of_publish}"])


def measure_points(points: Sequence[tuple[int, int]], latencies_ms: Sequence[int], *, metastore: bool) -> None:
    """Print what each step of these writes takes, and the driver's memory."""
    for files, partitions in points:
        for latency_ms in latencies_ms:
            print(steps_of(point(files, partitions, latency_ms)), flush=True)
        held = driver_bytes(files, partitions)
        print(f"  the driver holds {held:,.0f} bytes a file at the most: {held * files / 2**20:,.0f} MiB", flush=True)
    if metastore:
        print(metastore_lines(real_metastore([partitions for _, partitions in points])))


def metastore_lines(real: Mapping[int, Mapping[str, Mapping[str, float]]]) -> str:
    lines = []
    for count, calls in real.items():
        shown = ", ".join(
            f"{name} {call['seconds']:.2f} ({call['client_seconds']:.2f})" for name, call in calls.items()
        )
        lines.append(f"Real metastore, {count:,} partitions, seconds (of the client): {shown}")
    return "\n".join(lines)


def real_metastore(partitions: Sequence[int]) -> dict[int, Mapping[str, Mapping[str, float]]]:
    """Measure one metastore of Hive 2.3 over Derby."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "warehouse").mkdir()
        with MetastoreServer(warehouse=f"file://{directory}/warehouse") as server:
            measure(server.uri, directory, 1)  # warms it up
            return {
                count: {step: asdict(call) for step, call in measure(server.uri, directory, count).items()}
                for count in partitions
            }


def points_of(text: str) -> list[tuple[int, int]]:
    """Read ``9384:3000,1000000:100000``."""
    return [(int(files), int(partitions)) for files, partitions in (one.split(":") for one in text.split(","))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=FILES[-1], help="the most files")
    parser.add_argument("--latency-ms", default="0,20")
    parser.add_argument("--no-metastore", action="store_true", help="leave the real one out")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--points", type=points_of, help="FILES:PARTITIONS,… instead of the curves")
    chosen = parser.parse_args()
    latencies_ms = [int(text) for text in chosen.latency_ms.split(",")]
    if chosen.points:
        measure_points(chosen.points, latencies_ms, metastore=not chosen.no_metastore)
        return 0
    files = [count for count in FILES if count <= chosen.files]
    partitions = [count for count in PARTITIONS if count <= chosen.files]
    wrong: list[str] = []
    over_files: dict[int, list[Point]] = {}
    over_partitions: dict[int, list[Point]] = {}
    for latency_ms in latencies_ms:
        over_files[latency_ms] = [point(count, max(1, count // FILES_PER_PARTITION), latency_ms) for count in files]
        over_partitions[latency_ms] = [point(count, count, latency_ms) for count in partitions]
        wrong += growth(over_files[latency_ms], lambda one: one.files)
        wrong += growth(over_partitions[latency_ms], lambda one: one.partitions)
        print(table(f"\nSeconds at {latency_ms} ms a request, simulated", over_files[latency_ms]))
        print(table("", over_partitions[latency_ms]))
    memory = {
        text: {count: driver_bytes(count, max(1, count // FILES_PER_PARTITION), parts) for count in files}
        for text, parts in FILES_WITH_PARTS.items()
    }
    for text, bytes_held in memory.items():
        held = ", ".join(f"{count:,} files {held:,.0f}" for count, held in bytes_held.items())
        print(f"Driver, bytes per file, {text}: {held}")
    real = {} if chosen.no_metastore else real_metastore(partitions)
    print(metastore_lines(real))
    if chosen.json:
        points = [asdict(one) for curve in (over_files, over_partitions) for many in curve.values() for one in many]
        found = {"points": points, "driver_bytes_per_file": memory, "metastore": real}
        chosen.json.write_text(json.dumps(found, indent=1) + "\n")
    if chosen.picture:
        draw(chosen.picture, over_files, over_partitions, real)
    for text in wrong:
        print(f"WRONG {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
