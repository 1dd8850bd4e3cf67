"""Reports in a real browser: nothing runs, nothing is fetched, all that the text says is there and can be read."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from .browser import HOSTS, SCHEMES, Scheme, facts, page
from .gallery import Gallery, hostile, usual

pytestmark = pytest.mark.slow  # a browser for each

LOOK: Final = r"""
const rgba = text => {
  const numbers = text.match(/[\d.]+/g).map(Number);
  return numbers.length > 3 ? numbers : [...numbers, 1];
};
const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
const ground = element => element === null ? [255, 255, 255, 1] :
  over(rgba(getComputedStyle(element).backgroundColor), ground(element.parentElement));
const opacity = element => element === null ? 1 :
  Number(getComputedStyle(element).opacity) * opacity(element.parentElement);
const light = colour => colour.slice(0, 3).map(part => part / 255)
  .map(part => part <= .03928 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4)
  .reduce((sum, part, i) => sum + part * [.2126, .7152, .0722][i], 0);
const contrast = element => {
  const below = ground(element), own = rgba(getComputedStyle(element).color);
  const shown = over([...own.slice(0, 3), own[3] * opacity(element)], below);
  const [high, low] = [light(shown), light(below)].sort((a, b) => b - a);
  return (high + .05) / (low + .05);
};
const reports = {};
for (const section of document.querySelectorAll('section')) {
  const report = section.querySelector('.table-writer');
  const words = [...report.querySelectorAll('p,th,td,caption')];
  reports[section.id] = {
    head: report.querySelector('.tw-head').textContent,
    lines: [...report.querySelectorAll('.tw-line')].map(one => one.textContent),
    tables: [...report.querySelectorAll('table')].map(table =>
      [...table.rows].map(row => [...row.cells].map(cell => cell.textContent))),
    contrast: Math.min(...words.map(contrast)),
    signs: [...report.querySelectorAll('.tw-chip')].map(one =>
      [one.textContent, getComputedStyle(one, '::before').content[1] ?? '']),
    aligned: [...report.querySelectorAll('th,td')].map(one => [one.textContent, getComputedStyle(one).textAlign]),
    sticksOut: report.scrollWidth - report.clientWidth,
    tags: [...new Set([...report.querySelectorAll('*')].map(one => one.tagName.toLowerCase()))].sort(),
    attributes: [...new Set([...report.querySelectorAll('*')].flatMap(one => one.getAttributeNames()))].sort(),
    dark: light(ground(report)) < .2,
    hidden: words.filter(one => one.getBoundingClientRect().height === 0).length,
  };
}
return {title: document.title, reports, fetched: performance.getEntriesByType('resource').map(one => one.name)};
"""
OURS: Final = {"bdi", "caption", "div", "p", "span", "style", "table", "tbody", "td", "th", "thead", "tr"}
AA: Final = 4.5  # WCAG: contrast of text, level AA
LEGIBLE: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]*")


def look(shown: Gallery, host: str, scheme: Scheme) -> dict[str, Any]:
    found, asked = facts(page(shown, host, scheme), scheme, LOOK)
    assert found["title"] == "untouched"
    assert set(asked) <= {"/favicon.ico"}, "the browser's own question, and no other"
    assert not [name for name in found["fetched"] if not name.endswith("/favicon.ico")]
    assert set(found["reports"]) == set(shown)
    return dict(found["reports"])


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("host", HOSTS)
def test_every_word_can_be_read_in_light_and_dark(host: str, scheme: Scheme) -> None:
    for name, report in look(usual(), host, scheme).items():
        assert report["contrast"] >= AA, name
        assert report["dark"] == (scheme == "dark"), name
        assert report["hidden"] == 0, name
        assert report["sticksOut"] <= 0, "wide tables scroll, and the page does not"


def test_hostile_names_are_words_and_all_of_them_are_there() -> None:
    shown = hostile()
    for name, report in look(shown, "jupyter", "light").items():
        assert set(report["tags"]) <= OURS, name
        assert set(report["attributes"]) <= {"class", "style", "tabindex"}, name
        assert report["contrast"] >= AA, name
        assert report["sticksOut"] <= 0, name
        words = [
            report["head"],
            *report["lines"],
            *(cell for table in report["tables"] for row in table for cell in row),
        ]
        assert all(LEGIBLE.fullmatch(word) for word in words), name


@pytest.mark.parametrize("gallery", [usual, hostile])
def test_the_browser_shows_the_cells_and_lines_of_the_plain_text(gallery: Any) -> None:
    shown = gallery()
    for name, report in look(shown, "plain", "light").items():
        text = repr(shown[name]).splitlines()
        assert report["head"] == text[0]
        rows = ["  ".join(" ".join(row).split()) for table in report["tables"] for row in table]
        told = ["  ".join(line.split()) for line in (*rows, *report["lines"])]
        titles = [line for line in text[1:] if re.fullmatch(r"  (checks|columns|rows that fail .*):", line)]
        assert sorted(told) == sorted("  ".join(line.split()) for line in text[1:] if line not in titles), name


def test_states_have_a_sign_beside_their_colour_and_figures_stand_right() -> None:
    reports = look(usual(), "jupyter", "light")
    signs = {tuple(sign) for sign in reports["history"]["signs"]}
    assert signs == {("published", "✓"), ("abandoned", "✗"), ("in doubt", "!")}
    assert {tuple(one) for one in reports["result"]["signs"]} >= {("failed (error)", "✗"), ("failed (warn)", "!")}
    sides = dict(map(tuple, reports["result"]["aligned"]))
    assert (sides["rows"], sides["1,204,311"], sides["partition"], sides["3"]) == ("right", "right", "left", "right")
