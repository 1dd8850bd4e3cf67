"""When executors are prepared, and what is said of those that cannot run a write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from table_writer.spark.executors import workers_are_like_us

PROBE = """
from pyspark.sql import SparkSession
from table_writer.spark.executors import prepare_executors
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
prepare_executors(spark.sparkContext)
"""


@pytest.mark.parametrize(
    ("master", "python", "alike"),
    [
        ("local[2]", sys.executable, True),
        ("local", sys.executable, True),
        ("local[2]", "/usr/bin/false", False),
        ("local[2]", "no-such-python", False),
        ("local-cluster[2,1,1024]", sys.executable, False),
        ("spark://host:7077", sys.executable, False),
    ],
)
def test_only_local_workers_with_our_interpreter_need_no_preparation(master: str, python: str, alike: bool) -> None:
    context = SimpleNamespace(master=master, pythonExec=python)
    assert workers_are_like_us(context) is alike  # type: ignore[arg-type]


def test_workers_without_the_packages_are_named_with_the_fix(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(bare / "bin" / "python")}
    environment.pop("PYTHONPATH", None)
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "InvalidInputError" in last
    assert "cannot import pyarrow" in last
    assert "spark.pyspark.python" in last
