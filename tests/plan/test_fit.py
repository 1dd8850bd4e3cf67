"""Rows in the table's shape, under each schema mode, and what is said of rows that break a rule."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType, _parse_datatype_string

from table_writer.errors import SchemaMismatchError
from table_writer.jobs.plan.fit import FittedRows, fit
from table_writer.jobs.plan.types import CHAR_VARCHAR, stored_field, table_schema, violation
from table_writer.model.new_table import SchemaMode
from table_writer.model.table import Column, Table, TableName
from table_writer.spark.types import exact_type
from tests.cells import first_fast


def table(ddl: str) -> StructType:
    """Return a schema as a table has it; the last column is its partition column."""
    parsed = _parse_datatype_string(ddl)
    assert isinstance(parsed, StructType)
    stored = [stored_field(field.name, field.dataType, field.metadata.get("comment", "")) for field in parsed]
    return StructType(
        [
            StructField(field.name, field.dataType, declared.nullable, field.metadata)
            for field, declared in zip(stored, parsed, strict=True)
        ]
    )


def fitted(df: DataFrame, ddl: str, mode: SchemaMode = SchemaMode.STRICT) -> FittedRows:
    schema = table(ddl)
    return fit(df, schema, "mart.orders", [schema.names[-1]], mode)


def broken(df: DataFrame, ddl: str) -> str:
    """Return the message after a job that a rule stopped."""
    result = fitted(df, ddl)
    with pytest.raises(PySparkException) as raised:
        result.rows.mapInArrow(lambda batches: batches, result.rows.schema).count()
    error = violation(raised.value, df, result.limits, "mart.orders")
    assert isinstance(error, SchemaMismatchError)
    return str(error)


def test_columns_come_by_name_in_the_tables_order_and_case(spark: SparkSession) -> None:
    df = spark.sql("SELECT 'd' AS DT, 2 AS B, named_struct('Y', 1Y, 'x', 'v') AS s, 1 AS a")
    result = fitted(df, "A bigint COMMENT 'of all', b int, S struct<X:string,y:int>, dt string")
    assert result.rows.columns == result.schema.names == ["A", "b", "S", "dt"]
    assert result.schema["A"].metadata == {"comment": "of all"}
    assert [row.asDict(recursive=True) for row in result.rows.collect()] == [
        {"A": 1, "b": 2, "S": {"X": "v", "y": 1}, "dt": "d"}
    ]
    assert (result.added, result.filled) == ((), ())
    assert [limit.rule.column for limit in result.limits] == ["dt"], "whose text is a name"


def test_what_is_missing_is_an_error_that_says_how_to_ask_for_nulls(spark: SparkSession) -> None:
    with pytest.raises(SchemaMismatchError, match=r"missing in the DataFrame: 'a' \(schema='allow_missing'"):
        fitted(spark.sql("SELECT 'd' AS dt"), "a int, dt string")
    with pytest.raises(SchemaMismatchError, match=r"does not have: 'x' \(schema='evolve'"):
        fitted(spark.sql("SELECT 'd' AS dt, 1 AS x"), "dt string", SchemaMode.ALLOW_MISSING)
    with pytest.raises(SchemaMismatchError) as refused:
        fitted(spark.sql("SELECT 'd' AS dt, 1 AS x"), "a int, dt string", SchemaMode.FIXED)
    assert "'a' (give them, too: df.withColumn(name, F.lit(None)) has null)" in str(refused.value)
    assert "schema=" not in str(refused.value)


def test_what_is_missing_becomes_null_when_asked_for(spark: SparkSession) -> None:
    df = spark.sql("SELECT 'd' AS dt, array(named_struct('x', 1)) AS s")
    ddl = "a char(3), s array<struct<x:int,y:struct<z:int>>>, dt string"
    result = fitted(df, ddl, SchemaMode.ALLOW_MISSING)
    assert result.filled == ("a", "s.element.y")
    assert [tuple(row) for row in result.rows.collect()] == [(None, [(1, None)], "d")]
    assert result.rows.dtypes == [("a", "string"), ("s", "array<struct<x:int,y:struct<z:int>>>"), ("dt", "string")]


@pytest.mark.parametrize("mode", [SchemaMode.ALLOW_MISSING, SchemaMode.EVOLVE])
def test_partition_and_not_null_columns_are_never_filled(spark: SparkSession, mode: SchemaMode) -> None:
    with pytest.raises(SchemaMismatchError, match=r"partition or NOT NULL columns .*: 'a', 'dt'"):
        fitted(spark.sql("SELECT 1 AS b"), "a int NOT NULL, b int, c int, dt string", mode)


def test_new_columns_stand_between_data_and_partition_columns(spark: SparkSession) -> None:
    df = spark.sql("SELECT 'd' AS dt, 1L AS New, 'x' AS code, 2 AS A").withMetadata("New", {"comment": "it's"})
    df = df.withMetadata("code", {CHAR_VARCHAR: "varchar(2)"})
    result = fitted(df, "a int, dt string", SchemaMode.EVOLVE)
    assert result.rows.columns == result.schema.names == ["a", "New", "code", "dt"]
    assert [(field.name, exact_type(field).simpleString(), field.metadata) for field in result.added] == [
        ("New", "bigint", {"comment": "it's"}),
        ("code", "varchar(2)", {CHAR_VARCHAR: "varchar(2)"}),
    ]
    assert [limit.rule.column for limit in result.limits] == ["code", "dt"]
    assert [tuple(row) for row in result.rows.collect()] == [(2, 1, "x", "d")]


def test_a_new_column_without_a_type_is_refused(spark: SparkSession) -> None:
    with pytest.raises(SchemaMismatchError, match=r"column x has no type .* cast it"):
        fitted(spark.sql("SELECT 'd' AS dt, NULL AS x"), "dt string", SchemaMode.EVOLVE)


ROWS = "SELECT CAST(id AS INT) AS id, 'd' AS dt, {} AS c FROM range(100)"
BROKEN = {
    "varchar": (
        "IF(id < 5, 'abcdef', 'ab   ')",
        "varchar(3)",
        "c is varchar(3), and 5 of 100 rows are longer",
        "abcdef",
    ),
    "decimal": (
        "CAST(id * 25 AS DECIMAL(10,2))",
        "decimal(5,2)",
        "c is decimal(5,2), and 60 of 100 rows have more than 3 digits before the point",
        "1000.00",
    ),
    "integer": ("id * 100", "decimal(5,2)", "and 90 of 100 rows have more than 3 digits", "1000"),
    "not null": ("IF(id = 7, NULL, id)", "bigint NOT NULL", "c is NOT NULL, and 1 of 100 rows are null", "id=7, dt=d"),
    "in array": (
        "array('a', IF(id = 3, 'bcde', NULL))",
        "array<varchar(3)>",
        "c.element is varchar(3), and 1 of",
        "bcde",
    ),
    "in map key": ("map(IF(id < 2, 'abc', 'a'), 1)", "map<char(2),int>", "c.key is char(2), and 2 of 100", "abc"),
    "in map value": ("map(1, id)", "map<int,decimal(2,1)>", "c.value is decimal(2,1), and 90 of 100 rows", "10"),
    "field": (
        "IF(id < 9, NULL, named_struct('x', IF(id = 10, NULL, 1)))",
        "struct<x:int NOT NULL>",
        "c.x is NOT NULL, and 1 of 100 rows are null",
        "id=10, dt=d",
    ),
    "long": ("repeat('x', 500)", "varchar(3)", "100 of 100", "x" * 79 + "…"),
}


@pytest.mark.parametrize("ansi", first_fast(["true", "false"]))
@pytest.mark.parametrize("case", BROKEN)
def test_rows_that_break_a_rule_are_counted_and_one_is_shown(spark: SparkSession, case: str, ansi: str) -> None:
    expression, kind, said, example = BROKEN[case]
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        message = broken(spark.sql(ROWS.format(expression)), f"id int, c {kind}, dt string")
    finally:
        spark.conf.set("spark.sql.ansi.enabled", str(before))
    assert said in message
    assert f"for example '{example}'" in message
    assert "mart.orders" in message


def test_all_broken_rules_are_told_at_once(spark: SparkSession) -> None:
    df = spark.sql("SELECT 'abcd' AS a, 1000 AS b, 'd' AS dt FROM range(3)")
    message = broken(df, "a varchar(3), b decimal(4,1) NOT NULL, dt string")
    assert "column a is varchar(3), and 3 of 3 rows" in message
    assert "column b is decimal(4,1), and 3 of 3 rows" in message
    assert "NOT NULL" not in message


def test_rows_that_are_good_the_second_time_leave_the_first_message(spark: SparkSession) -> None:
    bad, good = (spark.sql(f"SELECT '{text}' AS a, 'd' AS dt FROM range(3)") for text in ("abcd", "abc"))
    with pytest.raises(PySparkException) as raised:
        fitted(bad, "a varchar(3), dt string").rows.collect()
    error = violation(raised.value, good, fitted(good, "a varchar(3), dt string").limits, "mart.orders")
    assert "column a is varchar(3), and one row or more are longer, for example 'abcd'" in str(error)


def test_a_recount_that_fails_leaves_the_first_message(spark: SparkSession) -> None:
    df = spark.sql("SELECT 'abcd' AS a, 'd' AS dt FROM range(3)")
    result = fitted(df, "a varchar(3), dt string")
    with pytest.raises(PySparkException) as raised:
        result.rows.collect()
    other = spark.range(1)  # has no column a: Spark refuses the count
    error = violation(raised.value, other, result.limits, "mart.orders")
    assert "for example 'abcd'" in str(error)


def test_another_failure_is_no_violation(spark: SparkSession) -> None:
    assert violation(ValueError("no"), spark.range(1), (), "mart.orders") is None


def test_limits_in_hives_own_spelling_are_known(spark: SparkSession) -> None:
    hive = Table(
        name=TableName("mart", "orders"),
        kind="EXTERNAL_TABLE",
        location="s3a://lake/mart/orders/",
        columns=(
            Column("c", "char(3)", "codes"),
            Column("s", "array<struct<a b:varchar(3),d:map<string,decimal(5,2)>>>"),
        ),
        partition_columns=(Column("dt", "string"),),
    )
    schema = table_schema(hive)
    assert schema["c"] == StructField("c", StringType(), metadata={"comment": "codes", CHAR_VARCHAR: "char(3)"})
    assert schema["s"].dataType.simpleString() == "array<struct<a b:string,d:map<string,decimal(5,2)>>>"
    assert exact_type(schema["s"]).simpleString() == "array<struct<a b:varchar(3),d:map<string,decimal(5,2)>>>"
