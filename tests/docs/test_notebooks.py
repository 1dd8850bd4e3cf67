"""The notebooks run from top to bottom in a kernel of their own, and are stored without outputs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from .links import broken_links
from .markdown_blocks import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SOON = {"01"}  # each starts a lakehouse of its own; the others run with the slow tests


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[] if path.name[:2] in SOON else [pytest.mark.slow]) for path in NOTEBOOKS],
    ids=lambda path: path.name,
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Jupyter's own, about its event loop and its directories
def test_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])))
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    resources = {"metadata": {"path": str(tmp_path)}}
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources)
    client.execute()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("text/html" in output.get("data", {}) for output in shown), "no cell shows a result"
    assert not [output for output in shown if output.output_type == "stream" and output.name == "stderr"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_is_stored_without_outputs(path: Path) -> None:
    stored = json.loads(path.read_text())
    nbformat.validate(stored)
    for cell in stored["cells"]:
        assert not cell.get("outputs"), cell["source"]
        assert cell.get("execution_count") is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_links_lead_somewhere(path: Path) -> None:
    cells = json.loads(path.read_text())["cells"]
    prose = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert broken_links(path, prose) == []
