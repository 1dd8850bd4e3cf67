"""Executors in processes of their own: retries, speculation, a lost executor, Ctrl-C, a package that must be sent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
TIMEOUT_SECONDS = 900


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What happened in each scenario; one Spark in a process of its own ran them all."""
    directory = tmp_path_factory.mktemp("cluster")
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_CONF_DIR")}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, str(HERE / "cluster_scenarios.py"), str(HERE.parents[1]), str(directory)]
    with (directory / "log").open("wb") as log:
        subprocess.run(
            command, cwd=directory, env=environment, stdout=log, stderr=log, timeout=TIMEOUT_SECONDS, check=False
        )
    answers = directory / "found.json"
    assert answers.is_file(), (directory / "log").read_text()[-5000:]
    return json.loads(answers.read_text())


@pytest.mark.parametrize("scenario", ["retry", "speculation", "lost executor"])
def test_one_attempt_of_each_task_is_delivered(found, scenario):
    outcome = found[scenario]
    assert "error" not in outcome, outcome
    assert outcome["tasks"] == [0, 1, 2, 3]
    assert outcome["rows_are_right"]
    assert outcome["delivered_are_pending"]


def test_a_speculative_attempt_wins_over_one_that_hangs(found):
    assert found["speculation"]["seconds"] < 110
    assert max(found["speculation"]["attempts"]) - min(found["speculation"]["attempts"]) >= 4


def test_a_lost_executor_leaves_uploads_that_are_not_delivered(found):
    assert found["lost executor"]["left_by_others"] >= 1


def test_an_error_of_the_users_code_passes_unchanged(found):
    assert found["users error"]["error"] == "PythonException"
    assert "the user's own bug" in found["users error"]["text"]


def test_our_error_arrives_as_itself_and_its_attempts_aborted_their_uploads(found):
    assert found["our error"]["error"] == "InvalidInputError"
    assert found["our error"]["text"].startswith("the key of a file in partition 'dt=xxx")
    assert found["our error"]["cause"] == "PythonException"
    assert found["our error"]["uploads_after"] == 0


def test_ctrl_c_stops_the_tasks_and_leaves_the_session_usable(found):
    assert found["interrupt"]["error"] == "KeyboardInterrupt"
    assert found["interrupt"]["seconds"] < 60
    assert found["interrupt"]["uploads_later"] == 0
    assert found["interrupt"]["session_works"]
