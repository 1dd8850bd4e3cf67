"""A headline, a table and a few lines, as text and as HTML: the same facts from the same rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from typing import Final

__all__ = ["Summary", "size", "summary_html", "summary_text"]

SHOWN_ROWS: Final = 12
TEXT_COLUMNS: Final = 2  # the first ones are words and stand left; figures stand right


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """What is shown; plain text throughout, escaped where it is rendered."""

    headline: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[str, ...]

    shown_count: int = SHOWN_ROWS

    @property
    def shown(self) -> tuple[tuple[str, ...], ...]:
        """The first rows."""
        return self.rows[: self.shown_count]

    @property
    def closing(self) -> tuple[str, ...]:
        """What stands below the table."""
        hidden = len(self.rows) - len(self.shown)
        return ((f"… and {hidden:,} more",) if hidden else ()) + self.lines

    def with_all_rows(self) -> Summary:
        """Return the same with no row left out."""
        return replace(self, shown_count=len(self.rows))


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
    table = [tuple(map(_printable, row)) for row in (summary.headings, *summary.shown)] if summary.rows else []
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    aligned = ["  ".join(_aligned(row, widths)).rstrip() for row in table]
    return "\n".join(
        [_printable(summary.headline), *(f"  {line}" for line in (*aligned, *map(_printable, summary.closing)))]
    )


def summary_html(summary: Summary) -> str:
    """Render for notebooks: readable in light and dark, no script, no network."""
    head = _html_row("th", summary.headings)
    body = "".join(_html_row("td", row) for row in summary.shown)
    table = f"<table><thead>{head}</thead><tbody>{body}</tbody></table>" if summary.rows else ""
    lines = "".join(f"<div style='opacity:.75'>{escape(_printable(line))}</div>" for line in summary.closing)
    return f"<div><b>{escape(_printable(summary.headline))}</b>{table}{lines}</div>"


def _aligned(row: tuple[str, ...], widths: list[int]) -> list[str]:
    return [
        cell.ljust(width) if index < TEXT_COLUMNS else cell.rjust(width)
        for index, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def _html_row(tag: str, cells: tuple[str, ...]) -> str:
    sides = ["left" if index < TEXT_COLUMNS else "right" for index in range(len(cells))]
    return (
        "<tr>"
        + "".join(
            f"<{tag} style='text-align:{side};padding:0 .8em'>{escape(_printable(cell))}</{tag}>"
            for side, cell in zip(sides, cells, strict=True)
        )
        + "</tr>"
    )


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
