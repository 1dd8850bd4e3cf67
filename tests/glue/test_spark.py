"""Spark writes through moto's Glue, over HTTP; what was written is read at the locations that Glue has.

Spark's own catalog is a Hive metastore here: a session that asks Glue needs the jars of EMR or of a Glue job. A check
that reads rows asks that catalog for the table's description, so such a table is made in both.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from moto.server import ThreadedMotoServer
from pyspark.sql import DataFrame, SparkSession

from table_writer import (
    CheckFailedError,
    GlueSettings,
    InvalidInputError,
    Maintenance,
    PartitionExistsError,
    TableWriter,
    TableWriterConfig,
)
from table_writer.check import not_null
from table_writer.metastore.glue import make_clients
from table_writer.model.table import Column, Table, TableName
from table_writer.testing.embedded import Lakehouse
from tests.doubles.glue import table_input

SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
FORMATS = "org.apache.hadoop.hive.ql.io.parquet.MapredParquet"
Rows = Callable[..., DataFrame]


@pytest.fixture(scope="module")
def config() -> Iterator[TableWriterConfig]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ACCESS_KEY_ID", "x")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "x")
        server.start()
        host, port = server.get_host_and_port()
        glue = GlueSettings(region="us-east-1", endpoint_url=f"http://{host}:{port}", column_statistics="delete")
        make_clients(glue).changes.create_database(DatabaseInput={"Name": "mart"})
        yield TableWriterConfig(metastore="glue", glue=glue)
        server.stop()


@pytest.fixture
def writer(spark: SparkSession, config: TableWriterConfig) -> TableWriter:
    return TableWriter(spark, config=config)


@pytest.fixture
def make(config: TableWriterConfig, lakehouse: Lakehouse) -> Callable[..., str]:
    def made(*partition_columns: str, name: TableName | None = None) -> str:
        name = name or TableName("mart", f"t{uuid.uuid4().hex[:8]}")
        data = [Column("id", "bigint"), Column("dt", "string")]
        table = Table(
            name=name,
            kind="EXTERNAL_TABLE",
            location=f"s3a://{lakehouse.bucket}/glue/{name.name}/",
            columns=tuple(one for one in data if one.name not in partition_columns),
            partition_columns=tuple(one for one in data if one.name in partition_columns),
            input_format=f"{FORMATS}InputFormat",
            output_format=f"{FORMATS}OutputFormat",
            serde=SERDE,
        )
        client = make_clients(config.glue).changes
        client.create_table(DatabaseName=name.database, TableInput=table_input(table))
        return str(name)

    return made


@pytest.fixture
def known_to_spark(spark: SparkSession, make: Callable[..., str], lakehouse: Lakehouse) -> Iterator[str]:
    """Return a table that Spark's own catalog describes too, as it does where the session asks Glue."""
    table = make("dt")
    where = f"s3a://{lakehouse.bucket}/glue/{table.partition('.')[2]}"
    spark.sql("CREATE DATABASE mart")
    spark.sql(
        f"CREATE EXTERNAL TABLE {table} (id BIGINT) PARTITIONED BY (dt STRING) STORED AS PARQUET LOCATION '{where}'"
    )
    yield table
    spark.sql("DROP DATABASE mart CASCADE")


@pytest.fixture
def rows(spark: SparkSession) -> Rows:
    return lambda *values: spark.createDataFrame(list(values), "id BIGINT, dt STRING")


@pytest.fixture
def content(spark: SparkSession, writer: TableWriter) -> Callable[[str], set[tuple[Any, ...]]]:
    def read(table: str) -> set[tuple[Any, ...]]:
        metastore = writer._services.metastore
        found = metastore.get_table(TableName.parse(table))
        assert found is not None
        return {
            (row["id"], values[0] if values else row["dt"])
            for values, one in metastore.get_all_partitions(found).items()
            for row in spark.read.parquet(one.location).collect()
        }

    return read


@pytest.mark.slow
def test_every_mode_writes_partitions_through_glue(
    writer: TableWriter, make: Callable[..., str], rows: Rows, content: Callable[[str], set[Any]]
) -> None:
    table = make("dt")
    first = writer.overwrite_partitions(rows((1, "a"), (2, "b")), table)
    assert first.metastore_calls["BatchCreatePartition"] == 1
    assert any("one after another" in note for note in first.notes)
    writer.append(rows((3, "a")), table, idempotency_key="k")
    assert writer.append(rows((3, "a")), table, idempotency_key="k").repeated
    writer.create_partitions(rows((4, "c")), table)
    with pytest.raises(PartitionExistsError):
        writer.create_partitions(rows((5, "c")), table)
    assert content(table) == {(1, "a"), (3, "a"), (2, "b"), (4, "c")}
    writer.overwrite_partitions(rows((6, "a")), table, where="dt < 'c'")
    assert content(table) == {(6, "a"), (4, "c")}
    writer.overwrite_table(rows((7, "d")), table)
    assert content(table) == {(7, "d")}


@pytest.mark.slow
def test_names_with_hyphens_are_written_in_backquotes_or_without(
    writer: TableWriter,
    make: Callable[..., str],
    rows: Rows,
    content: Callable[[str], set[Any]],
    config: TableWriterConfig,
) -> None:
    assert config.glue is not None
    make_clients(config.glue).changes.create_database(DatabaseInput={"Name": "my-db"})
    make("dt", name=TableName("my-db", "my-table"))
    result = writer.overwrite_partitions(rows((1, "a")), "`my-db`.`my-table`")
    assert any(note.endswith("REFRESH TABLE `spark_catalog`.`my-db`.`my-table`") for note in result.notes)
    writer.stage(rows((2, "b")), "My-DB.my-table", mode="append").publish()
    assert content(result.table) == {(1, "a"), (2, "b")}


def test_an_unpartitioned_table_is_overwritten_appended_to_and_rolled_back(
    writer: TableWriter, make: Callable[..., str], rows: Rows, content: Callable[[str], set[Any]]
) -> None:
    table = make()
    writer.overwrite_table(rows((1, "a")), table)
    result = writer.append(rows((2, "b")), table)
    assert result.metastore_calls["UpdateTable"] == 1
    assert content(table) == {(1, "a"), (2, "b")}
    Maintenance(services=writer._services).rollback(table, version=1)
    assert content(table) == {(1, "a")}


@pytest.mark.slow
def test_a_staged_and_checked_write_is_published_rolled_back_restored_and_vacuumed(
    writer: TableWriter, known_to_spark: str, rows: Rows, content: Callable[[str], set[Any]], config: TableWriterConfig
) -> None:
    table = known_to_spark
    writer.overwrite_partitions(rows((1, "a"), (2, "b")), table)
    with pytest.raises(CheckFailedError):
        writer.overwrite_partitions(rows((None, "a")), table, checks=[not_null("id")])
    staged = writer.stage(rows((10, "a"), (30, "c")), table, mode="overwrite_partitions", checks=[not_null("id")])
    assert content(table) == {(1, "a"), (2, "b")}
    staged.publish()
    assert content(table) == {(10, "a"), (2, "b"), (30, "c")}
    keeper = Maintenance(services=writer._services)
    keeper.rollback(table, version=1)
    assert content(table) == {(1, "a"), (2, "b")}
    make_clients(config.glue).changes.delete_partition(
        DatabaseName="mart", TableName=table.partition(".")[2], PartitionValues=["b"]
    )
    keeper.restore(table)
    assert content(table) == {(1, "a"), (2, "b")}
    keeper.vacuum(table, older_than=timedelta(0), force=True)
    assert content(table) == {(1, "a"), (2, "b")}
    assert keeper.recover(table).settled == {}


def test_a_table_that_glue_does_not_know_is_named_with_its_catalog(writer: TableWriter, rows: Rows) -> None:
    with pytest.raises(InvalidInputError, match=r"mart\.nope .*glue://us-east-1"):
        writer.overwrite_partitions(rows((1, "a")), "mart.nope")
