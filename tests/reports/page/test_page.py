"""The page is one file that fetches nothing, whatever others have named their things, however large the table."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from base64 import b64encode
from dataclasses import fields, replace
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest

from table_writer.errors import InvalidInputError
from table_writer.reports.page import charts
from table_writer.reports.page.table_page import TablePage
from tests.reports.gallery import HOSTILE_NAMES
from tests.reports.page.pages import empty_page, hostile_page, huge_page, usual_page

PAGES = {"usual": usual_page, "empty": empty_page, "huge": huge_page}
MOST_BYTES = 400_000
FETCHING = {"src", "href", "srcset", "data", "action", "formaction", "poster", "background", "xlink:href", "style"}


class Seen(HTMLParser):
    """Elements and attributes, as a parser of HTML sees them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: set[str] = set()
        self.attributes: set[tuple[str, str | None]] = set()
        self.open: list[str] = []
        self.text: dict[str, str] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes.update(attrs)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.open.pop()

    def handle_data(self, data: str) -> None:
        name = self.open[-1] if self.open else ""
        self.text[name] = self.text.get(name, "") + data


@pytest.mark.parametrize("made", PAGES.values(), ids=PAGES)
def test_it_is_small_and_ascii_and_fetches_nothing(made: type) -> None:
    text = made().to_html()
    assert text.isascii()
    assert len(text) < MOST_BYTES
    seen = Seen(text)
    links = {value for name, value in seen.attributes if name in FETCHING}
    assert links == {"#tables"}
    assert not re.search(r"url\(|@import|https?:", seen.text["style"] + seen.text["script"])
    assert seen.elements.isdisjoint({"link", "iframe", "object", "embed", "img", "base", "form", "use", "image"})


def test_its_policy_lets_its_own_style_and_script_run_and_no_other() -> None:
    text = usual_page().to_html()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    allowed = dict(part.strip().split(" ", 1) for part in policy[1].split(";"))
    assert allowed["default-src"] == allowed["base-uri"] == allowed["form-action"] == "'none'"
    for tag in ("style", "script"):
        (own,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, flags=re.DOTALL)
        assert allowed[f"{tag}-src"] == f"'sha256-{b64encode(hashlib.sha256(own.encode()).digest()).decode()}'"


@pytest.mark.parametrize("word", HOSTILE_NAMES, ids=range(len(HOSTILE_NAMES)))
def test_words_of_others_make_no_element_and_no_attribute(word: str) -> None:
    tame, hostile = Seen(hostile_page("x").to_html()), Seen(hostile_page(word).to_html())
    assert hostile.elements == tame.elements
    assert hostile.attributes - {("class", "tw-long")} == tame.attributes  # a long word may be folded
    assert hostile.text["script"] == tame.text["script"]
    assert not re.search(
        r"[\x00-\x09\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", "".join(hostile.text.values())
    )


def test_every_picture_says_what_it_shows_and_the_figures_are_in_a_table() -> None:
    text = usual_page().to_html()
    pictures = re.findall(r"<svg role=\"img\".*?</svg>", text, flags=re.DOTALL)
    assert pictures
    assert all(re.match(r'<svg role="img" aria-label="[^"]+"', picture) for picture in pictures)
    plain = re.findall(r"<svg (?!role=\"img\")([^>]*)>", text)
    assert all("aria-hidden" in attributes for attributes in plain)
    cells = Seen(text).text["td"]
    page = usual_page()
    assert all(f"{one.version}" in cells and f"{one.rows:,}" in cells for one in page.versions)


def test_rows_live_until_others_take_their_place_not_while_more_come_beside_them() -> None:
    changes = ((1, "added"), (2, "appended"), (3, "compacted"), (4, "in doubt"))
    drawn = charts.generations("", (1, 2, 3, 4), [("dt=1", changes)])
    assert drawn.count('class="tw-past"') == drawn.count('class="tw-life"') == 1
    assert drawn.count('class="tw-mark ') == len(changes)


def test_partitions_that_somebody_asks_about_are_shown_first() -> None:
    usual = usual_page(days=300)
    *others, last = usual.partitions
    page = replace(usual, partitions=(*others, replace(last, state="behind", version=None)))
    shown = page.to_html()
    assert "200 of 300, those not in place first" in shown
    assert f"<td>{last.name}</td>" in shown


def test_a_writer_whose_clock_is_late_does_not_change_which_size_is_the_newest() -> None:
    usual = usual_page()
    newest, *others = (one for one in usual.versions if one.state == "published")
    late = replace(newest, created_at=others[-1].created_at - timedelta(days=1), table_bytes=7 * 1024)
    assert "After each version, now 7.0 KiB" in replace(usual, versions=(late, *others)).to_html()


def test_what_other_tools_wrote_is_not_said_to_have_no_rows() -> None:
    foreign = replace(
        usual_page().partitions[0], version=None, rows=None, files=None, bytes=None, state="not in the log"
    )
    shown = replace(empty_page(), partitions=(foreign,)).to_html()
    assert "<dt>Rows</dt><dd>?<small>1 partition not counted</small>" in shown
    assert "<dt>Size</dt><dd>?" in shown


def test_the_fragment_for_notebooks_has_no_script() -> None:
    shown = usual_page()._repr_html_()
    assert "<script" not in shown
    assert " id=" not in shown, "several reports stand in one notebook"
    assert "<svg" in shown


def test_saving_replaces_the_page_in_one_moment(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    seen: set[str] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(file.read_text()[-7:])

    usual_page().save(file)
    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(30):
        usual_page().save(file)
    done.set()
    reader.join()
    assert seen == {"</html>"}
    assert list(tmp_path.iterdir()) == [file]


def test_a_page_that_is_saved_again_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    for mode in (0o600, 0o664):
        empty_page().save(file)
        file.chmod(mode)
        usual_page().save(file)
        assert file.stat().st_mode & 0o777 == mode


def test_a_link_stays_a_link_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    real, link, pipe = tmp_path / "real.html", tmp_path / "link.html", tmp_path / "pipe"
    real.write_text("old")
    link.symlink_to(real)
    empty_page().save(link)
    assert link.is_symlink()
    assert real.read_text().endswith("</html>")
    os.mkfifo(pipe)
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    empty_page().save(pipe)
    reader.join()
    assert found[0].endswith("</html>")


@pytest.mark.parametrize("name", ["none/page.html", "."])
def test_a_file_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInputError, match=r"page of mart\.orders cannot be written to .*Name a file"):
        empty_page().save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_plain_values_have_all_of_it() -> None:
    facts = usual_page().to_dict()
    assert {one.name for one in fields(TablePage)} <= set(facts)
    assert (facts["format"], facts["healthy"], facts["versions"][0]["version"]) == (1, False, 45)
