"""Every bad call fails with a clear error before anything is written."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession

from table_writer import (
    InvalidInputError,
    MetastoreError,
    SchemaMismatchError,
    StorageError,
    TableWriter,
    TableWriterConfig,
    TableWriterError,
)
from table_writer.testing import Lakehouse

Make = Callable[..., str]
Keys = Callable[[str], set[str]]

BAD_TABLES = {
    "CREATE VIEW {name} AS SELECT 1 AS id, 'd' AS dt": "is a view",
    "CREATE TABLE {name} (id BIGINT, note STRING, dt STRING) USING parquet": "is not partitioned",
}


@pytest.mark.parametrize("ddl", BAD_TABLES, ids=BAD_TABLES.values())
def test_a_table_that_cannot_be_written_is_refused_with_the_reason(
    ddl: str, writer: TableWriter, make_table: Make, rows: Callable[..., DataFrame], lakehouse: Lakehouse
) -> None:
    table = make_table(ddl)
    with pytest.raises(InvalidInputError, match=BAD_TABLES[ddl]) as raised:
        writer.overwrite_partitions(rows((1, "a", "d")), table)
    assert table in str(raised.value)
    listed = lakehouse.s3.list_objects_v2(Bucket=lakehouse.bucket, Prefix=f"warehouse/{table.split('.')[0]}.db/")
    assert not [found for found in listed.get("Contents", []) if "_table_writer" in found["Key"]]


def test_arrow_is_refused_where_it_cannot_write_the_format(
    writer: TableWriter, make_table: Make, rows: Callable[..., DataFrame], keys_below: Keys
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, note STRING, dt STRING) USING orc PARTITIONED BY (dt)")
    with pytest.raises(InvalidInputError, match=r"is stored as orc, .* leave engine out") as raised:
        writer.overwrite_partitions(rows((1, "a", "d")), table, engine="arrow")
    assert table in str(raised.value)
    assert keys_below(table) == set()


@pytest.mark.parametrize(
    "name", ["nowhere.orders", "no_such_table", "a.b.c.d", "", "mart.`x y`", "a/../b", "mart.orders; DROP"]
)
def test_a_table_that_is_not_there_or_no_name_is_refused(
    name: str, writer: TableWriter, rows: Callable[..., DataFrame]
) -> None:
    with pytest.raises(InvalidInputError):
        writer.overwrite_partitions(rows((1, "a", "d")), name)


BAD_FRAMES = {
    "SELECT 1L AS id, 'd' AS dt": "missing in the DataFrame: 'note'",
    "SELECT 1L AS id, 'a' AS note": "missing in the DataFrame: 'dt'",
    "SELECT 1L AS id, 'a' AS note, 'd' AS dt, 1 AS more": "the table does not have: 'more'",
    "SELECT 'x' AS id, 'a' AS note, 'd' AS dt": "column id is string in the DataFrame and bigint in the table",
    "SELECT 1.5D AS id, 'a' AS note, 'd' AS dt": "column id is double in the DataFrame and bigint in the table",
    "SELECT 1L AS id, array('a') AS note, 'd' AS dt": "column note is array<string>",
    "SELECT 1L AS id, 1L AS ID, 'a' AS note, 'd' AS dt": "differ only by case",
    "SELECT 1L AS id, 'a' AS note, 'd' AS dt, 'e' AS dt": "there twice",
}


@pytest.mark.parametrize("query", BAD_FRAMES)
def test_a_dataframe_that_does_not_fit_is_refused_with_both_types(
    query: str, spark: SparkSession, writer: TableWriter, orders: str, keys_below: Keys
) -> None:
    with pytest.raises(SchemaMismatchError) as raised:
        writer.overwrite_partitions(spark.sql(query), orders)
    assert BAD_FRAMES[query] in str(raised.value)
    assert orders in str(raised.value)
    assert keys_below(orders) == set()


def test_a_streaming_dataframe_is_refused_with_the_way_to_write_it(
    spark: SparkSession, writer: TableWriter, orders: str
) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(InvalidInputError, match="foreachBatch"):
        writer.overwrite_partitions(stream, orders)


def test_an_unknown_if_empty_is_refused(writer: TableWriter, orders: str, rows: Callable[..., DataFrame]) -> None:
    with pytest.raises(InvalidInputError, match="if_empty='skip': expected one of error, ignore, replace"):
        writer.overwrite_partitions(rows((1, "a", "d")), orders, if_empty="skip")  # type: ignore[arg-type]


def test_something_that_is_no_dataframe_is_refused(writer: TableWriter, orders: str) -> None:
    with pytest.raises(InvalidInputError, match="list"):
        writer.overwrite_partitions([(1, "a", "d")], orders)  # type: ignore[arg-type]


BAD_SETTINGS: dict[str, tuple[dict[str, str], type[TableWriterError], str]] = {
    "metastore down": ({"hive.metastore.uris": "thrift://127.0.0.1:1"}, MetastoreError, "127.0.0.1:1"),
    "no metastore": ({"hive.metastore.uris": ""}, InvalidInputError, "hive.metastore.uris"),
    "Glue down": (
        {
            "hive.metastore.client.factory.class": "com.amazonaws.glue.catalog.metastore.ClientFactory",
            "aws.glue.endpoint": "http://127.0.0.1:1",
            "aws.region": "eu-west-1",
        },
        MetastoreError,
        "glue://eu-west-1",
    ),
    "S3 down": ({"fs.s3a.endpoint": "http://127.0.0.1:1", "fs.s3a.attempts.maximum": "1"}, StorageError, "127.0.0.1:1"),
    "unknown credentials": (
        {"fs.s3a.aws.credentials.provider": "com.example.MyProvider"},
        InvalidInputError,
        "com.example.MyProvider",
    ),
    "no credentials": ({"fs.s3a.access.key": "", "fs.s3a.secret.key": ""}, TableWriterError, "credential"),
}


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_what_cannot_be_reached_or_used_is_named(
    case: str, spark: SparkSession, orders: str, rows: Callable[..., DataFrame]
) -> None:
    settings, kind, said = BAD_SETTINGS[case]
    with pytest.raises(kind) as raised:
        TableWriter(spark, config=TableWriterConfig(hadoop=settings)).overwrite_partitions(rows((1, "a", "d")), orders)
    first_line = str(raised.value).splitlines()[0]
    assert said in first_line
    assert "Traceback" not in first_line


def test_a_bucket_that_does_not_exist_is_named(
    spark: SparkSession, writer: TableWriter, make_table: Make, rows: Callable[..., DataFrame], lakehouse: Lakehouse
) -> None:
    lakehouse.s3.create_bucket(Bucket="shortlived")
    table = make_table(
        "CREATE TABLE {name} (id BIGINT, note STRING, dt STRING) USING parquet PARTITIONED BY (dt)"
        " LOCATION 's3a://shortlived/t'"
    )
    for found in lakehouse.s3.list_objects_v2(Bucket="shortlived").get("Contents", []):
        lakehouse.s3.delete_object(Bucket="shortlived", Key=found["Key"])
    lakehouse.s3.delete_bucket(Bucket="shortlived")
    with pytest.raises(StorageError, match="shortlived"):
        writer.overwrite_partitions(rows((1, "a", "d")), table)


@pytest.mark.parametrize(("name", "hours"), [("retentions", "72"), ("retention", "100000000")])
def test_a_property_that_is_not_understood_is_refused_at_the_plan(
    name: str,
    hours: str,
    spark: SparkSession,
    writer: TableWriter,
    orders: str,
    rows: Callable[..., DataFrame],
    keys_below: Keys,
) -> None:
    spark.sql(f"ALTER TABLE {orders} SET TBLPROPERTIES ('table_writer.{name}' = '{hours}')")
    for call in (writer.plan, writer.append, writer.stage):
        with pytest.raises(InvalidInputError, match=f"table_writer.{name}"):
            call(rows((1, "a", "d")), orders)
    assert keys_below(orders) == set()
    [finding] = [one for one in writer.doctor(orders).findings if one.check == "table properties"]
    assert finding.status == "error"


def test_a_table_created_again_on_old_files_is_refused_until_it_is_adopted(
    spark: SparkSession, writer: TableWriter, make_table: Make, rows: Callable[..., DataFrame], lakehouse: Lakehouse
) -> None:
    ddl = (
        "CREATE TABLE {name} (id BIGINT, note STRING, dt STRING) USING parquet PARTITIONED BY (dt)"
        f" LOCATION '{lakehouse.warehouse}/again'"
    )
    first = make_table(ddl, "first")
    writer.overwrite_partitions(rows((1, "a", "d")), first)
    spark.sql(f"DROP TABLE {first}")
    made_at = int(time.time())
    while int(time.time()) == made_at:  # the metastore counts creation in whole seconds
        time.sleep(0.05)
    second = make_table(ddl, "second")
    with pytest.raises(InvalidInputError, match="adopt"):
        writer.overwrite_partitions(rows((2, "b", "d")), second)
    writer.adopt(second)
    assert [row.id for row in spark.table(second).collect()] == [1]
    writer.overwrite_partitions(rows((2, "b", "d")), second)
    assert [row.id for row in spark.table(second).collect()] == [2]
