"""A picture hides what it is about.

Seen by a user: on a telephone the page's picture of versions was scrolled to its right end, where partitions that
changed earlier look as if nothing had happened.
"""

from __future__ import annotations

import re

import pytest

from tests.reports.browser import steered
from tests.reports.page.pages import WIDTHS, usual_page

MARKS_OUTSIDE = """
const inside = [0, document.documentElement.clientWidth];
return [...document.querySelectorAll('.tw-lives .tw-mark')].map(mark => mark.getBoundingClientRect())
  .filter(box => box.left < inside[0] || box.right > inside[1]).length;
"""


def test_the_picture_of_versions_is_as_wide_as_the_page_and_never_scrolled() -> None:
    html = usual_page().to_html()
    (drawn,) = re.findall(r'<div class="tw-lives">.*?</div>', html)
    assert "tw-scroll" not in drawn
    assert "scrollLeft" not in html
    assert all(0 <= float(place) <= 100 for place in re.findall(r'<svg aria-hidden="true" x="([\d.]+)%"', drawn))


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_every_mark_of_the_picture_is_on_the_screen(width: int) -> None:
    with steered(usual_page().to_html(), "light", width) as tab:
        assert tab.run(MARKS_OUTSIDE) == 0
