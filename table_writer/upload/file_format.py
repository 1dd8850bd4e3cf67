"""What a file of any format is for those who write rows to it; ``files`` knows which formats there are."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["EncodedFile", "Sink"]


class Sink(Protocol):
    """What encoded bytes are written to."""

    def write(self, data: bytes) -> int:
        """Take encoded bytes."""


class EncodedFile(Protocol):
    """A file being written."""

    def takes(self, rows: Any) -> bool:
        """Whether these rows can go into the file, given how the first ones let it be opened."""

    def write(self, rows: Any) -> None:
        """Encode a table."""

    def close(self) -> tuple[int, int]:
        """Write the footer; returns what the file says it holds: rows, and bytes before compression."""
