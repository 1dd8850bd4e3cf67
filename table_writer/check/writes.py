"""Checks of a whole write: its rows, partitions, age and schema, and whatever a user's own function looks at."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from itertools import zip_longest
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import DateType, StructField, StructType, TimestampNTZType, TimestampType

from table_writer.check.check import (
    FUNCTION,
    METADATA,
    SPARK,
    Check,
    CountIf,
    Facts,
    Question,
    QuestionOfAggregates,
    QuestionOfWrite,
    Target,
    declared_type,
    enumeration,
    shortened_text,
    value_text,
)
from table_writer.check.rows import analyzed_condition
from table_writer.errors import InvalidInputError, counted, printable
from table_writer.model.check_result import CheckResult
from table_writer.model.partition_value import canonical
from table_writer.model.table import NULL_PARTITION, partition_name, unescape
from table_writer.model.write import WrittenPartition
from table_writer.spark.conditions import is_settled
from table_writer.spark.sql import SPARK_ERRORS, error_in_data, quoted, spark_reason
from table_writer.spark.types import shown_type, type_of_ddl

LISTED: Final = 10
PARTITION_NUMBER: Final = "__table_writer_partition"  # column of the frame of partitions: the position of one
PartitionKey = frozenset[tuple[str, str]]
"""Columns in lower case, each with a value as it is usually spelled: a partition, or what several have in common."""

COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
LONGEST_MESSAGE: Final = 300
LONGEST_TEXT: Final = 4_000  # characters of an error that are shown, but not stored
now_utc: Final = partial(datetime.now, UTC)  # by the clock of the driver


def row_count(check: Check, _: Target, *, low: int | None, high: int | None) -> Question:

    def judge(facts: Facts) -> CheckResult:
        found = counted(facts.rows, "row")
        if low is not None and facts.rows < low:
            return check.failure(f"{found}, fewer than {low:,}", by=METADATA)
        if high is not None and facts.rows > high:
            return check.failure(f"{found}, more than {high:,}", by=METADATA)
        return check.success(found, METADATA)

    return QuestionOfWrite(check=check, judge=judge)


def row_count_change(check: Check, _: Target, *, low: float | None, high: float | None) -> Question:

    def judge(facts: Facts) -> CheckResult:
        before = facts.replaced_rows
        replacing = f"{counted(facts.rows, 'row')} {'replaces' if facts.rows == 1 else 'replace'}"
        if before == 0:
            return check.success(f"{replacing} no rows", METADATA)
        found = f"{replacing} {before:,}, {facts.rows / before:.4g} times as many"
        if low is not None and facts.rows < low * before:
            return check.failure(f"{found}; at least {low:g} times are wanted", by=METADATA)
        if high is not None and facts.rows > high * before:
            return check.failure(f"{found}; at most {high:g} times are wanted", by=METADATA)
        return check.success(found, METADATA)

    return QuestionOfWrite(check=check, judge=judge)


def fresh(
    check: Check, target: Target, *, name: str, within: timedelta, clock: Callable[[], datetime] = now_utc
) -> Question:
    column = target.column(name)
    if not isinstance(column.kind, (DateType, TimestampType, TimestampNTZType)):
        raise check.misfit(
            f"{column.display_name} is {shown_type(column.kind)}, neither a date nor a timestamp; for a text write"
            f" expression(\"max(to_date({column.display_name})) >= current_date() - INTERVAL '1' DAY\")"
        )
    return _Age(check=check, columns=(column,), within=within, now=clock())


@dataclass(frozen=True, kw_only=True, eq=False)
class _Age(Question):
    """A date is all of its day in UTC, a time without a zone is in UTC."""

    within: timedelta
    now: datetime

    @property
    def oldest(self) -> datetime:
        try:
            return self.now - self.within
        except OverflowError:  # longer than there have been years
            return datetime.min.replace(tzinfo=UTC)

    def result_without_read(self, facts: Facts) -> CheckResult | None:
        found = facts.statistics(self.columns[0])
        if facts.rows in (0, found.null_count):
            return self._of_newest("", is_fresh=False, facts=facts, by=METADATA)
        newest = found.high
        if isinstance(newest, datetime):
            moment = newest if newest.tzinfo is not None else newest.replace(tzinfo=UTC)
            text, is_fresh = f"{moment:%Y-%m-%d %H:%M:%S} UTC", moment >= self.oldest
        elif isinstance(newest, date):
            text, is_fresh = newest.isoformat(), newest >= self.oldest.date()
        else:
            return None
        return self._of_newest(text, is_fresh=is_fresh, facts=facts, by=METADATA)

    def measures(self, flag: Column, count_if: CountIf) -> Sequence[Column]:  # noqa: ARG002
        """Compare in Spark: its years go further than Python's."""
        [column] = self.columns
        newest, oldest = F.max(column.value), self.oldest
        if isinstance(column.kind, DateType):
            return [newest.cast("string"), newest >= F.lit(oldest.date().isoformat()).cast(DateType())]
        if isinstance(column.kind, TimestampNTZType):
            moment = F.lit(oldest.replace(tzinfo=None).isoformat(" ")).cast(TimestampNTZType())
            return [F.concat(newest.cast("string"), F.lit(" UTC")), newest >= moment]
        text = F.to_utc_timestamp(newest, F.current_timezone()).cast("string")
        return [F.concat(text, F.lit(" UTC")), newest >= F.lit(oldest.isoformat(" ")).cast(TimestampType())]

    def result_of(self, measured: Sequence[Any], facts: Facts) -> CheckResult:
        return self._of_newest(measured[0] or "", is_fresh=bool(measured[1]), facts=facts, by=SPARK)

    def _of_newest(self, newest: str, *, is_fresh: bool, facts: Facts, by: str) -> CheckResult:
        """Judge by the newest value; there may be none."""
        [column] = self.columns
        if not newest:
            return self.check.failure(f"no {column.display_name} in {counted(facts.rows, 'row')}", by=by)
        asked = f"at {self.now:%Y-%m-%d %H:%M:%S} UTC"
        if is_fresh:
            return self.check.success(f"the newest {column.display_name} is {newest}, {asked}", by)
        longest = str(self.within).removesuffix(", 0:00:00")  # "1 day"
        return self.check.failure(f"the newest {column.display_name} is {newest}, older than {longest} {asked}", by=by)


def has_schema(check: Check, _: Target, *, expected: StructType | str) -> Question:
    try:
        schema = type_of_ddl(expected) if isinstance(expected, str) else expected
    except SPARK_ERRORS as error:
        raise check.misfit(f"{value_text(expected)} is no schema in DDL: {spark_reason(error)}") from error
    if not isinstance(schema, StructType):
        raise check.misfit(f"{value_text(expected)} is a type, not a schema: write 'name type, name type'")

    def judge(facts: Facts) -> CheckResult:
        pairs = enumerate(zip_longest(schema, facts.target.schema), 1)
        differences = [text for at, pair in pairs if (text := _difference(facts.target, at, *pair))]
        if differences:
            return check.failure(f"the schema is another: {enumeration(differences, LISTED)}", by=METADATA)
        return check.success(f"{counted(len(schema), 'column')}, as expected", METADATA)

    return QuestionOfWrite(check=check, judge=judge)


def _difference(target: Target, position: int, expected: StructField | None, found: StructField | None) -> str:
    if found is None:
        return f"column {position} ({_column(expected)}) is missing"
    if expected is None:
        return f"column {position} ({_column(found)}) is not expected"
    is_same = target.is_same_name(expected.name, found.name) and target.is_same_name(
        declared_type(expected), declared_type(found)
    )
    return "" if is_same else f"column {position} is {_column(found)}, not {_column(expected)}"


def _column(field: StructField | None) -> str:
    return printable(f"{field.name} {declared_type(field)}") if field else ""


def function_check(check: Check, _: Target, *, function: Callable[[DataFrame], Any]) -> Question:

    def judge(facts: Facts) -> CheckResult:
        frame = facts.frame  # a failure to open it is none of the function's
        try:
            found = function(frame)
        except Exception as error:  # noqa: BLE001  # whatever it raises is its answer
            return _result_of_error(check, error)
        if found is None or _is_truth(found, value=True):
            return check.success("the function found nothing wrong", FUNCTION)
        if _is_truth(found, value=False):
            return check.failure("the function returned False", by=FUNCTION)
        answer = f"the function returned {type(found).__name__}"
        return check.failure(f"{answer}; a check returns True, False or None, or raises an error", by=FUNCTION)

    return QuestionOfWrite(check=check, judge=judge)


def _result_of_error(check: Check, error: Exception) -> CheckResult:
    """Say the first line; the whole text may show rows, so it is an example, which is never stored."""
    text = COLOURS.sub("", _said_by(error)).strip()
    lines = [line.strip() for line in text.splitlines() if re.search(r"\w", line)]
    kind = type(error).__name__
    of_data = error_in_data(error)  # Spark's sentences hold values of rows
    first = of_data.kind if of_data else shortened_text(lines[0], LONGEST_MESSAGE) if lines else ""
    examples = [{kind: shortened_text(text, LONGEST_TEXT)}] if text not in {first, ""} else []
    prefix = "" if isinstance(error, AssertionError) and first else kind
    return check.failure(printable(": ".join(filter(None, (prefix, first)))), by=FUNCTION, examples=examples)


def function_name(function: Callable[..., Any]) -> str:
    """Return the name of a callable; a lambda has no name of its own."""
    while isinstance(function, partial):
        function = function.func
    name = str(getattr(function, "__name__", type(function).__name__))
    return "lambda" if name == "<lambda>" else name


def _said_by(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # one that cannot even say what it is
        return ""


def _is_truth(found: object, *, value: bool) -> bool:
    """Return whether a function said yes, or no; numpy's booleans are none of Python's."""
    is_numpy = type(found).__module__ == "numpy" and type(found).__name__ in {"bool", "bool_"}
    return (isinstance(found, bool) or is_numpy) and bool(found) is value


def expected_partitions(check: Check, target: Target, *, names: Sequence[object]) -> Question:
    wanted = _wanted_keys(names, target, check)

    def judge(facts: Facts) -> CheckResult:
        found = {name for name, _ in _selected_keys(wanted, _partitions_with_rows(facts, check))}
        missing = [
            _given_name(name) for name, wanted_name in zip(names, wanted, strict=True) if wanted_name not in found
        ]
        if missing:
            no_rows = f"{len(missing):,} of {len(wanted):,} expected partitions have no rows"
            return check.failure(f"{no_rows}: {enumeration(missing, LISTED)}", by=METADATA)
        return check.success(f"{len(wanted):,} of {len(wanted):,} expected partitions have rows", METADATA)

    return QuestionOfWrite(check=check, judge=judge)


def only_partitions(check: Check, target: Target, *, names: Sequence[object]) -> Question:
    wanted = _wanted_keys(names, target, check)

    def judge(facts: Facts) -> CheckResult:
        staged = _partitions_with_rows(facts, check)
        selected = {partition_name for _, partition_name in _selected_keys(wanted, staged)}
        return _without_others(
            check, facts, [partition for named, partition in staged.items() if named not in selected], METADATA
        )

    return QuestionOfWrite(check=check, judge=judge)


def only_where(check: Check, target: Target, *, where: str) -> Question:
    """No partition has rows but those that a predicate selects; null selects none, as in a query."""
    own = _partition_types(target, check)
    columns, found = analyzed_condition(where, target, check)
    is_outside = any(column.top.lower() not in own for column in columns)
    if is_outside or found.is_aggregate or not found.is_repeatable:
        raise check.misfit(
            f"where={value_text(where)} is to tell partitions of {target.table} by {', '.join(own)} alone,"
            " without aggregates, windows, subqueries and functions that answer otherwise each time"
        )
    if is_settled(target.empty.select(*(F.col(quoted(column.top)) for column in columns)), where):
        raise check.misfit(f"where={value_text(where)} answers alike for every partition of {target.table}")
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


def _wanted_keys(names: Sequence[object], target: Target, check: Check) -> list[PartitionKey]:
    kinds = _partition_types(target, check)
    return [_key_of_name(name, target, kinds) for name in names]


def _partitions_with_rows(facts: Facts, check: Check) -> dict[PartitionKey, WrittenPartition]:
    kinds = _partition_types(facts.target, check)
    some = (partition for partition in facts.audit.partitions if partition.rows)
    return {
        _partition_key(dict(zip(kinds, partition.values, strict=True)), facts.target, kinds): partition
        for partition in some
    }


def _partition_types(target: Target, check: Check) -> Mapping[str, str]:
    """Return types by name in lower case; where partition columns are not known yet, of all columns."""
    names = target.schema.names if target.partition_columns is None else target.partition_columns
    if not names:
        raise check.misfit(f"{target.table} is not partitioned")
    kinds = {field.name.lower(): declared_type(field) for field in target.schema}
    return {name.lower(): kinds[name.lower()] for name in names}


def _selected_keys(
    wanted: Iterable[PartitionKey], staged: Collection[PartitionKey]
) -> Iterator[tuple[PartitionKey, PartitionKey]]:
    """Yield each name with the partitions it selects; one of all columns is looked up, others are compared."""
    columns = max(map(len, staged), default=0)
    for name in wanted:
        if name in staged:
            yield name, name
        elif len(name) < columns:
            yield from ((name, partition_name) for partition_name in staged if name <= partition_name)


def _key_of_name(given: object, target: Target, kinds: Mapping[str, str]) -> PartitionKey:
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
            f"{value_text(given)} names no partition of {target.table}, which is partitioned by {', '.join(kinds)}:"
            ' write "column=value/column=value" or {"column": value}',
            table=target.table,
        )
    return _partition_key({name: _value_as_text(value, kinds[name]) for name, value in texts.items()}, target, kinds)


def _value_as_text(value: object, kind: str) -> str:
    if value is None or value == "":
        return NULL_PARTITION
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime) and kind == "date":  # as pandas has dates; another time of a day is no date
        return value.date().isoformat() if value.time() == time() else repr(value)
    return str(value)


def _partition_key(values: Mapping[str, str], target: Target, kinds: Mapping[str, str]) -> PartitionKey:
    """Spell values as all spellings of them have in common; what is no value of its type is only itself."""
    types = [kinds[name] for name in values]
    usual = canonical(tuple(values.values()), types, target.time_zone)
    found = (
        text if spelling == NULL_PARTITION else spelling for text, spelling in zip(values.values(), usual, strict=True)
    )
    return frozenset(zip(values, found, strict=True))


def _given_name(name: object) -> str:
    pairs = name.items() if isinstance(name, Mapping) else ()
    return printable("/".join(f"{column}={value}" for column, value in pairs) or str(name))


def _without_others(check: Check, facts: Facts, others: Sequence[WrittenPartition], by: str) -> CheckResult:
    if not others:
        return check.success(f"none of {counted(len(facts.audit.partitions), 'partition')} is unexpected", by)
    rows = sum(partition.rows for partition in others)
    names = (printable(partition_name(facts.names, partition.values)) for partition in others)
    texts = [["null" if text == NULL_PARTITION else text for text in partition.values] for partition in others]
    return check.failure(
        f"{counted(rows, 'row')} in {counted(len(others), 'unexpected partition')}: {enumeration(names, LISTED)}",
        rows,
        by=by,
        examples=[dict(zip(facts.names, values, strict=True)) for values in texts],
    )
