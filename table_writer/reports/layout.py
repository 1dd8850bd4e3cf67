"""What every report is laid out with: columns, tables and summaries, and their text. :mod:`.html` draws the same."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from os.path import commonprefix
from typing import Any, Final

from table_writer.errors import printable
from table_writer.model.table import WHOLE_TABLE
from table_writer.model.words import Words

SHOWN_ROWS: Final = 12
SHOWN_LINES: Final = 12  # below the tables
SHOWN_CONDITION: Final = 60  # letters of a condition in a table, whose lines tell many facts
MAX_PADDED_WIDTH: Final = 80  # a longer cell moves only its own row to the right


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: its title, the fact that it shows, and how people read that fact.

    Parameters
    ----------
    title
        Stands above it.
    key
        The attribute of a row, by which it is named in plain values, too; empty where ``spell`` takes the whole row.
    spell
        Spells the fact; ``None`` is not known, and shown as ``?``.
    """

    title: str
    key: str = ""
    spell: Callable[[Any], object] = lambda fact: fact

    def fact(self, row: object) -> Any:
        """Return the fact of a row that the column shows."""
        return getattr(row, self.key) if self.key else row

    def cell(self, row: object) -> str:
        """Spell the fact of a row for people: a number with commas, a time to the second."""
        fact = self.fact(row)
        shown = None if fact is None else self.spell(fact)
        if shown is None:
            return "?"
        if isinstance(shown, datetime):
            return f"{shown:%Y-%m-%d %H:%M:%S}"
        return f"{shown:,}" if isinstance(shown, int) else str(shown)

    def number(self, row: object) -> float | None:
        """Return the fact of a row if it is a number."""
        fact = self.fact(row)
        return fact if isinstance(fact, int | float) else None


class Figure(Column):
    """A column of figures, which are aligned at the right."""


class State(Column):
    """A column of words that say how something ended, or stands; HTML gives them a colour."""


class Place(Column):
    """A column of locations: the directory that all of them share is told once, below the table."""


Columns = Sequence[Column]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: its columns, and the items that are its rows. Plain text throughout, escaped where it is rendered."""

    columns: Columns
    items: Sequence[Any]
    title: str = ""  # shown above the table
    shown_count: int = SHOWN_ROWS  # a line below counts the other rows

    @property
    def titles(self) -> tuple[str, ...]:
        """Return what stands above the columns."""
        return tuple(column.title for column in self.columns)

    @property
    def shown_items(self) -> Sequence[Any]:
        """Return the items that are shown: the first ones."""
        return self.items[: self.shown_count]

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """Return the cells of the items that are shown."""
        shared: dict[Column, str] = {column: self._shared_directory(column) for column in self._places}
        return tuple(
            tuple(column.cell(item).removeprefix(shared.get(column, "")) for column in self.columns)
            for item in self.shown_items
        )

    @property
    def _places(self) -> list[Place]:
        return [column for column in self.columns if isinstance(column, Place)]

    def _shared_directory(self, column: Column) -> str:
        """Return the directory that all locations of a column lie in, of those with a scheme; empty if none."""
        cells = [cell.removesuffix("/") for cell in map(column.cell, self.shown_items) if "://" in cell]
        path, slash, _ = commonprefix(cells).rpartition("/")  # noqa: RUF071 - it is cut at the last slash
        return f"{path}{slash}" if "://" in path else ""

    @property
    def directory_lines(self) -> tuple[str, ...]:
        """Return a line for each column of locations whose cells leave the directory out that they share."""
        shared = ((column.title, self._shared_directory(column)) for column in self._places)
        return tuple(f"{title}: below {directory}" for title, directory in shared if directory)

    @property
    def lines_below(self) -> tuple[str, ...]:
        """Return what stands below the table: how many rows are not shown, and where locations lie."""
        hidden = len(self.items) - len(self.shown_items)
        return (*((f"… and {hidden:,} more",) if hidden else ()), *self.directory_lines)


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """The headline, tables and lines of a report; plain text throughout, escaped where it is rendered."""

    headline: str  # the result in one line
    subject: str = ""  # the table's name, with which the headline begins
    grids: tuple[Grid, ...] = ()  # those without rows are not shown
    lines: tuple[str, ...] = ()  # below all tables

    @property
    def tables(self) -> tuple[Grid, ...]:
        """Return the tables that have rows."""
        return tuple(grid for grid in self.grids if grid.items)

    def with_all_rows(self) -> Summary:
        """Return the same summary with all rows of its tables."""
        return replace(self, grids=tuple(replace(grid, shown_count=len(grid.items)) for grid in self.grids))

    def shortened(self) -> Summary:
        """Return it with its first lines: a vacuum of a large table names thousands of locations."""
        hidden = len(self.lines) - SHOWN_LINES
        more = (f"… and {hidden:,} more lines",) if hidden > 0 else ()
        return replace(self, lines=(*self.lines[:SHOWN_LINES], *more))

    def text(self) -> str:
        """Render it as aligned lines; control characters are shown escaped."""
        tables = (line for grid in self.tables for line in _grid_lines(grid))
        lines = (*tables, *map(printable, self.lines))
        return "\n".join([printable(self.headline), *(f"  {line}" for line in lines)])


def _grid_lines(grid: Grid) -> list[str]:
    table = [tuple(map(printable, row)) for row in (grid.titles, *grid.rows)]
    widths = [min(max(map(_width, cells)), MAX_PADDED_WIDTH) for cells in zip(*table, strict=True)]
    right_sides = [isinstance(column, Figure) for column in grid.columns]
    aligned = ("  ".join(map(_padded, row, widths, right_sides)).rstrip() for row in table)
    return [*((f"{printable(grid.title)}:",) if grid.title else ()), *aligned, *map(printable, grid.lines_below)]


def _padded(cell: str, width: int, is_right: bool) -> str:  # noqa: FBT001 - mapped over three sequences
    blanks = " " * (width - _width(cell))
    return blanks + cell if is_right else cell + blanks


def _width(text: str) -> int:
    """Count the columns of a terminal: two for an East Asian character or an emoji, none for a combining accent."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def size(count: float) -> str:
    """Spell a number of bytes for people."""
    exponent = max((step for step in range(5) if count >= 1024**step), default=0)
    return f"{count:.0f} B" if exponent == 0 else f"{count / 1024**exponent:.1f} {'KMGT'[exponent - 1]}iB"


def size_or_dash(count: float) -> str:
    """Spell a number of bytes for people, and none as ``-``."""
    return size(count) if count else "-"


def writer_name(row: Any) -> str:
    """Return the user and the host of a writer."""
    return f"{row.user}@{row.host}"


def request_line(row: Any, most: int | None = SHOWN_CONDITION) -> str:
    """Return what a caller has asked for, with the rows that this has changed, and the first ``most`` letters of where.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> request_line(SimpleNamespace(mode="delete_where", words=Words(where="id = 17", inserted=0, deleted=3)))
    'delete_where: 3 deleted, where id = 17'
    """
    words: Words = row.words
    changed = ", ".join(f"{count:,} {what}" for what, count in words.counts.items() if count)
    condition = words.where if most is None or len(words.where) <= most else f"{words.where[: most - 1]}…"
    said = ", ".join(filter(None, (changed, condition and f"where {condition}")))
    return f"{row.mode}: {said}" if said else str(row.mode)


def details_line(row: Any) -> tuple[str, ...]:
    """Return a line on what a caller has asked for, with all of its condition; none where the mode says it all."""
    line = request_line(row, most=None)
    return () if line == row.mode else (line,)


def tags_line(tags: Mapping[str, str]) -> str:
    """Return all tags in one line."""
    return ", ".join(f"{name}={value}" for name, value in tags.items())


NAME: Final = Column("partition", "name", lambda name: name or WHOLE_TABLE)
ACTION: Final = State("", "action")
ROWS: Final = Figure("rows", "rows")
FILES: Final = Figure("files", "files")
SIZE: Final = Figure("size", "bytes", size)
