"""The import contracts hold everywhere: a library of a service cannot be imported in a room that is not its own.

A contract that lists who may *not* import it is true of the rooms that somebody thought of. So imports are put into
rooms all over a copy of the tree, and the command that `make check` runs has to name each of them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
LIBRARIES: Final = {  # what is written into a file, and the package that the contract names
    "import boto3": "boto3",
    "from botocore.client import Config": "botocore",
    "from thrift.Thrift import TException": "thrift",
    "import hmsclient": "hmsclient",
    "from azure.storage.blob import BlobClient": "azure",
    "import google.auth": "google",
    "from py4j.protocol import Py4JError": "py4j",
    "import pyiceberg.schema": "pyiceberg",
    "from table_writer.testing import lakehouse": "table_writer.testing",
    "from table_writer.integrations import retries": "table_writer.integrations",
}
PLACES: Final = [
    "check/functions.py",
    "cli/main.py",
    "config.py",
    "doctor/table.py",
    "protocol/log/rules.py",
    "protocol/loop.py",
    "model/entry.py",
    "reports/page/__init__.py",
    "mirrors/mirror.py",
    "jobs/rows/where.py",
    "protocol/vacuum/sweep.py",
    "storage/local.py",
    "protocol/table/present.py",
]
WITHOUT_SPARK: Final = [place for place in PLACES if not place.startswith(("check", "jobs/rows"))]


def contracts(root: Path) -> subprocess.CompletedProcess[str]:
    """Run the command of `make check` in a directory."""
    command = [Path(sys.executable).parent / "lint-imports", "--no-cache", "setup.cfg"]
    environment = os.environ | {"PYTHONPATH": str(root)}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "table_writer", root / "table_writer", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "setup.cfg", root)
    return root


def test_every_import_of_a_service_in_a_foreign_room_is_named(tree: Path) -> None:
    before = contracts(tree)
    assert before.returncode == 0, before.stdout
    wanted = {(module_of(place), package) for place in PLACES for package in LIBRARIES.values()}
    wanted |= {(module_of(place), "pyspark") for place in WITHOUT_SPARK}
    for place in PLACES:
        line = "\ndef _of_a_test():\n    " + "\n    ".join(LIBRARIES) + "\n"  # a function's imports count, too
        line += "import pyspark.sql\n" if place in WITHOUT_SPARK else ""
        with (tree / "table_writer" / place).open("a") as file:
            file.write(line)
    after = contracts(tree)
    assert after.returncode != 0
    named = {
        (importer, imported) for importer, imported in re.findall(r"(table_writer[\w.]*) -> ([\w.]+)", after.stdout)
    }
    missed = {
        (importer, package)
        for importer, package in wanted
        if not any(one == importer and (other + ".").startswith(package + ".") for one, other in named)
    }
    assert missed == set()


def module_of(place: str) -> str:
    return "table_writer." + place.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def test_make_check_runs_the_contracts() -> None:
    dry = subprocess.run(["make", "--dry-run", "check"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "bin/lint-imports setup.cfg" in dry.stdout
