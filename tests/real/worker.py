"""What runs in processes of their own, which kill or stop themselves at one chosen call."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from table_writer.errors import ConflictError, InvalidInputError, TableWriterError
from tests.maintenance.operations import OPERATIONS
from tests.publish.world import Fault
from tests.real.real_world import CONFIG, Address, RealWorld

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["tests.real.worker"])


class Known(NamedTuple):
    """What the test of a world has done that its servers cannot tell."""

    table: str
    skipped_seconds: float
    staged_ids: list[str]


def at_call(world: RealWorld, fault: Fault, action: Callable[[], object]) -> None:
    """Run ``action`` in the middle of one call: before it takes effect, or before its answer is seen."""
    seen: Counter[tuple[str, str, str]] = Counter()  # each phase by itself: calls of several threads overlap

    def hook(service: str, call: str, phase: str) -> None:
        now = (service, call, phase)
        seen[now] += 1
        if now == (fault.service, fault.call, fault.phase) and seen[now] == fault.number:
            action()

    world.store.on_call = lambda call, phase, _key: hook("store", call, phase)
    world.metastore.on_call = lambda call, phase: hook("metastore", call, phase)


def run_and_die(address: Address, known: Known, operation: str, fault: Fault, number: int) -> None:
    """Run an operation; the process is gone, by ``number``, in the middle of it."""
    world = address.world(known.table)
    world.store.skipped_seconds = known.skipped_seconds
    world.staged_ids = known.staged_ids
    at_call(world, fault, lambda: os.kill(os.getpid(), number))
    next(one for one in OPERATIONS if one.name == operation).run(world)


def killed(world: RealWorld, address: Address, operation: str, fault: Fault) -> int:
    """Run an operation in a process that SIGKILL ends at one call; returns its exit code."""
    known = Known(world.name.name, world.store.skipped_seconds, world.staged_ids)
    arguments = (address, known, operation, fault, signal.SIGKILL)
    process = context.Process(target=run_and_die, args=arguments)
    process.start()
    process.join(120)
    code = process.exitcode
    if code is None:
        process.kill()
        raise AssertionError(f"{operation} did not end: {fault}")
    return code


def stop_at(address: Address, table: str, fault: Fault, results: Any) -> None:
    """Write, and be paused by SIGSTOP in the middle of one call."""
    world = address.world(table, replace(CONFIG, metastore_timeout_seconds=1, publish_timeout_seconds=7))
    at_call(world, fault, lambda: os.kill(os.getpid(), signal.SIGSTOP))
    try:
        world.write({"d1": frozenset({1111}), "d2": frozenset({1112})})
        results.put("published")
    except TableWriterError as error:
        results.put(type(error).__name__)


def vacuum_it(address: Address, table: str) -> None:
    address.world(table).vacuum()


def roll_back(address: Address, table: str) -> None:
    world = address.world(table)
    with suppress(ConflictError, InvalidInputError):  # vacuumed before, or somebody else was first: an answer
        world.keeper.rollback(str(world.name), version=2, partitions=["dt=d1", "dt=d2", "dt=d3"])


def write_one(address: Address, table: str) -> None:
    world = address.world(table)
    with suppress(ConflictError):
        world.write({"d4": frozenset({99})})
        return
    world.write({"d4": frozenset({99})})
