"""The base of all reports: facts for programs, and a summary for people as text, HTML and JSON."""

from __future__ import annotations

import dataclasses
import json
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from html import escape
from operator import attrgetter
from typing import Any, ClassVar, Final, Generic, TypeVar

from table_writer.errors import printable
from table_writer.model.table import WHOLE_TABLE

SHOWN_ROWS: Final = 12
MAX_PADDED_WIDTH: Final = 80  # a longer cell moves only its own row to the right
USUAL_FIGURES: Final = frozenset(
    {
        *("age", "copied", "copied files", "files", "nulls", "objects", "rows", "rows after", "rows before", "size"),
        *("table size", "vacuum frees", "wrong rows"),
    }
)
USUAL_STATES: Final = frozenset({"", "health", "outcome", "state", "status", "whose"})
Columns = Mapping[str, str | Callable[[Any], object]]
"""By heading: the attribute of a row that the column shows, or a function of the row."""

Partition = TypeVar("Partition", bound=Any)
SHOWN_LINES: Final = 12  # below the table
REPORT_FORMAT: Final = 1
LONG: Final = 60  # characters; a longer cell is wrapped in a box that scrolls, and none is cut
TROUBLES: Final = ("PROBLEM: ", "FAILED: ", "NOT ADDED ")
# without these classes Jupyter would set text between two $ as a formula
IGNORED_BY_MATH: Final = "tex2jax_ignore mathjax_ignore"
GREEN, RED, AMBER, BLUE = "22,146,84", "222,62,62", "190,122,10", "52,120,220"  # on white and on black at least 3:1
TONES: Final = {  # the sign, its colour, and the words that say how something ended
    "good": ("✓", GREEN, {"done", "ok", "passed", "published"}),
    "bad": ("✗", RED, {"abandoned", "dead", "error", "failed", "failed (error)"}),
    "doubt": ("!", AMBER, {"behind", "expired", "failed (warn)", "in doubt", "warning"}),
    "add": ("+", GREEN, {"add", "added"}),
    "more": ("»", GREEN, {"append", "appended"}),
    "undone": ("↩", AMBER, {"partly rolled back", "rolled back"}),
    "other": ("~", BLUE, {"replace", "replaced"}),
    "less": ("−", AMBER, {"dropped", "emptied", "empty"}),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """A table; plain text throughout, escaped where it is rendered."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""  # shown above the table
    figures: frozenset[str] = USUAL_FIGURES  # headings of right-aligned columns
    states: frozenset[str] = USUAL_STATES  # headings of columns whose words say how something ended
    shown_count: int = SHOWN_ROWS  # a line below counts the other rows

    @classmethod
    def of(cls, columns: Columns, items: Iterable[object], title: str = "") -> Grid:
        """Return a table with a row for each item."""
        shows = [attrgetter(column) if isinstance(column, str) else column for column in columns.values()]
        rows = tuple(tuple(_cell_text(show(item)) for show in shows) for item in items)
        return cls(title=title, headings=tuple(columns), rows=rows)

    @property
    def shown_rows(self) -> tuple[tuple[str, ...], ...]:
        """Return the rows that are shown: the first ones."""
        return self.rows[: self.shown_count]

    @property
    def hidden_rows_line(self) -> tuple[str, ...]:
        """Return a line that counts the rows that are not shown; empty if all are."""
        hidden = len(self.rows) - len(self.shown_rows)
        return (f"… and {hidden:,} more",) if hidden else ()


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
        return tuple(grid for grid in self.grids if grid.rows)

    def with_all_rows(self) -> Summary:
        """Return the same summary with all rows of its tables."""
        return replace(self, grids=tuple(replace(grid, shown_count=len(grid.rows)) for grid in self.grids))


def size(count: float) -> str:
    """Spell a number of bytes for people."""
    exponent = max((step for step in range(5) if count >= 1024**step), default=0)
    return f"{count:.0f} B" if exponent == 0 else f"{count / 1024**exponent:.1f} {'KMGT'[exponent - 1]}iB"


def summary_text(summary: Summary) -> str:
    """Render a summary as aligned lines; control characters are shown escaped."""
    tables = (line for grid in summary.tables for line in _grid_lines(grid))
    lines = (*tables, *map(printable, summary.lines))
    return "\n".join([printable(summary.headline), *(f"  {line}" for line in lines)])


def _cell_text(value: object) -> str:
    """Spell a value for people: ``None`` as ``?``, a number with commas, a time to the second."""
    if value is None:
        return "?"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _grid_lines(grid: Grid) -> list[str]:
    table = [tuple(map(printable, row)) for row in (grid.headings, *grid.shown_rows)]
    widths = [min(max(map(_width, column)), MAX_PADDED_WIDTH) for column in zip(*table, strict=True)]
    right_sides = [heading in grid.figures for heading in grid.headings]
    aligned = ("  ".join(map(_padded, row, widths, right_sides)).rstrip() for row in table)
    return [*((f"{printable(grid.title)}:",) if grid.title else ()), *aligned, *grid.hidden_rows_line]


def _padded(cell: str, width: int, is_right: bool) -> str:  # noqa: FBT001 - mapped over three sequences
    blanks = " " * (width - _width(cell))
    return blanks + cell if is_right else cell + blanks


def _width(text: str) -> int:
    """Count the columns of a terminal: two for an East Asian character or an emoji, none for a combining accent."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def writer_name(row: Any) -> str:
    """Return the user and the host of a writer."""
    return f"{row.user}@{row.host}"


def size_of(row: Any) -> str:
    """Return the bytes of a row, spelled for people."""
    return size(row.bytes)


def columns_of_partitions(action: str = "") -> Columns:
    """Return the columns of a table of partitions; ``action`` names the attribute that says what happened to each."""
    name: Columns = {"partition": lambda partition: partition.name or WHOLE_TABLE}
    return {**name, **({"": action} if action else {}), "rows": "rows", "files": "files", "size": size_of}


def tags_line(tags: Mapping[str, str]) -> str:
    """Return all tags in one line."""
    return ", ".join(f"{name}={value}" for name, value in tags.items())


NOTES: Final = {"note: {}": "notes"}
FAILURES: Final = {"FAILED: {}": "failures"}


@dataclass(frozen=True, kw_only=True, repr=False)
class Report:
    """A report on one table, as text, HTML and plain values.

    A subclass declares ``rows``, the attribute whose items are the rows of its first table, and their ``columns``;
    ``lines``, what stands below all tables: by template the attribute whose items fill it, one line each (of a mapping
    its keys and values); and ``derived``, the properties that plain values include.
    """

    ROWS: ClassVar[str]
    COLUMNS: ClassVar[Columns]
    LINES: ClassVar[Mapping[str, str]]
    DERIVED: ClassVar[tuple[str, ...]]  # any dataclass that a report holds may have it

    table: str

    def __init_subclass__(
        cls, *, rows: str, columns: Columns, lines: Mapping[str, str] | None = None, derived: tuple[str, ...] = ()
    ) -> None:
        super().__init_subclass__()
        cls.ROWS, cls.COLUMNS, cls.LINES, cls.DERIVED = rows, columns, lines or {}, derived

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: what ``--json`` prints."""
        return {"format": REPORT_FORMAT, **_plain_value(self)}

    def to_json(self) -> str:
        """Return the report as one JSON object."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return summary_html(_shortened(self._summary()))

    def to_text(self, *, all_rows: bool = False) -> str:
        """Return the summary as aligned lines; all rows of its table, or the first ones."""
        return summary_text(self._summary().with_all_rows() if all_rows else _shortened(self._summary()))

    def _summary(self) -> Summary:
        return Summary(
            subject=self.table,
            headline=f"{self.table}{self._headline()}",
            grids=(Grid.of(self.COLUMNS, getattr(self, self.ROWS)), *self._grids()),
            lines=tuple(self._lines()),
        )

    def _headline(self) -> str:
        """Return what follows the table's name in the first line."""
        raise NotImplementedError

    def _grids(self) -> Iterable[Grid]:
        """Return the tables after the first one."""
        return ()

    def _lines(self) -> Iterable[str]:
        """Return what stands below all tables."""
        for form, name in self.LINES.items():
            items = getattr(self, name)
            yield from (
                form.format(*fields) for fields in (items.items() if isinstance(items, Mapping) else zip(items))
            )


class ReportOfPartitions(Report, Generic[Partition], rows="partitions", columns={}):
    """A report on a write: what it does, did or would do to each partition."""

    partitions: tuple[Partition, ...]

    @property
    def added(self) -> tuple[Partition, ...]:
        """Return the partitions that did not exist before."""
        return self._of("add", "added")

    @property
    def replaced(self) -> tuple[Partition, ...]:
        """Return the partitions whose old rows are replaced."""
        return self._of("replace", "replaced")

    @property
    def appended(self) -> tuple[Partition, ...]:
        """Return the partitions that keep their old rows and get those of the DataFrame."""
        return self._of("append", "appended")

    @property
    def emptied(self) -> tuple[Partition, ...]:
        """Return the partitions that are dropped, since the write has no rows for them."""
        return self._of("empty", "emptied")

    @property
    def rows(self) -> int:
        """Return the number of rows written."""
        return sum(partition.rows for partition in self.partitions)

    @property
    def copied_files(self) -> int:
        """Return the number of existing files that an append copies, inside the store."""
        return sum(partition.copied_files for partition in self.partitions)

    @property
    def copied_bytes(self) -> int:
        """Return the bytes of the copied files; none of them pass through the client."""
        return sum(partition.copied_bytes for partition in self.partitions)

    def _of(self, *actions: str) -> tuple[Partition, ...]:
        return tuple(partition for partition in self.partitions if partition.action in actions)


def _shortened(summary: Summary) -> Summary:
    """Cut a summary to its first lines: a vacuum of a large table names thousands of locations."""
    hidden = len(summary.lines) - SHOWN_LINES
    if hidden <= 0:
        return summary
    return dataclasses.replace(summary, lines=(*summary.lines[:SHOWN_LINES], f"… and {hidden:,} more lines"))


def _plain_value(value: Any) -> Any:
    """Return a value as JSON can hold it: decimals and dates become text."""
    if dataclasses.is_dataclass(value):
        names = (*(field.name for field in dataclasses.fields(value)), *getattr(value, "DERIVED", ()))
        return {name: _plain_value(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): _plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_value(item) for item in value]
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value


def summary_html(summary: Summary) -> str:
    """Render a summary for notebooks: it is readable in light and dark, and needs no script and no network."""
    subject, headline = summary.subject, summary.headline.removeprefix(summary.subject)
    head = f'<p class="tw-head"><bdi>{html_text(subject)}</bdi>{html_text(headline)}</p>'
    parts = (head, *map(_grid, summary.tables), *map(_line, summary.lines))
    return f'<div class="table-writer {IGNORED_BY_MATH}"><style>{STYLE}</style>{"".join(parts)}</div>'


def _grid(grid: Grid) -> str:
    caption = f"<caption>{_cell(grid.title)}</caption>" if grid.title else ""
    sides = ["right" if heading in grid.figures else "left" for heading in grid.headings]

    def state(word: str) -> str:
        return f'<span class="tw-state tw-{tone(word)}">{html_text(word)}</span>'

    shows = [state if heading in grid.states else _cell for heading in grid.headings]
    head = _row("th", map(_cell, grid.headings), sides)
    body = "".join(
        _row("td", (show(cell) for show, cell in zip(shows, row, strict=True)), sides) for row in grid.shown_rows
    )
    table = f"<table>{caption}<thead>{head}</thead><tbody>{body}</tbody></table>"
    scrolling = f'<div class="tw-scroll" tabindex="0">{table}</div>'  # tabindex: the keyboard can scroll it too
    return scrolling + "".join(map(_line, grid.hidden_rows_line))


def _row(tag: str, cells: Iterable[str], sides: Sequence[str]) -> str:
    cells_html = (f'<{tag} style="text-align:{side}">{cell}</{tag}>' for cell, side in zip(cells, sides, strict=True))
    return f"<tr>{''.join(cells_html)}</tr>"


def _cell(text: str) -> str:
    return f'<div class="tw-long">{html_text(text)}</div>' if len(text) > LONG else html_text(text)


def _line(text: str) -> str:
    trouble = " tw-trouble" if text.startswith(TROUBLES) else ""
    return f'<p class="tw-line{trouble}">{html_text(text)}</p>'


def html_text(text: str) -> str:
    """Escape text of users: markup and control characters are shown and have no effect."""
    return escape(printable(text))


def tone(state: str) -> str:
    """Return the style class of a word that says how something ended; ``plain`` for other words."""
    return next((name for name, (_, _, words) in TONES.items() if state in words), "plain")


STYLE: Final = (
    # the host's theme comes first; without one, the reader's preference
    ".table-writer{color-scheme:light dark}"
    "body[data-jp-theme-light=true] .table-writer,body.vscode-light .table-writer,"
    "[data-theme=light] .table-writer,html[theme=light] .table-writer{color-scheme:light}"
    "body[data-jp-theme-light=false] .table-writer,body.vscode-dark .table-writer,"
    "[data-theme=dark] .table-writer,html[theme=dark] .table-writer{color-scheme:dark}"
    ".table-writer{color:var(--jp-content-font-color1,var(--vscode-editor-foreground,CanvasText));"
    "background:var(--jp-layout-color0,var(--vscode-editor-background,Canvas));"
    "font:13px/1.5 var(--jp-ui-font-family,var(--vscode-font-family,system-ui,sans-serif));"
    "padding:.6em .8em;border-radius:6px;text-align:left;overflow-wrap:anywhere}"
    ".table-writer .tw-head{margin:0 0 .5em;font-size:1.05em}"
    ".table-writer .tw-head bdi{font-weight:700}"
    ".table-writer .tw-scroll{overflow-x:auto;margin:.4em 0 .7em}"
    # the class three times: notebooks style all tables with selectors of four names
    ".table-writer.table-writer.table-writer table{border-collapse:collapse;margin:0;width:auto;font-size:1em;"
    "table-layout:auto;border:0;display:table}"
    ".table-writer.table-writer.table-writer caption{caption-side:top;text-align:left;font-weight:600;"
    "padding:0 .1em .2em;color:inherit;white-space:nowrap}"
    ".table-writer.table-writer.table-writer tr{background:none;border:0}"
    ".table-writer.table-writer.table-writer :is(th,td){padding:.25em .8em;vertical-align:top;white-space:nowrap;"
    "max-width:none;color:inherit;background:none;border:0;border-bottom:1px solid rgba(128,128,128,.28);"
    "font-size:1em;line-height:1.5;font-variant-numeric:tabular-nums}"
    ".table-writer.table-writer.table-writer thead th{font-weight:600;border-bottom:2px solid rgba(128,128,128,.5)}"
    ".table-writer.table-writer.table-writer tbody tr:hover{background:rgba(128,128,128,.12)}"
    ".table-writer .tw-long{white-space:normal;width:max-content;max-width:46em;max-height:6em;overflow:auto}"
    ".table-writer .tw-state{display:inline-block;padding:0 .55em;border:1px solid rgba(128,128,128,.45);"
    "border-radius:1em}"
    ".table-writer .tw-line{margin:.1em 0;opacity:.85}"
    f".table-writer .tw-trouble{{opacity:1;font-weight:600;border-left:3px solid rgb({RED});padding-left:.5em}}"
) + "".join(
    f".table-writer .tw-{name}{{background:rgba({colour},.13);border-color:rgba({colour},.55)}}"
    f".table-writer .tw-{name}::before{{content:'{sign}\\a0';content:'{sign}\\a0'/'';"
    f"color:rgb({colour});font-weight:700}}"
    for name, (sign, colour, _) in TONES.items()
)
