"""What workflows, makefiles and `.ci/run` run is the same; the page of tests has each target; `clean` forgets none."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
WORKFLOWS: Final = ROOT / ".github" / "workflows"
MAKEFILES: Final = [ROOT / name for name in ("Makefile", "tests/services.mk", "benchmarks/bench.mk")]
ON_OTHER_MACHINES: Final = {
    "quick",
    "test-readers",
    "test-connect",
    "test-comet",
    "test-azure",
    "test-gcs",
    "test-airflow",
    "test-dbt",
    "test-pipelines",
}
"""What the workflow runs at every push besides: `quick` repeats others, and one machine has an hour."""
PAGE: Final = (ROOT / "docs" / "design" / "tests.md").read_text()


def made_by(workflow: str) -> set[str]:
    """Return the targets that a workflow makes, by name or by a matrix."""
    text = (WORKFLOWS / workflow).read_text()
    targets = set(re.findall(r"run: make ([a-z][\w.-]*)", text))
    for inline, listed in re.findall(r"target:(?: \[([^\]]+)\]|((?:\n +- [\w.-]+)+))", text):
        targets |= set(re.findall(r"[\w.-]+", inline)) | set(re.findall(r"- ([\w.-]+)", listed))
    return targets


def made_in(text: str) -> set[str]:
    """Return the targets of the lines that call make."""
    lines = re.findall(r"^\t?(?:make|\$\(MAKE\)) (.*)$", text, re.MULTILINE)
    return {word for line in lines for word in line.split() if not re.search(r"^[-$]|=", word)}


def recipe(target: str) -> str:
    found = re.search(rf"^{target}:.*((?:\n\t.*)*)", MAKEFILES[0].read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def test_a_push_is_answered_with_what_ci_runs_on_one_machine() -> None:
    halves = made_in(recipe("test"))
    assert halves == {"test-on-spark", "test-others"}
    on_one_machine = made_in((ROOT / ".ci" / "run").read_text())
    assert {"check", "test"} <= on_one_machine
    assert made_by("ci.yml") | {"check"} == on_one_machine - {"test"} | halves | ON_OTHER_MACHINES
    assert "check" in recipe("quick")


def test_the_night_has_a_job_for_each_target_of_make_nightly() -> None:
    assert made_by("nightly.yml") == made_in(recipe("nightly"))


def test_the_quick_check_runs_on_every_python_that_the_package_claims() -> None:
    claimed = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    (tried,) = re.findall(r"python: \[(.+)\]", (WORKFLOWS / "ci.yml").read_text())
    assert re.findall(r"3\.\d+", tried) == claimed


@pytest.mark.parametrize("workflow", sorted(path.name for path in WORKFLOWS.glob("*.yml")))
def test_a_workflow_may_read_and_no_more_and_its_actions_are_pinned(workflow: str) -> None:
    text = (WORKFLOWS / workflow).read_text()
    assert re.search(r"^permissions:\n  contents: read\n", text, re.MULTILINE)
    used = re.findall(r"uses: (\S+)", text)
    assert [action for action in used if not re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", action)] == []
    assert text.count("actions/checkout@") == text.count("persist-credentials: false")
    assert len(re.findall(r"^    runs-on:", text, re.MULTILINE)) == text.count("timeout-minutes:")


def test_only_a_tag_uploads() -> None:
    release = (WORKFLOWS / "release.yml").read_text()
    assert re.search(r'^on:\n  push:\n    tags: \["v', release, re.MULTILINE)
    uploading = [path.name for path in WORKFLOWS.glob("*.yml") if "twine upload" in path.read_text()]
    assert uploading == ["release.yml"]


def test_every_target_that_help_shows_is_on_the_page_of_tests() -> None:
    shown = re.findall(r"^([a-z][\w-]*(?:-%)?):.*  ##", "".join(path.read_text() for path in MAKEFILES), re.MULTILINE)
    words = set(re.findall(r"`(?:make )?((?:test|bench|make)?[\w.-]+)`", PAGE))
    stems = {re.sub(r"\d+\.\d+(\.\d+)?$", "%", word) for word in words}
    assert len(shown) > 30
    assert [name for name in shown if name not in stems | {"help", "clean"}] == []


@pytest.mark.parametrize("heading", ["## Suites", "## Targets"])
def test_each_row_of_a_table_has_all_its_cells(heading: str) -> None:
    section = PAGE[PAGE.index(heading) :].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    assert len(rows) > 10
    assert {row.count("|") for row in rows} == {4}


def test_each_directory_of_tests_is_a_suite_of_that_page() -> None:
    suites = PAGE[PAGE.index("## Suites") : PAGE.index("## What is drawn")]
    there = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}
    assert there - set(re.findall(r"tests/(\w+)", suites)) == set()


def test_clean_removes_what_git_is_told_to_ignore() -> None:
    dry = subprocess.run(["make", "--dry-run", "clean"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    removed = set(dry.split())
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines() if line]
    assert len(ignored) > 10
    kept = [name for name in ignored if name not in removed and name != ".venv*"]
    assert kept == []
    assert {".venv", ".venv-*"} <= removed


def test_no_comment_of_the_makefiles_points_to_what_is_not_there() -> None:
    for makefile in MAKEFILES:
        for file in re.findall(r"#.*?((?:[\w.-]+/)+[\w-]+\.\w+)", makefile.read_text()):
            assert (ROOT / file).exists(), f"{makefile.name}: {file}"
