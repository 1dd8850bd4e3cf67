"""Which locations may be deleted now. Pure: the log, the metastore's locations and ages in, a decision out."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Final

from table_writer.errors import InvalidInputError, StorageError
from table_writer.log.history import History, Left
from table_writer.log.owner import other_tables, places_of
from table_writer.metastore.protocol import Metastore
from table_writer.model.entry import ReplacedObject
from table_writer.model.location import Location, Place, PlaceSet
from table_writer.model.table import Partition, Table, TableName
from table_writer.model.write import TableLayout
from table_writer.storage.object_store import ObjectStore, many

SAFE_AGE: Final = timedelta(hours=24)  # calls in flight and running queries must find their files
THREADS: Final = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Ages:
    """How old things must be before they go, in seconds; ``math.inf`` keeps them.

    Parameters
    ----------
    replaced_seconds
        Since readers left a location; ``None``: as the entry has scheduled.
    usual_seconds
        Where no entry has scheduled anything.
    dead_write_seconds
        Since the last sign of life of a write.
    history_seconds
        Since an entry ended on which nothing depends any more.
    least_seconds
        Nothing that readers have seen goes earlier, whatever was scheduled.
    """

    replaced_seconds: float | None
    usual_seconds: float
    dead_write_seconds: float
    history_seconds: float = math.inf
    least_seconds: float = 0.0

    def of_replaced(self, left: Left) -> float:
        """Return how long a location stays."""
        scheduled = self.usual_seconds if left.retention_seconds is None else left.retention_seconds
        return max(self.least_seconds, scheduled if self.replaced_seconds is None else self.replaced_seconds)


@dataclass(frozen=True, slots=True)
class Kept:
    """A location that stays, and why."""

    location: Location
    reason: str


@dataclass(frozen=True, slots=True)
class Due:
    """What is past its retention, and what is not deleted nevertheless."""

    locations: tuple[Left, ...]
    kept: tuple[Kept, ...]

    def keeping(self, reasons: Mapping[Place, str]) -> Due:
        """Return the same with more locations kept, each with its reason."""
        kept = (
            Kept(one.location, reasons[one.location.place]) for one in self.locations if one.location.place in reasons
        )
        free = tuple(one for one in self.locations if one.location.place not in reasons)
        return Due(free, (*self.kept, *kept))


class InUse:
    """Where readers look, or may look.

    Readers of the table root, where an unpartitioned table begins, pass over this library's own directory: its name
    starts with ``_``.
    """

    def __init__(self, layout: TableLayout, places: Collection[Place]) -> None:
        root = layout.root.place
        self.place_count = len(places)
        self._own = PlaceSet([layout.own.place])
        self._all = PlaceSet(places)
        self._inside = PlaceSet(place for place in places if place != root) if root in places else self._all

    def meets(self, place: Place) -> bool:
        """Whether readers look at this directory, below it or around it."""
        return self._seen_from(place).meets(place)

    def holds(self, place: Place) -> bool:
        """Whether readers see this object."""
        return self._seen_from(place).holds(place)

    def _seen_from(self, place: Place) -> PlaceSet:
        return self._inside if self._own.holds(place) else self._all


def in_use(history: History, partitions: Iterable[Partition]) -> InUse:
    """Return where readers look or may look: by the metastore now, and by newest entries and those in doubt."""
    live = set()
    for partition in partitions:
        try:
            live.add(Location.parse(partition.location).place)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"the location of partition {partition.values} cannot be read, and nothing is deleted while it is not"
                f" known where readers look: {error.message}. ALTER TABLE ... PARTITION ... SET LOCATION to a full URI"
            ) from error
    return InUse(history.layout, live | history.in_use())


def due(history: History, used: InUse, ages: Ages, staged: Collection[str] = ()) -> Due:
    """Choose what readers have left for long enough.

    Deleted as a whole is only a directory of one write, or of one partition of one write. Where other tools wrote,
    exactly the listed objects are deleted, never below the directory of this library and never outside the root.
    ``staged`` are writes that wait to be published, though an entry of theirs was abandoned.
    """
    chosen: list[Left] = []
    kept: list[Kept] = []
    for left in sorted(history.left.values(), key=lambda one: (one.left_by, str(one.location))):
        wanted_seconds = ages.of_replaced(left)
        write_id = history.layout.write_id_of(left.location)
        if left.age_seconds < wanted_seconds:
            hours = (wanted_seconds - left.age_seconds) / 3600
            kept.append(Kept(left.location, f"its retention lasts {hours:.1f} more hours"))
        elif is_used(used, left):
            kept.append(Kept(left.location, "readers may look there: the metastore, or an entry in doubt, names it"))
        elif write_id in staged:
            kept.append(Kept(left.location, "the write is staged, and has not expired"))
        elif write_id is not None or (left.objects and history.layout.root.contains(left.location)):
            chosen.append(left)
    own = history.layout.own  # an abandoned write's directory may lie around one of ours that stays
    stay = PlaceSet(one.location.place for one in kept if own.contains(one.location))
    return Due(tuple(left for left in chosen if not stay.meets(left.location.place)), tuple(kept))


def is_used(used: InUse, left: Left) -> bool:
    """Whether readers may look at what is to be deleted: at a location of ours, or at one of other tools' objects."""
    if not left.objects:
        return used.meets(left.location.place)
    store, bucket, _ = left.location.place
    return any(used.holds((store, bucket, found.key)) for found in left.objects)


def may_go(history: History, location: Location, found: ReplacedObject) -> bool:
    """Whether one listed object of another tool may be deleted: at its location, below the root, beside our files.

    Nor is it deleted from the directory that another table of this library keeps below the root.
    """
    root = history.layout.root
    inside = found.key.startswith(root.key) and not history.layout.is_of_inner_root(found.key, root)
    return inside and found.key.startswith(location.key)


@dataclass(frozen=True, slots=True)
class Others:
    """The other tables of a metastore, and the roots of other tables that the store shows.

    A *partition* that somebody has pointed below this root by hand, while its table lies elsewhere, is not seen: that
    would take all partitions of all tables.
    """

    layout: TableLayout
    tables: dict[Place, TableName]
    _places: PlaceSet = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_places", PlaceSet(self.tables))

    @classmethod
    def of(cls, metastore: Metastore, layout: TableLayout, table: Table) -> Others:
        """Read all tables of all databases; kept are only those that lie below, at or around the root."""
        root = PlaceSet([layout.root.place])
        near = (
            (location.place, other.name) for other in other_tables(metastore, table) for location in places_of(other)
        )
        return cls(layout, {place: name for place, name in near if root.meets(place)})

    def reasons(self, store: ObjectStore, locations: Iterable[Left]) -> dict[Place, str]:
        """Say why locations of other tools stay: one request for each directory that holds a listed file."""
        foreign = [left for left in locations if left.objects]
        directories = {one for left in foreign for found in left.objects for one in self._above(found.key)}
        answers = zip(directories, many(partial(self._why_root, store), directories, THREADS), strict=True)
        roots = {directory: why for directory, why in answers if why}
        found = ((left.location.place, self._reason(left, roots)) for left in foreign)
        return {place: reason for place, reason in found if reason}

    def _reason(self, left: Left, roots: Mapping[str, str]) -> str:
        store, bucket, _ = left.location.place
        for found in left.objects:
            holder = self._places.holder((store, bucket, found.key))
            if holder is not None:
                return f"files there may be those of table {self.tables[holder]}, whose location holds them"
            inner = next((one for one in self._above(found.key) if one in roots), None)
            if inner is not None:
                return f"files there may be those of another table, {roots[inner]}"
        return ""

    def _above(self, key: str) -> Iterable[str]:
        """Return the directories between the root and a file."""
        root = self.layout.root.key
        below = key.removeprefix(root).split("/")[:-1]
        return (f"{root}{'/'.join(below[:depth])}/" for depth in range(1, len(below) + 1))

    def _why_root(self, store: ObjectStore, directory: str) -> str:
        """Return which table a directory is, or may be, the root of; empty if of none."""
        owner_key = TableLayout(self._location(directory), self.layout.directory_name).owner_key
        try:
            is_root = store.head(owner_key) is not None
        except StorageError as error:  # a policy may not allow to look
            return f"whose root may be {self._location(directory)}: {error.message}"
        return f"whose root is {self._location(directory)}" if is_root else ""

    def _location(self, key: str) -> Location:
        return Location(self.layout.root.scheme, self.layout.root.bucket, key)
