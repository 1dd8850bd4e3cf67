"""What every kind of mirror is given, and what it can do."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Final, Protocol

from table_writer.errors import InvalidInputError
from table_writer.model.location import Location
from table_writer.model.table import PartitionValues
from table_writer.storage.footers import Names, Path

HANDED_OVER: Final = "table_writer.handed_over"  # a property: the version of the log that has let others write
TAKEN_BACK: Final = "table_writer.taken_back"


class NotOursError(InvalidInputError):
    """What lies where the mirror would be is another tool's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MirroredFile:
    """A file of which readers see the rows; rows and figures only where they are known to be exactly those."""

    key: str
    size_bytes: int
    rows: int | None = None
    figures: str = ""  # of its columns, as tasks tell them
    is_copy: bool = False  # of a file that a call has carried over as it was: its rows are not new
    unfit: str = ""  # why readers of the mirror would not find in it what readers of the table do


@dataclass(frozen=True, kw_only=True, slots=True)
class MirroredTable:
    """The facts of a table that its mirror shows."""

    name: str
    fields: tuple[dict[str, Any], ...]  # all columns in Spark's JSON, those of partitions last
    partition_columns: tuple[str, ...]
    log_id: str
    columns_by: str  # the write that gave it these columns in place of others


@dataclass(frozen=True, kw_only=True, slots=True)
class MirrorChange:
    """What a version of the log changes, or several of them in one.

    ``partitions`` have exactly these files afterwards, and are gone without any; those in ``added`` get more. If it
    ``is_whole``, there are no others.
    """

    table: MirroredTable
    version: int  # that the mirror holds afterwards
    in_doubt: frozenset[int] = frozenset()  # earlier versions that may still be published
    write_id: str = ""
    mode: str
    created_at: datetime
    partitions: Mapping[PartitionValues, Collection[MirroredFile]]
    added: Mapping[PartitionValues, Collection[MirroredFile]] = field(default_factory=dict)
    is_whole: bool = False
    changes_rows: bool = True  # not so a compaction
    paths: frozenset[Path] = frozenset()  # of what is in files, and not so in the table; all but the last in lower case
    notes: tuple[str, ...] = ()  # what readers of the mirror find otherwise than readers of the table

    @property
    def unfit(self) -> dict[PartitionValues, tuple[MirroredFile, ...]]:
        """Return the files that a mirror cannot show, by their partitions."""
        files: dict[PartitionValues, tuple[MirroredFile, ...]] = {}
        for values, found in (*self.partitions.items(), *self.added.items()):
            files[values] = (*files.get(values, ()), *(file for file in found if file.unfit))
        return {values: found for values, found in files.items() if found}


IN_OTHER_PARTITION: Final = "in another partition"
OTHER_SIZE: Final = "of another size"
OTHER_ROW_COUNT: Final = "with another row count"


def noted_version(properties: Mapping[str, Any], name: str) -> int:
    """Return the version that a property of a mirror names; 0 if there is none."""
    text = str(properties.get(name, ""))
    return int(text) if text.isdecimal() else 0


class Held(Protocol):
    """What a mirror holds, as it was read or written last. It never changes."""

    @property
    def version(self) -> int:
        """Return the version of the log that it holds."""

    @property
    def in_doubt(self) -> frozenset[int]:
        """Return the earlier versions that were in doubt, and that it does not hold."""

    @property
    def log_id(self) -> str:
        """Return the id of the log that it follows; empty if that cannot be read."""

    @property
    def damage(self) -> str:
        """Say why it has to be written anew as a whole; empty if it has not."""

    @property
    def own_version(self) -> int:
        """Return the number of its newest version, as its readers count."""

    @property
    def handed_over(self) -> int:
        """Return the version of the log by which it went on without this library; 0 if it is a mirror."""

    @property
    def taken_back(self) -> int:
        """Return the newest version of the log by which it became a mirror again; 0 if there is none."""

    @property
    def is_dropped(self) -> bool:
        """Return whether somebody is dropping it: what is left goes."""

    @property
    def file_count(self) -> int:
        """Return how many files its readers read."""

    @property
    def keys(self) -> frozenset[str]:
        """Return the keys of the files that its readers read; of a file elsewhere its full path."""

    def differing(self, change: MirrorChange) -> dict[str, str]:
        """Say of files that it names, too, by their keys, what it says otherwise of them than a whole change."""

    def respells(self, table: MirroredTable) -> bool:
        """Return whether the table spells columns otherwise by now, and files that it names may not be found so."""


class Mirror(Protocol):
    """One mirror of one table. Every call raises ``TableWriterError`` alone."""

    numbers_versions: ClassVar[bool]  # its own versions are numbers, one after another

    def read(self) -> Held | None:
        """Read what it holds, ``None`` if there is none; ``InvalidInputError`` if there is one that is not ours."""

    def is_there(self, held: Held) -> bool:
        """Return whether what was read some time ago has not been dropped since, as far as one look tells."""

    def why_unfit(self, wanted: Names, there: Names, *, has_ids: bool) -> str:
        """Say why its readers would not find the table's columns in a file as they are there; empty if they do."""

    def write(self, held: Held | None, change: MirrorChange) -> Held | None:
        """Put a change on top of what it holds; ``None`` if another process has put something there before."""

    def hand_over(self, held: Held, version: int) -> Held | None:
        """Let everybody write to it; ``None`` if another process has put something there before."""

    def take_back(self, held: Held, version: int) -> Held | None:
        """Make it a mirror again; ``None`` if another process has put something there before."""

    def release(self, locations: Collection[Location]) -> None:
        """Take away the earlier versions that name files there, which are about to be deleted, where it can."""

    def tidy(self, older_than_seconds: float) -> None:
        """Delete what readers of no version that is kept need any more."""

    def why_unguarded(self) -> str:
        """Say why a change here may be put over one of another engine that was faster; empty where none is."""

    def retire(self, held: Held) -> Held | None:
        """Note that it is being dropped; ``None`` if another process has put something there before."""

    def drop(self, held: Held | None) -> int:
        """Delete all that belongs to a retired mirror alone, or is left of one; returns how many objects those were."""
