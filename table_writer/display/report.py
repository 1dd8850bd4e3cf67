"""What all reports have: facts for programs, a summary for people, JSON for both."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from html import escape
from typing import TYPE_CHECKING, Any, Final

from table_writer.display.render import Grid, Summary, summary_text
from table_writer.errors import InvalidInputError, printable
from table_writer.model.check_result import CheckResult

__all__ = [
    "IGNORED_BY_MATH",
    "STYLE",
    "AbortedUpload",
    "DeletedPath",
    "Finding",
    "KeptPath",
    "PartitionDetail",
    "Report",
    "UploadDetail",
    "VersionSummary",
    "plot_versions",
    "rolled_back",
    "summary_html",
    "tone",
]


SHOWN_LINES: Final = 12  # below the table

REPORT_FORMAT: Final = 1

LONG: Final = 60  # characters; a longer cell is wrapped in a box that scrolls, and none is cut

TROUBLES: Final = ("PROBLEM: ", "FAILED: ", "NOT ADDED ")

IGNORED_BY_MATH: Final = (
    "tex2jax_ignore mathjax_ignore"  # else Jupyter would set what stands between two $ as a formula
)

TONES: Final = {
    "good": frozenset({"ok", "passed", "published"}),
    "bad": frozenset({"abandoned", "dead", "error", "failed (error)"}),
    "doubt": frozenset({"expired", "failed (warn)", "in doubt", "warning"}),
    "add": frozenset({"add", "added"}),
    "more": frozenset({"append", "appended"}),
    "other": frozenset({"replace", "replaced"}),
    "less": frozenset({"dropped", "emptied", "empty"}),
}

SIGNS: Final = {"good": "✓", "bad": "✗", "doubt": "!", "add": "+", "more": "»", "other": "~", "less": "−"}

COLOURS: Final = {  # red, green, blue: each against white and against black at least 3:1, for the signs
    "good": "22,146,84",
    "bad": "222,62,62",
    "doubt": "190,122,10",
    "add": "22,146,84",
    "more": "22,146,84",
    "other": "52,120,220",
    "less": "190,122,10",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class Report:
    """A report on one table."""

    table: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: what ``--json`` prints."""
        return {"format": REPORT_FORMAT, **_plain(self)}

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
        raise NotImplementedError


def _shortened(summary: Summary) -> Summary:
    """Leave out all but the first lines: a vacuum of a large table keeps thousands of locations."""
    hidden = len(summary.lines) - SHOWN_LINES
    if hidden <= 0:
        return summary
    return dataclasses.replace(summary, lines=(*summary.lines[:SHOWN_LINES], f"… and {hidden:,} more lines"))


def _plain(value: Any) -> Any:
    """Return what JSON has: numbers that it would round are text, and so are dates."""
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, date | datetime):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value


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


def tone(state: str) -> str:
    """Return the class of a word that says how something ended; ``plain`` for words of no tone.

    Examples
    --------
    >>> tone("published"), tone("in doubt"), tone("running")
    ('good', 'doubt', 'plain')
    """
    return next((name for name, words in TONES.items() if state in words), "plain")


def _of_tones() -> str:
    return "".join(
        f".table-writer .tw-{name}{{background:rgba({COLOURS[name]},.13);border-color:rgba({COLOURS[name]},.55)}}"
        f".table-writer .tw-{name}::before{{content:'{sign}\\a0';content:'{sign}\\a0'/'';"
        f"color:rgb({COLOURS[name]});font-weight:700}}"
        for name, sign in SIGNS.items()
    )


STYLE: Final = (
    # the host's own words on its theme come first; without any, the reader's preference
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
    # three times the class: notebooks style every table there is, by four names
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
    ".table-writer .tw-trouble{opacity:1;font-weight:600;border-left:3px solid rgb(222,62,62);padding-left:.5em}"
) + _of_tones()


@dataclass(frozen=True, kw_only=True)
class VersionSummary:
    """One entry of the log in one line.

    ``state`` is ``"published"``, ``"abandoned"`` or ``"in doubt"``; ``rows`` is ``None`` where other tools wrote them.
    """

    version: int
    operation: str
    mode: str
    state: str
    created_at: datetime
    write_id: str
    user: str
    host: str
    application_id: str
    settles: int | None
    added_count: int
    replaced_count: int
    dropped_count: int
    rows: int | None
    files: int
    bytes: int
    tags: Mapping[str, str]
    idempotency_key: str
    checks: tuple[CheckResult, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PartitionDetail:
    """One partition of an entry: what it changes, from where to where."""

    name: str
    change: str  # added, replaced, dropped
    rows: int | None
    files: int
    bytes: int
    old_location: str | None
    new_location: str | None


@dataclass(frozen=True, kw_only=True)
class DeletedPath:
    """A location that a vacuum deletes, with every object in it."""

    location: str
    reason: str
    bytes: int
    keys: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class UploadDetail:
    """A pending upload below a table's root, and whose it is.

    ``owner`` is ``"running"``, ``"dead"``, ``"young"`` (no registration, and not old enough to tell), ``"settled"``
    (left by a late attempt), ``"in doubt"`` or ``"another tool"``.
    """

    key: str
    upload_id: str
    write_id: str | None
    owner: str
    age_seconds: float


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing the doctor looked at.

    ``status`` is ``"ok"``, ``"note"``, ``"warning"`` or ``"error"``.
    """

    check: str
    status: str
    message: str
    advice: str = ""


@dataclass(frozen=True, kw_only=True)
class KeptPath:
    """A location that a vacuum leaves alone, and why."""

    location: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class AbortedUpload:
    """A pending upload that was given up."""

    key: str
    upload_id: str


if TYPE_CHECKING:
    from matplotlib.axes import Axes


LIVE: Final = "published"

TAKEN_BACK: Final = "rolled back"

MARKERS: Final[Mapping[str, str]] = {LIVE: "o", TAKEN_BACK: "v", "abandoned": "X", "in doubt": "D"}

FILLED: Final = frozenset({LIVE})

SHOWN_CHARACTERS: Final = 60  # of a name

EDGE: Final = timedelta(hours=1)  # on both sides of a single version, which is a point in time

ROLLBACK: Final = re.compile(r"rollback to version (\d+)")


def plot_versions(table: str, versions: Sequence[VersionSummary], axes: Axes | None) -> Axes:
    """Draw the rows of each version at the time it was written, by what it did and how it ended.

    Raises
    ------
    InvalidInputError
        matplotlib is not installed.
    """
    try:
        import matplotlib.pyplot as plt  # noqa: PLC0415 - an extra
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter  # noqa: PLC0415
        from matplotlib.ticker import MaxNLocator, StrMethodFormatter  # noqa: PLC0415
    except ImportError as missing:
        raise InvalidInputError(
            f"the history of {table} is drawn by matplotlib, which is not installed: pip install 'table-writer[plot]'",
            table=table,
        ) from missing
    if axes is None:
        _, axes = plt.subplots(figsize=(9, 3.6), layout="constrained")
    point = min(42.0, max(3.0, 6_000 / (len(versions) or 1)))  # square points
    for (what, how), group in sorted(_groups(versions).items(), key=_order):
        times: list[Any] = [one.created_at for one in group]
        rows = [one.rows or 0 for one in group]
        colour = f"C{_actions(versions).index(what)}"  # of the style that is in use
        face = colour if how in FILLED else "none"
        label = what if how == LIVE else f"{what}, {how}"
        axes.vlines(times, 0, rows, colors=colour, alpha=0.35, linewidth=point / 42)
        axes.scatter(
            times, rows, s=point, marker=MARKERS[how], edgecolors=colour, facecolors=face, label=label, zorder=3
        )
    unknown: list[Any] = [one.created_at for one in versions if one.rows is None]
    if unknown:
        axes.scatter(unknown, [0] * len(unknown), marker="$?$", s=60, color="0.5", label="rows not known", zorder=4)
    if versions:
        ends: Any = min(one.created_at for one in versions), max(one.created_at for one in versions)
        edge = (ends[1] - ends[0]) * 0.03 or EDGE
        axes.set_xlim(ends[0] - edge, ends[1] + edge)
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True))
    axes.set_ylim(0, 1.08 * max((one.rows or 0 for one in versions), default=0) or 1)
    axes.set(xlabel="written at (UTC)", ylabel="rows")
    axes.set_title(f"{_cut(table)}: {_numbers(versions)}", loc="left", parse_math=False, usetex=False)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def rolled_back(versions: Sequence[VersionSummary]) -> frozenset[int]:
    """Return the versions whose rows a rollback has taken from readers, at least of some partitions."""
    gone: frozenset[int] = frozenset()
    gone_at: dict[int, frozenset[int]] = {}
    for one in sorted(versions, key=lambda each: each.version):
        found = ROLLBACK.fullmatch(one.mode) if one.state == LIVE and one.operation == "rollback" else None
        if found:
            to = int(found[1])
            gone = gone_at.get(to, frozenset()) | {seen for seen in gone_at if seen > to}
        gone_at[one.version] = gone
    return gone


def _groups(versions: Sequence[VersionSummary]) -> dict[tuple[str, str], list[VersionSummary]]:
    taken = rolled_back(versions)
    groups: dict[tuple[str, str], list[VersionSummary]] = {}
    for one in versions:
        how = TAKEN_BACK if one.state == LIVE and one.version in taken else one.state
        groups.setdefault((_action(one), how), []).append(one)
    return groups


def _order(group: tuple[tuple[str, str], list[VersionSummary]]) -> tuple[int, str]:
    """Put what readers have seen first."""
    (what, how), _ = group
    return list(MARKERS).index(how), what


def _actions(versions: Sequence[VersionSummary]) -> list[str]:
    return sorted({_action(one) for one in versions})


def _action(one: VersionSummary) -> str:
    """Writes by their mode, which is one of ours unless the entry was forged; all else by what it is."""
    return _cut(one.mode).replace("$", r"\$") if one.operation == "write" else one.operation


def _cut(text: str) -> str:
    """Keep what fits; the report has the whole of it."""
    shown = printable(text)
    return shown if len(shown) <= SHOWN_CHARACTERS else f"{shown[: SHOWN_CHARACTERS - 1]}…"


def _numbers(versions: Sequence[VersionSummary]) -> str:
    if not versions:
        return "no version yet"
    first, last = min(one.version for one in versions), max(one.version for one in versions)
    return f"version {first}" if first == last else f"versions {first} to {last}"
