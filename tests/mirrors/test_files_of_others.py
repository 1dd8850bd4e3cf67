"""Files that others wrote: readers of a mirror find in them what Spark finds in the table, or the file is refused."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from table_writer import Maintenance, TableWriter, TableWriterConfig
from table_writer.errors import InvalidInputError
from table_writer.testing import Lakehouse
from tests.cells import first_fast

from .comparing import differing
from .iceberg_readers import IcebergReader
from .others import DDL, HIVES, SPELLINGS, another, people
from .readers import DeltaReader


@pytest.fixture(autouse=True)
def _planned_by_pyiceberg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")  # else Polars warns that it has no other


@pytest.fixture
def put(spark: SparkSession, lakehouse: Lakehouse, writer: TableWriter) -> Callable[[str, str, pa.Table], str]:
    """Put a file of another tool into a partition of a table; returns its key."""

    def put_file(table: str, partition: str, rows: pa.Table) -> str:
        body = io.BytesIO()
        pq.write_table(rows, body)
        described = spark.sql(f"DESCRIBE FORMATTED {table}").where("col_name = 'Location'").first()
        assert described is not None
        key = f"{described[1].split('/', 3)[3]}/{partition.replace(chr(39), '')}/theirs.parquet"
        lakehouse.s3.put_object(Bucket=lakehouse.bucket, Key=key, Body=body.getvalue())
        spark.sql(f"ALTER TABLE {table} ADD IF NOT EXISTS PARTITION ({partition})")
        spark.sql(f"REFRESH TABLE {table}")
        return key

    return put_file


def assert_read_alike(spark: SparkSession, lakehouse: Lakehouse, writer: TableWriter, table: str, kind: str) -> None:
    """Two readers of a mirror find what Spark finds in the table, nested fields too."""
    names = spark.table(table).columns
    reader: Any = DeltaReader(lakehouse, writer, table) if kind == "delta" else IcebergReader(lakehouse, table)
    assert differing(spark, table, reader.rows(names)) == []
    assert differing(spark, table, reader.rows_by_polars(names)) == []


@pytest.mark.parametrize("spelling", first_fast(SPELLINGS, 3))
@pytest.mark.parametrize("ddl", [DDL, HIVES], ids=["Spark's table", "Hive's table"])
def test_files_in_any_spelling_are_read_by_the_mirror_as_by_the_table_or_refused_by_name(
    ddl: str,
    spelling: str,
    spark: SparkSession,
    lakehouse: Lakehouse,
    writer: TableWriter,
    keeper: Maintenance,
    make_table: Callable[..., str],
    put: Callable[[str, str, pa.Table], str],
) -> None:
    table = make_table(ddl.replace("{stored}", "USING parquet"))
    plain = TableWriter(spark)
    plain.append(another(spark, table, 3, "b"), table)
    put(table, "dt='a'", people(SPELLINGS[spelling]))
    assert keeper.mirror(table, as_="iceberg").state == "in step"
    assert_read_alike(spark, lakehouse, writer, table, "iceberg")
    is_exact = all(SPELLINGS[spelling](name) == name for name in ("userId", "Amount", "home", "City")) and ddl == DDL
    is_exact = is_exact or (ddl == HIVES and spelling == "lower")
    if not is_exact:
        with pytest.raises(InvalidInputError, match=r"dt=a/theirs\.parquet of .* spells column .*Overwrite dt=a with"):
            keeper.mirror(table, as_="delta")
        checked = keeper.mirror(table, as_="delta", check=True)
        assert [found.key.rpartition("/")[2] for found in checked.differences] == ["theirs.parquet"]
        assert "spells column" in checked.differences[0].state
    plain.append(another(spark, table, 4, "a"), table)  # copies the file of the other tool
    assert keeper.mirror(table, as_="iceberg").state == "in step"
    assert_read_alike(spark, lakehouse, writer, table, "iceberg")
    if not is_exact:
        with pytest.raises(InvalidInputError, match=r"theirs\.parquet of .* spells column"):
            keeper.handover(table, to="delta")
        plain.overwrite_partitions(spark.table(table).where("dt = 'a'"), table)  # as the message says
    assert keeper.mirror(table, as_="delta").state == "in step"
    assert_read_alike(spark, lakehouse, writer, table, "delta")
    assert keeper.mirror(table, as_="iceberg").state == "in step"
    assert_read_alike(spark, lakehouse, writer, table, "iceberg")


def test_an_append_that_copies_such_a_file_is_published_and_its_note_says_what_to_do(
    spark: SparkSession,
    lakehouse: Lakehouse,
    writer: TableWriter,
    keeper: Maintenance,
    make_table: Callable[..., str],
    put: Callable[[str, str, pa.Table], str],
) -> None:
    table = make_table(DDL.replace("{stored}", "USING parquet"))
    assert writer.append(another(spark, table, 3, "b"), table).notes == ()
    put(table, "dt='a'", people(str.lower))
    first = writer.append(another(spark, table, 4, "a"), table)
    second = writer.append(another(spark, table, 5, "b"), table)  # does not touch it, and cannot go before it
    for result in (first, second):
        assert [note for note in result.notes if "theirs.parquet" in note and "Overwrite dt=a with" in note]
    assert keeper.mirror(table, as_="delta", check=True).state == "behind"
    assert writer.overwrite_partitions(spark.table(table).where("dt = 'a'"), table).notes == ()
    assert keeper.mirror(table, as_="delta", check=True).state == "in step"
    assert_read_alike(spark, lakehouse, writer, table, "delta")


def test_a_file_with_ids_is_read_by_names_in_delta_and_refused_for_iceberg(
    spark: SparkSession,
    lakehouse: Lakehouse,
    writer: TableWriter,
    keeper: Maintenance,
    make_table: Callable[..., str],
    put: Callable[[str, str, pa.Table], str],
) -> None:
    table = make_table("CREATE TABLE {name} (a INT, b INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    plain = TableWriter(spark)
    plain.append(spark.createDataFrame([(3, 30, "y")], "a INT, b INT, dt STRING"), table)
    swapped = [
        pa.field(name, pa.int32(), metadata={"PARQUET:field_id": number}) for name, number in (("a", "2"), ("b", "1"))
    ]
    put(table, "dt='x'", pa.table([pa.array([1], pa.int32()), pa.array([10], pa.int32())], pa.schema(swapped)))
    assert keeper.mirror(table, as_="delta").state == "in step"
    assert_read_alike(spark, lakehouse, writer, table, "delta")
    with pytest.raises(InvalidInputError, match=r"theirs\.parquet of .* has ids for its columns.*Overwrite dt=x with"):
        keeper.mirror(table, as_="iceberg")
    plain.overwrite_partitions(spark.table(table).where("dt = 'x'"), table)
    assert keeper.mirror(table, as_="iceberg").state == "in step"
    assert_read_alike(spark, lakehouse, writer, table, "iceberg")


def test_own_files_have_ids_where_the_tables_columns_have_and_iceberg_is_told(
    spark: SparkSession, lakehouse: Lakehouse, writer: TableWriter, keeper: Maintenance, make_table: Callable[..., str]
) -> None:
    frame = spark.createDataFrame([(1, 10, "x")], "a INT, b INT, dt STRING")
    with_ids = frame.select(
        frame["a"].alias("a", metadata={"parquet.field.id": 2}),
        frame["b"].alias("b", metadata={"parquet.field.id": 1}),
        "dt",
    )
    table = make_table("CREATE TABLE {name} (q INT) USING parquet").rpartition(".")[0] + ".with_ids"
    with_ids.limit(0).write.format("parquet").partitionBy("dt").saveAsTable(table)
    both = TableWriter(spark, config=TableWriterConfig(mirrors=["delta", "iceberg"]))
    result = both.append(frame, table)
    assert_read_alike(spark, lakehouse, writer, table, "delta")
    (note,) = result.notes
    assert re.search(r"iceberg mirror does not have version 1.*has ids for its columns.*a Delta mirror goes by", note)
    assert keeper.mirror(table, as_="iceberg", check=True).state == "absent"


def test_a_column_that_the_table_gets_later_and_one_of_the_partitions_name_are_as_the_table_has_them(
    spark: SparkSession,
    lakehouse: Lakehouse,
    writer: TableWriter,
    keeper: Maintenance,
    make_table: Callable[..., str],
    put: Callable[[str, str, pa.Table], str],
) -> None:
    table = make_table("CREATE TABLE {name} (id INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    plain = TableWriter(spark)
    plain.append(spark.createDataFrame([(3, "y")], "id INT, dt STRING"), table)
    deep = pa.array(
        [[{"Deeper": [("k", {"x": 1})]}]], pa.list_(pa.struct({"Deeper": pa.map_("string", pa.struct({"x": "int32"}))}))
    )
    columns = {"id": pa.array([1], pa.int32()), "DT": ["none"], "note": ["theirs"], "Deep": deep}
    put(table, "dt='x'", pa.table(columns))
    for step in ("before", "after"):
        for kind in ("delta", "iceberg"):
            assert keeper.mirror(table, as_=kind).state == "in step", step
            assert_read_alike(spark, lakehouse, writer, table, kind)
        plain.append(
            spark.createDataFrame([(4, "ours", "y")], "id INT, note STRING, dt STRING"), table, schema="evolve"
        )
    assert {row.note for row in spark.table(table).collect()} == {None, "ours", "theirs"}


def test_a_file_with_a_column_in_two_spellings_is_refused(
    spark: SparkSession, keeper: Maintenance, make_table: Callable[..., str], put: Callable[[str, str, pa.Table], str]
) -> None:
    table = make_table("CREATE TABLE {name} (userId INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    TableWriter(spark).append(spark.createDataFrame([(3, "y")], "userId INT, dt STRING"), table)
    put(table, "dt='x'", pa.table({"userId": pa.array([1], pa.int32()), "USERID": pa.array([2], pa.int32())}))
    for kind in ("delta", "iceberg"):
        with pytest.raises(InvalidInputError, match=r"theirs\.parquet .* as userId and USERID"):
            keeper.mirror(table, as_=kind)


def test_a_table_that_hive_spells_in_lower_case_by_now_has_files_that_delta_would_read_as_null(
    spark: SparkSession, lakehouse: Lakehouse, writer: TableWriter, keeper: Maintenance, make_table: Callable[..., str]
) -> None:
    table = make_table("CREATE TABLE {name} (userId INT) PARTITIONED BY (dt STRING) STORED AS PARQUET")
    both = TableWriter(spark, config=TableWriterConfig(mirrors=["delta", "iceberg"]))
    both.append(spark.createDataFrame([(1, "x"), (2, "y")], "userId INT, dt STRING"), table)
    for kind in ("delta", "iceberg"):
        assert_read_alike(spark, lakehouse, writer, table, kind)
    hive_adds_a_column(lakehouse, table, "note", "string")
    spark.sql(f"REFRESH TABLE {table}")
    assert spark.table(table).columns == ["userid", "note", "dt"]
    result = both.append(spark.createDataFrame([(3, "n", "z")], "userid INT, note STRING, dt STRING"), table)
    (note,) = result.notes
    assert re.search(r"delta mirror does not have .* spells column userid as userId", note)
    assert_read_alike(spark, lakehouse, writer, table, "iceberg")
    both.overwrite_partitions(spark.table(table).where("dt != 'z'"), table)
    for kind in ("delta", "iceberg"):
        assert_read_alike(spark, lakehouse, writer, table, kind)


def hive_adds_a_column(lakehouse: Lakehouse, table: str, name: str, kind: str) -> None:
    """Alter a table as Hive does, which knows nothing of the columns that Spark has stored."""
    from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
    from hmsclient.genthrift.hive_metastore.ttypes import FieldSchema
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.transport.TSocket import TSocket
    from thrift.transport.TTransport import TBufferedTransport

    host, port = lakehouse.metastore_uri.removeprefix("thrift://").split(":")
    transport = TBufferedTransport(TSocket(host, int(port)))
    transport.open()
    try:
        client = ThriftHiveMetastore.Client(TBinaryProtocol(transport))
        database, _, short = table.partition(".")
        described = client.get_table(database, short)
        described.sd.cols.append(FieldSchema(name=name, type=kind, comment=""))
        client.alter_table(database, short, described)
    finally:
        transport.close()


DOTTED: Final = {
    "a column": ("`a.b` INT, a STRUCT<b: INT>", "1 AS `a.b`, named_struct('b', 2) AS a"),
    "a column in another case": ("`A.b` INT, a STRUCT<B: INT>", "1 AS `A.b`, named_struct('B', 2) AS a"),
    "a field": ("x STRUCT<`a.b`: INT, a: STRUCT<b: INT>>", "named_struct('a.b', 1, 'a', named_struct('b', 2)) AS x"),
    "an element": ("l ARRAY<INT>, `l.element` INT", "array(1) AS l, 2 AS `l.element`"),
}


@pytest.mark.parametrize("case", first_fast(DOTTED, 2))
def test_a_name_with_a_dot_beside_a_struct_is_refused_for_iceberg_without_a_promise(
    case: str,
    spark: SparkSession,
    lakehouse: Lakehouse,
    writer: TableWriter,
    keeper: Maintenance,
    make_table: Callable[..., str],
) -> None:
    columns, values = DOTTED[case]
    table = make_table(f"CREATE TABLE {{name}} ({columns}) USING parquet")
    both = TableWriter(spark, config=TableWriterConfig(mirrors=["delta", "iceberg"]))
    (note,) = both.append(spark.sql(f"SELECT {values}"), table).notes
    assert "has two columns or fields that are both " in note
    assert "Once that is changed, the next write brings it up" in note
    with pytest.raises(InvalidInputError, match=r"such as a column `a\.b` beside field b .* a Delta mirror can"):
        keeper.mirror(table, as_="iceberg")
    assert_read_alike(spark, lakehouse, writer, table, "delta")


def test_a_files_own_column_with_a_dot_beside_a_struct_is_refused_for_iceberg(
    spark: SparkSession,
    lakehouse: Lakehouse,
    writer: TableWriter,
    keeper: Maintenance,
    make_table: Callable[..., str],
    put: Callable[[str, str, pa.Table], str],
) -> None:
    table = make_table("CREATE TABLE {name} (id INT, a STRUCT<b: INT>, dt STRING) USING parquet PARTITIONED BY (dt)")
    TableWriter(spark).append(spark.sql("SELECT 3 AS id, named_struct('b', 30) AS a, 'y' AS dt"), table)
    put(table, "dt='x'", pa.table({"id": pa.array([1], pa.int32()), "a.b": ["not that"]}))
    assert keeper.mirror(table, as_="delta").state == "in step"
    assert_read_alike(spark, lakehouse, writer, table, "delta")
    with pytest.raises(InvalidInputError, match=r"theirs\.parquet of .* cannot tell from another: both are a\.b"):
        keeper.mirror(table, as_="iceberg")
