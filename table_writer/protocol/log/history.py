"""One reading of a log: its records, the state that they come to, and what the two of them tell.

Pure. Rollbacks, restores and reads of older versions take all records. All others begin with the state that an earlier
vacuum has stored, the fold, and read only the entries after that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from table_writer.model.location import Place
from table_writer.model.table import PartitionValues
from table_writer.model.write import TableLayout
from table_writer.protocol.log.past_states import PastStates
from table_writer.protocol.log.placements import Placements
from table_writer.protocol.log.records import LogEnd, Records, SlotRecord
from table_writer.protocol.log.state import TableState


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of an unpartitioned table, Spark's JSON, and the write that gave it these in place of others."""

    schema: str
    columns_by: str


class History:
    """All records of a log; or a fold, and the records after it.

    ``unverified`` are recoveries after which nobody has looked yet whether a call came late; ``None``: all that the
    records show. ``lost`` are versions whose entries are lost: what they did to which partition is not known.
    """

    def __init__(
        self,
        layout: TableLayout,
        records: Sequence[SlotRecord],
        unverified: Collection[int] | None = None,
        lost: Collection[int] = (),
        fold: TableState | None = None,
    ) -> None:
        self.layout = layout
        self.unverified = unverified
        self.lost = lost
        self.fold = fold
        self.records = Records(layout, records, folded_to=fold.version if fold else 0)
        self.state = (fold or TableState(layout=layout)).after(self.records)
        self.placements = Placements(self.records, self.state, unverified, lost)
        self.past = PastStates(self.records, self.state)

    def up_to(self, version: int) -> History:
        """Return what a reading of the log would have shown when this version was the newest."""
        records = [record for record in self.records if record.entry.version <= version]
        return self.but(records=records)

    def but(self, **facts: Any) -> History:
        """Return the same reading, with other facts by the names of the constructor's parameters."""
        own = {"records": self.records, "unverified": self.unverified, "lost": self.lost, "fold": self.fold}
        return History(self.layout, **{**own, **facts})

    @property
    def newest(self) -> int:
        """The newest version; 0 if there is none."""
        return self.state.version

    @property
    def end(self) -> LogEnd:
        """The end of the log: the newest version, or that of an entry after it that is lost, and what is in doubt."""
        in_doubt = (record.entry.version for record in self.records.publishes_in_doubt)
        return LogEnd(max(self.newest, *self.lost, 0), frozenset(in_doubt))

    def lost_after(self, version: int) -> int | None:
        """Return the first lost version after another one, ``None`` if there is none."""
        return min((lost_version for lost_version in self.lost if lost_version > version), default=None)

    @cached_property
    def late_versions(self) -> frozenset[int] | None:
        """The entries whose calls may have come late, unseen; ``None`` if one of them is not there to tell.

        Those are recoveries after which nobody has looked yet, what they recover, and what they have ended.
        """
        marked, by_version = frozenset(self.unverified or ()), self.records.by_version
        if any(version <= self.newest and version not in by_version for version in marked):
            return None
        late: set[int] = set()
        waiting = [by_version[version] for version in marked & by_version.keys()]
        ids = {record.entry.write_id for record in waiting}
        waiting += [record for record in self.records if record.recorded_by in ids]
        while waiting:
            record = waiting.pop()
            late.add(record.entry.version)
            recovered = by_version.get(record.entry.recovers or 0)
            waiting += [] if recovered is None or recovered.entry.version in late else [recovered]
        return frozenset(late)

    def needs_entries(self, here: Mapping[PartitionValues, str]) -> bool:
        """Return whether only entries before the fold can tell how a partition came to where it is, at a place of ours.

        That is so after a late call, and after a metastore was set back.
        """
        current = self.state.current_partitions
        known = {values: location for values, location in here.items() if values in current} if self.fold else {}
        return any(self.placements.is_unexplained(values, location) for values, location in known.items())

    def columns_at(self, version: int) -> Columns | None:
        """Return the columns of an unpartitioned table after a version; ``None`` if no entry tells.

        Those that the newest write up to then had, or the first later one has replaced, with what was added to them
        until they were replaced: an added column is null in older rows, and would be lost without.
        """
        self.records.require_all()
        published = [record.entry for record in self.records.published]
        written = (entry for entry in reversed(published) if entry.version <= version and entry.schema)
        wanted_by = next((entry.columns_by for entry in written), "")
        found, columns_by = "", ""  # by whom the table has its columns at each entry
        for entry in published:
            if entry.replaced_schema and columns_by == wanted_by:
                found = entry.replaced_schema
            if entry.schema:
                columns_by = entry.columns_by
                is_told = found and entry.meaning.has_older_columns
                found = entry.schema if columns_by == wanted_by and not is_told else found
        return Columns(found, wanted_by) if found else None

    @cached_property
    def claimed_ids(self) -> frozenset[str]:
        """The writes that ever claimed an entry: their files belong to the log.

        Of those before a fold only the ones of which readers see files, or have left some that are not deleted.
        """
        return self.records.write_ids | (self.fold.write_ids() if self.fold else frozenset())

    def in_use(self) -> frozenset[Place]:
        """Return where readers look by the log, or may once what is in doubt is resolved, or a late call is undone."""
        doubtful = (partition for record in self.records.in_doubt for partition in record.entry.partitions)
        named = (location for partition in doubtful for location in partition.locations)
        places = map(self.state.place_of, (*named, *self.placements.right_places()))
        return self.state.live_places.union(place for place in places if place is not None)
