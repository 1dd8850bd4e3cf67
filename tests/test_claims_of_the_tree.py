"""Docstrings, CONTRIBUTING.md and the map say the truth of the tree: a folder's files, which file alone does a thing.

Imports that the contracts in setup.cfg forbid are not tested again here.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "table_writer"
CONTRIBUTING: Final = (ROOT / "CONTRIBUTING.md").read_text()
MAP: Final = (ROOT / "docs" / "design" / "map.md").read_text()
LISTED_FILE: Final = re.compile(r"^``(\w+)``  +\w", re.MULTILINE)
TREE_LINE: Final = re.compile(r"^[├└]─ (.*?)(?:   |$)", re.MULTILINE)
GATEWAYS: Final = ("storage", "metastore", "spark", "testing")
"""They are what the others call: a call in there is no decision."""


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def every_file() -> Iterator[tuple[str, Path]]:
    for file in sorted(PACKAGE.rglob("*.py")):
        yield file.relative_to(PACKAGE).as_posix(), file


def product_files() -> Iterator[tuple[str, Path]]:
    for name, file in every_file():
        if not name.startswith(GATEWAYS) or name == "storage/table_files.py":
            yield name, file


def callers_of(*methods: str) -> set[str]:
    """Return the files outside the gateways that call a method, or a function, of such a name."""
    found: set[str] = set()
    for name, file in product_files():
        for node in ast.walk(parsed(file)):
            called = node.func if isinstance(node, ast.Call) else None
            if (isinstance(called, ast.Attribute) and called.attr in methods) or (
                isinstance(called, ast.Name) and called.id in methods
            ):
                found.add(name)
    return found


def store_callers(method: str) -> set[str]:
    """Return the files outside the gateways that call a method of a store."""
    found: set[str] = set()
    for name, file in product_files():
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method:
                owner = ast.unparse(node.func.value)
                if owner.endswith("store"):
                    found.add(name)
    return found


def imported_by(file: Path) -> set[str]:
    """Return the modules that a file imports when it is imported."""
    found: set[str] = set()
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def folders_with_a_list() -> list[str]:
    """Return the folders whose docstring lists their files."""
    inits = sorted(PACKAGE.rglob("__init__.py"))
    docstrings = {file.parent.relative_to(PACKAGE).as_posix(): ast.get_docstring(parsed(file)) or "" for file in inits}
    return [name for name, text in docstrings.items() if name != "." and LISTED_FILE.search(text)]


@pytest.mark.parametrize("folder", folders_with_a_list())
def test_a_folder_lists_exactly_its_files_and_folders(folder: str) -> None:
    text = ast.get_docstring(parsed(PACKAGE / folder / "__init__.py")) or ""
    files = {file.stem for file in (PACKAGE / folder).glob("*.py")} - {"__init__", "__main__"}
    folders = {file.parent.name for file in (PACKAGE / folder).glob("*/__init__.py")}
    assert sorted(LISTED_FILE.findall(text)) == sorted(files | folders)


def test_the_folders_of_the_steps_list_their_files() -> None:
    named = {"jobs", "jobs/plan", "jobs/upload", "protocol", "mirrors", "many"}
    named |= {f"protocol/{folder}" for folder in ("log", "table", "operations", "vacuum")}
    assert named <= set(folders_with_a_list())


def test_the_map_names_every_folder_and_file_at_the_top() -> None:
    named = {word.rstrip("/") for line in TREE_LINE.findall(MAP) for word in line.split()}
    there = {path.name for path in PACKAGE.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    there |= {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py", "__main__.py"}
    assert named == there


def test_every_file_that_contributing_links_to_is_there() -> None:
    links = re.findall(r"\]\((table_writer/[\w/.]+)\)", CONTRIBUTING)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_file_and_class_that_the_map_names_is_there() -> None:
    files = re.findall(r"`([\w/]+\.py)`", MAP)
    assert len(files) > 10
    assert [file for file in files if not (PACKAGE / file).exists()] == []
    answers = re.findall(r"`(\w+)(?:\.\w+)?` in `([\w/]+\.py)`", MAP)
    assert answers
    assert [(name, file) for name, file in answers if name not in (PACKAGE / file).read_text()] == []


def recipes() -> list[tuple[str, set[str], set[str]]]:
    """Return of each row of *Add something* its example, its files in the package, and the others."""
    section = CONTRIBUTING[CONTRIBUTING.index("## Add something") : CONTRIBUTING.index("## Send it")]
    rows = [line.strip("| ").split("|") for line in section.splitlines() if line.startswith("| a ")]
    return [
        (
            re.findall(r"`([\w-]+)`", example)[0],
            set(re.findall(r"`([^`]+)`", inside)),
            set(re.findall(r"`([^`]+)`", beside)),
        )
        for _, example, inside, beside in rows
    ]


@pytest.mark.parametrize(("example", "inside", "beside"), recipes(), ids=[name for name, *_ in recipes()])
def test_a_recipe_names_exactly_the_files_that_know_of_its_example(
    example: str, inside: set[str], beside: set[str]
) -> None:
    word = re.compile(rf"\b{example}\b", re.IGNORECASE)
    knows = {name for name, file in every_file() if word.search(file.read_text())}
    assert knows == inside
    assert beside
    assert [name for name in sorted(beside) if not word.search((ROOT / name).read_text())] == []


def test_readers_switch_in_one_file() -> None:
    """The other callers: placeholders without rows, column statistics, an unpartitioned table whose rows are back,
    which log a table has, and the table by which readers find a mirror.
    """
    assert callers_of("alter_partitions") == {
        "protocol/operations/switch.py",
        "protocol/operations/statistics.py",
        "protocol/operations/adopt.py",
        "protocol/log/known_log.py",
        "mirrors/iceberg/catalog.py",
    }
    assert callers_of("add_partitions", "drop_partition") == {
        "protocol/operations/switch.py",
        "protocol/operations/base.py",
    }


def test_copies_come_to_where_readers_look_in_one_file() -> None:
    """The others copy to a directory of the write's own, before the switch."""
    assert store_callers("copy") == {
        "protocol/operations/in_place.py",
        "jobs/complete.py",
        "protocol/operations/copies.py",
    }


def test_published_files_are_deleted_in_one_file() -> None:
    """The others delete files of a write that is not published, objects of logs, turns, markers, what was tried."""
    mirrors = {"mirrors/delta/log.py", "mirrors/iceberg/table.py"}
    assert callers_of("delete_keys") == {"protocol/vacuum/remover.py", "jobs/complete.py", *mirrors}
    log = {
        "storage/table_files.py",
        "protocol/log/owner.py",
        "protocol/log/registration.py",
        "protocol/log/table_log.py",
        "protocol/log/marks.py",
    }
    others = {"jobs/complete.py", "jobs/upload/job.py", "jobs/rows/turns.py", "doctor/servers.py", "doctor/certify.py"}
    others |= {"protocol/operations/success.py"}
    assert store_callers("delete") == {*log, *others}


def test_uploads_are_completed_in_one_file() -> None:
    assert store_callers("complete_upload") - {"doctor/servers.py"} == {"jobs/complete.py"}


def test_entries_are_claimed_in_one_place() -> None:
    calls = [
        (name, ast.unparse(node))
        for name, file in every_file()
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Attribute) and node.attr == "claim"
    ]
    assert calls == [("protocol/loop.py", "opened.log.slots.claim")]


def test_one_file_knows_the_order_of_the_steps() -> None:
    """A write is registered, and then published: whoever does both has the order."""
    parts = ("RunningWrite(", "Publisher(")
    assert {name for name, file in product_files() if all(one in file.read_text() for one in parts)} == {
        "jobs/order.py"
    }


def pure_modules() -> list[str]:
    """Return the files that the log's docstring calls pure."""
    text = ast.get_docstring(parsed(PACKAGE / "protocol/log/__init__.py")) or ""
    return LISTED_FILE.findall(text[text.index("Pure") : text.index("In the store, and by clocks")])


@pytest.mark.parametrize("name", pure_modules())
def test_what_is_called_pure_imports_nothing_that_reads_or_writes(name: str) -> None:
    pure = re.compile(rf"table_writer\.(errors|model\.\w+|protocol\.log\.({'|'.join(pure_modules())}))")
    modules = {
        module for module in imported_by(PACKAGE / f"protocol/log/{name}.py") if module.split(".")[0] not in STANDARD
    }
    assert [module for module in sorted(modules) if not pure.fullmatch(module)] == []


STANDARD: Final = sys.stdlib_module_names - {"socket", "subprocess", "os", "io", "pathlib", "time"}


def test_executors_need_no_requirement_but_pyarrow_and_botocore() -> None:
    requirements = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.split(r"[^\w.-]", text)[0].lower().replace("-", "_") for text in requirements} | {"botocore"}
    opened = "table_writer.storage.s3.store"  # by its settings
    modules = f"table_writer.jobs.upload.task, table_writer.storage.worker, {opened}"
    program = f"import sys, {modules}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert names & {module.split(".")[0].lower() for module in loaded.split()} == {"pyarrow", "botocore"}


def test_no_file_but_a_store_s_own_asks_for_a_scheme() -> None:
    """A store is one value: a new one is known wherever the old ones are."""
    asking: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        compared = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Compare))
        sides = [side for node in compared for side in (node.left, *node.comparators)]
        if any(isinstance(side, ast.Attribute) and side.attr == "scheme" for side in sides):
            asking.add(path.relative_to(PACKAGE).as_posix())
    addresses = {"metastore/hive_objects.py", "metastore/settings.py", "storage/azure/hadoop.py"}  # parts of a URL
    assert asking - addresses == {"storage/s3/hadoop.py"}


PRIVATE: Final = frozenset(
    {
        *("_jdf", "_jsparkSession", "_jvm", "_gateway", "_jsc", "_jc", "_collect_as_arrow", "_explain_string"),
        *("sessionState", "sharedState", "queryExecution", "is_instance_of", "makeCopy"),
        *("planDataByKey", "originalPlan"),
    }
)
"""How the insides of PySpark, and the sessions of its Java side, are asked for."""


def test_what_is_asked_of_spark_in_private_is_listed() -> None:
    page = (ROOT / "docs" / "design" / "spark.md").read_text()
    listed = {
        (module, name.rpartition(".")[2])
        for module, names in re.findall(r"\b(\w+):`([^`]+)`", page)
        for name in re.split(r"[,/]", names)
    }
    asking = set()
    for path in (PACKAGE / "spark").glob("*.py"):
        tree = parsed(path)
        rooms = [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]
        for function in (node for room in rooms for node in room.body if isinstance(node, ast.FunctionDef)):
            named = {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
            named |= {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
            if named & PRIVATE:
                asking.add((path.stem, function.name))
    assert len(asking) > 30
    assert sorted(asking - listed) == []
