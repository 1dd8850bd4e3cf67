"""Step 4 without Spark: checks that the footers of files, and what is known of the write, answer exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NoReturn

from pyspark.sql.types import StructField, StructType

from table_writer.arrow.fields import table_fields
from table_writer.check.check import Audit, Check, Facts, Question
from table_writer.check.writes import function_check
from table_writer.errors import InvalidInputError
from table_writer.jobs.replaced import replaced_partitions, replaced_rows
from table_writer.model.check_result import CheckResult
from table_writer.model.write import WrittenFiles
from table_writer.protocol.table.open_table import OpenTable
from table_writer.reports.checks import CheckResults

SETTINGS: Final[Mapping[str, str]] = {"spark.sql.caseSensitive": "false", "spark.sql.session.timeZone": "UTC"}


class _TakesSparkError(Exception):
    """A check has asked the rows."""


OF_NO_SESSION: Final = (_TakesSparkError, AssertionError, RuntimeError)  # ours, and PySpark's own


class _NoSession:
    """What checks ask a session for: its settings, as they are by default; and no query."""

    conf: Final = SETTINGS

    def __getattr__(self, name: str) -> NoReturn:
        raise _TakesSparkError(name)


def require_answerable(checks: Sequence[Check], opened: OpenTable) -> None:
    """Refuse checks that do not fit the table, or that no footer ever answers, before a row is read."""
    target = Facts(_audit(opened)).target
    for check in checks:
        if getattr(check.rule, "func", None) is function_check:
            raise _refused(check, opened)
        try:
            check.bind(target)
        except OF_NO_SESSION as error:
            raise _refused(check, opened) from error


def results_of(checks: Sequence[Check], files: WrittenFiles, opened: OpenTable) -> CheckResults:
    """Answer checks of files; ``InvalidInputError`` for one that the rows themselves would have to be asked."""
    facts = Facts(_audit(opened, files))
    return CheckResults(_answer(check, check.bind(facts.target), facts, opened) for check in checks)


def _answer(check: Check, question: Question, facts: Facts, opened: OpenTable) -> CheckResult:
    try:
        found = question.result_without_read(facts)
    except OF_NO_SESSION:
        found = None
    if found is None:
        raise _refused(check, opened)
    return replace(found, examples=())


def _refused(check: Check, opened: OpenTable) -> InvalidInputError:
    name = str(opened.table.name)
    return InvalidInputError(
        f"check {check.name}: neither footers nor what is known of the write answer it, and to ask the rows takes"
        " Spark. Nothing was published. Stage the write, and check it there:"
        f" TableWriter(spark).staged_write({name!r}, write_id).check(…)",
        table=name,
    )


def _audit(opened: OpenTable, files: WrittenFiles | None = None) -> Audit:
    fields = [StructField.fromJson(dict(field.described)) for field in table_fields(opened.table)]
    session: Any = _NoSession()
    return Audit(
        spark=session,
        table=str(opened.table.name),
        write_id=files.plan.write_id if files else "",
        schema=StructType(fields),
        partition_columns=opened.table.partition_columns,
        partitions=files.partitions if files else (),
        statistics=files.statistics if files else {},
        dataframe=lambda: session.read,
        replaced_rows=partial(_replaced_rows, opened, files, session),
        replaced_partitions=None if files is None else partial(replaced_partitions, opened, files),
        examples=0,
    )


def _replaced_rows(opened: OpenTable, files: WrittenFiles | None, session: Any) -> int:
    count, unknown = (0, ()) if files is None else replaced_rows(opened, files)
    return session.read if unknown else count
