"""The demo's reader: a Spark application of its own, and the judgement of what it saw.

Run as a program it reads names of tables from standard input, one a line. It queries the table over and over until an
empty line comes, and prints one line of JSON per query.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer.testing.embedded import Lakehouse
from table_writer.testing.processes import LOCALHOST, LakehouseError

__all__ = ["Reader", "Tally", "content_by_month", "judge"]

START_SECONDS: Final = 120.0
QUERY_SECONDS: Final = 120.0
ENDED: Final = "ended"

Rows = tuple[int, int]
"""How many rows, and a checksum over them."""
Content = Mapping[int, Rows]
"""What each month holds."""
ABSENT: Final[Rows] = (0, 0)


CHECKED: Final = ("month", "day", "carrier", "flight", "dep_time", "revision")


def content_by_month(rows: DataFrame) -> dict[int, tuple[int, int]]:
    """Count the rows of each month, and add up a hash of each row's key, a value and its revision."""
    checksum = F.sum(F.hash(*CHECKED).cast("bigint")).alias("checksum")
    counted = rows.groupBy("month").agg(F.count("*").alias("row_count"), checksum)
    return {row["month"]: (row["row_count"], row["checksum"]) for row in counted.collect()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """What one query saw."""

    content: Content
    error: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """What all queries saw, counted."""

    overwrites: int
    queries: int
    failed: int
    with_rows_missing: int  # a month is absent, or has fewer rows than before and after
    with_half_switched: int  # a month is neither as before nor as after in any other way
    with_some_switched: int  # every month is whole, some are as before and some as after
    before: int  # all of the table is as before
    after: int
    first_error: str = ""

    @property
    def broken(self) -> int:
        """Faults that no reader may ever meet."""
        return self.failed + self.with_rows_missing + self.with_half_switched


def judge(observations: Sequence[Observation], before: Content, after: Content, *, overwrites: int) -> Tally:
    """Compare what was seen with the only two contents there ever were."""
    counts: Counter[str] = Counter()
    for seen in observations:
        counts.update(["failed"] if seen.error else _findings(seen.content, before, after))
    return Tally(
        overwrites=overwrites,
        queries=len(observations),
        failed=counts["failed"],
        with_rows_missing=counts["with_rows_missing"],
        with_half_switched=counts["with_half_switched"],
        with_some_switched=counts["with_some_switched"],
        before=counts["before"],
        after=counts["after"],
        first_error=next((seen.error for seen in observations if seen.error), ""),
    )


def _findings(content: Content, before: Content, after: Content) -> set[str]:
    if content in (before, after):
        return {"before" if content == before else "after"}
    faults = {_fault(content.get(month, ABSENT), before[month], after[month]) for month in before} - {""}
    return faults or {"with_some_switched"}


def _fault(seen: Rows, before: Rows, after: Rows) -> str:
    if seen in (before, after):
        return ""
    return "with_rows_missing" if seen[0] < min(before[0], after[0]) else "with_half_switched"


@dataclass
class Reader:
    """Starts the other Spark application and tells it what to read.

    Parameters
    ----------
    lake
        Whose metastore and S3 endpoint it uses.
    """

    lake: Lakehouse
    observations: list[Observation] = field(default_factory=list, init=False)
    _lines: queue.SimpleQueue[str] = field(default_factory=queue.SimpleQueue, init=False)

    def __enter__(self) -> Self:
        changes = {
            "SPARK_CONF_DIR": str(self.lake.directory),  # S3 endpoint, keys and jars, as the lakehouse wrote them down
            "SPARK_LOCAL_IP": LOCALHOST,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": "pyspark-shell",
        }
        with (self.lake.directory / "reader.log").open("ab") as log:
            self._process = subprocess.Popen(  # ourselves
                [sys.executable, "-m", "demo.reader", self.lake.metastore_uri],
                env=os.environ | changes,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for the demo, which then ends this
            )
        threading.Thread(target=self._receive, args=(self._process.stdout,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()  # it ends with its standard input
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def wait_until_ready(self) -> None:
        """Return when its Spark session is up."""
        self._next(START_SECONDS)

    @contextmanager
    def watching(self, table: str) -> Iterator[Callable[[], int]]:
        """Let it query a table for the length of the block; hands out how many queries have ended.

        The first one ends before the block begins. Afterwards :attr:`observations` are all of them.
        """
        self._send(table)
        self.observations = [_observation(self._next(QUERY_SECONDS))]
        yield self._query_count
        self._send("")
        while line := self._next(QUERY_SECONDS):
            self.observations.append(_observation(line))

    def _query_count(self) -> int:
        if self._process.poll() is not None:
            raise self._lost()
        return len(self.observations) + self._lines.qsize()

    def _send(self, line: str) -> None:
        if self._process.stdin is None or self._process.poll() is not None:
            raise self._lost()
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def _receive(self, lines: IO[str]) -> None:
        for line in lines:
            self._lines.put(line.strip())
        self._lines.put(ENDED)

    def _next(self, timeout_seconds: float) -> str:
        try:
            line = self._lines.get(timeout=timeout_seconds)
        except queue.Empty:
            raise self._lost() from None
        if line == ENDED:
            raise self._lost()
        return line

    def _lost(self) -> LakehouseError:
        log = Path(self.lake.directory, "reader.log").read_text(errors="replace")
        return LakehouseError(f"the reader does not answer; the end of its log:\n{log[-3000:]}")


def _observation(line: str) -> Observation:
    stored = json.loads(line)
    content = {int(month): (row_count, checksum) for month, (row_count, checksum) in stored["content"].items()}
    return Observation(content=content, error=stored["error"])


def _query(spark: SparkSession, table: str) -> str:
    """Read the whole table with nothing remembered from the query before, as a new application would."""
    try:
        spark.catalog.refreshTable(table)
        content, error = content_by_month(spark.table(table)), ""
    except Exception as failure:  # noqa: BLE001  # whatever it is, this query failed
        content, error = {}, _cause(failure)
    return json.dumps({"content": content, "error": error})


def _cause(failure: Exception) -> str:
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()] or [type(failure).__name__]
    telling = [line for line in lines if "FileNotFound" in line or line.startswith("Caused by:")]
    return [*telling, lines[0]][0][:300]


def _commands() -> queue.SimpleQueue[str | None]:
    commands: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def receive() -> None:
        for line in sys.stdin:
            commands.put(line.strip())
        commands.put(None)

    threading.Thread(target=receive, daemon=True).start()
    return commands


def _serve(metastore_uri: str, out: IO[str]) -> None:
    spark = (
        SparkSession.builder.appName("reader")
        .master("local[1]")
        .config("spark.hadoop.hive.metastore.uris", metastore_uri)
        .getOrCreate()
    )
    spark.sql("SHOW DATABASES").collect()
    commands = _commands()
    print("ready", file=out, flush=True)
    while table := commands.get():
        while commands.empty():
            print(_query(spark, table), file=out, flush=True)
            time.sleep(0.01)
        if commands.get() is None:
            break
        print(file=out, flush=True)
    spark.stop()


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Java's own prints go to the log
    _serve(sys.argv[1], answers)
