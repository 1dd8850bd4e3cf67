"""The DataFrame's columns, matched by name, in the table's types.

What is safe is done for the user: columns in any order, types that widen without loss, limits checked on the data. All
else is refused with both types named, before anything is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import (
    ByteType,
    DateType,
    IntegerType,
    LongType,
    ShortType,
    StructField,
    StructType,
)

from table_writer.errors import SchemaMismatchError
from table_writer.model.schema_mode import SchemaMode
from table_writer.plan.evolve import added_field, addition_problems
from table_writer.plan.limits import Limit, limits_of
from table_writer.plan.match import match
from table_writer.plan.table_schema import exact_type, plain_type
from table_writer.plan.type_pairs import Match, unstorable
from table_writer.sql_text import quoted

__all__ = ["Fitted", "fit"]

SPELLED_ALIKE: Final = (DateType, ByteType, ShortType, IntegerType, LongType)  # cheaper to send than their text


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """Rows in the table's shape, and what was done to give them that.

    Parameters
    ----------
    rows
        Exactly the columns, order and types of ``schema``; partition values may be text.
    schema
        The table's columns, with those it gets between its data and its partition columns.
    added
        Columns that the table must get before these rows can be published.
    filled
        Columns, and fields such as ``info.code``, that became null because the DataFrame lacks them.
    limits
        What executors enforce on the rows, see :func:`~table_writer.plan.limits.violation`.
    """

    rows: DataFrame
    schema: StructType
    added: tuple[StructField, ...] = ()
    filled: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = ()


def fit(
    df: DataFrame,
    schema: StructType,
    table: str,
    partition_columns: Sequence[str],
    mode: SchemaMode = SchemaMode.STRICT,
) -> Fitted:
    """Return the DataFrame with exactly the table's columns, order and types.

    Partition values are turned into text by Spark itself, as its own writer does it; integers and dates, whose text is
    the same everywhere, stay as they are. Runs no Spark job.

    Parameters
    ----------
    df
        What the user gave.
    schema
        The table's schema, partition columns last.
    table
        Name of the table, for messages.
    partition_columns
        Names of the partition columns in the table's order.
    mode
        What happens to columns that only one of the two has.

    Raises
    ------
    SchemaMismatchError
        Names every column that is missing, extra, there twice, or of a type that does not fit.
    """
    partitions = {name.lower() for name in partition_columns}
    _refuse(_name_problems(df, schema, partitions, mode), table)
    added = _added(df, schema)
    _refuse([problem for field in added for problem in addition_problems(field, schema)], table)
    cut = len(schema) - len(partition_columns)
    whole = StructType([*schema.fields[:cut], *added, *schema.fields[cut:]])
    given = {field.name.lower(): field for field in df.schema}
    matches = {field.name: _match(given.get(field.name.lower()), field, mode) for field in whole}
    _refuse([problem for found in matches.values() for problem in found.problems], table)
    columns: list[Column] = []
    limits: list[Limit] = []
    for field in whole:
        found = matches[field.name]
        source = given.get(field.name.lower())
        column = F.lit(None) if source is None else df[quoted(source.name)]
        fitted = column if found.convert is None else found.convert(column)
        as_text = field.name.lower() in partitions and not isinstance(field.dataType, SPELLED_ALIKE)
        columns.append((fitted.cast("string") if as_text else fitted).alias(field.name))
        limits.extend(limits_of(found.rules, column, df))
    filled = tuple(path for found in matches.values() for path in found.filled)
    return Fitted(rows=df.select(*columns), schema=whole, added=added, filled=filled, limits=tuple(limits))


def _match(source: StructField | None, field: StructField, mode: SchemaMode) -> Match:
    wanted = StructField(field.name, exact_type(field), field.nullable)
    problems = unstorable(wanted.dataType, field.name)
    if problems:
        return Match(problems=problems)
    if source is None:
        return Match(convert=lambda column: column.cast(field.dataType), filled=(field.name,))
    return match(StructField(field.name, plain_type(source.dataType), source.nullable), wanted, field.name, mode)


def _added(df: DataFrame, schema: StructType) -> tuple[StructField, ...]:
    wanted = {field.name.lower() for field in schema}
    return tuple(added_field(field) for field in df.schema if field.name.lower() not in wanted)


def _refuse(problems: Sequence[str], table: str) -> None:
    if problems:
        raise SchemaMismatchError(
            f"the DataFrame does not fit table {table}, nothing was written: {'; '.join(problems)}.", table=table
        )


def _name_problems(df: DataFrame, schema: StructType, partitions: set[str], mode: SchemaMode) -> list[str]:
    """Name columns that are there twice, and those that only one side has and that the mode does not allow."""
    wanted = {field.name.lower() for field in schema}
    counts = Counter(name.lower() for name in df.columns)
    missing = [field for field in schema if field.name.lower() not in counts]
    required = [field for field in missing if field.name.lower() in partitions or not field.nullable]
    extra = [name for name in df.columns if name.lower() not in wanted]
    hint = "" if mode.fills or required else " (schema='allow_missing' makes them null)"
    lacking = "partition or NOT NULL columns" if mode.fills else "columns"
    return [
        f"{what}: {', '.join(map(repr, names))}{advice}"
        for what, names, advice in (
            (
                "columns that differ only by case, or are there twice",
                sorted(name for name, count in counts.items() if count > 1),
                "",
            ),
            (
                f"{lacking} of the table missing in the DataFrame",
                [field.name for field in (required if mode.fills else missing)],
                hint,
            ),
            (
                "columns the table does not have",
                [] if mode is SchemaMode.EVOLVE else extra,
                " (schema='evolve' adds them)",
            ),
        )
        if names
    ]
