"""The history of a table as a picture."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from table_writer.errors import InvalidInputError, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from table_writer.display.reports import VersionSummary

__all__ = ["plot_versions", "rolled_back"]

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
