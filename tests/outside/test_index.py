"""Where a report from outside finds its place: each file here tells its situation, and who has met it.

Seen by a user who looked for the test of a report, and found none by its number.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

FILES = sorted(Path(__file__).parent.glob("test_*.py"))
REPORT = re.compile(r"[\w.-]+/[\w.-]+#\d+|\b[A-Z][A-Z0-9]+-\d+\b|https?://\S+|\bseen by a user\b", re.IGNORECASE)
"""``owner/repository#number``, ``PROJECT-number``, an address, or a person without a public thread."""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_file_tells_a_situation_and_names_a_report(file: Path) -> None:
    told = ast.get_docstring(ast.parse(file.read_text())) or ""
    assert REPORT.search(told)
    assert len(told.splitlines()) > 1
