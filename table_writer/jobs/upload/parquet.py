"""One Parquet file being encoded, so that readers cannot tell it from Spark's own."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache, partial
from itertools import accumulate, islice
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from table_writer.errors import InvalidInputError
from table_writer.jobs.upload.arrays import whole_numbers
from table_writer.jobs.upload.figures import FigureCount, Look
from table_writer.model.column_figures import as_text
from table_writer.model.column_statistics import LONGEST_TEXT_BYTES, Bound, ColumnStatistics, MergedStatistics
from table_writer.model.units import MIB
from table_writer.model.upload_spec import ParquetOptions

ARROW_CODECS: Final = {"uncompressed": "none", "lz4raw": "lz4", "lz4_raw": "lz4"}
SPARK_ZSTD_LEVEL: Final = 3  # parquet.compression.codec.zstd.level
LARGEST_PAGE_BYTES: Final = 16 * MIB
BATCH_VALUES: Final = 1024  # Arrow's own: values between two looks
SAMPLE_ROWS: Final = 2048
SAMPLE_BYTES: Final = 4 * MIB  # of rows so wide that fewer of them are looked at
SCATTER: Final = 2_654_435_761  # Knuth's, of multiplicative hashing
WORTHWHILE: Final = 0.7  # dictionary and indices must take less than this share of the plain values
FIELD_ID, ARROW_FIELD_ID = "parquet.field.id", "PARQUET:field_id"  # Spark's and Arrow's name in a column's metadata
MICROS: Final = pa.timestamp("us", tz="UTC")
MILLIS: Final = pa.timestamp("ms", tz="UTC")
MOST_COLUMNS: Final = 100
"""Columns of a file, nested ones not counted, whose statistics are collected.

Each is some 20 bytes in the message of every task, compressed, all of which the driver holds.
"""

Moment = TypeVar("Moment", date, datetime)
MakeBound = Callable[[Any], Bound | None]
"""Makes a bound of what a footer holds for it: a number, or bytes. ``None`` where Python has no such value."""

EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - local time, and as UTC below
CHUNK_FOOTER_BYTES: Final = 1500  # what Arrow's writer keeps of one column of one row group until the file ends
MAX_STATISTICS_BYTES: Final = 4096  # Arrow leaves out a minimum or maximum that is longer
STATISTICS: Final = 4  # minimum and maximum, in the footer and in the page index


class Sink(Protocol):
    """The file-like object that encoded bytes are written to."""

    def write(self, data: bytes) -> int:
        """Take encoded bytes."""


class ParquetFile:
    """A file being written, one row group per call of :meth:`write`.

    Whether a column gets a dictionary is decided by a sample of the first row group: Arrow keeps a dictionary that does
    not pay (files get 40 % larger), Java's writer drops it.

    Floating-point columns of a file with NaN have no bounds: Arrow leaves NaN out of them, and Spark, to whom it is
    above all numbers, would pass over rows that it looks for.
    """

    def __init__(self, sink: Sink, first_rows: Any, options: ParquetOptions, *, counts_figures: bool = False) -> None:
        self._options = options
        self._schema = file_schema(first_rows.schema, options)
        self._metadata: list[Any] = []
        is_int96 = writes_int96(self._schema, options)
        self._columns = _plain_columns(self._schema)
        self._has_nan = has_nan(first_rows)
        self._nulls = {  # of columns of which the footer says nothing
            column.name: 0
            for column in self._columns
            if (is_int96 and column.is_timestamp) or (self._has_nan and column.is_floating)
        }
        level = options.compression_level
        codec = options.compression.lower()
        if level is None and codec == "zstd":
            level = SPARK_ZSTD_LEVEL
        self._looks = look_at(first_rows)
        self._figures = FigureCount(self._schema) if counts_figures else None
        self._batch_values = max(1, min(BATCH_VALUES, int(options.page_bytes / max(1.0, widest_bytes(first_rows)))))
        self._writer = pq.ParquetWriter(
            sink,
            self._schema,
            compression=ARROW_CODECS.get(codec, codec),
            compression_level=level,
            use_dictionary=columns_that_repeat(self._looks, options),
            dictionary_pagesize_limit=options.dictionary_bytes,
            data_page_size=options.page_bytes,
            data_page_version=options.page_version,
            write_page_checksum=options.page_checksums,
            write_statistics=columns_with_statistics(self._schema, options, has_nan=self._has_nan),
            use_deprecated_int96_timestamps=is_int96,
            store_decimal_as_integer=not options.legacy_format,
            store_schema=False,  # an Arrow reader takes the types from Parquet, as it does from Spark's files
            write_page_index=True,
            write_batch_size=self._batch_values,
            metadata_collector=self._metadata,
        )

    def takes(self, rows: Any) -> bool:
        """Return whether these rows can go into the file.

        Its first ones may be so narrow that pages would be huge, or without NaN.
        """
        is_wide = widest_bytes(rows) * self._batch_values > LARGEST_PAGE_BYTES and self._batch_values > 1
        return not is_wide and (self._has_nan or not has_nan(rows))

    def write(self, rows: Any) -> None:
        """Encode a table as a row group; what it needs of memory is one of its columns."""
        written = with_schema(rows, self._schema)
        self._writer.write_table(written, row_group_size=self._options.row_group_rows)
        if self._figures is not None:
            self._figures.add(written)
        for name in self._nulls:
            self._nulls[name] += rows.column(name).null_count

    def close(self) -> tuple[int, int]:
        """Write the footer; returns what the file says it holds: rows, and bytes before compression."""
        footer = {"org.apache.spark.version": self._options.spark_version}
        footer["org.apache.spark.sql.parquet.row.metadata"] = self._options.spark_schema_json
        self._writer.add_key_value_metadata({key: value for key, value in footer.items() if value})
        self._writer.close()
        raw_size_bytes = sum(group.total_byte_size for group in self._row_groups())
        return self._metadata[0].num_rows, raw_size_bytes

    def statistics(self) -> dict[str, ColumnStatistics]:
        """Return what the footer says of columns; nulls of others, as of INT96, were counted on their way."""
        counted = {name: ColumnStatistics(null_count=count) for name, count in self._nulls.items()}
        return _statistics_of_groups(self._row_groups(), self._columns) | counted

    def figures(self) -> str:
        """Return what optimizers are told of the columns; empty where nothing was counted."""
        return "" if self._figures is None else as_text(self._figures.figures(self._looks))

    def _row_groups(self) -> list[Any]:
        metadata = self._metadata[0]
        return [metadata.row_group(position) for position in range(metadata.num_row_groups)]


class _Column(NamedTuple):
    """A column that is not nested."""

    name: str
    leaf: int  # its number in a footer, where a nested column is as many as it has leaves
    make_bound: MakeBound
    is_timestamp: bool
    is_floating: bool


@lru_cache(maxsize=8)  # a task's files have one schema
def _plain_columns(schema: Any) -> tuple[_Column, ...]:
    """Return the columns of a file that are not nested, the first ones of very many."""
    ends = accumulate(leaf_count((field,)) for field in schema)
    plain = (
        _Column(
            name=field.name,
            leaf=leaf,
            make_bound=_make_bound(field.type),
            is_timestamp=pa.types.is_timestamp(field.type),
            is_floating=pa.types.is_floating(field.type),
        )
        for field, leaf in zip(schema, (0, *ends), strict=False)
        if not pa.types.is_nested(field.type)
    )
    return tuple(islice(plain, MOST_COLUMNS))


def _statistics_of_groups(groups: Iterable[Any], columns: Sequence[_Column]) -> dict[str, ColumnStatistics]:
    """Return what row groups say of columns, taken together."""
    merged = MergedStatistics()
    for group in groups:
        chunks = ((column, group.column(column.leaf).statistics) for column in columns)
        known = {column.name: _statistics(said, column) for column, said in chunks if said is not None}
        merged.add(known, group.num_rows)
    return merged.columns


def _statistics(said: Any, column: _Column) -> ColumnStatistics:
    """Read one column of one row group; Arrow leaves out both bounds where one is long, and cuts none."""
    has_bounds = said.has_min_max
    return ColumnStatistics(
        null_count=said.null_count if said.has_null_count else None,
        low=column.make_bound(said.min_raw) if has_bounds else None,
        high=column.make_bound(said.max_raw) if has_bounds else None,
    )


def _make_bound(kind: Any) -> MakeBound:
    """Return how the bounds of a column of some type are made; of most types there are none.

    Those of floating point leave NaN out, and do not tell 0.0 from -0.0.
    """
    types = pa.types
    if types.is_integer(kind):
        return int
    if types.is_date32(kind):
        return partial(_moment, EPOCH.date(), timedelta(days=1))
    if types.is_timestamp(kind):
        epoch = EPOCH if kind.tz is None else EPOCH.replace(tzinfo=UTC)
        return partial(_moment, epoch, timedelta(milliseconds=1) if kind.unit == "ms" else timedelta(microseconds=1))
    if types.is_decimal(kind):
        return partial(_decimal, -kind.scale)
    return _text if types.is_string(kind) or types.is_large_string(kind) else lambda _: None


def _moment(epoch: Moment, unit: timedelta, count: int) -> Moment | None:
    try:
        return epoch + count * unit
    except OverflowError:  # before the year 1, or after 9999
        return None


def _decimal(exponent: int, unscaled: int | bytes) -> Decimal:
    number = unscaled if isinstance(unscaled, int) else int.from_bytes(unscaled, "big", signed=True)
    digits = tuple(map(int, str(abs(number))))
    return Decimal((int(number < 0), digits, exponent))  # exact, whatever the context's precision is


def _text(encoded: bytes) -> str | None:
    try:
        return encoded.decode() if len(encoded) <= LONGEST_TEXT_BYTES else None
    except UnicodeDecodeError:  # Spark does not check its strings
        return None


def leaf_count(schema: Any) -> int:
    """Return how many columns a file of these rows has: a struct is as many as it has fields, all the way down."""
    return sum(_leaf_count(field.type) for field in schema)


def widest_bytes(rows: Any) -> float:
    """Return the bytes of an average value of the widest column."""
    return float(max(column.nbytes for column in rows.columns) / max(1, rows.num_rows))


def footer_bytes(rows: Any, row_group_rows: int) -> int:
    """Return what a file that takes these rows, as row groups, has to remember of them until it ends."""
    widths = (column.nbytes / max(1, rows.num_rows) for column in rows.columns)
    statistics_bytes = sum(STATISTICS * min(MAX_STATISTICS_BYTES, width) for width in widths)
    group_bytes = CHUNK_FOOTER_BYTES * leaf_count(rows.schema) + statistics_bytes
    return int(group_bytes * math.ceil(rows.num_rows / row_group_rows))


def _leaf_count(kind: Any) -> int:
    children = [kind.field(number).type for number in range(kind.num_fields)] if pa.types.is_nested(kind) else []
    return sum(map(_leaf_count, children)) or 1


def look_at(rows: Any) -> dict[str, Look]:
    """Look at a sample of each Parquet column of a table; of all rows where they are few."""
    largest = max(rows.to_batches(), key=lambda batch: batch.num_rows)
    if largest.num_rows < rows.num_rows <= SAMPLE_ROWS and rows.nbytes <= SAMPLE_BYTES:
        (largest,) = rows.combine_chunks().to_batches()
    sample_rows = max(1, min(SAMPLE_ROWS, SAMPLE_BYTES * largest.num_rows // max(1, largest.nbytes)))
    step = max(1, largest.num_rows // sample_rows)
    sample = largest.take(whole_numbers(_spread(largest.num_rows, step)))
    scale = rows.num_rows / sample.num_rows
    return {
        path: _look(values, scale)
        for name, column in zip(rows.column_names, sample.columns, strict=True)
        for path, values in _leaves(name, column)
    }


def _spread(count: int, step: int) -> Sequence[int]:
    """Return one number of each ``step``, below ``count``, at no regular distance: values may come in turns.

    Examples
    --------
    >>> _spread(10, 1), _spread(30, 10)
    (range(0, 10), [0, 14, 29])
    """
    if step == 1:
        return range(count)
    whole = count - count % step
    spread = [first + (first * SCATTER >> 16) % step for first in range(0, whole, step)]
    return spread if whole == count else [*spread, count - 1]


def _look(values: Any, scale: float) -> Look:
    different = values.unique().drop_null()  # several times faster than count_distinct
    count = len(values) - values.null_count
    in_all = _distinct_in_all(count, len(different), count * scale) if count else 0.0
    is_binary = _is_binary(values.type)  # of nested values there may be none
    width = values.nbytes / max(1, len(values)) + 4 if is_binary else values.type.bit_width / 8
    return Look(count, different, in_all, count * scale, width)


def columns_that_repeat(looks: Mapping[str, Look], options: ParquetOptions) -> list[str]:
    """Return the paths of the Parquet columns that may have a dictionary, and that it makes clearly smaller."""
    return [
        path
        for path, look in looks.items()
        if options.dictionaries.of(path) and _repeats(look, options.dictionary_bytes)
    ]


def columns_with_statistics(schema: Any, options: ParquetOptions, *, has_nan: bool) -> bool | list[str]:
    """Return the paths of the Parquet columns whose smallest and largest values are told; ``True`` for all.

    Of floating point none inside of others, where nobody looks for NaN, and none at all if there is one.
    """
    switch = options.statistics
    paths = [(path, kind, field.type) for field in schema for path, kind in _paths(field.name, field.type)]
    told = [
        path
        for path, kind, outer in paths
        if switch.of(path) and not (pa.types.is_floating(kind) and (has_nan or pa.types.is_nested(outer)))
    ]
    return len(told) == len(paths) or told


def has_nan(rows: Any) -> bool:
    """Return whether a floating-point column of a table, not inside of another, has a value that is no number."""
    columns = (column for column in rows.columns if pa.types.is_floating(column.type))
    return any(pc.any(pc.is_nan(column)).as_py() for column in columns)


def _leaves(path: str, values: Any) -> Iterator[tuple[str, Any]]:
    kind = values.type
    if pa.types.is_struct(kind):
        for position, field in enumerate(kind):
            yield from _leaves(f"{path}.{field.name}", values.field(position))
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", values.keys)
        yield from _leaves(f"{path}.key_value.value", values.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(f"{path}.list.element", values.values)
    elif not pa.types.is_boolean(kind) and not pa.types.is_null(kind):
        yield path, values


def _paths(path: str, kind: Any) -> Iterator[tuple[str, Any]]:
    """Yield the paths of the Parquet columns of a column of a file, with their types."""
    if not pa.types.is_nested(kind):
        yield path, kind
        return
    between = ".key_value" if pa.types.is_map(kind) else "" if pa.types.is_struct(kind) else ".list"
    for position in range(kind.num_fields):
        field = kind.field(position)
        yield from _paths(f"{path}{between}.{field.name}", field.type)


def _repeats(look: Look, most_bytes: int) -> bool:
    if len(look.different) == look.values:
        return False
    dictionary_bytes = look.in_all * look.width
    index_bytes = look.all_values * max(1, math.ceil(math.log2(look.in_all))) / 8
    is_smaller: bool = dictionary_bytes + index_bytes < WORTHWHILE * look.all_values * look.width
    return is_smaller and dictionary_bytes <= most_bytes


def _is_binary(kind: Any) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind) or types.is_large_binary(kind)
    )


def _distinct_in_all(sampled: int, distinct: int, total: float) -> float:
    """Return D such that a draw of ``sampled`` out of D equally likely values shows ``distinct`` different ones."""
    if total <= sampled:
        return distinct
    low, high = float(distinct), float(sampled) ** 2
    for _ in range(40):
        middle = (low + high) / 2
        if middle * -math.expm1(-sampled / middle) < distinct:
            low = middle
        else:
            high = middle
    return min(high, total)


@lru_cache(maxsize=8)  # a task's files have one schema
def file_schema(schema: Any, options: ParquetOptions) -> Any:
    """Return the schema of a file: every column and everything in it may be null, as in Spark's files."""
    fields = []
    for field in schema:
        kind = file_type(field.type, column=field.name)
        if kind == MICROS and options.timestamp_type == "TIMESTAMP_MILLIS":
            kind = MILLIS
        fields.append(pa.field(field.name, kind))
    return pa.schema(_with_ids(fields, options))


def _with_ids(fields: Sequence[Any], options: ParquetOptions) -> list[Any]:
    """Give columns the ids that Spark's schema has for them, as it does in its own files."""
    if not options.field_ids or FIELD_ID not in options.spark_schema_json:
        return list(fields)
    described = json.loads(options.spark_schema_json)["fields"]
    return [_with_id(field, told) for field, told in zip(fields, described, strict=True)]


def _with_id(field: Any, described: Mapping[str, Any]) -> Any:
    """Return a field with the id that Spark's description of it has, and with those inside it."""
    kind, inner = field.type, described["type"]
    if isinstance(inner, Mapping):
        kind = _type_with_ids(kind, inner)
    number = described.get("metadata", {}).get(FIELD_ID)
    metadata = {} if number is None else {ARROW_FIELD_ID: str(number)}
    return pa.field(field.name, kind, nullable=field.nullable, metadata=metadata)


def _type_with_ids(kind: Any, described: Any) -> Any:
    if not isinstance(described, Mapping):
        return kind
    if pa.types.is_struct(kind):
        return pa.struct([_with_id(field, inner) for field, inner in zip(kind, described["fields"], strict=True)])
    if pa.types.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(_type_with_ids(kind.key_type, described["keyType"])),
            kind.item_field.with_type(_type_with_ids(kind.item_type, described["valueType"])),
        )
    if pa.types.is_nested(kind):
        make = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return make(kind.value_field.with_type(_type_with_ids(kind.value_type, described["elementType"])))
    return kind


def file_type(kind: Any, *, column: str) -> Any:
    types = pa.types
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, file_type(field.type, column=column)) for field in kind])
    if types.is_list(kind) or types.is_large_list(kind):
        make = pa.list_ if types.is_list(kind) else pa.large_list
        return make(pa.field("element", file_type(kind.value_type, column=column)))
    if types.is_map(kind):
        key = pa.field("key", file_type(kind.key_type, column=column), nullable=False)
        return pa.map_(key, pa.field("value", file_type(kind.item_type, column=column)))
    return _without_children(kind, column=column)


def _without_children(kind: Any, *, column: str) -> Any:
    types = pa.types
    if types.is_timestamp(kind):
        return pa.timestamp("us") if kind.tz is None else MICROS
    if types.is_time64(kind):
        return pa.time64("us")
    if types.is_duration(kind):
        return pa.int64()  # Spark's day-time interval: micros
    if types.is_null(kind) or types.is_interval(kind):
        raise InvalidInputError(f"column {column!r} has type {kind}, which Parquet has no column for; cast it")
    return kind


def with_schema(rows: Any, schema: Any) -> Any:
    """Return a table with the types of a file; columns that have them already are not copied.

    Moments become UTC before Arrow computes with them: it does not know all of Java's zones, and no file names one.
    """
    columns = []
    for column, field in zip(rows.columns, schema, strict=True):
        if column.type == field.type:
            columns.append(column)
        elif field.type == MILLIS:
            columns.append(pc.floor_temporal(column.cast(MICROS), unit="millisecond").cast(field.type))
        else:
            columns.append(column.cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def writes_int96(schema: Any, options: ParquetOptions) -> bool:
    """Return whether timestamps become INT96: Arrow does that for all of a file or none, and TIMESTAMP_NTZ never is."""
    return options.timestamp_type == "INT96" and not any(_has_local_timestamp(field.type) for field in schema)


def _has_local_timestamp(kind: Any) -> bool:
    if pa.types.is_timestamp(kind):
        return kind.tz is None
    return any(_has_local_timestamp(kind.field(position).type) for position in range(kind.num_fields))
