"""Links of pages and notebooks: to files of this repository and their headings, or to https."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from .markdown_blocks import ROOT

LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")


def broken_links(path: Path, text: str) -> list[str]:
    """Return the links of a text that lead nowhere, seen from a file."""
    return [link for link in LINK.findall(text) if not leads_somewhere(path, link)]


def leads_somewhere(path: Path, link: str) -> bool:
    parts = urlsplit(link)
    if parts.scheme:
        return parts.scheme == "https"
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.exists() or (ROOT not in target.parents):
        return False
    return not parts.fragment or parts.fragment in headings(target)


def headings(path: Path) -> set[str]:
    found = re.findall(r"^#+ (.+)$", path.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}
