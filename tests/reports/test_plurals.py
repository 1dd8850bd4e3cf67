"""One is singular, none and two are plural, in the headline and the lines of every report and every page."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.reports.gallery import usual
from tests.reports.page.pages import usual_page

NOUNS: Final = (
    *("row", "file", "partition", "version", "object", "location", "upload", "check", "table", "request", "call"),
    *("byte", "entry", "write", "column", "day", "hour", "minute", "second", "run"),
)
PLURALS: Final = {f"{one[:-1]}ies" if one.endswith("ry") else f"{one}s" for one in NOUNS}
COUNTED: Final = re.compile(r"(?<![\w.,:/+~>=-])(\d[\d,]*) (?:[a-z]+ )?([a-z]+)\b")
WORDS: Final = re.compile(r"<[^>]+>")


def counts(report: Any, count: int) -> Any:
    """Return a report, each of whose numbers and lists has this count."""
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(report):
        value = getattr(report, field.name)
        if isinstance(value, bool) or value is None or field.name.startswith("generation"):
            continue
        if isinstance(value, int):
            changed[field.name] = count
        elif isinstance(value, tuple):
            one = [counts(item, count) if dataclasses.is_dataclass(item) else item for item in value[:1]]
            changed[field.name] = tuple(one * count)
        elif isinstance(value, Mapping) and all(isinstance(item, int) for item in value.values()):
            changed[field.name] = dict.fromkeys(list(value)[:1], count)
        elif dataclasses.is_dataclass(value):
            changed[field.name] = counts(value, count)
    return dataclasses.replace(report, **changed)


REPORTS: Final = {**usual(), "page": usual_page()}


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("name", REPORTS)
def test_what_is_counted_agrees_with_its_number(name: str, count: int) -> None:
    report = counts(REPORTS[name], count)
    shown = [report.to_text()]
    if name == "page":
        shown += [WORDS.sub("\n", text) for text in (report.to_html(), report._repr_html_())]
    wrong = [
        found[0]
        for text in shown
        for found in COUNTED.finditer(text)
        if (found[1] == "1" and found[2] in PLURALS) or (found[1] != "1" and found[2] in NOUNS)
    ]
    assert wrong == []
