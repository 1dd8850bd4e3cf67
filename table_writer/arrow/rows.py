"""Rows as their batches come, in the shape of a table: matched by name, converted, and never all in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timezone
from functools import partial
from typing import Any, Final
from weakref import WeakSet

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from table_writer.arrow.fields import TableField
from table_writer.arrow.values import Convert, How, limited, match, require_values, texts_of_decimals
from table_writer.errors import InvalidInputError, SchemaMismatchError
from table_writer.model.partition_value import java_zone
from table_writer.model.units import MIB

BYTES_AT_ONCE: Final = 32 * MIB  # of a batch: a table that is in memory is one
ROWS_AT_ONCE: Final = 200_000  # of narrow ones, which may be wide once they are converted
USED: Final[WeakSet[Any]] = WeakSet()  # readers that were gone through: they have no more rows
EXAMPLES: Final = "a pyarrow Table or RecordBatchReader, a DataFrame of pandas or Polars, a relation of DuckDB"


def reader_of(rows: object) -> Any:
    """Return a reader of rows that anything with Arrow's C stream has; ``InvalidInputError`` for what has none."""
    module = type(rows).__module__.partition(".")[0]
    if module == "pyspark":
        raise InvalidInputError("rows: a DataFrame of Spark is written by TableWriter(spark)")
    if isinstance(rows, pa.RecordBatchReader):
        return rows
    try:
        return _reader_of(rows, is_pandas=module == "pandas")
    except (pa.ArrowException, ValueError, TypeError, AttributeError) as error:
        raise InvalidInputError(f"rows: Arrow cannot read them: {error}. Expected {EXAMPLES}") from error


def _reader_of(rows: Any, *, is_pandas: bool) -> Any:
    if is_pandas:
        return pa.Table.from_pandas(rows, preserve_index=False).to_reader()  # its index is no column of the table
    if isinstance(rows, ds.Dataset | ds.Scanner):
        return (rows.scanner() if isinstance(rows, ds.Dataset) else rows).to_reader()
    if not hasattr(rows, "__arrow_c_stream__"):
        raise TypeError(f"a {type(rows).__name__} has no __arrow_c_stream__")
    return pa.RecordBatchReader.from_stream(rows)


@dataclass(frozen=True, slots=True)
class _Column:
    """What a column of the table gets: from a column of the rows, or null."""

    field: TableField
    position: int | None
    convert: Convert | None

    def of(self, batch: Any) -> Any:
        """Return its values in the form that files take, or a partition's name."""
        if self.position is None:
            return self._typed(pa.nulls(batch.num_rows, self.field.kind))
        values = batch.column(self.position)
        return self._typed(values if self.convert is None else self.convert(values))

    def _typed(self, values: Any) -> Any:
        if not self.field.nullable:
            require_values(values, self.field.name)
        return values if self.field.limit is None else limited(values, self.field.name, self.field.limit)


class FittedRows:
    """The rows of a reader, with the table's columns in their order: those of the files, then the partition's names.

    They can be gone through once. Raises ``SchemaMismatchError`` for columns that do not fit, before a row is read.
    """

    def __init__(self, reader: Any, fields: Sequence[TableField], table: str, how: How) -> None:
        if reader in USED:
            raise InvalidInputError(
                "rows: this reader was gone through already, by a write or a plan: make a new one", table=table
            )
        self._reader = reader
        self._table = table
        self.converted: list[str] = []
        self.filled: list[str] = []
        problems = list(_name_problems(reader.schema.names, fields, fills=how.fills))
        by_name = {name.lower(): position for position, name in enumerate(reader.schema.names)}
        self._columns = []
        for field in fields:
            position = by_name.get(field.name.lower())
            if position is None:
                self.filled.append(field.name)
                self._columns.append(_Column(field, None, None))
                continue
            given = reader.schema.field(position).type
            found = match(given, field.kind, field.name, how)
            problems += found.problems
            if found.convert is not None and not found.problems:
                self.converted.append(f"{field.name}: {given} -> {field.kind}")
            self._columns.append(_Column(field, position, found.convert))
        if problems:
            raise SchemaMismatchError(
                f"the rows do not fit table {table}, nothing was written: {'; '.join(problems)}.", table=table
            )
        self._names = [_partition_text(field, how) if field.is_partition else None for field in fields]

    def __iter__(self) -> Iterator[Any]:
        names = [column.field.name for column in self._columns]
        USED.add(self._reader)
        for batch in self._reader:
            if not batch.schema.equals(self._reader.schema):
                raise SchemaMismatchError(
                    f"a batch has other columns than its reader says: {batch.schema.names} of {batch.schema.types};"
                    " nothing was published",
                    table=self._table,
                )
            for piece in _pieces(batch):
                columns = [
                    values if spell is None else spell(values)
                    for spell, values in zip(self._names, self._typed(piece), strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, names=names)

    def _typed(self, batch: Any) -> Iterator[Any]:
        for column in self._columns:
            try:
                yield column.of(batch)
            except SchemaMismatchError as error:
                error.table = self._table
                raise
            except (pa.ArrowException, UnicodeDecodeError) as error:
                raise SchemaMismatchError(
                    f"rows do not fit the table, nothing was published: column {column.field.name} cannot be converted:"
                    f" {error}",
                    table=self._table,
                ) from error


def _pieces(batch: Any) -> Iterator[Any]:
    """Cut a batch that is large, or whose values are large once they are no dictionary's; pieces share its memory."""
    width = batch.nbytes / max(1, batch.num_rows) + sum(map(_looked_up_bytes, batch.columns))
    count = max(1, min(ROWS_AT_ONCE, int(BYTES_AT_ONCE / max(width, 1))))
    for begin in range(0, batch.num_rows, count):
        yield batch.slice(begin, count)


def _looked_up_bytes(values: Any) -> float:
    """Return how wide a value of a dictionary is on average; 0 where there is none."""
    if not pa.types.is_dictionary(values.type):
        return 0.0
    return float(values.dictionary.nbytes / max(1, len(values.dictionary)))


def _name_problems(names: Sequence[str], fields: Sequence[TableField], *, fills: bool) -> Iterator[str]:
    """Name columns that are there twice, and those that only one side has and that may not be."""
    counts = Counter(map(str.lower, names))
    known = {field.name.lower() for field in fields}
    lacking = [field for field in fields if field.name.lower() not in counts]
    required = [field for field in lacking if field.is_partition or not field.nullable]
    defaults = [field for field in lacking if field.has_default and field not in required]
    for what, found, advice in (
        ("columns that differ only by case, or are there twice", [name for name, n in counts.items() if n > 1], ""),
        (
            f"{'partition or NOT NULL columns' if fills else 'columns'} of the table missing in the rows",
            [field.name for field in (required if fills else lacking)],
            "" if fills or required else " (schema='allow_missing' gives them null)",
        ),
        (
            "columns missing in the rows whose defaults only Spark can compute",
            [field.name for field in defaults] if fills else [],
            " (give their values)",
        ),
        (
            "columns the table does not have",
            [name for name in names if name.lower() not in known],
            " (drop them; or add them to the table: ALTER TABLE … ADD COLUMNS)",
        ),
    ):
        if found:
            yield f"{what}: {', '.join(map(repr, found))}{advice}"


def _partition_text(field: TableField, how: How) -> Callable[[Any], Any]:
    """Return how the values of a partition column become the name of a partition, as Spark spells it."""
    kind, types = field.kind, pa.types
    if types.is_integer(kind) or types.is_date32(kind) or types.is_string(kind):
        return lambda values: values
    if types.is_boolean(kind):
        return lambda values: values.cast(pa.string())
    if types.is_decimal(kind):
        return texts_of_decimals
    if types.is_timestamp(kind) and kind.tz is None:
        return _texts_of_moments
    zone = java_zone(how.time_zone) if how.time_zone else None
    if types.is_timestamp(kind) and isinstance(zone, timezone):  # whose clocks are never set
        return partial(_texts_of_instants, zone)
    reason = (
        "its name says what clocks of a time zone show: ArrowWriter(time_zone='UTC') says that of one whose clocks are"
        " never set"
        if types.is_timestamp(kind)
        else "only Spark spells such values in a name"
    )
    raise InvalidInputError(f"partition column {field.name} is {kind}, and {reason}. Nothing was written.")


def _texts_of_instants(zone: timezone, values: Any) -> Any:
    return _each(values, lambda moment: _moment_text(moment.replace(tzinfo=UTC).astimezone(zone)))


def _texts_of_moments(values: Any) -> Any:
    return _each(values, _moment_text)


def _moment_text(moment: datetime) -> str:
    fraction = f".{moment.microsecond:06d}".rstrip("0").rstrip(".")
    return f"{moment.year:04d}-{moment:%m-%d %H:%M:%S}{fraction}"  # %Y has as few digits as it can


def _each(values: Any, spell: Callable[[datetime], str]) -> Any:
    """Spell each value once, of which there are few."""
    encoded = pc.dictionary_encode(values)
    try:
        texts = [spell(moment) for moment in encoded.dictionary.cast(pa.timestamp("us")).to_pylist()]
    except (ValueError, OverflowError) as error:
        raise SchemaMismatchError(f"a partition's time cannot be written: {error}") from error
    return pa.array(texts, pa.string()).take(encoded.indices)
