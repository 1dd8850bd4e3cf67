"""table_writer against every peer, side by side: the same rows, one S3 server, one metastore, in turns.

Each contender is a Spark application of its own. A round lets each of them overwrite its table once; the first write is
not counted, the figure is the fastest, all are kept in the JSON. Then each overwrites a table that is reached through a
proxy, which counts and adds latency, while a second application reads it in a loop. After each write the table must
hold exactly the rows.

Run: ``make bench``, or ``make bench BENCH="--cases lineitem --runs 5"``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyspark

from benchmarks.cases import CASES, Size
from benchmarks.contenders import CONTENDERS, DELTA, ICEBERG, ON_REQUEST, PAIR, Contender, check_spark
from benchmarks.outcome import Report
from benchmarks.picture import draw
from benchmarks.report import as_text
from benchmarks.rounds import Measurement, Options
from benchmarks.servers import Servers, best_server, generate_lineitem
from table_writer.testing.jars import _java_version, find_java

QUICK = {"rows": 4_000, "scale": 0.001, "runs": 1, "shape_runs": 1}
STARTED = time.monotonic()


def say(text: str) -> None:
    """Tell what goes on, apart from the tables."""
    print(f"{time.monotonic() - STARTED:7.1f} s  {text[:2000]}", file=sys.stderr, flush=True)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""

    def names(known: Sequence[str]) -> Any:
        def checked(text: str) -> list[str]:
            if unknown := set(text.split(",")) - set(known):
                raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: choose from {', '.join(known)}")
            return text.split(",")

        return checked

    parser = argparse.ArgumentParser(prog="make bench", description=__doc__.splitlines()[0])
    usual = [name for name in CASES if name != "lineitem"]
    parser.add_argument(
        "--cases", type=names([*CASES]), default=usual, help=f"{', '.join(CASES)}; by default all but lineitem"
    )
    parser.add_argument(
        "--contenders",
        type=names([*CONTENDERS]),
        help=f"{', '.join(CONTENDERS)}; by default all but {' and '.join(ON_REQUEST)}, for the shapes of data"
        f" {' and '.join(PAIR)}",
    )
    parser.add_argument("--runs", type=int, default=3, help="timed writes of each contender")
    parser.add_argument("--shape-runs", type=int, default=1, help="the same, of the shapes of data")
    parser.add_argument("--rows", type=int, default=4_000_000, help="of orders; the other shapes are measured by it")
    parser.add_argument("--scale", type=float, default=0.2, help="of TPC-H")
    parser.add_argument("--latency-ms", default="0,20", help="added to each request, a run each; such as 0,20,50")
    parser.add_argument("--server", choices=["versitygw", "moto"], default=best_server())
    parser.add_argument("--no-reader", action="store_true", help="without the application that reads meanwhile")
    parser.add_argument("--driver-memory", default="2g", help="of each application")
    parser.add_argument("--json", type=Path, default=Path("build/bench/bench.json"))
    parser.add_argument("--picture", type=Path, default=Path("build/bench/bench.svg"))
    parser.add_argument("--quick", action="store_true", help="few rows, one run: a test of the benchmark itself")
    chosen = parser.parse_args(arguments)
    if chosen.quick:
        vars(chosen).update(QUICK)
    return chosen


def contenders_of(case_name: str, chosen: Sequence[str] | None) -> list[Contender]:
    """Return who takes part in a case."""
    case = CASES[case_name]
    names = chosen or (PAIR if case.shape else CONTENDERS.keys() - ON_REQUEST)
    return [
        one
        for name, one in CONTENDERS.items()
        if name in names
        and (case.partition_by or not one.only_partitioned)
        and (case.from_files or not one.only_from_files)
    ]


def machine() -> dict[str, Any]:
    """Describe where this ran."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cores": os.cpu_count(), "memory_gib": round(memory_bytes / 2**30), "system": platform.platform(terse=True)}


def versions() -> dict[str, str]:
    """Name what was compared, and what it ran on."""
    packages = {name: version(name) for name in ("hive-table-writer", "pyspark", "pyarrow", "boto3")}
    peers = {name: coordinates[0].rpartition(":")[2] for name, coordinates, _ in (DELTA, ICEBERG)}
    java = str(_java_version(find_java()))
    return {**packages, **peers, "python": platform.python_version(), "java": java, "spark": pyspark.__version__}


def main(arguments: Sequence[str]) -> int:
    """Measure, print the tables, write the files; returns 1 if a contender failed."""
    chosen = parse(arguments)
    check_spark()
    if chosen.server == "moto":
        say("the S3 server is moto, an imitation in Python: figures with it say little. Install versitygw.")
    latencies = [float(text) for text in chosen.latency_ms.split(",") if float(text)]
    options = Options(
        runs=chosen.runs,
        shape_runs=chosen.shape_runs,
        latencies_ms=latencies,
        with_reader=not chosen.no_reader,
        driver_memory=chosen.driver_memory,
    )
    stored = {name: str(value) if isinstance(value, Path) else value for name, value in vars(chosen).items()}
    report = Report(machine=machine(), versions=versions(), options=stored)
    with Servers(chosen.server) as servers:
        size = Size(rows=chosen.rows, scale=chosen.scale, tpch=servers.directory / "tpch")
        if "lineitem" in chosen.cases:
            generate_lineitem(size.tpch, chosen.scale)
        for name in chosen.cases:
            measurement = Measurement(servers, size, options, say)
            report.cases.append(measurement.run(CASES[name], contenders_of(name, chosen.contenders)))
            for path in (chosen.json, chosen.picture):
                path.parent.mkdir(parents=True, exist_ok=True)
            chosen.json.write_text(json.dumps(report.as_json(), indent=1))  # after each case: it may be cut short
    print(as_text(report), flush=True)
    draw(report, chosen.picture)
    say(f"all of it; {chosen.json} and {chosen.picture} are written")
    return int(report.failed)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an orderly end, as with Ctrl-C
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
