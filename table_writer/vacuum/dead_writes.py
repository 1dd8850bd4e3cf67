"""Writes that were never published and never will be: what they left behind, and whose it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from table_writer.log.history import History
from table_writer.log.registration import FoundRegistration, check_keys, read_registrations, write_id_of_check
from table_writer.model.entry import WRITE_ID
from table_writer.model.location import Location
from table_writer.model.write import TableLayout
from table_writer.storage.object_store import ObjectInfo, ObjectStore, UploadInfo
from table_writer.vacuum.due import InUse


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
    """What one look at a table's directory showed of writes, published or not."""

    layout: TableLayout
    write_ids: frozenset[str]  # that have a directory under data/
    uploads: dict[str, list[UploadInfo]]
    registered: dict[str, FoundRegistration]
    checks: tuple[str, ...]  # keys of results of checks
    now: datetime  # by the store's clock

    def write_id_of(self, upload: UploadInfo) -> str | None:
        """Return which write an upload belongs to, ``None`` if it is another tool's."""
        return _write_id_of(self.layout, upload)

    def age_seconds(self, upload: UploadInfo) -> float:
        """Return the age of an upload by the store's clock."""
        return max(0.0, (self.now - upload.initiated_at).total_seconds())

    def leftover_uploads(self, history: History) -> tuple[UploadInfo, ...]:
        """Return uploads that late attempts of ended writes have left: no claim of theirs is in doubt any more."""
        ended = history.claimed_ids - history.ids_in_doubt - self.registered.keys()
        return tuple(upload for write_id in sorted(ended) for upload in self.uploads.get(write_id, ()))

    @property
    def staged_ids(self) -> frozenset[str]:
        """The writes that wait to be published or discarded, and have not expired."""
        return frozenset(key for key, one in self.registered.items() if one.is_staged and not one.is_dead(0.0))

    def stale_registrations(self, history: History, older_than_seconds: float) -> tuple[str, ...]:
        """Return keys of registrations of dead writers whose files the log owns, and of checks of no write."""
        claimed = history.claimed_ids
        dead = {
            write_id: one.key
            for write_id, one in self.registered.items()
            if write_id in claimed and one.is_dead(older_than_seconds)
        }
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
        claimed = history.claimed_ids
        dead: list[DeadWrite] = []
        for write_id in sorted((self.write_ids | self.uploads.keys() | self.registered.keys()) - claimed):
            registered = self.registered.get(write_id)
            if used.meets(self.layout.data(write_id).place):
                continue
            if registered is not None and not registered.is_dead(older_than_seconds):
                continue
            objects = tuple(store.list(self.layout.data(write_id).key)) if write_id in self.write_ids else ()
            uploads = tuple(self.uploads.get(write_id, ()))
            given_up = history.deleted.get(self.layout.data(write_id).place)
            if registered is not None:
                sign = "it was staged" if registered.is_staged else "its writer gave its last sign of life"
                reason = f"{sign} {registered.age_seconds / 3600:.1f} hours ago"
            elif given_up is not None:
                reason = f"given up in version {given_up}"
            else:
                age_seconds = self._youngest_age_seconds(objects, uploads)
                if age_seconds is None or age_seconds < older_than_seconds:
                    continue
                reason = f"it has no registration and is {age_seconds / 3600:.1f} hours old"
            if objects or uploads or registered is not None:
                checks = (key for key in self.checks if write_id_of_check(self.layout, key) == write_id)
                keys = () if registered is None else (registered.key, *checks)
                dead.append(
                    DeadWrite(write_id=write_id, reason=reason, objects=objects, uploads=uploads, registered=keys)
                )
        return tuple(dead)

    def _youngest_age_seconds(self, objects: Iterable[ObjectInfo], uploads: Iterable[UploadInfo]) -> float | None:
        times = [*(found.modified_at for found in objects), *(upload.initiated_at for upload in uploads)]
        return max(0.0, (self.now - max(times)).total_seconds()) if times else None


def look_for_traces(store: ObjectStore, layout: TableLayout) -> Traces:
    """Look at data and uploads first, at registrations afterwards.

    A writer registers before its first upload. So a write whose traces were seen is registered at the second look, or
    it has claimed an entry or discarded its files by then. The log is read after both.
    """
    write_ids = frozenset(filter(WRITE_ID.fullmatch, store.list_directories(layout.all_data.key)))
    uploads: dict[str, list[UploadInfo]] = {}
    for upload in store.list_uploads(layout.all_data.key):
        write_id = _write_id_of(layout, upload)
        if write_id is not None and WRITE_ID.fullmatch(write_id):  # else another tool's, at a key that no path names
            uploads.setdefault(write_id, []).append(upload)
    checks = tuple(check_keys(store, layout))  # first: a write is staged before its results of checks are put
    registered = {key: replace(one, staged={}) for key, one in read_registrations(store, layout).items()}
    return Traces(
        layout=layout,
        write_ids=write_ids,
        uploads=uploads,
        registered=registered,
        checks=checks,
        now=_now(store, layout),
    )


def _write_id_of(layout: TableLayout, upload: UploadInfo) -> str | None:
    return layout.write_id_of(Location(layout.root.scheme, layout.root.bucket, upload.key))


def _now(store: ObjectStore, layout: TableLayout) -> datetime:
    """Return the store's time: an object's own time plus the age the store gives it."""
    owner = store.get(layout.owner_key)
    if owner is None:  # never written by this library: nothing there has an age
        return datetime.fromtimestamp(0, tz=UTC)
    return owner.info.modified_at + timedelta(seconds=owner.age_seconds)
