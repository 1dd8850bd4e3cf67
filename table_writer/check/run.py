"""Step 4: run the checks of a staged write."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from table_writer.check import functions
from table_writer.check.check import Audit, Check, Facts
from table_writer.check.columns import Target, shortened, shown
from table_writer.check.keys import KeyQuestion
from table_writer.check.query import answered, with_examples
from table_writer.check.rows import RowQuestion, unfit, unreadable
from table_writer.check.writes import function_name
from table_writer.errors import CheckFailedError, InvalidInputError, printable
from table_writer.model.check_result import CheckResult
from table_writer.model.table import Column

LONGEST_VALUE: Final = 32
LONGEST_LINE: Final = 120
LONGEST_SENTENCE: Final = 500
BORDER: Final = "  "


def as_checks(given: Iterable[object]) -> tuple[Check, ...]:
    """Return checks, no two of one name; a bare callable becomes one, with a name of its own."""
    items = list(given)
    taken = {one.name for one in items if isinstance(one, Check)}
    checks: list[Check] = []
    for one in items:
        check = one if isinstance(one, Check) else _wrapped(one, taken)
        taken.add(check.name)
        checks.append(check)
    names = [check.name for check in checks]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"two checks have the name {twice!r}: give one of them another, name=…")
    return tuple(checks)


def _wrapped(given: object, taken: Collection[str]) -> Check:
    if not callable(given):
        raise InvalidInputError(f"{shown(given)} is no check: use those of table_writer.check, or a callable")
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
    partition_columns: Sequence[Column] | None = None,
) -> None:
    """Refuse checks that do not fit a table, before a byte is written. No Spark job is run.

    The schema has data columns, then partition columns; ``partition_columns`` is ``None`` where they are not known:
    partitions may then be named by any column.
    """
    names = None if partition_columns is None else tuple(column.name for column in partition_columns)
    target = Target(spark=spark, table=table, schema=schema, partition_columns=names)
    bound = [check.bind(target) for check in checks]
    given = [(one.check, value) for one in bound if isinstance(one, RowQuestion) for value in one.given]
    wrong = unreadable((value for _, value in given), spark)
    for check, value in given:
        if value in wrong:
            raise check.refused(unfit(value.given, value.column).message, table)


def run_checks(checks: Sequence[Check], audit: Audit) -> tuple[CheckResult, ...]:
    """Run all checks, in their order; none that fails keeps another from running.

    What metadata answers exactly costs no read. All the rest is one aggregate query; only if something failed, one more
    fetches example rows. :func:`require_valid` has found nothing wrong with the checks. One of SPARK_ERRORS means that
    the staged files could not be read, or that Spark failed otherwise than by the data.
    """
    facts = Facts(audit)
    questions = {number: check.bind(facts.target) for number, check in enumerate(checks)}
    known = {number: question.known(facts) for number, question in questions.items()}
    found = {number: result for number, result in known.items() if result is not None}
    found |= answered({number: one for number, one in questions.items() if number not in found}, facts)
    failed = {number: one for number, one in found.items() if one.failed_rows and not one.examples}
    wanted = {at: one for at, one in failed.items() if audit.examples or isinstance(questions[at], KeyQuestion)}
    found |= with_examples(wanted, questions, facts) if wanted else {}
    return tuple(replace(found[number], examples=found[number].examples[: audit.examples]) for number in questions)


def require_passed(results: Sequence[CheckResult], table: str, write_id: str) -> None:
    """Raise ``CheckFailedError``, with example rows, if a check of severity ``"error"`` failed."""
    if any(result.stops for result in results):
        text = failure_text(results, table, write_id)
        raise CheckFailedError(text, table=table, write_id=write_id, results=tuple(results))


def failure_text(results: Sequence[CheckResult], table: str, write_id: str) -> str:
    """Say which checks failed, and show some of the rows.

    Examples
    --------
    >>> wrong = CheckResult(name="not_null(id)", severity="error", passed=False, message="1 of 2 rows have no id",
    ...                     failed_rows=1, examples=({"id": "null", "note": "a"},))
    >>> print(failure_text([wrong], "mart.orders", "w1"))
    1 of 1 checks of write w1 failed; nothing was published to mart.orders:
      not_null(id): 1 of 2 rows have no id
          id    note
          null  a
    Correct the data and write again. A check of severity="warn" lets a write pass.
    """
    failed = sorted((one for one in results if not one.passed), key=lambda one: not one.stops)
    lines = [line for one in failed for line in _lines(one)]
    return "\n".join(
        [
            f"{len(failed)} of {len(results)} checks of write {write_id} failed; nothing was published to {table}:",
            *lines,
            'Correct the data and write again. A check of severity="warn" lets a write pass.',
        ]
    )


def _lines(result: CheckResult) -> Iterator[str]:
    warning = "" if result.stops else " (warning)"
    yield f"{BORDER}{printable(result.name)}{warning}: {printable(shortened(result.message, LONGEST_SENTENCE))}"
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
    return shortened(printable(shortened(text, LONGEST_VALUE)), LONGEST_VALUE)
