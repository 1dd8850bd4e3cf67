"""Step 4: run the checks of a staged write, by one aggregate query of all that need one, and one for examples."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import or_
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from table_writer.check import functions
from table_writer.check.check import SPARK, Audit, Check, CountIf, Facts, Question, Target, shortened_text, value_text
from table_writer.check.keys import KeyQuestion
from table_writer.check.rows import RowQuestion, unfit, unreadable
from table_writer.check.writes import PARTITION_NUMBER, function_name
from table_writer.errors import CheckFailedError, InvalidInputError, counted, printable
from table_writer.model.check_result import CheckResult
from table_writer.model.table import NULL_PARTITION
from table_writer.model.table import Column as TableColumn
from table_writer.spark.sql import SPARK_ERRORS, balanced_tree, error_in_data, fetched, quoted, spark_reason, text_of
from table_writer.spark.types import cast_sql

_logger = logging.getLogger(__name__)
PREFIX: Final = "__table_writer_check"
PARTITION_ROWS: Final = "__table_writer_rows"
NUMBER, RANK, ORDER, POSITION, ROWS, KEYS = (f"__table_writer_{name}" for name in ("n", "k", "o", "p", "rows", "keys"))
LONGEST_REASON: Final = 500
LONGEST_VALUE: Final = 256  # characters of a value; cut in Spark, so that the driver never sees a long one
Questions = Mapping[int, Question]  # questions by the position of their checks in the call
LONGEST_CELL: Final = 32
LONGEST_LINE: Final = 120
LONGEST_SENTENCE: Final = 500
BORDER: Final = "  "


def as_checks(given: Iterable[object]) -> tuple[Check, ...]:
    """Return checks, no two of one name; a bare callable becomes one, with a name of its own."""
    items = list(given)
    taken = {item.name for item in items if isinstance(item, Check)}
    checks: list[Check] = []
    for item in items:
        check = item if isinstance(item, Check) else _check_of_callable(item, taken)
        taken.add(check.name)
        checks.append(check)
    names = [check.name for check in checks]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"two checks have the name {twice!r}: give one of them another, name=…")
    return tuple(checks)


def _check_of_callable(given: object, taken: Collection[str]) -> Check:
    if not callable(given):
        raise InvalidInputError(f"{value_text(given)} is no check: use those of table_writer.check, or a callable")
    if getattr(given, "__module__", "") == functions.__name__:
        raise InvalidInputError(f"{function_name(given)} is what makes a check: call it, with its columns")
    name, number = function_name(given), 1
    while (unique := name if number == 1 else f"{name} {number}") in taken:
        number += 1
    return functions.function_check(given, name=unique)


def require_valid(
    checks: Sequence[Check],
    spark: SparkSession,
    schema: StructType,
    table: str,
    partition_columns: Sequence[TableColumn] | None = None,
) -> None:
    """Refuse checks that do not fit a table, before a byte is written. No Spark job is run.

    The schema has data columns, then partition columns; ``partition_columns`` is ``None`` where they are not known:
    partitions may then be named by any column.
    """
    names = None if partition_columns is None else tuple(column.name for column in partition_columns)
    target = Target(spark=spark, table=table, schema=schema, partition_columns=names)
    bound = [check.bind(target) for check in checks]
    given = [
        (question.check, value) for question in bound if isinstance(question, RowQuestion) for value in question.given
    ]
    wrong = unreadable((value for _, value in given), spark)
    for check, value in given:
        if value in wrong:
            raise check.misfit(unfit(value.given, value.column).message, table)


def run_checks(checks: Sequence[Check], audit: Audit) -> tuple[CheckResult, ...]:
    """Run all checks, in their order; none that fails keeps another from running.

    What metadata answers exactly costs no read. All the rest is one aggregate query; only if something failed, one more
    fetches example rows. :func:`require_valid` has found nothing wrong with the checks. One of SPARK_ERRORS means that
    the staged files could not be read, or that Spark failed otherwise than by the data.
    """
    facts = Facts(audit)
    questions = {number: check.bind(facts.target) for number, check in enumerate(checks)}
    known = {number: question.result_without_read(facts) for number, question in questions.items()}
    found = {number: result for number, result in known.items() if result is not None}
    found |= results_of_queries(
        {number: question for number, question in questions.items() if number not in found}, facts
    )
    failed = {number: result for number, result in found.items() if result.failed_rows and not result.examples}
    wanted = {at: result for at, result in failed.items() if audit.examples or isinstance(questions[at], KeyQuestion)}
    found |= with_examples(wanted, questions, facts) if wanted else {}
    return tuple(replace(found[number], examples=found[number].examples[: audit.examples]) for number in questions)


def require_passed(results: tuple[CheckResult, ...], table: str, write_id: str) -> None:
    """Raise ``CheckFailedError``, with example rows, if a check of severity ``"error"`` failed."""
    if any(result.stops for result in results):
        text = failure_text(results, table, write_id)
        raise CheckFailedError(text, table=table, write_id=write_id, results=results)


def failure_text(results: Sequence[CheckResult], table: str, write_id: str) -> str:
    """Say which checks failed, and show some of the rows."""
    failed = sorted((result for result in results if not result.passed), key=lambda result: not result.stops)
    lines = [line for result in failed for line in _lines(result)]
    every = counted(len(results), "check")
    return "\n".join(
        [
            f"{len(failed)} of {every} of write {write_id} failed; nothing was published to {table}:",
            *lines,
            'Correct the data and write again. A check of severity="warn" lets a write pass.',
        ]
    )


def _lines(result: CheckResult) -> Iterator[str]:
    warning = "" if result.stops else " (warning)"
    yield f"{BORDER}{printable(result.name)}{warning}: {printable(shortened_text(result.message, LONGEST_SENTENCE))}"
    if result.failed_rows is None:  # not about rows: texts of errors
        texts = (text for example in result.examples for text in example.values())
        yield from (f"{BORDER * 3}{printable(line)}" for text in texts for line in text.splitlines())
        return
    several = {frozenset(example) for example in result.examples}
    for names in sorted(several, key=sorted):
        rows = [example for example in result.examples if frozenset(example) == names]
        yield from (f"{BORDER * 3}{line}" for line in _table(rows))


def _table(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Align rows of the same columns; those that a line has no room for are counted."""
    names = list(rows[0])
    cells = [[_cell(name) for name in names], *([_cell(row[name]) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    fitting = max(1, sum(sum(widths[: at + 1]) + 2 * at <= LONGEST_LINE for at in range(len(widths))))
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line[:fitting], widths, strict=False)).rstrip()
        for line in cells
    ]
    hidden = len(names) - fitting
    return [*lines, f"… and {hidden:,} more columns"] if hidden else lines


def _cell(text: str) -> str:
    return shortened_text(printable(shortened_text(text, LONGEST_CELL)), LONGEST_CELL)


def results_of_queries(questions: Questions, facts: Facts) -> dict[int, CheckResult]:
    """Judge checks by what Spark counts: those of partition columns alone over the partitions, the rest in one query.

    An error that the data cause in one check (a cast, a division, a user's function) is the failure of that check;
    others of SPARK_ERRORS are raised: the files cannot be read, or Spark is in trouble.
    """
    local = {number: question for number, question in questions.items() if question.is_local}
    others = {number: question for number, question in questions.items() if not question.is_local}
    found = _results_of_query(local, _partition_frame(facts), facts, _rows_if) if local else {}
    return found | (_results_of_query(others, facts.frame, facts, _count_if) if others else {})


def _results_of_query(
    questions: Questions, frame: DataFrame, facts: Facts, count_if: CountIf
) -> dict[int, CheckResult]:
    try:
        [row] = fetched(_measures(questions, frame, facts, count_if))
    except SPARK_ERRORS as error:
        found = error_in_data(error)
        if found is None:
            raise
        if len(questions) == 1:
            [(number, question)] = questions.items()
            why = {"error": shortened_text(found.text, LONGEST_REASON)}  # may hold values of a row, so it is an example
            return {number: question.check.failure(f"could not be judged: {printable(found.kind)}", examples=[why])}
        _logger.info("checks of %s failed together, and are run one by one: %s", facts.audit.write_id, found.kind)
        alone = (
            _results_of_query({number: question}, frame, facts, count_if) for number, question in questions.items()
        )
        return {number: result for results in alone for number, result in results.items()}
    return {
        number: question.result_of([row[name] for name in row.asDict() if name.startswith(f"{_flag(number)}_")], facts)
        for number, question in questions.items()
    }


def _flag(number: int) -> str:
    return f"{PREFIX}_{number}"


def _with_flags(questions: Questions, frame: DataFrame, facts: Facts) -> DataFrame:
    """Add a column for each check that judges rows, and what it joins; no row comes or goes."""
    for number, question in questions.items():
        frame = question.with_other_columns(frame, facts, _flag(number))
    flags = {number: question.wrong(_flag(number)) for number, question in questions.items()}
    wrong = {_flag(number): flag for number, flag in flags.items() if flag is not None}
    return frame.withColumns(wrong) if wrong else frame  # over Spark Connect none is an error


def _measures(questions: Questions, frame: DataFrame, facts: Facts, count_if: CountIf) -> DataFrame:
    aggregates = [
        measure.alias(f"{_flag(number)}_{position}")
        for number, question in questions.items()
        for position, measure in enumerate(question.measures(F.col(_flag(number)), count_if))
    ]
    return _with_flags(questions, frame, facts).agg(*aggregates)


def _count_if(condition: Column) -> Column:
    return F.count(F.when(condition, F.lit(1)))


def _rows_if(condition: Column) -> Column:
    return F.coalesce(F.sum(F.when(condition, F.col(PARTITION_ROWS))), F.lit(0))


def _partition_frame(facts: Facts) -> DataFrame:
    """Return the partitions with their rows: no file is read for them."""
    fields = [field for field in facts.audit.schema if facts.target.column(quoted(field.name)).is_partition]
    names = [StructField(field.name, StringType()) for field in fields]
    numbers = [StructField(PARTITION_NUMBER, LongType()), StructField(PARTITION_ROWS, LongType())]
    rows = [
        (number, partition.rows, *(None if text == NULL_PARTITION else text for text in partition.values))
        for number, partition in enumerate(facts.audit.partitions)
        if partition.rows
    ]
    typed = (F.expr(cast_sql(quoted(field.name), field.dataType, "try_cast")).alias(field.name) for field in fields)
    texts = facts.audit.spark.createDataFrame(rows, StructType([*numbers, *names]))
    return texts.select(PARTITION_NUMBER, PARTITION_ROWS, *typed)


def with_examples(failed: Mapping[int, CheckResult], questions: Questions, facts: Facts) -> dict[int, CheckResult]:
    """Return results with rows that show what is wrong, and the exact counts of keys that are there twice.

    The rows are extra: where they cannot be read, the results stand without them, and the log says why.
    """
    try:
        rows = fetched(_examples({number: questions[number] for number in failed}, facts))
    except SPARK_ERRORS as error:
        _logger.warning(
            "no example rows of the checks that failed for write %s: %s", facts.audit.write_id, spark_reason(error)
        )
        return dict(failed)
    found = {}
    for number, result in failed.items():
        own = [row for row in rows if row[NUMBER] == number]
        found[number] = _with_example_rows(result, questions[number], own, facts)
    return found


def _with_example_rows(result: CheckResult, question: Question, rows: Sequence[Any], facts: Facts) -> CheckResult:
    counts = next((row for row in rows if row[ROWS] is not None), None)
    if counts is not None and isinstance(question, KeyQuestion):
        result = question.of_counts(counts[ROWS], counts[KEYS], facts)
    names = facts.target.schema.names
    first = [column.top for column in question.columns]
    order = sorted(range(len(names)), key=lambda at: first.index(names[at]) if names[at] in first else len(first))
    examples = tuple(
        {names[at]: "null" if row[f"c{at}"] is None else row[f"c{at}"] for at in order}
        for row in sorted((row for row in rows if row[ROWS] is None), key=lambda row: row[RANK])
    )
    return replace(result, examples=examples, answered_by=SPARK)


def _examples(questions: Questions, facts: Facts) -> DataFrame:
    """Return some rows of each check that failed: each task finds its own few, and the best of these stay."""
    by_key = {number: question for number, question in questions.items() if isinstance(question, KeyQuestion)}
    frame = _with_flags(questions, facts.frame, facts)
    for number, question in by_key.items():
        frame = question.with_flagged_keys(frame, facts, _flag(number))
    flags = {number: F.coalesce(F.col(_flag(number)), F.lit(False)) for number in questions}
    numbers = F.filter(F.array(*(F.when(flag, F.lit(number)) for number, flag in flags.items())), F.isnotnull)
    orders = [
        F.when(F.col(NUMBER) == number, F.struct(*question.keys).cast("string")) for number, question in by_key.items()
    ]
    texts = [_value_text(field).alias(f"c{at}") for at, field in enumerate(facts.target.schema)]
    data = [F.col(quoted(name)) for name in facts.target.schema.names]
    wrong = (
        frame.where(balanced_tree(or_, flags.values()))
        .select(F.monotonically_increasing_id().alias(POSITION), numbers.alias(NUMBER), *data)
        .select(F.explode(NUMBER).alias(NUMBER), POSITION, *data)
        .select(NUMBER, POSITION, F.coalesce(*orders, F.lit("")).alias(ORDER), *texts)
    )
    ranked = wrong.withColumn(RANK, F.row_number().over(Window.partitionBy(NUMBER).orderBy(ORDER, POSITION)))
    found = ranked.where(F.col(RANK) <= facts.audit.examples).drop(POSITION, ORDER)
    nothing = F.lit(None).cast("bigint")
    counts = [_counts(number, question, facts) for number, question in by_key.items()]
    union = partial(DataFrame.unionByName, allowMissingColumns=True)
    return balanced_tree(union, [found.withColumns({ROWS: nothing, KEYS: nothing}), *counts])


def _counts(number: int, question: KeyQuestion, facts: Facts) -> DataFrame:
    """Return a row that says how many keys there are more than once, in how many rows."""
    keys = question.repeated_keys(facts.frame, ROWS)
    return keys.agg(F.sum(ROWS).alias(ROWS), F.count(F.lit(1)).alias(KEYS)).withColumn(NUMBER, F.lit(number))


def _value_text(field: StructField) -> Column:
    """Spell a value, shortened on the executor."""
    value, is_binary = F.col(quoted(field.name)), isinstance(field.dataType, BinaryType)
    text = text_of(F.substring(value, 1, LONGEST_VALUE // 2) if is_binary else value, field.dataType)
    cut = F.concat(F.substring(text, 1, LONGEST_VALUE - 1), F.lit("…"))
    return F.when(F.length(text) > LONGEST_VALUE, cut).otherwise(text)
