"""A partition as users are shown it: what a call does to it, and how readers find it. No report has a shape of its own.

Reports and events are made of these; each says which of the facts it knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from table_writer.model.table import PartitionValues, are_small_files

if TYPE_CHECKING:
    from table_writer.model.entry import EntryPartition

CHANGES: Final = {"added": "+", "replaced": "~", "appended": ">", "compacted": "=", "dropped": "-"}
"""What a version does to a partition, and the sign of it in a history."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionFacts:
    """One partition that a call, or a version, has changed or would change, with the facts that its report knows.

    ``table_writer.PartitionResult`` and ``table_writer.events.EventPartition`` are this class.

    Parameters
    ----------
    name, values
        Hive's name, ``dt=2024-01-01/country=de``, and its values; both empty for an unpartitioned table, which is one
        partition of itself, and which the reports of ``Maintenance`` name ``(whole table)``.
    action
        ``"added"``: it did not exist. ``"replaced"``: readers see other rows. ``"appended"``: it has more rows now.
        ``"compacted"``: the same rows in other files. ``"dropped"``. ``"emptied"``: the write replaced it and had no
        rows for it. ``"staged"``, where nothing is published yet. A plan says ``"add"``, ``"replace"``, ``"append"``
        and ``"empty"``. In the history it is called ``change``.
    location
        Where readers look then; empty when the partition is dropped, or the report does not know. In the history it is
        called ``new_location``, and is ``None`` when it is dropped.
    old_location
        Where readers looked before; ``None`` if it did not exist, or, in a plan, where it is called
        ``replaced_location``, stays there as in an append in place.
    rows, files, bytes
        Written by the call, or the partition's own after a compaction and between two versions, where they are called
        ``rows_after``, ``files_after`` and ``bytes_after``. Rows are ``None`` where other tools wrote them, and in the
        dry run of a compaction, whose files are an estimate.
    rows_before, files_before, bytes_before
        Of a compaction and between two versions: what was there before; of a compaction the bytes, before and after,
        are of the files that are written anew.
    copied_files, copied_bytes
        Existing files that an append brings along, inside the store.
    """

    name: str
    values: PartitionValues = ()
    action: str = ""
    location: str = ""
    old_location: str | None = None
    rows: int | None = 0
    files: int = 0
    bytes: int = 0
    rows_before: int | None = None
    files_before: int | None = None
    bytes_before: int | None = None
    copied_files: int = 0
    copied_bytes: int = 0

    @classmethod
    def of_entry(cls, name: str, action: str, partition: EntryPartition) -> PartitionFacts:
        """Return the facts of a partition of an entry."""
        return cls(
            name=name,
            values=partition.values,
            action=action,
            location=partition.new_location or "",
            old_location=partition.old_location,
            rows=partition.rows,
            files=partition.files,
            bytes=partition.bytes,
        )

    # the same facts by the names that they have in some reports
    change = property(attrgetter("action"))
    new_location = property(lambda self: self.location or None)
    replaced_location = property(attrgetter("old_location"))
    rows_after = property(attrgetter("rows"))
    files_after = property(attrgetter("files"))
    bytes_after = property(attrgetter("bytes"))


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionNow:
    """One partition as readers find it, with the facts that its report knows.

    Parameters
    ----------
    name, location
        Hive's name, and where the metastore points; the location is ``None`` if the metastore does not have it, or the
        report does not say it.
    state
        On a table's page: ``"in place"``, ``"behind"`` (readers see older rows of this library), ``"in doubt"``,
        ``"missing"``, ``"moved"`` (by another tool), or ``"not in the log"``. For those who wait for rows:
        ``"published"``: rows that a version of the log wrote. ``"missing"``: no such partition. ``"in doubt"``: a
        publish is going on, or was left in doubt. ``"not known"``: another tool has written or moved it.
    version, write_id, published_at, age_seconds
        On a page: which version has put it there, and since when that is on record. For those who wait: the newest
        write whose rows are there, and when it claimed its version, by its own clock: a rollback brings those of an
        earlier one back, and a compaction changes none. ``None`` if not known.
    rows, files, bytes
        By the log; ``None`` where it does not know.
    note
        Why it is so, for a person.
    """

    name: str
    state: str
    location: str | None = None
    version: int | None = None
    write_id: str | None = None
    published_at: datetime | None = None
    age_seconds: float | None = None
    rows: int | None = None
    files: int | None = None
    bytes: int | None = None
    note: str = ""

    @property
    def has_small_files(self) -> bool:
        """Return whether its files cost readers more to open than to read."""
        return self.files is not None and self.bytes is not None and are_small_files(self.files, self.bytes)

    @property
    def bytes_per_file(self) -> float:
        """Return the bytes of its average file; 0 if it has none, or they are not known."""
        return self.bytes / self.files if self.files and self.bytes is not None else 0.0
