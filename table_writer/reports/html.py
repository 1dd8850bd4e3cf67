"""Render summaries of reports as HTML: readable in light and dark, without a script and without a network."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

from table_writer.errors import printable
from table_writer.reports.layout import Figure, Grid, State, Summary

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


def summary_html(summary: Summary) -> str:
    """Render a summary for notebooks."""
    subject, headline = summary.subject, summary.headline.removeprefix(summary.subject)
    head = f'<p class="tw-head"><bdi>{html_text(subject)}</bdi>{html_text(headline)}</p>'
    parts = (head, *map(_grid, summary.tables), *map(_line, summary.lines))
    return f'<div class="table-writer {IGNORED_BY_MATH}"><style>{STYLE}</style>{"".join(parts)}</div>'


def _grid(grid: Grid) -> str:
    caption = f"<caption>{long_text(grid.title)}</caption>" if grid.title else ""
    sides = ["right" if isinstance(column, Figure) else "left" for column in grid.columns]
    shows = [_state if isinstance(column, State) else long_text for column in grid.columns]
    head = _row("th", map(long_text, grid.titles), sides)
    body = "".join(_row("td", (show(cell) for show, cell in zip(shows, row, strict=True)), sides) for row in grid.rows)
    table = f"<table>{caption}<thead>{head}</thead><tbody>{body}</tbody></table>"
    scrolling = f'<div class="tw-scroll" tabindex="0">{table}</div>'  # tabindex: the keyboard can scroll it too
    return scrolling + "".join(map(_line, grid.hidden_rows_line))


def _row(tag: str, cells: Iterable[str], sides: Iterable[str]) -> str:
    cells_html = (f'<{tag} style="text-align:{side}">{cell}</{tag}>' for cell, side in zip(cells, sides, strict=True))
    return f"<tr>{''.join(cells_html)}</tr>"


def _state(word: str) -> str:
    return f'<span class="tw-state tw-{tone(word)}">{html_text(word)}</span>'


def _line(text: str) -> str:
    trouble = " tw-trouble" if text.startswith(TROUBLES) else ""
    return f'<p class="tw-line{trouble}">{html_text(text)}</p>'


def long_text(text: str) -> str:
    """Escape a cell; a long one gets a box of its own."""
    return f'<div class="tw-long">{html_text(text)}</div>' if len(text) > LONG else html_text(text)


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
