"""The time of a file system, by its own clock: the one that the times of its files are of."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import Final

from table_writer.boot_clock import boot_seconds

__all__ = ["FileSystemClock"]

READ_AGAIN_SECONDS: Final = 60.0
READ_ONLY: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class FileSystemClock:
    """Tells the time of file systems, which on a shared one is another machine's.

    Each is asked once a minute; in between this machine's clock that nobody sets is added. The answer is never too
    late, so nothing that a file is compared with seems older than it is.

    Where nothing may be written, this machine's clock has to do: whoever may not write claims and deletes nothing.
    """

    def __init__(self) -> None:
        self._read: dict[int, tuple[float, float]] = {}

    def seconds(self, device: int, make: Callable[[], float]) -> float:
        """Return the seconds since the epoch on a device; ``make`` makes something there and returns its time."""
        made_at, read_at = self._read.get(device, (0.0, -READ_AGAIN_SECONDS))
        if boot_seconds() - read_at >= READ_AGAIN_SECONDS:
            try:
                made_at = make()
            except OSError as error:
                if error.errno not in READ_ONLY:
                    raise
                return time.time()
            read_at = boot_seconds()
            self._read[device] = made_at, read_at
        return made_at + boot_seconds() - read_at
