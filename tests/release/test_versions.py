"""Versions come from tags; without tags, without history and without git there is one, too."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.version import Version

ROOT = Path(__file__).parents[2]
GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a tree of one file, with this project's settings."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def commit(tree: Path, *more: list[str]) -> None:
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "one"], *more):
        subprocess.run([*GIT, *command], cwd=tree, check=True)


def version(tree: Path) -> str:
    command = [sys.executable, "-m", "setuptools_scm"]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True).stdout.strip()


def test_a_tag_is_the_version(tree: Path) -> None:
    commit(tree, ["tag", "v1.2.3"])
    assert version(tree) == "1.2.3"


def test_a_commit_after_a_tag_is_newer_than_it_and_older_than_the_next(tree: Path) -> None:
    commit(tree, ["tag", "v1.2.3"], ["commit", "--quiet", "--allow-empty", "--message", "two"])
    assert Version("1.2.3") < Version(version(tree)) < Version("1.2.4")


def test_a_clone_without_tags_or_history_has_a_version(tree: Path) -> None:
    commit(tree, ["commit", "--quiet", "--allow-empty", "--message", "two"])
    subprocess.run(["git", "clone", "--quiet", "--depth=1", tree.as_uri(), "shallow"], cwd=tree, check=True)
    assert Version("0") < Version(version(tree / "shallow")) < Version("0.1")


def test_a_tree_without_git_has_a_version(tree: Path) -> None:
    assert version(tree) == "0.0.0"
