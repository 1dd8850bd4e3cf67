"""A text that Spark parses for us, and that is not what its author has meant.

``where="dt >= 'd1' AND"`` is an expression with a name to Spark's parser, ``where="dt >= 'd1' -- AND country = 'de'"``
ends early, and ``where="dt = dt"`` is all of the table: an overwrite then empties partitions that nobody has named.
Spark's own ``df.where`` takes such texts. Seen by a user whose template left a word over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from table_writer import InvalidInputError, TableWriter
from table_writer.check import expression, only_partitions
from table_writer.jobs.plan.planner import Where
from table_writer.spark.sql import without_query_log

SCHEMA: Final = StructType([StructField("dt", StringType()), StructField("hour", LongType())])
NAMELESS: Final = {
    "dt >= 'd1' AND": "its last word as the name of what stands before it, 'AND'",
    "dt >= 'd1' hour": "'hour'",
    "dt >= 'd1' AS chosen": "'chosen'",
    "dt >= 'd1' -- AND hour = 3": r"a comment \(--\)",
    "dt >= 'd1' /* AND hour = 3 */": "a comment or a hint",
    "/*+ BROADCAST(dt) */ dt >= 'd1'": "a comment or a hint",
    "dt >= 'd1';": "a semicolon",
    "dt >= 'd1', hour = 3": "Syntax error",
    "": "no predicate",
    "dt = 'a') OR (dt > 'b'": "Syntax error",
    "dt": "string, not boolean",
    "hour": "bigint, not boolean",
    "'dt'": "string, not boolean",
    "NULL": "void, not boolean",
    "explode(array(true, false))": "of several rows",
    "1 = 1": "alike|names no column",
    "true": "alike|names no column",
    "current_date() > '2020-01-01'": "alike|names no column",
    "rand() < 0.5": "each time|names no column",
    "x -> x": "no predicate",
    "dt = :day": "no predicate",
    "dt = ?": "no predicate",
    "other = 1": "other",
}
"""What no keyword takes, with what is said of it."""

OF_PARTITIONS: Final = NAMELESS | {
    "*": "no predicate",
    "max(dt) = 'd1'": "no predicate",
    "row_number() OVER (ORDER BY dt) = 1": "no predicate",
    "dt = 'd1' OR 1 = 1": "answers alike",
    "dt = dt": "answers alike",
    "dt = NULL": "answers alike",
    "dt = 'd1' AND NULL": "answers alike",
    "hour > 1 OR hour <= 1": "answers alike",
    "dt IN (SELECT concat('d', id) FROM range(2))": "a subquery",
    "dt = 'd1' AND rand() < 2": "each time it is asked",
}
GOOD: Final = (
    "dt >= 'd1'",
    "dt = 'a -- b' OR dt = '/*;'",
    "`dt` LIKE 'd%' AND hour <> 3",
    "dt IS NOT NULL",
    "dt <=> NULL",
    "1 = 1 AND dt = 'd1'",
    "hour IN (1, 2) OR hour IS NULL",
    "dt < string(current_date())",
    "(dt >= 'd1')",
    "dt = '${x}'",
    "NOT dt <=> r'a\\'",
)


@pytest.mark.connect
def test_a_predicate_that_is_none_is_refused_with_how_spark_reads_it(spark: SparkSession) -> None:
    for text, said in OF_PARTITIONS.items():
        with without_query_log(), pytest.raises(InvalidInputError, match=said) as raised:
            Where(spark, text, SCHEMA, "mart.orders")
        assert raised.value.table == "mart.orders", text
        assert f"where={text!r}" in str(raised.value)


@pytest.mark.connect
def test_predicates_that_tell_partitions_apart_are_taken(spark: SparkSession) -> None:
    for text in GOOD:
        assert Where(spark, text, SCHEMA, "mart.orders")(()) == frozenset(), text


def test_partition_columns_of_every_type_are_told_apart(spark: SparkSession) -> None:
    kinds = "s STRING, i INT, l BIGINT, t TINYINT, b BOOLEAN, d DATE, m TIMESTAMP, n TIMESTAMP_NTZ, f DOUBLE,"
    schema = spark.createDataFrame([], f"{kinds} c DECIMAL(10,2), y BINARY").schema
    for field in schema:
        with pytest.raises(InvalidInputError, match="answers alike"):
            Where(spark, f"{field.name} = {field.name}", schema, "t")
    assert Where(spark, "b OR s = '1' OR i = 1 OR l = 1 OR t = 1 OR f = 1 OR c = 1", schema, "t")
    assert Where(spark, "d > '2024-01-01' AND m > '2024-01-01' AND n > '2024-01-01' AND y = X'00'", schema, "t")


Attempt = Callable[[TableWriter, Any, str, str], object]
KEYWORDS: Final[Mapping[str, Attempt]] = {
    "overwrite_partitions(where)": lambda writer, df, table, text: writer.overwrite_partitions(df, table, where=text),
    "stage(where)": lambda writer, df, table, text: writer.stage(df, table, mode="overwrite_partitions", where=text),
    "plan(where)": lambda writer, df, table, text: writer.plan(df, table, mode="overwrite_partitions", where=text),
    "compact(where)": lambda writer, _, table, text: writer.compact(table, where=text),
    "compact(where, dry_run)": lambda writer, _, table, text: writer.compact(table, where=text, dry_run=True),
    "expression": lambda writer, df, table, text: writer.append(df, table, checks=[expression(text)]),
    "only_partitions(where)": lambda writer, df, table, text: writer.append(
        df, table, checks=[only_partitions(where=text)]
    ),
}


@pytest.mark.slow
def test_every_keyword_that_takes_a_text_for_spark_has_the_one_rule(
    spark: SparkSession, lakehouse_database: str
) -> None:
    """With the call that has emptied two partitions that nobody had named: it fails, and changes nothing."""
    writer, table = TableWriter(spark), f"{lakehouse_database}.orders"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, dt STRING, hour BIGINT) USING parquet PARTITIONED BY (dt, hour)")
    writer.append(spark.createDataFrame([(n, f"d{n}", n) for n in (1, 2, 3)], "id LONG, dt STRING, hour LONG"), table)
    before = sorted(spark.table(table).collect())
    df = spark.createDataFrame([(9, "d1", 1)], "id LONG, dt STRING, hour LONG")
    text = "dt >= 'd1' AND"
    for attempt in KEYWORDS.values():
        with pytest.raises(InvalidInputError, match=NAMELESS[text]):
            attempt(writer, df, table, text)
    assert sorted(spark.table(table).collect()) == before


@pytest.mark.slow
def test_a_default_of_a_new_table_is_one_expression_too(spark: SparkSession, lakehouse_database: str) -> None:
    for text in ("5 AND_MORE", "5 -- more", "5;"):
        schema = StructType([StructField("a", LongType(), True, {"CURRENT_DEFAULT": text})])
        with pytest.raises(InvalidInputError, match="the default of column 'a' is no expression"):
            TableWriter(spark).create_table(schema, f"{lakehouse_database}.with_default")


def test_no_text_of_a_user_reaches_spark_but_through_the_rule() -> None:
    """Where else SQL is given to Spark, this library has written it itself."""
    package = Path(__file__).parents[2] / "table_writer"
    own = re.compile(r"F\.expr\(\s*(?:f?[\"']|cast_sql\()")  # a text of ours, with quoted names in it
    given = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r"F\.expr\(|selectExpr\(", line) and not own.search(line) and "assert df" not in line
    }
    rule, after_it = (
        {"spark/conditions.py"},
        {"check/rows.py", "check/writes.py", "spark/classic.py", "spark/connect.py"},
    )
    assert given == rule | after_it
