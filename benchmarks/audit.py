"""What a metastore was asked for, read from its own audit log."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Final

CALL: Final = re.compile(r"\tcmd=(?:source:\S+ )?+([a-z]\w*)")  # notes on the server's own life begin in upper case


def calls(text: str) -> Counter[str]:
    """Count the calls in some lines of the log, by name."""
    return Counter(CALL.findall(text))


class AuditLog:
    """The log of a running metastore, read bit by bit."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0

    def news(self) -> Counter[str]:
        """Return the calls since the last look; of a line that is not finished, the next look tells."""
        with self._path.open("rb") as file:
            file.seek(self._read_bytes)
            new, newline, _ = file.read().rpartition(b"\n")
        self._read_bytes += len(new) + len(newline)
        return calls(new.decode(errors="replace"))
