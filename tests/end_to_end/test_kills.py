"""The driver is killed by SIGKILL at every step of a write, on real parts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from table_writer import ConflictError, TableWriter
from table_writer.spark import is_connect

from .killed_writer import BY_THE_DRIVER, MOMENTS

WRITER = Path(__file__).with_name("killed_writer.py")
OLD = {(1, "old", "d1"), (2, "old", "d2")}
NEW = {(100, "new", "d1"), (2, "old", "d2"), (300, "new", "d3")}
EARLY = {*BY_THE_DRIVER, "before complete", "after complete", "before the claim"}
NOT_SLOW = (BY_THE_DRIVER[1], "after the switch")
SWITCHED = {"after the switch", "after its outcome"}
OF_ANY_SESSION = (
    "spark.hadoop.",
    "spark.sql.",
    "spark.jars",
    "spark.master",
    "spark.driver.bindAddress",
    "spark.driver.host",
    "spark.ui.",
)


def kill_a_writer(spark: Any, table: str, moment: str, directory: Path, script: Path = WRITER, *words: str) -> None:
    if is_connect(spark):
        session = {"spark.remote": f"sc://{spark.client._builder.endpoint}"}
    else:
        session = {one: value for one, value in spark.sparkContext.getConf().getAll() if one.startswith(OF_ANY_SESSION)}
    settings = directory / "session.json"
    settings.write_text(json.dumps(session))
    require_killed(directory, script, settings, table, moment, *words)


def require_killed(directory: Path, script: Path, *words: str | Path) -> None:
    """Run a script, which is to end by its own SIGKILL."""
    done = subprocess.run(
        [sys.executable, script, *words],
        cwd=directory,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, "\n".join(
        line for line in done.stderr.splitlines() if "\tat " not in line
    )[-3000:]


@pytest.mark.connect
@pytest.mark.parametrize(
    "moment", [pytest.param(moment, marks=[] if moment in NOT_SLOW else [pytest.mark.slow]) for moment in MOMENTS]
)
def test_after_a_kill_readers_see_all_old_or_all_new_rows_and_the_next_run_succeeds(
    moment: str,
    spark: SparkSession,
    writer: TableWriter,
    orders: str,
    rows: Callable[..., Any],
    content: Callable[[str], set[tuple[Any, ...]]],
    tmp_path: Path,
) -> None:
    writer.overwrite_partitions(rows(*OLD), orders)
    kill_a_writer(spark, orders, moment, tmp_path)
    spark.catalog.refreshTable(orders)
    assert content(orders) == (NEW if moment in SWITCHED else OLD)
    if moment == "before the switch":
        assert writer.recover(orders).settled == {2: "published"}
        assert content(orders) == NEW
        assert writer.recover(orders).settled == {}
    again = rows((100, "new", "d1"), (300, "new", "d3"))
    try:
        result = writer.overwrite_partitions(again, orders)
    except ConflictError:
        assert moment not in EARLY, "nothing was claimed, so there is nothing to conflict with"
        result = writer.overwrite_partitions(again, orders)
    assert result.rows == 2
    assert content(orders) == NEW
    assert not writer._services.open_to_write(orders).log.lister.read().in_doubt
