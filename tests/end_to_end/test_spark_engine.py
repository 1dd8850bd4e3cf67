"""Spark's own writer: every format and every bucket as its INSERT writes it, published as all else is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from table_writer import CheckFailedError, InvalidInputError, TableWriter
from table_writer.jobs.plan.types import table_schema
from table_writer.model.write import WritePlan, new_write_id
from table_writer.model.write_mode import WriteMode
from table_writer.spark import open_gateway
from table_writer.testing import Lakehouse
from tests.upload.rows_of_all_types import COLUMNS as ALL_COLUMNS
from tests.upload.rows_of_all_types import LOCAL_TIMESTAMPS, TIMESTAMPS
from tests.upload.rows_of_all_types import table as table_of

Make = Callable[..., str]
Content = Callable[[str], set[tuple[Any, ...]]]
Files = Callable[[], set[str]]

COLUMNS = "id INT, Note STRING, at DATE"
SOURCE = f"({COLUMNS}, Dt STRING, N INT) USING {{}} PARTITIONED BY (Dt, N)"
HIVE = f"({COLUMNS}) PARTITIONED BY (Dt STRING, N INT) {{}}"
FORMATS = {
    "orc": SOURCE.format("orc"),
    "Hive orc": HIVE.format("STORED AS ORC TBLPROPERTIES ('orc.compress'='ZLIB')"),
    "csv with header, null text and dates": SOURCE.format(
        "csv OPTIONS (header true, sep ';', nullValue 'NIL', dateFormat 'dd.MM.yyyy')"
    ),
    "json": SOURCE.format("json"),
    "delimited text": HIVE.format(
        "ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' NULL DEFINED AS 'NIL' STORED AS TEXTFILE"
    ),
    "Hive avro": HIVE.format("STORED AS AVRO"),
    "sequence file": HIVE.format("STORED AS SEQUENCEFILE"),
    "rcfile": HIVE.format("STORED AS RCFILE"),
    "Spark's buckets": SOURCE.format("parquet") + " CLUSTERED BY (ID) SORTED BY (id) INTO 3 BUCKETS",
    "Hive's buckets of parquet": HIVE.format("CLUSTERED BY (id) SORTED BY (id) INTO 3 BUCKETS STORED AS PARQUET"),
    "Hive's buckets of text": HIVE.format("CLUSTERED BY (id) INTO 3 BUCKETS STORED AS TEXTFILE"),
}
FAST = {"orc", "delimited text"}


@pytest.fixture
def source(spark: SparkSession) -> DataFrame:
    return spark.sql(
        "SELECT * FROM VALUES (1, 'a', DATE'2024-01-01', 'x/y z%', 1), (2, 'b|;', NULL, NULL, 2),"
        " (3, NULL, DATE'2024-01-03', '', 3), (4, 'ü', NULL, 'x/y z%', 1) AS v(id, note, at, dt, n)"
    )


@pytest.fixture
def data_files(lakehouse: Lakehouse, lakehouse_database: str) -> Files:
    """Return all objects of all writes, wherever their tables' locations are now."""

    def keys() -> set[str]:
        pages = lakehouse.s3.get_paginator("list_objects_v2").paginate(
            Bucket=lakehouse.bucket, Prefix=f"warehouse/{lakehouse_database}.db/"
        )
        found = {entry["Key"] for page in pages for entry in page.get("Contents", [])}
        return {key for key in found if "/_table_writer/data/" in key and not key.endswith("/")}

    return keys


@pytest.mark.parametrize(
    "kind", [pytest.param(one, marks=[] if one in FAST else [pytest.mark.slow]) for one in FORMATS]
)
def test_rows_read_back_as_after_sparks_own_insert(
    kind: str, spark: SparkSession, writer: TableWriter, make_table: Make, source: DataFrame, content: Content
) -> None:
    table = make_table(f"CREATE TABLE {{name}} {FORMATS[kind]}")
    inserted = make_table(f"CREATE TABLE {{name}} {FORMATS[kind]}", name="inserted")
    spark.conf.set("hive.exec.dynamic.partition.mode", "nonstrict")
    source.write.insertInto(inserted)
    spark.conf.unset("hive.exec.dynamic.partition.mode")
    result = writer.overwrite_partitions(source, table)
    assert content(table) == content(inserted)
    assert {(one.name, one.rows) for one in result.partitions} == {
        ("dt=x%2Fy z%25/n=1", 2),
        ("dt=__HIVE_DEFAULT_PARTITION__/n=2", 1),
        ("dt=__HIVE_DEFAULT_PARTITION__/n=3", 1),
    }
    assert buckets(spark, table) == buckets(spark, inserted)


def test_orc_of_all_types_reads_as_what_spark_itself_inserts(
    spark: SparkSession, writer: TableWriter, make_table: Make
) -> None:
    rows = table_of(spark, ALL_COLUMNS | TIMESTAMPS | LOCAL_TIMESTAMPS)
    columns = ", ".join(f"`{name}` {kind}" for name, kind in rows.dtypes)
    ours, sparks = (make_table(f"CREATE TABLE {{name}} ({columns}) USING orc", name=name) for name in ("a", "b"))
    writer.append(rows, ours)
    rows.write.insertInto(sparks)

    def texts(name: str) -> list[Any]:
        return spark.sql(
            f"SELECT to_json(struct(*), map('ignoreNullFields', 'false')) FROM {name} ORDER BY row"
        ).collect()

    assert texts(ours) == texts(sparks) != []
    assert spark.table(ours).schema == rows.schema


def buckets(spark: SparkSession, table: str) -> list[tuple[str, str]]:
    """Where files are by partition and bucket, as their names say: Hive's first characters, Spark's last."""
    found = spark.table(table).select(F.input_file_name().alias("file")).where("file != ''").distinct().collect()
    names = [row.file.rpartition("/")[2].split(".")[0].split("-") for row in found]
    return sorted((name[0], name[-1].partition("_")[2]) for name in names)


def test_nothing_but_the_tables_files_is_left_and_the_catalog_never_heard_of_others(
    spark: SparkSession, writer: TableWriter, make_table: Make, source: DataFrame, data_files: Files
) -> None:
    table = make_table("CREATE TABLE {name} (id INT, note STRING) USING csv")
    before = spark.catalog.listTables(table.split(".")[0])
    result = writer.overwrite_table(source.select("id", "note"), table)
    assert len(data_files()) == result.partitions[0].files > 0
    assert all(key.endswith(".csv") for key in data_files())
    assert spark.catalog.listTables(table.split(".")[0]) == before


def test_no_rows_leave_no_file(
    writer: TableWriter, make_table: Make, source: DataFrame, data_files: Files, content: Content
) -> None:
    table = make_table("CREATE TABLE {name} (id INT, note STRING) USING csv OPTIONS (header true)")
    rows = source.select("id", "note")
    writer.overwrite_table(rows, table)
    before = data_files()
    writer.append(rows.limit(0), table, if_empty="ignore")
    assert data_files() == before != set()
    writer.overwrite_table(rows.limit(0), table, if_empty="replace")
    assert content(table) == set()


def test_appended_files_keep_their_buckets_so_that_joins_need_no_exchange(
    spark: SparkSession, writer: TableWriter, make_table: Make
) -> None:
    table = make_table(
        "CREATE TABLE {name} (id BIGINT, dt STRING) USING parquet PARTITIONED BY (dt) CLUSTERED BY (id) INTO 4 BUCKETS"
    )
    for _ in range(2):
        writer.append(spark.range(50).withColumn("dt", F.lit("d")), table)
    join = spark.sql(f"SELECT /*+ MERGE(a) */ * FROM {table} a JOIN {table} b ON a.id = b.id")
    plan = join._jdf.queryExecution().executedPlan().toString()
    assert "SortMergeJoin" in plan
    assert "Exchange" not in plan
    assert join.count() == 200


def test_an_evolved_csv_table_has_the_new_column(
    writer: TableWriter, make_table: Make, source: DataFrame, content: Content
) -> None:
    table = make_table("CREATE TABLE {name} (id INT) PARTITIONED BY (dt STRING) STORED AS TEXTFILE")
    rows = source.where("id = 1").select("id", "note", "dt")
    writer.append(rows, table, schema="evolve")
    assert content(table) == {(1, "a", "x/y z%")}


@pytest.mark.parametrize("stored_as", ["TEXTFILE", "ORC", "SEQUENCEFILE"])
def test_staged_rows_are_filtered_by_partition_columns(
    spark: SparkSession, writer: TableWriter, make_table: Make, stored_as: str
) -> None:
    table = make_table(f"CREATE TABLE {{name}} (id INT) PARTITIONED BY (dt STRING, hour INT) STORED AS {stored_as}")
    rows = {(1, "d1", 1), (2, "d2", 1), (3, "d2", 2)}
    df = spark.createDataFrame(sorted(rows), "id INT, dt STRING, hour INT")
    with writer.stage(df, table, "append") as staged:
        seen = staged.dataframe()
        days = spark.createDataFrame([("d2",)], "dt STRING")
        for found, wanted in (
            (seen.where("dt = 'd2'"), {2, 3}),
            (seen.where("dt = 'd2' AND hour = 2 AND id > 0"), {3}),
            (seen.where("substring(dt, 2) = '1'"), {1}),
            (seen.join(days, "dt"), {2, 3}),
            (seen.select("id", "dt").where("dt = 'd1'").select("id"), {1}),
        ):
            assert {row.id for row in found.collect()} == wanted
        assert seen.where("dt = 'd2'").count() == 2


def test_sessions_compression_of_hive_files_is_followed(
    spark: SparkSession, writer: TableWriter, make_table: Make, source: DataFrame, data_files: Files
) -> None:
    table = make_table("CREATE TABLE {name} (id INT) STORED AS TEXTFILE")
    settings = {
        "hive.exec.compress.output": "true",
        "mapreduce.output.fileoutputformat.compress.codec": "org.apache.hadoop.io.compress.GzipCodec",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        writer.append(source.select("id"), table)
    finally:
        for name in settings:
            spark.conf.unset(name)
    assert {key.rpartition(".")[2] for key in data_files()} == {"gz"}
    assert spark.table(table).count() == 4


def test_a_streaming_query_writes_its_batches(
    spark: SparkSession, writer: TableWriter, make_table: Make, lakehouse: Lakehouse, content: Content
) -> None:
    table = make_table("CREATE TABLE {name} (id INT) PARTITIONED BY (Dt STRING) STORED AS AVRO")
    place = f"{lakehouse.warehouse}/{table}"
    spark.createDataFrame([(1, "d"), (2, "e")], "id INT, dt STRING").write.json(f"{place}.in")
    stream = spark.readStream.schema("id INT, dt STRING").json(f"{place}.in").writeStream
    query = (
        stream.foreachBatch(writer.for_each_batch(table, mode="append", query_name="q"))
        .option("checkpointLocation", f"{place}.checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(60)
    finally:
        query.stop()
    assert content(table) == {(1, "d"), (2, "e")}


ONLY_READS = "SERDE 'org.apache.hadoop.hive.serde2.RegexSerDe' WITH SERDEPROPERTIES ('input.regex'='(.*) (.*)')"
REFUSED = {
    "only reads": (f"(a STRING, b STRING) ROW FORMAT {ONLY_READS} STORED AS TEXTFILE", "serialize"),
    "header lines": (
        "(a STRING, b STRING) STORED AS TEXTFILE TBLPROPERTIES ('skip.header.line.count'='1')",
        "skip.header.line.count",
    ),
    "Hive 3's buckets": (
        "(a INT) CLUSTERED BY (a) INTO 2 BUCKETS STORED AS TEXTFILE TBLPROPERTIES ('bucketing_version'='2')",
        "bucketing_version=2",
    ),
    "a source that only reads": ("(a STRING) USING binaryFile", "binary file"),
    "types": ("(a STRING) USING csv", "MAP"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_spark_cannot_write_is_refused_with_its_reason(
    why: str, spark: SparkSession, writer: TableWriter, make_table: Make, data_files: Files
) -> None:
    ddl, reason = REFUSED[why]
    table = make_table(f"CREATE TABLE {{name}} {ddl}")
    kinds = {"b": "MAP<INT, INT>"} | dict(spark.table(table).dtypes)
    rows = spark.range(1).select(*(F.lit(None).cast(kind).alias(name) for name, kind in kinds.items()))
    with pytest.raises(InvalidInputError, match=reason) as caught:
        writer.append(rows, table, schema="evolve")
    assert table in caught.value.message
    assert "Nothing was written" in caught.value.message
    assert data_files() == set()


def test_a_serde_whose_own_schema_lacks_a_column_is_refused_for_it_would_drop_it(
    writer: TableWriter, make_table: Make, source: DataFrame
) -> None:
    field = '{"name":"id","type":["null","int"]}'
    literal = f'{{"type":"record","name":"r","fields":[{field}]}}'
    properties = f"('avro.schema.literal'='{literal}')".replace("{", "{{").replace("}", "}}")
    table = make_table(f"CREATE TABLE {{name}} (id INT) STORED AS AVRO TBLPROPERTIES {properties}")
    with pytest.raises(InvalidInputError, match=r"schema of its own .* 1 columns, these rows have 2"):
        writer.append(source.select("id", "note"), table, schema="evolve")


def test_a_data_source_without_its_jar_is_named(spark: SparkSession, writer: TableWriter, make_table: Make) -> None:
    table = make_table("CREATE TABLE {name} (id INT) USING json")
    services = writer._services.open_to_write(table)
    plan = WritePlan(
        write_id=new_write_id(),
        mode=WriteMode.APPEND,
        table=replace(services.table, parameters={"spark.sql.sources.provider": "avro"}),
        layout=services.layout,
        schema="",
        base_version=0,
        checkpoint=0,
        in_doubt=frozenset(),
        created_at=datetime.now(UTC),
    )
    with pytest.raises(InvalidInputError, match=r"(?i)avro.*Nothing was written"):
        open_gateway(spark).files(plan, table_schema(services.table))


def test_line_breaks_that_would_become_rows_are_not_published(
    spark: SparkSession, writer: TableWriter, make_table: Make, data_files: Files, content: Content
) -> None:
    table = make_table("CREATE TABLE {name} (id INT, note STRING, dt STRING) USING csv PARTITIONED BY (dt)")
    rows = spark.createDataFrame([(1, "two\nlines", "d"), (2, "one", "d")], "id INT, note STRING, dt STRING")
    with pytest.raises(CheckFailedError, match=r"2 rows were written .* and 3 are read back"):
        writer.append(rows, table)
    assert content(table) == set()
    assert data_files() == set()


def test_a_failure_of_the_users_code_passes_and_leaves_nothing(
    spark: SparkSession, writer: TableWriter, make_table: Make, data_files: Files
) -> None:
    @F.udf("int")
    def broken(number):
        raise LookupError(f"no such {number}")

    table = make_table("CREATE TABLE {name} (id INT) STORED AS SEQUENCEFILE")
    with pytest.raises(PythonException, match="no such"):
        writer.append(spark.range(2).select(broken("id").alias("id")), table)
    assert data_files() == set()


def test_dates_in_partition_columns_are_named_as_spark_names_them(
    spark: SparkSession, writer: TableWriter, make_table: Make, content: Content
) -> None:
    table = make_table("CREATE TABLE {name} (id INT, Day DATE) USING json PARTITIONED BY (Day)")
    rows = spark.sql("SELECT 1 AS id, DATE'2024-01-01' AS day")
    for _ in range(2):
        result = writer.overwrite_partitions(rows, table)
    assert result.partitions[0].name == "day=2024-01-01"
    assert content(table) == {(1, date(2024, 1, 1))}
