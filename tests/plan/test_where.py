"""What a predicate selects, compared with the query of a table, and which predicates are none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from table_writer.errors import InvalidInputError
from table_writer.jobs.plan.planner import Where
from table_writer.jobs.plan.types import CHAR_VARCHAR
from tests.cells import first_fast

TEXT = StructType([StructField("dt", StringType())])
CHAR = StructType([StructField("c", StringType(), metadata={CHAR_VARCHAR: "char(5)"})])
AT_ONCE = "selects other partitions each time it is asked"
SUBQUERY = "has a subquery"


@contextmanager
def settings(spark: SparkSession, **values: str) -> Iterator[None]:
    names = {f"spark.sql.{name.replace('__', '.')}": value for name, value in values.items()}
    before = {name: spark.conf.get(name, None) for name in names}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def test_a_value_that_the_predicate_cannot_be_evaluated_for_is_an_error_with_predicate_table_and_reason(
    spark: SparkSession,
) -> None:
    with settings(spark, ansi__enabled="true"):
        where = Where(spark, "dt > 20240101", TEXT, "mart.orders")
        assert where([("20240102",)]) == {("20240102",)}
        with pytest.raises(InvalidInputError) as raised:
            where([("20240102",), ("backfill",)])
    said = str(raised.value)
    assert "where='dt > 20240101' cannot be evaluated for the partitions of mart.orders" in said
    assert "'backfill'" in said
    assert "\n" not in said
    assert raised.value.table == "mart.orders"


@pytest.mark.parametrize(
    ("predicate", "said"),
    [
        ("dt IN (SELECT concat('d', id) FROM range(2))", SUBQUERY),
        ("dt = (SELECT max(id) FROM range(3))", SUBQUERY),
        ("NOT EXISTS (SELECT 1 FROM range(3) WHERE concat('d', id) = dt)", SUBQUERY),
        ("upper(concat(dt, (SELECT 'x'))) = 'D1X'", SUBQUERY),
        ("dt = 'd1' AND rand() < 0.5", AT_ONCE),
        ("dt <> uuid()", AT_ONCE),
    ],
)
def test_what_could_answer_otherwise_when_it_is_asked_again_is_refused(
    predicate: str, said: str, spark: SparkSession
) -> None:
    with pytest.raises(InvalidInputError, match=said) as raised:
        Where(spark, predicate, TEXT, "mart.orders")
    assert raised.value.table == "mart.orders"


def test_the_date_of_today_is_one_value(spark: SparkSession) -> None:
    where = Where(spark, "dt < string(current_date())", TEXT, "mart.orders")
    assert where([("2020-01-01",), ("x",)]) == {("2020-01-01",)}


@pytest.mark.parametrize("predicate", ["dt >", "id = 1", "dt", "nothing(dt) = 1"])
def test_what_is_no_predicate_over_the_columns_is_an_error_with_the_columns(
    predicate: str, spark: SparkSession
) -> None:
    with pytest.raises(InvalidInputError, match=r"no predicate over the partition columns \(dt\) of mart.orders: \S"):
        Where(spark, predicate, TEXT, "mart.orders")


PREDICATES = [
    "c = 'ab'",
    "c = 'ab   '",
    "c IN ('ab', 'x')",
    "c LIKE 'ab'",
    "length(c) = 5",
    "concat(c, '|') = 'ab   |'",
]
SETTINGS = [{}, {"readSideCharPadding": "false"}, {"legacy__charVarcharAsString": "true"}]


@pytest.mark.slow
@pytest.mark.parametrize("session", first_fast(SETTINGS), ids=str)
def test_char_is_compared_as_a_query_of_the_table_compares_it(
    session: dict[str, str], spark: SparkSession, lakehouse_database: str
) -> None:
    table = f"{lakehouse_database}.coded"
    spark.sql(f"CREATE TABLE {table} (id INT, c CHAR(5)) USING parquet PARTITIONED BY (c)")
    spark.sql(f"INSERT INTO {table} PARTITION (c) VALUES (1, 'ab'), (2, 'abcde')")
    with settings(spark, legacy__charVarcharAsString="true"):
        spark.sql(f"INSERT INTO {table} PARTITION (c = 'x') VALUES (3)")  # as another tool writes it
    ids = {1: "ab   ", 2: "abcde", 3: "x"}
    assert {row[0] for row in spark.sql(f"SHOW PARTITIONS {table}").collect()} == {
        f"c={value}" for value in ids.values()
    }
    with settings(spark, **session):
        rows = spark.table(table).selectExpr("id", *PREDICATES).collect()
        for column, predicate in enumerate(PREDICATES, start=1):
            queried = {(ids[row.id],) for row in rows if row[column]}
            assert Where(spark, predicate, CHAR, table)([(value,) for value in ids.values()]) == queried, predicate


def test_a_null_value_and_one_of_another_type_are_null(spark: SparkSession) -> None:
    schema = StructType([StructField("hour", IntegerType()), CHAR.fields[0]])
    existing = [("1", "ab   "), ("x", "ab   "), ("2", "__HIVE_DEFAULT_PARTITION__")]
    assert Where(spark, "hour IS NULL", schema, "t")(existing) == {existing[1]}
    assert Where(spark, "c IS NULL", schema, "t")(existing) == {existing[2]}


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_number_is_one_wherever_queries_of_the_session_read_one(ansi: str, spark: SparkSession) -> None:
    schema = StructType([StructField("hour", IntegerType())])
    with settings(spark, ansi__enabled=ansi):
        read = Where(spark, "hour = 1", schema, "t")([("1.0",), ("01",), ("x",)])
    assert read == ({("01",)} if ansi == "true" else {("01",), ("1.0",)})
