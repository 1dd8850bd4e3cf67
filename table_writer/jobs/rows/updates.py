"""The updates of a merge: their keys, which of them are the newest, and what they have for the table's columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import StructField, StructType

from table_writer.jobs.plan.fit import FittedRows, fit
from table_writer.jobs.plan.types import table_schema
from table_writer.jobs.rows.clauses import Clauses
from table_writer.jobs.rows.expressions import table_column
from table_writer.jobs.rows.keys import Keys
from table_writer.model.new_table import SchemaMode
from table_writer.model.table import Table
from table_writer.spark.sql import quoted

OF_UPDATES: Final = "__table_writer_updates_"  # the columns of their keys
AGE: Final = f"{OF_UPDATES}age"  # by which the newest row of a key is known
NEW: Final = "__table_writer_new_"  # the columns of what the table's get
GIVEN: Final = "__table_writer_given_"
DELETES: Final = "__table_writer_deletes"  # whether an update says that its row goes
FIRST: Final = "__table_writer_first"  # whether a row stands for its key


class Updates:
    """The updates as a caller has given them.

    ``adds_columns``: the table gets those that only the updates have. ``others``: some may be for expressions alone.
    """

    def __init__(
        self, rows: DataFrame, table: Table, on: Sequence[str], newest_by: str, *, adds_columns: bool, others: bool
    ) -> None:
        self._rows = rows
        self._table = table
        self._takes_others = others
        self._mode = SchemaMode.EVOLVE if adds_columns else SchemaMode.FIXED
        self.keys = Keys.of(on, table)
        self.key_names = self.keys.names(OF_UPDATES)
        self._age = table_column(table, newest_by, "newest_by") if newest_by else None

    def require_fit(self, clauses: Clauses) -> None:
        """Refuse updates whose columns do not fit; that needs no job."""
        _ = self.with_new_values if clauses.take_all_columns else self.keyed

    def newest(self) -> DataFrame:
        """Return the updates with the newest of each key alone, where the caller says which that is."""
        if self._age is None:
            return self._rows
        keyed = self.with_age(self.keys.added_to(self._rows, OF_UPDATES), AGE)
        newest_first = Window.partitionBy(*self.key_names).orderBy(F.col(AGE).desc_nulls_last())
        newest = keyed.withColumn(FIRST, F.row_number().over(newest_first)).where(F.col(FIRST) == 1)
        return newest.drop(FIRST, AGE, *self.key_names)

    def is_newer_than(self, age_of_row: str) -> Column | None:
        """Return whether an update is newer than the row of its key, and not as old as that; ``None``: all are."""
        if self._age is None:
            return None
        row, update = F.col(age_of_row), F.col(AGE)
        return update.isNotNull() & (row.isNull() | (row < update))

    def with_age(self, rows: DataFrame, name: str) -> DataFrame:
        """Add by what the newest row of a key is known, where the caller says it, as the table has it."""
        age = self._age
        return rows if age is None else rows.withColumn(name, F.col(quoted(age.name)).cast(age.dataType))

    def has(self, name: str) -> bool:
        """Return whether the updates have a column of the table."""
        return name.lower() in map(str.lower, self._rows.columns)

    @cached_property
    def columns(self) -> StructType:
        """The table's columns, with those that it gets."""
        columns = table_schema(self._table)
        if self._mode is SchemaMode.FIXED:
            return columns
        return self._fit(self._rows.select(*map(quoted, filter(self._is_taken, self._rows.columns))), columns).schema

    @cached_property
    def keyed(self) -> DataFrame:
        """The updates with their keys, as they were given; what is compared has to fit the table's columns."""
        compared = StructType(list(dict.fromkeys([*self.keys.fields, *([self._age] if self._age else [])])))
        wanted = {name.lower() for name in compared.names}
        chosen = (quoted(name) for name in self._rows.columns if name.lower() in wanted)
        self._fit(self._rows.select(*chosen), compared, mode=SchemaMode.FIXED)
        return self.with_age(self.keys.added_to(self._rows, OF_UPDATES), AGE)

    @cached_property
    def with_new_values(self) -> DataFrame:
        """The same, and beside them what the table's columns get where an update gives them all."""
        given = {f"{GIVEN}{number}": name for number, name in enumerate(self.keyed.columns)}  # one may be there twice
        goes = next((alias for alias, name in given.items() if name == DELETES), None)
        keys = {field.name.lower() for field in self.keys.fields}

        def value(alias: str, name: str) -> Column:
            """Return what a column gets: what says that its row goes is held to no limit, but to that of its key."""
            found = F.col(alias)
            return (found if goes is None or name.lower() in keys else F.when(~F.col(goes), found)).alias(name)

        renamed = self.keyed.toDF(*given)
        renamed = renamed.select("*", *(value(alias, name) for alias, name in given.items() if self._is_taken(name)))
        columns = self.columns if goes is None else StructType([_nullable(field) for field in self.columns])
        fitted = self._fit(renamed, columns, beside=list(given))
        typed = (F.col(quoted(field.name)).cast(field.dataType).alias(f"{NEW}{field.name}") for field in self.columns)
        return fitted.rows.select(*typed, *_renamed(given))

    def _is_taken(self, name: str) -> bool:
        """Return whether a column of the updates is for the table, or has to be one of its columns."""
        is_ours = name == DELETES or name.startswith(OF_UPDATES)
        return not is_ours and (not self._takes_others or name.lower() in map(str.lower, self.columns.names))

    def _fit(
        self, updates: DataFrame, columns: StructType, beside: Sequence[str] = (), mode: SchemaMode | None = None
    ) -> FittedRows:
        """Return updates in the shape of some of the table's columns, with others beside them, or refuse them."""
        partition_columns = [column.name for column in self._table.partition_columns if column.name in columns.names]
        ordered = StructType(sorted(columns, key=lambda field: field.name in partition_columns))
        return fit(updates, ordered, str(self._table.name), partition_columns, mode or self._mode, beside)


def _nullable(field: StructField) -> StructField:
    return StructField(field.name, field.dataType, nullable=True, metadata=field.metadata)


def _renamed(aliases: Mapping[str, str]) -> list[Column]:
    return [F.col(quoted(name)).alias(alias) for name, alias in aliases.items()]
