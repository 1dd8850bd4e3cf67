"""Both writers make the same files of the same rows: schema, footer, encodings and values, all but their names."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from table_writer import ArrowWriter, TableWriter
from table_writer.read.types import arrow_schema
from table_writer.testing import Lakehouse

TYPES: Final = {
    "b": "BOOLEAN",
    "i1": "TINYINT",
    "i2": "SMALLINT",
    "i4": "INT",
    "i8": "BIGINT",
    "f4": "FLOAT",
    "f8": "DOUBLE",
    "d1": "DECIMAL(5,2)",
    "d2": "DECIMAL(18,4)",
    "d3": "DECIMAL(38,10)",
    "s": "STRING",
    "v": "VARCHAR(5)",
    "c": "CHAR(5)",
    "x": "BINARY",
    "d": "DATE",
    "t": "TIMESTAMP",
    "l": "ARRAY<INT>",
    "m": "MAP<STRING, DOUBLE>",
    "r": "STRUCT<a: INT, when_: TIMESTAMP, inner_: STRUCT<n: STRING>>",
    "n": "ARRAY<STRUCT<k: BIGINT, vs: ARRAY<STRING>>>",
}
FULL: Final[dict[str, Any]] = {
    "b": True,
    "i1": -128,
    "i2": 32_767,
    "i4": -(2**31),
    "i8": 2**63 - 1,
    "f4": 1.5,
    "f8": -0.1,
    "d1": Decimal("-999.99"),
    "d2": Decimal("12345678901234.5678"),
    "d3": Decimal("1234567890123456789012345678.0123456789"),
    "s": "ü😀 text",
    "v": "ab",
    "c": "abc",
    "x": b"\x00\xff",
    "d": date(1600, 2, 29),
    "t": datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=UTC),
    "l": [1, None, 3],
    "m": {"k": 1.5, "": None},
    "r": {"a": 1, "when_": datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC), "inner_": {"n": "x"}},
    "n": [{"k": 1, "vs": ["a", None]}, None, {"k": None, "vs": []}],
}
PARTITIONS: Final = {
    "STRING": ["a/b=c", "ü", "", None],
    "INT": [0, -7, None],
    "DATE": [date(2024, 2, 29), date(1, 1, 1), None],
    "BOOLEAN": [True, False, None],
    "DECIMAL(9,2)": [Decimal("1.50"), Decimal("-3.00"), None],
    "BIGINT": [2**62],
}


def files_of(table: str, writer: TableWriter, lakehouse: Lakehouse) -> dict[str, Any]:
    """Return the files that readers see, by the names of their partitions."""
    opened = writer._services.open_table(writer._services.table_name(table))
    found = {}
    for partition in opened.metastore.get_all_partitions(opened.table).values():
        prefix = partition.location.split("/", 3)[3].rstrip("/") + "/"
        for info in lakehouse.s3.list_objects_v2(Bucket=lakehouse.bucket, Prefix=prefix)["Contents"]:
            body = lakehouse.s3.get_object(Bucket=lakehouse.bucket, Key=info["Key"])["Body"].read()
            found["/".join(partition.values)] = pq.ParquetFile(io.BytesIO(body))
    return found


def footer(file: Any) -> tuple[Any, ...]:
    """Return all that a footer says, but for offsets in the file."""
    metadata = file.metadata
    columns = [
        (
            chunk.path_in_schema,
            chunk.physical_type,
            chunk.compression,
            chunk.encodings,
            chunk.has_dictionary_page,
            chunk.num_values,
            str(chunk.statistics).partition("\n")[2],
            chunk.total_uncompressed_size,
        )
        for group in range(metadata.num_row_groups)
        for chunk in map(metadata.row_group(group).column, range(metadata.num_columns))
    ]
    return (str(metadata.schema).partition("\n")[2], metadata.metadata, metadata.num_rows, metadata.created_by, columns)


@pytest.mark.parametrize("using", ["USING parquet", "STORED AS PARQUET"])
def test_all_types_make_the_same_files(
    using: str,
    writer: TableWriter,
    arrow: ArrowWriter,
    spark: SparkSession,
    make_table: Callable[..., str],
    lakehouse: Lakehouse,
) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
    partitioned = f"({columns}, p STRING) USING parquet PARTITIONED BY (p)"
    if using != "USING parquet":
        partitioned = f"({columns}) PARTITIONED BY (p STRING) {using}"
    ours, sparks = (make_table(f"CREATE TABLE {{name}} {partitioned}", name) for name in ("ours", "sparks"))
    schema = arrow_schema(writer._services.open_table(writer._services.table_name(ours)).table)
    nothing = dict.fromkeys(TYPES)
    given = [{**FULL, "p": "full"}, {**nothing, "p": "nothing"}, {**nothing, "p": "mixed"}, {**FULL, "p": "mixed"}]
    rows = pa.Table.from_pylist(given, schema)
    arrow.overwrite_partitions(rows, ours)
    frame = spark.createDataFrame(rows)
    writer.overwrite_partitions(frame.coalesce(1).sortWithinPartitions("p"), sparks, engine="arrow")
    one, other = files_of(ours, writer, lakehouse), files_of(sparks, writer, lakehouse)
    assert one.keys() == other.keys() == {"full", "nothing", "mixed"}
    for name, file in one.items():
        assert footer(file) == footer(other[name]), name
        assert file.read().to_pylist() == other[name].read().to_pylist()
    spark.catalog.refreshTable(ours)
    written = {row["p"]: row.asDict(recursive=True) for row in spark.table(ours).collect()}
    expected = {row["p"]: row.asDict(recursive=True) for row in spark.table(sparks).collect()}
    assert written["full"] == expected["full"]
    assert written["nothing"] == expected["nothing"]


@pytest.mark.parametrize("kind", PARTITIONS)
def test_partitions_have_the_names_that_spark_gives_them(
    kind: str, writer: TableWriter, arrow: ArrowWriter, spark: SparkSession, make_table: Callable[..., str]
) -> None:
    ddl = f"CREATE TABLE {{name}} (id BIGINT, p {kind}) USING parquet PARTITIONED BY (p)"
    ours, sparks = (make_table(ddl, name) for name in ("ours", "sparks"))
    fields = arrow_schema(writer._services.open_table(writer._services.table_name(ours)).table)
    rows = pa.table({"id": range(len(PARTITIONS[kind])), "p": pa.array(PARTITIONS[kind], fields.field("p").type)})
    arrow.create_partitions(rows, ours)
    writer.create_partitions(spark.createDataFrame(rows), sparks)
    assert [row[0] for row in spark.sql(f"SHOW PARTITIONS {ours}").collect()] == [
        row[0] for row in spark.sql(f"SHOW PARTITIONS {sparks}").collect()
    ]
    spark.catalog.refreshTable(ours)
    assert sorted(map(tuple, spark.table(ours).collect()), key=repr) == sorted(
        map(tuple, spark.table(sparks).collect()), key=repr
    )
    again = writer.merge(spark.table(sparks).where("p IS NOT NULL"), ours, on=["p", "id"])
    assert again.inserted == 0
