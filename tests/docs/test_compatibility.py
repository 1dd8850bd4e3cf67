"""The page on versions says of no version that a push or a nightly run has it which has not, and leaves out none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from .markdown_blocks import ROOT

PAGE = ROOT / "docs" / "reference" / "compatibility.md"
WORDS = {"run", "nightly", "run by hand", "expected", "to be tried", "known not"}
MAKEFILES = "".join((ROOT / name).read_text() for name in ("Makefile", "tests/services.mk", "benchmarks/bench.mk"))
TARGET = re.compile(r"`make ([a-z0-9.-]+)`")
PINNED = re.compile(r"`([^`]*(?:==|>=|:=)[^`]*)`")  # what the page quotes from pyproject.toml or the makefiles


class Row(NamedTuple):
    what: str
    version: str
    word: str
    why: str


def rows() -> list[Row]:
    lines = re.findall(r"^\| (.*) \|$", PAGE.read_text(), flags=re.MULTILINE)
    found = (re.split(r"\s*\|\s*", line) for line in lines)
    return [Row(*cells) for cells in found if len(cells) == 4 and cells[2] in WORDS]


def needed(target: str, rules: dict[str, str]) -> Iterator[str]:
    """Yield a target and those that it makes, also by calling make."""
    yield target
    first, *commands = rules.get(target, "").splitlines() or [""]
    for line in (first.partition("#")[0], *(one for one in commands if "$(MAKE)" in one)):
        for word in line.split():
            if word in rules:
                yield from needed(word, rules)


def run_by(commands: str) -> set[str]:
    """Return the targets that commands make; one with a version in its name stands for itself."""
    rules = dict(re.findall(r"^([a-z0-9-]+):(?!=)(.*(?:\n\t.*)*)", MAKEFILES, flags=re.MULTILINE))
    named = [
        word for words in re.findall(r"^\t?(?:make|\$\(MAKE\)) (.*)$", commands, re.MULTILINE) for word in words.split()
    ]
    return {target for name in named if not name.startswith("-") and "=" not in name for target in needed(name, rules)}


def run_by_ci() -> set[str]:
    """Return what one machine runs, and what the workflow has machines for besides."""
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    listed = "\n".join(f"make {target}" for target in re.findall(r"^ +- ([a-z][\w.-]*)$", workflow, re.MULTILINE))
    return run_by((ROOT / ".ci" / "run").read_text()) | run_by(listed)


def run_nightly() -> set[str]:
    found = re.search(r"^nightly:.*((?:\n\t.*)*)", MAKEFILES, re.MULTILINE)
    assert found is not None
    return run_by(found[1])


RUN, NIGHTLY, BY_HAND = ([row for row in rows() if row.word == word] for word in ("run", "nightly", "run by hand"))


@pytest.mark.parametrize("row", RUN, ids=lambda row: f"{row.what} {row.version}")
def test_what_is_run_names_a_target_of_ci(row: Row) -> None:
    targets = set(TARGET.findall(row.why))
    assert targets
    assert targets <= run_by_ci()


@pytest.mark.parametrize("row", NIGHTLY, ids=lambda row: f"{row.what} {row.version}")
def test_what_is_nightly_names_targets_of_that_run(row: Row) -> None:
    targets = set(TARGET.findall(row.why)) - {"bench"}
    assert targets
    assert targets <= run_nightly()


@pytest.mark.parametrize("row", BY_HAND, ids=lambda row: f"{row.what} {row.version}")
def test_what_is_run_by_hand_is_not_claimed_for_ci_and_can_be_run(row: Row) -> None:
    assert not set(TARGET.findall(row.why)) & (run_by_ci() | run_nightly())
    scripts = re.findall(r"`(tests/[\w/.]+)`", row.why)
    made = [target for target in TARGET.findall(row.why) if re.search(rf"^{stem(target)}:", MAKEFILES, re.MULTILINE)]
    assert made or all((ROOT / script).exists() for script in scripts or ["nothing"])


def stem(target: str) -> str:
    """Return how the makefiles name a target that has a version in its name."""
    return re.escape(re.sub(r"\d+\.\d+(\.\d+)?$", "%", target))


@pytest.mark.parametrize(("made", "rows"), [(run_by_ci(), RUN), (run_nightly(), NIGHTLY)], ids=["push", "nightly"])
def test_each_version_that_is_run_has_a_row(made: set[str], rows: list[Row]) -> None:
    versions = {target for target in made if re.search(r"\d", target)}
    assert versions
    assert versions <= {target for row in rows for target in TARGET.findall(row.why)}


def test_quoted_requirements_are_those_of_this_project() -> None:
    project = (ROOT / "pyproject.toml").read_text() + MAKEFILES
    quoted = [text for row in rows() for text in PINNED.findall(row.why)]
    assert len(quoted) > 5
    assert [text for text in quoted if text not in project] == []
