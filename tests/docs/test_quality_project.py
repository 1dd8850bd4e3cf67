"""The small project of docs/how-to/test-your-jobs.md: its page shows its files, and pytest runs it as a user would."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .markdown_blocks import ROOT

PROJECT = ROOT / "docs" / "how-to" / "quality-project"
PAGE = ROOT / "docs" / "how-to" / "test-your-jobs.md"
FILES = sorted(path for path in PROJECT.rglob("*") if path.suffix in {".py", ".toml"})
DEDUPLICATION = '.dropDuplicates(["order_id"])'
OF_THESE_TESTS = {"PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTEST_DISABLE_PLUGIN_AUTOLOAD"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    copied = tmp_path / "orders"
    shutil.copytree(PROJECT, copied, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    return copied


def run_pytest(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in OF_THESE_TESTS}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), environment.get("PYTHONPATH", "")]))
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)


def test_the_page_shows_each_file() -> None:
    shown = re.findall(r"^```\{literalinclude\} quality-project/(\S+)$", PAGE.read_text(), re.MULTILINE)
    assert sorted(shown) == sorted(str(path.relative_to(PROJECT)) for path in FILES)


@pytest.mark.slow  # a lakehouse of its own
def test_it_passes_as_the_page_shows(project: Path) -> None:
    run = run_pytest(project)
    assert run.returncode == 0, run.stdout + run.stderr
    passed = re.search(r"\d+ passed", run.stdout)
    assert passed is not None
    assert f"= {passed[0]} =" in PAGE.read_text()


@pytest.mark.slow
def test_a_bad_job_fails_as_the_page_shows(project: Path) -> None:
    job = project / "orders_job.py"
    assert DEDUPLICATION in job.read_text()
    job.write_text(job.read_text().replace(DEDUPLICATION, ""))
    run = run_pytest(project, "tests/test_orders_job.py", "--lakehouse-s3=none")
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout + run.stderr
    (failed,) = re.findall(r"^FAILED (\S+)", run.stdout, re.MULTILINE)
    assert f"FAILED {failed}\n" in PAGE.read_text()
    assert "CheckFailedError" in run.stdout
    assert "unique(order_id)" in run.stdout
