"""Reads of a table by the query of a write to the same table."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from table_writer.model.location import Place
from table_writer.model.table import PartitionValues

FileFacts = tuple[int, int | None]  # bytes, and the second in which it was written, where that is known
Files = Mapping[str, FileFacts]
"""Files of one directory by name."""


class ReadVersion(int):
    """The number of a version at which rows were read: by then all versions up to it had ended.

    A mere number, as a result tells it, says less. Numbers are given in the order of claims: when version 3 is
    published, version 2 may still be on its way, and who reads the table then does not see its rows.
    """

    __slots__ = ()


class ReadOf(enum.Enum):
    """The object that a query names when it reads a table's files."""

    TABLE = "the table: whatever readers of it see"
    VERSION = "an older version of it"
    PATHS = "directories or files, by their paths"


@dataclass(frozen=True, kw_only=True, slots=True)
class TableRead:
    """One place of a query at which files of the table are read.

    ``files`` are those that it has listed, by directory: an hour ago, where its rows are cached. ``covers`` chooses, of
    partitions that exist, those that the same read would look into.
    """

    of: ReadOf
    files: Mapping[Place, Files]
    covers: Callable[[Collection[PartitionValues]], frozenset[PartitionValues]]


def same_files(one_listing: Files, other_listing: Files) -> bool:
    """Return whether two listings show the same files; empty files do not count.

    Examples
    --------
    >>> same_files({"part-0": (7, None)}, {"part-0": (7, 1700000000), "empty": (0, 1700000000)})
    True
    >>> same_files({"part-0": (7, 1600000000)}, {"part-0": (7, 1700000000)})
    False
    """
    one_files, other_files = (
        {name: facts for name, facts in files.items() if facts[0]} for files in (one_listing, other_listing)
    )
    return one_files.keys() == other_files.keys() and all(
        size == other_files[name][0] and (second == other_files[name][1] or None in {second, other_files[name][1]})
        for name, (size, second) in one_files.items()
    )
