"""The history as a picture: every version is there, and what is not live is seen not to be."""

from __future__ import annotations

import builtins
import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection

from table_writer.display.reports import HistoryReport, VersionSummary

from .gallery import HOSTILE_NAMES, usual

VERSION: VersionSummary = replace(usual()["history"].versions[0], state="published", checks=())


@pytest.fixture(autouse=True)
def _no_figure_is_left() -> Iterator[None]:
    mpl.use("Agg")
    yield
    plt.close("all")


def version(number: int, **facts: Any) -> VersionSummary:
    return replace(VERSION, version=number, **facts)


def drawn(report: HistoryReport) -> Axes:
    axes = report.plot()
    assert axes.figure is not None
    axes.figure.canvas.draw()
    return axes


def points(axes: Axes) -> dict[str, int]:
    """Return how many points stand under each name of the legend."""
    found = (one for one in axes.collections if isinstance(one, PathCollection))
    return {str(one.get_label()): len(np.asarray(one.get_offsets())) for one in found}


def test_versions_are_told_apart_by_what_they_did_and_how_they_ended() -> None:
    versions = (
        version(1, mode="append"),
        version(2, mode="append", state="abandoned"),
        version(3, mode="overwrite_table", rolled_back_count=1),
        version(4, mode="rollback to version 1", operation="rollback"),
        version(5, mode="append", state="in doubt", rows=None),
    )
    axes = drawn(HistoryReport(table="mart.orders", versions=versions))
    assert points(axes) == {
        "append": 1,
        "append, abandoned": 1,
        "append, in doubt": 1,
        "overwrite_table, rolled back": 1,
        "rollback": 1,
        "rows not known": 1,
    }
    assert axes.get_title(loc="left") == "mart.orders: versions 1 to 5"


@pytest.mark.parametrize("count", [0, 1, 10_000])
def test_any_number_of_versions_is_drawn(count: int) -> None:
    axes = drawn(HistoryReport(table="t", versions=tuple(version(n) for n in range(1, count + 1))))
    assert sum(points(axes).values()) == count


def test_the_size_of_the_table_is_drawn_beside_the_rows_of_each_version() -> None:
    sizes = [(1, "published", 10), (2, "abandoned", 10), (3, "published", None), (4, "published", 30)]
    versions = tuple(version(number, state=state, table_bytes=found) for number, state, found in sizes)
    axes = drawn(HistoryReport(table="t", versions=versions[::-1]))
    assert axes.figure is not None
    (beside,) = (one for one in axes.figure.axes if one is not axes)
    assert beside.get_ylabel() == "table size"
    (line,) = beside.get_lines()
    assert np.asarray(line.get_ydata()).tolist() == pytest.approx([10, math.nan, 30], nan_ok=True)
    without = drawn(HistoryReport(table="t", versions=(version(1, table_bytes=None),)))
    assert without.figure is not None
    assert without.figure.axes == [without]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_hostile_names_are_text_and_no_formula(name: str) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)  # the font lacks some
        drawn(HistoryReport(table=name, versions=(version(1, mode=name),)))


def test_it_has_the_colours_of_the_style_in_use() -> None:
    with plt.style.context("dark_background"):
        dark = drawn(HistoryReport(table="t", versions=(version(1),)))
        assert mpl.colors.to_hex(dark.figure.get_facecolor()) == "#000000"
        assert mpl.colors.to_hex(dark.title.get_color()) == "#ffffff"


def test_it_draws_on_axes_that_are_given() -> None:
    _, axes = plt.subplots()
    assert HistoryReport(table="t").plot(axes) is axes


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **keywords: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ValueError, match=r"pip install 'table-writer\[plot\]'"):
        HistoryReport(table="t").plot()
