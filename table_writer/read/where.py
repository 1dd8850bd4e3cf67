"""The partitions that a condition chooses: lists of filters as Spark decides them, expressions as pyarrow does."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from table_writer.errors import InvalidInputError
from table_writer.model.table import NULL_PARTITION, PartitionValues, Table
from table_writer.read.types import partition_value

OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": eq,
    "==": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
KINDS: Final[Sequence[tuple[Callable[[Any], bool], type | tuple[type, ...]]]] = (
    (pa.types.is_boolean, bool),
    (pa.types.is_integer, (int, float, Decimal)),
    (pa.types.is_floating, (int, float, Decimal)),
    (pa.types.is_decimal, (int, float, Decimal)),
    (pa.types.is_date, date),  # and datetime, which is one
    (pa.types.is_timestamp, date),
    (pa.types.is_binary, bytes),
    (pa.types.is_string, str),
)
EXAMPLE: Final = '[("dt", ">=", "2024-01-01"), ("country", "in", ["de", "fr"])]'
Row = Sequence[Any]
Test = Callable[[Row], bool]


def conditions_by_partition(
    table: Table, fields: Sequence[Any], names: Sequence[PartitionValues], where: Any
) -> dict[PartitionValues, Any]:
    """Return the partitions for which ``where`` is true, each with what is known of its rows.

    Raises ``InvalidInputError`` for a condition that is none, or is not on these columns alone.
    """
    columns = [
        _Column(position, field.name, field.type, declared.type)
        for position, (field, declared) in enumerate(zip(fields, table.partition_columns, strict=True))
    ]
    rows = [tuple(column.value(values[column.position]) for column in columns) for values in names]
    try:
        if isinstance(where, pc.Expression):
            kept = _numbers_kept(fields, rows, where)
        else:
            is_true = _condition(columns, where)
            kept = [number for number, row in enumerate(rows) if is_true(row)]
    except (TypeError, ValueError, ArithmeticError, pa.ArrowException) as error:
        raise InvalidInputError(
            f"where={where!r} is no condition on partitions of {table.name}: {error}. It may use its partition columns,"
            f" {', '.join(f'{field.name} ({field.type})' for field in fields)}, for example as {EXAMPLE}, or in an"
            ' expression: pyarrow.dataset.field("dt") >= "2024-01-01". Filter rows on the dataset',
            table=str(table.name),
        ) from error
    return {
        names[number]: reduce(and_, (_is_value(*known) for known in zip(fields, rows[number], strict=True)))
        for number in kept
    }


def _is_value(field: Any, value: Any) -> Any:
    return pc.field(field.name).is_null() if value is None else pc.field(field.name) == pa.scalar(value, field.type)


def _numbers_kept(fields: Sequence[Any], rows: Sequence[Row], where: Any) -> list[int]:
    columns = [pa.array([row[position] for row in rows], field.type) for position, field in enumerate(fields)]
    numbered = pa.table([*columns, range(len(rows))], schema=pa.schema([*fields, pa.field("", pa.int64())]))
    kept: list[int] = numbered.filter(where)[""].to_pylist()
    return kept


def _condition(columns: Sequence[_Column], where: Any) -> Test:
    """Read filters: tuples that must all be true, or lists of such tuples of which one must be."""
    if where is None:
        return lambda _: True
    if isinstance(where, str):
        raise TypeError("there is no Spark to read SQL")
    by_name = {column.name.lower(): column for column in columns}
    one_list = all(isinstance(condition, tuple) for condition in where)
    choices = [[_test(by_name, condition) for condition in group] for group in ([where] if one_list else where)]
    if not choices or not all(choices):
        raise ValueError("a list of filters is empty")
    return lambda row: any(all(test(row) for test in tests) for tests in choices)


def _test(by_name: Mapping[str, _Column], given: Any) -> Test:
    if not isinstance(given, tuple) or len(given) != 3:
        raise ValueError(f"{given!r} is no tuple of a column, an operator and a value")
    name, operator, value = given
    if str(name).lower() not in by_name:
        raise ValueError(f"{name!r} is no partition column")
    column = by_name[str(name).lower()]
    if operator in OPERATORS:
        return column.comparison(operator, value)
    if operator not in ("in", "not in"):
        raise ValueError(f"{operator!r} is none of the operators {', '.join(OPERATORS)}, in, not in")
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise TypeError(f"{operator} asks for a list of values, not for {value!r}")
    return column.membership(list(value), inside=operator == "in")


@dataclass(frozen=True)
class _Column:
    """A partition column; its values are compared as Spark does, for whom NaN is one number, above all others."""

    position: int
    name: str
    kind: Any  # Arrow's type
    hive_type: str

    def value(self, text: str) -> Any:
        """Return the value that a partition's text stands for."""
        return partition_value(text, self.kind, self.hive_type)

    def comparison(self, operator: str, given: Any) -> Test:
        """Return the test of a row against a value; comparisons with null are not true."""
        compare, value, position = OPERATORS[operator], self._literal(given), self.position
        if value is None:
            return lambda _: False
        alike = self._alike(value)
        wanted = alike(value)
        return lambda row: row[position] is not None and compare(alike(row[position]), wanted)

    def membership(self, given: Sequence[Any], *, inside: bool) -> Test:
        """Return the test whether a row has one of these values, or another: of null, and beside null, it has none."""
        members, position = [self._literal(value) for value in given], self.position
        if not members:
            return lambda _: not inside
        if not inside and None in members:
            return lambda _: False
        sets: dict[Callable[[Any], Any], set[Any]] = {}
        for member in members:
            if member is not None:
                sets.setdefault(self._alike(member), set()).add(self._alike(member)(member))

        def test(row: Row) -> bool:
            value = row[position]
            return value is not None and inside == any(alike(value) in there for alike, there in sets.items())

        return test

    def _alike(self, value: Any) -> Callable[[Any], Any]:
        """Return a function after which Python compares values of this column with this one as Spark does."""
        if isinstance(value, float) or pa.types.is_floating(self.kind):
            return _double
        if isinstance(value, datetime) or pa.types.is_timestamp(self.kind):
            return _moment
        return self._padded_text if self.hive_type.lower().startswith("char(") else _unchanged_value

    def _padded_text(self, text: str) -> str:
        return text.rstrip(" ").ljust(int(self.hive_type[len("char(") : -1]))

    def _literal(self, given: Any) -> Any:
        value = (given if isinstance(given, pa.Scalar) else pa.scalar(given)).as_py()  # numpy's scalars, too
        if value is None:
            return None
        if value == NULL_PARTITION:
            raise ValueError(f'{value} stands for null: choose it by pyarrow.dataset.field("{self.name}").is_null()')
        if isinstance(value, str) and not pa.types.is_string(self.kind):
            value = self._of_text(value)
        wanted = next(kinds for is_one, kinds in KINDS if is_one(self.kind))
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            raise TypeError(f"{value!r} is not compared with {self.name}, a {self.hive_type}")
        if isinstance(value, datetime) and value.tzinfo is not None:
            raise ValueError(f"{value!r} has a time zone, {self.name} has none")
        return value

    def _of_text(self, text: str) -> Any:
        """Read a text as the metastore's are read, but do not round it."""
        if pa.types.is_binary(self.kind):
            return text.encode()
        found = self.value(text)
        if found is None:
            raise ValueError(f"{text!r} is no value of {self.name}, a {self.hive_type}")
        return Decimal(text) if pa.types.is_integer(self.kind) or pa.types.is_decimal(self.kind) else found


def _unchanged_value(value: Any) -> Any:
    return value


def _double(value: float | Decimal) -> tuple[bool, float]:
    number = float(value)
    return (True, 0.0) if math.isnan(number) else (False, number)


def _moment(value: date) -> datetime:
    return value if isinstance(value, datetime) else datetime.combine(value, time())
