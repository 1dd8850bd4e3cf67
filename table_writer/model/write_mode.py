"""The modes of writes, and what each does with partitions that exist.

Steps ask a mode for these facts, and not which one it is. So a new mode that they describe is a member here with its
facts, and a method of :class:`~table_writer.TableWriter`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final


class WriteMode(enum.Enum):
    """The modes of writes: each treats existing partitions in another way; the mildest first."""

    CREATE_PARTITIONS = "create_partitions"
    APPEND = "append"
    OVERWRITE_PARTITIONS = "overwrite_partitions"
    OVERWRITE_TABLE = "overwrite_table"

    @property
    def facts(self) -> ModeFacts:
        """What the mode does."""
        return FACTS[self]

    @classmethod
    def described(cls) -> str:
        """Name all of them, with what each replaces: no name alone says that, and a guess may cost a table."""
        return "; ".join(f"{mode.value} ({mode.facts.replaces})" for mode in cls)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModeFacts:
    """What a mode does."""

    replaces: str  # which rows readers see no more afterwards, for a person
    keeps_rows: bool = False  # rows that its partitions have are seen beside the new ones
    only_creates: bool = False  # a partition of it that exists is an error
    replaces_table: bool = False  # partitions that there are no rows for are emptied
    takes_predicate: bool = False  # partitions that a predicate names are emptied, too
    needs_partitions: bool = False  # it does nothing to a table that has none

    @property
    def builds_on_what_is_there(self) -> bool:
        """Return whether what the metastore shows of its partitions decides what it publishes."""
        return self.keeps_rows or self.only_creates


FACTS: Final = {
    WriteMode.CREATE_PARTITIONS: ModeFacts(
        replaces="replaces nothing: it adds partitions, or fails if one exists",
        only_creates=True,
        needs_partitions=True,
    ),
    WriteMode.APPEND: ModeFacts(replaces="replaces nothing: it adds rows", keeps_rows=True),
    WriteMode.OVERWRITE_PARTITIONS: ModeFacts(
        replaces="replaces the partitions that the DataFrame has rows for", takes_predicate=True, needs_partitions=True
    ),
    WriteMode.OVERWRITE_TABLE: ModeFacts(replaces="replaces the whole table", replaces_table=True),
}
