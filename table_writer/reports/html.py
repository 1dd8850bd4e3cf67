"""Render summaries of reports as HTML: readable in light and dark, without a script and without a network."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files
from typing import Final

from table_writer.errors import printable
from table_writer.reports.layout import Column, Figure, Grid, State, Summary

LONG: Final = 60  # characters; a longer cell is wrapped in a box that scrolls, and none is cut
TROUBLES: Final = ("PROBLEM: ", "FAILED: ", "NOT ADDED ")
# without these classes Jupyter would set text between two $ as a formula
IGNORED_BY_MATH: Final = "tex2jax_ignore mathjax_ignore"
TONES: Final = {  # by the class that gives them colour and sign, the words that say how something ended
    "good": {"done", "ok", "passed", "published"},
    "bad": {"abandoned", "dead", "error", "failed", "failed (error)"},
    "doubt": {"behind", "due", "expired", "failed (warn)", "in doubt", "warning"},
    "add": {"add", "added"},
    "more": {"append", "appended"},
    "undone": {"partly rolled back", "rolled back"},
    "other": {"replace", "replaced"},
    "less": {"dropped", "emptied", "empty"},
}


class Picture(Column):
    """A column whose cells are HTML."""


def summary_html(summary: Summary) -> str:
    """Render a summary for notebooks."""
    subject, headline = summary.subject, summary.headline.removeprefix(summary.subject)
    head = f'<p class="tw-head"><bdi>{html_text(subject)}</bdi>{html_text(headline)}</p>'
    parts = (head, *map(_scrolling_table, summary.tables), *map(_line, summary.lines))
    return (
        f'<div class="table-writer {IGNORED_BY_MATH}"><style>{resource("notebook.css")}</style>{"".join(parts)}</div>'
    )


@cache
def resource(name: str) -> str:
    """Return the text of a file beside this one: a style sheet or a script."""
    return files("table_writer.reports").joinpath(name).read_text(encoding="ascii")


def _scrolling_table(grid: Grid) -> str:
    caption = f"<caption>{_long(grid.title)}</caption>" if grid.title else ""
    scrolling = f'<div class="tw-scroll" tabindex="0">{table_html(grid, caption)}</div>'  # the keyboard can scroll it
    return scrolling + "".join(map(_line, grid.lines_below))


def table_html(grid: Grid, caption: str = "", *, is_sorted: bool = False) -> str:
    """Render a table with the cells of the text; if a script sorts it, each number says by what."""
    numbers = [[column.number(item) if is_sorted else None for column in grid.columns] for item in grid.shown_items]
    figures = [
        " class=tw-figure" if isinstance(column, Figure) or any(row[at] is not None for row in numbers) else ""
        for at, column in enumerate(grid.columns)
    ]
    head = "".join(f"<th scope=col{kind}>{_long(title)}</th>" for kind, title in zip(figures, grid.titles, strict=True))
    body = (
        "".join(map(_cell, grid.columns, cells, figures, row)) for cells, row in zip(grid.rows, numbers, strict=True)
    )
    rows = "".join(f"<tr>{cells}</tr>" for cells in body)
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _cell(column: Column, text: str, kind: str, number: float | None) -> str:
    shown = text if isinstance(column, Picture) else _chip(text) if isinstance(column, State) else _long(text)
    return f"<td{kind}{'' if number is None else f' data-n={number}'}>{shown}</td>"


def _chip(word: str) -> str:
    return f'<span class="tw-chip tw-{tone(word)}">{html_text(word)}</span>' if word else ""


def _long(text: str) -> str:
    return f"<div class=tw-long>{html_text(text)}</div>" if len(text) > LONG else html_text(text)


def _line(text: str) -> str:
    trouble = " tw-trouble" if text.startswith(TROUBLES) else ""
    return f'<p class="tw-line{trouble}">{html_text(text)}</p>'


def html_text(text: str) -> str:
    """Escape text of users: markup and control characters are shown and have no effect."""
    return escape(printable(text))


def tone(state: str) -> str:
    """Return the style class of a word that says how something ended; ``plain`` for other words."""
    return next((name for name, words in TONES.items() if state in words), "plain")
