"""Making a table that does not exist yet. Spark itself makes it: this file only spells the statement."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812  # as Spark documents it

from table_writer.checked import nearest
from table_writer.errors import InvalidInputError, MetastoreError
from table_writer.model.column_statistics import CHAR_VARCHAR, CURRENT_DEFAULT
from table_writer.model.new_table import HIVE_COMPRESSION, NewTable
from table_writer.model.table import TableName
from table_writer.spark.conditions import require_expression
from table_writer.spark.sql import SPARK_ERRORS, misreading, quoted, spark_reason, without_query_log
from table_writer.spark.types import all_types, column_sql, exact_type, literal, rebuilt, shown_type

EXISTS: Final = re.compile("TABLE_OR_VIEW_ALREADY_EXISTS|AlreadyExistsException")
METASTORE: Final = re.compile("MetaException|TTransportException|TApplicationException|SessionHiveMetaStoreClient")


def create_table(
    spark: SparkSession, schema: DataFrame | T.StructType, name: TableName, new: NewTable, *, if_not_exists: bool
) -> None:
    """Let Spark make a table in its ``spark_catalog``; nothing is written into it.

    A ``StructType`` is taken as it is; of a DataFrame every column may be null, as with ``saveAsTable``. With
    ``if_not_exists`` a table of that name is left alone, whatever it is like: of two that make it at once one does, and
    both succeed. After an ``InvalidInputError`` nothing was made; after a ``MetastoreError`` it may have been.
    """
    wanted = _schema_of(schema, name)
    _require_defaults(spark, wanted, name)
    statement = create_table_statement(wanted, name, new, if_not_exists=if_not_exists)
    if why := misreading(statement, spark.conf.get):
        raise _refusal(name, why)
    try:
        with without_query_log():
            spark.sql(statement)
    except SPARK_ERRORS as error:
        said = str(error)
        if EXISTS.search(said) and if_not_exists:
            return  # someone else made it between Spark's look and its call
        raise _error_of_spark(said, name) from error


def create_table_statement(schema: T.StructType, name: TableName, new: NewTable, *, if_not_exists: bool) -> str:
    """Spell the ``CREATE TABLE`` statement, or raise everything that is wrong with the call as one error."""
    faults = tuple(_faults(schema, new))
    if faults:
        raise _refusal(name, "; ".join(faults))
    spelled = {field.name.lower(): field.name for field in schema}
    partition_columns = ", ".join(quoted(spelled[column.lower()]) for column in new.partition_by)
    columns = ", ".join(map(column_sql, schema))
    clauses = (
        f"CREATE TABLE {'IF NOT EXISTS ' if if_not_exists else ''}{name.sql} ({columns})",
        f"USING {new.provider}",
        _pairs("OPTIONS", new.table_options),
        partition_columns and f"PARTITIONED BY ({partition_columns})",
        new.location and f"LOCATION {literal(new.location)}",
        new.comment and f"COMMENT {literal(new.comment)}",
        _pairs("TBLPROPERTIES", new.table_properties),
    )
    return "\n".join(filter(None, clauses))


def _schema_of(schema: DataFrame | T.StructType, name: TableName) -> T.StructType:
    """Return the columns with the types they were declared with: ``char`` and ``varchar`` instead of ``string``."""
    # Null at every depth: what a DataFrame promises today is no promise of the table.
    columns = schema if isinstance(schema, T.StructType) else rebuilt(schema.schema, nullable=True)
    return T.StructType(
        [T.StructField(field.name, _declared_type(field, name), field.nullable, field.metadata) for field in columns]
    )


def _declared_type(column: T.StructField, name: TableName) -> T.DataType:
    declared = column.metadata.get(CHAR_VARCHAR)
    try:
        return exact_type(column)
    except PySparkException as error:
        raise _refusal(name, f"column {column.name!r} says it is {declared!r}, which is no type of Spark") from error


def _faults(schema: T.StructType, new: NewTable) -> Iterator[str]:
    spelled = {field.name.lower(): field for field in schema}
    chosen = [column.lower() for column in new.partition_by]
    if not schema.fields:
        yield "there are no columns"
    if twice := _more_than_once(schema.names):
        yield f"columns have one name, for case does not count: {twice}"
    if twice := _more_than_once(new.partition_by):
        yield f"partition_by names columns more than once: {twice}"
    if unknown := [column for column in new.partition_by if column.lower() not in spelled]:
        yield f"partition_by names {unknown}, and the columns are {schema.names}{nearest(unknown[0], schema.names)}"
    elif schema.fields and set(chosen) == set(spelled):
        yield "every column is a partition column: at least one must be left for the files"
    for column in (spelled[column_name] for column_name in chosen if column_name in spelled):
        if isinstance(column.dataType, T.StructType | T.ArrayType | T.MapType):
            yield f"partition column {column.name!r} is a {shown_type(column.dataType)}, which has no directory name"
    for column in schema:
        yield from _type_faults(column)
        # Spark makes such a table, and refuses to read it: it finds "different data types" in it.
        if new.partition_by and new.file_format in HIVE_COMPRESSION and not _inside_nullable(column.dataType):
            yield f"column {column.name!r} has a NOT NULL field: Spark reads no partitioned Hive table with one"


def _type_faults(column: T.StructField) -> Iterator[str]:
    parts = tuple(all_types(column.dataType))
    if any(isinstance(part, T.NullType) for part in parts):
        yield f"column {column.name!r} has no type, only nulls ({shown_type(column.dataType)}): cast it to one"
    if any(isinstance(part, T.UserDefinedType) for part in parts):
        yield (
            f"column {column.name!r} has a user-defined type, for which SQL has no name: let Spark make the table,"
            " df.limit(0).write.saveAsTable(…)"
        )
    # Spark keeps such a type as unquoted text, makes the table, and can neither read nor drop it afterwards.
    if any(isinstance(part, T.CharType | T.VarcharType) for part in parts[1:]):
        names = [field.name for part in parts if isinstance(part, T.StructType) for field in part]
        if odd := [name for name in names if not re.fullmatch(r"\w+", name, re.ASCII)]:
            yield f"column {column.name!r} has a nested char or varchar: Spark cannot read fields named {odd} beside it"


def _inside_nullable(data_type: T.DataType) -> bool:
    return all(field.nullable for part in all_types(data_type) if isinstance(part, T.StructType) for field in part)


def _require_defaults(spark: SparkSession, schema: T.StructType, name: TableName) -> None:
    """Refuse a default that is more than one expression: it may come from the footer of anybody's file."""
    for column in schema:
        default = column.metadata.get(CURRENT_DEFAULT)
        if default is None:
            continue
        try:
            with without_query_log():
                require_expression(spark.range(0), default)
        except InvalidInputError as error:
            raise _refusal(
                name, f"the default of column {column.name!r} is no expression: {default!r}: {error.message}"
            ) from error


def _pairs(keyword: str, pairs: Mapping[str, str]) -> str:
    spelled = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in pairs.items())
    return spelled and f"{keyword} ({spelled})"


def _more_than_once(names: Sequence[str]) -> list[str]:
    counts = Counter(name.lower() for name in names)
    return [name for name in names if counts[name.lower()] > 1]


def _refusal(name: TableName, reason: str) -> InvalidInputError:
    end = "" if reason.endswith(("?", ".")) else "."
    return InvalidInputError(f"table {name} cannot be made: {reason}{end} Nothing was made.", table=str(name))


def _error_of_spark(said: str, name: TableName) -> InvalidInputError | MetastoreError:
    """Return our error for what Spark said, by who is to act on it."""
    reason = spark_reason(said)
    if EXISTS.search(said):
        return InvalidInputError(
            f"table {name} exists already, and was left alone: call with if_not_exists=True, or drop it first",
            table=str(name),
        )
    if METASTORE.search(said):
        return MetastoreError(
            f"the metastore failed while table {name} was made, and it may have been made: call again with"
            f" if_not_exists=True. Spark said: {reason}",
            table=str(name),
        )
    return _refusal(name, f"Spark said: {reason}")
