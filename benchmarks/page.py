"""The tables of the performance page, in Markdown, from what ``make bench`` has stored.

Run: ``python -m benchmarks.page [build/bench/bench.json]``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

SPARK: Final = "spark-v2"
OURS: Final = "table-writer"
Row = Mapping[str, Any]


def tables(report: Row) -> Iterator[str]:
    """Yield the lines of all tables; contenders that failed are left out."""
    options, versions = report["options"], report["versions"]
    yield f"Spark {versions['spark']}, Delta {versions['delta']}, Iceberg {versions['iceberg']}; {options['server']}"
    for case in (one for one in report["cases"] if any(row["traffic"] for row in one["outcomes"])):
        yield f"\n{case['row_count']:,} rows × {case['column_count']} columns; the fastest of {options['runs']}\n"
        yield from _peers(case)
        for latency_ms in sorted({ms for row in case["outcomes"] for ms in row["latency_seconds"]}, key=float):
            yield f"\nWith {latency_ms} ms a request\n"
            yield from _slowed(case["outcomes"], latency_ms)
        yield "\nWhat a reader saw\n"
        yield from _read(case["outcomes"])
    shapes = [one for one in report["cases"] if _of(one["outcomes"], SPARK) and _of(one["outcomes"], OURS)]
    yield f"\nShapes of data, the fastest of {options['shape_runs']}\n"
    yield from _shapes(shapes)


def _peers(case: Row) -> Iterator[str]:
    yield from _head("", "seconds", "S3 requests", "MB sent", "MB copied", "metastore calls", "MB stored", "JVM MiB")
    yield _line("making the rows", f"{min(case['scans']):.2f}", *[""] * 6)
    for row in _done(case["outcomes"]):
        traffic, run = row["traffic"], row["runs"][-1]
        yield _line(
            _name(row),
            f"{row['seconds']:.2f}",
            f"{sum(traffic['requests'].values()):,}",
            f"{traffic['sent_bytes'] / 1e6:.1f}",
            f"{traffic['copied_bytes'] / 1e6:.1f}",
            str(sum(run["metastore_calls"].values())),
            f"{row['stored_bytes'] / 1e6:.1f}",
            f"{max(one['peak_bytes']['jvm'] for one in row['runs']) / 2**20:,.0f}",
        )
    for row in _done(case["outcomes"]):
        yield f"\n{row['title']}: {' '.join(format(one['seconds'], '.2f') for one in row['runs'])} s"


def _slowed(rows: Sequence[Row], latency_ms: str) -> Iterator[str]:
    yield from _head("", "seconds", "times as fast as Spark")
    spark = _of(rows, SPARK)
    for row in sorted(_done(rows), key=lambda one: -one["latency_seconds"].get(latency_ms, 0)):
        took = row["latency_seconds"].get(latency_ms)
        if took:
            times = f"{spark['latency_seconds'][latency_ms] / took:.1f}" if spark else ""
            yield _line(_name(row), f"{took:.2f}", times)


def _read(rows: Sequence[Row]) -> Iterator[str]:
    yield from _head("", "queries", "failed", "missed rows", "half-switched partition", "partitions of both")
    kinds = ("queries", "failed", "with_rows_missing", "with_half_switched", "with_some_switched")
    for row in _done(rows):
        if row["reader"]:
            yield _line(_name(row), *(str(row["reader"][kind]) for kind in kinds))


def _shapes(cases: Sequence[Row]) -> Iterator[str]:
    yield from _head("", "seconds", "core-seconds", "MB stored, ours / Spark's")
    for case in cases:
        spark, ours = _of(case["outcomes"], SPARK), _of(case["outcomes"], OURS)
        assert spark is not None
        assert ours is not None
        cores = _cores(spark) / _cores(ours)
        stored = f"{ours['stored_bytes'] / 1e6:.1f} / {spark['stored_bytes'] / 1e6:.1f}"
        yield _line(case["title"], f"{spark['seconds'] / ours['seconds']:.1f} ×", f"{cores:.1f} ×", stored)


def _cores(row: Row) -> float:
    return float(min(run["core_seconds"] for run in row["runs"]))


def _done(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if not row["error"]]


def _of(rows: Sequence[Row], name: str) -> Row | None:
    return next((row for row in _done(rows) if row["name"] == name), None)


def _name(row: Row) -> str:
    title = row["title"].rstrip(" ¹²³")
    return f"**{title}**" if row["ours"] else title


def _head(*names: str) -> Iterator[str]:
    yield _line(*names)
    yield "|---" * len(names) + "|"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", type=Path, nargs="?", default=Path("build/bench/bench.json"))
    print("\n".join(tables(json.loads(parser.parse_args().json.read_text()))))


if __name__ == "__main__":
    main()
