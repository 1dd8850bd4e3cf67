"""Trino, reading one table all the time, and what its answers are against what was there at the time."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from .trino import TrinoServer

QUERY_SECONDS: Final = 10  # no query here takes as long

Content = Mapping[str, Mapping[int, int]]
"""How many rows of each generation each partition has; one without rows is not named."""


@dataclass(frozen=True, kw_only=True)
class State:
    """What a call has made of the table, and when it did: between the two times readers may see it, or not yet."""

    name: str
    begun: float
    ended: float
    content: Content
    file_by_file: bool = False  # its files appear one by one
    drops: bool = False  # partitions go


@dataclass(frozen=True)
class Answer:
    """What one query has found."""

    asked: float
    answered: float
    content: Content


@dataclass
class Watched:
    """A table under readers."""

    table: str
    partitions: tuple[str, ...]
    states: list[State] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    failures: list[tuple[float, str]] = field(default_factory=list)  # when it was asked, and what it was told

    def changes(self, name: str, call: Callable[[], object], content: Content, **how: bool) -> None:
        """Make a call that leaves this content; ``how`` is what else a :class:`State` says."""
        begun = time.monotonic()
        call()
        self.states.append(State(name=name, begun=begun, ended=time.monotonic(), content=content, **how))

    @contextmanager
    def read_by(self, trino: TrinoServer, threads: int = 3) -> Iterator[None]:
        """Let threads read the whole table for the length of a block."""
        done = threading.Event()
        readers = [threading.Thread(target=self._read, args=(trino, done)) for _ in range(threads)]
        for reader in readers:
            reader.start()
        try:
            yield
            time.sleep(2)  # the last state is read too
        finally:
            done.set()
            for reader in readers:
                reader.join(60)

    def counts(self) -> Counter[str]:
        """Say how many answers were whole, or half, mixed, stale, and how many queries failed."""
        found = Counter(self._verdict(answer) for answer in self.answers)
        found["failed"] += len(self.failures)
        return found

    def unexplained(self) -> list[str]:
        """Return errors of queries but for the one that Trino has for a partition which is dropped while it plans."""
        drops = [(one.begun, one.ended) for one in self.states if one.drops]
        return [
            message
            for asked, message in self.failures
            if "HIVE_PARTITION_DROPPED_DURING_QUERY" not in message
            or not any(begun - QUERY_SECONDS < asked < ended for begun, ended in drops)
        ]

    def _read(self, trino: TrinoServer, done: threading.Event) -> None:
        sql = f"SELECT dt, gen, count(*) FROM {self.table} GROUP BY dt, gen"
        while not done.is_set():
            asked = time.monotonic()
            try:
                rows = trino.rows(sql)
            except Exception as error:  # noqa: BLE001  # whatever a reader gets is counted
                self.failures.append((asked, str(error)))
                continue
            content: dict[str, dict[int, int]] = {}
            for dt, gen, count in rows:
                content.setdefault(dt, {})[gen] = count
            self.answers.append(Answer(asked, time.monotonic(), content))

    def _verdict(self, answer: Answer) -> str:
        states = list(self.states)
        oldest = max((number for number, one in enumerate(states) if one.ended <= answer.asked), default=0)
        newest = max((number for number, one in enumerate(states) if one.begun <= answer.answered), default=0)
        for dt in self.partitions:
            seen = answer.content.get(dt, {})
            if not any(self._shows(number, oldest, dt, seen) for number in range(oldest, newest + 1)):
                return "stale" if any(one.content.get(dt, {}) == seen for one in states[:oldest]) else "half"
        at_once = any(
            all(self._shows(number, oldest, dt, answer.content.get(dt, {})) for dt in self.partitions)
            for number in range(oldest, newest + 1)
        )
        return "whole" if at_once else "mixed"

    def _shows(self, number: int, oldest: int, dt: str, seen: Mapping[int, int]) -> bool:
        """Whether a partition is as a state has it, or on its way there where files appear one by one."""
        state = self.states[number]
        wanted = state.content.get(dt, {})
        if seen == wanted:
            return True
        if not state.file_by_file or number == oldest:
            return False
        before = self.states[number - 1].content.get(dt, {})
        grown = all(before.get(gen, 0) <= seen.get(gen, 0) <= wanted[gen] for gen in wanted)
        return grown and seen.keys() <= wanted.keys()
