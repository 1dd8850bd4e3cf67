"""Rows that take their time: their tasks have begun, and do not end by themselves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def slow_rows(spark: Any, begun: Path) -> Any:
    """Return rows for ``orders``; the file says that a task is at work."""

    def slowly(batches: Iterator[Any]) -> Iterator[Any]:
        begun.touch()
        for batch in batches:
            yield batch
            time.sleep(120)

    rows = spark.range(0, 4, 1, 2).selectExpr("id", "'slow' AS note", "concat('d', id) AS dt")
    return rows.mapInArrow(slowly, rows.schema)


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.05)
