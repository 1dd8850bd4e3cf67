"""What `make dist` has built is what users get: nothing is left out, and nothing else need be installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MADE_BY_THE_BUILD = ("PKG-INFO", "hive_table_writer.egg-info/")
OF_EXTRAS = (  # modules that say which extra they need, or are imported by what needs it
    "table_writer.integrations",
    "table_writer.mirrors.iceberg",
    "table_writer.storage.azure",
    "table_writer.storage.gcs",
    "table_writer.testing.moto_server",
    "table_writer.testing.pytest_plugin",
)

pytestmark = pytest.mark.needs("dist")


def built(pattern: str) -> Path:
    """Return the one file that was built; `make dist` removes those of earlier builds."""
    (file,) = (ROOT / "dist").glob(pattern)
    return file


def tracked(*paths: str) -> set[str]:
    listed = subprocess.run(["git", "ls-files", "-z", *paths], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(listed.stdout.split("\0")) - {""}


@pytest.fixture(scope="module")
def environment() -> Path:
    """Return the programs of the environment that `make dist` has made: it has the wheel, and what that requires."""
    return ROOT / "build" / "environment" / "bin"


def run(*command: str | Path) -> str:
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK"))}
    done = subprocess.run(command, cwd="/", env=outside, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def first_use(environment: Path) -> dict[str, Any]:
    *_, last = run(environment / "python", ROOT / "tests" / "release" / "first_use.py").splitlines()
    found: dict[str, Any] = json.loads(last)
    return found


def test_the_sdist_has_every_file_of_the_repository_and_no_other() -> None:
    with tarfile.open(built("*.tar.gz")) as archive:
        files = {file.name.partition("/")[2] for file in archive if file.isfile()}
    assert {file for file in files if not file.startswith(MADE_BY_THE_BUILD)} == tracked()


def test_the_wheel_has_every_file_of_the_package_and_no_other() -> None:
    files = set(zipfile.ZipFile(built("*.whl")).namelist())
    assert {file for file in files if ".dist-info/" not in file} == tracked("table_writer")
    assert any(file.endswith(".dist-info/licenses/LICENSE") for file in files)


def test_the_command_says_the_version_that_was_built(environment: Path) -> None:
    _, version, *_ = built("*.whl").name.split("-")
    assert run(environment / "table-writer", "--version").split() == ["table-writer", version]


def test_every_requirement_is_met(environment: Path) -> None:
    assert run(environment / "python", "-m", "pip", "check") == "No broken requirements found.\n"


def test_only_modules_of_extras_need_more_than_is_required(first_use: dict[str, Any]) -> None:
    lacking = {module: name for module, name in first_use["missing"].items() if not module.startswith(OF_EXTRAS)}
    assert lacking == {}


def test_a_table_is_written_where_nothing_else_is_installed(first_use: dict[str, Any]) -> None:
    assert first_use["rows"] == 2


def test_the_sbom_names_what_is_installed_with_the_wheel_and_no_place_of_this_machine(environment: Path) -> None:
    text = built("*.cdx.json").read_text()
    sbom = json.loads(text)
    listed = json.loads(run(environment / "python", "-m", "pip", "list", "--format=json"))
    installed = {found["name"].lower().replace("_", "-"): found["version"] for found in listed}
    parts = [sbom["metadata"]["component"], *sbom["components"]]
    named = {part["name"].lower().replace("_", "-"): part["version"] for part in parts}
    assert sbom["bomFormat"] == "CycloneDX"
    assert sbom["metadata"]["component"]["name"] == "hive-table-writer"
    assert installed.items() <= named.items()
    assert {"pyspark", "boto3", "pyarrow", "hmsclient"} <= named.keys()
    assert str(ROOT) not in text
    assert "file:" not in text


def test_the_wheel_is_the_same_byte_for_byte_when_it_is_built_again_from_the_sdist(tmp_path: Path) -> None:
    wheel = built("*.whl")
    with tarfile.open(built("*.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    committed = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path / "again"), str(source)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": committed}
    subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, check=True)
    (again,) = (tmp_path / "again").iterdir()
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()
