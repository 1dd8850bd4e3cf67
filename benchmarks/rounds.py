"""The measuring: the contenders of a case in turns, then each of them counted, watched and slowed down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.cases import Case, Size
from benchmarks.contenders import Contender
from benchmarks.outcome import CaseOutcome, Outcome, Run
from benchmarks.remote import ContenderError, RemoteApplication
from benchmarks.servers import COUNTED_BUCKET, Servers
from demo.reader import Observation, Tally, judge
from table_writer.testing.processes import LakehouseError

AT_ONCE: Final = 2  # applications that start: each keeps a core busy
FIRST: Final = 0  # the generation that each table begins with
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Options:
    """How much is measured."""

    runs: int
    shape_runs: int  # of the other shapes of data, which are neither counted nor slowed down
    latencies_ms: Sequence[float]  # beside none at all
    with_reader: bool
    driver_memory: str


@dataclass
class Side:
    """One contender at work on one case."""

    contender: Contender
    application: RemoteApplication
    outcome: Outcome
    generation: int = FIRST  # of its last write

    def table(self, case: Case, *, counted: bool) -> str:
        """Return the table that it writes to: each case has two, in the two buckets."""
        return self.contender.table(f"{case.name}_counted" if counted else case.name)


class Measurement:
    """One case, measured with some contenders.

    Parameters
    ----------
    servers
        What all share.
    size
        How many rows.
    options
        How often, and what else.
    say
        Told what goes on.
    """

    def __init__(self, servers: Servers, size: Size, options: Options, say: Say) -> None:
        self._servers = servers
        self._size = size
        self._options = options
        self._say = say
        self._full: list[dict[str, Any]] = []  # what each generation holds, see content.py
        self._marked: list[dict[str, Any]] = []

    def run(self, case: Case, contenders: Sequence[Contender]) -> CaseOutcome:
        """Measure all of them; one that fails is a row with its error."""
        with ExitStack() as undo:
            self._say(f"{case.name}: starting {len(contenders)} applications")
            sides = [self._side(contender, undo) for contender in contenders]
            for start in range(0, len(sides), AT_ONCE):
                self._start(sides[start : start + AT_ONCE])
            found = self._expect(case, sides)
            self._say(f"{case.name}: the first writes, not counted")
            for side in sides:
                self._try(side, self._make_table, side, case, counted=False)
            runs = self._options.shape_runs if case.shape else self._options.runs
            for number in range(runs):
                self._say(f"{case.name}: round {number + 1} of {runs}")
                self._round(case, sides, found)
            for side in sides:
                if case.shape:
                    self._try(side, self._measure_files, side, case, counted=False)
                    continue
                self._say(f"{case.name}: requests of {side.contender.title}")
                self._try(side, self._through_proxy, side, case)
        self._servers.clear()
        return found

    def _try(self, side: Side, work: Callable[..., object], *arguments: Any, **keywords: Any) -> None:
        """Do something for a contender; an error ends its part, and only its own."""
        if side.outcome.error:
            return
        try:
            work(*arguments, **keywords)
        except (ContenderError, LakehouseError) as error:
            side.outcome.error = str(error)
            self._say(f"{side.contender.title} FAILED: {error}")
            side.application.stop()

    def _start(self, sides: Sequence[Side]) -> None:
        for side in sides:
            self._try(side, side.application.launch)
        for side in sides:
            self._try(side, side.application.wait_until_ready)

    def _side(self, contender: Contender, undo: ExitStack) -> Side:
        application = self._application(contender, counted=True)
        undo.callback(application.stop)
        outcome = Outcome(
            name=contender.name,
            title=contender.title,
            layout=contender.layout,
            ours=contender.ours,
            note=contender.note,
        )
        return Side(contender, application, outcome)

    def _application(self, contender: Contender, *, counted: bool) -> RemoteApplication:
        return RemoteApplication(
            contender,
            warehouse=self._servers.warehouse,
            settings={
                "spark.driver.memory": self._options.driver_memory,
                "spark.hadoop.hive.metastore.uris": self._servers.metastore.uri,
            },
            hadoop=self._servers.hadoop_settings(counted=counted),
            size=self._size,
        )

    def _expect(self, case: Case, sides: Sequence[Side]) -> CaseOutcome:
        """Let the first application that can say what the tables shall hold."""
        found = CaseOutcome(name=case.name, title=case.title, row_count=0, column_count=0, partition_count=0)
        found.outcomes = [side.outcome for side in sides]

        def ask(side: Side) -> None:
            expected = side.application.call("expected", case=case.name)
            self._full, self._marked = expected["full"], expected["marked"]
            found.column_count = side.application.call("scan", case=case.name)["columns"]
            found.partition_count = len(case.partition_by) and len(self._full[FIRST])
            found.row_count = sum(row_count for row_count, _ in self._full[FIRST].values())

        for side in sides:
            if not found.row_count:
                self._try(side, ask, side)
        return found

    def _make_table(self, side: Side, case: Case, *, counted: bool) -> None:
        """Make the table and write to it once: partitions are added, and everybody is warm afterwards."""
        table = side.table(case, counted=counted)
        location = self._servers.location(table, counted=counted)
        side.application.call("create", case=case.name, table=table, location=location)
        side.generation = 1 - FIRST
        self._write(side, case, counted=counted)

    def _write(self, side: Side, case: Case, *, counted: bool) -> dict[str, Any]:
        """Overwrite the table with the generation it does not hold."""
        side.generation = 1 - side.generation
        table = side.table(case, counted=counted)
        return side.application.call("write", case=case.name, table=table, generation=side.generation)

    def _check(self, side: Side, case: Case, *, counted: bool) -> None:
        """Refuse a write that was fast and wrong."""
        held = side.application.call("content", case=case.name, table=side.table(case, counted=counted))["full"]
        wanted = self._full[side.generation]
        wrong = sorted(name for name in {*held, *wanted} if held.get(name) != wanted.get(name))
        if wrong:
            name = wrong[0]
            raise ContenderError(
                f"wrong rows in {len(wrong)} partition(s); {name}: rows and checksum {held.get(name)}"
                f" instead of {wanted.get(name)}"
            )

    def _round(self, case: Case, sides: Sequence[Side], found: CaseOutcome) -> None:
        def scan(side: Side) -> None:
            found.scans.append(side.application.call("scan", case=case.name)["seconds"])

        for side in [side for side in sides if not side.outcome.error][:1]:
            self._try(side, scan, side)
        for side in sides:
            self._try(side, self._timed_write, side, case)

    def _timed_write(self, side: Side, case: Case) -> None:
        self._servers.audit.news()
        answer = self._write(side, case, counted=False)
        calls = self._servers.audit.news()
        self._check(side, case, counted=False)
        side.outcome.runs.append(
            Run(
                seconds=answer["seconds"],
                peak_bytes=answer["peak_bytes"],
                metastore_calls=dict(calls),  # asdict() of a Counter counts its pairs
                core_seconds=answer["core_seconds"],
                steps=answer["steps"],
            )
        )

    def _through_proxy(self, side: Side, case: Case) -> None:
        """Count a write, watch it, and repeat it with latency; on a table that is reached through the proxy."""
        proxy = self._servers.proxy
        proxy.reset()
        with ExitStack() as undo:
            reader = self._application(side.contender, counted=False) if self._options.with_reader else None
            if reader is not None:
                undo.callback(reader.stop)
                reader.launch()  # which takes as long as to make the table
            self._make_table(side, case, counted=True)
            watching = nullcontext([])
            if reader is not None:
                reader.wait_until_ready()
                watching = reader.watching(case.name, side.table(case, counted=True))
            before = self._marked[side.generation]
            with watching as seen:
                proxy.reset()
                self._write(side, case, counted=True)
                side.outcome.traffic = proxy.traffic()
        if seen:
            side.outcome.reader = _tally(seen, before, self._marked[side.generation])
        self._check(side, case, counted=True)
        self._measure_files(side, case, counted=True)
        for latency_ms in self._options.latencies_ms:
            self._say(f"{case.name}: {side.contender.title} with {latency_ms:g} ms a request")
            proxy.reset(latency_ms)
            seconds = self._write(side, case, counted=True)["seconds"]
            proxy.reset()
            self._check(side, case, counted=True)
            side.outcome.latency_seconds[f"{latency_ms:g}"] = seconds

    def _measure_files(self, side: Side, case: Case, *, counted: bool) -> None:
        """Look at the files that a query of the table reads."""
        table = side.table(case, counted=counted)
        names = side.application.call("files", table=table)["names"]
        bucket = COUNTED_BUCKET if counted else self._servers.s3.bucket
        start = f"s3a://{bucket}/"
        prefix = self._servers.location(table, counted=counted).removeprefix(start)
        sizes = self._servers.sizes(bucket, f"{prefix}/")
        side.outcome.files = len(names)
        side.outcome.stored_bytes = sum(sizes[name.removeprefix(start)] for name in names)


def _tally(seen: Sequence[dict[str, Any]], before: dict[str, Any], after: dict[str, Any]) -> Tally:
    """Judge what a reader saw of one overwrite, as the demo does."""

    def content(found: dict[str, Any]) -> Any:
        return {name: tuple(rows) for name, rows in found.items()}

    observations = [Observation(content=content(one["content"]), error=one["error"]) for one in seen]
    return judge(observations, content(before), content(after), overwrites=1)
