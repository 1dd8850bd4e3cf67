"""Which partitions get rows; judged by their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer.check.check import METADATA, SPARK, Check, CountIf, Facts, Question
from table_writer.check.columns import (
    PartitionKey,
    Target,
    comparable,
    counted,
    declared_type,
    listed,
    partition_key,
    row_count_text,
    shown,
)
from table_writer.check.sql import analyze
from table_writer.errors import printable
from table_writer.model.check_result import CheckResult
from table_writer.model.table import NULL_PARTITION, PartitionValues, partition_name

__all__ = ["ExpectedPartitions", "OnlyPartitions", "OnlyWhere"]

LISTED = 10


def _partition_columns(target: Target, check: Check) -> Mapping[str, str]:
    """Return types by name in lower case; where partition columns are not known yet, of all columns."""
    names = target.schema.names if target.partition_columns is None else target.partition_columns
    if not names:
        raise check.wrong(f"{target.table} is not partitioned")
    kinds = {field.name.lower(): declared_type(field) for field in target.schema}
    return {name.lower(): kinds[name.lower()] for name in names}


@dataclass(frozen=True, kw_only=True)
class _Named(Check):
    names: tuple[object, ...]

    def keys(self, target: Target) -> tuple[PartitionKey, ...]:
        columns = _partition_columns(target, self)
        return tuple(partition_key(name, target, columns) for name in self.names)


class ExpectedPartitions(_Named):
    """Each of some partitions has rows."""

    def bind(self, target: Target) -> Question:
        """Read the names."""
        return _Expected(check=self, wanted=self.keys(target), names=self.names)


class OnlyPartitions(_Named):
    """No other partition has rows."""

    def bind(self, target: Target) -> Question:
        """Read the names."""
        return _Only(check=self, wanted=self.keys(target))


@dataclass(frozen=True, kw_only=True)
class _ByName(Question):
    wanted: tuple[PartitionKey, ...]

    def staged(self, facts: Facts) -> list[tuple[PartitionValues, int, PartitionKey]]:
        """Return the partitions that have rows, also with their values as :func:`partition_key` reads them."""
        kinds, zone = _partition_columns(facts.target, self.check), facts.target.time_zone
        return [
            (
                one.values,
                one.rows,
                {name: comparable(text, kinds[name], zone) for name, text in zip(kinds, one.values, strict=True)},
            )
            for one in facts.audit.partitions
            if one.rows
        ]


@dataclass(frozen=True, kw_only=True)
class _Expected(_ByName):
    names: tuple[object, ...]

    def known(self, facts: Facts) -> CheckResult:
        staged = self.staged(facts)
        wholes = {frozenset(key.items()) for _, _, key in staged}
        missing = [
            _shown_name(name)
            for name, wanted in zip(self.names, self.wanted, strict=True)
            if frozenset(wanted.items()) not in wholes
            and not any(wanted.items() <= key.items() for _, _, key in staged if len(wanted) < len(key))
        ]
        if missing:
            return self.failed(
                f"{len(missing):,} of {len(self.wanted):,} expected partitions have no rows: {listed(missing, LISTED)}",
                by=METADATA,
            )
        return self.passed(f"{len(self.wanted):,} of {len(self.wanted):,} expected partitions have rows", METADATA)


class _Only(_ByName):
    def known(self, facts: Facts) -> CheckResult:
        wholes = {frozenset(wanted.items()) for wanted in self.wanted}
        others = [
            (values, rows)
            for values, rows, key in self.staged(facts)
            if frozenset(key.items()) not in wholes
            and not any(wanted.items() <= key.items() for wanted in self.wanted if len(wanted) < len(key))
        ]
        return _without_others(self, facts, others, METADATA)


@dataclass(frozen=True, kw_only=True)
class OnlyWhere(Check):
    """No partition but those that a predicate selects has rows."""

    where: str

    def bind(self, target: Target) -> Question:
        """Let Spark analyze the predicate."""
        columns = _partition_columns(target, self)
        found = analyze(self.where, target, self)
        outside = [place.shown for place in found.places if place.top.lower() not in columns]
        if outside or found.is_aggregate or not found.is_repeatable:
            raise self.wrong(
                f"where={shown(self.where)} is to tell partitions of {target.table} by {', '.join(columns)} alone,"
                " without aggregates, windows, subqueries and functions that answer otherwise each time"
            )
        return _Where(check=self, places=found.places, where=self.where)


@dataclass(frozen=True, kw_only=True)
class _Where(Question):
    """What is not selected is wrong, and so is what the predicate is null for, as in a query."""

    where: str

    @property
    def is_local(self) -> bool:
        return True

    def failing(self, label: str) -> Column | None:  # noqa: ARG002
        return ~F.coalesce(F.expr(self.where), F.lit(False))

    def measures(self, flag: Column, count_if: CountIf) -> Sequence[Column]:  # noqa: ARG002
        return [F.collect_list(F.when(flag, F.col(PARTITION_NUMBER)))]

    def judged(self, measured: Sequence[Any], facts: Facts) -> CheckResult:
        numbers = sorted(measured[0])
        others = [(facts.audit.partitions[number].values, facts.audit.partitions[number].rows) for number in numbers]
        return _without_others(self, facts, others, SPARK)


PARTITION_NUMBER = "__table_writer_partition"
"""Column of the frame of partitions: the position of one."""


def _without_others(
    question: Question, facts: Facts, others: Sequence[tuple[PartitionValues, int]], by: str
) -> CheckResult:
    """Judge by the partitions that should not have rows."""
    if not others:
        return question.passed(f"none of {counted(len(facts.audit.partitions), 'partition')} is unexpected", by)
    columns = [column.name for column in facts.audit.partition_columns]
    rows = sum(count for _, count in others)
    names = (printable(partition_name(columns, values)) for values, _ in others)
    return question.failed(
        f"{row_count_text(rows)} in {counted(len(others), 'unexpected partition')}: {listed(names, LISTED)}",
        rows,
        by=by,
        examples=[
            dict(zip(columns, ("null" if text == NULL_PARTITION else text for text in values), strict=True))
            for values, _ in others
        ],
    )


def _shown_name(name: object) -> str:
    if isinstance(name, Mapping):
        return printable("/".join(f"{column}={value}" for column, value in name.items()))
    return printable(str(name))
