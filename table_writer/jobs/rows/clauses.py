"""The clauses of a merge: of which rows each is, by its condition, and what becomes of them.

The first clause that holds counts. As in the standard's ``MERGE`` there are three kinds of rows: of the table with a
key of the updates, of the updates with a key that no row has, and of the table with a key that no update has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer.errors import InvalidInputError
from table_writer.jobs.rows.expressions import Expression, predicate_of, values_of
from table_writer.model.message import RowMark
from table_writer.model.table import Table
from table_writer.spark import open_gateway
from table_writer.spark.sql import SPARK_ERRORS, analyzed_now, quoted

OWN: Final = "__table_writer_own_"  # what is told of one side alone, by names that both have
CLAUSE: Final = "__table_writer_clause"  # the number of a row's clause, null if none holds


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Clause:
    """What becomes of the rows for which a condition holds."""

    mark: RowMark
    condition: Expression | None = None  # None: it holds for all
    values: Mapping[str, Expression] | None = None  # by column of the table; None: the updates' own, by name
    said_by: str = "condition"  # the parameter or the words of the caller that have the condition


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Clauses:
    """The clauses of a merge, by the kind of rows that they are of."""

    matched: Sequence[Clause] = ()  # rows of the table with a key of the updates
    missing: Sequence[Clause] = ()  # updates whose key no row has
    unmatched: Sequence[Clause] = ()  # rows of the table whose key no update has

    @property
    def all(self) -> tuple[Clause, ...]:
        """Return all clauses, in the order of their numbers."""
        return (*self.matched, *self.missing, *self.unmatched)

    @property
    def take_all_columns(self) -> bool:
        """Return whether one gives rows all columns of their update."""
        return any(clause.values is None and clause.mark in {RowMark.UPDATED, RowMark.INSERTED} for clause in self.all)

    @property
    def changes_present_rows(self) -> bool:
        """Return whether rows that the table has may be changed or deleted."""
        return bool(self.matched or self.unmatched)

    @property
    def insert_all(self) -> bool:
        """Return whether every update is inserted whose key no row has."""
        return any(clause.condition is None for clause in self.missing)


@dataclass(frozen=True, eq=False)
class Side:
    """What expressions of some clauses are resolved over: a frame without rows, with the names that a caller knows."""

    frame: DataFrame
    own: dict[str, Column] = field(default_factory=dict)
    """What is told by names that the other side has as well, and that mean this one in its clauses."""

    def with_own(self, rows: DataFrame) -> DataFrame:
        """Add that to rows of this side, before the other comes beside them."""
        return rows.select("*", *(value.alias(name) for name, value in self.own.items())) if self.own else rows


class Resolved:
    """Clauses with the expressions of Spark that they stand for, refused where they are not understood."""

    def __init__(self, clauses: Clauses, target: DataFrame, updates: DataFrame, table: Table) -> None:
        self._clauses, self._table = clauses, table
        self.target, self.updates, self._both = Side(target), Side(updates), Side(target.crossJoin(updates))
        kinds = ((clauses.matched, self._both), (clauses.missing, self.updates), (clauses.unmatched, self.target))
        numbered = [(clause, side) for chosen, side in kinds for clause in chosen]
        self._asked: list[tuple[DataFrame, Column]] = []
        self._conditions = [self._condition(clause, side) for clause, side in numbered]
        self._values = [self._values_over(clause, side) for clause, side in numbered]

    def _condition(self, clause: Clause, side: Side) -> Column | None:
        if clause.condition is None:
            return None
        found = predicate_of(side.frame, clause.condition, clause.said_by)
        if found.has_subquery:
            raise InvalidInputError(
                f"{clause.said_by}: a subquery may answer otherwise the next time it is asked, and the rows are looked"
                " at twice: join what it asks in USING, or in the updates"
            )
        return self._understood(found.or_false, side)

    def _values_over(self, clause: Clause, side: Side) -> Mapping[str, Column] | None:
        if clause.values is None:
            return None
        values = values_of(side.frame, clause.values, self._table)
        return {name: self._understood(value, side) for name, value in values.items()}

    def _understood(self, expression: Column, side: Side) -> Column:
        """Return an expression as it is understood beside the other side, too, whose columns may have its names."""
        self._asked.append((side.frame, expression))
        if side is self._both:
            return expression
        try:
            analyzed_now(self._both.frame.select(expression))
        except SPARK_ERRORS:
            name = f"{OWN}{len(self.target.own) + len(self.updates.own)}"
            side.own[name] = expression
            return F.col(name)
        return expression

    @cached_property
    def has_foreign_code(self) -> bool:
        """Whether functions of the user's own are asked, which may fail for rows of another kind."""
        return any(
            open_gateway(frame.sparkSession).analysis(frame, expression).has_foreign_code
            for frame, expression in self._asked
        )

    def number_of(
        self, *, is_named: Column, is_present: Column | None = None, is_older: Column | None = None
    ) -> Column:
        """Return the number of the first clause that holds for a row, null if none does.

        ``is_named``: an update has its key; ``is_present``: it is a row of the table, ``None``: all are;
        ``is_older``: its update may change it, ``None``: any may.
        """
        clauses, missing = self._clauses, self.number_of_missing
        matched = self._first(0, clauses.matched)
        unmatched = self._first(len(clauses.matched) + len(clauses.missing), clauses.unmatched)
        matched = matched if is_older is None else F.when(is_older, matched)
        of_present = F.when(is_named, matched).otherwise(unmatched)
        return of_present if is_present is None else F.when(is_present, of_present).otherwise(missing)

    @property
    def number_of_missing(self) -> Column:
        """The number of the first clause that holds for an update whose key no row has."""
        return self._first(len(self._clauses.matched), self._clauses.missing)

    @property
    def mark(self) -> Column:
        """What becomes of a row, by the number of its clause."""
        mark = F.lit(RowMark.KEPT)
        for position, clause in enumerate(self._clauses.all):
            mark = F.when(F.col(CLAUSE) == position, F.lit(clause.mark)).otherwise(mark)
        return mark.cast("byte")

    @property
    def is_deleted(self) -> Column:
        """Whether a row goes."""
        return self.mark == F.lit(RowMark.DELETED)

    def value(
        self, name: str, *, present: Column | None, new: Column, is_given: bool, may_insert: bool = True
    ) -> Column:
        """Return what a column of the table gets, by the number of a row's clause.

        ``present`` is what the row of the table has, ``None`` where all rows are inserted, and ``new`` what its update
        has in the column's type. A column that is not ``is_given`` by the updates stays where a row is updated.
        """
        value = F.lit(None) if present is None else present
        for position, (clause, values) in reversed([*enumerate(zip(self._clauses.all, self._values, strict=True))]):
            is_insert = clause.mark is RowMark.INSERTED
            if clause.mark is RowMark.DELETED or (not may_insert if is_insert else present is None):
                continue
            other = F.lit(None) if is_insert else present  # what a column gets that the clause does not name
            own = values.get(name, other) if values is not None else new if is_insert or is_given else other
            value = F.when(F.col(CLAUSE) == position, own).otherwise(value)
        return value

    def _first(self, begin: int, clauses: Sequence[Clause]) -> Column:
        """Return the number of the first clause that holds of some that follow each other from a number on."""
        first = F.lit(None).cast("int")
        for position in reversed(range(begin, begin + len(clauses))):
            condition = self._conditions[position]
            first = F.lit(position) if condition is None else F.when(condition, F.lit(position)).otherwise(first)
        return first


def column(names: Sequence[str], name: str) -> Column:
    """Return the column of a side by the names that qualify it."""
    return F.col(".".join(map(quoted, (*names, name))))
