"""A statement of SQL, taken apart: what it says, of which table, and how its names are resolved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import DataType

from table_writer.errors import InvalidInputError

Names = tuple[str, ...]
Assignments = tuple[tuple[Names, Column], ...]
"""Columns of the table, each as the statement names it, and their values."""
MergeAction = Literal["update", "delete", "insert"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """The table of a statement."""

    table: str  # database.table
    names: Names  # by the last of which, or by more of them, the statement may qualify its columns


@dataclass(frozen=True, kw_only=True, slots=True)
class Deletion:
    """``DELETE FROM``."""

    target: Target
    predicate: Column


@dataclass(frozen=True, kw_only=True, slots=True)
class Update:
    """``UPDATE``."""

    target: Target
    set: Assignments
    predicate: Column


@dataclass(frozen=True, kw_only=True, slots=True)
class WhenClause:
    """A ``WHEN`` of ``MERGE INTO``: what it does with rows for which its condition holds, if it has one."""

    action: MergeAction
    condition: Column | None
    values: Assignments | None  # None: of a deletion, or all columns of the table, by name


@dataclass(frozen=True, kw_only=True, slots=True)
class MergeInto:
    """``MERGE INTO``, with its clauses for each kind of rows."""

    target: Target
    source: DataFrame
    source_names: Names
    pairs: tuple[tuple[Column, Column], ...]  # that are equal in rows of one key
    matched: tuple[WhenClause, ...]
    missing: tuple[WhenClause, ...]  # not matched by the table
    unmatched: tuple[WhenClause, ...]  # not matched by the source


@dataclass(frozen=True, kw_only=True, slots=True)
class Insertion:
    """``INSERT``: rows in the table's types, with or without the columns of static partitions."""

    target: Target
    rows: DataFrame
    static: Mapping[str, str | None]  # the values of partition columns that the statement says
    is_overwrite: bool
    keeps_others: bool  # an overwrite of dynamic partitions leaves those alone that no row is of


Statement = Deletion | Update | MergeInto | Insertion


def refused(clause: str, advice: str) -> InvalidInputError:
    """Return the error for a clause that no call does."""
    return InvalidInputError(f"{clause}: sql() does not take this; {advice}. Nothing was done.")


class Statements(Protocol):
    """What a session knows of statements; nothing of them is run."""

    def parsed(self, sql: str) -> Statement:
        """Return the parts of a statement; ``InvalidInputError`` names what is not understood of it."""

    def named(self, rows: DataFrame, names: Sequence[str]) -> DataFrame:
        """Return rows whose columns may be qualified by the last of the names, or by several of them."""

    def column_named(self, frame: DataFrame, column: Column) -> tuple[Names, str] | None:
        """Return the names and the column of a frame for which an expression stands; ``None`` if it is more than that.

        Raises one of ``SPARK_ERRORS`` for a column that there is not, or that is ambiguous.
        """

    def stored(self, frame: DataFrame, value: Column, kind: DataType) -> Column:
        """Return a value as Spark stores it in a column of a type: what does not fit at all stays as it is.

        A number that the type does not hold ends the job, as in Spark's ``INSERT``.
        """
