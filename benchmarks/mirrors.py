"""What a mirror costs a publish, over many versions: in a process that goes on, and in one that begins.

A store in memory stands for S3, each of whose requests takes 20 ms, on as many threads as in reality. Of a version that
is measured the same write is done without a mirror, too.

Run: ``python -m benchmarks.mirrors [--versions 10000] [--partitions 100] [--latency-ms 20]``.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import dataclass

from table_writer.config import TableWriterConfig
from tests.mirrors.world import PREFIX, MirroredWorld

MEASURED = (1, 10, 100, 1_000, 10_000)
WRITES = 20  # of each measurement: two checkpoints are among them


@dataclass(frozen=True)
class Cost:
    """The requests and seconds of one publish, on average and at the most."""

    requests: float
    most_requests: int
    seconds: float


def slow(world: MirroredWorld, latency_seconds: float) -> None:
    """Let each request of the store take its time."""
    world.store.on_call = lambda _, phase, key: time.sleep(latency_seconds) if phase == "before" else None


def cost_of(world: MirroredWorld, config: TableWriterConfig, latency_seconds: float, *, begins: bool = False) -> Cost:
    requests: list[int] = []
    world.write({"d0": frozenset({0})}, config=config)  # which takes up what others have written meanwhile
    slow(world, latency_seconds)
    began = time.perf_counter()
    for number in range(WRITES):
        if begins:
            world.memory.clear()
        world.write({f"d{number % 5}": frozenset({number})}, config=config)
        requests.append(Counter(world.costs[-1]).total())
    seconds = (time.perf_counter() - began) / WRITES
    world.store.on_call = None
    return Cost(sum(requests) / WRITES, max(requests), seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--versions", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--latency-ms", type=float, default=20)
    given = parser.parse_args()
    world, latency = MirroredWorld(), given.latency_ms / 1000
    mirrored, plain = world.config, TableWriterConfig()
    world.write({f"d{number}": frozenset({number}) for number in range(given.partitions)})
    done = 1
    for versions in (count for count in MEASURED if count <= given.versions):
        while done < versions:
            world.write({f"d{done % given.partitions}": frozenset({done})})
            done += 1
            if done % 500 == 0:
                world.vacuum()
        costs = {
            "off": cost_of(world, plain, latency),
            "one process": cost_of(world, mirrored, latency),
            "a process each": cost_of(world, mirrored, latency, begins=True),
        }
        done += 3 * (WRITES + 1)
        objects = list(world.store.list(PREFIX))
        size = sum(found.size_bytes for found in objects)
        print(f"{versions:,} versions, mirror of {len(objects):,} objects and {size / 2**20:.1f} MiB", flush=True)
        for name, cost in costs.items():
            more = cost.requests - costs["off"].requests
            print(
                f"  {name:15} {cost.requests:5.1f} requests ({more:+.1f}, at the most {cost.most_requests}),"
                f" {cost.seconds * 1000:5.0f} ms ({(cost.seconds - costs['off'].seconds) * 1000:+.0f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
