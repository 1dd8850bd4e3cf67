"""When executors are prepared, and what is said of those that cannot run a write."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from importlib.metadata import requires
from pathlib import Path
from types import SimpleNamespace

import pytest

from table_writer.spark import executors
from table_writer.spark.executors import REQUIRED, workers_are_like_us

ROOT = Path(__file__).parents[2]
PROBE = """
from pyspark.sql import SparkSession
from table_writer.spark.executors import prepare_executors
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
prepare_executors(spark.sparkContext)
"""

ON_EXECUTORS = """
import sys
import time
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import table_writer.storage.worker, table_writer.upload.task
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
    environment["PYTHONPATH"] = str(ROOT)
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


def test_tasks_need_none_of_the_requirements_that_executors_are_not_asked_for() -> None:
    required = {re.split(r"[^\w-]", one)[0] for one in requires("table-writer") or () if "extra ==" not in one}
    absent = {*required, "thrift"} - {"pyspark", *(name for name, _ in REQUIRED)}
    assert {"hmsclient", "msgspec"} <= absent
    subprocess.run([sys.executable, "-c", ON_EXECUTORS.format(absent=absent)], check=True, cwd=ROOT)


def test_executors_need_the_sdk_of_azure_once_a_store_there_was_opened() -> None:
    script = (
        "from table_writer.spark.executors import required_of_executors as required\n"
        "print([name for name, _ in required()])\n"
        "import table_writer.storage.azure\n"
        "print([name for name, _ in required()])\n"
    )
    said = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert said.splitlines() == ["['pyarrow', 'boto3']", "['pyarrow', 'boto3', 'azure.storage.blob']"]


def test_the_version_is_known_where_the_package_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "__version__", "1.2.3.dev4+g0a1b2c3")
    sent = f"import sys; sys.path.insert(0, {str(executors.packed())!r})"
    alone = [sys.executable, "-I", "-S", "-c", f"{sent}; import table_writer; print(table_writer.__version__)"]
    done = subprocess.run(alone, capture_output=True, text=True, check=True)
    assert done.stdout == "1.2.3.dev4+g0a1b2c3\n"


def test_a_session_that_is_sent_the_package_twice_gets_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    first = executors.packed()
    monkeypatch.setattr(time, "localtime", lambda *_: time.gmtime(2_000_000_000))
    second = executors.packed()
    assert first is not None
    assert second is not None
    assert first != second
    assert first.read_bytes() == second.read_bytes()
