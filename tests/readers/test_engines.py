"""Engines that nobody here wrote read what this library writes, and find what Spark finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from operator import eq, ge, gt, le, lt, ne
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType

from table_writer import TableWriterConfig, read_arrow
from table_writer.model.table import NULL_PARTITION, TableName
from table_writer.protocol.table.services import Services
from table_writer.read.types import arrow_schema, partition_value
from table_writer.read.where import conditions_by_partition
from table_writer.testing import Lakehouse

from .hive import rows_of, value_of
from .tables import spelled
from .trino import TrinoServer

MICROSECOND = datetime(1883, 1, 1, 12, 0, 0, 1)  # noqa: DTZ001

HIVES_OWN_WAY = {  # whoever writes the table
    "values_booleans",  # any text of a partition is true
    "values_padded",  # the name of null's directory is a text, and is cut to the column's length
    "values_limited",
}
COMPARED: Mapping[str, Callable[[Column, Column], Column]] = {
    "=": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
    "in": lambda column, one: column.isin(one),
    "not in": lambda column, one: ~column.isin(one),
}
COUNTED = ("history_using", "whole_stored", "elsewhere")


class Answers:
    """Spark's rows of each table, and how another engine's differ."""

    def __init__(self, spark: SparkSession, tables: Mapping[str, str]) -> None:
        self._spark = spark
        self.tables = tables

    def differing(self, name: str, rows: Sequence[Sequence[Any]]) -> list[tuple[str, str]]:
        """Return pairs of rows that differ, Spark's first; empty if all are the same."""
        sparks = self._spark.table(self.tables[name])
        ours, theirs = spelled(sparks.collect(), sparks.schema), spelled(rows, sparks.schema)
        assert ours, "a table without rows compares nothing"
        if len(ours) != len(theirs):
            return [(f"{len(ours)} rows: {ours}", f"{len(theirs)} rows: {theirs}")]
        return [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]

    def count(self, name: str, condition: str) -> int:
        return self._spark.table(self.tables[name]).where(condition).count()

    def hive_columns(self, name: str) -> str:
        """Name the columns for Hive, whose clients get no bytes that are no text."""
        schema = self._spark.table(self.tables[name]).schema
        binary = {field.name for field in schema if isinstance(field.dataType, BinaryType)}
        return ", ".join(f"hex(`{one}`)" if one in binary else f"`{one}`" for one in schema.names)

    def of_hive(self, name: str, rows: Sequence[Sequence[str | None]]) -> list[list[Any]]:
        """Read Hive's texts; the name of null's directory is null."""
        kinds = [field.dataType for field in self._spark.table(self.tables[name]).schema]
        return [
            [None if text == NULL_PARTITION else value_of(text, kind) for text, kind in zip(row, kinds, strict=True)]
            for row in rows
        ]


@pytest.fixture(scope="module")
def answers(spark: SparkSession, tables: Mapping[str, str]) -> Answers:
    return Answers(spark, tables)


def test_trino_reads_every_table_as_spark_does(answers: Answers, trino: TrinoServer) -> None:
    found = {
        name: differing
        for name, table in answers.tables.items()
        if (differing := answers.differing(name, trino.rows(f"SELECT * FROM {table}")))
    }
    # of the time in a partition's name Trino takes milliseconds: docs/explanation/limits.md
    assert found == {"values_timestamps": [(f"[2, {MICROSECOND!r}]", f"[2, {MICROSECOND.replace(microsecond=0)!r}]")]}


def test_hives_own_engine_reads_every_table_as_spark_does(
    answers: Answers, lakehouse: Lakehouse, tmp_path: Path
) -> None:
    # It has another calendar, and of decimals in Parquet it knows the old form: docs/how-to/read-with-other-engines.md.
    of_now = ("types_using", "types_stored", "arrow_types_using", "arrow_types_stored")
    names = [name for name in answers.tables if not name.startswith("old_") and name not in of_now]
    statements = [f"SELECT {answers.hive_columns(name)} FROM {answers.tables[name]}" for name in names]
    jobs = [f"SELECT count(*) FROM {answers.tables[name]} WHERE id > 0" for name in COUNTED]  # not by a mere fetch
    found = rows_of(lakehouse, [*statements, *jobs], tmp_path)
    differing: dict[str, Any] = {}
    for name, rows in zip(names, found, strict=False):
        differences = rows if isinstance(rows, str) else answers.differing(name, answers.of_hive(name, rows))
        if differences:
            differing[name] = differences
    assert {name: rows for name, rows in differing.items() if name not in HIVES_OWN_WAY} == {}
    assert differing.keys() == HIVES_OWN_WAY
    assert found[len(names) :] == [[[str(answers.count(name, "id > 0"))]] for name in COUNTED]


def test_pyarrow_reads_every_table_as_spark_does(answers: Answers, lakehouse: Lakehouse) -> None:
    found = {}
    for name in answers.tables:
        rows = dataset(answers, lakehouse, name).to_table()
        values = [tuple(row) for row in zip(*(column.to_pylist() for column in rows.columns), strict=True)]
        if differing := answers.differing(name, values):
            found[name] = differing
    assert found == {}


def test_filters_choose_the_partitions_that_sparks_own_comparisons_choose(
    answers: Answers, spark: SparkSession, lakehouse: Lakehouse
) -> None:
    config = TableWriterConfig(hadoop=lakehouse.s3_server.hadoop_settings())
    with closing(Services.without_spark(lakehouse.metastore_uri, config).metastore) as metastore:
        for name in (one for one in answers.tables if one.startswith("values_")):
            table = metastore.get_table(TableName.parse(answers.tables[name]))
            assert table is not None
            names = metastore.get_partition_names(table.name)
            field, declared = list(arrow_schema(table))[-1], table.partition_columns[0]
            rows = spark.table(answers.tables[name]).select("p")  # a row of each partition
            pairs = rows.crossJoin(rows.select(F.col("p").alias("q"))).where("q IS NOT NULL")
            comparisons = [compare(F.col("p"), F.col("q")).alias(operator) for operator, compare in COMPARED.items()]
            sparks: dict[tuple[str, str], list[str]] = {}
            given = {}
            for row in pairs.select("p", "q", *comparisons).collect():
                given[repr(row.q)] = row.q
                for operator in COMPARED:
                    sparks.setdefault((operator, repr(row.q)), []).extend([repr(row.p)] if row[operator] else [])
            for (operator, shown), expected in sparks.items():
                value = [given[shown]] if "in" in operator else given[shown]
                found = conditions_by_partition(table, [field], names, [("p", operator, value)])
                ours = [repr(partition_value(text, field.type, declared.type)) for (text,) in found]
                assert sorted(ours) == sorted(expected), (name, operator, shown)


def test_duckdb_polars_and_pandas_take_the_dataset(answers: Answers, lakehouse: Lakehouse) -> None:
    history = dataset(answers, lakehouse, "history_using")
    connection = duckdb.connect()
    connection.register("history", history)
    assert answers.differing("history_using", connection.execute("SELECT * FROM history").fetchall()) == []
    assert connection.execute("SELECT max(id) FROM history WHERE dt = 'd2'").fetchall() == [(62,)]
    frame = pl.scan_pyarrow_dataset(history)
    assert answers.differing("history_using", frame.collect().rows()) == []
    assert frame.filter(pl.col("dt") == "d2").select(pl.col("id").max()).collect().item() == 62
    pandas = history.to_table(columns=["id", "dt"]).to_pandas()
    assert pandas[pandas.dt == "d2"].id.max() == 62


def dataset(answers: Answers, lakehouse: Lakehouse, name: str) -> Any:
    config = TableWriterConfig(hadoop=lakehouse.s3_server.hadoop_settings())
    return read_arrow(answers.tables[name], metastore_uri=lakehouse.metastore_uri, config=config)
