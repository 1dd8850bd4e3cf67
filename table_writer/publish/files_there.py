"""Whether the files of a location are still what the log says: asked before readers are pointed there again."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from table_writer.errors import InvalidInputError
from table_writer.log.files import files_at, files_read_at, is_named_by_us
from table_writer.log.history import History
from table_writer.metastore.protocol import Metastore
from table_writer.model.entry import EntryPartition, ReplacedObject
from table_writer.model.location import Location
from table_writer.model.partition_name import shown_name
from table_writer.model.partition_value import Spellings, canonical, has_spellings
from table_writer.model.table import PartitionValues, Table
from table_writer.model.write import TableLayout
from table_writer.storage.object_store import ObjectInfo, ObjectStore

__all__ = [
    "NotThereError",
    "check_each",
    "files_as_named",
    "files_there",
    "require_not_fewer",
    "there_under_other_names",
]


LIST_THREADS: Final = 16
WHOLE_ETAG: Final = re.compile(r"[0-9a-f]{32}")
PARTS_ETAG: Final = re.compile(r"[0-9a-f]{32}-\d+")  # S3's, of an upload in parts: a copy of it has the other kind

Wanted = TypeVar("Wanted")


class NotThereError(Exception):
    """Readers cannot be pointed at a location; the text is the reason, for a person."""


def check_each(
    wanted: Mapping[PartitionValues, Wanted], check: Callable[[PartitionValues, Wanted], EntryPartition]
) -> tuple[tuple[EntryPartition, ...], dict[PartitionValues, str]]:
    """Check partitions, several at once; return those that are there, and the reasons of those that are not."""

    def checked(values: PartitionValues) -> EntryPartition | NotThereError:
        try:
            return check(values, wanted[values])
        except NotThereError as reason:
            return reason

    with ThreadPoolExecutor(LIST_THREADS, thread_name_prefix="check") as pool:
        answers = dict(zip(wanted, pool.map(checked, wanted), strict=True))
    there = tuple(answer for answer in answers.values() if isinstance(answer, EntryPartition))
    return there, {values: str(answer) for values, answer in answers.items() if isinstance(answer, NotThereError)}


def files_there(store: ObjectStore, history: History, values: PartitionValues, location: Location) -> EntryPartition:
    """Return what lies at a location, having compared it with what the log knows of it.

    Files of ours are counted and measured; those of other tools must be exactly the listed ones, by size and ETag.

    Returns
    -------
    EntryPartition
        The figures of the location; ``old_location`` and ``new_location`` are the caller's to set.

    Raises
    ------
    NotThereError
        Files are missing, changed or unknown.
    """
    if history.layout.is_placeholder(location):
        if location.place in history.deleted or list(files_read_at(store, history.layout, location)):
            raise NotThereError(f"another tool has written to {location}, of which the log has no list")
        return EntryPartition(
            values=values, old_location=None, new_location=str(location), rows=0, bytes=0, raw_bytes=0, files=0
        )
    known = history.described(values, location)
    ours = history.layout.all_data.contains(location)
    if known is not None and ours:
        return files_as_named(store, history.layout, known)
    found = list((files_read_at if ours else files_at)(store, history.layout, location))
    left = history.left.get(location.place)
    if left is None or ours:
        raise NotThereError(
            f"the log has no list of the files at {location}; if other tools wrote them, MSCK REPAIR finds them"
        )
    listed = {one.key: one for one in left.objects}
    if {one.key for one in found} != listed.keys() or any(not _same(one, listed[one.key]) for one in found):
        raise NotThereError(_difference(location, found, f"the {len(listed)} files that were replaced"))
    return EntryPartition(
        values=values,
        old_location=None,
        new_location=str(location),
        rows=None,
        bytes=sum(one.size_bytes for one in left.objects),
        raw_bytes=None,
        files=len(listed),
    )


def there_under_other_names(
    metastore: Metastore, table: Table, missing: Collection[PartitionValues]
) -> dict[PartitionValues, str]:
    """Return the partitions that must not be added: another tool has added them in another spelling, say 01 for 1.

    A timestamp with a zone is passed over: which one it is depends on a session, and there is none here.
    """
    types = [column.type for column in table.partition_columns]
    if not missing or not has_spellings(types):
        return {}
    names = [values for values in metastore.get_partition_names(table.name) if _is_clear(values, types)]
    spelled = Spellings.of(names, types, table=str(table.name))
    others = {values: sorted(set(spelled.all(values)) - {values}) for values in missing}
    return {
        values: f"the metastore has it as {shown_name(table, found[0])}: readers would see both"
        for values, found in others.items()
        if found
    }


def _is_clear(values: PartitionValues, types: Sequence[str]) -> bool:
    try:
        canonical(values, types)
    except InvalidInputError:
        return False
    return True


def files_as_named(store: ObjectStore, layout: TableLayout, named: EntryPartition) -> EntryPartition:
    """Return a partition of an entry, having counted and measured the files at its new location, which is ours.

    Raises
    ------
    NotThereError
        Files are missing or changed.
    """
    location = Location.parse(named.new_location or "")
    found = list(files_read_at(store, layout, location))
    if (len(found), sum(one.size_bytes for one in found)) != (named.files, named.bytes):
        raise NotThereError(_difference(location, found, f"{named.files} files with {named.bytes:,} bytes"))
    return named


def require_not_fewer(store: ObjectStore, layout: TableLayout, named: EntryPartition) -> EntryPartition:
    """Return a partition of an entry that readers may be pointed at again: at its new location no file is missing.

    More files are another tool's, which readers saw there as well; where it has replaced ours, nobody can tell.

    Raises
    ------
    NotThereError
        Files are missing.
    """
    location = Location.parse(named.new_location or "")
    found = list(files_read_at(store, layout, location))
    is_fewer = len(found) < named.files or sum(one.size_bytes for one in found) < named.bytes
    if is_fewer and all(is_named_by_us(one.key, location, layout) for one in found):
        raise NotThereError(_difference(location, found, f"{named.files} files with {named.bytes:,} bytes"))
    return named


def _same(found: ObjectInfo, listed: ReplacedObject) -> bool:
    """Whether a file is the listed one; a store that renames by copying makes one part of many, with another ETag."""
    copied = PARTS_ETAG.fullmatch(listed.etag) and WHOLE_ETAG.fullmatch(found.etag)
    return found.size_bytes == listed.size_bytes and (found.etag == listed.etag or bool(copied))


def _difference(location: Location, found: list[ObjectInfo], expected: str) -> str:
    if not found:
        return f"its files at {location} are gone"
    size = sum(one.size_bytes for one in found)
    return f"{location} holds {len(found)} files with {size:,} bytes instead of {expected}"
