"""The stored form of log objects: JSON that a person can read, compressed where it is too long for that.

The first bytes tell the two apart, and the names are the same; ``aws s3 cp s3://…/0…07.json - | zcat -f`` shows either.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from threading import Lock
from typing import Any, Final, TypeVar

from table_writer.model.process import PerProcess
from table_writer.model.units import MIB

READABLE_BYTES: Final = 64 * 1024
"""Some 130 partitions, or 260 files of other tools. A longer text is not read by eye, and sending it begins to take
longer than a request does; partitions compressed are a tenth of it or less."""

MAX_BYTES: Final = 256 * MIB  # some 500,000 partitions; anything larger was not written by this library
MAX_OUTCOME_BYTES: Final = 32 * MIB  # all of that many partitions, taken away by another tool
MAX_RATIO: Final = 200  # entries come to 10 to 90, a text of nothing but zeros to 1,000; see `packed`
MAX_MEMORY_BYTES: Final = 2048 * MIB
"""The memory of one reading of a log, or of all registrations, by :func:`memory_bytes`: 1.2 million partitions in all
entries. That is 30 days of a table whose 40,000 partitions, as many as Hive 2.3 switches in two minutes, are replaced
daily."""
VALUE_BYTES: Final = 64  # the memory of a value of JSON beside its text: an empty list has 56, its reference 8
DICT_BYTES: Final = 128  # the memory of a dict beside that
GZIP: Final = b"\x1f\x8b"
GZIP_FORMAT: Final = 16 + zlib.MAX_WBITS  # zlib's way to ask for gzip's header and checksum
Parsed = TypeVar("Parsed")
_parsing: Final = PerProcess(Lock)
"""All readings of a process share it: msgspec 0.22 crashes when two threads meet a type for the first time at once."""


class TooMuchError(ValueError):
    """An object by itself may be right, but together with those before it takes more memory than is allowed."""


class Allowance:
    """The memory that one reading may take. Its threads share it: one at a time unpacks and parses.

    Parsing holds Python's lock anyway, so nothing is lost by that; requests overlap as before.
    """

    def __init__(self, memory_bytes: int = MAX_MEMORY_BYTES) -> None:
        self._bytes = self._bytes_left = memory_bytes
        self._lock = Lock()

    def parsed(self, stored: bytes, parse: Callable[[bytes], Parsed], *, most: int | None = None) -> Parsed:
        """Unpack and parse one object, of a kind that unpacks to ``most`` bytes at most, if it fits into what is left.

        ``parse`` may raise its own errors. Raises ``TooMuchError`` if it does not fit any more, and ``ValueError`` if
        the bytes are damaged, or more than any object of this kind holds.
        """
        with self._lock:
            body = _unpacked(stored, MAX_BYTES if most is None else most, self._bytes_left)
            if body is None or (needed := memory_bytes(body)) > self._bytes_left:
                del body  # a traceback would keep it
                raise TooMuchError(
                    f"with what was read before it, it takes more than {self._bytes:,} bytes of memory. If writers of"
                    " this table have made all of that, raise log_memory_bytes in TableWriterConfig, and let a vacuum"
                    " trim the log with a lower table_writer.history_retention; if not, somebody else has put it there:"
                    " look at it"
                )
            self._bytes_left -= needed
            with _parsing.get():
                return parse(body)


def small_json(body: bytes) -> Any:
    """Parse an object that holds no list of partitions; ``ValueError`` if it is no JSON, or too long for one."""
    if len(body) > READABLE_BYTES:
        raise ValueError(f"it has {len(body):,} bytes, and no more than {READABLE_BYTES:,} are expected")
    return json.loads(body)


def memory_bytes(body: bytes) -> int:
    """Reckon what a text of JSON takes in memory, not too low: a text of empty lists takes thirty times its length.

    Examples
    --------
    >>> memory_bytes(b'{"format": 1}'), memory_bytes(b"[[], []]")
    (282, 272)
    """
    text = len(body) * (2 if body.isascii() else 8)  # decoded, and again in its values; some letters take four bytes
    return text + VALUE_BYTES * sum(map(body.count, (b",", b":", b"[", b"{"))) + DICT_BYTES * body.count(b"{")


def packed(body: bytes, memory_limit: int = MAX_MEMORY_BYTES) -> bytes:
    """Return the bytes to store; the same for the same body, since a claim is recognised by its bytes.

    Raises ``ValueError`` if the body is longer than what is read again, or would take more memory.

    Examples
    --------
    >>> packed(b"{}"), len(packed(b", ".join(b"%d" % number for number in range(100_000)))) < 300_000
    (b'{}', True)
    """
    if len(body) > MAX_BYTES:
        raise ValueError(f"it has {len(body):,} bytes, and more than {MAX_BYTES:,} are never read")
    if memory_bytes(body) > memory_limit:
        raise ValueError(f"reading it would take {memory_bytes(body):,} bytes, and no more than {memory_limit:,} may")
    if len(body) <= READABLE_BYTES:
        return body
    short = gzip.compress(body, compresslevel=6, mtime=0)
    return short if len(body) <= MAX_RATIO * len(short) else body


def _unpacked(stored: bytes, most: int, bytes_left: int) -> bytes | None:
    """Return what was packed, ``None`` if it is longer than what is left; no more bytes are ever made of it."""
    if not stored.startswith(GZIP):
        if len(stored) > most:
            raise ValueError(f"it has {len(stored):,} bytes, and no more than {most:,} are expected")
        return stored
    most = min(most, MAX_RATIO * len(stored))
    unpacking = zlib.decompressobj(GZIP_FORMAT)
    try:
        body = unpacking.decompress(stored, max(1, min(most, bytes_left)))  # to zlib 0 is no limit
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if unpacking.unconsumed_tail:
        del body  # a traceback would keep it
        if bytes_left < most:
            return None
        raise ValueError(
            f"it has more than {most:,} bytes when unpacked, and no more than {MAX_RATIO} for each that is stored, or"
            f" {MAX_BYTES:,} in all, are expected"
        )
    if not unpacking.eof or unpacking.unused_data:
        raise ValueError("its end is missing, or something follows it")
    return body
