"""A vacuum trims the log: which entries go, and what the fold keeps of them.

Pure, as :mod:`table_writer.log.history` is, whose questions these are not: only a vacuum asks them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

from table_writer.log.fold import NOTHING_LISTED, Fold, Oldest, key_digest
from table_writer.log.history import History, SlotRecord
from table_writer.model.entry import Operation, Outcome
from table_writer.model.location import Place


@dataclass(frozen=True)
class Trimming:
    """The entries of a log that can go, and the fold that keeps what has to be known of them."""

    history: History
    oldest: Oldest = NOTHING_LISTED
    """The entries before the history's fold, as a listing showed them."""

    def versions(self, age_seconds: float) -> frozenset[int]:
        """Return the versions on which nothing depends any more, of those that ended longer ago than ``age_seconds``.

        Never the newest, none that says where a partition is, none whose replaced data is not deleted yet, and never
        the newest batch of a stream, by which a replayed batch is recognised. None at all while
        calls may have come late, unseen: an entry that is gone could not tell of its own.
        """
        history = self.history
        if history.unverified:
            return frozenset()
        present = {record.entry.version for record in history.records}
        ended = (
            record
            for record in history.records
            if record.outcome is not None and record.outcome_age_seconds > age_seconds
        )
        free = ({record.entry.version for record in ended} | self.oldest.ended) - self._needed()
        kept, vacuums = present - free, self._vacuums()

        def stays(version: int) -> bool:
            is_folded = version <= self._folded_to and version not in free
            return version in kept or (is_folded and not self.oldest.is_gone(version))

        return frozenset(version for version in free if not any(map(stays, vacuums.get(version, ()))))

    def fold(self, log_id: str, trimmed: Collection[int] = ()) -> Fold:
        """Fold all of it; none may be in doubt. ``trimmed`` are entries that a vacuum has just deleted."""
        history, present = self.history, {record.entry.version for record in self.history.records}

        def stays(version: int) -> bool:
            is_there = version in present if version > self._folded_to else not self.oldest.is_gone(version)
            return is_there and version not in trimmed

        last, live = history.records[-1].entry, {*history.live_places, *history.left_locations}
        vacuums = (
            (version, tuple(sorted(filter(stays, by)))) for version, by in self._vacuums().items() if stays(version)
        )
        texts = {location.place: str(location) for location in history.locations.values()} | {
            place: str(left.location) for place, left in history.left_locations.items()
        }
        return Fold(
            version=last.version,
            log_id=log_id,
            write_id=last.write_id,
            current=tuple(history.current_partitions.values()),
            left=tuple(history.left_locations.values()),
            deleted=tuple((texts[place], version) for place, version in history.deleted.items() if place in live),
            held=tuple(content for place, content in history.contents.items() if place in live),
            naming=tuple((texts[at], tuple(sorted(filter(stays, by)))) for at, by in self._versions_at(live).items()),
            added=tuple(texts[place] for place in self._added & live),
            vacuums=tuple((version, by) for version, by in vacuums if by),
            groups=self._groups(),
            keys={key: version for key, version in self._keys().items() if stays(version)},
            rollbacks=tuple((version, to) for version, to in self._rollbacks() if stays(version)),
        )

    @property
    def _folded_to(self) -> int:
        return self.history.fold.version if self.history.fold else 0

    def _needed(self) -> set[int]:
        """Return the versions on which something depends."""
        history = self.history
        needed = {history.newest, self._folded_to}
        needed |= {current.version for current in history.current_partitions.values()}
        is_ours = history.layout.write_id_of
        needed |= {left.left_by for left in history.left_locations.values() if left.objects or is_ours(left.location)}
        needed |= self._needed_for_files()
        left = history.left_locations.keys()
        needed |= {version for place, version in history.deleted.items() if place in left}  # it is left, and gone
        folded = {left.location.place for left in (history.fold.left if history.fold else ())}
        needed |= {version for place, version in history.deleted.items() if place in folded}  # the fold says it is left
        needed |= set(self._groups().values())
        doubtful = {record.entry.version for record in history.in_doubt}
        needed |= {record.entry.version for record in history.records if record.entry.recovers in doubtful}
        needed |= {record.entry.recovers or 0 for record in history.in_doubt}
        return needed | {version for version, to in self._rollbacks() if self._may_void(to, version)}

    def _groups(self) -> dict[str, int]:
        """Return the newest version of each stream of batches; what an older version wrote may be one."""
        keyed = [record.entry for record in self._keyed()]
        unsure = {entry.idempotency_key.rpartition("/")[0]: entry.version for entry in keyed if entry.stream is None}
        batches = {entry.stream: entry.version for entry in keyed if entry.stream}
        return {**(self.history.fold.groups if self.history.fold else {}), **unsure, **batches}

    def _keyed(self) -> Iterator[SlotRecord]:
        return (record for record in self.history.records if record.entry.idempotency_key)

    def _keys(self) -> dict[str, int]:
        """Return the newest published version of each idempotency key, by its digest."""
        published = (record.entry for record in self._keyed() if record.outcome is Outcome.PUBLISHED)
        writes = (entry for entry in published if entry.operation is Operation.WRITE)
        newer = {key_digest(entry.idempotency_key, entry.stream): entry.version for entry in writes}
        return {**(self.history.fold.keys if self.history.fold else {}), **newer}

    def _rollbacks(self) -> tuple[tuple[int, int], ...]:
        """Return the versions of all rollbacks, each with the version that it went back to."""
        folded = self.history.fold.rollbacks if self.history.fold else ()
        back = (record.entry for record in self.history.records if record.outcome is not Outcome.ABANDONED)
        return (*folded, *((entry.version, entry.rollback_to) for entry in back if entry.rollback_to is not None))

    def _may_void(self, to: int, version: int) -> bool:
        """Return whether a rollback may have made the key of an entry free again that is left in the log."""
        folded = range(to + 1, min(version, self._folded_to + 1))
        in_between = (record.entry.version for record in self._keyed() if to < record.entry.version < version)
        return any(not self.oldest.is_gone(voided) for voided in folded) or any(in_between)

    def _vacuums(self) -> dict[int, frozenset[int]]:
        """Return which entries had replaced what each vacuum has deleted."""
        fold = self.history.fold
        folded = {version: frozenset(by) for version, by in (fold.vacuums if fold else ())}
        vacuums = (record.entry for record in self.history.records if record.entry.deletes)
        own = {
            entry.version: frozenset(
                deletion.replaced_by for deletion in entry.deletes if deletion.replaced_by is not None
            )
            for entry in vacuums
        }
        return folded | own

    def _versions_at(self, places: Collection[Place | None]) -> dict[Place, set[int]]:
        """Return the versions that name each of these locations."""
        history = self.history
        folded = ((history.place_of(text), by) for text, by in (history.fold.naming if history.fold else ()))
        found = {place: set(by) for place, by in folded if place is not None and place in places}
        for naming in history.naming.values() if places else ():
            for record, partition in naming:
                place = history.place_of(partition.new_location)
                if place is not None and place in places:
                    found.setdefault(place, set()).add(record.entry.version)
        return found

    @cached_property
    def _added(self) -> frozenset[Place]:
        """The locations that appends in place added to, whatever became of them."""
        folded = self.history.fold.added if self.history.fold else ()
        return frozenset(self.history.adding).union(self.history.parse(text).place for text in folded)

    def _needed_for_files(self) -> frozenset[int]:
        """Return the versions that tell which files a location held when: of those that appends in place added to.

        They are needed until the location is deleted.
        """
        found = self._versions_at(self._added & (self.history.in_use() | self.history.left_locations.keys()))
        return frozenset().union(*found.values())
