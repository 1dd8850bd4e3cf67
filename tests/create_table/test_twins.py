"""What is made is what Spark's own CREATE TABLE and saveAsTable make."""

from __future__ import annotations

from dataclasses import dataclass

import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
    YearMonthIntervalType,
)

from table_writer.model.new_table import NewTable

from .conftest import Twins


def column(name: str, data_type: DataType, comment: str | None = None, *, nullable: bool = True) -> StructField:
    return StructField(name, data_type, nullable, {} if comment is None else {"comment": comment})


@dataclass(frozen=True)
class Case:
    schema: StructType
    new: NewTable
    sql: str
    """What a person would write; ``{name}`` and ``{location}`` are put in."""


def newer_types() -> dict[str, DataType]:
    """Types that Spark 3.5 does not know."""
    if pyspark.__version__.startswith("3."):
        return {}
    from pyspark.sql.types import VariantType

    return {"variant": VariantType(), "string collate UTF8_LCASE": StringType("UTF8_LCASE")}


ATOMS: dict[str, DataType] = {
    "boolean": BooleanType(),
    "tinyint": ByteType(),
    "smallint": ShortType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "decimal(38, 18)": DecimalType(38, 18),
    "decimal(5, 0)": DecimalType(5, 0),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
    "char(3)": CharType(3),
    "varchar(70)": VarcharType(70),
    "interval year to month": YearMonthIntervalType(),
    "interval day to second": DayTimeIntervalType(),
    **newer_types(),
}
HIVES_ATOMS = {
    text: one for text, one in ATOMS.items() if not text.startswith(("interval", "timestamp_ntz", "variant"))
}


def grid(atoms: dict[str, DataType]) -> StructType:
    shapes = {
        "plain": lambda one: one,
        "list": ArrayType,
        "by_name": lambda one: MapType(StringType(), one),
        "deep": lambda one: StructType([column("One", ArrayType(StructType([column("two", one)])))]),
    }
    return StructType(
        [
            column(f"{shape}_{index}", make(one))
            for index, one in enumerate(atoms.values())
            for shape, make in shapes.items()
        ]
    )


def grid_sql(atoms: dict[str, DataType]) -> str:
    shapes = {
        "plain": "{}",
        "list": "ARRAY<{}>",
        "by_name": "MAP<STRING, {}>",
        "deep": "STRUCT<One: ARRAY<STRUCT<two: {}>>>",
    }
    return ", ".join(
        f"{shape}_{index} {text.format(atom)}" for index, atom in enumerate(atoms) for shape, text in shapes.items()
    )


ORDERS = StructType(
    [
        column("Dt", DateType(), "the day"),
        column("orderId", LongType(), 'it\'s `one` \\ "key" 100%_ ${user.home}\n\tüñ🦆', nullable=False),
        column("country", StringType(), ""),
        column("Item", StructType([column("sku", StringType(), "deep's", nullable=False), column("n", IntegerType())])),
    ]
)
ORDERS_SQL = (
    "Dt DATE COMMENT 'the day', orderId BIGINT NOT NULL COMMENT"
    " 'it\\'s `one` \\\\ \"key\" 100%_ \\u0024{{user.home}}\\n\\tüñ🦆', country STRING COMMENT '',"
    " Item STRUCT<sku: STRING NOT NULL COMMENT 'deep\\'s', n: INT>"
)
ODD = StructType(
    [
        column(name, IntegerType())
        for name in ("a b", "c`d", "select", "1", "e.f", "Ümlaut", "g-h", "i;j", "k(l)", "m=n")
    ]
)
ODD_SQL = (
    "`a b` INT, `c``d` INT, `select` INT, `1` INT, `e.f` INT, `Ümlaut` INT, `g-h` INT, `i;j` INT, `k(l)` INT, `m=n` INT"
)
ID = StructType([column("id", LongType())])
CASES = {
    "every type at every depth": Case(
        grid(ATOMS), NewTable(), f"CREATE TABLE {{name}} ({grid_sql(ATOMS)}) USING parquet"
    ),
    "every type that Hive has, in a Hive table": Case(
        grid(HIVES_ATOMS),
        NewTable(format="hive:parquet"),
        f"CREATE TABLE {{name}} ({grid_sql(HIVES_ATOMS)}) STORED AS PARQUET",
    ),
    "comments, NOT NULL, upper case, partition columns first and in the middle": Case(
        ORDERS,
        NewTable(partition_by=["COUNTRY", "dt"], comment="Orders' \\ 50% ${user.home}"),
        f"CREATE TABLE {{name}} ({ORDERS_SQL}) USING parquet PARTITIONED BY (country, Dt)"
        " COMMENT 'Orders\\' \\\\ 50% \\u0024{{user.home}}'",
    ),
    "the same as a Hive table": Case(
        StructType(ORDERS.fields[:3]),
        NewTable(partition_by=["country", "Dt"], format="hive:orc", comment="x", compression="ZLIB"),
        f"CREATE TABLE {{name}} ({ORDERS_SQL.partition(', Item')[0]}) STORED AS ORC"
        " PARTITIONED BY (country, Dt) COMMENT 'x' TBLPROPERTIES ('orc.compress' = 'ZLIB')",
    ),
    "odd names of columns": Case(
        ODD,
        NewTable(partition_by=["c`d", "select"]),
        f"CREATE TABLE {{name}} ({ODD_SQL}) USING parquet PARTITIONED BY (`c``d`, `select`)",
    ),
    "odd names of fields": Case(
        StructType([column("s", ArrayType(ODD))]),
        NewTable(),
        f"CREATE TABLE {{name}} (s ARRAY<STRUCT<{ODD_SQL.replace('` INT', '`: INT')}>>) USING parquet",
    ),
    "location, compression, properties": Case(
        ID,
        NewTable(
            location="{location}",
            compression="zstd",
            properties={"table_writer.retention": "48", "it's": "a \\ b\n${user.home}", "empty": ""},
        ),
        "CREATE TABLE {name} (id BIGINT) USING parquet OPTIONS (compression 'zstd') LOCATION '{escaped}'"
        " TBLPROPERTIES ('table_writer.retention' = '48', 'it\\'s' = 'a \\\\ b\\n\\u0024{{user.home}}', 'empty' = '')",
    ),
    "a Hive table with location and compression": Case(
        ID,
        NewTable(location="{location}", format="hive:parquet", compression="SNAPPY", properties={"owner_team": "x"}),
        "CREATE TABLE {name} (id BIGINT) STORED AS PARQUET LOCATION '{escaped}'"
        " TBLPROPERTIES ('owner_team' = 'x', 'parquet.compression' = 'SNAPPY')",
    ),
    "orc": Case(ID, NewTable(format="orc"), "CREATE TABLE {name} (id BIGINT) USING orc"),
    "json": Case(
        ID,
        NewTable(format="JSON", compression="gzip"),
        "CREATE TABLE {name} (id BIGINT) USING JSON OPTIONS (compression 'gzip')",
    ),
    "csv with options": Case(
        ID,
        NewTable(format="csv", options={"header": "true", "sep": "\t", "quote": "'"}),
        "CREATE TABLE {name} (id BIGINT) USING csv OPTIONS (header 'true', sep '\\t', quote '\\'')",
    ),
    "text": Case(
        StructType([column("value", StringType()), column("dt", StringType())]),
        NewTable(format="text", partition_by=("dt",)),
        "CREATE TABLE {name} (value STRING, dt STRING) USING text PARTITIONED BY (dt)",
    ),
    "Hive text files with a delimiter": Case(
        ID,
        NewTable(format="hive:textfile", options={"fieldDelim": "|"}),
        "CREATE TABLE {name} (id BIGINT) USING hive OPTIONS (fileFormat 'textfile', fieldDelim '|')",
    ),
    "another of Hive's formats": Case(
        ID, NewTable(format="hive:avro"), "CREATE TABLE {name} (id BIGINT) STORED AS AVRO"
    ),
}


@pytest.mark.smaller_run
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_struct_makes_what_a_person_would_have_written(case: Case, twins: Twins) -> None:
    location = twins.location
    new = NewTable(**{**fields_of(case.new), "location": case.new.location and location + "/made"})
    twins.make(case.schema, new)
    escaped = location.replace("'", "\\'").replace("${", "\\u0024{") + "/twin"
    twins.spark.sql(case.sql.format(name=f"{twins.database}.twin", escaped=escaped))
    assert twins.describe("made") == twins.describe("twin")


def fields_of(new: NewTable) -> dict[str, object]:
    return {name: getattr(new, name) for name in NewTable.__slots__}


@pytest.mark.smaller_run
@pytest.mark.parametrize(
    ("schema", "partition_by"),
    [
        (grid(ATOMS), ()),
        (ORDERS, ("country", "DT")),
        (ODD, ("select",)),
        (StructType([column("a", ArrayType(IntegerType(), containsNull=False), nullable=False)]), ()),
        (StructType([column("m", MapType(StringType(), ORDERS, valueContainsNull=False), "m")]), ()),
    ],
    ids=["every type", "comments and partitions", "odd names", "no nulls in a list", "no nulls in a map"],
)
def test_a_dataframe_makes_what_save_as_table_makes(
    schema: StructType, partition_by: tuple[str, ...], twins: Twins
) -> None:
    schema = StructType([one for one in schema if not one.dataType.simpleString().count("char(")])
    df = twins.spark.createDataFrame([], schema)
    twins.make(df, NewTable(partition_by=partition_by, compression="zstd", format="parquet"))
    writer = df.write.format("parquet").option("compression", "zstd").partitionBy(*partition_by)
    writer.saveAsTable(f"{twins.database}.twin")
    assert twins.describe("made") == twins.describe("twin")


@pytest.mark.smaller_run
@pytest.mark.parametrize("table_format", ["parquet", "hive:parquet"])
def test_a_dataframe_that_reads_a_table_passes_on_limits_comments_and_defaults(table_format: str, twins: Twins) -> None:
    columns = "c CHAR(3) COMMENT 'c', v VARCHAR(5), s STRUCT<A: CHAR(2), l: ARRAY<VARCHAR(7)>>, i INT, dt STRING"
    twins.spark.sql(f"CREATE TABLE {twins.database}.source ({columns}) USING parquet PARTITIONED BY (dt)")
    df = twins.spark.table(f"{twins.database}.source")
    twins.make(df, NewTable(partition_by=["dt"], format=table_format))
    stored = "USING parquet" if table_format == "parquet" else "STORED AS PARQUET"
    twins.spark.sql(f"CREATE TABLE {twins.database}.twin ({columns}) {stored} PARTITIONED BY (dt)")
    assert twins.describe("made") == twins.describe("twin")


@pytest.mark.smaller_run
def test_defaults_of_columns_are_passed_on_as_save_as_table_does(twins: Twins) -> None:
    defaults = "i INT DEFAULT 5 + 1 COMMENT 'i', s STRING DEFAULT 'it\\'s', d DATE DEFAULT DATE'2024-01-01', n STRING"
    twins.spark.sql(f"CREATE TABLE {twins.database}.source ({defaults}) USING parquet")
    df = twins.spark.table(f"{twins.database}.source")
    twins.make(df, NewTable())
    df.write.saveAsTable(f"{twins.database}.twin")
    assert twins.describe("made") == twins.describe("twin")


@pytest.mark.smaller_run
def test_no_setting_of_the_session_changes_what_is_made(twins: Twins) -> None:
    schema = StructType([column("select", TimestampType(), 'it\'s "x" ${user.home}'), column("Dt", StringType())])
    new = NewTable(partition_by=["dt"])
    twins.make(schema, new, "twin")
    with twins.settings(
        {
            "spark.sql.timestampType": "TIMESTAMP_NTZ",
            "spark.sql.caseSensitive": "true",
            "spark.sql.ansi.enabled": "true",
            "spark.sql.ansi.enforceReservedKeywords": "true",
            "spark.sql.ansi.doubleQuotedIdentifiers": "true",
            "spark.sql.sources.default": "json",
        }
    ):
        twins.make(schema, new)
    assert twins.describe("made") == twins.describe("twin")


@pytest.mark.smaller_run
def test_current_catalog_database_and_temporary_views_do_not_matter(twins: Twins, spark: SparkSession) -> None:
    spark.range(1).createOrReplaceTempView("made")
    try:
        twins.make(spark.range(1), NewTable())
    finally:
        spark.catalog.dropTempView("made")
    assert twins.exists()
    assert spark.table(f"{twins.database}.made").schema == ID
