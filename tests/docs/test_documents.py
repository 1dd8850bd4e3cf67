"""Every line of Python that the README and the documentation show is run, and every link leads somewhere."""

from __future__ import annotations

import ast
import codeop
import contextlib
import inspect
import io
import re
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from table_writer import TableWriter, testing
from table_writer.testing import Lakehouse

from .links import LINK, broken_links
from .markdown_blocks import ROOT, documents, python_blocks

WITH_PYTHON = [path for path in documents() if any(not block.reason for block in python_blocks(path))]
COLUMNS = "id INT, amount DOUBLE, dt STRING"
FIRST_READ = {"README.md", "docs/index.md", "docs/tutorial.md", "docs/how-to/choose-a-write-mode.md"}  # others: slow


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture
def namespace(
    lakehouse: Lakehouse, lakehouse_database: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Any]]:
    """What pages may take as given: a lakehouse, Spark, a writer, a table ``mart.orders`` and a DataFrame for it."""
    spark = lakehouse.spark
    shared = replace(lakehouse, _undo=contextlib.ExitStack())  # to stop it stops nothing
    monkeypatch.setattr(testing, "lakehouse", lambda **_: shared)
    spark.sql(f"CREATE DATABASE mart LOCATION '{lakehouse.warehouse}/{lakehouse_database}.mart'")
    spark.sql(f"CREATE TABLE mart.orders ({COLUMNS}) USING parquet PARTITIONED BY (dt)")
    spark.sql(f"USE {lakehouse_database}")
    orders = spark.createDataFrame([(1, 9.5, "2024-01-01"), (2, 20.0, "2024-01-02")], COLUMNS)
    yield {
        "__name__": "page",
        "lake": lakehouse,
        "spark": spark,
        "writer": TableWriter(spark),
        "orders": orders,
        "lakehouse_database": lakehouse_database,
    }
    for view in spark.catalog.listTables():
        if view.isTemporary:
            spark.catalog.dropTempView(view.name)
    spark.sql("USE default")
    spark.sql("DROP DATABASE mart CASCADE")


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(one, marks=[] if name(one) in FIRST_READ else [pytest.mark.slow], id=name(one))
        for one in WITH_PYTHON
    ],
)
def test_python_blocks_run_and_print_what_is_shown(path: Path, namespace: dict[str, Any], lakehouse: Lakehouse) -> None:
    for block in python_blocks(path):
        if block.reason:
            continue
        printed = io.StringIO()
        code = compile("\n" * block.line + block.body, str(path), "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)  # noqa: S102 - this repository's own documentation
            run_tests_of(namespace, lakehouse)
        if block.printed is not None:
            shown = printed.getvalue().replace(namespace["lakehouse_database"], "default")
            assert steady(shown) == steady(block.printed), shown


def run_tests_of(namespace: dict[str, Any], lakehouse: Lakehouse) -> None:
    """Call the test functions that a block has just defined, with the fixtures they name."""
    fixtures = {"lakehouse": lakehouse, "lakehouse_database": namespace["lakehouse_database"]}
    for test in [name for name in namespace if name.startswith("test_")]:
        function = namespace.pop(test)
        function(**{argument: fixtures[argument] for argument in inspect.signature(function).parameters})


def steady(text: str) -> list[str]:
    """Blank out what differs from run to run: ids, seconds, sizes and counts of requests; and the columns' widths."""
    text = re.sub(r"\d{8}T\d{6}-[0-9a-f]{16}", "WRITE_ID", text)
    text = re.sub(r"\bid-[0-9a-f]{16}\b", "id-LOG_ID", text)
    text = re.sub(r"\d+\.\d\d s\b", "N s", text)
    text = re.sub(r"\d+(\.\d)? (B|KiB|MiB)\b", "SIZE", text)
    text = re.sub(r"\d+ storage requests, \d+ metastore calls", "N storage requests, N metastore calls", text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("path", documents(), ids=name)
def test_python_blocks_are_python_and_those_not_run_say_why(path: Path) -> None:
    for block in python_blocks(path):
        ast.parse(textwrap.dedent(block.body))
        assert not block.reason or len(block.reason) > 10


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_blocks_can_be_typed_at_a_python_prompt(page: str) -> None:
    for block in python_blocks(ROOT / page):
        typed: list[str] = []
        for line in [*block.body.splitlines(), ""]:
            typed.append(line)
            if codeop.compile_command("\n".join(typed), symbol="single") is not None:
                typed = []
        assert typed in ([], [""])


def test_readme_can_stand_alone_on_a_package_index() -> None:
    links = LINK.findall((ROOT / "README.md").read_text())
    assert [link for link in links if not link.startswith("https://")] == []


@pytest.mark.parametrize("path", documents(), ids=name)
def test_links_lead_to_files_and_headings_that_exist(path: Path) -> None:
    assert broken_links(path, path.read_text()) == []
