"""Some rows of each check that failed, in one more query."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_, or_
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import BinaryType, StructField

from table_writer.check.audit import Facts
from table_writer.check.check import SPARK, Question
from table_writer.check.query import Questions, flag_name, flagged
from table_writer.check.unique import KeyQuestion
from table_writer.model.check_result import CheckResult
from table_writer.sql_text import quoted, spark_reason

__all__ = ["with_examples"]

_logger = logging.getLogger(__name__)

LONGEST_VALUE: Final = 256  # characters of a value; cut in Spark, so that the driver never sees a long one
NUMBER, RANK, ORDER, POSITION, ROWS, KEYS = (f"__table_writer_{name}" for name in ("n", "k", "o", "p", "rows", "keys"))


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
