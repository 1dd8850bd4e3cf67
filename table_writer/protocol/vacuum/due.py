"""A vacuum's decision: which locations are due, and which writes are dead.

The decision about locations is pure: the log, the metastore's locations and ages in, what is due out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from table_writer.checked import require_age
from table_writer.errors import InvalidInputError, StorageError
from table_writer.metastore.protocol import Metastore
from table_writer.model.defaults import SAFE_AGE
from table_writer.model.entry import WRITE_ID, ReplacedObject
from table_writer.model.location import Location, Place, PlaceSet
from table_writer.model.message import write_id_in
from table_writer.model.table import HISTORY_PROPERTY, RETENTION_PROPERTY, Partition, PartitionValues, Table
from table_writer.model.write import TableLayout
from table_writer.protocol.log.history import History
from table_writer.protocol.log.owner import other_tables, places_of
from table_writer.protocol.log.placements import Placement
from table_writer.protocol.log.registration import FoundRegistration, check_keys, read_registrations, write_id_of_check
from table_writer.protocol.log.state import LeftLocation
from table_writer.protocol.table.open_table import OpenTable
from table_writer.storage.object_store import ObjectInfo, ObjectStore, UploadInfo, many

HISTORY_RETENTION: Final = timedelta(days=30)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ages:
    """The ages in seconds at which things may be deleted; ``math.inf`` keeps them."""

    replaced_seconds: float | None  # since readers left a location; None: as its entry has scheduled
    usual_seconds: float  # for a location whose entry has scheduled nothing
    dead_write_seconds: float  # since the last sign of life of a write
    history_seconds: float = math.inf  # since an entry ended on which nothing depends any more
    least_seconds: float = 0.0  # nothing that readers have seen goes earlier, whatever was scheduled

    def of_replaced(self, left: LeftLocation) -> float:
        """Return how long a location stays."""
        scheduled = self.usual_seconds if left.retention_seconds is None else left.retention_seconds
        return max(self.least_seconds, scheduled if self.replaced_seconds is None else self.replaced_seconds)


def vacuum_ages(opened: OpenTable, older_than: timedelta | None = None, *, force: bool = False) -> Ages:
    """Return the ages of a vacuum; ``InvalidInputError`` if they are too low, or a table property is no age."""
    age = _vacuum_age(opened, older_than, force=force)
    history = opened.hours_property(HISTORY_PROPERTY)
    return Ages(
        replaced_seconds=None if age is None else age.total_seconds(),
        usual_seconds=opened.retention.total_seconds(),
        dead_write_seconds=(max(opened.retention, SAFE_AGE) if age is None else age).total_seconds(),
        history_seconds=(HISTORY_RETENTION if history is None else history).total_seconds(),
        least_seconds=0 if force else SAFE_AGE.total_seconds(),
    )


def _vacuum_age(opened: OpenTable, older_than: timedelta | None, *, force: bool) -> timedelta | None:
    """Return the age that is asked for, else the table's; ``None``: each location's own retention."""
    opened.require_properties()  # a retention that is spelled wrong would let files go too early
    of_table = opened.hours_property(RETENTION_PROPERTY)
    if older_than is None:
        if of_table is not None:
            require_safe(str(opened.table.name), of_table, SAFE_AGE, force=force)
        return of_table
    require_safe(str(opened.table.name), older_than, max(SAFE_AGE, of_table or SAFE_AGE), force=force)
    return older_than


def require_safe(table: str, age: timedelta, least: timedelta, *, force: bool) -> None:
    """Refuse an age that is too low, unless it is forced."""
    require_age("older_than", age)
    if age < least and not force:
        raise InvalidInputError(
            f"an age of {age} is less than {least}: running queries, and calls that the metastore has not applied yet,"
            f" could lose their files. If none is left of {table or 'the tables'}: force=True, or --force of the"
            " command",
            table=table,
        )


@dataclass(frozen=True, slots=True)
class KeptLocation:
    """A location that stays, and why."""

    location: Location
    reason: str


@dataclass(frozen=True, slots=True)
class DueLocations:
    """The locations that are past their retention, and those that are kept nevertheless."""

    locations: tuple[LeftLocation, ...]
    kept: tuple[KeptLocation, ...]

    def with_kept(self, reasons: Mapping[Place, str]) -> DueLocations:
        """Return the same with more locations kept, each with its reason."""
        kept = (
            KeptLocation(left.location, reasons[left.location.place])
            for left in self.locations
            if left.location.place in reasons
        )
        free = tuple(left for left in self.locations if left.location.place not in reasons)
        return DueLocations(free, (*self.kept, *kept))


class InUse:
    """The places where readers look, or may look.

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
        """Return whether readers look at this directory, below it or around it."""
        return self._seen_from(place).meets(place)

    def holds(self, place: Place) -> bool:
        """Return whether readers see this object."""
        return self._seen_from(place).holds(place)

    def _seen_from(self, place: Place) -> PlaceSet:
        return self._inside if self._own.holds(place) else self._all


def in_use(history: History, partitions: Iterable[Partition], why_partial: Callable[[], str] = str) -> InUse:
    """Return where readers look or may look: by the metastore now, and by newest entries and those in doubt.

    Of a partition that the log has, and that the metastore does not show, it may be any place where it ever was, if
    ``why_partial`` says why the partition may be hidden.
    """
    live: set[Place] = set()
    shown: set[PartitionValues] = set()
    for partition in partitions:
        shown.add(partition.values)
        try:
            live.add(Location.parse(partition.location).place)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"the location of partition {partition.values} cannot be read, and nothing is deleted while it is not"
                f" known where readers look: {error.message}. ALTER TABLE ... PARTITION ... SET LOCATION to a full URI"
            ) from error
    lacking = {
        values
        for values, current in history.state.current_partitions.items()
        if current.partition.new_location is not None
    } - shown
    hidden_places = _former_places(history, lacking) if lacking and why_partial() else frozenset()
    return InUse(history.layout, live | history.in_use() | hidden_places)


def _former_places(history: History, wanted: Collection[PartitionValues]) -> frozenset[Place]:
    """Return all places where the log says that these partitions were, as far as entries, or a fold, still say so.

    A fold does not say whose a place is that was left; of this library's own the last directories do.
    """
    entries = (record.entry for record in history.records)
    named = [partition for entry in entries for partition in entry.partitions if partition.values in wanted]
    named += [history.state.current_partitions[values].partition for values in wanted]
    texts = {text for partition in named for text in partition.locations}
    places = [location for text in texts if (location := Location.parse_any(text)) is not None]
    own = {_below_write(history.layout, location) for location in places} - {""}
    left = (old.location for old in history.state.left_locations.values())
    left_by_own = [location for location in left if _below_write(history.layout, location) in own]
    return frozenset(location.place for location in (*places, *left_by_own))


def _below_write(layout: TableLayout, location: Location) -> str:
    """Return the directories of a partition below its write's own, empty where it is not this library's."""
    below = location.key.removeprefix(layout.all_data.key)
    return below.partition("/")[2] if below != location.key else ""


def due_locations(history: History, used: InUse, ages: Ages, staged: Collection[str] = ()) -> DueLocations:
    """Choose what readers have left for long enough.

    Deleted as a whole is only a directory of one write, or of one partition of one write. Where other tools wrote,
    exactly the listed objects are deleted, never below the directory of this library and never outside the root.
    ``staged`` are writes that wait to be published, though an entry of theirs was abandoned.

    What an erasure names, or a vacuum that died, is past its retention; but not while a call may come late that points
    readers there.
    """
    chosen: list[LeftLocation] = []
    kept: list[KeptLocation] = []
    for left in sorted(history.state.left_locations.values(), key=lambda left: (left.left_by, str(left.location))):
        wanted_seconds = ages.of_replaced(left)
        write_id = history.layout.write_id_of(left.location)
        place, is_young = left.location.place, left.age_seconds < wanted_seconds
        is_doomed = history.state.doomed_places.get(place) == left.left_by
        if is_young and is_doomed and history.placements.late_places.meets(place):
            kept.append(KeptLocation(left.location, "a call that others have recovered may yet point readers there"))
        elif is_young and not is_doomed:
            hours = (wanted_seconds - left.age_seconds) / 3600
            kept.append(KeptLocation(left.location, f"its retention lasts {hours:.1f} more hours"))
        elif is_used(used, left):
            kept.append(
                KeptLocation(left.location, "readers may look there: the metastore, or an entry in doubt, names it")
            )
        elif write_id in staged:
            kept.append(KeptLocation(left.location, "the write is staged, and has not expired"))
        elif write_id is not None or (left.objects and history.layout.root.contains(left.location)):
            chosen.append(left)
    own = history.layout.own  # an abandoned write's directory may lie around one of ours that stays
    stay = PlaceSet(kept_location.location.place for kept_location in kept if own.contains(kept_location.location))
    return DueLocations(tuple(left for left in chosen if not stay.meets(left.location.place)), tuple(kept))


def is_used(used: InUse, left: LeftLocation) -> bool:
    """Return whether readers may look at what is to be deleted: a location of ours, or an object of other tools."""
    if not left.objects:
        return used.meets(left.location.place)
    store, bucket, _ = left.location.place
    return any(used.holds((store, bucket, found.key)) for found in left.objects)


def may_go(history: History, location: Location, found: ReplacedObject) -> bool:
    """Return whether a listed object of another tool may be deleted: it is at its location, and below the root.

    Nor is it deleted from the directory that another table of this library keeps below the root.
    """
    root = history.layout.root
    inside = found.key.startswith(root.key) and not history.layout.is_of_inner_root(found.key, root)
    return inside and found.key.startswith(location.key)


class OtherTables:
    """The other tables of a metastore, and the roots of other tables that the store shows.

    A *partition* that somebody has pointed below this root by hand, while its table lies elsewhere, is not seen: that
    would take all partitions of all tables.
    """

    def __init__(self, metastore: Metastore, layout: TableLayout, table: Table) -> None:
        others = other_tables(metastore, table)  # all of all databases; kept are those below, at or around the root
        root = PlaceSet([layout.root.place])
        named = ((place, other_table.name) for other_table in others for place in places_of(other_table))
        self._layout = layout
        self._tables = {location.place: name for location, name in named if root.meets(location.place)}
        self._places = PlaceSet(self._tables)

    def reasons(self, store: ObjectStore, locations: Iterable[LeftLocation]) -> dict[Place, str]:
        """Say why locations of other tools stay: one request for each directory that holds a listed file."""
        foreign = [left for left in locations if left.objects]
        directories = {directory for left in foreign for found in left.objects for directory in self._above(found.key)}
        answers = zip(directories, many(partial(self._why_root, store), directories), strict=True)
        roots = {directory: why for directory, why in answers if why}
        reasons = ((left.location.place, self._reason(left, roots)) for left in foreign)
        return {place: reason for place, reason in reasons if reason}

    def _reason(self, left: LeftLocation, roots: Mapping[str, str]) -> str:
        store, bucket, _ = left.location.place
        for found in left.objects:
            holder = self._places.holder((store, bucket, found.key))
            if holder is not None:
                return f"files there may be those of table {self._tables[holder]}, whose location holds them"
            inner = next((directory for directory in self._above(found.key) if directory in roots), None)
            if inner is not None:
                return f"files there may be those of another table, {roots[inner]}"
        return ""

    def _above(self, key: str) -> Iterable[str]:
        """Return the directories between the root and a file."""
        root = self._layout.root.key
        below = key.removeprefix(root).split("/")[:-1]
        return (f"{root}{'/'.join(below[:depth])}/" for depth in range(1, len(below) + 1))

    def _why_root(self, store: ObjectStore, directory: str) -> str:
        """Return which table a directory is, or may be, the root of; empty if of none."""
        root = self._layout.root.beside(directory)
        try:
            is_root = store.head(TableLayout(root, self._layout.directory_name).owner_key) is not None
        except StorageError as error:  # a policy may not allow to look
            return f"whose root may be {root}: {error.message}"
        return f"whose root is {root}" if is_root else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadWrite:
    """A write to give up, and all that lies under its own prefix."""

    write_id: str
    reason: str
    objects: tuple[ObjectInfo, ...]
    uploads: tuple[UploadInfo, ...]
    registered: tuple[str, ...] = ()  # keys of what says that it is running or staged, and of results of its checks


@dataclass(frozen=True, kw_only=True, slots=True)
class Traces:
    """The traces of writes in a table's directory, as one look showed them."""

    layout: TableLayout
    write_ids: frozenset[str]  # that have a directory under data/
    uploads: dict[str, list[UploadInfo]]
    registered: dict[str, FoundRegistration]
    checks: tuple[str, ...]  # keys of results of checks
    now: datetime  # by the store's clock
    elsewhere: tuple[UploadInfo, ...] = ()  # below the root, and not under data/

    @property
    def staged_ids(self) -> frozenset[str]:
        """Return the writes that are staged, and have not expired."""
        return frozenset(key for key, writer in self.registered.items() if writer.is_staged and not writer.is_dead(0.0))

    def unclaimed_ids(self, history: History) -> frozenset[str]:
        """Return the writes that have left files or a registration, and have claimed no entry."""
        return self.seen_ids - history.claimed_ids

    @property
    def seen_ids(self) -> frozenset[str]:
        """Return the writes that have left files or a registration."""
        return frozenset(self.write_ids | self.uploads.keys() | self.registered.keys())

    def write_id_of(self, upload: UploadInfo, history: History) -> str | None:
        """Return which write an upload belongs to, ``None`` if it is another tool's.

        An append in place copies large files in parts to where another tool has put a partition: their names tell.
        """
        own = self.layout.write_id_of(self.layout.root.beside(upload.key))
        if own is not None:
            return own
        name = upload.key.rpartition("/")[2]
        return write_id_in(name, history.claimed_ids)

    def age_seconds(self, upload: UploadInfo) -> float:
        """Return the age of an upload by the store's clock."""
        return max(0.0, (self.now - upload.initiated_at).total_seconds())

    def leftover_uploads(self, history: History, older_than_seconds: float) -> tuple[UploadInfo, ...]:
        """Return uploads that late attempts of ended writes have left: no claim of theirs is in doubt any more.

        Copies to locations of other tools must be as old as dead writes: others may bring a file of ours back there.
        """
        ended = history.claimed_ids - history.records.ids_in_doubt - self.registered.keys()
        alive = {write_id for write_id, writer in self.registered.items() if not writer.is_dead(older_than_seconds)}
        running = history.records.ids_in_doubt | alive
        of_appends = (
            upload
            for upload in self.elsewhere
            if (write_id := self.write_id_of(upload, history)) is not None
            and write_id not in running
            and self.age_seconds(upload) >= older_than_seconds
        )
        own = (upload for write_id in sorted(ended) for upload in self.uploads.get(write_id, ()))
        return (*own, *of_appends)

    def stale_registrations(self, history: History, older_than_seconds: float) -> tuple[str, ...]:
        """Return keys of registrations of dead writers whose files the log owns, and of checks of no write."""
        claimed = history.claimed_ids
        ended = {write_id: writer for write_id, writer in self.registered.items() if write_id in claimed}
        dead = {write_id: writer.key for write_id, writer in ended.items() if writer.is_dead(older_than_seconds)}
        alive = self.registered.keys() - dead.keys()
        checks = (key for key in self.checks if write_id_of_check(self.layout, key) not in alive)
        return tuple(sorted((*dead.values(), *checks)))

    def dead_writes(
        self, store: ObjectStore, history: History, used: InUse, older_than_seconds: float
    ) -> tuple[DeadWrite, ...]:
        """Return the writes that never claimed an entry, whose writer is dead, and where no reader looks.

        Readers can look at a write that the log does not know if somebody has deleted the log. A write without a
        registration was discarded by its writer; what shows up afterwards comes from executors that had not heard of
        it. Its age is that of its youngest trace.
        """
        dead: list[DeadWrite] = []
        for write_id in sorted(self.unclaimed_ids(history)):
            registered = self.registered.get(write_id)
            if used.meets(self.layout.data(write_id).place):
                continue
            if registered is not None and not registered.is_dead(older_than_seconds):
                continue
            objects = tuple(store.list(self.layout.data(write_id).key)) if write_id in self.write_ids else ()
            uploads = tuple(self.uploads.get(write_id, ()))
            given_up = history.state.deleted_places.get(self.layout.data(write_id).place)
            if registered is not None:
                sign = "it was staged" if registered.is_staged else "its writer gave its last sign of life"
                reason = f"{sign} {registered.age_seconds / 3600:.1f} hours ago"
            elif given_up is not None:
                reason = f"given up in version {given_up}"
            else:
                times = [*(file.modified_at for file in objects), *(upload.initiated_at for upload in uploads)]
                age_seconds = max(0.0, (self.now - max(times)).total_seconds()) if times else 0.0
                if not times or age_seconds < older_than_seconds:
                    continue
                reason = f"it has no registration and is {age_seconds / 3600:.1f} hours old"
            if objects or uploads or registered is not None:
                checks = (key for key in self.checks if write_id_of_check(self.layout, key) == write_id)
                keys = () if registered is None else (registered.key, *checks)
                dead.append(
                    DeadWrite(write_id=write_id, reason=reason, objects=objects, uploads=uploads, registered=keys)
                )
        return tuple(dead)


def look_for_traces(store: ObjectStore, layout: TableLayout) -> Traces:
    """Look at data and uploads first, at registrations afterwards.

    A writer registers before its first upload. So a write whose traces were seen is registered at the second look, or
    it has claimed an entry or discarded its files by then. The log is read after both.
    """
    write_ids = frozenset(filter(WRITE_ID.fullmatch, store.list_directories(layout.all_data.key)))
    uploads: dict[str, list[UploadInfo]] = {}
    elsewhere: list[UploadInfo] = []
    for upload in store.list_uploads(layout.root.key):
        write_id = layout.write_id_of(layout.root.beside(upload.key))
        if not upload.key.startswith(layout.own.key) and not layout.is_of_inner_root(upload.key, layout.root):
            elsewhere.append(upload)
        elif write_id is not None and WRITE_ID.fullmatch(write_id):  # else another tool's: no path names such a key
            uploads.setdefault(write_id, []).append(upload)
    checks = tuple(check_keys(store, layout))  # first: a write is staged before its results of checks are put
    writers = read_registrations(store, layout)
    registered = {write_id: replace(writer, staged={}) for write_id, writer in writers.items()}
    owner = store.get(layout.owner_key)  # its own time plus the age that the store gives it is the store's time
    if owner is None:  # never written by this library: nothing there has an age
        now = datetime.fromtimestamp(0, tz=UTC)
    else:
        now = owner.info.modified_at + timedelta(seconds=owner.age_seconds)
    return Traces(
        layout=layout,
        write_ids=write_ids,
        uploads=uploads,
        registered=registered,
        checks=checks,
        now=now,
        elsewhere=tuple(elsewhere),
    )


@dataclass(frozen=True, slots=True)
class Look:
    """All that one look at a table showed."""

    traces: Traces
    history: History
    partitions: Mapping[PartitionValues, Partition]  # as the metastore has them

    def placements(self) -> dict[PartitionValues, Placement]:
        """Compare every partition of the log with the metastore."""
        here = {values: partition.location for values, partition in self.partitions.items()}
        return self.history.placements.of_all(here)
