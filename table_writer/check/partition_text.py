"""Values of partitions, which the metastore keeps as text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Final

from pyspark.sql.types import BooleanType, DateType, DecimalType, IntegralType, StringType

from table_writer.check.target import Place, Target, is_text
from table_writer.check.wording import shown
from table_writer.errors import InvalidInputError
from table_writer.model.partition_name import NULL_PARTITION, unescape
from table_writer.model.partition_value import canonical

__all__ = ["PartitionKey", "comparable", "partition_key", "typed_text"]

PLAIN_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
PLAIN_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
TRUTH: Final = {"true": True, "false": False}

PartitionKey = Mapping[str, str]
"""Values of some partition columns, by name in lower case."""


def typed_text(text: str, place: Place) -> object:
    """Read a partition's value as its column's type; ``NotImplemented`` where that is best left to Spark."""
    kind = place.kind
    if text == NULL_PARTITION:
        return None
    if is_text(kind):
        return text if kind == StringType() and not place.is_char else NotImplemented
    if isinstance(kind, BooleanType):
        return TRUTH.get(text.lower(), NotImplemented)
    if isinstance(kind, DateType):
        return _date(text)
    if isinstance(kind, (IntegralType, DecimalType)) and PLAIN_NUMBER.fullmatch(text):
        return Decimal(text) if isinstance(kind, DecimalType) or "." in text else int(text)
    return NotImplemented


def _date(text: str) -> object:
    try:
        return date.fromisoformat(text) if PLAIN_DATE.fullmatch(text) else NotImplemented
    except ValueError:  # 2024-02-30
        return NotImplemented


def partition_key(given: object, target: Target, columns: Mapping[str, str]) -> PartitionKey:
    """Read what a user names partitions by: ``dt=2024-01-01/country=de`` or ``{"dt": "2024-01-01"}``.

    Columns that are left out may have any value.

    Raises
    ------
    InvalidInputError
        It names no partition of the table.
    """
    if isinstance(given, str):
        pairs = [part.partition("=") for part in given.strip("/").split("/")]
        named: list[tuple[object, object]] = [(unescape(name), unescape(value)) for name, _, value in pairs]
        is_whole = all(separator for _, separator, _ in pairs)
    else:
        is_whole = isinstance(given, Mapping)
        named = list(given.items()) if isinstance(given, Mapping) else []
    names = [str(name).lower() for name, _ in named]
    if not is_whole or not names or len(set(names)) < len(names) or not set(names) <= set(columns):
        raise InvalidInputError(
            f"{shown(given)} names no partition of {target.table}, which is partitioned by {', '.join(columns) or '—'}:"
            ' write "column=value/column=value" or {"column": value}',
            table=target.table,
        )
    return {
        name: comparable(_text(value, columns[name]), columns[name], target.time_zone)
        for name, (_, value) in zip(names, named, strict=True)
    }


def comparable(text: str, kind: str, time_zone: str) -> str:
    """Return what two spellings of one value have in common; what is no value of its type is only itself."""
    (found,) = canonical((text,), (kind,), time_zone)
    return text if found == NULL_PARTITION else found


def _text(value: object, kind: str) -> str:
    if value is None or value == "":
        return NULL_PARTITION
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime) and kind == "date":  # as pandas has dates; another time of a day is no date
        return value.date().isoformat() if value.time() == time() else repr(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    return str(value)
