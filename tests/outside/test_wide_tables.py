"""Tables of thousands of columns, of deep types and of thousands of partitions, which Spark's own INSERT writes.

A query that is built as a chain (``a + b + c + …``) overflows the stack of Spark's threads at some hundred links, and a
look through all columns for each column takes minutes. Reported as NVIDIA/cudf-spark#2036, apache/spark#18005,
sparklyr/sparklyr#264.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructType

import table_writer
from table_writer import InvalidInputError, TableWriter
from table_writer.check import not_null
from table_writer.check.check import Target
from table_writer.jobs.plan.distribution import batch_limits
from table_writer.spark.sql import balanced_tree, in_partitions, spark_errors_translated
from table_writer.spark.types import type_of_ddl

PACKAGE = Path(table_writer.__file__).parent
COLUMNS = 320
OF_FEW_LINKS = {"getattr", "Column.getField", "EntryPartition.with_more"}
"""What a chain may be made by: one link for each level of a name or a type, or no query at all."""


def depth(tree: Any) -> int:
    return 1 + max(map(depth, tree)) if isinstance(tree, tuple) else 0


@pytest.mark.parametrize(("parts", "levels"), [(1, 0), (2, 1), (3, 2), (5_000, 13), (10_000, 14)])
def test_what_is_combined_is_as_deep_as_the_logarithm_of_its_parts(parts: int, levels: int) -> None:
    assert depth(balanced_tree(lambda one, other: (one, other), range(parts))) == levels


def test_parts_stay_in_their_order() -> None:
    assert balanced_tree(str.__add__, map(str, range(11))) == "012345678910"


def test_no_query_is_built_as_a_chain() -> None:
    chains = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {ast.unparse(node)}"
        for path in PACKAGE.rglob("*.py")
        if "pyspark" in path.read_text()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"reduce", "functools.reduce"}
        if ast.unparse(node.args[0]) not in OF_FEW_LINKS
    ]
    assert chains == []


@pytest.mark.slow
def test_columns_of_checks_are_found_with_one_question_to_the_session() -> None:
    asked: list[str] = []

    class Session:
        @property
        def conf(self) -> Any:
            return self

        def get(self, name: str) -> str:
            asked.append(name)
            return "false"

    schema = StructType()
    for number in range(5_000):
        schema.add(f"C{number}", "string")
    session: Any = Session()
    found = Target(spark=session, table="t", schema=schema).columns(name.lower() for name in schema.names)
    assert [column.top for column in found] == schema.names
    assert len(asked) <= 1


@pytest.mark.parametrize(
    "kind",
    [
        f"struct<{', '.join(f'f{number}: string' for number in range(2_000))}>",
        f"{'array<' * 40}string{'>' * 40}",
        f"{'map<string, ' * 20}string{'>' * 20}",
    ],
    ids=["2,000 fields", "40 arrays", "20 maps"],
)
def test_rows_that_are_measured_at_great_cost_are_weighed_by_spark(kind: str, spark: SparkSession) -> None:
    assert batch_limits(StructType().add("x", type_of_ddl(kind)), 0) == (0, 0)


@pytest.mark.slow
def test_ten_thousand_partitions_are_one_set_in_a_predicate(spark: SparkSession) -> None:
    frame = spark.range(20_000).withColumnRenamed("id", "n")
    inside = in_partitions(frame.schema.fields, [(str(number),) for number in range(0, 20_000, 2)])
    assert frame.where(inside).count() == 10_000


def test_a_query_that_is_too_deep_for_spark_is_an_error_that_says_what_to_do() -> None:
    with (
        pytest.raises(InvalidInputError, match=r"too deep .* Nothing was published.* checkpoint"),
        spark_errors_translated("w1"),
    ):
        raise PySparkException("An error occurred while calling o1.collect.\n: java.lang.StackOverflowError\n\tat x")


@pytest.mark.slow
@pytest.mark.connect
def test_a_wide_and_deep_table_is_written_checked_read_and_compacted(
    spark: SparkSession, lakehouse_database: str
) -> None:
    struct = ", ".join(f"'f{number}', 'x'" for number in range(320))
    nested = arrays = "'x'"
    levels = 40 if hasattr(spark, "_jsparkSession") else 10  # messages of Connect end at 100, three for each of these
    for level in range(levels):
        nested, arrays = f"named_struct('f{level}', {nested})", f"array({arrays})"
    columns = ", ".join(f"'x{number}' AS c{number}" for number in range(COLUMNS))
    rows = spark.sql(
        f"SELECT {columns}, named_struct({struct}) AS wide, {nested} AS deep, {arrays} AS arrays, 1 AS n, 'a' AS dt"
    )
    table, writer = f"{lakehouse_database}.wide", TableWriter(spark)
    writer.create_table(rows, table, partition_by=["dt"])
    first = writer.append(rows, table)
    names = [f"c{number}" for number in range(0, COLUMNS, 4)]
    assert writer.append(rows, table, checks=[not_null(*names)], sort_by=names[:40]).rows == first.rows == 1
    wider = rows.selectExpr("*", *(f"'y' AS n{number}" for number in range(30)))
    writer.append(wider, table, schema="evolve")
    compacted = writer.compact(table, min_files=2)
    assert [(one.rows, one.files_after) for one in compacted.partitions] == [(3, 1)]
    written = spark.table(table)
    assert written.count() == 3
    assert written.select("c319", "wide.f319", "n29").distinct().count() == 2
    assert (
        writer.read(table, version=first.version).select("deep", "arrays").collect()
        == rows.select("deep", "arrays").collect()
    )
    assert isinstance(written.schema["n29"].dataType, StringType)
