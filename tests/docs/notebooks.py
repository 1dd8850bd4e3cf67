"""Runs notebooks, and stores them with what they show, so that they can be read where they lie.

``python -m tests.docs.notebooks`` does so. Names and ports of the machine are replaced.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import nbformat
from nbclient import NotebookClient

ROOT: Final = Path(__file__).parents[2]
NOTEBOOKS: Final = sorted((ROOT / "notebooks").glob("*.ipynb"))
QUIET: Final = {
    "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    "TABLE_WRITER_PROGRESS": "off",
}


def executed(path: Path, directory: Path) -> Any:
    """Run a notebook in a directory; returns it with its outputs."""
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    resources = {"metadata": {"path": str(directory)}}
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources, record_timing=False)
    client.execute()
    return notebook


def outputs(notebook: Any) -> Iterator[Any]:
    """Yield what the cells of a notebook show."""
    for cell in notebook["cells"]:
        yield from cell.get("outputs", ())


def without_machine(text: str) -> str:
    """Return text without the user, the host and the ports of the machine that has run it."""
    text = text.replace(f"{getpass.getuser()}@{socket.gethostname()}", "user@host")
    return re.sub(r"(127\.0\.0\.1):\d+", r"\1:PORT", text)


if __name__ == "__main__":
    os.environ.update(QUIET)
    for notebook_path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as empty:
            found = executed(notebook_path, Path(empty))
        for cell in found.cells:
            if cell.cell_type == "code":
                cell.execution_count = None
                cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        found.metadata.pop("language_info", None)  # of this machine's Python
        text = nbformat.writes(found)  # type: ignore[no-untyped-call]
        notebook_path.write_text(without_machine(text) + "\n")
        print(notebook_path.name, sum(1 for _ in outputs(found)), "outputs")
