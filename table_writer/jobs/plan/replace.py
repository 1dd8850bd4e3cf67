"""The columns of a write that gives a table others in place of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812  # as Spark documents it

from table_writer.errors import InvalidInputError, SchemaMismatchError
from table_writer.jobs.plan.fit import added_field, addition_problems
from table_writer.jobs.plan.types import table_schema
from table_writer.metastore.protocol import Metastore
from table_writer.model.hive_columns import hive_columns
from table_writer.model.table import Column, Table
from table_writer.model.table_kind import provider_of

NAMES_COLUMNS: Final = re.compile("column|schema", re.IGNORECASE)
COLUMNAR_SERDES: Final = ("ParquetHiveSerDe", "OrcSerde")


def replacing_schema(df: DataFrame, table: Table, metastore: Metastore) -> T.StructType:
    """Return the DataFrame's columns as an unpartitioned table keeps them, each of which may be null.

    ``InvalidInputError``: the table cannot get others, or could not get its own back. ``SchemaMismatchError``: a column
    is none that Hive keeps.
    """
    schema = T.StructType([added_field(field) for field in df.schema])
    problems = [problem for field in schema for problem in addition_problems(field, T.StructType())]
    if problems:
        raise SchemaMismatchError(
            f"{table.name} cannot get the DataFrame's columns, nothing was written: {'; '.join(problems)}.",
            table=str(table.name),
        )
    why = next(_reasons(table, hive_columns(schema.json()), metastore), "")
    if why:
        raise InvalidInputError(
            f"{table.name} {why}, so schema='replace' cannot give it other columns. Write into a new table. Nothing was"
            " written.",
            table=str(table.name),
        )
    return schema


def _reasons(table: Table, new: tuple[Column, ...], metastore: Metastore) -> Iterator[str]:
    is_columnar = table.serde.endswith(COLUMNAR_SERDES)
    if provider_of(table) == "hive" and not is_columnar:
        yield f"is read by {table.serde}, which may know its columns by itself"
    names = (name for name in table.serde_parameters if NAMES_COLUMNS.search(name))
    if name := next(names, ""):
        yield f"has the SerDe property {name}, which names its columns"
    if table.bucket_columns or "spark.sql.sources.schema.numBuckets" in table.parameters:
        yield "is bucketed by columns of its own"
    if _plain(hive_columns(table_schema(table).json())) != _plain(table.columns):
        yield "has other columns for Hive than for Spark"
    stays = all(old.type == column.type for old, column in zip(table.columns, new, strict=False))
    if not stays and (reason := metastore.why_types_stay()):
        yield reason


def _plain(columns: tuple[Column, ...]) -> list[tuple[str, str]]:
    return [(column.name.lower(), column.type.lower()) for column in columns]
