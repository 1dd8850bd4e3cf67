"""Columns that a table gets because a DataFrame has them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType, TimestampNTZType

from table_writer.errors import InvalidInputError, MetastoreError, SchemaMismatchError
from table_writer.metastore.protocol import Metastore
from table_writer.model.table import Table
from table_writer.plan.types import exact_type, stored_field, unstorable
from table_writer.spark.sql import SPARK_ERRORS, all_types, garbled, literal, quoted, rebuilt, spark_reason

LONGEST_NAME: Final = 767  # Hive's metastore: COLUMNS_V2.COLUMN_NAME
NAME_HIVE_KEEPS: Final = re.compile(r"[^\x00-\x20,;{}()=\x7f]+")
"""Hive's SerDes split a list of names at commas, and its Parquet reader parses a schema as text: one name with a blank,
and Hive reads no file of the table."""
FIELD_HIVE_KEEPS: Final = re.compile(r"[\w.]+")
"""Hive keeps a struct as text too, names unquoted, for a parser that knows these characters."""
FIELD_BESIDE_LIMITS: Final = re.compile(r"\w+")
"""Spark keeps a column with ``char(n)`` inside as text too, and reads it as SQL."""


def added_field(given: StructField) -> StructField:
    """Return the column a table gets for one of the DataFrame, with its comment and text limits.

    Everything in it may be null: Spark cannot read a Hive table with NOT NULL inside a struct.
    """
    return stored_field(given.name, rebuilt(exact_type(given), nullable=True), str(given.metadata.get("comment", "")))


def addition_problems(field: StructField, table_schema: StructType) -> tuple[str, ...]:
    name, kind = field.name, exact_type(field)
    problems = list(unstorable(kind, name))
    if len(name) > LONGEST_NAME or not NAME_HIVE_KEEPS.fullmatch(name):
        problems.append(f"new column {name[:80]!r} has a name that Hive cannot keep; rename it")
    keeps = FIELD_HIVE_KEEPS if kind == field.dataType else FIELD_BESIDE_LIMITS
    problems += [
        f"new column {name} has a field {part.name[:80]!r} inside, a name that Hive cannot keep; rename it"
        for one in all_types(kind)
        if isinstance(one, StructType)
        for part in one
        if not keeps.fullmatch(part.name)
    ]
    if any(isinstance(one, StringType) and one.simpleString() != "string" for one in all_types(field.dataType)):
        problems.append(f"new column {name} has a collation, which Hive does not know; cast it to string")
    if _is_local(field.dataType) and not _is_local(table_schema):
        problems.append(
            f"new column {name} has timestamp_ntz, which Hive does not know: Spark would hide all columns of the table"
            " from Hive; cast it to timestamp"
        )
    return tuple(problems)


def add_columns(spark: SparkSession, metastore: Metastore, table: Table, added: Sequence[StructField]) -> Table:
    """Add columns to a table, at the end of its data columns; partitions that exist keep their own.

    Returns the table as it is now. Spark runs ``ALTER TABLE``, so that both Hive's columns and Spark's own schema
    change. Another writer may add the same column at the same moment: that is fine, if it has the same type; if not,
    or if the table is gone, that is a ``SchemaMismatchError``. ``MetastoreError``: Spark or the metastore refused.
    """
    require_spellable(spark, table, added)
    try:
        _add_missing(spark, table, added)
    except SPARK_ERRORS as failure:
        _existing(metastore, table)
        raise MetastoreError(
            f"Spark could not look at table {table.name} to add columns ({_columns(added)}): {spark_reason(failure)}."
            " Nothing was published; run it again.",
            table=str(table.name),
        ) from failure
    return _existing(metastore, table)


def require_spellable(spark: SparkSession, table: Table, added: Sequence[StructField]) -> None:
    """Refuse comments that the session would change on the way into the table; names the setting in the way."""
    if why := garbled(_columns(added), spark.conf.get):
        raise InvalidInputError(
            f"columns ({_columns(added)}) cannot be added to table {table.name}: {why}. Nothing was published.",
            table=str(table.name),
        )


def _existing(metastore: Metastore, table: Table) -> Table:
    now = metastore.get_table(table.name)
    if now is None:
        raise SchemaMismatchError(
            f"table {table.name} was dropped meanwhile; nothing was published. Create it, and write again.",
            table=str(table.name),
        )
    return now


def _add_missing(spark: SparkSession, table: Table, added: Sequence[StructField]) -> None:
    name = ".".join(map(quoted, ("spark_catalog", table.name.database, table.name.name)))
    for _ in range(len(added) + 1):  # each round that is lost to another writer finds one column more
        missing = _missing(spark, name, added, str(table.name))
        if not missing:
            return
        try:
            spark.sql(f"ALTER TABLE {name} ADD COLUMNS ({_columns(missing)})")
        except SPARK_ERRORS as failure:
            if len(_missing(spark, name, added, str(table.name))) == len(missing):
                raise MetastoreError(
                    f"could not add columns ({_columns(missing)}) to table {table.name}: {spark_reason(failure)}."
                    f" Nothing was published; add them yourself with ALTER TABLE {table.name} ADD COLUMNS, or leave"
                    " them out.",
                    table=str(table.name),
                ) from failure
        else:
            return


def _missing(spark: SparkSession, name: str, added: Sequence[StructField], table: str) -> list[StructField]:
    """Return the columns that the table still lacks; one that is there with another type is an error."""
    spark.catalog.refreshTable(name)  # this session may remember the table as it was
    there = {field.name.lower(): field for field in spark.table(name).schema}
    for field in added:
        other = there.get(field.name.lower())
        if other is not None and _spelled(other) != _spelled(field):
            raise SchemaMismatchError(
                f"table {table} got a column {field.name} meanwhile, as {_spelled(other)}, and the DataFrame has"
                f" {_spelled(field)}; nothing was published. Cast it, and write again.",
                table=table,
            )
    return [field for field in added if field.name.lower() not in there]


def _spelled(field: StructField) -> str:
    return _ddl(exact_type(field)).lower()


def _columns(fields: Sequence[StructField]) -> str:
    comments = (field.metadata.get("comment") for field in fields)
    return ", ".join(
        f"{quoted(field.name)} {_ddl(exact_type(field))}{f' COMMENT {literal(comment)}' if comment else ''}"
        for field, comment in zip(fields, comments, strict=True)
    )


def _ddl(kind: DataType) -> str:
    """Spell a type as Spark SQL takes it: names of fields are quoted, which ``simpleString`` does not."""
    if isinstance(kind, StructType):
        fields = (f"{quoted(field.name)}: {_ddl(field.dataType)}" for field in kind)
        return f"STRUCT<{', '.join(fields)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{_ddl(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{_ddl(kind.keyType)}, {_ddl(kind.valueType)}>"
    return kind.simpleString()


def _is_local(kind: DataType) -> bool:
    return any(isinstance(one, TimestampNTZType) for one in all_types(kind))
