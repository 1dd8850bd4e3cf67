"""A vacuum trims the log: which entries go, up to where the log is folded, and what the fold keeps of the state.

Pure, as :mod:`table_writer.protocol.log.history` is, whose questions these are not: only a vacuum asks them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from table_writer.protocol.log.history import History
from table_writer.protocol.log.state import TableState


@dataclass(frozen=True, slots=True)
class OldEntries:
    """The oldest entries before a fold, as a listing showed them."""

    ended_versions: frozenset[int] = frozenset()  # those that ended longer ago than was asked
    listed_versions: frozenset[int] = frozenset()  # all that are there, up to the first that has not
    trimmed_to: int = 0  # up to here vacuums may have deleted entries

    def is_gone(self, version: int) -> bool:
        """Return whether a vacuum has trimmed an entry."""
        return (
            version not in self.listed_versions
            and version <= self.trimmed_to
            and version < max(self.ended_versions, default=0)
        )


NOTHING_LISTED: Final = OldEntries()


@dataclass(frozen=True)
class Trimming:
    """The entries of a log that can go, and the fold that keeps what has to be known of them."""

    history: History
    oldest: OldEntries = NOTHING_LISTED
    """The entries before the history's fold, as a listing showed them."""

    def versions(self, age_seconds: float) -> frozenset[int]:
        """Return the versions on which nothing depends any more, of those that ended longer ago than ``age_seconds``.

        Never the newest, none that says where a partition is, none whose replaced data is not deleted yet, and never
        the newest batch of a stream, by which a replayed batch is recognised. Nor one whose call may have come late,
        unseen: an entry that is gone could not tell of its own.
        """
        history = self.history
        if history.late_versions is None:
            return frozenset()
        ended = (
            record.entry.version
            for record in history.records
            if record.outcome is not None and record.outcome_age_seconds > age_seconds
        )
        free = self.oldest.ended_versions.union(ended) - self.needed()
        kept = history.records.by_version.keys() - free

        def stays(version: int) -> bool:
            is_folded = version <= self._folded_to and version not in free
            return version in kept or (is_folded and not self.oldest.is_gone(version))

        vacuums = history.state.vacuums
        return frozenset(version for version in free if not any(map(stays, vacuums.get(version, ()))))

    def fold(self, log_id: str, trimmed: Collection[int] = ()) -> TableState:
        """Fold all of it; none may be in doubt. ``trimmed`` are entries that a vacuum has just deleted."""
        present = self.history.records.by_version

        def stays(version: int) -> bool:
            is_there = version in present if version > self._folded_to else not self.oldest.is_gone(version)
            return is_there and version not in trimmed

        return self.history.state.fold(log_id, stays)

    @property
    def _folded_to(self) -> int:
        return self.history.fold.version if self.history.fold else 0

    def needed(self) -> set[int]:
        """Return the versions on which something depends."""
        history, state = self.history, self.history.state
        needed = {history.newest, self._folded_to, *(history.late_versions or ())}
        needed |= {current.version for current in state.current_partitions.values()}
        is_ours = history.layout.write_id_of
        needed |= {left.left_by for left in state.left_locations.values() if left.objects or is_ours(left.location)}
        # the versions that tell which files a location held when, of those that appends in place added to: until the
        # location is deleted
        grown = state.grown_places & (history.in_use() | state.left_locations.keys())
        needed |= {version for place in grown for version in state.versions_by_place[place]}
        left_in_fold = (
            history.fold.left_locations.keys() if history.fold else frozenset()
        )  # though it may be deleted since
        left = state.left_locations.keys() | left_in_fold
        needed |= {version for place, version in state.deleted_places.items() if place in left}
        needed |= {*state.keys.batches.values(), *state.keys.older_batches.values()}  # either may be the newest batch
        in_doubt = history.records.in_doubt
        doubtful = {record.entry.version for record in in_doubt}
        needed |= {record.entry.version for record in history.records if record.entry.recovers in doubtful}
        needed |= {record.entry.recovers or 0 for record in in_doubt}
        return needed | {version for version, to in state.keys.rollbacks.items() if self._may_void(to, version)}

    def _may_void(self, to: int, version: int) -> bool:
        """Return whether a rollback may have made the key of an entry free again that is left in the log."""
        folded = range(to + 1, min(version, self._folded_to + 1))
        keyed = (record.entry.version for record in self.history.records if record.entry.idempotency_key)
        return any(not self.oldest.is_gone(voided) for voided in folded) or any(to < key < version for key in keyed)


def foldable(history: History) -> int:
    """Return the newest version up to which all may be folded, the newest of all left out; 0 if there is none.

    An entry in doubt may yet end in either way. And of calls that may have come late, unseen, only their entries can
    tell what one has done.
    """
    if history.late_versions is None:
        return 0
    in_doubt = (record.entry.version for record in history.records.in_doubt)
    ended = min([history.newest, *in_doubt, *history.late_versions]) - 1
    return max((version for version in history.records.by_version if version <= ended), default=0)


def counts_twice(history: History) -> bool:
    """Return whether an append in place was done again after it was folded: its entry tells which files count."""
    first = history.fold.version if history.fold else 0
    again = (record.entry for record in history.records if (record.entry.recovers or first + 1) <= first)
    return any(not partition.holds_all for entry in again for partition in entry.partitions)
