"""What was measured, in the form that is stored as JSON and printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from demo.reader import Tally


@dataclass(frozen=True, kw_only=True)
class Run:
    """One timed write, straight at the S3 server."""

    seconds: float
    peak_bytes: Mapping[str, int]  # of the Java process, the Python driver, the largest Python worker
    metastore_calls: Mapping[str, int]
    core_seconds: float = 0.0  # of Java, Python's driver and its workers
    steps: Mapping[str, float] = field(default_factory=dict)  # of our own writes


@dataclass(kw_only=True)
class Outcome:
    """All that is known of one contender in one case."""

    name: str
    title: str
    layout: str
    ours: bool
    note: str = ""
    runs: list[Run] = field(default_factory=list)
    latency_seconds: dict[str, float] = field(default_factory=dict)  # by milliseconds added to each request
    traffic: dict[str, Any] = field(default_factory=dict)  # one write through the proxy, without latency
    files: int = 0
    stored_bytes: int = 0
    reader: Tally | None = None
    error: str = ""

    @property
    def seconds(self) -> float | None:
        """The fastest run, without latency."""
        return min((run.seconds for run in self.runs), default=None)

    @property
    def core_seconds(self) -> float | None:
        """The cheapest run."""
        return min((run.core_seconds for run in self.runs if run.core_seconds), default=None)

    @property
    def requests(self) -> Counter[str]:
        """Requests of one write, by kind."""
        return Counter(self.traffic.get("requests", {}))

    @property
    def metastore_calls(self) -> Counter[str]:
        """Metastore calls of one write, by name: of the last run, the first ones may warm something up."""
        return Counter(self.runs[-1].metastore_calls if self.runs else {})

    def peak_bytes(self, process: str) -> int:
        """Return the highest peak of a process in all runs."""
        return max((run.peak_bytes[process] for run in self.runs), default=0)


@dataclass(kw_only=True)
class CaseOutcome:
    """One case, with all who took part."""

    name: str
    title: str
    row_count: int
    column_count: int
    partition_count: int
    scans: list[float] = field(default_factory=list)  # making the rows and dropping them
    outcomes: list[Outcome] = field(default_factory=list)

    def fastest_peer(self, layout: str) -> float | None:
        """Return the seconds of the fastest contender that is not ours and writes the same layout of files."""
        times = [one.seconds for one in self.outcomes if one.layout == layout and not one.ours and one.seconds]
        return min(times, default=None)

    def of(self, name: str) -> Outcome | None:
        """Return one contender's outcome."""
        return next((one for one in self.outcomes if one.name == name), None)


@dataclass(kw_only=True)
class Report:
    """Everything that one call of the benchmark found out."""

    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    options: Mapping[str, Any]
    cases: list[CaseOutcome] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether any contender could not do it, or did it wrong."""
        return any(one.error for case in self.cases for one in case.outcomes)

    def as_json(self) -> dict[str, Any]:
        """Return all of it, with the figures that the tables show."""
        found = asdict(self)
        for case, stored in zip(self.cases, found["cases"], strict=True):
            for one, row in zip(case.outcomes, stored["outcomes"], strict=True):
                row["seconds"] = one.seconds
        return found
