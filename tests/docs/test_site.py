"""The site is built without a warning, each page can be reached, and each public name has a place in the reference."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from .markdown_blocks import ROOT

pytestmark = pytest.mark.slow  # the site is built

PUBLIC = ("table_writer", "table_writer.check", "table_writer.testing")
NOT_DOCUMENTED_AS_OBJECTS = {"__version__"}  # a text


@dataclass(frozen=True)
class Site:
    directory: Path
    returncode: int
    warnings: str


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Build the site as ``make docs`` does, into a directory of its own."""
    built = tmp_path_factory.mktemp("site")
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", f"{built}/doctrees"]
    done = subprocess.run(
        [*command, str(ROOT / "docs"), str(built / "html")],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    return Site(built / "html", done.returncode, done.stderr)


def test_the_site_is_built_without_a_warning(site: Site) -> None:
    assert site.warnings == ""
    assert site.returncode == 0


def test_every_page_is_built(site: Site) -> None:
    pages = (path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md"))
    expected = {str(page.with_suffix(".html")) for page in pages if page.parts[0] != "_build"}
    assert {str(path.relative_to(site.directory)) for path in site.directory.rglob("*.html")} >= expected


def test_every_public_name_is_in_the_reference(site: Site) -> None:
    documented = [one for name, page in objects(site) if page.startswith("reference/") for one in named(name)]
    missing = [
        f"{module}.{name}"
        for module in PUBLIC
        for name in import_module(module).__all__
        if name not in NOT_DOCUMENTED_AS_OBJECTS
        and not any(getattr(import_module(module), name) is one for one in documented)
    ]
    assert missing == []


def objects(site: Site) -> list[tuple[str, str]]:
    """Return the documented names with their pages, from what other projects would link by."""
    *_, packed = (site.directory / "objects.inv").read_bytes().split(b"\n", 4)  # four lines of a head
    lines = (line.split() for line in zlib.decompress(packed).decode().splitlines())
    return [(name, page) for name, kind, _, page, *_ in lines if kind.startswith("py:")]


def named(name: str) -> list[Any]:
    """Return the object of a dotted name; none for a member of a class, whose class counts."""
    module, _, last = name.rpartition(".")
    try:
        return [getattr(import_module(module), last)]
    except (ImportError, AttributeError):
        return []
