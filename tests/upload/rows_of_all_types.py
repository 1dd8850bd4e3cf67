"""Rows with the values of every type that files get wrong most easily, and the upload of them to local files."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from table_writer.model.upload_spec import ParquetOptions, UploadSpec
from table_writer.storage.local.settings import LocalSettings

NAN, INF = math.nan, math.inf
OLD_DATES = [
    date(1, 1, 1),
    date(1582, 10, 4),
    date(1582, 10, 15),
    date(1899, 12, 31),
    date(1970, 1, 1),
    date(9999, 12, 31),
]
MOMENTS = [
    datetime(1, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    datetime(1582, 10, 10, 1, 2, 3, 1, tzinfo=UTC),
    datetime(1677, 1, 1, tzinfo=UTC),
    datetime(1883, 11, 18, 12, 0, 0, 999999, tzinfo=UTC),
    datetime(1900, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(2024, 3, 31, 1, 30, 0, 1, tzinfo=UTC),
    datetime(2262, 4, 12, tzinfo=UTC),
    datetime(9998, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
]
LOCAL = [moment.replace(tzinfo=None) for moment in MOMENTS]

COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "byte": ("tinyint", [-128, 127, 0, None]),
    "short": ("smallint", [-32768, 32767, None]),
    "int": ("int", [-(2**31), 2**31 - 1, 0, None]),
    "long": ("bigint", [-(2**63), 2**63 - 1, 0, None]),
    "float": ("float", [0.0, -0.0, 1.5, NAN, INF, -INF, None]),
    "double": ("double", [0.0, -0.0, 1e-300, NAN, INF, -INF, None]),
    "boolean": ("boolean", [True, False, None]),
    "string": ("string", ["", " ", "ä€😀", "a\x00b", "x" * 5000, None]),
    "binary": ("binary", [b"", b"\x00\xff", b"x" * 300, None]),
    "date": ("date", [*OLD_DATES, None]),
    "decimal_4": ("decimal(4,2)", [Decimal("-99.99"), Decimal("0.01"), None]),
    "decimal_9": ("decimal(9,0)", [Decimal(-999999999), Decimal(7), None]),
    "decimal_10": ("decimal(10,2)", [Decimal("12345678.90"), None]),
    "decimal_18": ("decimal(18,18)", [Decimal("-0.999999999999999999"), None]),
    "decimal_19": ("decimal(19,3)", [Decimal("-1234567890123456.789"), None]),
    "decimal_38": ("decimal(38,10)", [Decimal("-9999999999999999999999999999.9999999999"), Decimal(0), None]),
    "array": ("array<int>", [[], [1, None, 2], None]),
    "array_of_arrays": ("array<array<string>>", [[["a"], [], None], [], None]),
    "map": ("map<string,int>", [{}, {"a": 1, "b": None}, None]),
    "struct": ("struct<a:int,b:struct<c:string,d:array<double>>>", [(1, ("x", [0.5, None])), (None, None), None]),
    "array_of_structs": ("array<struct<k:string,v:decimal(12,4)>>", [[("a", Decimal("1.5000")), None], [], None]),
    "map_of_arrays": ("map<int,array<date>>", [{1: [date(1500, 2, 3), None]}, {}, None]),
}
TIMESTAMPS: dict[str, tuple[str, list[Any]]] = {
    "timestamp": ("timestamp", [*MOMENTS, None]),
    "timestamps": ("array<timestamp>", [MOMENTS, [None], [], None]),
}
LOCAL_TIMESTAMPS: dict[str, tuple[str, list[Any]]] = {
    "local": ("timestamp_ntz", [*LOCAL, None]),
    "locals": ("array<timestamp_ntz>", [LOCAL, [None], [], None]),
}


def table(spark: SparkSession, columns: dict[str, tuple[str, list[Any]]]) -> DataFrame:
    """One row per position; columns that have fewer values start again."""
    count = max(len(values) for _, values in columns.values())
    rows = [
        (position, *(values[position % len(values)] for _, values in columns.values())) for position in range(count + 3)
    ]
    types = ", ".join(f"`{name}` {kind}" for name, (kind, _) in columns.items())
    return spark.createDataFrame(rows, f"row int, {types}").coalesce(1)


def spec_of(rows: DataFrame, directory: Path, **options: Any) -> UploadSpec:
    """Upload rows of an unpartitioned table below ``w1/`` in a directory, with options of Parquet."""
    return UploadSpec(
        write_id="w1",
        key_prefix=f"{str(directory).lstrip('/')}/w1/",
        store=LocalSettings(),
        data_columns=tuple(rows.columns),
        partition_columns=(),
        file_options=ParquetOptions(
            spark_schema_json=rows.schema.json(), spark_version=rows.sparkSession.version, **options
        ),
    )
