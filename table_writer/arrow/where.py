"""The partitions that filters choose, and the same filters in SQL for the log."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from table_writer.errors import InvalidInputError
from table_writer.model.table import PartitionValues, Table, quoted
from table_writer.read.types import arrow_schema
from table_writer.read.where import OPERATORS, conditions_by_partition

Filter = tuple[str, str, Any]
MEMBERSHIP: Final = ("in", "not in")
EXPECTED: Final = 'expected filters, as in [("dt", ">=", "2024-01-01")]'


class Filters:
    """Selects partitions by groups of filters, all of one of which must be true; is a ``Scope``."""

    def __init__(self, table: Table, groups: list[list[Filter]]) -> None:
        self._table = table
        self._groups = groups
        if not table.partition_columns:
            raise InvalidInputError(f"{table.name} is not partitioned: where={groups!r} selects nothing")
        self._fields = list(arrow_schema(table))[-len(table.partition_columns) :]
        self(())
        self.predicate = sql_of(groups)

    def __call__(self, existing: Collection[PartitionValues]) -> frozenset[PartitionValues]:
        """Return those of the partitions that the filters choose."""
        return frozenset(conditions_by_partition(self._table, self._fields, list(existing), self._groups))


def filters_of(where: object) -> list[list[Filter]]:
    """Read filters once, as ``read_arrow`` takes them; an iterator in one would be empty the next time."""
    one_group = isinstance(where, list) and bool(where) and isinstance(where[0], tuple)
    groups = [where] if one_group else where
    if not isinstance(groups, list) or not groups or not all(isinstance(group, list) and group for group in groups):
        raise InvalidInputError(f"where={where!r}: {EXPECTED}")
    return [[_filter_of(given, where) for given in group] for group in groups]


def _filter_of(given: object, where: object) -> Filter:
    if not isinstance(given, tuple) or len(given) != 3 or not isinstance(given[0], str):
        raise InvalidInputError(
            f"where={where!r}: {given!r} is no tuple of a column, an operator and a value; {EXPECTED}"
        )
    name, operator, value = given
    if operator in MEMBERSHIP:
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise InvalidInputError(f"where={where!r}: {operator} asks for a list of values, not for {value!r}")
        return name, operator, [_plain(member) for member in value]
    if operator not in OPERATORS:
        known = ", ".join((*OPERATORS, *MEMBERSHIP))
        raise InvalidInputError(f"where={where!r}: {operator!r} is none of the operators {known}")
    return name, operator, _plain(value)


def _plain(value: Any) -> Any:
    """Return a value as Python has it: numpy and pyarrow have their own."""
    if isinstance(value, pa.Scalar):
        return value.as_py()
    return value.item() if hasattr(value, "item") and hasattr(value, "dtype") else value


def sql_of(groups: list[list[Filter]]) -> str:
    """Spell filters as SQL: who publishes a staged write may have Spark to ask."""
    spelled = [" AND ".join(map(_filter_sql, group)) for group in groups]
    return spelled[0] if len(spelled) == 1 else " OR ".join(f"({group})" for group in spelled)


def _filter_sql(given: Filter) -> str:
    name, operator, value = given
    column = quoted(name)
    if operator in MEMBERSHIP:
        if not value:
            return "FALSE" if operator == "in" else "TRUE"
        return f"{column} {operator.upper()} ({', '.join(map(_literal, value))})"
    return f"{column} {operator} {_literal(value)}"


def _literal(value: Any) -> str:
    """Spell a value as a literal of its own type."""
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).upper()
    if isinstance(value, float):
        return f"{value!r}D" if math.isfinite(value) else f"double('{value}')"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Decimal):
        return f"{value:f}BD"
    text = value.isoformat(" ") if isinstance(value, datetime) else str(value)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
    kind = "TIMESTAMP_NTZ " if isinstance(value, datetime) else "DATE " if isinstance(value, date) else ""
    return f"{kind}'{escaped}'"
