"""Links of pages and notebooks: to files of this repository and their headings, also by URL, or to https."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from .markdown_blocks import ROOT

BLOB = "https://github.com/table-writer/table_writer/blob/main/"
"""Where the README's links lead: a package index shows the README without the repository."""

LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")


def broken_links(path: Path, text: str) -> list[str]:
    """Return the links of a text that lead nowhere, seen from a file."""
    return [link for link in LINK.findall(text) if not leads_somewhere(path, link)]


def leads_somewhere(path: Path, link: str) -> bool:
    parts = urlsplit(link.removeprefix(BLOB))
    if parts.scheme:
        return parts.scheme == "https"
    start = ROOT if link.startswith(BLOB) else path.parent
    target = (start / unquote(parts.path)).resolve() if parts.path else path
    if not target.exists() or (ROOT not in target.parents):
        return False
    return not parts.fragment or parts.fragment in headings(target)


def headings(path: Path) -> set[str]:
    found = re.findall(r"^#+ (.+)$", path.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}
