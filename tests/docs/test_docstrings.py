"""The examples in the docstrings of the public classes, run against the lakehouse."""

from __future__ import annotations

import doctest
import io
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame

from table_writer import ArrowWriter, Maintenance, StagedWrite, TableWriter, TableWriterConfig
from table_writer.testing import Lakehouse


@pytest.fixture
def df(lakehouse: Lakehouse) -> Iterator[DataFrame]:
    spark = lakehouse.spark
    spark.sql(f"CREATE DATABASE mart LOCATION '{lakehouse.warehouse}/docstrings_mart'")
    spark.sql("CREATE TABLE mart.orders (id INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    yield spark.createDataFrame([(1, "2024-01-01"), (2, "2024-01-01")], "id INT, dt STRING")
    spark.sql("DROP DATABASE mart CASCADE")


def run_examples(documented: type, names: dict[str, object], at_least: int) -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    classes = [one for one in documented.__mro__ if one.__module__.startswith("table_writer.")]  # calls of bases too
    found = [test for one in classes for test in finder.find(one, one.__name__, globs=names)]
    tests = [test for test in found if test.examples]
    said = io.StringIO()
    runner = doctest.DocTestRunner()
    for test in tests:
        runner.run(test, out=said.write)
    assert runner.failures == 0, said.getvalue()
    assert len(tests) >= at_least


def test_every_example_does_what_it_shows(lakehouse: Lakehouse, df: DataFrame) -> None:
    given = {"spark": lakehouse.spark, "df": df, "TableWriter": TableWriter}
    run_examples(TableWriter, given, at_least=7)
    run_examples(StagedWrite, given, at_least=1)
    settings = lakehouse.s3_server.hadoop_settings()
    keeper = Maintenance(lakehouse.metastore_uri, config=TableWriterConfig(hadoop=settings))
    names = {
        "Maintenance": Maintenance,
        "TableWriterConfig": TableWriterConfig,
        "hadoop_settings": settings,
        "keeper": keeper,
        "metastore_uri": lakehouse.metastore_uri,
    }
    run_examples(Maintenance, names, at_least=3)
    run_examples(ArrowWriter, names | {"ArrowWriter": ArrowWriter}, at_least=1)
