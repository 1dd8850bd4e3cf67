"""What a statement of SQL means in calls of this library: a change of rows, or a write; other things are refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import CharType, StringType, StructField, VarcharType

from table_writer.config import WriteKeywords
from table_writer.errors import InvalidInputError
from table_writer.jobs.plan.types import partition_schema, table_schema
from table_writer.jobs.rows.change import RowChange
from table_writer.jobs.rows.clauses import Clause, Clauses, column
from table_writer.jobs.rows.expressions import blank, named, table_column
from table_writer.jobs.rows.merge import Merge
from table_writer.jobs.rows.where import DeletedWhere, UpdatedWhere
from table_writer.model.column_statistics import CURRENT_DEFAULT
from table_writer.model.message import RowMark
from table_writer.model.table import NULL_PARTITION, Table
from table_writer.model.write_mode import WriteMode
from table_writer.spark import open_gateway
from table_writer.spark.sql import SPARK_ERRORS, fetched, misreading, quoted, spark_sentence
from table_writer.spark.statement import (
    Assignments,
    Deletion,
    Insertion,
    MergeAction,
    MergeInto,
    Names,
    Target,
    Update,
    WhenClause,
    refused,
)
from table_writer.spark.types import cast_sql, exact_type, literal, shown_type

MARKS: Final[Mapping[MergeAction, RowMark]] = {
    "update": RowMark.UPDATED,
    "delete": RowMark.DELETED,
    "insert": RowMark.INSERTED,
}
WHERE_BELONGS: Final = "where: sql() takes it for MERGE INTO alone; write it into the statement"


def change_of(
    statement: Deletion | Update | MergeInto, table: Table, spark: SparkSession, options: Collection[str]
) -> RowChange:
    """Return the change of rows that a statement asks for."""
    if isinstance(statement, MergeInto):
        return _MergeOf(statement, table, spark).change
    if "where" in options:
        raise InvalidInputError(WHERE_BELONGS)
    names = statement.target.names
    if isinstance(statement, Deletion):
        return DeletedWhere(statement.predicate, names)
    rows = named(blank(spark, table_schema(table)), names)
    return UpdatedWhere(_stored_values(rows, statement.set, statement.target, table), statement.predicate, names)


def write_of(
    statement: Insertion, table: Table, spark: SparkSession, options: WriteKeywords
) -> tuple[DataFrame, WriteMode, WriteKeywords]:
    """Return the write that an ``INSERT`` asks for: its rows, the mode and the options.

    Without rows it does what Spark's does: an overwrite of what the statement names leaves that empty.
    """
    if "where" in options:
        raise InvalidInputError(WHERE_BELONGS)
    rows = statement.rows
    given = {name.lower() for name in rows.columns}
    fields = {field.name.lower(): field for field in partition_schema(table)}
    static = {fields[name.lower()]: text for name, text in statement.static.items()}
    predicate = " AND ".join(_is_value(spark, field, text) for field, text in static.items())
    for field, text in static.items():
        if field.name.lower() not in given:
            rows = rows.withColumn(field.name, F.lit(text).cast(field.dataType))
    if not statement.is_overwrite:
        return rows, WriteMode.APPEND, {"if_empty": "ignore", **options}
    if not fields:
        return rows, WriteMode.OVERWRITE_TABLE, {"if_empty": "replace", **options}
    if len(static) == len(fields):
        return rows, WriteMode.OVERWRITE_PARTITIONS, {"if_empty": "replace", "where": predicate, **options}
    if not statement.keeps_others:
        raise refused(
            "INSERT OVERWRITE with spark.sql.sources.partitionOverwriteMode=static",
            f"it would drop all partitions of {table.name} that the query has no rows of: set that to dynamic, or call"
            " overwrite_partitions, which keeps them, or overwrite_table, which drops them",
        )
    return rows, WriteMode.OVERWRITE_PARTITIONS, {"if_empty": "ignore", **options}


def _is_value(spark: SparkSession, field: StructField, text: str | None) -> str:
    """Return the predicate of one static partition value; refuse what is none of its column."""
    shown = f"PARTITION ({field.name}={text!r})"
    if not text or text == NULL_PARTITION:
        raise refused(shown, "give the column in the query instead")
    value = cast_sql(literal(text), field.dataType)
    if why := misreading(value, spark.conf.get):
        raise refused(shown, why)
    if not isinstance(field.dataType, StringType):
        with _explained(shown):
            [(is_none,)] = fetched(spark.sql(f"SELECT {value} IS NULL"))
        if is_none:
            raise refused(shown, f"it is no {shown_type(field.dataType)}")
    return f"{quoted(field.name)} = {value}"


def _stored_values(
    rows: DataFrame, values: Assignments, target: Target, table: Table, clause: str = "SET"
) -> dict[str, Column]:
    """Return new values by column, over the rows by which they are resolved, as Spark would store them."""
    statements = open_gateway(rows.sparkSession).statements()
    fields = [table_column(table, _column_name(target, names), clause) for names, _ in values]
    _require_each_once(fields, clause)
    stored = {}
    for field, (_, value) in zip(fields, values, strict=True):
        with _explained(f"{clause} {field.name}"):
            stored[field.name] = statements.stored(rows, value, field.dataType)
    return stored


def _column_name(target: Target, names: Names) -> str:
    """Return the column that a statement names, maybe by its table; fields of structs are not set alone."""
    *qualifier, name = names
    known = [part.lower() for part in target.names]
    if [part.lower() for part in qualifier] != known[len(known) - len(qualifier) :]:
        raise refused(f"SET {'.'.join(names)}", f"name a column of {target.table}; of a struct set all of it")
    return name


def _require_each_once(fields: list[StructField], clause: str) -> None:
    twice = [name for name, count in Counter(field.name for field in fields).items() if count > 1]
    if twice:
        raise refused(f"{clause} with {twice[0]} twice", "give each column one value")


@contextmanager
def _explained(clause: str) -> Iterator[None]:
    """Say of Spark's error which clause it is about."""
    try:
        yield
    except SPARK_ERRORS as error:
        raise InvalidInputError(f"{clause}: {spark_sentence(error)} Nothing was done.") from error


class _MergeOf:
    """The merge that ``MERGE INTO`` asks for: its source gets the columns of the key that it has by other names."""

    def __init__(self, statement: MergeInto, table: Table, spark: SparkSession) -> None:
        self._statement, self._table = statement, table
        self._columns = table_schema(table)
        self._statements = open_gateway(spark).statements()
        self._target_names, self._source_names = statement.target.names, statement.source_names
        if [name.lower() for name in self._target_names] == [name.lower() for name in self._source_names]:
            raise refused(
                "USING the table itself by its own name", "give both sides names: MERGE INTO … AS, USING … AS"
            )
        self._blank_source = named(blank(spark, statement.source.schema), self._source_names)
        self._blank_target = named(blank(spark, self._columns), self._target_names)
        self._both = self._blank_target.crossJoin(self._blank_source)
        self._source_columns = {name.lower(): name for name in statement.source.columns}

    @property
    def change(self) -> Merge:
        """The change of rows."""
        statement = self._statement
        return Merge(
            updates=self._updates,
            on=list(self._keys),
            clauses=Clauses(
                matched=self._clauses(statement.matched, self._both, "WHEN MATCHED"),
                missing=self._clauses(statement.missing, self._blank_source, "WHEN NOT MATCHED"),
                unmatched=self._clauses(statement.unmatched, self._blank_target, "WHEN NOT MATCHED BY SOURCE"),
            ),
            target_names=self._target_names,
            updates_names=self._source_names,
        )

    def _clauses(self, clauses: Sequence[WhenClause], rows: DataFrame, when: str) -> tuple[Clause, ...]:
        """Return clauses with their values as Spark would store them, over the rows by which they are resolved."""
        return tuple(
            Clause(
                mark=MARKS[clause.action],
                condition=clause.condition,
                values=None if clause.action == "delete" else self._stored_values(clause, rows),
                said_by=f"condition of {when}",
            )
            for clause in clauses
        )

    def _stored_values(self, clause: WhenClause, rows: DataFrame) -> Mapping[str, Column]:
        values = self._all_columns if clause.values is None else clause.values
        said_by = "INSERT" if clause.action == "insert" else "SET"
        stored = _stored_values(rows, values, self._statement.target, self._table, said_by)
        if clause.action == "insert":
            stored |= {
                field.name: F.expr(f"({field.metadata[CURRENT_DEFAULT]}\n)").cast(field.dataType)
                for field in self._columns
                if field.name not in stored and CURRENT_DEFAULT in field.metadata
            }
        missing = [column.name for column in self._table.partition_columns if column.name not in stored]
        if clause.action == "insert" and missing:
            raise refused(f"INSERT without {', '.join(missing)}", "a new row needs the columns of its partition")
        return stored

    @property
    def _all_columns(self) -> Assignments:
        """What ``SET *`` and ``INSERT *`` stand for: each column of the table from that of its name in the source."""
        lacking = [name for name in self._columns.names if name.lower() not in self._source_columns]
        if lacking:
            raise refused(
                f"SET * or INSERT * from a source without {', '.join(lacking)}", "name the columns one by one"
            )
        return tuple(((name,), column(self._source_names, name)) for name in self._columns.names)

    @cached_property
    def _keys(self) -> Mapping[str, str]:
        """The columns of the source by those of the table that they are equal to."""
        keys: dict[str, str] = {}
        for left, right in self._statement.pairs:
            with _explained("ON"):
                sides = dict(filter(None, (self._statements.column_named(self._both, side) for side in (left, right))))
            names = {tuple(map(str.lower, names)): name for names, name in sides.items()}
            target, source = (
                names.get(tuple(map(str.lower, side))) for side in (self._target_names, self._source_names)
            )
            if target is None or source is None:
                raise refused(
                    f"ON {left} = {right}", "expected a column of the table and one of the source, without a function"
                )
            if target in keys:
                raise refused(f"ON with {target} twice", "compare each column once")
            keys[target] = source
        fields = {field.name.lower(): field for field in self._statement.source.schema}
        for name, source in keys.items():
            kinds = (exact_type(table_column(self._table, name, "ON")), exact_type(fields[source.lower()]))
            texts = [isinstance(kind, StringType | VarcharType | CharType) for kind in kinds]
            if texts[0] != texts[1]:  # Spark casts the text, and a merge the other value
                raise refused(f"ON {name}", "a text is compared with another type: cast the source's column")
            if kinds[0] != kinds[1] and any(isinstance(kind, CharType) for kind in kinds):
                raise refused(f"ON {name}", "CHAR(n) is compared with its blanks: give the source the same type")
        return keys

    @cached_property
    def _updates(self) -> DataFrame:
        """The source, with the columns of the key that it has by other names."""
        rows = self._statement.source
        for name, source in self._keys.items():
            if name.lower() == source.lower():
                continue
            if name.lower() in self._source_columns:
                raise refused(
                    f"{source} for {name}, where the source has a column {name} too", "name it so in USING (SELECT …)"
                )
            rows = rows.withColumn(name, F.col(quoted(source)))
        return rows
