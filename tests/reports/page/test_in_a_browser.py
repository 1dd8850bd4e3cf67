"""The page in a real browser: at three widths, light and dark, by keyboard, on paper, without a script."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.reports.browser import SCHEMES, Scheme, steered
from tests.reports.gallery import HOSTILE_NAMES
from tests.reports.page.pages import WIDTHS, empty_page, hostile_page, huge_page, usual_page

pytestmark = pytest.mark.slow  # a browser for each

AA, GRAPHICS = 4.5, 3.0  # WCAG: contrast of text, and of what pictures are made of
LOOK: Final = r"""
const rgba = text => {
  const numbers = (text.match(/[\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  return text.startsWith('color(') ? [...numbers.slice(0, 3).map(n => n * 255), numbers[3] ?? 1]
    : numbers.length > 3 ? numbers : [...numbers, 1];
};
const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
const ground = one => one === null ? [255, 255, 255, 1]
  : over(rgba(getComputedStyle(one).backgroundColor), ground(one.parentElement));
const light = colour => colour.slice(0, 3).map(part => part / 255)
  .map(part => part <= .03928 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4)
  .reduce((sum, part, i) => sum + part * [.2126, .7152, .0722][i], 0);
const against = (colour, below) => {
  const [high, low] = [light(over(rgba(colour), below)), light(below)].sort((a, b) => b - a);
  return (high + .05) / (low + .05);
};
const shown = one => one.getClientRects().length > 0;
const texts = 'h1,h2,p,dt,dd,small,li,th,td,code,footer,button,label,.tw-chip,.tw-y,.tw-x';
const words = [...document.querySelectorAll(texts)]
  .filter(one => shown(one) && one.textContent.trim());
const shapes = '.tw-card :is(rect,circle,path,line):not(.tw-hit,.tw-rule,.tw-area,.tw-past)';
const drawn = [...document.querySelectorAll(shapes)];
const seen = one => {
  const {fill, stroke} = getComputedStyle(one), below = ground(one.closest('.tw-card'));
  return Math.max(...[fill, stroke].filter(paint => paint !== 'none').map(paint => against(paint, below)));
};
const boxes = [...document.querySelectorAll('.tw-scroll')];
return {
  sideways: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  outside: [...document.querySelectorAll('.tw-page *')]
    .filter(one => shown(one) && !one.closest('.tw-scroll'))
    .filter(one => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
    .map(one => one.outerHTML.slice(0, 80)),
  contrast: Math.min(...words.map(one => against(getComputedStyle(one).color, ground(one)))),
  pictures: Math.min(...drawn.map(seen), 9),
  dark: light(ground(document.querySelector('.tw-page'))) < .2,
  title: document.title,
  scripts: document.scripts.length,
  boxes: boxes.every(one => one.tabIndex === 0 && one.getAttribute('role') === 'region'),
  rows: document.querySelectorAll('tbody tr').length,
  fetched: performance.getEntriesByType('resource').map(one => one.name),
};
"""


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_and_can_be_read_at_every_width_in_light_and_dark(width: int, scheme: Scheme) -> None:
    with steered(usual_page().to_html(), scheme, width) as tab:
        found = tab.run(LOOK)
    assert (found["sideways"], found["outside"]) == (0, [])
    assert found["contrast"] >= AA
    assert found["pictures"] >= GRAPHICS
    assert found["dark"] == (scheme == "dark")
    assert found["boxes"]
    assert found["fetched"] == []


def test_names_that_attack_are_words_and_fit_on_a_telephone() -> None:
    every = hostile_page("".join(HOSTILE_NAMES))
    with steered(every.to_html(), "light", 375) as tab:
        found = tab.run(LOOK)
    assert (found["sideways"], found["scripts"], found["fetched"]) == (0, 1, [])
    assert "broken" not in found["title"].replace("document.title='broken'", "")
    assert found["contrast"] >= AA


@pytest.mark.parametrize("page", [huge_page, empty_page])
def test_the_largest_and_the_smallest_page_fit_too(page: Any) -> None:
    with steered(page().to_html(), "dark", 768) as tab:
        found = tab.run(LOOK)
        ready = tab.run("return performance.getEntriesByType('navigation')[0].domComplete")
    assert (found["sideways"], found["outside"]) == (0, [])
    assert ready < 3_000, "milliseconds, on a busy machine"


def test_the_keyboard_reaches_all_sorts_and_filters() -> None:
    with steered(usual_page().to_html(), "light", 1440) as tab:
        tab.press("Tab", 9)
        assert tab.run("return document.activeElement.className") == "tw-skip"
        assert tab.run("return document.activeElement.getBoundingClientRect().left") >= 0, "seen once it has the focus"
        tab.press("Enter", 13, "\r")
        assert tab.run("return location.hash") == "#tables"
        rows = "return [...document.querySelectorAll('#tables table')[0].tBodies[0].rows]"
        first = f"{rows}.filter(one => !one.hidden).map(one => one.cells[0].textContent)"
        for _ in range(50):
            tab.press("Tab", 9)
            if tab.run("return document.activeElement.tagName") == "INPUT":
                break
        assert tab.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
        for letter in "append":
            tab.press(letter, ord(letter.upper()), letter)
        found = tab.run(first)
        assert found
        assert len(found) < 45
        assert tab.run("return document.querySelector('output').textContent") == f"{len(found)} of 45"
        tab.run("document.activeElement.value = ''; document.activeElement.dispatchEvent(new Event('input'))")
        for _ in range(2):
            tab.press("Tab", 9)  # the box that scrolls, then its first heading
        for order, wanted in (("descending", ["45", "44", "43"]), ("ascending", ["1", "2", "3"])):
            tab.press("Enter", 13, "\r")
            assert tab.run("return document.activeElement.parentElement.getAttribute('aria-sort')") == order
            assert tab.run(first)[:3] == wanted


def test_figures_are_sorted_as_numbers() -> None:
    with steered(usual_page().to_html(), "light", 1440) as tab:
        sizes = """
        const table = document.querySelectorAll('#tables table')[0];
        const column = [...table.tHead.rows[0].cells].findIndex(one => one.textContent.trim() === 'size');
        table.tHead.rows[0].cells[column].querySelector('button').click();
        return [...table.tBodies[0].rows].map(row => Number(row.cells[column].dataset.n));
        """
        found = tab.run(sizes)
    assert found == sorted(found, reverse=True)
    assert len(set(found)) > 10


def test_all_is_there_without_a_script_and_on_paper() -> None:
    text = usual_page().to_html()
    with steered(text, "light", 768) as tab:
        with_script = tab.run(LOOK)["rows"]
        tab.call("Emulation.setEmulatedMedia", media="print")
        paper = "return [...document.querySelectorAll('.tw-scroll')].map(one => getComputedStyle(one).overflowY)"
        assert set(tab.run(paper)) == {"visible"}
        assert tab.run("return getComputedStyle(document.querySelector('.tw-filter')).display") == "none"
    with steered(text.replace("<script>", "<script type=none>"), "light", 768) as tab:
        assert tab.run(LOOK)["rows"] == with_script
        assert tab.run("return document.querySelectorAll('button,input').length") == 0, "nothing that does nothing"


def test_nothing_moves_for_those_who_do_not_want_it() -> None:
    with steered(usual_page().to_html(), "light", 768) as tab:
        features = [{"name": "prefers-reduced-motion", "value": "reduce"}]
        tab.call("Emulation.setEmulatedMedia", features=features)
        moving = "return [...document.querySelectorAll('*')].map(one => getComputedStyle(one).transitionDuration)"
        assert set(tab.run(moving)) == {"0s"}
