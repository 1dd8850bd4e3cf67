"""The one aggregate query of all checks that need one, over exactly the columns they name."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, or_
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from table_writer.check.check import SPARK, CountIf, Facts, Question
from table_writer.check.columns import shortened
from table_writer.check.partitions import PARTITION_NUMBER
from table_writer.check.rows import KeyQuestion
from table_writer.errors import printable
from table_writer.model.check_result import CheckResult
from table_writer.model.table import NULL_PARTITION
from table_writer.spark.sql import quoted, spark_reason

__all__ = [
    "DataError",
    "Questions",
    "answered",
    "error_in_data",
    "flag_name",
    "flagged",
    "measured_frame",
    "partition_frame",
    "with_examples",
]


_logger = logging.getLogger(__name__)

PREFIX: Final = "__table_writer_check"

PARTITION_ROWS: Final = "__table_writer_rows"

LONGEST_REASON: Final = 500

Questions = Mapping[int, Question]
"""Questions by the position of their checks in the call."""


LONGEST_VALUE: Final = 256  # characters of a value; cut in Spark, so that the driver never sees a long one

NUMBER, RANK, ORDER, POSITION, ROWS, KEYS = (f"__table_writer_{name}" for name in ("n", "k", "o", "p", "rows", "keys"))

NOT_THE_DATA: Final = re.compile(r"^\[(FAILED_READ_FILE|SPARK_JOB_CANCELLED|INTERNAL_ERROR|UNABLE_TO_ACQUIRE_MEMORY)")
"""Conditions of Spark that no value of a row can cause."""


SPARKS_OWN: Final = "org.apache.spark.SparkException"

LOST: Final = ("java.io.IOException", "java.lang.OutOfMemoryError", "java.lang.InterruptedException")

DEEPEST: Final = 20  # causes

CONDITION: Final = re.compile(r"\[[A-Z0-9_.]+\]")  # how messages of Spark begin

FRAME: Final = '  File "'  # in a traceback of Python


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


def with_examples(failed: Mapping[int, CheckResult], questions: Questions, facts: Facts) -> dict[int, CheckResult]:
    """Return results with rows that show what is wrong, and the exact counts of keys that are there twice.

    The rows are extra: where they cannot be read, the results stand without them, and the log says why.
    """
    try:
        rows = _query({number: questions[number] for number in failed}, facts).collect()
    except (PySparkException, Py4JError) as error:
        _logger.warning(
            "no example rows of the checks that failed for write %s: %s", facts.audit.write_id, spark_reason(error)
        )
        return dict(failed)
    found = {}
    for number, result in failed.items():
        own = [row for row in rows if row[NUMBER] == number]
        found[number] = _completed(result, questions[number], own, facts)
    return found


def _completed(result: CheckResult, question: Question, rows: Sequence[Any], facts: Facts) -> CheckResult:
    counts = next((row for row in rows if row[ROWS] is not None), None)
    if counts is not None and isinstance(question, KeyQuestion):
        result = question.of_counts(counts[ROWS], counts[KEYS], facts.rows, SPARK)
    names = facts.target.schema.names
    first = list(dict.fromkeys(place.top for place in question.places))
    order = sorted(range(len(names)), key=lambda at: first.index(names[at]) if names[at] in first else len(first))
    examples = tuple(
        {names[at]: "null" if row[f"c{at}"] is None else row[f"c{at}"] for at in order}
        for row in sorted((row for row in rows if row[ROWS] is None), key=lambda row: row[RANK])
    )
    return replace(result, examples=examples, answered_by=SPARK)


def _query(questions: Questions, facts: Facts) -> DataFrame:
    """Return some rows of each check that failed: each task finds its own few, and the best of these stay."""
    by_row = {number: one for number, one in questions.items() if not one.keys}
    by_key = {number: one for number, one in questions.items() if one.keys}
    frame = flagged(by_row, facts.frame, facts)
    repeated = {number: _repeated(number, one, facts.frame) for number, one in by_key.items()}
    for number, keys in repeated.items():
        frame = _marked(frame, number, by_key[number], keys, facts.audit.examples)
    flags = {number: F.coalesce(F.col(flag_name(number)), F.lit(False)) for number in questions}
    numbers = F.filter(F.array(*(F.when(flag, F.lit(number)) for number, flag in flags.items())), _is_there)
    orders = [F.when(F.col(NUMBER) == number, _text_of(one.keys)) for number, one in by_key.items()]
    texts = [_shown(field).alias(f"c{at}") for at, field in enumerate(facts.target.schema)]
    data = [F.col(quoted(name)) for name in facts.target.schema.names]
    wrong = (
        frame.where(reduce(or_, flags.values()))
        .select(F.monotonically_increasing_id().alias(POSITION), numbers.alias(NUMBER), *data)
        .select(F.explode(NUMBER).alias(NUMBER), POSITION, *data)
        .select(NUMBER, POSITION, F.coalesce(*orders, F.lit("")).alias(ORDER), *texts)
    )
    ranked = wrong.withColumn(RANK, F.row_number().over(Window.partitionBy(NUMBER).orderBy(ORDER, POSITION)))
    found = ranked.where(F.col(RANK) <= facts.audit.examples).drop(POSITION, ORDER)
    nothing = F.lit(None).cast("bigint")
    found = found.withColumns({ROWS: nothing, KEYS: nothing})
    return reduce(_with_counts, repeated.items(), found)


def _repeated(number: int, question: Question, frame: DataFrame) -> DataFrame:
    """Return the keys that more than one row has, with the number of their rows."""
    keys = {_key(number, at): key for at, key in enumerate(question.keys)}
    has_key = reduce(and_, (key.isNotNull() for key in question.keys))
    grouped = frame.where(has_key).groupBy(*(key.alias(name) for name, key in keys.items()))
    return grouped.agg(F.count(F.lit(1)).alias(ROWS)).where(F.col(ROWS) > 1)


def _marked(frame: DataFrame, number: int, question: Question, repeated: DataFrame, most: int) -> DataFrame:
    """Flag the rows of the first few keys: enough for examples, and small enough to be sent to every task."""
    names = [_key(number, at) for at in range(len(question.keys))]
    few = F.broadcast(repeated.orderBy(*names).limit(most).select(*names, F.lit(True).alias(flag_name(number))))
    here = {f"{name}_here": key for name, key in zip(names, question.keys, strict=True)}
    is_equal = reduce(and_, (F.col(f"{name}_here") == F.col(name) for name in names))
    return frame.withColumns(here).join(few, is_equal, "left")


def _with_counts(found: DataFrame, repeated: tuple[int, DataFrame]) -> DataFrame:
    """Add a row that says how many keys there are more than once, in how many rows."""
    number, keys = repeated
    counts = keys.agg(F.sum(ROWS).alias(ROWS), F.count(F.lit(1)).alias(KEYS)).withColumn(NUMBER, F.lit(number))
    return found.unionByName(counts, allowMissingColumns=True)


def _key(number: int, at: int) -> str:
    return f"{flag_name(number)}_key_{at}"


def _is_there(item: Column) -> Column:
    return item.isNotNull()


def _text_of(keys: Sequence[Column]) -> Column:
    return F.struct(*(key.alias(f"_{at}") for at, key in enumerate(keys))).cast("string")


def _shown(field: StructField) -> Column:
    """Spell a value, shortened on the executor."""
    value = F.col(quoted(field.name))
    if isinstance(field.dataType, BinaryType):
        text = F.concat(F.lit("0x"), F.hex(F.substring(value, 1, LONGEST_VALUE // 2)))
    else:
        text = value.cast("string")
    cut = F.concat(F.substring(text, 1, LONGEST_VALUE - 1), F.lit("…"))
    return F.when(F.length(text) > LONGEST_VALUE, cut).otherwise(text)


@dataclass(frozen=True, slots=True)
class DataError:
    """What an expression made of some row's value.

    Parameters
    ----------
    kind
        ``[CAST_INVALID_INPUT]``, ``ValueError``: without any value, so that it may be stored.
    text
        All that was said in one line, in which values of the row may stand.
    """

    kind: str
    text: str


def error_in_data(error: Exception) -> DataError | None:
    """Return what an expression made of some row's value; ``None`` where the query failed for another reason.

    Spark wraps what a task raised. It is the data's fault unless something in the chain of causes is about reading
    (also each error of a file system), memory or cancelling, or nothing but Spark's own "job aborted" is known.
    """
    causes = list(_causes(error))
    messages = [str(cause.getMessage() or "") for cause in causes]
    if not causes or any(map(NOT_THE_DATA.match, messages)) or any(map(_is_lost, causes)):
        return None
    if isinstance(error, PythonException):
        said = _said_by_python(str(error))
        return DataError(said.partition(":")[0], said)
    for cause, message in zip(causes, messages, strict=True):
        name, condition = str(cause.getClass().getName()), CONDITION.match(message)
        if condition or name != SPARKS_OWN:
            return DataError(condition[0] if condition else name, spark_reason(message or cause.toString()))
    return None


def _said_by_python(text: str) -> str:
    """Return the line after the last frame of a traceback: ``ValueError: two is odd``."""
    lines = text[text.rfind(FRAME) + 1 :].splitlines()[1:]
    return next((line.strip() for line in lines if line[:1].strip()), "PythonException")


def _causes(error: Exception) -> Iterator[Any]:
    """Yield Java's exceptions from the outermost to the first."""
    cause: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    for _ in range(DEEPEST):
        if cause is None:
            return
        yield cause
        cause = cause.getCause()


def _is_lost(cause: Any) -> bool:
    kind: Any = cause.getClass()
    names = []
    while kind is not None:
        names.append(str(kind.getName()))
        kind = kind.getSuperclass()
    return any(name in LOST for name in names)
