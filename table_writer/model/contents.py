"""How much is at a place: by it a listing is held against what the log says should be there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, Self

from table_writer.errors import counted


class Sized(Protocol):
    """An object of a store, listed now or noted when it was."""

    @property
    def size_bytes(self) -> int:
        """Its bytes."""


class Contents(NamedTuple):
    """How many files, with how many bytes in all: two that are equal hold the same, for all that can be told cheaply.

    Examples
    --------
    >>> expected = Contents(2, 1_900)
    >>> str(expected), Contents(1, 1_900).lacks(expected), Contents(3, 2_000).lacks(expected)
    ('2 files with 1,900 bytes', True, False)
    """

    files: int
    bytes: int

    @classmethod
    def of(cls, found: Iterable[Sized]) -> Self:
        """Count what was found."""
        sizes = [file.size_bytes for file in found]
        return cls(len(sizes), sum(sizes))

    def lacks(self, expected: Contents) -> bool:
        """Return whether something of what was expected is missing; more than that is another tool's."""
        return self.files < expected.files or self.bytes < expected.bytes

    def may_be(self, known: Contents) -> bool:
        """Return whether this may be all rows of what is known: files without rows may have been left out."""
        return self.bytes == known.bytes and self.files <= known.files

    def __str__(self) -> str:
        return f"{counted(self.files, 'file')} with {self.bytes:,} bytes"
