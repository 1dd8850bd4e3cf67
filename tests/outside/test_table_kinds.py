"""What readers take for a table's files is more than its SerDe and its location.

A table that ``writeStream.toTable`` made has ``_spark_metadata`` in its root: Spark lists that alone, and rows that
anybody else writes are never seen (SPARK-35565, apache/spark#32702). ``SymlinkTextInputFormat`` and
``HoodieParquetInputFormat`` have a Parquet SerDe and read other files: plain inserts are not seen (apache/hudi#480).
Athena computes where partitions are with ``projection.enabled``. A crawler of AWS Glue leaves
``skip.header.line.count`` on Parquet tables, of which Hive then skips a row a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from table_writer import InvalidInputError, Maintenance, TableWriter, read_arrow
from table_writer.model.location import Location
from table_writer.model.table import Column, Table, TableName
from table_writer.model.table_kind import HIVE, MAPRED, why_not_read, why_not_written
from table_writer.protocol.table.root_markers import why_marked
from table_writer.testing import Lakehouse
from table_writer.testing.memory_store import MemoryStore

PARQUET: Final = {
    "input_format": f"{HIVE}parquet.MapredParquetInputFormat",
    "output_format": f"{HIVE}parquet.MapredParquetOutputFormat",
    "serde": f"{HIVE}parquet.serde.ParquetHiveSerDe",
}
ORC: Final = {
    "input_format": f"{HIVE}orc.OrcInputFormat",
    "output_format": f"{HIVE}orc.OrcOutputFormat",
    "serde": f"{HIVE}orc.OrcSerde",
}
TEXT: Final = {
    "input_format": f"{MAPRED}TextInputFormat",
    "output_format": f"{HIVE}HiveIgnoreKeyTextOutputFormat",
    "serde": "org.apache.hadoop.hive.serde2.OpenCSVSerde",
}
SYMLINK: Final = f"{HIVE}SymlinkTextInputFormat"
USING: Final = {"spark.sql.sources.provider": "parquet", "spark.sql.partitionProvider": "catalog"}
BY_SPARK_ALONE: Final = {
    "input_format": f"{MAPRED}SequenceFileInputFormat",
    "output_format": f"{HIVE}HiveSequenceFileOutputFormat",
    "serde": "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
}
GOOD: Final = Table(
    name=TableName("mart", "orders"),
    kind="EXTERNAL_TABLE",
    location="s3a://lake/mart/orders/",
    columns=(Column("id", "bigint"),),
    partition_columns=(Column("dt", "string"),),
    **PARQUET,
)


def kind(**changes: Any) -> Table:
    return replace(GOOD, **changes)


def told(**parameters: str) -> Table:
    return replace(GOOD, parameters={name.replace("__", "."): value for name, value in parameters.items()})


TAKEN: Final = {
    "stored as parquet": GOOD,
    "managed": kind(kind="MANAGED_TABLE"),
    "stored as orc": kind(**ORC),
    "csv of Hive": kind(**TEXT),
    "json of Hive": kind(**TEXT | {"serde": "org.openx.data.jsonserde.JsonSerDe"}),
    "using parquet": kind(parameters=USING),
    "using parquet, as Hive cannot read it": kind(parameters=USING, **BY_SPARK_ALONE),
    "using csv": kind(parameters=USING | {"spark.sql.sources.provider": "csv"}, **BY_SPARK_ALONE),
    "parquet with the output format of text, as many made in Glue": kind(output_format=TEXT["output_format"]),
    "purged when dropped": told(external__table__purge="true"),
    "buckets of Hive 3": told(bucketing_version="2"),
    "columns by position": kind(serde_parameters={"parquet.column.index.access": "true"}),
    "of no reader by projection": told(projection__enabled="true", table_writer__ignore_projection="true"),
    "projection that is off": told(projection__enabled="false", storage__location__template="s3://x/${dt}"),
    "merged schemas": kind(parameters=USING, serde_parameters={"mergeSchema": "true"}),
    "an option that is off": kind(parameters=USING, serde_parameters={"recursiveFileLookup": "false"}),
    "no lines to skip": told(skip__header__line__count="0"),
    "not transactional": told(transactional="false"),
}
NOT_READ: Final = {
    "a view": (kind(kind="VIRTUAL_VIEW"), "is a view"),
    "a governed table": (kind(kind="GOVERNED"), "of the kind GOVERNED"),
    "symlinks": (kind(input_format=SYMLINK), "SymlinkTextInputFormat, which may take other files"),
    "hudi": (kind(input_format="org.apache.hudi.hadoop.HoodieParquetInputFormat"), "but hudi"),
    "old hudi": (kind(input_format="com.uber.hoodie.hadoop.HoodieInputFormat"), "but hudi"),
    "hudi by what its sync leaves": (told(last_commit_time_sync="20240101"), "but hudi"),
    "iceberg": (told(table_type="ICEBERG"), "but iceberg"),
    "iceberg by its metadata": (told(metadata_location="s3://x/metadata/1.metadata.json"), "but iceberg"),
    "iceberg by its handler": (
        told(storage_handler="org.apache.iceberg.mr.hive.HiveIcebergStorageHandler"),
        "but iceberg",
    ),
    "delta": (told(spark__sql__sources__provider="DELTA"), "but delta"),
    "delta by a class": (told(spark__sql__sources__provider="org.apache.spark.sql.delta.sources.DeltaX"), "but delta"),
    "delta by its properties": (told(delta__minReaderVersion="1"), "but delta"),
    "paimon": (told(table_type="PAIMON"), "but paimon"),
    "ACID": (told(transactional="true"), "ACID"),
    "insert only": (told(transactional="TRUE", transactional_properties="insert_only"), "ACID"),
    "hbase": (told(storage_handler="org.apache.hadoop.hive.hbase.HBaseStorageHandler"), "HBaseStorageHandler"),
    "lines of the LZO codec": (
        kind(**TEXT | {"input_format": "com.hadoop.mapred.DeprecatedLzoTextInputFormat"}),
        "STORED AS",
    ),
    "parquet with the input format of ORC": (kind(input_format=ORC["input_format"]), "is stored as parquet, and read"),
    "parquet with the input format of text": (kind(input_format=TEXT["input_format"]), "is stored as parquet"),
    "text with the input format of parquet": (kind(serde=TEXT["serde"]), "OpenCSVSerde"),
    "using parquet over ORC": (kind(parameters=USING, **ORC), "is stored as parquet, and read"),
    "a pattern of names": (kind(parameters=USING, serde_parameters={"pathglobfilter": "*.x"}), "pathGlobFilter"),
    "a pattern of names of a Hive table": (kind(serde_parameters={"pathGlobFilter": "*.x"}), "pathGlobFilter"),
    "files of an age": (kind(parameters=USING, serde_parameters={"modifiedAfter": "2024-01-01"}), "modifiedAfter"),
    "directories below": (kind(parameters=USING, serde_parameters={"recursiveFileLookup": "true"}), "recursive"),
    "partitions in names": (kind(parameters={"spark.sql.sources.provider": "parquet"}), "MSCK REPAIR TABLE"),
    "nowhere": (kind(location=""), "no location"),
}
NOT_WRITTEN: Final = {
    "projection": (told(projection__enabled="TRUE"), "partition projection.*table_writer.ignore_projection"),
    "list bucketing": (kind(has_skewed_directories=True), "STORED AS DIRECTORIES"),
    "a header": (told(skip__header__line__count="1"), "skip.header.line.count.*UNSET"),
    "a footer": (told(skip__footer__line__count="2"), "skip.footer.line.count"),
    "an output format of others": (kind(output_format="x.y.OutputFormat"), "written by x.y.OutputFormat"),
    "ORC with the output format of text": (kind(**ORC | {"output_format": TEXT["output_format"]}), "written by"),
}


@pytest.mark.parametrize("name", TAKEN)
def test_tables_whose_rows_are_what_lies_there_are_taken(name: str) -> None:
    assert why_not_written(TAKEN[name]) == why_not_read(TAKEN[name]) == ""


@pytest.mark.parametrize("name", NOT_READ)
def test_tables_that_are_read_otherwise_are_neither_written_nor_read(name: str) -> None:
    table, said = NOT_READ[name]
    assert said.lower() in why_not_read(table).lower()
    assert why_not_written(table) == why_not_read(table)


@pytest.mark.parametrize("name", NOT_WRITTEN)
def test_tables_in_which_some_reader_would_miss_new_rows_are_not_written(name: str) -> None:
    table, said = NOT_WRITTEN[name]
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(why_not_written(table))
    assert why_not_read(table) == ""


MARKED: Final[Mapping[str, str]] = {
    "_spark_metadata/0": "for_each_batch",
    "_delta_log/00000000000000000000.json": "Delta table",
    ".hoodie/hoodie.properties": "Hudi table",
    "_symlink_format_manifest/manifest": "lists of files",
    "metadata/v1.metadata.json": "Iceberg table",
    "base_0000001/bucket_00000": "Hive ACID",
    "delta_0000002_0000002_0000/bucket_00000": "Hive ACID",
}


@pytest.mark.parametrize("key", MARKED)
def test_a_root_with_the_marks_of_other_readers_is_known(key: str) -> None:
    store = MemoryStore()
    store.put("mart/orders/dt=1/a.parquet", b"x")
    store.put("mart/orders/metadata/notes.txt", b"x")
    root = Location.parse("s3://lake/mart/orders/")
    assert list(why_marked(store, root)) == []
    store.put(f"mart/orders/{key}", b"x")
    [reason] = why_marked(store, root)
    assert MARKED[key] in reason


def stream(spark: SparkSession, lakehouse: Lakehouse, name: str, location: str = "") -> None:
    """Let a file sink write two rows, into a table that it makes or into a directory."""
    source = f"{lakehouse.warehouse}/{name}-source"
    spark.createDataFrame([(1, "a"), (2, "b")], "id INT, dt STRING").coalesce(1).write.parquet(source)
    rows: Any = spark.readStream.schema("id INT, dt STRING").parquet(source).writeStream
    rows = rows.partitionBy("dt").format("parquet").trigger(availableNow=True)
    rows = rows.option("checkpointLocation", f"{lakehouse.directory}/{name}")
    (rows.start(location) if location else rows.toTable(name)).awaitTermination()


Attempt = Callable[[TableWriter, Any, str], object]
CALLS: Final[Mapping[str, Attempt]] = {
    "overwrite_partitions": lambda writer, df, table: writer.overwrite_partitions(df, table),
    "append": lambda writer, df, table: writer.append(df, table),
    "append in place": lambda writer, df, table: writer.append(df, table, carry="in_place"),
    "create_partitions": lambda writer, df, table: writer.create_partitions(df, table),
    "overwrite_table": lambda writer, df, table: writer.overwrite_table(df, table),
    "stage": lambda writer, df, table: writer.stage(df, table, mode="append"),
    "adopt": lambda writer, _, table: writer.adopt(table),
}


def require_refused(writer: TableWriter, df: Any, table: str, said: str) -> None:
    for name, attempt in CALLS.items():
        with pytest.raises(InvalidInputError, match=said) as raised:
            attempt(writer, df, table)
        assert raised.value.table == table, name
    errors = [one for one in writer.doctor(table).findings if one.check == "readers" and one.status == "error"]
    assert errors, "the doctor says so too"


@pytest.mark.slow
def test_a_table_that_a_file_sink_made_is_refused_by_every_call(
    spark: SparkSession, lakehouse: Lakehouse, lakehouse_database: str
) -> None:
    writer = TableWriter(spark)
    df = spark.createDataFrame([(10, "a"), (11, "c")], "id INT, dt STRING")
    made, stored = f"{lakehouse_database}.made", f"{lakehouse_database}.stored"
    stream(spark, lakehouse, made)
    require_refused(writer, df, made, "_spark_metadata/ is a list of files.*foreachBatch")
    root = f"{lakehouse.warehouse}/{lakehouse_database}.stored"
    stream(spark, lakehouse, stored, root)
    with pytest.raises(InvalidInputError, match="_spark_metadata"):
        writer.create_table(df, f"{lakehouse_database}.new", location=root, partition_by=["dt"])
    spark.sql(f"CREATE TABLE {stored} (id INT) PARTITIONED BY (dt STRING) STORED AS PARQUET LOCATION '{root}'")
    spark.sql(f"MSCK REPAIR TABLE {stored}")
    require_refused(writer, df, stored, "_spark_metadata")
    assert sorted(map(tuple, spark.table(made).collect())) == [(1, "a"), (2, "b")]


def test_a_stream_that_is_begun_on_a_table_of_ours_is_met_by_the_next_write_and_by_the_doctor(
    spark: SparkSession, lakehouse: Lakehouse, lakehouse_database: str
) -> None:
    writer, table = TableWriter(spark), f"{lakehouse_database}.orders"
    df = spark.createDataFrame([(10, "a")], "id INT, dt STRING")
    spark.sql(f"CREATE TABLE {table} (id INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    writer.append(df, table)
    assert [one.status for one in writer.doctor(table).findings if one.check == "readers"] == ["ok"]
    stream(spark, lakehouse, table)
    with pytest.raises(InvalidInputError, match="_spark_metadata/ is a list of files"):
        writer.append(df, table)
    [found] = [one for one in writer.doctor(table).findings if one.check == "readers"]
    assert found.status == "error"
    assert "_spark_metadata" in found.message


DDL: Final = {
    "SymlinkTextInputFormat": "(id INT) PARTITIONED BY (dt STRING) ROW FORMAT SERDE '{serde}' STORED AS INPUTFORMAT"
    f" '{SYMLINK}' OUTPUTFORMAT '{TEXT['output_format']}'",
    "pathGlobFilter": "(id INT, dt STRING) USING parquet OPTIONS (pathGlobFilter '*.x') PARTITIONED BY (dt)",
    "projection": "(id INT, dt STRING) USING parquet PARTITIONED BY (dt) TBLPROPERTIES ('projection.enabled' = 'true')",
    "skip.header": "(id INT) PARTITIONED BY (dt STRING) STORED AS PARQUET"
    " TBLPROPERTIES ('skip.header.line.count' = '1')",
}


def test_tables_that_the_metastore_describes_otherwise_are_refused_by_every_call(
    spark: SparkSession, lakehouse: Lakehouse, lakehouse_database: str
) -> None:
    writer, df = TableWriter(spark), spark.createDataFrame([(10, "a")], "id INT, dt STRING")
    for number, (said, ddl) in enumerate(DDL.items()):
        table = f"{lakehouse_database}.t{number}"
        spark.sql(f"CREATE TABLE {table} {ddl.format(serde=PARQUET['serde'])}")
        require_refused(writer, df, table, said)
    with pytest.raises(InvalidInputError, match="SymlinkTextInputFormat"):
        read_arrow(f"{lakehouse_database}.t0", metastore_uri=lakehouse.metastore_uri)
    projected = f"{lakehouse_database}.t2"
    spark.sql(f"ALTER TABLE {projected} SET TBLPROPERTIES ('table_writer.ignore_projection' = 'true')")
    assert writer.append(df, projected).rows == 1
    assert [one.status for one in writer.doctor(projected).findings if one.check == "readers"] == ["warning"]


def test_what_was_staged_is_not_published_into_a_table_that_was_changed_meanwhile(
    spark: SparkSession, lakehouse: Lakehouse, lakehouse_database: str
) -> None:
    writer, table = TableWriter(spark), f"{lakehouse_database}.orders"
    spark.sql(f"CREATE TABLE {table} (id INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    staged = writer.stage(spark.createDataFrame([(10, "a")], "id INT, dt STRING"), table, mode="append")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('projection.enabled' = 'true')")
    for publish in (staged.publish, lambda: Maintenance(services=writer._services).publish(table, staged.write_id)):
        with pytest.raises(InvalidInputError, match="partition projection"):
            publish()
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('projection.enabled')")
    assert staged.publish().rows == 1


def test_an_immutable_table_takes_no_appends_as_in_hive(spark: SparkSession, lakehouse_database: str) -> None:
    writer, table = TableWriter(spark), f"{lakehouse_database}.fixed"
    df = spark.createDataFrame([(10, "a")], "id INT, dt STRING")
    spark.sql(
        f"CREATE TABLE {table} (id INT, dt STRING) USING parquet PARTITIONED BY (dt)"
        " TBLPROPERTIES ('immutable' = 'true')"
    )
    assert writer.overwrite_partitions(df, table).rows == 1
    with pytest.raises(InvalidInputError, match="immutable"):
        writer.append(df, table)
