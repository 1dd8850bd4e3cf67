"""Fenced blocks of the documentation, as the tests read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n)?^```(?P<language>\w*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    language: str
    body: str
    line: int
    reason: str = ""
    printed: str | None = None
    """The ``text`` block that follows at once: what the code prints."""


def documents() -> list[Path]:
    names = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
    built = ROOT / "docs" / "_build"
    pages = (path for path in (ROOT / "docs").rglob("*.md") if built not in path.parents)
    return [*(ROOT / name for name in names), *sorted(pages)]


def python_blocks(document: Path) -> Iterator[Block]:
    """Yield the Python blocks of a page; a ``text`` block straight after one is what it prints."""
    text = document.read_text()
    found = list(FENCE.finditer(text))
    for match, after in pairwise([*found, None]):
        if match is None or match["language"] != "python":
            continue
        follows = after is not None and after["language"] == "text" and not text[match.end() : after.start()].strip()
        yield Block(
            language="python",
            body=match["body"],
            line=text.count("\n", 0, match.start("body")),
            reason=match["reason"] or "",
            printed=after["body"] if after is not None and follows else None,
        )
