"""The pictures of the page: sizes, counts and writes over time, generations, file sizes, and what readers have left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

from table_writer.errors import counted
from table_writer.model.meaning import OF_OPERATION
from table_writer.model.units import MIB
from table_writer.reports.history_reports import LIVE, VersionSummary
from table_writer.reports.html import html_text
from table_writer.reports.layout import size
from table_writer.reports.page import charts
from table_writer.reports.page.facts import TableFacts

MOST_BARS: Final = 80
FILE_SIZES: Final = (0, MIB, 8 * MIB, 32 * MIB, 128 * MIB, 512 * MIB)
KINDS: Final = {  # by mode, the style class of a bar
    "overwrite_partitions": "c1",
    "append": "c2",
    "create_partitions": "c6",
    "overwrite_table": "c4",
    "compact": "c3",  # as its mark among the generations
}
OTHER_KIND: Final = "c5"
DELETIONS: Final = {operation.value for operation, meaning in OF_OPERATION.items() if not meaning.changes_partitions}
IN_A_TABLE: Final = "The table of versions has the figures."


def pictures(page: TableFacts) -> str:
    """Return all pictures of a page, each with its title and subtitle."""
    if not page.version:
        return '<p class="tw-note">There is nothing to draw: this library has not written the table yet.</p>'
    figures = (_sizes(page), _counts(page), _written_bytes(page), _lives(page), _file_sizes(page), _ages(page))
    return f'<section class="tw-pictures" aria-label="Pictures">{"".join(filter(None, figures))}</section>'


def _card(title: str, subtitle: str, picture: str, kind: str = "half") -> str:
    caption = f"<figcaption><h2>{title}</h2><p>{html_text(subtitle)}</p></figcaption>"
    return f'<figure class="tw-card tw-{kind}">{caption}{picture}</figure>'


def _published_versions(page: TableFacts) -> list[VersionSummary]:
    """Return the versions that changed what readers see, oldest first."""
    changing = (version for version in reversed(page.versions) if version.operation not in DELETIONS)
    return [version for version in changing if version.state == LIVE]


def _ends(versions: Sequence[VersionSummary]) -> tuple[str, ...]:
    """Return the first and the last date, with the time of day if they are less than three days apart."""
    if not versions:
        return ()
    first_at, last_at = versions[0].created_at, versions[-1].created_at
    form = "%Y-%m-%d" if (last_at - first_at).days > 2 else "%m-%d %H:%M"
    return (f"{first_at:{form}}", f"{last_at:{form}}")


def _times(versions: Sequence[VersionSummary]) -> list[float]:
    """Return the times of versions in order: a version whose writer's clock was late gets the time before it."""
    return list(accumulate((version.created_at.timestamp() for version in versions), max))


def _sizes(page: TableFacts) -> str:
    versions = _published_versions(page)
    if all(version.table_bytes is None for version in versions):
        subtitle = "Not known: it takes the whole log to tell, or other tools wrote there"
        return _card("Size of the table", subtitle, "", "third") if versions else ""
    newest_bytes = versions[-1].table_bytes
    subtitle = f"After each version, now {'not known' if newest_bytes is None else size(newest_bytes)}"
    points = list(zip(_times(versions), (version.table_bytes for version in versions), strict=True))
    title = f"The size of the table after each of {counted(len(versions), 'version')}. {IN_A_TABLE}"
    return _card("Size of the table", subtitle, charts.steps(title, points, _ends(versions)), "third")


def _counts(page: TableFacts) -> str:
    versions = _published_versions(page)
    count, counts = page.partition_count, []
    for version in reversed(versions):
        counts.append(float(max(0, count)))
        count -= version.added_count - version.dropped_count
    if not any(counts):
        return ""
    subtitle = f"After each version, now {page.partition_count:,}"
    title = f"The number of partitions after each of {counted(len(versions), 'version')}"
    points = list(zip(_times(versions), reversed(counts), strict=True))
    return _card("Partitions", subtitle, charts.steps(title, points, _ends(versions), "count"), "third")


def _written_bytes(page: TableFacts) -> str:
    versions = [version for version in reversed(page.versions) if version.operation not in DELETIONS][-MOST_BARS:]
    if not versions:
        return ""
    data = [charts.Bar(version.bytes, _bar_kind(version), _bar_title(version)) for version in versions]
    kinds = {
        (version.mode if version.mode in KINDS else "other"): KINDS.get(version.mode, OTHER_KIND)
        for version in versions
    }
    kinds |= {"abandoned or in doubt": "open"} if any(version.state != LIVE for version in versions) else {}
    title = f"Bytes written by each of the newest {counted(len(versions), 'version')}. {IN_A_TABLE}"
    subtitle = f"Bytes of each of the newest {counted(len(versions), 'version')}"
    return _card("Written", subtitle, charts.bars(title, data, _ends(versions)) + charts.legend(kinds), "third")


def _bar_kind(version: VersionSummary) -> str:
    return "open" if version.state != LIVE else KINDS.get(version.mode, OTHER_KIND)


def _bar_title(version: VersionSummary) -> str:
    written_at = f"{version.created_at:%Y-%m-%d %H:%M:%S}"
    volume = f"{size(version.bytes)} in {counted(version.files, 'file')}"
    return f"version {version.version}: {version.mode}, {volume}, {written_at}, {version.state}"


def _lives(page: TableFacts) -> str:
    if not page.generations:
        return ""
    rows = [(generation.name, generation.changes) for generation in page.generations]
    first_version = min(changes[0][0] for _, changes in rows)  # older versions have changed only other partitions
    versions = [version for version in page.generation_versions if version >= first_version]
    selection = f", those of {page.changed_count:,} that changed last" if page.changed_count > len(rows) else ""
    version_count = counted(len(versions), "version")
    subtitle = f"{counted(len(rows), 'partition')}{selection}; the newest {version_count} that changed any"
    title = "A line for each partition: a mark where a version changed it, a line for as long as readers saw those rows"
    picture = charts.generations(title, versions, rows)
    marks = charts.legend_of_marks(change for _, changes in rows for _, change in changes)
    return _card("Which version replaced what", subtitle, marks + picture, "wide")


def _file_sizes(page: TableFacts) -> str:
    averages = [
        (partition.bytes / partition.files, partition)
        for partition in page.partitions
        if partition.files and partition.bytes is not None
    ]
    if not averages:
        return ""
    lines = []
    for lowest, highest in pairwise((*FILE_SIZES, math.inf)):
        partitions = [partition for average, partition in averages if lowest <= average < highest]
        file_count, small = (
            sum(partition.files or 0 for partition in group)
            for group in (partitions, [partition for partition in partitions if partition.has_small_files])
        )
        figure = f"{file_count:,} in {counted(len(partitions), 'partition')}" if partitions else "-"
        lines.append(charts.Share(_between(lowest, highest), (("warn", small), ("c1", file_count - small)), figure))
    subtitle = f"By the average file of a partition; {page.small_files}"
    return _card(
        "Files", subtitle, charts.shares(lines) + charts.legend({"many small files": "warn", "other files": "c1"})
    )


def _between(lowest: float, highest: float) -> str:
    if highest == math.inf:
        return f"{_bound(lowest)} or more"
    return f"{_bound(lowest)} – {_bound(highest)}" if lowest else f"under {_bound(highest)}"


def _bound(size_bytes: float) -> str:
    return size(size_bytes).replace(".0 ", " ")


def _ages(page: TableFacts) -> str:
    if not page.left:
        return ""
    lines = []
    for age_group in page.left:
        first_day, last_day = age_group.older_than_days, age_group.younger_than_days
        label = f"over {counted(first_day, 'day')}" if last_day is None else f"{first_day} – {counted(last_day, 'day')}"
        parts = (("c2", age_group.due_bytes), ("c5", max(0, age_group.bytes - age_group.due_bytes)))
        figure = (
            f"{size(age_group.bytes)} at {counted(age_group.locations, 'location')}" if age_group.locations else "-"
        )
        lines.append(charts.Share(label, parts, figure))
    subtitle = "By how long ago readers left it"
    subtitle += "; a vacuum would be refused, so what is due is not known" if page.vacuum is None else ""
    kinds = {"a vacuum frees it now": "c2", "kept for its retention, or in use": "c5"}
    return _card("Left by readers, and there still", subtitle, charts.shares(lines) + charts.legend(kinds))
