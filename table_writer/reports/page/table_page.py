"""The page that ``report`` returns, as HTML: figures, problems, pictures, tables. It fetches nothing.

Text of users is escaped and never stands in an attribute. The policy in the head allows the browser only this style
sheet and this script, by their digests.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Final

from table_writer.errors import InvalidInputError, counted
from table_writer.model.units import DAY_SECONDS, HOUR_SECONDS
from table_writer.reports.health_reports import IN_DOUBT, OK, Finding
from table_writer.reports.history_reports import HISTORY_COLUMNS, known_columns
from table_writer.reports.html import IGNORED_BY_MATH, Picture, html_text, resource, table_html
from table_writer.reports.layout import (
    FILES,
    ROWS,
    SIZE,
    Column,
    Columns,
    Figure,
    Grid,
    State,
    size,
    size_or_dash,
    tags_line,
    writer_name,
)
from table_writer.reports.page import charts
from table_writer.reports.page.facts import TableFacts
from table_writer.reports.page.pictures import pictures
from table_writer.reports.vacuum_reports import DELETED
from table_writer.version import __version__

MOST_TROUBLES, MOST_CHECKS, MOST_RUNS = 12, 50, 40
MOST_VERSIONS, MOST_PARTITIONS, MOST_LOCATIONS = 100, 200, 50
AMISS: Final = frozenset({"behind", "in doubt", "missing", "moved"})  # states of partitions that need a look


def ago(seconds: float) -> str:
    """Spell a span of time in its largest unit.

    Examples
    --------
    >>> ago(59), ago(3_600), ago(200_000)
    ('59 seconds', '1 hour', '2 days')
    """
    units = ((DAY_SECONDS, "day"), (HOUR_SECONDS, "hour"), (60, "minute"), (1, "second"))
    unit, noun = next(((unit_seconds, noun) for unit_seconds, noun in units if seconds >= unit_seconds), units[-1])
    return counted(int(seconds // unit), noun)


VERSIONS: Final[Columns] = (*HISTORY_COLUMNS, Column("tags", "tags", tags_line))
PARTITIONS: Final[Columns] = (
    Column("partition", "name"),
    State("state", "state"),
    Column("version", "version", str),
    Column("changed", "age_seconds", lambda seconds: f"{ago(seconds)} ago"),
    ROWS,
    FILES,
    SIZE,
    Column("a file", "bytes_per_file", size_or_dash),
)
CHECKS: Final[Columns] = (
    Column("check", "name"),
    State("last", spell=lambda check: check.outcomes[-1][1]),
    Picture("runs", spell=lambda check: charts.strip(check.outcomes[-MOST_RUNS:])),
    Figure("failed", spell=lambda check: f"{check.failed_count:,} of {len(check.outcomes):,}"),
    Column("found last", "message"),
)
AT_WORK: Final[Columns] = (
    Column("write_id", "write_id"),
    State("state", "state"),
    Column("last sign", spell=lambda write: f"{ago(write.age_seconds)} ago"),
    Column("who", spell=writer_name),
)


def _document(page: TableFacts) -> str:
    """Return the whole page, in ASCII, which no server and no terminal can misread."""
    style, script = resource("page/page.css"), resource("page/page.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; base-uri 'none';"
        " form-action 'none'"
    )
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f'<meta name="color-scheme" content="light dark"><title>{html_text(page.table)}</title>'
        f"<style>{style}</style></head><body class=tw-body>"
        '<a class="tw-skip" href="#tables">Skip the pictures</a>'
        f'<main class="tw-page tw-whole">{_top(page)}{pictures(page)}{_tables(page)}{_foot(page)}</main>'
        f"<script>{script}</script></body></html>"
    )
    return text.encode("ascii", "xmlcharrefreplace").decode()


def _fragment(page: TableFacts) -> str:
    """Return figures, troubles and pictures for a notebook, without tables and without a script."""
    style = resource("page/page.css")
    return f'<div class="tw-page {IGNORED_BY_MATH}"><style>{style}</style>{_top(page)}{pictures(page)}</div>'


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _top(page: TableFacts) -> str:
    sign = "good" if page.healthy else "doubt" if page.health == "in doubt" else "bad"
    since = "" if page.age_seconds is None else f"{ago(page.age_seconds)} ago"
    partitions = [partition for partition in page.partitions if partition.location is not None]
    unknown_count = sum(partition.rows is None for partition in partitions)
    is_known = not partitions or unknown_count < len(partitions)
    rows = [f"{page.rows:,}"] if is_known else []
    rows += [f"{counted(unknown_count, 'partition')} not counted"] if unknown_count else []
    free = None if page.vacuum is None else page.vacuum.bytes_freed
    tiles = (
        (
            "Newest version",
            f"{page.version:,}" if page.version else "-",
            since if page.version else "nothing written yet",
        ),
        ("Rows", short_count(page.rows) if is_known else "?", "; ".join(rows)),
        ("Size", size(page.bytes) if is_known else "?", f"in {counted(page.files, 'file')}" if is_known else ""),
        ("Partitions", f"{page.partition_count:,}", page.small_files),
        (
            "A vacuum frees",
            "?" if free is None else size(free),
            f"{size(sum(age_group.bytes for age_group in page.left))} left by readers",
        ),
    )
    tiles_html = "".join(
        f"<div><dt>{label}</dt><dd>{html_text(figure)}<small>{html_text(more)}</small></dd></div>"
        for label, figure, more in tiles
    )
    return (
        f'<header class="tw-top"><h1><bdi>{html_text(page.table)}</bdi> '
        f'<span class="tw-chip tw-{sign}">{html_text(page.health)}</span></h1>'
        f"<p>{html_text(page.location)}</p></header>"
        f'<dl class="tw-tiles">{tiles_html}</dl>{_troubles(page)}'
    )


def short_count(count: int) -> str:
    """Spell a large number of rows in short.

    Examples
    --------
    >>> short_count(950), short_count(1_204_311), short_count(0)
    ('950', '1.2 M', '0')
    """
    exponent = max((step for step in range(5) if count >= 1000**step), default=0)
    return f"{count:,}" if exponent == 0 else f"{count / 1000**exponent:.1f} {'kMGT'[exponent - 1]}"


def _troubles(page: TableFacts) -> str:
    items = [*map(_trouble, page.troubles[:MOST_TROUBLES])]
    items += [f'<li class="tw-note">{html_text(note)}</li>' for note in page.notes]
    hidden_count = len(page.troubles) - MOST_TROUBLES
    items += [f'<li class="tw-note">&hellip; and {hidden_count:,} more</li>'] if hidden_count > 0 else []
    if page.healthy:
        items.insert(0, '<li class="tw-good">Nothing is in doubt, behind or damaged.</li>')
    return f'<section aria-label="What is in doubt"><ul class="tw-troubles">{"".join(items)}</ul></section>'


def _trouble(finding: Finding) -> str:
    kind = {OK: "note", IN_DOUBT: "doubt"}.get(finding.health, "bad")
    advice = html_text(finding.advice)
    shown_advice = f" <code>{advice}</code>" if advice.startswith("table-writer ") else f"; {advice}" if advice else ""
    return f'<li class="tw-{kind}">{html_text(finding.message)}{shown_advice}</li>'


def _tables(page: TableFacts) -> str:
    partitions = sorted(
        page.partitions, key=lambda partition: (partition.state not in AMISS, -(partition.version or 0))
    )
    shown_versions = page.versions[:MOST_VERSIONS]
    columns = VERSIONS if any(version.tags for version in shown_versions) else HISTORY_COLUMNS
    columns = known_columns(columns, shown_versions)
    deleted_paths = sorted(page.vacuum.deleted if page.vacuum else (), key=lambda path: -path.bytes)
    kept_count = counted(len(page.vacuum.kept) if page.vacuum else 0, "location")
    is_amiss = any(partition.state in AMISS for partition in partitions)
    order = "those that changed last first" if not is_amiss else "those not in place first, then by their last change"
    older = f"; {page.older_count:,} older ones are in the log" if page.older_count else ""
    deletion_order = f"largest first; {kept_count} would stay"
    sections = (
        _section("versions", Grid(columns, page.versions, "Versions", MOST_VERSIONS), f"newest first{older}"),
        _section("partitions", Grid(PARTITIONS, partitions, "Partitions", MOST_PARTITIONS), order),
        _section(
            "checks",
            Grid(CHECKS, page.checks, "Checks", MOST_CHECKS),
            "those that fail first; a bar is a run, the newest right",
        ),
        _section("vacuum", Grid(DELETED, deleted_paths, "What a vacuum would delete", MOST_LOCATIONS), deletion_order),
        _section("work", Grid(AT_WORK, page.at_work, "At work", MOST_LOCATIONS), "writes that are running, or staged"),
    )
    return f'<div id="tables" tabindex="-1">{"".join(sections)}</div>'


def _section(name: str, grid: Grid, order: str) -> str:
    """Return a table under its title, nothing if it has no rows."""
    if not grid.items:
        return ""
    total, shown_count = len(grid.items), len(grid.shown_items)
    count = f"All {total:,}" if shown_count == total else f"{shown_count:,} of {total:,}"
    return (
        f'<section class="tw-card" aria-labelledby="{name}"><h2 id="{name}">{grid.title}</h2>'
        f"<p>{html_text('; '.join((f'{count}, {order}', *grid.directory_lines)))}</p>"
        f'<div class="tw-scroll" tabindex="0" role="region" aria-labelledby="{name}">'
        f"{table_html(grid, is_sorted=True)}</div></section>"
    )


def _foot(page: TableFacts) -> str:
    hint = (
        ""
        if not page.version
        else f"; <code>table-writer show {html_text(page.table)} {page.version}</code> has one version in full"
    )
    return (
        f"<footer>Made <time>{page.made_at:%Y-%m-%d %H:%M:%S}</time> UTC by table_writer {html_text(__version__)}, of"
        f" the log up to version {page.version:,}. Ages are of that moment{hint}.</footer>"
    )


def _replace(target: Path, text: str) -> None:
    """Write the text to a new file beside the target, and move it there; the target keeps its mode."""
    temporary = target.with_name(f".table_writer-{token_hex(8)}.html")
    try:
        with temporary.open("x", encoding="ascii") as file:
            file.write(text)
        if target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@dataclass(frozen=True, kw_only=True, repr=False)
class TablePage(TableFacts):
    """The facts of one look at a table, with pictures in notebooks, and as a page for a browser.

    The facts are those of :class:`~table_writer.reports.page.facts.TableFacts`.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> page = TablePage(table="mart.orders", made_at=datetime(2026, 1, 2, tzinfo=UTC), location="s3://lake/orders/")
    >>> page.to_html().startswith("<!doctype html>")
    True
    """

    def to_html(self) -> str:
        """Return the page as one ASCII file that fetches nothing; its only script sorts and filters its tables."""
        return _document(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file; who opens it meanwhile finds the old page or the new one.

        Raises
        ------
        InvalidInputError
            The file cannot be written.
        """
        target = Path(os.path.realpath(path))  # a symbolic link is kept
        try:
            if target.exists() and not target.is_file():  # /dev/stdout, a pipe
                target.write_text(self.to_html(), encoding="ascii")
            else:
                _replace(target, self.to_html())
        except OSError as error:
            raise InvalidInputError(
                f"the page of {self.table} cannot be written to {path}: {error.strerror or error}. Name a file in a"
                " directory that is there and that you may write to",
                table=self.table,
            ) from error

    def _repr_html_(self) -> str:
        return _fragment(self)
