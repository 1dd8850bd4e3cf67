"""A package is upgraded while a session runs, or executors have another version of it than the driver.

Seen by a user: ``pip install --upgrade`` beside a notebook; the next write failed in a task, with an AttributeError of
a class that has another field now.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import SparkSession

import table_writer
from table_writer import InvalidInputError, NewTable, TableWriter
from table_writer.spark import executors
from table_writer.spark.executors import as_sent

PACKAGE = Path(table_writer.__file__).parent
REPLACED_AT_LAST = """
import os, shutil, sys
from pathlib import Path
from table_writer.version import is_replaced
file = Path(sys.argv[1], "table_writer", "model", "upload_spec.py")
seen = [is_replaced()]
os.utime(file)  # the same version once more
seen.append(is_replaced())
file.write_text(file.read_text() + "\\n# of another version\\n")
seen.append(is_replaced())
shutil.rmtree(file.parents[1])
seen.append(is_replaced())
print(seen)
"""


def in_a_process(code: str, *arguments: str, path: Path) -> str:
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    there = {"PYTHONPATH": str(path)}
    ran = subprocess.run(command, env=there, cwd=path, capture_output=True, text=True, check=False)
    return ran.stdout + ran.stderr


def test_a_process_notices_that_its_files_are_of_another_version(tmp_path: Path) -> None:
    copytree(PACKAGE, tmp_path / "table_writer")
    seen = in_a_process(REPLACED_AT_LAST, str(tmp_path), path=tmp_path)
    assert seen == "[False, False, True, True]\n"


@pytest.mark.parametrize(
    ("there", "says"),
    [
        ({"version.py": "__version__ = '9.9'; CODE = 1"}, "9.9 in "),
        ({"version.py": "__version__ = '0.1'"}, "none that can be used (module"),
        ({}, "another table_writer than the driver"),
    ],
    ids=["newer", "older", "something else"],
)
def test_a_worker_of_another_version_says_so_before_it_unpacks_anything(
    tmp_path: Path, there: dict[str, str], says: str
) -> None:
    def work(items: Iterator[Any]) -> Iterator[Any]:
        yield from items

    (tmp_path / "table_writer").mkdir()
    for name, text in {"__init__.py": "", **there}.items():
        (tmp_path / "table_writer" / name).write_text(text)
    sent = CloudPickleSerializer().dumps(as_sent(work))
    code = f"import pyspark.cloudpickle, pickle; list(pickle.loads({sent!r})([1]))"
    answer = in_a_process(code, path=tmp_path)
    assert "table_writer.errors.InvalidInputError: the Python worker on " in answer
    assert says in answer


@pytest.mark.slow
@pytest.mark.connect
def test_tasks_of_another_version_end_the_write_with_what_to_do(
    spark: SparkSession, lakehouse_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = f"{lakehouse_database}.orders"
    df = spark.createDataFrame([(1, "d1")], "id BIGINT, dt STRING")
    writer = TableWriter(spark)
    writer.append(df, table, if_missing=NewTable(partition_by=["dt"]))
    monkeypatch.setattr(executors, "CODE", executors.CODE + 1)
    with pytest.raises(InvalidInputError, match=r"has another table_writer than the driver.*Nothing was published"):
        writer.append(df, table)
    assert (spark.table(table).count(), writer.maintenance.uploads(table).uploads) == (1, ())


@pytest.mark.parametrize("name", ["append", "plan", "stage", "compact"])
def test_no_call_begins_once_another_version_is_installed(
    spark: SparkSession, lakehouse_database: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    calls: dict[str, Callable[[TableWriter], object]] = {
        "append": lambda writer: writer.append(spark.range(1), f"{lakehouse_database}.t", if_missing=NewTable()),
        "plan": lambda writer: writer.plan(spark.range(1), f"{lakehouse_database}.t"),
        "stage": lambda writer: writer.stage(spark.range(1), f"{lakehouse_database}.t", if_missing=NewTable()),
        "compact": lambda writer: writer.compact(f"{lakehouse_database}.t"),
    }
    monkeypatch.setattr(executors, "is_replaced", lambda: True)
    with pytest.raises(InvalidInputError, match=r"another table_writer was installed while this process ran.*start it"):
        calls[name](TableWriter(spark))
    assert spark.catalog.listTables(lakehouse_database) == []
