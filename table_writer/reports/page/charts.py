"""Draw the pictures of the page as SVG, so that it needs no script for them. Pure functions.

Shapes stretch with the page (``preserveAspectRatio="none"``); words stand beside them as HTML and keep their size.
Text of users is escaped and never stands in an attribute; the ``title`` of a picture has none of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from table_writer.errors import counted
from table_writer.reports.html import html_text
from table_writer.reports.layout import size

WIDTH, HEIGHT = 1000, 200  # of a picture that stretches
TIDY: Final = (1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 800, 1000, 1024)
LINE: Final = 22  # pixels of a partition in the picture of generations
TICKS: Final = 10  # version numbers below the generations, at most; half of them on a narrow screen
MARKS: Final = {  # of what happened to a partition: each has a shape of its own, colour is never the only difference
    "added": '<circle cx="0" cy="0" r="5"/>',
    "replaced": '<rect x="-4.5" y="-4.5" width="9" height="9" rx="1.5"/>',
    "appended": '<path d="M-5,4L0,-6L5,4Z"/>',
    "compacted": '<path d="M0,-6L6,0L0,6L-6,0Z"/>',
    "dropped": '<path class="tw-cross" d="M-4,-4L4,4M-4,4L4,-4"/>',
    "in doubt": '<circle class="tw-open" cx="0" cy="0" r="4.5"/>',
}


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its length, its style, and its title."""

    value: float
    kind: str  # a class of the style sheet
    title: str


@dataclass(frozen=True, slots=True)
class Share:
    """One line of a list of bars: a label, lengths by kind, and the figure at the end."""

    label: str
    parts: tuple[tuple[str, float], ...]
    figure: str


def steps(title: str, points: Sequence[tuple[float, float | None]], ends: Sequence[str], shown: str = "bytes") -> str:
    """Draw a figure over time as steps: it holds until the next point; ``None`` is a gap."""
    values = [value for _, value in points if value is not None]
    top = tidy(max(values, default=0), shown)
    first_at, last_at = (points[0][0], points[-1][0]) if points else (0.0, 1.0)
    span = (last_at - first_at) or 1.0
    runs: list[list[tuple[float, float]]] = [[]]
    for at, value in points:
        x = (at - first_at) / span * WIDTH
        if runs[-1]:
            runs[-1].append((x, runs[-1][-1][1]))
        if value is None:
            runs += [[]] if runs[-1] else []
            continue
        runs[-1].append((x, HEIGHT * (1 - value / top)))
    if len(points) == 1 and runs[-1]:
        runs[-1].append((WIDTH, runs[-1][-1][1]))
    shapes = "".join(_area(run) + _line(run) for run in runs if run)
    return _plot(title, shapes, top, shown, ends)


def _line(run: Sequence[tuple[float, float]]) -> str:
    return f'<path class="tw-stroke" d="M{_points(run)}"/>'


def _area(run: Sequence[tuple[float, float]]) -> str:
    return f'<path class="tw-area" d="M{_xy(run[0][0], HEIGHT)}L{_points(run)}L{_xy(run[-1][0], HEIGHT)}Z"/>'


def _points(run: Iterable[tuple[float, float]]) -> str:
    return " ".join(_xy(x, y) for x, y in run)


def _xy(x: float, y: float) -> str:
    return f"{x:.1f},{y:.1f}"


def bars(title: str, data: Sequence[Bar], ends: Sequence[str]) -> str:
    """Draw bars side by side, each with a title that a pointer shows."""
    top = tidy(max((bar.value for bar in data), default=0))
    width = WIDTH / max(len(data), 12)  # so that few bars are not too wide
    shapes = []
    for number, bar in enumerate(data):
        height = max(HEIGHT * bar.value / top, 1.5 if bar.value else 0)
        x, bar_width = number * width + width * 0.12, width * 0.76
        box = f'x="{x:.1f}" y="{HEIGHT - height:.1f}" width="{bar_width:.1f}" height="{height:.1f}"'
        hit_area = f'<rect class="tw-hit" x="{number * width:.1f}" y="0" width="{width:.1f}" height="{HEIGHT}"/>'
        shapes.append(f'<g><title>{html_text(bar.title)}</title>{hit_area}<rect class="tw-{bar.kind}" {box}/></g>')
    return _plot(title, "".join(shapes), top, "bytes", ends if len(data) >= 12 else ends[:1])


def _plot(title: str, shapes: str, top: float, shown: str, ends: Sequence[str]) -> str:
    rules = "".join(f'<path class="tw-rule" d="M0,{HEIGHT * fraction}H{WIDTH}"/>' for fraction in (0, 0.5, 1))
    spell = size if shown == "bytes" else lambda value: f"{value:,.0f}" if value == int(value) else ""
    scale = "".join(f"<span>{spell(top * fraction)}</span>" for fraction in (1, 0.5, 0))
    dates = "".join(f"<span>{html_text(end)}</span>" for end in ends)
    return (
        f'<div class="tw-plot"><div class="tw-y" aria-hidden="true">{scale}</div>'
        f'<svg role="img" aria-label="{title}" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none">'
        f"{rules}{shapes}</svg>"
        f'<div class="tw-x" aria-hidden="true">{dates}</div></div>'
    )


def tidy(least_end: float, shown: str = "bytes") -> float:
    """Return the end of an axis: a round number that is not less.

    Examples
    --------
    >>> tidy(3_500_000_000) == 4 * 1024**3, tidy(130, "count")
    (True, 200)
    """
    base = 1024 if shown == "bytes" else 1000
    unit = base ** max(0, int(math.log(least_end, base))) if least_end >= 1 else 1
    return next((multiple * unit for multiple in TIDY if multiple * unit >= least_end), base * unit)


def shares(lines: Sequence[Share]) -> str:
    """Draw a list of horizontal bars, each between its label and its figure; screen readers read it as a list."""
    longest = max((sum(part for _, part in share.parts) for share in lines), default=0) or 1
    return f'<ul class="tw-shares">{"".join(_share(share, longest) for share in lines)}</ul>'


def _share(share: Share, longest: float) -> str:
    shapes, x = "", 0.0
    for kind, length in share.parts:
        width = 100 * length / longest
        shapes += f'<rect class="tw-{kind}" x="{x:.2f}%" y="0" width="{width:.2f}%" height="100%"/>' if length else ""
        x += width
    bar = f'<svg aria-hidden="true" width="100%" height="14">{shapes}</svg>'
    return f"<li><span>{html_text(share.label)}</span>{bar}<b>{html_text(share.figure)}</b></li>"


def generations(title: str, versions: Sequence[int], rows: Sequence[tuple[str, Sequence[tuple[int, str]]]]) -> str:
    """Draw a line for each partition: a mark where a version changed it, and a bar while its rows lived."""
    at = {version: 100 * (number + 0.5) / len(versions) for number, version in enumerate(versions)}
    height = LINE * len(rows)
    lives = "".join(_generation(changes, at, LINE * number + LINE // 2) for number, (_, changes) in enumerate(rows))
    names = "".join(f"<li>{html_text(name)}</li>" for name, _ in rows)
    ticked_versions = list(at.items())[:: -max(1, math.ceil(len(versions) / TICKS))]
    ticks = "".join(
        f'<text class="tw-tick{number % 2}" x="{x:.2f}%" y="{height + 16}">{version}</text>'
        for number, (version, x) in enumerate(ticked_versions)
    )
    return (
        f'<div class="tw-lives"><ul>{names}</ul>'
        f'<svg role="img" aria-label="{title}" width="100%" height="{height + 22}">{lives}{ticks}</svg></div>'
    )


def _generation(changes: Sequence[tuple[int, str]], at: Mapping[int, float], y: int) -> str:
    """Draw the line of one partition: it is as wide as the page allows, and its marks are not stretched."""
    shapes = []
    # readers may see an entry in doubt, or the rows before it
    settled_changes = [change for change in changes if change[1] != "in doubt"]
    # an append keeps the rows that are there
    lives = settled_changes[:1] + [change for change in settled_changes[1:] if change[1] != "appended"]
    for number, (version, change) in enumerate(lives):
        next_change = lives[number + 1] if number + 1 < len(lives) else None
        to = 100.0 if next_change is None else at[next_change[0]]
        kind = "life" if next_change is None else "past"
        if change != "dropped":
            shapes.append(f'<line class="tw-{kind}" x1="{at[version]:.2f}%" x2="{to:.2f}%" y1="{y}" y2="{y}"/>')
    for number, (version, change) in enumerate(changes):
        earlier_version = f", after version {changes[number - 1][0]}" if number else ""
        title = f"<title>version {version}: {html_text(change)}{earlier_version}</title>"
        mark = _mark(change if change in MARKS else "replaced", title)
        shapes.append(f'<svg aria-hidden="true" x="{at[version]:.2f}%" y="{y}" overflow="visible">{mark}</svg>')
    return "".join(shapes)


def _mark(change: str, title: str = "") -> str:
    return f'<g class="tw-mark tw-{change.removeprefix("in ")}">{title}{MARKS[change]}</g>'


def legend(kinds: Mapping[str, str]) -> str:
    """Draw the legend of colours; ``kinds`` gives the style class of each word."""
    keys = (
        f'<li><svg aria-hidden="true" width="12" height="12"><rect class="tw-{kind}" width="12" height="12" rx="3"/>'
        f"</svg>{html_text(word)}</li>"
        for word, kind in kinds.items()
    )
    return f'<ul class="tw-legend">{"".join(keys)}</ul>'


def legend_of_marks(changes: Iterable[str]) -> str:
    """Draw the legend of the marks that are shown."""
    shown_changes = set(changes)
    keys = (
        f'<li><svg aria-hidden="true" width="14" height="14" viewBox="-7 -7 14 14">{_mark(change)}</svg>{change}</li>'
        for change in MARKS
        if change in shown_changes
    )
    return f'<ul class="tw-legend">{"".join(keys)}</ul>'


def strip(outcomes: Sequence[tuple[int, str]]) -> str:
    """Draw the runs of one check, the newest right: a low bar has passed, a high one has failed."""
    shapes = []
    for number, (version, outcome) in enumerate(outcomes):
        kind = {"passed": "good", "failed (warn)": "warn"}.get(outcome, "bad")
        height = 7 if kind == "good" else 16
        title = f"<title>version {version}: {html_text(outcome)}</title>"
        box = f'x="{7 * number}" y="{16 - height}" width="5" height="{height}" rx="1"'
        shapes.append(f'<rect class="tw-{kind}" {box}>{title}</rect>')
    failed_count = sum(outcome != "passed" for _, outcome in outcomes)
    title_of_all = f"{counted(len(outcomes), 'run')}, {failed_count:,} failed"
    return (
        f'<svg role="img" aria-label="{title_of_all}" width="{7 * len(outcomes)}" height="16">{"".join(shapes)}</svg>'
    )
