"""The page as HTML: figures, what is in doubt, pictures, tables. One file that fetches nothing.

Every word of others is text, escaped, and none stands in an attribute. The policy in the head lets the browser use this
style sheet and this script alone, known by their digests.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from table_writer.display.many_report import OK
from table_writer.display.report import (
    IGNORED_BY_MATH,
    USUAL_FIGURES,
    USUAL_STATES,
    Columns,
    Grid,
    html_text,
    size,
    tags_line,
    tone,
)
from table_writer.display.reports import DELETED, HISTORY_COLUMNS, LIVE, VersionSummary
from table_writer.errors import counted
from table_writer.page import charts
from table_writer.version import __version__

if TYPE_CHECKING:
    from table_writer.page.table_page import TablePage

MOST_TROUBLES, MOST_BARS, MOST_CHECKS, MOST_RUNS = 12, 80, 50, 40
MOST_VERSIONS, MOST_PARTITIONS, MOST_LOCATIONS = 100, 200, 50
MIB: Final = 1024 * 1024
FILE_SIZES: Final = (0, MIB, 8 * MIB, 32 * MIB, 128 * MIB, 512 * MIB)
KINDS: Final = {  # of what a version did: the class of its bar
    "overwrite_partitions": "c1",
    "append": "c2",
    "create_partitions": "c3",
    "overwrite_table": "c4",
    "compact": "c5",
}
OTHER_KIND: Final = "c6"
Keys = Mapping[str, Callable[[Any], float | None]]
"""By heading: what a column is sorted by, where it shows figures."""

VERSIONS: Final[Columns] = {**HISTORY_COLUMNS, "tags": lambda one: tags_line(one.tags)}
VERSION_KEYS: Final[Keys] = {
    "version": lambda one: one.version,
    "rows": lambda one: one.rows,
    "size": lambda one: one.bytes,
    "table size": lambda one: one.table_bytes,
}
PARTITIONS: Final[Columns] = {
    "partition": "name",
    "state": "state",
    "version": lambda one: None if one.version is None else str(one.version),
    "changed": lambda one: None if one.age_seconds is None else f"{ago(one.age_seconds)} ago",
    "rows": "rows",
    "files": "files",
    "size": lambda one: None if one.bytes is None else size(one.bytes),
    "a file": lambda one: size(one.bytes / one.files) if one.files else "-",
}
PARTITION_KEYS: Final[Keys] = {
    "version": lambda one: one.version,
    "changed": lambda one: None if one.age_seconds is None else -one.age_seconds,
    "rows": lambda one: one.rows,
    "files": lambda one: one.files,
    "size": lambda one: one.bytes,
    "a file": lambda one: one.bytes / one.files if one.files else None,
}
DELETED_KEYS: Final[Keys] = {"objects": lambda one: len(one.keys), "size": lambda one: one.bytes}
AT_WORK: Final[Columns] = {
    "write_id": "write_id",
    "state": "state",
    "last sign": lambda one: f"{ago(one.age_seconds)} ago",
    "who": lambda one: f"{one.user}@{one.host}",
}


def ago(seconds: float) -> str:
    """Spell how long something is, in its largest unit.

    Examples
    --------
    >>> ago(59), ago(3_600), ago(200_000)
    ('59 seconds', '1 hour', '2 days')
    """
    units = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
    unit, noun = next(((one, noun) for one, noun in units if seconds >= one), units[-1])
    return counted(int(seconds // unit), noun)


def document(page: TablePage) -> str:
    """Return the whole page. It is ASCII, so that no server and no terminal can misread it."""
    style, script = _resource("page.css"), _resource("page.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; base-uri 'none';"
        " form-action 'none'"
    )
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="referrer" content="no-referrer">'
        f'<meta name="color-scheme" content="light dark"><title>{html_text(page.table)}</title>'
        f"<style>{style}</style></head><body>"
        '<a class="tw-skip" href="#tables">Skip the pictures</a>'
        f'<main class="tw-page tw-whole">{_top(page)}{_pictures(page)}{_tables(page)}{_foot(page)}</main>'
        f"<script>{script}</script></body></html>"
    )
    return text.encode("ascii", "xmlcharrefreplace").decode()


def fragment(page: TablePage) -> str:
    """Return figures, troubles and pictures for a notebook, without tables and without a script."""
    style = _resource("page.css")
    return f'<div class="tw-page {IGNORED_BY_MATH}"><style>{style}</style>{_top(page)}{_pictures(page)}</div>'


@cache
def _resource(name: str) -> str:
    return files("table_writer.page").joinpath(name).read_text(encoding="ascii")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _top(page: TablePage) -> str:
    sign = "good" if page.healthy else "doubt" if page.health == "in doubt" else "bad"
    newest = f"version {page.version:,}" if page.version else "nothing written yet"
    since = "" if page.age_seconds is None else f", {ago(page.age_seconds)} old"
    unknown = sum(one.bytes is None for one in page.partitions)
    known = f"; of {counted(unknown, 'partition')} the log does not know it" if unknown else ""
    free = None if page.vacuum is None else page.vacuum.bytes_freed
    tiles = (
        ("Newest version", f"{page.version:,}", "" if page.age_seconds is None else f"{ago(page.age_seconds)} ago"),
        ("Rows", short(page.rows), f"{page.rows:,}{known}"),
        ("Size", size(page.bytes), f"in {counted(page.files, 'file')}"),
        (
            "Partitions",
            f"{len(page.partitions):,}",
            f"{sum(one.has_small_files for one in page.partitions):,} of small files",
        ),
        (
            "A vacuum frees",
            "?" if free is None else size(free),
            f"{size(sum(one.bytes for one in page.left))} left by readers",
        ),
    )
    shown = "".join(
        f"<div><dt>{label}</dt><dd>{html_text(figure)}<small>{html_text(more)}</small></dd></div>"
        for label, figure, more in tiles
    )
    return (
        f'<header class="tw-top"><h1><bdi>{html_text(page.table)}</bdi> '
        f'<span class="tw-chip tw-{sign}">{html_text(page.health)}</span></h1>'
        f"<p>{newest}{since} &middot; {html_text(page.location)}</p></header>"
        f'<dl class="tw-tiles">{shown}</dl>{_troubles(page)}'
    )


def short(count: int) -> str:
    """Spell a large number of rows in a word.

    Examples
    --------
    >>> short(950), short(1_204_311), short(0)
    ('950', '1.2 M', '0')
    """
    exponent = max((step for step in range(5) if count >= 1000**step), default=0)
    return f"{count:,}" if exponent == 0 else f"{count / 1000**exponent:.1f} {'kMGT'[exponent - 1]}"


def _troubles(page: TablePage) -> str:
    def line(one: Any) -> str:
        advice = f" <code>{html_text(one.advice)}</code>" if one.advice else ""
        kind = "note" if one.health == OK else "doubt" if one.health == "in doubt" else "bad"
        return f'<li class="tw-{kind}">{html_text(one.message)}{advice}</li>'

    shown = [line(one) for one in page.troubles[:MOST_TROUBLES]]
    shown += [f'<li class="tw-note">{html_text(one)}</li>' for one in page.notes]
    more = len(page.troubles) - MOST_TROUBLES
    shown += [f'<li class="tw-note">&hellip; and {more:,} more</li>'] if more > 0 else []
    if page.healthy:
        shown.insert(0, '<li class="tw-good">Nothing is in doubt, behind or damaged.</li>')
    return f'<section aria-label="What is in doubt"><ul class="tw-troubles">{"".join(shown)}</ul></section>'


def _pictures(page: TablePage) -> str:
    if not page.versions and not page.partitions:
        return '<p class="tw-note">There is nothing to draw: this library has not written the table yet.</p>'
    drawn = (_sizes(page), _counts(page), _written(page), _lives(page), _file_sizes(page), _ages(page))
    return f'<section class="tw-pictures" aria-label="Pictures">{"".join(filter(None, drawn))}</section>'


def _card(title: str, said: str, drawn: str, *, wide: bool = False) -> str:
    kind = "tw-card tw-wide" if wide else "tw-card"
    return f'<figure class="{kind}"><figcaption><h2>{title}</h2><p>{html_text(said)}</p></figcaption>{drawn}</figure>'


def _published(page: TablePage) -> list[VersionSummary]:
    """Return the versions that changed what readers see, oldest first."""
    return [one for one in reversed(page.versions) if one.state == LIVE and one.operation != "vacuum"]


def _ends(versions: Sequence[VersionSummary]) -> tuple[str, ...]:
    """Return the first and the last date; the time of day where they are less than two days apart."""
    if not versions:
        return ()
    first, last = versions[0].created_at, versions[-1].created_at
    form = "%Y-%m-%d" if (last - first).days > 2 else "%m-%d %H:%M"
    return (f"{first:{form}}", f"{last:{form}}")


def _at(moment: datetime) -> float:
    return moment.timestamp()


def _sizes(page: TablePage) -> str:
    versions = sorted(_published(page), key=lambda one: one.created_at)
    known = [one for one in versions if one.table_bytes is not None]
    if not known:
        said = "Not known: it takes the whole log to tell, and this page has only its newest versions, or other tools wrote."
        return _card("Size of the table", said, "") if versions else ""
    said = f"After each version, now {size(known[-1].table_bytes or 0)}"
    points = [(_at(one.created_at), one.table_bytes) for one in versions]
    title = f"The size of the table after each of {counted(len(versions), 'version')}; the table of versions has the figures"
    return _card("Size of the table", said, charts.steps(title, points, _ends(versions)))


def _counts(page: TablePage) -> str:
    versions = _published(page)
    count, after = len(page.partitions), []
    for one in reversed(versions):
        after.append((_at(one.created_at), float(max(0, count))))
        count -= one.added_count - one.dropped_count
    if not versions or (not any(value for _, value in after)):
        return ""
    said = f"After each version, now {len(page.partitions):,}"
    title = f"The number of partitions after each of {counted(len(versions), 'version')}"
    return _card("Partitions", said, charts.steps(title, sorted(after), _ends(versions), "count"))


def _written(page: TablePage) -> str:
    shown = [one for one in reversed(page.versions) if one.operation != "vacuum"][-MOST_BARS:]
    if not shown:
        return ""
    found = [charts.Bar(one.bytes, _drawn(one), _said(one)) for one in shown]
    kinds = {(one.mode if one.mode in KINDS else "other"): KINDS.get(one.mode, OTHER_KIND) for one in shown}
    kinds |= {"abandoned or in doubt": "open"} if any(one.state != LIVE for one in shown) else {}
    title = (
        f"Bytes written by each of the newest {counted(len(shown), 'version')}; the table of versions has the figures"
    )
    said = f"Bytes of each of the newest {counted(len(shown), 'version')}"
    return _card("Written", said, charts.bars(title, found, _ends(shown)) + charts.legend(kinds))


def _drawn(one: VersionSummary) -> str:
    return "open" if one.state != LIVE else KINDS.get(one.mode, OTHER_KIND)


def _said(one: VersionSummary) -> str:
    when = f"{one.created_at:%Y-%m-%d %H:%M:%S}"
    return f"version {one.version}: {one.mode}, {size(one.bytes)} in {counted(one.files, 'file')}, {when}, {one.state}"


def _lives(page: TablePage) -> str:
    if not page.generations:
        return ""
    rows = [(one.name, one.changes) for one in page.generations]
    of_all = (
        f"{len(rows):,} of {page.changed_count:,} partitions, those that"
        if page.changed_count > len(rows)
        else "Partitions that"
    )
    said = f"{of_all} changed last in the newest {counted(len(page.generation_versions), 'version')}"
    title = "A line for each partition: a mark where a version changed it, a line for as long as readers saw those rows"
    drawn = charts.generations(title, page.generation_versions, rows)
    marks = charts.legend_of_marks(change for _, changes in rows for _, change in changes)
    return _card("Which version replaced what", said, marks + drawn, wide=True)


def _file_sizes(page: TablePage) -> str:
    known = [one for one in page.partitions if one.files and one.bytes is not None]
    if not known:
        return ""
    lines = []
    for least, most in pairwise((*FILE_SIZES, float("inf"))):
        here = [one for one in known if least <= one.bytes / one.files < most]
        small = sum(one.files for one in here if one.has_small_files)
        every = sum(one.files for one in here)
        label = (
            f"under {size(most)}"
            if not least
            else f"{size(least)} or more"
            if most == float("inf")
            else f"{size(least)} – {size(most)}"
        )
        figure = f"{every:,} in {counted(len(here), 'partition')}" if here else "-"
        lines.append(charts.Share(label.replace(".0 ", " "), (("warn", small), ("c1", every - small)), figure))
    small = sum(one.has_small_files for one in known)
    said = f"By the average file of a partition; {counted(small, 'partition')} with many small files"
    return _card("Files", said, charts.shares(lines) + charts.legend({"many small files": "warn", "other files": "c1"}))


def _ages(page: TablePage) -> str:
    lines = []
    for one in page.left:
        first, last = one.older_than_days, one.younger_than_days
        label = f"over {counted(first, 'day')}" if last is None else f"{first} – {counted(last, 'day')}"
        parts = (("c2", one.due_bytes), ("c5", max(0, one.bytes - one.due_bytes)))
        lines.append(
            charts.Share(
                label, parts, f"{size(one.bytes)} at {counted(one.locations, 'location')}" if one.locations else "-"
            )
        )
    said = (
        "By how long ago; a vacuum was refused, so what is due is not known"
        if page.vacuum is None
        else "By how long ago readers left it"
    )
    kinds = {"a vacuum frees it now": "c2", "kept for its retention, or in use": "c5"}
    return _card("Left by readers, and there still", said, charts.shares(lines) + charts.legend(kinds)) if lines else ""


def _tables(page: TablePage) -> str:
    versions = page.versions[:MOST_VERSIONS]
    partitions = sorted(page.partitions, key=lambda one: -(one.version or 0))[:MOST_PARTITIONS]
    deleted = sorted(page.vacuum.deleted if page.vacuum else (), key=lambda one: -one.bytes)
    older = f"; {page.older_count:,} older ones are in the log" if page.older_count else ""
    shown = (
        _section(
            "versions",
            "Versions",
            f"{_part(len(versions), len(page.versions))}, newest first{older}.",
            _table(VERSIONS, versions, VERSION_KEYS),
        ),
        _section(
            "partitions",
            "Partitions",
            f"{_part(len(partitions), len(page.partitions))}, those that changed last first.",
            _table(PARTITIONS, partitions, PARTITION_KEYS),
        ),
        _section(
            "checks",
            "Checks",
            f"{_part(min(MOST_CHECKS, len(page.checks)), len(page.checks))}, those that fail first; bars are runs, the newest right.",
            _check_table(page),
        )
        if page.checks
        else "",
        _section(
            "vacuum",
            "What a vacuum would delete",
            f"{_part(min(MOST_LOCATIONS, len(deleted)), len(deleted))}, the largest first. {counted(len(page.vacuum.kept) if page.vacuum else 0, 'location')} stay.",
            _table(DELETED, deleted[:MOST_LOCATIONS], DELETED_KEYS),
        )
        if deleted
        else "",
        _section("work", "At work", "Writes that are running, or staged.", _table(AT_WORK, page.at_work, {}))
        if page.at_work
        else "",
    )
    return f'<div id="tables" tabindex="-1">{"".join(shown)}</div>'


def _part(shown: int, every: int) -> str:
    return f"All {every:,}" if shown == every else f"{shown:,} of {every:,}"


def _section(name: str, title: str, said: str, table: str) -> str:
    return (
        f'<section class="tw-card" aria-labelledby="{name}"><h2 id="{name}">{title}</h2><p>{html_text(said)}</p>'
        f'<div class="tw-scroll" tabindex="0" role="region" aria-labelledby="{name}">{table}</div></section>'
    )


def _table(columns: Columns, items: Sequence[object], keys: Keys) -> str:
    """Return a table whose cells are those of the text; figures carry the number that they are sorted by."""
    grid = Grid.of(columns, items)
    figures = {one for one in grid.headings if one in keys or one in USUAL_FIGURES}
    head = "".join(
        f"<th scope=col{' class=tw-figure' if one in figures else ''}>{html_text(one)}</th>" for one in grid.headings
    )
    rows = (
        "<tr>"
        + "".join(
            _cell(heading, cell, keys.get(heading), item, heading in figures)
            for heading, cell in zip(grid.headings, row, strict=True)
        )
        + "</tr>"
        for row, item in zip(grid.rows, items, strict=True)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _cell(heading: str, cell: str, key: Callable[[Any], float | None] | None, item: object, is_figure: bool) -> str:
    value = None if key is None else key(item)
    number = "" if value is None else f" data-n={value}"
    shown = (
        f'<span class="tw-chip tw-{tone(cell)}">{html_text(cell)}</span>'
        if heading in USUAL_STATES and cell
        else html_text(cell)
    )
    return f"<td{' class=tw-figure' if is_figure else ''}{number}>{shown}</td>"


def _check_table(page: TablePage) -> str:
    rows = "".join(
        f"<tr><td>{html_text(one.name)}</td><td><span class='tw-chip tw-{tone(one.outcomes[-1][1])}'>{html_text(one.outcomes[-1][1])}</span></td>"
        f"<td>{charts.strip(one.outcomes[-MOST_RUNS:])}</td><td class=tw-figure data-n={one.failed_count}>{one.failed_count:,} of {len(one.outcomes):,}</td><td>{html_text(one.message)}</td></tr>"
        for one in page.checks[:MOST_CHECKS]
    )
    head = "<th scope=col>check</th><th scope=col>last</th><th scope=col>runs</th><th scope=col class=tw-figure>failed</th><th scope=col>found last</th>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _foot(page: TablePage) -> str:
    more = (
        ""
        if not page.version
        else f"; <code>table-writer show {html_text(page.table)} {page.version}</code> has one version in full"
    )
    return (
        f"<footer>Made <time>{page.made_at:%Y-%m-%d %H:%M:%S}</time> UTC by table_writer {html_text(__version__)}, of the"
        f" log up to version {page.version:,}. Ages are of that moment{more}.</footer>"
    )
