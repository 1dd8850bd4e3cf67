"""What a new user gets wrong, and the first line of each error: what is wrong, where, what to do next."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import pandas as pd
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer import (
    CheckFailedError,
    InvalidInputError,
    Maintenance,
    MetastoreError,
    SchemaMismatchError,
    StorageError,
    TableWriter,
    TableWriterConfig,
)
from table_writer.check import in_range, not_null
from table_writer.spark.sql import QUERY_LOGGERS
from table_writer.testing import Lakehouse

COLUMNS: Final = "id BIGINT, note STRING, dt STRING"


@dataclass
class World:
    """A table with one row, and calls that its user may make."""

    spark: SparkSession
    writer: TableWriter
    database: str
    orders: str
    df: DataFrame
    silent_metastore: str
    """The address of one that takes connections and never answers."""

    def write(self, df: object = None, table: str = "", **options: Any) -> Any:
        return self.writer.overwrite_partitions(self.df if df is None else df, table or self.orders, **options)  # type: ignore[arg-type]

    def with_hadoop(self, **settings: str) -> Any:
        named = {name.replace("__", "."): value for name, value in settings.items()}
        limit: Any = {"metastore_timeout_seconds": 0.5} if "hive.metastore.uris" in named else {}
        config = TableWriterConfig(hadoop=named, **limit)
        return TableWriter(self.spark, config=config).overwrite_partitions(self.df, self.orders)

    @property
    def keeper(self) -> Maintenance:
        return self.writer.maintenance

    def make(self, ddl: str, name: str) -> str:
        self.spark.sql(ddl.format(name=f"{self.database}.{name}"))
        return f"{self.database}.{name}"

    @property
    def place_of_database(self) -> str:
        return str(self.spark.catalog.getDatabase(self.database).locationUri)

    def publish_twice(self) -> None:
        staged = self.writer.stage(self.df, self.orders)
        staged.publish()
        staged.publish()

    def publish_anothers(self) -> None:
        other = self.make(f"CREATE TABLE {{name}} ({COLUMNS}) USING parquet PARTITIONED BY (dt)", "other")
        self.writer.append(self.df, other)
        staged = self.writer.stage(self.df, self.orders)
        try:
            self.writer.staged_write(other, staged.write_id)
        finally:
            staged.discard()


def failing(world: World) -> DataFrame:
    divide = F.udf(lambda number: 1 // (number - 1), "bigint")
    return world.df.withColumn("id", divide("id"))


MISTAKES: Final[dict[str, tuple[Callable[[World], object], type[Exception], str]]] = {
    "a misspelt table": (
        lambda w: w.write(table=f"{w.database}.order"),
        InvalidInputError,
        r"table {db}\.order does not exist in the metastore at thrift://.*; did you mean orders\? To make it: create_t",
    ),
    "a table without its database": (
        lambda w: w.write(table="orders"),
        InvalidInputError,
        r"table default\.orders does not exist in the metastore",
    ),
    "a misspelt database": (
        lambda w: w.write(table=f"{w.database}x.orders"),
        InvalidInputError,
        r"table {db}x\.orders does not exist .* has no database {db}x; did you mean {db}\?",
    ),
    "a view": (
        lambda w: w.write(table=w.make("CREATE VIEW {name} AS SELECT 1L AS id, 'a' AS note, 'd' AS dt", "a_view")),
        InvalidInputError,
        r"table {db}\.a_view is a view .*name the table that holds its data",
    ),
    "an ACID table": (
        lambda w: w.writer.create_table(w.df, f"{w.database}.new", properties={"transactional": "true"}),
        InvalidInputError,
        r"table {db}\.new was not made.*is a Hive ACID table .*: only Hive can write it; use a table with",
    ),
    "an engine that cannot write the format": (
        lambda w: w.write(
            table=w.make(f"CREATE TABLE {{name}} ({COLUMNS}) USING orc PARTITIONED BY (dt)", "orc"), engine="arrow"
        ),
        InvalidInputError,
        r"table {db}\.orc is stored as orc, and engine='arrow' writes Parquet only: leave engine out",
    ),
    "a path": (lambda w: w.write(table="s3a://b/orders"), InvalidInputError, r"'s3a://b/orders' is not a table name"),
    "no partitions": (
        lambda w: w.write(table=w.make("CREATE TABLE {name} (id BIGINT) USING parquet", "flat")),
        InvalidInputError,
        r"{db}\.flat is not partitioned.*use append .*or overwrite_table .*replaces the whole table",
    ),
    "the partition column is missing": (
        lambda w: w.write(w.df.drop("dt")),
        SchemaMismatchError,
        r".*{orders}.*missing in the DataFrame: 'dt'",
    ),
    "a misspelt column": (
        lambda w: w.write(w.df.withColumnRenamed("note", "notes")),
        SchemaMismatchError,
        r".*missing in the DataFrame: 'note'.*does not have: 'notes'",
    ),
    "a wrong type": (
        lambda w: w.write(w.df.withColumn("id", F.lit("one"))),
        SchemaMismatchError,
        r".*column id is string in the DataFrame and bigint in the table; cast it\.",
    ),
    "a column twice": (
        lambda w: w.write(w.df.select("*", F.lit("e").alias("note"))),
        SchemaMismatchError,
        r".*there twice: 'note' \(rename or drop one where it comes from; a join with on=\[…\] keeps one\)",
    ),
    "no rows": (lambda w: w.write(w.df.limit(0)), InvalidInputError, r".*has no rows.*if_empty"),
    "pandas": (
        lambda w: w.write(pd.DataFrame({"id": [1]})),
        InvalidInputError,
        r"df: expected a pyspark DataFrame, which spark\.createDataFrame\(\.\.\.\) makes, got a pandas.*DataFrame",
    ),
    "rows in a list": (
        lambda w: w.write([(1, "a", "d")]),
        InvalidInputError,
        r"df: expected a pyspark DataFrame, which spark\.createDataFrame\(\.\.\.\) makes, got a list",
    ),
    "a stream": (
        lambda w: w.write(w.spark.readStream.format("rate").load()),
        InvalidInputError,
        r"a streaming DataFrame cannot be written in one call: .*foreachBatch",
    ),
    "where with a misspelt column": (
        lambda w: w.write(where="day = 'd'"),
        InvalidInputError,
        r"where=\"day = 'd'\" is no predicate over the partition columns \(dt\) of {orders}: .*`day` cannot be",
    ),
    "where that is no SQL": (
        lambda w: w.write(where="dt = = 1"),
        InvalidInputError,
        r"where='dt = = 1' is no predicate",
    ),
    "rows that where does not select": (
        lambda w: w.write(where="dt = 'other'"),
        InvalidInputError,
        r"the DataFrame has rows in 1 partition of {orders} that where=.* does not select: dt=d .*Nothing was",
    ),
    "where in an append": (
        lambda w: w.writer.append(w.df, w.orders, where="dt = 'd'"),
        InvalidInputError,
        r"where belongs to overwrite_partitions; append has no predicate",
    ),
    "a misspelt mode": (
        lambda w: w.writer.plan(w.df, w.orders, mode="overwrite_partition"),
        InvalidInputError,
        r"mode='overwrite_partition': expected one of create_partitions \(replaces nothing.*overwrite_table",
    ),
    "a misspelt option": (
        lambda w: w.write(idempotence_key="x"),
        InvalidInputError,
        r"overwrite_partitions has no parameter idempotence_key; did you mean idempotency_key\?",
    ),
    "a misspelt value": (
        lambda w: w.write(if_empty="ignored"),
        InvalidInputError,
        r"if_empty='ignored': expected one of error, ignore, replace; did you mean ignore\?",
    ),
    "a text instead of a list": (
        lambda w: w.write(sort_by="id"),
        InvalidInputError,
        r"sort_by='id': expected a list of texts: write sort_by=\['id'\]",
    ),
    "a misspelt setting": (
        lambda _: TableWriterConfig(retentoin=timedelta(days=1)),  # type: ignore[call-arg]
        InvalidInputError,
        r"TableWriterConfig has no parameter retentoin; did you mean retention\?",
    ),
    "a retention without a unit": (
        lambda _: TableWriterConfig(retention=72),  # type: ignore[arg-type]
        InvalidInputError,
        r"retention=72: expected a timedelta, for example timedelta\(hours=24\)",
    ),
    "a table on HDFS": (
        lambda w: w.writer.create_table(w.df, f"{w.database}.new", location="hdfs://namenode/new"),
        InvalidInputError,
        r"table {db}\.new was not made, since no write could use it: hdfs://namenode/new/: hdfs:// is not supported",
    ),
    "a retention of days": (
        lambda w: w.writer.create_table(w.df, f"{w.database}.new", properties={"table_writer.retention": "3d"}),
        InvalidInputError,
        r"table {db}\.new was not made.*table_writer\.retention='3d' of {db}\.new is not a number of hours",
    ),
    "an unknown codec": (
        lambda w: w.writer.create_table(w.df, f"{w.database}.new", compression="zsdt"),
        InvalidInputError,
        r"table {db}\.new was not made.*codec 'zsdt' cannot be written; choose one of .*zstd",
    ),
    "a place around other tables": (
        lambda w: w.writer.create_table(w.df, f"{w.database}.new", location=w.place_of_database),
        InvalidInputError,
        r"table {db}\.new was not made.*contain each other; move one of the tables",
    ),
    "a misspelt partition column": (
        lambda w: w.writer.create_table(w.df, f"{w.database}.new", partition_by=["dtt"]),
        InvalidInputError,
        r"table {db}\.new cannot be made: partition_by names \['dtt'\], .*; did you mean dt\? Nothing was made",
    ),
    "no metastore": (
        lambda w: w.with_hadoop(hive__metastore__uris=""),
        InvalidInputError,
        r"no metastore is configured: set hive\.metastore\.uris to thrift://host:9083",
    ),
    "a metastore that is not there": (
        lambda w: w.with_hadoop(hive__metastore__uris="thrift://127.0.0.1:1"),
        MetastoreError,
        r"metastore not reachable at thrift://127\.0\.0\.1:1: .*Start it or set hive\.metastore\.uris",
    ),
    "a metastore that never answers": (
        lambda w: w.with_hadoop(hive__metastore__uris=w.silent_metastore),
        MetastoreError,
        r"metastore not reachable at thrift://127.*: no answer within 0\.5 s, which is metastore_timeout_seconds",
    ),
    "no S3 keys": (
        lambda w: w.with_hadoop(fs__s3a__access__key="", fs__s3a__secret__key=""),
        InvalidInputError,
        r".*fs\.s3a\.access\.key and fs\.s3a\.secret\.key are not set\. Set them",
    ),
    "an S3 endpoint that is not there": (
        lambda w: w.with_hadoop(fs__s3a__endpoint="http://127.0.0.1:1", fs__s3a__attempts__maximum="1"),
        StorageError,
        r"S3 can't be reached for s3://.*127\.0\.0\.1:1.*Check fs\.s3a\.endpoint",
    ),
    "a bucket that is not there": (
        lambda w: w.writer.create_table(w.df, f"{w.database}.new", location="s3a://nowhere/orders"),
        StorageError,
        r"the bucket does not exist at this endpoint: .*nowhere.*Check the location",
    ),
    "a check of a misspelt column": (
        lambda w: w.write(checks=[in_range("idd", min=0)]),
        InvalidInputError,
        r"check in_range\(idd, min=0\): {orders} has no column 'idd'; did you mean id\? It has 'id', 'note', 'dt'",
    ),
    "a check that was not called": (
        lambda w: w.write(checks=[not_null]),
        InvalidInputError,
        r"not_null is what makes a check: call it, with its columns",
    ),
    "rows that a check refuses": (
        lambda w: w.write(checks=[in_range("id", min=5)]),
        CheckFailedError,
        r"1 of 1 check of write .* failed; nothing was published to {orders}",
    ),
    "a version that is not there": (
        lambda w: w.keeper.rollback(w.orders, version=77),
        InvalidInputError,
        r".*77.*{orders}|.*{orders}.*77",
    ),
    "a time without a zone": (
        lambda w: w.writer.read(w.orders, as_of=datetime(2024, 1, 1)),  # noqa: DTZ001  # the mistake
        InvalidInputError,
        r".*as_of.*zone",
    ),
    "a vacuum of everything": (
        lambda w: w.keeper.vacuum(w.orders, older_than=timedelta(0)),
        InvalidInputError,
        r"an age of 0:00:00 is less than 1 day.* If none is left of {orders}: force=True, or --force",
    ),
    "publishing twice": (
        World.publish_twice,
        InvalidInputError,
        r"write .* of {orders} was published or discarded: nothing is staged any more",
    ),
    "a staged write of another table": (World.publish_anothers, InvalidInputError, r".*{db}\.other"),
}


@pytest.fixture(scope="module")
def silent() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:  # the system takes connections, and nobody reads them
        yield f"thrift://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture(scope="module")
def world(lakehouse: Lakehouse, silent: str) -> Iterator[World]:
    spark, database = lakehouse.spark, "of_a_new_user"
    spark.sql(f"CREATE DATABASE {database} LOCATION '{lakehouse.warehouse}/{database}.db'")
    orders = f"{database}.orders"
    spark.sql(f"CREATE TABLE {orders} ({COLUMNS}) USING parquet PARTITIONED BY (dt)")
    df = spark.createDataFrame([(1, "a", "d")], COLUMNS)
    writer = TableWriter(spark)
    writer.overwrite_partitions(df, orders)
    yield World(spark, writer, database, orders, df, silent)
    spark.sql(f"DROP DATABASE {database} CASCADE")


@pytest.fixture
def query_log() -> Iterator[list[logging.LogRecord]]:
    """Return what PySpark logs of failing queries, kilobytes each."""
    found: list[logging.LogRecord] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    kept = Kept()
    for one in QUERY_LOGGERS:
        one.addHandler(kept)
    yield found
    for one in QUERY_LOGGERS:
        one.removeHandler(kept)


def test_pyspark_logs_a_query_that_fails_elsewhere(world: World, query_log: list[logging.LogRecord]) -> None:
    with pytest.raises(PySparkException):
        world.df.where("no_such_column = 1").schema  # noqa: B018
    assert query_log


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_first_line_says_what_is_wrong_and_what_to_do(
    mistake: str, world: World, query_log: list[logging.LogRecord]
) -> None:
    call, kind, expected = MISTAKES[mistake]
    with pytest.raises(kind) as raised:
        call(world)
    [first, *_] = str(raised.value).splitlines()
    pattern = expected.format(db=world.database, orders=re.escape(world.orders))
    assert re.match(pattern, first), first
    assert query_log == []


def test_a_function_that_fails_is_told_of_before_and_after_its_error(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Exception, match="ZeroDivisionError") as raised:
        world.write(failing(world))
    said = f"nothing of this write was published to {world.orders}: it has changed no row that readers see"
    assert raised.value.__notes__ == [said]
    [line] = [one.getMessage() for one in caplog.records if said in one.getMessage()]
    assert line.startswith("write_id=2")
    assert world.spark.table(world.orders).count() == 1
