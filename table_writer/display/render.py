"""A headline, tables and a few lines as plain text, from the same cells that :mod:`.report` shows as HTML."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

from table_writer.errors import printable

SHOWN_ROWS: Final = 12
MAX_PADDED_WIDTH: Final = 80  # a longer cell pushes its own row to the right, and no other
USUAL_FIGURES: Final = frozenset(
    {"age", "copied", "copied files", "files", "nulls", "objects", "rows", "size", "wrong rows"}
)
USUAL_STATES: Final = frozenset({"", "outcome", "state", "status", "whose"})
Columns = Mapping[str, str | Callable[[Any], object]]
"""By heading: the attribute of a row that the column shows, or a function of the row."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """A table; plain text throughout, escaped where it is rendered."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""  # stands above it
    figures: frozenset[str] = USUAL_FIGURES  # headings of columns that stand right
    states: frozenset[str] = USUAL_STATES  # headings of columns whose words say how something ended
    shown_count: int = SHOWN_ROWS  # a line counts the other rows

    @classmethod
    def of(cls, columns: Columns, items: Iterable[object], title: str = "") -> Grid:
        """Return a table with a row for each item.

        Examples
        --------
        >>> Grid.of({"value": "real", "twice": lambda number: 2 * number}, [1, 1200]).rows
        (('1', '2'), ('1,200', '2,400'))
        """
        shows = [attrgetter(column) if isinstance(column, str) else column for column in columns.values()]
        rows = tuple(tuple(_cell(show(item)) for show in shows) for item in items)
        return cls(title=title, headings=tuple(columns), rows=rows)

    @property
    def shown(self) -> tuple[tuple[str, ...], ...]:
        return self.rows[: self.shown_count]

    @property
    def left_out(self) -> tuple[str, ...]:
        """A line on the other rows, if there are any."""
        hidden = len(self.rows) - len(self.shown)
        return (f"… and {hidden:,} more",) if hidden else ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """What is shown; plain text throughout, escaped where it is rendered."""

    headline: str  # what there is to know, in one line
    subject: str = ""  # how the headline begins, in words of others: the table's name
    grids: tuple[Grid, ...] = ()  # those without rows are not shown
    lines: tuple[str, ...] = ()  # below all tables

    @property
    def tables(self) -> tuple[Grid, ...]:
        return tuple(grid for grid in self.grids if grid.rows)

    def with_all_rows(self) -> Summary:
        """Return the same with no row left out."""
        return replace(self, grids=tuple(replace(grid, shown_count=len(grid.rows)) for grid in self.grids))


def size(count: float) -> str:
    """Spell a number of bytes for people.

    Examples
    --------
    >>> size(512), size(1536), size(3 * 1024**3)
    ('512 B', '1.5 KiB', '3.0 GiB')
    """
    exponent = max((step for step in range(5) if count >= 1024**step), default=0)
    return f"{count:.0f} B" if exponent == 0 else f"{count / 1024**exponent:.1f} {'KMGT'[exponent - 1]}iB"


def summary_text(summary: Summary) -> str:
    """Render aligned lines; control characters of hostile names are shown escaped."""
    tables = (line for grid in summary.tables for line in _grid_lines(grid))
    lines = (*tables, *map(printable, summary.lines))
    return "\n".join([printable(summary.headline), *(f"  {line}" for line in lines)])


def _cell(value: object) -> str:
    """Spell a value: what is not known as ``?``, a number with commas, a time to the second."""
    if value is None:
        return "?"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _grid_lines(grid: Grid) -> list[str]:
    table = [tuple(map(printable, row)) for row in (grid.headings, *grid.shown)]
    widths = [min(max(map(_width, column)), MAX_PADDED_WIDTH) for column in zip(*table, strict=True)]
    right = [heading in grid.figures for heading in grid.headings]
    aligned = ("  ".join(map(_padded, row, widths, right)).rstrip() for row in table)
    return [*((f"{printable(grid.title)}:",) if grid.title else ()), *aligned, *grid.left_out]


def _padded(cell: str, width: int, right: bool) -> str:  # noqa: FBT001 - mapped over three sequences
    blanks = " " * (width - _width(cell))
    return blanks + cell if right else cell + blanks


def _width(text: str) -> int:
    """Columns of a terminal: two for a character of East Asia or a picture, none for an accent of its own."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )
