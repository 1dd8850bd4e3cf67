"""What the pictures of the page show: sizes, counts and writes over time, what replaced what, files, what is left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

from table_writer.display.report import html_text, size
from table_writer.display.reports import LIVE, VersionSummary
from table_writer.errors import counted
from table_writer.page import charts
from table_writer.page.facts import TableFacts

MOST_BARS: Final = 80
MIB: Final = 1024 * 1024
FILE_SIZES: Final = (0, MIB, 8 * MIB, 32 * MIB, 128 * MIB, 512 * MIB)
KINDS: Final = {  # of what a version did: the class of its bar
    "overwrite_partitions": "c1",
    "append": "c2",
    "create_partitions": "c6",
    "overwrite_table": "c4",
    "compact": "c3",  # as its mark
}
OTHER_KIND: Final = "c5"
IN_A_TABLE: Final = "The table of versions has the figures."


def pictures(page: TableFacts) -> str:
    """Return all pictures of a page, each with what it shows."""
    if not page.version:
        return '<p class="tw-note">There is nothing to draw: this library has not written the table yet.</p>'
    drawn = (_sizes(page), _counts(page), _written(page), _lives(page), _file_sizes(page), _ages(page))
    return f'<section class="tw-pictures" aria-label="Pictures">{"".join(filter(None, drawn))}</section>'


def _card(title: str, said: str, drawn: str, kind: str = "half") -> str:
    caption = f"<figcaption><h2>{title}</h2><p>{html_text(said)}</p></figcaption>"
    return f'<figure class="tw-card tw-{kind}">{caption}{drawn}</figure>'


def _published(page: TableFacts) -> list[VersionSummary]:
    """Return the versions that changed what readers see, oldest first."""
    return [version for version in reversed(page.versions) if version.state == LIVE and version.operation != "vacuum"]


def _ends(versions: Sequence[VersionSummary]) -> tuple[str, ...]:
    """Return the first and the last date; the time of day where they are less than two days apart."""
    if not versions:
        return ()
    first, last = versions[0].created_at, versions[-1].created_at
    form = "%Y-%m-%d" if (last - first).days > 2 else "%m-%d %H:%M"
    return (f"{first:{form}}", f"{last:{form}}")


def _times(versions: Sequence[VersionSummary]) -> list[float]:
    """Return when versions were made: never before the one before them, though a writer's clock was late."""
    return list(accumulate((version.created_at.timestamp() for version in versions), max))


def _sizes(page: TableFacts) -> str:
    versions = _published(page)
    if all(version.table_bytes is None for version in versions):
        said = "Not known: it takes the whole log to tell, or other tools wrote there"
        return _card("Size of the table", said, "", "third") if versions else ""
    newest = versions[-1].table_bytes
    said = f"After each version, now {'not known' if newest is None else size(newest)}"
    points = list(zip(_times(versions), (version.table_bytes for version in versions), strict=True))
    title = f"The size of the table after each of {counted(len(versions), 'version')}. {IN_A_TABLE}"
    return _card("Size of the table", said, charts.steps(title, points, _ends(versions)), "third")


def _counts(page: TableFacts) -> str:
    versions = _published(page)
    count, after = page.partition_count, []
    for version in reversed(versions):
        after.append(float(max(0, count)))
        count -= version.added_count - version.dropped_count
    if not any(after):
        return ""
    said = f"After each version, now {page.partition_count:,}"
    title = f"The number of partitions after each of {counted(len(versions), 'version')}"
    points = list(zip(_times(versions), reversed(after), strict=True))
    return _card("Partitions", said, charts.steps(title, points, _ends(versions), "count"), "third")


def _written(page: TableFacts) -> str:
    shown = [version for version in reversed(page.versions) if version.operation != "vacuum"][-MOST_BARS:]
    if not shown:
        return ""
    found = [charts.Bar(version.bytes, _drawn(version), _said(version)) for version in shown]
    kinds = {
        (version.mode if version.mode in KINDS else "other"): KINDS.get(version.mode, OTHER_KIND) for version in shown
    }
    kinds |= {"abandoned or in doubt": "open"} if any(version.state != LIVE for version in shown) else {}
    title = f"Bytes written by each of the newest {counted(len(shown), 'version')}. {IN_A_TABLE}"
    said = f"Bytes of each of the newest {counted(len(shown), 'version')}"
    return _card("Written", said, charts.bars(title, found, _ends(shown)) + charts.legend(kinds), "third")


def _drawn(version: VersionSummary) -> str:
    return "open" if version.state != LIVE else KINDS.get(version.mode, OTHER_KIND)


def _said(version: VersionSummary) -> str:
    when = f"{version.created_at:%Y-%m-%d %H:%M:%S}"
    volume = f"{size(version.bytes)} in {counted(version.files, 'file')}"
    return f"version {version.version}: {version.mode}, {volume}, {when}, {version.state}"


def _lives(page: TableFacts) -> str:
    if not page.generations:
        return ""
    rows = [(generation.name, generation.changes) for generation in page.generations]
    first = min(changes[0][0] for _, changes in rows)  # what is older has changed other partitions alone
    versions = [version for version in page.generation_versions if version >= first]
    chosen = f", those of {page.changed_count:,} that changed last" if page.changed_count > len(rows) else ""
    newest = counted(len(versions), "version")
    said = f"{counted(len(rows), 'partition')}{chosen}; the newest {newest} that changed any"
    title = "A line for each partition: a mark where a version changed it, a line for as long as readers saw those rows"
    drawn = charts.generations(title, versions, rows)
    marks = charts.legend_of_marks(change for _, changes in rows for _, change in changes)
    return _card("Which version replaced what", said, marks + drawn, "wide")


def _file_sizes(page: TableFacts) -> str:
    known = [
        (partition.bytes / partition.files, partition)
        for partition in page.partitions
        if partition.files and partition.bytes is not None
    ]
    if not known:
        return ""
    lines = []
    for least, most in pairwise((*FILE_SIZES, math.inf)):
        here = [partition for average, partition in known if least <= average < most]
        every, small = (
            sum(partition.files or 0 for partition in group) for group in (here, [o for o in here if o.has_small_files])
        )
        figure = f"{every:,} in {counted(len(here), 'partition')}" if here else "-"
        lines.append(charts.Share(_between(least, most), (("warn", small), ("c1", every - small)), figure))
    small = sum(partition.has_small_files for _, partition in known)
    said = f"By the average file of a partition; {counted(small, 'partition')} with many small files"
    return _card("Files", said, charts.shares(lines) + charts.legend({"many small files": "warn", "other files": "c1"}))


def _between(least: float, most: float) -> str:
    first, last = (size(bound).replace(".0 ", " ") if bound < math.inf else "" for bound in (least, most))
    return f"{first} or more" if not last else f"{first} – {last}" if least else f"under {last}"


def _ages(page: TableFacts) -> str:
    if not page.left:
        return ""
    lines = []
    for age_group in page.left:
        first, last = age_group.older_than_days, age_group.younger_than_days
        label = f"over {counted(first, 'day')}" if last is None else f"{first} – {counted(last, 'day')}"
        parts = (("c2", age_group.due_bytes), ("c5", max(0, age_group.bytes - age_group.due_bytes)))
        figure = (
            f"{size(age_group.bytes)} at {counted(age_group.locations, 'location')}" if age_group.locations else "-"
        )
        lines.append(charts.Share(label, parts, figure))
    said = "By how long ago readers left it"
    said += "; a vacuum would be refused, so what is due is not known" if page.vacuum is None else ""
    kinds = {"a vacuum frees it now": "c2", "kept for its retention, or in use": "c5"}
    return _card("Left by readers, and there still", said, charts.shares(lines) + charts.legend(kinds))
