"""The notebooks run from top to bottom in a kernel of their own, and are stored with what they show."""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import pytest

from .links import broken_links
from .notebooks import NOTEBOOKS, QUIET, executed, outputs

SOON = {"01"}  # each starts a lakehouse of its own; the others run with the slow tests


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[] if path.name[:2] in SOON else [pytest.mark.slow]) for path in NOTEBOOKS],
    ids=lambda path: path.name,
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Jupyter's own, about its event loop and its directories
def test_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)
    shown = list(outputs(executed(path, tmp_path)))
    assert any("text/html" in output.get("data", {}) for output in shown), "no cell shows a result"
    assert not [output for output in shown if output.output_type == "stream" and output.name == "stderr"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_is_stored_with_what_it_shows_and_nothing_of_a_machine(path: Path) -> None:
    """It is read where it lies: ``make notebooks`` runs it, and stores it."""
    text = path.read_text()
    stored = json.loads(text)
    nbformat.validate(stored)
    shown = list(outputs(stored))
    assert any("text/html" in output.get("data", {}) for output in shown)
    assert not [output for output in shown if output["output_type"] == "error" or output.get("name") == "stderr"]
    assert all(cell.get("execution_count") is None for cell in stored["cells"])
    assert not re.findall(r"/(?:tmp|home|root|work|Users)/|127\.0\.0\.1:\d", text)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_links_lead_somewhere(path: Path) -> None:
    cells = json.loads(path.read_text())["cells"]
    prose = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert broken_links(path, prose) == []
