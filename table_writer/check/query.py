"""The one aggregate query of all checks that need one, over exactly the columns they name."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import LongType, StringType, StructField, StructType

from table_writer.check.audit import Facts
from table_writer.check.check import CountIf, Question
from table_writer.check.partitions import PARTITION_NUMBER
from table_writer.check.spark_errors import error_in_data
from table_writer.check.wording import printable, shortened
from table_writer.model.check_result import CheckResult
from table_writer.model.partition_name import NULL_PARTITION
from table_writer.sql_text import quoted

__all__ = ["Questions", "answered", "flag_name", "flagged", "measured_frame", "partition_frame"]

_logger = logging.getLogger(__name__)

PREFIX: Final = "__table_writer_check"
PARTITION_ROWS: Final = "__table_writer_rows"
LONGEST_REASON: Final = 500

Questions = Mapping[int, Question]
"""Questions by the position of their checks in the call."""


def flag_name(number: int) -> str:
    """Return the column that says whether a row is wrong."""
    return f"{PREFIX}_{number}"


def flagged(questions: Questions, frame: DataFrame, facts: Facts) -> DataFrame:
    """Add a column for each check that judges rows, and what it joins; no row comes or goes."""
    for number, question in questions.items():
        frame = question.joined(frame, facts, flag_name(number))
    flags = {number: question.failing(flag_name(number)) for number, question in questions.items()}
    return frame.withColumns({flag_name(number): flag for number, flag in flags.items() if flag is not None})


def measured_frame(questions: Questions, frame: DataFrame, facts: Facts, count_if: CountIf) -> DataFrame:
    """Return the aggregates of all questions as one row."""
    aggregates = [
        measure.alias(f"{PREFIX}_{number}_{position}")
        for number, question in questions.items()
        for position, measure in enumerate(question.measures(F.col(flag_name(number)), count_if))
    ]
    return flagged(questions, frame, facts).agg(*aggregates)


def answered(questions: Questions, facts: Facts) -> dict[int, CheckResult]:
    """Judge checks by what Spark counts: those of partition columns alone over the partitions, the rest in one query.

    An error that the data cause in one check (a cast, a division, a user's function) is the failure of that check.

    Raises
    ------
    PySparkException, Py4JError
        The query failed for another reason: the files cannot be read, or Spark is in trouble.
    """
    local = {number: one for number, one in questions.items() if one.is_local and one.is_repeatable}
    others = {number: one for number, one in questions.items() if number not in local}
    found: dict[int, CheckResult] = {}
    if local:
        found |= _asked(local, partition_frame(facts), facts, _rows_if)
    if others:
        found |= _asked(others, facts.frame, facts, _count_if)
    return found


def _asked(questions: Questions, frame: DataFrame, facts: Facts, count_if: CountIf) -> dict[int, CheckResult]:
    try:
        [row] = measured_frame(questions, frame, facts, count_if).collect()
    except (PySparkException, Py4JError) as error:
        found = error_in_data(error)
        if found is None:
            raise
        if len(questions) == 1:
            [(number, question)] = questions.items()
            why = {"error": shortened(found.text, LONGEST_REASON)}  # may hold values of a row, so it is an example
            return {number: question.failed(f"could not be judged: {printable(found.kind)}", examples=[why])}
        _logger.info("checks of %s failed together, and are run one by one: %s", facts.audit.write_id, found.kind)
        alone = (_asked({number: question}, frame, facts, count_if) for number, question in questions.items())
        return {number: result for results in alone for number, result in results.items()}
    return {number: question.judged(_own(row.asDict(), number), facts) for number, question in questions.items()}


def _own(values: Mapping[str, Any], number: int) -> list[Any]:
    return [value for name, value in values.items() if name.startswith(f"{PREFIX}_{number}_")]


def _count_if(condition: Column) -> Column:
    return F.count(F.when(condition, F.lit(1)))


def _rows_if(condition: Column) -> Column:
    return F.coalesce(F.sum(F.when(condition, F.col(PARTITION_ROWS))), F.lit(0))


def partition_frame(facts: Facts) -> DataFrame:
    """Return the partitions with their rows: no file is read for them."""
    audit = facts.audit
    columns = {column.name.lower() for column in audit.partition_columns}
    fields = [field for field in audit.schema if field.name.lower() in columns]
    texts = StructType(
        [
            StructField(PARTITION_NUMBER, LongType()),
            StructField(PARTITION_ROWS, LongType()),
            *(StructField(field.name, StringType()) for field in fields),
        ]
    )
    rows = [
        (number, one.rows, *(None if text == NULL_PARTITION else text for text in one.values))
        for number, one in enumerate(audit.partitions)
    ]
    typed = [
        F.expr(f"try_cast({quoted(field.name)} AS {field.dataType.simpleString()})").alias(field.name)
        for field in fields
    ]
    return audit.spark.createDataFrame(rows, texts).select(PARTITION_NUMBER, PARTITION_ROWS, *typed)
