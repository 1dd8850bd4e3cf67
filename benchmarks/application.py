"""A Spark application of a contender's own, which does what the runner tells it, a line of JSON at a time.

Run by :mod:`benchmarks.remote` as ``python -m benchmarks.application SOCKET CONTENDER SIZE``; settings come
from the ``spark-defaults.conf`` that the environment names. Driver and executors are one Java process.
"""

from __future__ import annotations

import json
import os
import queue
import re
import socket
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark documents it

from benchmarks.cases import CASES, Size
from benchmarks.contenders import CONTENDERS, Contender
from benchmarks.content import full_content, marked_content
from benchmarks.peaks import core_seconds, descendants, peak_bytes, reset_peaks
from demo.reader import _cause

PAUSE_SECONDS: Final = 0.01
MAX_REASON_LENGTH: Final = 600
WORKER_ERROR: Final = re.compile(r"[A-Za-z_.]+(Error|Exception|Exit): ")  # the last line of a traceback of Python's
Answer = dict[str, Any]


class Application:
    """The commands; each method named in :data:`COMMANDS` is one."""

    def __init__(self, spark: SparkSession, contender: Contender, size: Size) -> None:
        self._spark = spark
        self._contender = contender
        self._size = size
        java: Any = spark.sparkContext._jvm
        self._java_pid = int(java.java.lang.ProcessHandle.current().pid())

    def create(self, case: str, table: str, location: str) -> Answer:
        """Make an empty table."""
        self._spark.sql(self._contender.create_statement(CASES[case], table, location))
        return {}

    def drop(self, table: str) -> Answer:
        """Forget a table; its files stay."""
        self._spark.sql(f"DROP TABLE IF EXISTS {table}")
        return {}

    def write(self, case: str, table: str, generation: int) -> Answer:
        """Overwrite all of a table with a generation of rows; answers seconds and peaks of memory."""
        rows = CASES[case].rows(self._spark, self._size, generation)
        reset_peaks([self._java_pid, os.getpid(), *descendants(self._java_pid)])
        used, started = self._core_seconds(), time.monotonic()
        result = self._contender.write(rows, table, CASES[case])
        seconds = time.monotonic() - started
        used = self._core_seconds() - used
        peaks = {
            "jvm": peak_bytes(self._java_pid),
            "driver": peak_bytes(os.getpid()),
            "worker": max(map(peak_bytes, descendants(self._java_pid)), default=0),
        }
        steps = dict(getattr(result, "seconds", {}))
        return {"seconds": seconds, "core_seconds": used, "peak_bytes": peaks, "steps": steps}

    def _core_seconds(self) -> float:
        return sum(map(core_seconds, [os.getpid(), *descendants(os.getpid())]))

    def scan(self, case: str) -> Answer:
        """Make the rows of a case and drop them."""
        rows = CASES[case].rows(self._spark, self._size, 0)
        started = time.monotonic()
        rows.write.format("noop").mode("overwrite").save()
        return {"seconds": time.monotonic() - started, "columns": len(rows.columns)}

    def expected(self, case: str) -> Answer:
        """Say what each generation of a case holds, in full and by its marker."""
        generations = [CASES[case].rows(self._spark, self._size, generation) for generation in (0, 1)]
        return {
            "full": [full_content(rows, CASES[case]) for rows in generations],
            "marked": [marked_content(rows, CASES[case]) for rows in generations],
        }

    def content(self, case: str, table: str) -> Answer:
        """Say what a table holds."""
        self._spark.catalog.refreshTable(table)
        return {"full": full_content(self._spark.table(table), CASES[case])}

    def files(self, table: str) -> Answer:
        """Name the files that a query of a table reads."""
        found = self._spark.table(table).select(F.input_file_name().alias("name")).distinct().collect()
        return {"names": [row["name"] for row in found]}

    def query(self, case: str, table: str) -> Answer:
        """Read a table as a new application would; a failing query is an answer too."""
        try:
            self._spark.catalog.refreshTable(table)
            return {"content": marked_content(self._spark.table(table), CASES[case]), "error": ""}
        except Exception as failure:  # noqa: BLE001  # whatever it is, this query failed
            return {"content": {}, "error": _cause(failure)}

    def rest(self) -> Answer:
        """Do nothing: its answer says that the queries of a watch are over."""
        return {"resting": True}


def _reason(failure: Exception) -> str:
    """Return what an error says, and what a Python worker's traceback in it ends with."""
    lines = [line.strip() for line in str(failure).splitlines()]
    deepest = [line for line in lines if WORKER_ERROR.match(line)][-1:]
    return "; ".join(dict.fromkeys([_cause(failure), *deepest]))[:MAX_REASON_LENGTH]


COMMANDS: Final = ("create", "drop", "write", "scan", "expected", "content", "files", "query", "rest")


def _answer(application: Application, command: dict[str, Any]) -> Answer:
    name = command.pop("do")
    if name not in COMMANDS:
        return {"failed": f"no such command: {name}"}
    try:
        answer: Answer = getattr(application, name)(**command)
    except Exception as failure:  # noqa: BLE001  # the runner makes it a row of the table
        return {"failed": f"{name}: {_reason(failure)}"}
    return answer


def _receive(lines: IO[str], commands: queue.SimpleQueue[dict[str, Any] | None]) -> None:
    for line in lines:
        commands.put(json.loads(line))
    commands.put(None)


def serve(application: Application, lines: IO[str], answers: IO[str]) -> None:
    """Answer each command; ``watch`` repeats a query until the next command comes, and once more after it."""
    commands: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(lines, commands), daemon=True).start()

    def answer(body: Answer) -> None:
        print(json.dumps(body), file=answers, flush=True)

    answer({"ready": True})
    while command := commands.get():
        if command["do"] != "watch":
            answer(_answer(application, command))
            continue
        while commands.empty():
            answer(_answer(application, command | {"do": "query"}))
            time.sleep(PAUSE_SECONDS)
        answer(_answer(application, command | {"do": "query"}))


def main() -> None:
    """Connect to the runner, start Spark and serve."""
    address, name, size = sys.argv[1:]
    given = json.loads(size)
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(address)
    spark = SparkSession.builder.getOrCreate()
    spark.sql("SHOW DATABASES").collect()
    application = Application(spark, CONTENDERS[name], Size(**given | {"tpch": Path(given["tpch"])}))
    with channel.makefile("r") as lines, channel.makefile("w") as answers:
        serve(application, lines, answers)
    spark.stop()


if __name__ == "__main__":
    main()
