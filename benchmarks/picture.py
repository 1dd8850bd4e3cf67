"""The picture: seconds of each contender, without and with latency, on a ground that may be light or dark."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from benchmarks.outcome import CaseOutcome, Report

TEXT: Final = "#7d8590"  # reads well on white and on black
OURS: Final = "#2f9e6e"
PEER: Final = "#8b95a5"
BAR: Final = 0.62
INCHES_A_BAR: Final = 0.3


def draw(report: Report, path: Path) -> None:
    """Draw the cases that all contenders wrote; an SVG that is the same for the same figures."""
    import matplotlib  # noqa: ICN001 - an optional extra

    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    cases = [case for case in report.cases if len(case.outcomes) > 2] or report.cases
    columns = max(1 + len(_latencies(case)) for case in cases)
    rows = max(len(case.outcomes) for case in cases)
    size = (4.5 * columns, (rows * INCHES_A_BAR + 0.9) * len(cases))
    settings = {"svg.fonttype": "none", "svg.hashsalt": "bench", "font.family": "sans-serif", "font.size": 9}
    with plt.rc_context(settings | {"text.color": TEXT, "xtick.color": TEXT, "ytick.color": TEXT}):
        figure, axes = plt.subplots(len(cases), columns, figsize=size, squeeze=False)
        for axis in axes.flat:
            axis.set_axis_off()
        for case, row in zip(cases, axes, strict=True):
            for number, (axis, ms) in enumerate(zip(row, ["0", *_latencies(case)], strict=False)):
                axis.set_axis_on()
                _panel(axis, case, ms, named=number == 0)
        figure.tight_layout()
        figure.savefig(path, transparent=True, metadata={"Date": None} if path.suffix == ".svg" else None)
        plt.close(figure)


def _latencies(case: CaseOutcome) -> list[str]:
    return sorted({ms for one in case.outcomes for ms in one.latency_seconds}, key=float)


def _panel(axis: Any, case: CaseOutcome, ms: str, *, named: bool) -> None:
    shown = [one for one in case.outcomes if not one.error][::-1]
    values = [(one.seconds if ms == "0" else one.latency_seconds.get(ms)) or 0 for one in shown]
    colours = [OURS if one.ours else PEER for one in shown]
    bars = axis.barh(range(len(shown)), values, height=BAR, color=colours)
    axis.bar_label(bars, [f"{value:.1f} s" for value in values], padding=3, color=TEXT)
    axis.set_yticks(range(len(shown)), [one.title.rstrip(" ¹²³") for one in shown] if named else [""] * len(shown))
    axis.set_title(f"{case.name}, {'no latency' if ms == '0' else f'{ms} ms a request'}", color=TEXT, loc="left")
    axis.set_xlim(0, max(values, default=1) * 1.18 or 1)
    axis.tick_params(length=0)
    axis.xaxis.set_visible(False)
    for spine in axis.spines.values():
        spine.set_visible(False)
