"""The picture of the curves: log-log, so that a straight line of slope one is linear; on a light or dark ground."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

TEXT: Final = "#7d8590"  # reads well on white and on black
COLOURS: Final = {
    "messages": "#8b95a5",
    "complete": "#2f9e6e",
    "publish": "#d97706",
    "recover": "#c2410c",
    "history": "#7c6fd6",
    "vacuum": "#2b8ac6",
    "add": "#8b95a5",
    "read": "#7c6fd6",
    "alter": "#d97706",
    "of the client": "#2f9e6e",
}
LEAST_SECONDS: Final = 0.001


def draw(
    path: Path,
    over_files: Mapping[int, Sequence[Any]],
    over_partitions: Mapping[int, Sequence[Any]],
    metastore: Mapping[int, Mapping[str, Mapping[str, float]]],
) -> None:
    """Draw what was measured; an SVG that is the same for the same figures."""
    import matplotlib  # noqa: ICN001 - an optional extra

    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    panels = [(f"files, {ms} ms a request", _curves(points, "files")) for ms, points in over_files.items()]
    ms, points = list(over_partitions.items())[-1]
    panels.append((f"partitions of one file, {ms} ms a request", _curves(points, "partitions")))
    if metastore:
        panels.append(("partitions, real metastore (Hive 2.3, Derby)", _of_metastore(metastore)))
    settings = {"svg.fonttype": "none", "svg.hashsalt": "scale", "font.family": "sans-serif", "font.size": 8}
    colours = {f"{what}.color": TEXT for what in ("text", "xtick", "ytick", "grid")} | {"axes.edgecolor": TEXT}
    with plt.rc_context(settings | colours):
        figure, axes = plt.subplots(-(-len(panels) // 2), 2, figsize=(8.5, 5.6), squeeze=False)
        for axis in axes.flat[len(panels) :]:
            axis.set_visible(False)
        named: set[str] = set()
        for axis, (title, curves) in zip(axes.flat, panels, strict=False):
            _panel(axis, title, curves)
            if not named.issuperset(curves):  # once for all panels that show the same
                axis.legend(frameon=False, fontsize=7, labelcolor=TEXT)
            named |= curves.keys()
        figure.tight_layout()
        figure.savefig(path, transparent=True, metadata={"Date": None})
        plt.close(figure)


Curves = dict[str, tuple[list[int], list[float]]]


def _curves(points: Sequence[Any], size: str) -> Curves:
    sizes = [getattr(one, size) for one in points]
    return {step: (sizes, [one.seconds[step] for one in points]) for step in points[0].seconds}


def _of_metastore(metastore: Mapping[int, Mapping[str, Mapping[str, float]]]) -> Curves:
    sizes = list(metastore)
    curves: Curves = {
        step: (sizes, [metastore[size][step]["seconds"] for size in sizes]) for step in ("add", "read", "alter")
    }
    client = [sum(call["client_seconds"] for call in metastore[size].values()) for size in sizes]
    return curves | {"of the client": (sizes, client)}


def _panel(axis: Any, title: str, curves: Curves) -> None:
    for step, (sizes, seconds) in curves.items():
        shown = [max(value, LEAST_SECONDS) for value in seconds]
        axis.loglog(sizes, shown, marker=".", markersize=5, linewidth=1.4, color=COLOURS[step], label=step)
    sizes, _ = next(iter(curves.values()))
    top = max(seconds[-1] for _, seconds in curves.values()) * 2
    guide = [top * size / sizes[-1] for size in sizes]
    axis.loglog(sizes, guide, linestyle=":", linewidth=1, color=TEXT, label="linear")
    axis.set_title(f"seconds over {title}", color=TEXT, loc="left", fontsize=8)
    axis.set_ylim(bottom=LEAST_SECONDS)
    axis.minorticks_off()
    axis.tick_params(length=0)
    for scale in (axis.xaxis, axis.yaxis):
        scale.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.grid(visible=True, which="major", linewidth=0.3, alpha=0.5)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
