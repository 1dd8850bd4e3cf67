"""The entry that a write claims, and the locations that it schedules for deletion."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from table_writer.errors import InvalidInputError, StorageError, TableWriterError, counted
from table_writer.metastore.protocol import Metastore
from table_writer.model.column_figures import as_text, from_text, merged_figures
from table_writer.model.contents import Contents
from table_writer.model.entry import EntryPartition, LogEntry, ReplacedLocation, ReplacedObject
from table_writer.model.location import Location
from table_writer.model.meaning import Operation
from table_writer.model.partition_value import Spellings, canonical, has_spellings
from table_writer.model.table import COLUMNS_PARAMETER, PartitionsNow, PartitionValues, Table, name_in, shown_name
from table_writer.model.write import TableLayout, WritePlan, WrittenFiles, WrittenPartition
from table_writer.protocol.log.history import History
from table_writer.protocol.log.records import LogEnd
from table_writer.protocol.log.table_log import TableLog
from table_writer.protocol.operations.append import CarriedFiles
from table_writer.protocol.table.open_table import OpenTable
from table_writer.storage.object_store import ObjectInfo, ObjectStore, many
from table_writer.storage.table_files import (
    NOT_LISTED,
    Listed,
    files_at,
    files_read_at,
    is_named_by_us,
    objects_by_location,
    visible,
    without_marker,
)

logger = logging.getLogger(__name__)
MOST_VERSIONS: Final = 20  # entries that an append reads for the figures of what it copies
WHOLE_ETAG: Final = re.compile(r"[0-9a-f]{32}")
PARTS_ETAG: Final = re.compile(r"[0-9a-f]{32}-\d+")  # S3's, of an upload in parts: a copy of it has the other kind
Wanted = TypeVar("Wanted")
Found = TypeVar("Found")


def entry_of(staged: WrittenFiles, opened: OpenTable) -> LogEntry:
    """Return the entry of a write as far as its files tell: where partitions are now is not known yet."""
    plan = staged.plan
    is_told = len(staged.partitions) * len(plan.table.columns) <= opened.config.most_figures
    partitions = tuple(
        EntryPartition(
            values=plan.spelled(partition.values),
            old_location=None,
            new_location=_directory_of(partition, plan),
            rows=partition.rows,
            bytes=partition.bytes,
            raw_bytes=partition.raw_bytes,
            files=len(partition.keys),
            figures=partition.figures if is_told else "",
        )
        for partition in staged.partitions
    )
    return opened.next_entry(
        LogEnd(plan.base_version),
        Operation.COMPACT if plan.compacted else Operation.WRITE,
        mode=None if plan.compacted else plan.mode,
        write_id=plan.write_id,
        partitions=partitions,
        depends_on_rows=plan.depends_on_rows,
        schema=plan.schema,
        columns_by=plan.columns_by,
        replaced_schema=plan.replaced_schema,
        row_bytes=staged.row_bytes,
        checks=staged.checks,
        key=plan.key,
        words=staged.all_words,
    )


def with_old_locations(
    partition: EntryPartition, now: PartitionsNow, carried: Mapping[PartitionValues, CarriedFiles]
) -> EntryPartition:
    """Fill in where readers look now, and count the files that an append copies."""
    carried_files = carried.get(partition.values, CarriedFiles())
    old_location = now[partition.values].location if partition.values in now else None
    figures = partition.figures
    if figures and carried_files.files:
        figures = as_text(merged_figures([from_text(figures), from_text(carried_files.figures)]))
    return replace(partition.with_more(carried_files), old_location=old_location, figures=figures)


def with_figures(
    log: TableLog, carried: Mapping[PartitionValues, CarriedFiles], now: PartitionsNow
) -> Mapping[PartitionValues, CarriedFiles]:
    """Return what an append brings along with the figures that the log has of exactly these files, if it has."""
    versions = {files.version for files in carried.values() if files.version and files.files}
    if len(versions) > MOST_VERSIONS:
        return carried
    published_partitions = {
        (partition.values, version): partition for version in versions for partition in _partitions_of(log, version)
    }
    carried_with_figures: dict[PartitionValues, CarriedFiles] = {}
    for values, carried_rows in carried.items():
        published = published_partitions.get((values, carried_rows.version or 0))
        is_same = (
            published is not None
            and published.new_location is not None
            and (published.files, published.bytes) == (carried_rows.files, carried_rows.bytes)
            and Location.parse(published.new_location).same_place(Location.parse(now[values].location))
        )
        carried_with_figures[values] = replace(
            carried_rows, figures=published.figures if published is not None and is_same else ""
        )
    return carried_with_figures


def _partitions_of(log: TableLog, version: int) -> tuple[EntryPartition, ...]:
    try:
        record = log.slots.find(version)
    except TableWriterError as error:
        logger.warning("version=%d cannot be read for its column figures: %s", version, error)
        return ()
    return () if record is None else record.entry.partitions


def _directory_of(staged: WrittenPartition, plan: WritePlan) -> str:
    """Return where readers will look, which must be where the files are."""
    name = name_in(plan.table, staged.values)
    location = plan.data_location.child(name)
    if not all(key.startswith(location.key) for key in staged.keys):
        raise StorageError(f"files of partition {name} are not below {location}; nothing was published", **plan.named)
    return str(location)


@dataclass(frozen=True, slots=True)
class ScheduledDeletions:
    """The locations that are scheduled for deletion, and notes about the others."""

    locations: tuple[ReplacedLocation, ...]
    notes: tuple[str, ...]


def replaced_locations(
    store: ObjectStore,
    layout: TableLayout,
    locations: Sequence[str],
    delete_after: datetime,
    *,
    partitioned: bool = True,
) -> ScheduledDeletions:
    """Describe the locations that readers leave.

    A location of ours is deleted as a whole later. Where other tools wrote, exactly the files that are there now are
    listed. A location outside the table root, or one that contains the root, is left alone and reported; only an
    unpartitioned table has its files in the root itself.
    """
    scheduled: list[ReplacedLocation] = []
    theirs: list[Location] = []
    foreign: list[str] = []
    for location in map(Location.parse, dict.fromkeys(locations)):
        if layout.own.contains(location):
            if not layout.is_placeholder(location) or any(files_at(store, layout, location)):
                scheduled.append(ReplacedLocation(location=str(location), delete_after=delete_after))
        elif layout.is_scheduled(location, partitioned=partitioned):
            theirs.append(location)
        else:
            foreign.append(str(location))
    found = (
        objects_by_location(store, layout, theirs)
        if partitioned
        else {place: list(files_at(store, layout, place)) for place in theirs}
    )
    for location, objects in found.items():
        listed = tuple(ReplacedObject(key=file.key, size_bytes=file.size_bytes, etag=file.etag) for file in objects)
        scheduled.append(ReplacedLocation(location=str(location), delete_after=delete_after, objects=listed))
    notes = tuple(
        f"{location} was replaced but is not scheduled for deletion: it is not below the table's own directory."
        " Delete it yourself once no query reads it any more."
        for location in foreign
    )
    return ScheduledDeletions(tuple(scheduled), notes)


def left_locations(opened: OpenTable, locations: Sequence[str]) -> tuple[ReplacedLocation, ...]:
    """Describe the locations that readers leave when older rows are published again."""
    delete_after, partitioned = datetime.now(UTC) + opened.retention, bool(opened.table.partition_columns)
    return replaced_locations(opened.store, opened.layout, locations, delete_after, partitioned=partitioned).locations


@dataclass(frozen=True, kw_only=True, slots=True)
class RepublishResult:
    """The partitions that a rollback or a restore has put back; a dry one, or one without work, has no version."""

    version: int | None
    partitions: tuple[EntryPartition, ...]
    not_there: Mapping[PartitionValues, str] = field(default_factory=dict)  # why a restore has not added a partition
    present_count: int = 0  # partitions of the log that the metastore has had before a restore
    notes: tuple[str, ...] = ()
    write_id: str = ""  # the id of its own entry


def columns_of(history: History, version: int, now: PartitionsNow) -> dict[str, Any]:
    """Return the fields of an entry that brings back the columns which an unpartitioned table had after a version.

    Those that were added to the same columns since stay. None of a table that never was to get others.
    """
    if () not in now or not any(record.entry.columns_by for record in history.records):
        return {}
    columns = history.columns_at(version)
    if columns is not None and columns.columns_by == now[()].parameters.get(COLUMNS_PARAMETER, ""):
        columns = history.columns_at(history.newest)
    return {} if columns is None else {"schema": columns.schema, "columns_by": columns.columns_by}


def require_known(chosen: Collection[PartitionValues], history: History, table: Table) -> None:
    """Refuse partitions that are not in the log."""
    for values in (values for values in chosen if values not in history.state.current_partitions):
        raise InvalidInputError(
            f"partition {shown_name(table, values)} of {table.name} is not in the log: this library never wrote it",
            table=str(table.name),
        )


class NotThereError(Exception):
    """Readers cannot be pointed at a location; the text is the reason, for a person."""


def check_each(
    wanted: Mapping[PartitionValues, Wanted], check: Callable[[PartitionValues, Wanted], Found]
) -> tuple[tuple[Found, ...], dict[PartitionValues, str]]:
    """Check partitions, several at once; return those that are there, and the reasons of those that are not."""

    def checked(values: PartitionValues) -> Found | NotThereError:
        try:
            return check(values, wanted[values])
        except NotThereError as reason:
            return reason

    answers = dict(zip(wanted, many(checked, wanted), strict=True))
    there = tuple(answer for answer in answers.values() if not isinstance(answer, NotThereError))
    return there, {values: str(answer) for values, answer in answers.items() if isinstance(answer, NotThereError)}


@dataclass(frozen=True, slots=True)
class FilesThere:
    """The files that lay at a location after a version, and those that lie there besides."""

    described: EntryPartition
    files: tuple[ObjectInfo, ...] = ()
    others: Collection[str] = ()
    """Keys of files of other versions that may lie there too, or come there."""


def files_there(
    store: ObjectStore,
    history: History,
    values: PartitionValues,
    location: Location,
    *,
    version: int | None = None,
    seen: Listed = NOT_LISTED,
) -> FilesThere:
    """Return what lay at a location, having compared it with what the log knows of it; else ``NotThereError``.

    ``version`` is the one after which it lay there, by default the newest: files that appends in place have added later
    do not count. Files of ours are counted and measured; those of other tools must be exactly the listed ones, by size
    and ETag. ``old_location`` and ``new_location`` are the caller's to set. ``seen`` has what is known to lie in
    directories of ours by a listing of just now.
    """
    if history.layout.is_placeholder(location):
        if location.place in history.state.deleted_places or list(files_read_at(store, history.layout, location)):
            raise NotThereError(f"another tool has written to {location}, of which the log has no list")
        return FilesThere(EntryPartition.without_rows(values, str(location)))
    surplus = history.past.surplus_names(location, history.newest if version is None else version)
    later = {f"{location.key}{name}" for name in surplus}  # a copy of one may come late: by the log, not by the listing
    known = history.past.content_at(values, location, version=version)
    ours = history.layout.all_data.contains(location)
    if location in seen:
        listed_now = without_marker(visible(seen[location], location), location)
    else:
        listed_now = without_marker((files_read_at if ours else files_at)(store, history.layout, location), location)
    found = [file for file in listed_now if file.key not in later]
    if known is not None and ours:
        if Contents.of(found) != known.contents:
            raise NotThereError(_difference(location, found, str(known.contents)))
        return FilesThere(known, tuple(found), later)
    left = history.state.left_locations.get(location.place)
    if ours or (left is None and not later):
        raise NotThereError(
            f"the log has no list of the files at {location}; if other tools wrote them, MSCK REPAIR finds them"
        )
    if left is not None:  # None: readers look there still, and the changes of other tools stay
        listed = {file.key: file for file in without_marker(left.objects, location) if file.key not in later}
        if {file.key for file in found} != listed.keys() or any(
            not is_same_file(file, listed[file.key]) for file in found
        ):
            raise NotThereError(
                _difference(
                    location,
                    found,
                    f"the {counted(len(listed), 'file')} that {'was' if len(listed) == 1 else 'were'} replaced",
                )
            )
    return FilesThere(_as_listed(values, found), tuple(found), later)


def _as_listed(values: PartitionValues, found: Collection[ObjectInfo]) -> EntryPartition:
    return EntryPartition(
        values=values, old_location=None, new_location=None, rows=None, raw_bytes=None, **Contents.of(found)._asdict()
    )


def there_under_other_names(
    metastore: Metastore, table: Table, missing: Collection[PartitionValues], time_zone: str = ""
) -> dict[PartitionValues, str]:
    """Return the partitions that must not be added: another tool has added them in another spelling, say 01 for 1.

    Without the time zone of a session a timestamp with a zone is passed over: which one it is depends on that.
    """
    types = [column.type for column in table.partition_columns]
    if not missing or not has_spellings(types):
        return {}
    names = [values for values in metastore.get_partition_names(table.name) if _is_clear(values, types, time_zone)]
    spelled = Spellings.of(names, types, time_zone, table=str(table.name))
    others = {values: sorted(set(spelled.spellings_of(values)) - {values}) for values in missing}
    return {
        values: f"the metastore has it as {shown_name(table, found[0])}: readers would see both"
        for values, found in others.items()
        if found
    }


def _is_clear(values: PartitionValues, types: Sequence[str], time_zone: str) -> bool:
    try:
        canonical(values, types, time_zone)
    except InvalidInputError:
        return False
    return True


def require_not_fewer(store: ObjectStore, layout: TableLayout, partition: EntryPartition) -> EntryPartition:
    """Return a partition of an entry if no file is missing at its new location; else ``NotThereError``.

    More files are another tool's, which readers saw there as well; where it has replaced ours, nobody can tell.
    """
    location = Location.parse(partition.new_location or "")
    found = list(files_read_at(store, layout, location))
    is_fewer = Contents.of(found).lacks(partition.contents)
    if is_fewer and all(is_named_by_us(file.key, location, layout) for file in found):
        raise NotThereError(_difference(location, found, str(partition.contents)))
    return partition


def is_same_file(found: ObjectInfo, listed: ReplacedObject) -> bool:
    """Return whether a file is the listed one; a store that renames by copying may change its parts, and its ETag."""
    copied = PARTS_ETAG.fullmatch(listed.etag) and WHOLE_ETAG.fullmatch(found.etag)
    return found.size_bytes == listed.size_bytes and (found.etag == listed.etag or bool(copied))


def _difference(location: Location, found: list[ObjectInfo], expected: str) -> str:
    if not found:
        return f"its files at {location} are gone"
    return f"{location} holds {Contents.of(found)} instead of {expected}"
