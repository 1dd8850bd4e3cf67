"""Copying a file's bytes without moving them through this process."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, Final

__all__ = ["COPY_RANGE", "CopyRange", "copy_contents"]

RANGE_BYTES: Final = 1024 * 1024 * 1024  # Linux copies at most 2 GiB a call
CHUNK_BYTES: Final = 1024 * 1024

CopyRange = Callable[[int, int, int, int, int], int]


def _copy_nothing(*_: int) -> int:
    """Stand in where the system has no such call."""
    return 0


COPY_RANGE: Final[CopyRange] = getattr(os, "copy_file_range", _copy_nothing)


def copy_contents(source: BinaryIO, target: BinaryIO, *, copy_range: CopyRange = COPY_RANGE) -> None:
    """Copy all bytes of an open file into an empty one.

    The kernel copies, and where the file system can share blocks (XFS, Btrfs, NFS 4.2) it takes neither time nor
    space. What it does not copy is read and written here: other systems, other devices, old kernels that stop early.

    Parameters
    ----------
    source
        Open for reading.
    target
        Open for writing, empty.
    copy_range
        ``os.copy_file_range``, or what stands in for it.
    """
    copied = _in_kernel(source.fileno(), target.fileno(), copy_range)
    source.seek(copied)
    target.seek(copied)
    shutil.copyfileobj(source, target, CHUNK_BYTES)


def _in_kernel(source: int, target: int, copy_range: CopyRange) -> int:
    copied = 0
    with suppress(OSError):  # not possible between these two; an error of the disk comes again when the rest is copied
        while count := copy_range(source, target, RANGE_BYTES, copied, copied):
            copied += count
    return copied
