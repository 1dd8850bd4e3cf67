"""The examples in the writer's docstrings, run against the lakehouse."""

from __future__ import annotations

import doctest
import io
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame

from table_writer import TableWriter
from table_writer.testing import Lakehouse


@pytest.fixture
def df(lakehouse: Lakehouse) -> Iterator[DataFrame]:
    spark = lakehouse.spark
    spark.sql(f"CREATE DATABASE mart LOCATION '{lakehouse.warehouse}/docstrings_mart'")
    spark.sql("CREATE TABLE mart.orders (id INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    yield spark.createDataFrame([(1, "2024-01-01"), (2, "2024-01-01")], "id INT, dt STRING")
    spark.sql("DROP DATABASE mart CASCADE")


def test_every_example_of_the_writer_does_what_it_shows(lakehouse: Lakehouse, df: DataFrame) -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    names = {"spark": lakehouse.spark, "df": df, "TableWriter": TableWriter}
    tests = [test for test in finder.find(TableWriter, "TableWriter", globs=names) if test.examples]
    said = io.StringIO()
    runner = doctest.DocTestRunner()
    for test in tests:
        runner.run(test, out=said.write)
    assert runner.failures == 0, said.getvalue()
    assert len(tests) >= 3
