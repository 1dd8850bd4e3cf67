"""Columns of MLlib's vectors and matrices, and of types that a user has defined in Python.

Spark stores such a value as the type it is made of, and tells of the type in its own schema, in the table and in each
footer. A table that ``saveAsTable`` has made with a vector could not be appended to. Reported for other writers as
apache/spark#45678, lance-format/lance-spark#471, NVIDIA/cudf-spark#4820.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.ml.linalg import Matrices, MatrixUDT, Vectors, VectorUDT
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    UserDefinedType,
)

from table_writer import InvalidInputError, SchemaMismatchError, TableWriter
from table_writer.check import not_null
from table_writer.jobs.plan.types import table_schema
from table_writer.model.table import Column, Table, TableName


class Degrees:
    """A value of a type that only Python knows."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Degrees) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


class DegreesUDT(UserDefinedType):
    """Stored as a number."""

    @classmethod
    def sqlType(cls) -> DoubleType:  # noqa: N802  # as PySpark calls it
        return DoubleType()

    @classmethod
    def module(cls) -> str:
        return __name__

    def serialize(self, obj: Degrees) -> float:
        return obj.value

    def deserialize(self, datum: float) -> Degrees:
        return Degrees(datum)


Degrees.__UDT__ = DegreesUDT()  # type: ignore[attr-defined]
SCHEMA = StructType(
    [
        StructField("id", IntegerType()),
        StructField("vector", VectorUDT()),
        StructField("matrix", MatrixUDT()),
        StructField("inside", StructType([StructField("x", VectorUDT())])),
        StructField("several", ArrayType(VectorUDT())),
        StructField("named", MapType(StringType(), VectorUDT())),
        StructField("degrees", DegreesUDT()),
        StructField("dt", StringType()),
    ]
)
VECTOR = Vectors.sparse(3, {1: 2.0})
ROW = (1, Vectors.dense(1, 2), Matrices.dense(1, 1, [3.0]), (VECTOR,), [VECTOR, None], {"a": VECTOR}, Degrees(4.5), "a")
NULLS = (2, None, None, None, None, None, None, "a")


@pytest.mark.slow
@pytest.mark.parametrize("partition_by", [["dt"], []], ids=["partitioned", "unpartitioned"])
def test_vectors_are_written_as_spark_does_and_read_as_vectors(
    spark: SparkSession, lakehouse_database: str, partition_by: list[str]
) -> None:
    table, writer = f"{lakehouse_database}.vectors", TableWriter(spark)
    rows = spark.createDataFrame([ROW, NULLS], SCHEMA).coalesce(1)
    rows.write.partitionBy(*partition_by).saveAsTable(table)
    writer.append(rows.select(*reversed(rows.columns)), table, checks=[not_null("id")], sort_by=["id"])
    writer.append(rows.drop("vector"), table, schema="allow_missing")
    first = writer.read(table, version=1)
    assert (first.count(), first.where("vector IS NULL").count()) == (4, 2)
    assert [one.rows for one in writer.compact(table, min_files=2).partitions] == [6]
    found = spark.table(table)
    assert found.schema == SCHEMA
    assert [tuple(row) for row in found.where("vector IS NOT NULL").collect()] == [ROW, ROW]
    files = spark.read.schema(StructType(SCHEMA.fields[:2])).parquet(*found.inputFiles())
    assert files.where("vector IS NOT NULL").select("vector").distinct().collect() == [(ROW[1],)]


@pytest.mark.slow
def test_a_vector_fits_a_column_of_what_it_is_made_of_and_no_other(
    spark: SparkSession, make_table: Callable[..., str]
) -> None:
    stored = VectorUDT.sqlType().simpleString()
    table = make_table(f"CREATE TABLE {{name}} (id INT, vector {stored}, other STRUCT<x: INT>) USING parquet")
    rows = spark.createDataFrame([ROW], SCHEMA).selectExpr("id", "vector", "named_struct('x', 1) AS other")
    TableWriter(spark).append(rows, table)
    assert spark.table(table).select("vector.values").collect() == [([1.0, 2.0],)]
    with pytest.raises(SchemaMismatchError, match=r"column other is vector in the DataFrame and struct<x:int> in the"):
        TableWriter(spark).append(rows.selectExpr("id", "vector", "vector AS other"), table)
    with pytest.raises(SchemaMismatchError, match="new column more has a user-defined type, for which SQL has no name"):
        TableWriter(spark).append(rows.selectExpr("*", "vector AS more"), table, schema="evolve")


def test_a_type_whose_class_is_not_here_is_an_error_that_says_so() -> None:
    gone: dict[str, Any] = {"type": "udt", "class": "org.x.Y", "pyClass": "no_such_module.Y", "sqlType": "double"}
    for of_type in (gone, {name: value for name, value in gone.items() if name != "pyClass"}):
        field = {"name": "x", "type": of_type, "nullable": True, "metadata": {}}
        table = Table(
            name=TableName("mart", "orders"),
            kind="EXTERNAL_TABLE",
            location="s3://mart/orders",
            columns=(Column("x", "double"),),
            partition_columns=(),
            parameters={
                "spark.sql.sources.provider": "parquet",
                "spark.sql.sources.schema": json.dumps({"type": "struct", "fields": [field]}),
            },
        )
        with pytest.raises(InvalidInputError, match=r"mart\.orders has a column of a user-defined type whose Python"):
            table_schema(table)
