"""Stripes that Arrow encoded, taken out of a file of Arrow's to be put into one of ours."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from table_writer.errors import InvalidInputError
from table_writer.model.upload_spec import OrcOptions
from table_writer.upload.orc_statistics import of_rows, of_timestamp
from table_writer.upload.orc_types import TIMESTAMP, OrcColumn
from table_writer.upload.orc_wire import Message, decode, decompressed, encode, packed, stored, unpacked

__all__ = ["FILE_VERSION", "WRITER_VERSION", "Stripe", "stripes"]

FILE_VERSION: Final = (0, 12)
WRITER_VERSION: Final = 6  # of ORC's C++ writer, which encoded the streams
KNOWN_STREAMS: Final = {0, 1, 2, 3, 5, 6}  # nulls, data, lengths, dictionaries, and the two below
KNOWN_ENCODINGS: Final = {0, 2, 3}  # as they are, and the second version of runs and of dictionaries
TYPE, LONG = 4, 4  # a field of a footer, and a kind of column
SECONDARY, ROW_INDEX = 5, 6  # kinds of streams: fractions of seconds; where row groups begin, and their statistics


class Stripe(NamedTuple):
    """What goes into the file: bytes, and what its footer says of them."""

    pieces: list[bytes]
    index_bytes: int
    data_bytes: int
    footer_bytes: int
    row_count: int
    statistics: list[bytes]  # of each column


class _Stream(NamedTuple):
    kind: int
    column: int
    body: Any


def stripes(file: Any, columns: Sequence[OrcColumn], options: OrcOptions) -> Iterator[Stripe]:
    """Take a file of Arrow's apart; two columns that stand for a timestamp become one.

    Raises
    ------
    InvalidInputError
        Arrow wrote something that is not understood here, as another version of it might.
    """
    try:
        yield from _Taken(memoryview(file), columns, options).stripes()
    except (LookupError, ValueError, zlib.error) as error:
        raise InvalidInputError(
            f"pyarrow {pa.__version__} writes ORC in a way that is not known here ({error!r}): install another"
            ' pyarrow, or write with engine="spark"'
        ) from error


def _require(*, known: bool, what: str) -> None:
    if not known:
        raise ValueError(what)


class _Taken:
    def __init__(self, file: memoryview, columns: Sequence[OrcColumn], options: OrcOptions) -> None:
        self._file = file
        self._columns = columns
        self._options = options
        self._codec = options.codec
        tail_at = len(file) - 1 - file[-1]
        tail = dict(decode(bytes(file[tail_at:-1])))
        footer_at = tail_at - int(tail[1])
        self._block_bytes = int(tail.get(3, 0))
        self._footer = decode(self._plain(footer_at, int(tail[1])))
        self._metadata = decode(self._plain(footer_at - int(tail.get(5, 0)), int(tail.get(5, 0))))
        self._check(tail)

    def _check(self, tail: dict[int, Any]) -> None:
        version = tuple(unpacked(_bytes(tail[4]))), tail[6]
        _require(known=version == (FILE_VERSION, WRITER_VERSION), what=f"version {version}")
        kinds = [dict(decode(_bytes(value)))[1] for number, value in self._footer if number == TYPE]
        for column in self._columns:
            found = [kinds[place] for place in (column.arrow_id, column.fraction_id) if place is not None]
            wanted = [dict(decode(column.type_message))[1]] if column.fraction_id is None else [LONG, TIMESTAMP]
            _require(known=found == wanted, what=f"columns of kinds {found} instead of {wanted}")

    def stripes(self) -> Iterator[Stripe]:
        found = [dict(decode(_bytes(value))) for number, value in self._footer if number == 3]
        for information, (_, statistics) in zip(found, self._metadata, strict=True):
            yield self._stripe({number: int(value) for number, value in information.items()}, _bytes(statistics))

    def _stripe(self, information: dict[int, int], statistics: bytes) -> Stripe:
        start, index_bytes, data_bytes = information[1], information.get(2, 0), information[3]
        footer = decode(self._plain(start + index_bytes + data_bytes, information[4]))
        streams = list(self._streams(start, footer))
        kept = list(self._kept(streams))
        encodings = [value for number, value in footer if number == 2]
        kinds = {dict(decode(_bytes(encoding)))[1] for encoding in encodings}
        _require(known=kinds <= KNOWN_ENCODINGS, what=f"encodings {kinds}")
        _require(
            known=sum(len(stream.body) for stream in streams) == index_bytes + data_bytes, what="bytes of no stream"
        )
        new_footer: Message = [
            *((1, encode([(1, stream.kind), (2, stream.column), (3, len(stream.body))])) for stream in kept),
            *((2, encodings[column.arrow_id]) for column in self._columns),
            (3, self._options.time_zone.encode()),
        ]
        footer_body = stored(encode(new_footer), self._codec, self._block_bytes)
        arrows = [_bytes(value) for _, value in decode(statistics)]
        return Stripe(
            pieces=[*(bytes(stream.body) for stream in kept), footer_body],
            index_bytes=sum(len(stream.body) for stream in kept if stream.kind == ROW_INDEX),
            data_bytes=sum(len(stream.body) for stream in kept if stream.kind != ROW_INDEX),
            footer_bytes=len(footer_body),
            row_count=information[5],
            statistics=[self._statistics(arrows[column.arrow_id], column) for column in self._columns],
        )

    def _streams(self, position: int, footer: Message) -> Iterator[_Stream]:
        for number, value in footer:
            if number == 1:
                stream = {key: int(entry) for key, entry in decode(_bytes(value))}
                _require(known=stream[1] in KNOWN_STREAMS, what=f"stream of kind {stream[1]}")
                end = position + stream.get(3, 0)
                yield _Stream(stream.get(1, 0), stream.get(2, 0), self._file[position:end])
                position = end

    def _kept(self, streams: Sequence[_Stream]) -> Iterator[_Stream]:
        """Iterate over the streams under the numbers of the new file's columns; indexes stay in front."""
        indexes = {stream.column: stream.body for stream in streams if stream.kind == ROW_INDEX}
        own = {column.arrow_id: number for number, column in enumerate(self._columns)}
        fractions = {column.fraction_id: number for number, column in enumerate(self._columns) if column.fraction_id}
        for stream in streams:
            if stream.column in own:
                number = own[stream.column]
                body = self._index(self._columns[number], indexes) if stream.kind == ROW_INDEX else stream.body
                yield _Stream(stream.kind, number, body)
            elif stream.kind == SECONDARY and stream.column in fractions:
                yield _Stream(SECONDARY, fractions[stream.column], stream.body)

    def _index(self, column: OrcColumn, indexes: dict[int, Any]) -> bytes:
        entries = self._entries(indexes[column.arrow_id])
        if column.fraction_id:
            fraction_entries = self._entries(indexes[column.fraction_id])
            for entry, of_fraction in zip(entries, fraction_entries, strict=True):
                places = unpacked(_bytes(of_fraction[1]))[-self._positions_in_secondary :]
                entry[1] = _bytes(entry[1]) + packed(places)
        for entry in entries:
            entry[2] = self._statistics(_bytes(entry[2]), column)
        body = encode((1, encode(entry.items())) for entry in entries)
        return stored(body, self._codec, self._block_bytes)

    def _entries(self, index: Any) -> list[dict[int, int | bytes]]:
        return [dict(decode(_bytes(entry))) for _, entry in decode(decompressed(bytes(index), self._codec))]

    @property
    def _positions_in_secondary(self) -> int:
        """How many numbers name a place in it: of the chunk, in the chunk, in the run."""
        return 2 if self._codec == "uncompressed" else 3

    def _statistics(self, statistics: bytes, column: OrcColumn) -> bytes:
        return of_timestamp(statistics, self._options) if column.fraction_id else of_rows(statistics)

    def _plain(self, start: int, size_bytes: int) -> bytes:
        return decompressed(bytes(self._file[start : start + size_bytes]), self._codec)


def _bytes(value: Any) -> bytes:
    return bytes(value)
