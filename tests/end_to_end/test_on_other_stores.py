"""Spark, a Hive metastore and files in another store: in a process of its own, with Hadoop's connector."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        pytest.param("azurite", [], marks=[pytest.mark.needs("azure"), pytest.mark.slow]),
        pytest.param("gcs", [], marks=pytest.mark.needs("gcs")),
        pytest.param(
            "seaweedfs", ["lifecycle rules"], marks=[pytest.mark.needs("seaweedfs"), pytest.mark.slow]
        ),  # none
    ],
)
def test_what_is_written_to_a_store_is_what_spark_reads_there(kind: str, wrong: list[str]) -> None:
    command = [sys.executable, "-m", "tests.end_to_end.session_on_store", kind]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert ended.returncode == 0, ended.stderr[-3_000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    first, other = [1, 9.5, "d1"], "d=2 %ü"
    assert found["first"] == [first, [2, 20.0, other]]
    assert found["overwritten"] == [first, [3, 1.0, other]]
    assert found["appended"] == [first, [4, 2.0, "d1"], [3, 1.0, other]]
    assert found["appended in place"] == [first, [4, 2.0, "d1"], [5, 3.0, "d1"], [3, 1.0, other]]
    assert found["beside the mark of an abort"] == found["appended in place"]
    assert found["compacted"] == [1, found["appended in place"]]
    assert found["rolled back"] == found["after the vacuum"] == found["as arrow"] == found["overwritten"]
    assert found["vacuumed"] == [True, []]
    assert found["not held"] == []
    assert [text.partition(":")[0] for text in found["wrong"]] == wrong, found["wrong"]
    assert found.get("in the mirror") == found.get("in the table")
    assert len(found.get("in the mirror", ())) == (3 if kind == "azurite" else 0)
