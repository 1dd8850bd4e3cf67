"""Checks of which partitions get rows, judged by the names of partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, time
from typing import Any, Final

from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer.check.check import METADATA, SPARK, Check, Facts, Question, QuestionOfAggregates, QuestionOfWrite
from table_writer.check.columns import Target, declared_type, listed, shown
from table_writer.check.rows import analyzed_condition
from table_writer.errors import InvalidInputError, counted, printable
from table_writer.model.check_result import CheckResult
from table_writer.model.partition_value import canonical
from table_writer.model.table import NULL_PARTITION, partition_name, unescape
from table_writer.model.write import WrittenPartition

LISTED: Final = 10
PARTITION_NUMBER: Final = "__table_writer_partition"  # column of the frame of partitions: the position of one
Named = frozenset[tuple[str, str]]
"""Columns in lower case, each with a value as it is usually spelled: a partition, or what several have in common."""


def expected_partitions(check: Check, target: Target, *, names: Sequence[object]) -> Question:
    """Each of some partitions has rows."""
    wanted = _wanted(names, target, check)

    def judge(facts: Facts) -> CheckResult:
        found = {one for one, _ in _selected(wanted, _with_rows(facts, check))}
        missing = [_given_name(name) for name, one in zip(names, wanted, strict=True) if one not in found]
        if missing:
            no_rows = f"{len(missing):,} of {len(wanted):,} expected partitions have no rows"
            return check.failed(f"{no_rows}: {listed(missing, LISTED)}", by=METADATA)
        return check.passed(f"{len(wanted):,} of {len(wanted):,} expected partitions have rows", METADATA)

    return QuestionOfWrite(check=check, judge=judge)


def only_partitions(check: Check, target: Target, *, names: Sequence[object]) -> Question:
    """No other partition has rows."""
    wanted = _wanted(names, target, check)

    def judge(facts: Facts) -> CheckResult:
        staged = _with_rows(facts, check)
        selected = {one for _, one in _selected(wanted, staged)}
        return _without_others(check, facts, [one for named, one in staged.items() if named not in selected], METADATA)

    return QuestionOfWrite(check=check, judge=judge)


def only_where(check: Check, target: Target, *, where: str) -> Question:
    """No partition has rows but those that a predicate selects; null selects none, as in a query."""
    own = _partition_types(target, check)
    columns, found = analyzed_condition(where, target, check)
    is_outside = any(column.top.lower() not in own for column in columns)
    if is_outside or found.is_aggregate or not found.is_repeatable:
        raise check.refused(
            f"where={shown(where)} is to tell partitions of {target.table} by {', '.join(own)} alone,"
            " without aggregates, windows, subqueries and functions that answer otherwise each time"
        )
    is_other = ~F.coalesce(F.expr(where), F.lit(False))

    def judge(measured: Sequence[Any], facts: Facts) -> CheckResult:
        others = [facts.audit.partitions[number] for number in sorted(measured[0])]
        return _without_others(check, facts, others, SPARK)

    return QuestionOfAggregates(
        check=check,
        columns=columns,
        aggregates=(F.collect_list(F.when(is_other, F.col(PARTITION_NUMBER))),),
        judge=judge,
        of_partitions=True,
    )


def _wanted(names: Sequence[object], target: Target, check: Check) -> list[Named]:
    kinds = _partition_types(target, check)
    return [_named(name, target, kinds) for name in names]


def _with_rows(facts: Facts, check: Check) -> dict[Named, WrittenPartition]:
    """Return the partitions that have rows."""
    kinds = _partition_types(facts.target, check)
    some = (one for one in facts.audit.partitions if one.rows)
    return {_spelled(dict(zip(kinds, one.values, strict=True)), facts.target, kinds): one for one in some}


def _partition_types(target: Target, check: Check) -> Mapping[str, str]:
    """Return types by name in lower case; where partition columns are not known yet, of all columns."""
    names = target.schema.names if target.partition_columns is None else target.partition_columns
    if not names:
        raise check.refused(f"{target.table} is not partitioned")
    kinds = {field.name.lower(): declared_type(field) for field in target.schema}
    return {name.lower(): kinds[name.lower()] for name in names}


def _selected(wanted: Iterable[Named], staged: Collection[Named]) -> Iterator[tuple[Named, Named]]:
    """Yield each name with the partitions it selects; one of all columns is looked up, others are compared."""
    columns = max(map(len, staged), default=0)
    for name in wanted:
        if name in staged:
            yield name, name
        elif len(name) < columns:
            yield from ((name, one) for one in staged if name <= one)


def _named(given: object, target: Target, kinds: Mapping[str, str]) -> Named:
    """Read what a user names partitions by: ``dt=2024-01-01/country=de`` or ``{"dt": "2024-01-01"}``."""
    pairs: list[tuple[object, object]] = []
    if isinstance(given, str):
        parts = [part.partition("=") for part in given.strip("/").split("/")]
        pairs = [(unescape(name), unescape(value)) for name, _, value in parts] if all(e for _, e, _ in parts) else []
    elif isinstance(given, Mapping):
        pairs = list(given.items())
    texts = {str(name).lower(): value for name, value in pairs}
    if not pairs or len(texts) < len(pairs) or not set(texts) <= set(kinds):
        raise InvalidInputError(
            f"{shown(given)} names no partition of {target.table}, which is partitioned by {', '.join(kinds)}:"
            ' write "column=value/column=value" or {"column": value}',
            table=target.table,
        )
    return _spelled({name: _text(value, kinds[name]) for name, value in texts.items()}, target, kinds)


def _text(value: object, kind: str) -> str:
    if value is None or value == "":
        return NULL_PARTITION
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime) and kind == "date":  # as pandas has dates; another time of a day is no date
        return value.date().isoformat() if value.time() == time() else repr(value)
    return str(value)


def _spelled(values: Mapping[str, str], target: Target, kinds: Mapping[str, str]) -> Named:
    """Spell values as all spellings of them have in common; what is no value of its type is only itself."""
    types = [kinds[name] for name in values]
    usual = canonical(tuple(values.values()), types, target.time_zone)
    found = (text if one == NULL_PARTITION else one for text, one in zip(values.values(), usual, strict=True))
    return frozenset(zip(values, found, strict=True))


def _given_name(name: object) -> str:
    pairs = name.items() if isinstance(name, Mapping) else ()
    return printable("/".join(f"{column}={value}" for column, value in pairs) or str(name))


def _without_others(check: Check, facts: Facts, others: Sequence[WrittenPartition], by: str) -> CheckResult:
    """Judge by the partitions that should not have rows."""
    if not others:
        return check.passed(f"none of {counted(len(facts.audit.partitions), 'partition')} is unexpected", by)
    rows = sum(one.rows for one in others)
    names = (printable(partition_name(facts.names, one.values)) for one in others)
    texts = [["null" if text == NULL_PARTITION else text for text in one.values] for one in others]
    return check.failed(
        f"{counted(rows, 'row')} in {counted(len(others), 'unexpected partition')}: {listed(names, LISTED)}",
        rows,
        by=by,
        examples=[dict(zip(facts.names, one, strict=True)) for one in texts],
    )
