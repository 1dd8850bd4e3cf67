"""The objects at a location: those that readers see, and those to compare, schedule, delete or add in place."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Final, TypeVar

from table_writer.errors import StorageError
from table_writer.model.entry import ReplacedObject
from table_writer.model.location import Location
from table_writer.model.message import write_id_in
from table_writer.model.table import Partition, PartitionValues
from table_writer.model.table_read import Files
from table_writer.model.write import SUCCESS, TableLayout
from table_writer.storage.kinds import kind_of
from table_writer.storage.object_store import (
    PAGE_KEYS,
    THREADS,
    ObjectInfo,
    ObjectStore,
    UploadInfo,
    is_read,
    many,
    visible_files,
)

COPY_THREADS: Final = 32  # a copy is one request that waits for the store and moves nothing here
TOGETHER: Final = 8  # directories: a page of 1,000 keys costs as much as so many small ones
DELETE_THREADS: Final = 4
"""AWS allows 3,500 deletions a second below one prefix: four batches of 1,000 at a time are more than enough."""

Listed = Mapping[Location, Sequence[ObjectInfo]]
"""By directory: all objects below it, in the order of their keys."""
NOT_LISTED: Final[Listed] = {}

Item = TypeVar("Item")
Removed = TypeVar("Removed", bound=str | ObjectInfo | UploadInfo)
File = TypeVar("File", ObjectInfo, ReplacedObject)


def files_read_at(store: ObjectStore, layout: TableLayout, location: Location) -> Iterator[ObjectInfo]:
    """List what readers of a location read: nothing hidden, and nothing of this library's own directory below it."""
    beside = layout.own.key if location.contains(layout.own) else ""
    return visible_files(store, location.key, beside=beside)


def objects_of_each(
    store: ObjectStore, layout: TableLayout, locations: Iterable[Location]
) -> dict[Location, list[ObjectInfo]]:
    """List all objects of many directories, those that one write has made together where that takes fewer requests.

    A page holds 1,000 keys, often those of many partitions. Where it holds those of a few, each is listed by itself,
    several at once; so it is where a store lists from no key on.
    """
    wanted = list(locations)
    keys = sorted({location.key for location in wanted}, key=str.encode)
    outer = {key for key, following in pairwise(keys) if following.startswith(key)}  # which hold others' objects, too
    by_write: dict[str, list[str]] = {}
    for location in {location.key: location for location in wanted}.values():
        write_id = layout.write_id_of(location) if layout.all_data.contains(location) else None
        if write_id is not None and location.key not in outer and kind_of(layout.root).lists_from_a_key:
            by_write.setdefault(layout.data(write_id).key, []).append(location.key)
    found: dict[str, list[ObjectInfo]] = {}
    for group in many(lambda item: _listed_together(store, *item), by_write.items()):
        found |= group
    rest = [key for key in keys if key not in found]
    found |= zip(rest, many(lambda key: list(store.list(key)), rest), strict=True)
    return {location: found[location.key] for location in wanted}


def _listed_together(store: ObjectStore, directory: str, keys: Iterable[str]) -> dict[str, list[ObjectInfo]]:
    """List directories of one write, of which none is in another, while each page has several; return those done."""
    found: dict[str, list[ObjectInfo]] = {}
    waiting, more = sorted(keys, key=str.encode), True
    while more and len(waiting) >= TOGETHER:
        page, more = store.list_page(directory, start_after=waiting[0])
        last = page[-1].key.encode() if more and page else None
        done = [key for key in waiting if last is None or _end_of(key).encode() <= last]
        if len(done) < TOGETHER:
            break
        starts = [key.encode() for key in done]
        found |= {key: [] for key in done}
        for info in page:
            place = bisect_right(starts, info.key.encode())
            if place and info.key.startswith(done[place - 1]):
                found[done[place - 1]].append(info)
        waiting = waiting[len(done) :]
    return found


def files_of_each(
    store: ObjectStore, layout: TableLayout, locations: Collection[Location]
) -> dict[Location, list[ObjectInfo]]:
    """List what readers of many locations read, as :func:`files_read_at` does of one."""
    ours = [location for location in locations if layout.all_data.contains(location)]
    others = [location for location in dict.fromkeys(locations) if not layout.all_data.contains(location)]
    found = {
        location: list(visible(objects, location)) for location, objects in objects_of_each(store, layout, ours).items()
    }
    return found | dict(zip(others, many(lambda place: list(files_read_at(store, layout, place)), others), strict=True))


def visible(objects: Iterable[ObjectInfo], location: Location) -> Iterator[ObjectInfo]:
    """Leave out what no reader of a location reads."""
    return (info for info in objects if is_read(info.key, location.key))


def listed_files(store: ObjectStore, layout: TableLayout, location: Location) -> Files:
    """List the files directly at a location, of which its readers see rows, for a comparison with what was read."""
    names = ((file, file.key.removeprefix(location.key)) for file in files_read_at(store, layout, location))
    return {name: (file.size_bytes, int(file.modified_at.timestamp())) for file, name in names if "/" not in name}


def is_named_by_us(key: str, location: Location, layout: TableLayout) -> bool:
    """Return whether a file's name carries the id of a write, as those of all files do that this library writes."""
    name, write_id = key.removeprefix(location.key).rpartition("/")[2], layout.write_id_of(location)
    return write_id_in(name, (write_id,) if write_id else ()) is not None


def written_placeholders(
    store: ObjectStore, layout: TableLayout, partitions: Mapping[PartitionValues, Partition]
) -> frozenset[PartitionValues]:
    """Return the partitions at placeholders to which another tool has written: they have rows after all."""
    placeholders = _placeholders(layout, partitions)
    listed = many(lambda location: any(files_read_at(store, layout, location)), placeholders.values())
    return frozenset(values for values, is_written in zip(placeholders, listed, strict=True) if is_written)


def existing_values(
    store: ObjectStore, layout: TableLayout, partitions: Mapping[PartitionValues, Partition]
) -> frozenset[PartitionValues]:
    """Return the partitions that exist: not those that a refused publish has left at a placeholder without rows."""
    written = written_placeholders(store, layout, partitions)
    return frozenset(partitions.keys() - (_placeholders(layout, partitions).keys() - written))


def _placeholders(
    layout: TableLayout, partitions: Mapping[PartitionValues, Partition]
) -> dict[PartitionValues, Location]:
    found = {values: Location.parse_any(partition.location) for values, partition in partitions.items()}
    return {values: place for values, place in found.items() if place is not None and layout.is_placeholder(place)}


def why_not_copied(layout: TableLayout, partition: Partition) -> str:
    """Say why a partition's files cannot be put beside new ones of the table; empty if they can."""
    location = Location.parse(partition.location)
    in_reach = location.place[:2] == layout.root.place[:2]
    return partition.differs if in_reach else f"lies in another bucket, at {location}"


def files_at(store: ObjectStore, layout: TableLayout, location: Location) -> Iterator[ObjectInfo]:
    """List all objects of a location, and none that another table's root below it keeps for itself.

    The root of an unpartitioned table is a location too: there only what readers see counts, and neither this library's
    own directory nor markers such as ``_SUCCESS``.
    """
    if location.contains(layout.own):
        return files_read_at(store, layout, location)
    return (found for found in store.list(location.key) if not layout.is_of_inner_root(found.key, location))


def without_marker(files: Iterable[File], location: Location) -> Iterator[File]:
    """Leave out the ``_SUCCESS`` of a location: it has no rows, and anybody may have put another one since."""
    return (file for file in files if file.key != f"{location.key}{SUCCESS}")


def objects_by_location(
    store: ObjectStore, layout: TableLayout, wanted: Sequence[Location]
) -> dict[Location, list[ObjectInfo]]:
    """List several directories of one root in as few requests as their order in the listing allows."""
    ordered = sorted(wanted, key=lambda location: location.key)
    starts = [location.key for location in ordered]
    groups: dict[Location, list[ObjectInfo]] = {location: [] for location in ordered}
    for found in _skip_scan(store, layout, ordered):
        before = bisect_right(starts, found.key)
        location = ordered[before - 1]
        if before and found.key.startswith(location.key) and not layout.is_of_inner_root(found.key, location):
            groups[location].append(found)
    return groups


def _skip_scan(store: ObjectStore, layout: TableLayout, ordered: Sequence[Location]) -> Iterator[ObjectInfo]:
    """Walk the root's listing, jumping over what lies between the wanted directories.

    One page holds 1,000 keys, often several whole partitions: reading on is cheaper than a request per directory.
    """
    last_key = ""
    for location in ordered:
        if last_key.encode() >= _end_of(location.key).encode():
            continue  # already passed within an earlier page
        start = last_key if last_key.startswith(location.key) else location.key
        more = True
        while more and start.encode() < _end_of(location.key).encode():
            page, more = store.list_page(layout.root.key, start_after=start)
            yield from page
            if not page:
                return
            start = last_key = page[-1].key
        if not more:
            return


def _end_of(directory: str) -> str:
    """Return a key after every key of the directory: ``0`` follows ``/``."""
    return f"{directory[:-1]}0"


@dataclass(slots=True)
class RemovalResult:
    """The number of uploads or objects that are gone, and which others may be there still, and why."""

    count: int = 0
    failures: list[str] = field(default_factory=list)
    left_keys: set[str] = field(default_factory=set)


def abort_uploads(store: ObjectStore, uploads: Iterable[UploadInfo], *, threads: int = THREADS) -> RemovalResult:
    """Abort pending uploads; one that is gone already counts as aborted."""

    def abort(batch: list[UploadInfo]) -> None:
        store.abort_upload(batch[0].key, batch[0].upload_id)

    return _remove(abort, batches(uploads, 1), threads=threads, at_once=PAGE_KEYS)


def delete_keys(store: ObjectStore, keys: Iterable[str | ObjectInfo]) -> RemovalResult:
    """Delete objects, 1,000 a request; of a batch that fails nobody knows how many are gone: none is counted.

    Of those that are given as they were listed, others that have taken their keys since stay.
    """

    def delete(batch: list[str | ObjectInfo]) -> None:
        store.delete(batch)

    return _remove(delete, batches(keys, PAGE_KEYS), threads=DELETE_THREADS, at_once=DELETE_THREADS)


def require_deleted(removed: RemovalResult, where: str) -> None:
    """Raise ``StorageError`` if some objects of a place may be there still."""
    if removed.failures:
        raise StorageError(f"not all of {where} is deleted: {removed.failures[0]}")


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Cut an iterable that may be too long to be held at once."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def _remove(
    remove: Callable[[list[Removed]], object], requests: Iterable[list[Removed]], *, threads: int, at_once: int
) -> RemovalResult:
    """Send each request; no more than ``at_once`` are taken before the first of them is done with."""
    removed = RemovalResult()

    def tried(request: list[Removed]) -> StorageError | None:
        try:
            remove(request)
        except StorageError as error:
            return error
        return None

    for taken in batches(requests, at_once):
        for request, error in zip(taken, many(tried, taken, threads), strict=True):
            if error is None:
                removed.count += len(request)
            else:
                removed.failures.append(str(error))
                removed.left_keys.update(item if isinstance(item, str) else item.key for item in request)
    return removed
