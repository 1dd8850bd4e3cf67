"""The history as a picture: every version is there, and what is not live is seen not to be."""

from __future__ import annotations

import builtins
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

from table_writer.display.reports import HistoryReport, VersionSummary, rolled_back

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
        version(3, mode="overwrite_table"),
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


def test_a_rollback_to_before_a_rollback_brings_rows_back() -> None:
    writes = [version(n) for n in (1, 2, 3)]
    back = version(4, mode="rollback to version 1", operation="rollback")
    assert rolled_back([*writes, back]) == {2, 3}
    assert rolled_back([*writes, replace(back, state="abandoned")]) == frozenset()
    again = version(5, mode="rollback to version 3", operation="rollback")
    assert rolled_back([*writes, back, again]) == {4}


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
