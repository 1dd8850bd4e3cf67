"""Which locations a publish replaces, and which files of other tools lie there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from table_writer.log.files import files_at
from table_writer.model.entry import ReplacedLocation, ReplacedObject
from table_writer.model.location import Location
from table_writer.model.write import TableLayout
from table_writer.storage.object_store import ObjectInfo, ObjectStore

__all__ = ["Replaced", "replaced_locations"]


@dataclass(frozen=True, slots=True)
class Replaced:
    """What is scheduled for deletion, and what a person should know about the rest."""

    locations: tuple[ReplacedLocation, ...]
    notes: tuple[str, ...]

    @property
    def listed_files(self) -> bool:
        """Whether files of other tools were listed, which takes a request for every 1,000."""
        return any(replaced.objects for replaced in self.locations)


def replaced_locations(
    store: ObjectStore,
    layout: TableLayout,
    locations: Sequence[str],
    delete_after: datetime,
    *,
    partitioned: bool = True,
) -> Replaced:
    """Describe the locations that readers leave.

    A location of ours is deleted as a whole later. Where other tools wrote, exactly the files that are there now are
    listed. A location outside the table root, or one that contains the root, is left alone and reported; only an
    unpartitioned table has its files in the root itself.
    """
    ours: list[ReplacedLocation] = []
    theirs: list[Location] = []
    foreign: list[str] = []
    for location in map(Location.parse, dict.fromkeys(locations)):
        if layout.own.contains(location):
            if not layout.is_placeholder(location) or any(files_at(store, layout, location)):
                ours.append(ReplacedLocation(location=str(location), delete_after=delete_after))
        elif layout.root.contains(location) and not (partitioned and location.contains(layout.own)):
            theirs.append(location)
        else:
            foreign.append(str(location))
    found = (
        _objects_by_location(store, layout, theirs)
        if partitioned
        else {one: list(files_at(store, layout, one)) for one in theirs}
    )
    scheduled = tuple(
        ReplacedLocation(location=str(location), delete_after=delete_after, objects=tuple(map(_described, objects)))
        for location, objects in found.items()
    )
    return Replaced(locations=(*ours, *scheduled), notes=tuple(map(_foreign_note, foreign)))


def _foreign_note(location: str) -> str:
    return (
        f"{location} was replaced but is not scheduled for deletion: it is not below the table's own directory."
        " Delete it yourself once no query reads it any more."
    )


def _described(found: ObjectInfo) -> ReplacedObject:
    return ReplacedObject(key=found.key, size_bytes=found.size_bytes, etag=found.etag)


def _objects_by_location(
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
        if last_key.encode() >= _end_of(location).encode():
            continue  # already passed within an earlier page
        start = last_key if last_key.startswith(location.key) else location.key
        more = True
        while more and start.encode() < _end_of(location).encode():
            page, more = store.list_page(layout.root.key, start_after=start)
            yield from page
            if not page:
                return
            start = last_key = page[-1].key
        if not more:
            return


def _end_of(location: Location) -> str:
    """Return a key after every key of the directory: ``0`` follows ``/``."""
    return f"{location.key[:-1]}0"
