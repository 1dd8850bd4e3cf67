"""Which locations may be deleted now. Pure: the log, the metastore's locations and ages in, a decision out."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from table_writer.errors import InvalidInputError
from table_writer.log.history import History, Left
from table_writer.model.entry import ReplacedObject
from table_writer.model.location import Location, Place, PlaceSet
from table_writer.model.table import Partition
from table_writer.model.write import TableLayout

__all__ = ["Ages", "Due", "InUse", "Kept", "due", "in_use", "is_used", "may_go"]


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
        Since an entry was settled on which nothing depends any more.
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

    Readers of the table root, where an unpartitioned table begins, do not look into this library's own directory: its
    name starts with ``_``.
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
    """Return where readers look or may look: by the metastore now, and by the log's newest and unsettled entries."""
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

    Parameters
    ----------
    history, used
        The log, and :func:`in_use`.
    ages
        How long is enough.
    staged
        Writes that wait to be published, though an entry of theirs was abandoned.
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
            kept.append(Kept(left.location, "readers may look there: the metastore or an unsettled entry names it"))
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
