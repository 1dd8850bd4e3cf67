"""The wire format of what ORC says about itself: protobuf messages, in compressed chunks.

A message is a list of pairs, field number and value: numbers for varints, bytes for all else. What is not understood
is passed on as it came. Field numbers are those of ``orc_proto.proto``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

__all__ = ["Message", "decode", "decompressed", "encode", "packed", "signed", "stored", "unpacked", "zigzag"]

Value = int | bytes
Message = list[tuple[int, Value]]

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
DOUBLE_BYTES: Final = 8
LZ4_FRAME_START: Final = bytes.fromhex("04224d18607073")  # independent blocks, no checksums: then each block as it is


class Fixed64(bytes):
    """A double: eight bytes without a length before them."""

    __slots__ = ()


def decode(data: bytes) -> Message:
    """Read the fields of a message."""
    fields: Message = []
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, position = _varint(data, position)
            fields.append((number, value))
        elif kind == FIXED64:
            fields.append((number, Fixed64(data[position : position + DOUBLE_BYTES])))
            position += DOUBLE_BYTES
        elif kind == LENGTH:
            size_bytes, position = _varint(data, position)
            fields.append((number, data[position : position + size_bytes]))
            position += size_bytes
        else:
            raise ValueError(f"ORC has no field of wire type {kind}")
    return fields


def encode(fields: Iterable[tuple[int, Value]]) -> bytes:
    """Write the fields of a message."""
    written = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            written += _as_varint(number << 3 | VARINT) + _as_varint(value)
        elif isinstance(value, Fixed64):
            written += _as_varint(number << 3 | FIXED64) + value
        else:
            written += _as_varint(number << 3 | LENGTH) + _as_varint(len(value)) + value
    return bytes(written)


def packed(numbers: Iterable[int]) -> bytes:
    """Write repeated numbers."""
    return b"".join(map(_as_varint, numbers))


def unpacked(data: bytes) -> list[int]:
    """Read repeated numbers."""
    numbers = []
    position = 0
    while position < len(data):
        number, position = _varint(data, position)
        numbers.append(number)
    return numbers


def zigzag(number: int) -> int:
    """Return how a signed number is written."""
    return number << 1 if number >= 0 else (-number << 1) - 1


def signed(number: int) -> int:
    """Undo :func:`zigzag`."""
    return number >> 1 if number & 1 == 0 else -((number + 1) >> 1)


def decompressed(data: bytes, codec: str) -> bytes:
    """Read chunks: three bytes of length, whose lowest bit says "stored as it is", then the chunk."""
    return data if codec == "uncompressed" else b"".join(_chunks(data, codec))


def stored(data: bytes, codec: str, block_bytes: int) -> bytes:
    """Write chunks that are not compressed: what is written this way is small."""
    if codec == "uncompressed":
        return data
    pieces = (data[start : start + block_bytes] for start in range(0, len(data), block_bytes))
    return b"".join((len(piece) << 1 | 1).to_bytes(3, "little") + piece for piece in pieces)


def _chunks(data: bytes, codec: str) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        header = int.from_bytes(data[position : position + 3], "little")
        chunk = data[position + 3 : position + 3 + (header >> 1)]
        position += 3 + len(chunk)
        yield chunk if header & 1 else _decompressed_chunk(chunk, codec)


def _decompressed_chunk(chunk: bytes, codec: str) -> bytes:
    if codec == "zlib":
        return zlib.decompress(chunk, -zlib.MAX_WBITS)
    if codec == "snappy":
        size_bytes, _ = _varint(chunk, 0)
        answer: bytes = pa.decompress(chunk, size_bytes, codec="snappy", asbytes=True)
        return answer
    if codec == "lz4":  # a bare block does not say its size; in a frame it need not
        chunk = LZ4_FRAME_START + len(chunk).to_bytes(4, "little") + chunk + bytes(4)
    stream: Any = pa.CompressedInputStream(pa.BufferReader(chunk), codec)
    return bytes(stream.read())


def _varint(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, position


def _as_varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)
