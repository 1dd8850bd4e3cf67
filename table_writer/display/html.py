"""The facts of a summary for notebooks: no script, no network, every word escaped, none in an attribute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from table_writer.display.render import Grid, Summary
from table_writer.display.style import IGNORED_BY_MATH, STYLE, tone
from table_writer.printable import printable

__all__ = ["summary_html"]

LONG: Final = 60  # characters; a longer cell is wrapped in a box that scrolls, and none is cut
TROUBLES: Final = ("PROBLEM: ", "FAILED: ", "NOT ADDED ")


def summary_html(summary: Summary) -> str:
    """Render for notebooks: readable in light and dark, no script, no network.

    Examples
    --------
    >>> shown = summary_html(Summary(headline="<b>: nothing", headings=(), rows=(), lines=(), subject="<b>"))
    >>> shown[shown.index("<p") :]
    '<p class="tw-head"><bdi>&lt;b&gt;</bdi>: nothing</p></div>'
    """
    subject, rest = summary.subject, summary.headline.removeprefix(summary.subject)
    head = f'<p class="tw-head"><bdi>{_text(subject)}</bdi>{_text(rest)}</p>'
    parts = (head, *map(_grid, summary.tables), *map(_line, summary.lines))
    return f'<div class="table-writer {IGNORED_BY_MATH}"><style>{STYLE}</style>{"".join(parts)}</div>'


def _grid(grid: Grid) -> str:
    caption = f"<caption>{_cell(grid.title)}</caption>" if grid.title else ""
    sides = ["right" if heading in grid.figures else "left" for heading in grid.headings]
    shows = [_state if heading in grid.states else _cell for heading in grid.headings]
    head = _row("th", map(_cell, grid.headings), sides)
    body = "".join(_row("td", (show(cell) for show, cell in zip(shows, row, strict=True)), sides) for row in grid.shown)
    table = f"<table>{caption}<thead>{head}</thead><tbody>{body}</tbody></table>"
    scrolling = f'<div class="tw-scroll" tabindex="0">{table}</div>'  # tabindex: the keyboard can scroll it too
    return scrolling + "".join(map(_line, grid.left_out))


def _row(tag: str, cells: Iterable[str], sides: Sequence[str]) -> str:
    shown = (f'<{tag} style="text-align:{side}">{cell}</{tag}>' for cell, side in zip(cells, sides, strict=True))
    return f"<tr>{''.join(shown)}</tr>"


def _state(word: str) -> str:
    return f'<span class="tw-state tw-{tone(word)}">{_text(word)}</span>'


def _cell(text: str) -> str:
    return f'<div class="tw-long">{_text(text)}</div>' if len(text) > LONG else _text(text)


def _line(text: str) -> str:
    trouble = " tw-trouble" if text.startswith(TROUBLES) else ""
    return f'<p class="tw-line{trouble}">{_text(text)}</p>'


def _text(text: str) -> str:
    return escape(printable(text))
