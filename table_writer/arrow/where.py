"""The partitions that filters choose, as ``read_arrow`` takes them, and the same filters in SQL for the log."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from table_writer.errors import InvalidInputError
from table_writer.model.table import PartitionValues, Table
from table_writer.read.types import arrow_schema
from table_writer.read.where import conditions_by_partition


class Filters:
    """Selects partitions by filters such as ``[("dt", ">=", "2024-01-01")]``; is a ``Scope``."""

    def __init__(self, table: Table, where: Any) -> None:
        self._table = table
        self._where = where
        if not table.partition_columns:
            raise InvalidInputError(f"{table.name} is not partitioned: where={where!r} selects nothing")
        self._fields = list(arrow_schema(table))[-len(table.partition_columns) :]
        self(())
        self.predicate = sql_of(where)

    def __call__(self, existing: Collection[PartitionValues]) -> frozenset[PartitionValues]:
        """Return those of the partitions that the filters choose."""
        return frozenset(conditions_by_partition(self._table, self._fields, list(existing), self._where))


def sql_of(where: Any) -> str:
    """Spell filters as SQL: who publishes a staged write may have Spark to ask."""
    groups = [where] if isinstance(where, list) and where and isinstance(where[0], tuple) else where
    if not isinstance(groups, list) or not groups or not all(map(_is_group, groups)):
        raise InvalidInputError(f'where={where!r}: expected filters, as in [("dt", ">=", "2024-01-01")]')
    spelled = [" AND ".join(map(_filter, group)) for group in groups]
    return spelled[0] if len(spelled) == 1 else " OR ".join(f"({one})" for one in spelled)


def _is_group(given: object) -> bool:
    if not isinstance(given, list) or not given:
        return False
    return all(isinstance(one, tuple) and len(one) == 3 and isinstance(one[0], str) for one in given)


def _filter(given: tuple[str, str, Any]) -> str:
    name, operator, value = given
    column = f"`{name.replace('`', '``')}`"
    if operator in {"in", "not in"}:
        return f"{column} {operator.upper()} ({', '.join(map(_literal, value))})"
    return f"{column} {operator} {_literal(value)}"


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool | int | float) and not isinstance(value, str):
        return str(value).upper() if isinstance(value, bool) else repr(value)
    text = value.isoformat(" ") if isinstance(value, datetime) else str(value)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
    return f"'{escaped}'"
