"""What a write remembers between its steps, and an entry that is being carried out."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from table_writer.model.entry import Outcome
from table_writer.model.table import PartitionValues
from table_writer.model.write import Scope, WriteMode, every_partition, no_partition

from .requests import Next
from .state import PARTITIONS, Added, Change

Shown = tuple[tuple[str, str | None], ...]  # partitions with where the metastore has them
Behind = tuple[int, Change]  # a published version, and how it is brought about again


class Write(NamedTuple):
    """A call: its id, the partitions it has rows for, and its options."""

    write_id: str
    partitions: tuple[str, ...]
    mode: WriteMode = WriteMode.OVERWRITE_PARTITIONS
    where: tuple[str, ...] = ()  # partitions that it replaces even without rows
    key: str = ""
    is_of_whole_table: bool = False  # an unpartitioned one, which p stands for
    by: str = ""  # which process publishes it, if it was staged
    in_place: int = 0  # so many files it adds to where each partition is

    def rows(self, values: str) -> tuple[str, ...]:
        """Return its rows in a partition, one a file."""
        return tuple(f"{self.write_id}/{values}{'+' * number}" for number in range(max(1, self.in_place)))

    @property
    def appends(self) -> bool:
        return self.mode is WriteMode.APPEND

    @property
    def creates(self) -> bool:
        return self.mode is WriteMode.CREATE_PARTITIONS

    @property
    def replaces(self) -> tuple[str, ...]:
        """Partitions that it replaces, with rows for them or not."""
        return PARTITIONS if self.mode is WriteMode.OVERWRITE_TABLE else self.where

    @property
    def scope(self) -> Scope:
        """As the product's planner hands it to the rules."""
        if self.mode is WriteMode.OVERWRITE_TABLE:
            return every_partition
        return self._selected if self.where else no_partition

    def _selected(self, existing: Collection[PartitionValues]) -> frozenset[PartitionValues]:
        return frozenset(values for values in existing if values[0] in self.where)


class Brought(NamedTuple):
    """What an append has let the store copy for one partition."""

    values: str
    target: str
    source: str  # empty: nothing was there
    rows: tuple[str, ...]


HALF: Final = "?"  # a source of which nobody knows what was copied


class Planned(NamedTuple):
    """A write after its plan."""

    write: Write
    base: int
    in_doubt: frozenset[int]
    brought: tuple[Brought, ...] = ()
    rounds: int = 0  # so often it has copied into a directory of its own
    seen: int = 0  # of a staged write: the newest version that its publisher knows
    log_id: int = 1

    def target(self, values: str) -> str:
        """Where readers will look for a partition."""
        return next((one.target for one in self.brought if one.values == values), self.own(values))

    def own(self, values: str) -> str:
        """Where the write's own rows are."""
        return f"{self.write.write_id}/{values}"

    @property
    def who(self) -> str:
        """Whose directories are numbered: those of one process."""
        return self.write.by or self.write.write_id

    @property
    def fresh(self) -> tuple[str, ...]:
        """Return the directories that this process has made."""
        return tuple(f"{self.who}_{number}" for number in range(1, self.rounds + 1))


class Job(NamedTuple):
    """A claimed entry that is being carried out, and where to go on."""

    version: int
    write_id: str
    changes: tuple[Change, ...]  # what is still to be changed
    outcome: Outcome
    to_record: tuple[int, ...]  # the entries whose outcome is recorded, in this order
    done: Next
    refused: Next
    unknown: Next
    unrecorded: Next  # carried out, but the log could not record it
    superseded: tuple[str, ...] = ()  # partitions that another tool had moved
    emptied: tuple[tuple[str, str], ...] = ()  # partitions that are at a placeholder already
    expected: str = ""  # who had changed the table last, where the metastore compares that
    in_place: tuple[Added, ...] = ()
    to_copy: tuple[tuple[str, str, str], ...] = ()  # to, from, row: what is still to be added


class Rollback(NamedTuple):
    """A rollback to the state after a version."""

    write_id: str
    version: int
    partitions: tuple[str, ...]


class Corrected(NamedTuple):
    """Where to go on after correcting what late calls have done."""

    again: Next
    failed: Next
    nothing: Next  # nothing was to be corrected
    written: Next  # only what another tool has written to since
