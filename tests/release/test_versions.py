"""One name and one version, wherever they are said."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from table_writer import Maintenance, errors, version
from table_writer.errors import InvalidInputError

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SAID = re.compile(r"[\w-]*table[-_]writer(?=\[[a-z])|(?<=pip install )[^\n]*?table[-_]writer\b")
TEXTS = (".md", ".py", ".toml", ".cfg", ".ipynb", ".yml", ".cff", "Makefile")


def texts() -> dict[str, str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = (name for name in listed.split("\0") if name.endswith(TEXTS))
    return {name: (ROOT / name).read_text() for name in names}


def test_wherever_it_is_installed_from_the_index_it_has_the_name_that_is_ours() -> None:
    found = {
        name: [said.rpartition(" ")[2].strip("'\"") for said in SAID.findall(text)] for name, text in texts().items()
    }
    others = {name: names for name, names in found.items() if set(names) - {PROJECT["name"]}}
    assert {"README.md", "docs/tutorial.md", "pyproject.toml", "table_writer/errors.py"} <= {
        n for n, f in found.items() if f
    }
    assert others == {}


def test_changelog_citation_and_package_say_the_same_version() -> None:
    newest = re.findall(r"^## (\S+), (\d{4}-\d{2}-\d{2})$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[0]
    cited = dict(
        re.findall(r"^(version|date-released): \"?([^\"\n]+)\"?$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    )
    assert newest == (PROJECT["version"], cited["date-released"])
    assert cited["version"] == PROJECT["version"] == version.__version__


def test_every_python_that_is_named_is_at_least_the_one_that_is_required() -> None:
    named = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d", text)]
    assert f">={named[0]}" == PROJECT["requires-python"]
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in named


@pytest.mark.parametrize(
    ("names", "refused"), [(("xls_writer", "dist"), True), (("xls_writer",), False), (("dist",), False)]
)
def test_the_package_of_another_author_is_refused(
    names: tuple[str, ...], refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``table-writer`` on the index is not ours; a checkout under the name that this project had before is."""
    if "dist" in names:
        metadata = tmp_path / "table_writer-0.1.3.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: table-writer\nVersion: 0.1.3\n")
    if "xls_writer" in names:
        (tmp_path / "xls_writer").mkdir()
        (tmp_path / "xls_writer" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    errors.refuse_namesake.cache_clear()
    try:
        Maintenance("thrift://127.0.0.1:1")
        said = ""
    except InvalidInputError as error:
        said = error.message
    assert said.endswith("which is hive-table-writer: pip uninstall table-writer") == refused == ("0.1.3" in said)
