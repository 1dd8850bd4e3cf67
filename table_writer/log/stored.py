"""What the files of a log are stored as: JSON that a person can read, compressed where no person would read it.

The first bytes tell the two apart, and the names are the same; ``aws s3 cp s3://…/0…07.json - | zcat -f`` shows either.
"""

from __future__ import annotations

import gzip
import zlib
from typing import Final

__all__ = ["MAX_BYTES", "packed", "unpacked"]

READABLE_BYTES: Final = 64 * 1024
"""Some 130 partitions, or 260 files of other tools. A longer text is not read by eye, and sending it begins to take
longer than a request does; partitions compressed are a fourteenth of it."""

MAX_BYTES: Final = 256 * 1024 * 1024  # some 500,000 partitions; anything larger was not written by this library
GZIP: Final = b"\x1f\x8b"
GZIP_FORMAT: Final = 16 + zlib.MAX_WBITS  # zlib's way to ask for gzip's header and checksum


def packed(body: bytes) -> bytes:
    """Return the bytes to store; the same for the same body, since a claim is recognised by its bytes.

    Raises
    ------
    ValueError
        The body is longer than what is unpacked again.

    Examples
    --------
    >>> packed(b"{}"), len(packed(b"[1, 2]" * 100_000)) < 10_000
    (b'{}', True)
    """
    if len(body) > MAX_BYTES:
        raise ValueError(f"it has {len(body):,} bytes, and more than {MAX_BYTES:,} are never read")
    return body if len(body) <= READABLE_BYTES else gzip.compress(body, compresslevel=6, mtime=0)


def unpacked(stored: bytes) -> bytes:
    """Return what was packed.

    Raises
    ------
    ValueError
        The bytes are damaged, or are more than any log holds once they are unpacked.
    """
    if not stored.startswith(GZIP):
        return stored
    unpacking = zlib.decompressobj(GZIP_FORMAT)
    try:
        body = unpacking.decompress(stored, MAX_BYTES)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if unpacking.unconsumed_tail:
        raise ValueError(f"it has more than {MAX_BYTES:,} bytes when unpacked")
    if not unpacking.eof or unpacking.unused_data:
        raise ValueError("its end is missing, or something follows it")
    return body
