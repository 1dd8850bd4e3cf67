"""The fixtures work in a test-suite of somebody else's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = """
from pathlib import Path
import pytest

NAMES = []

@pytest.mark.parametrize("n", range(2))
def test_table(n, lakehouse, lakehouse_database):
    lakehouse.spark.sql(f"CREATE TABLE {lakehouse_database}.t USING parquet AS SELECT 1 AS x")
    NAMES.append(lakehouse_database)
    assert len(set(NAMES)) == n + 1

def test_one_lakehouse_and_no_database_left(lakehouse):
    assert [row[0] for row in lakehouse.spark.sql("SHOW DATABASES").collect()] == ["default"]
    assert lakehouse.warehouse.startswith("file:///")
"""

LOADED = """
import sys

def pytest_collection_finish():
    print("LOADED", *sys.modules)
"""


def run_suite(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_suite.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
    command += ["-p", "table_writer.testing.pytest_plugin", *options]
    paths = os.pathsep.join(filter(None, sys.path))
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": paths}
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_fixtures_share_one_lakehouse_and_drop_their_databases(tmp_path: Path) -> None:
    run = run_suite(tmp_path, "--lakehouse-s3=none")
    assert "3 passed" in run.stdout, run.stdout + run.stderr


def test_a_bad_choice_is_a_usage_error(tmp_path: Path) -> None:
    assert "invalid choice: 'minio'" in run_suite(tmp_path, "--lakehouse-s3=minio").stderr
    (tmp_path / "pytest.ini").write_text("[pytest]\nlakehouse_s3 = minio\n")
    assert "choose from moto, versitygw, none" in run_suite(tmp_path).stdout


def test_without_use_nothing_starts_and_nothing_of_spark_or_of_a_client_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(LOADED)
    run = run_suite(tmp_path, "--collect-only", "-s")
    assert "3 tests collected" in run.stdout
    loaded = set(run.stdout.partition("LOADED ")[2].split("\n")[0].split())
    assert "pytest" in loaded
    assert (
        loaded & {"boto3", "botocore", "hmsclient", "moto", "pandas", "py4j", "pyarrow", "pyspark", "thrift"} == set()
    )
    ours = {name for name in loaded if name.startswith("table_writer")}
    assert ours == {
        "table_writer",
        "table_writer.checked",
        "table_writer.errors",
        "table_writer.model",
        "table_writer.model.contents",
        "table_writer.model.table",
        "table_writer.model.units",
        "table_writer.testing",
        "table_writer.testing.choices",
        "table_writer.testing.pytest_plugin",
    }
