"""What is written: rows that depend on nothing but their number and their generation, and the table for them.

Two generations of a case differ in one whole number, the marker, by the same amount in each row: so a sum tells for
each partition whose rows a reader sees.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark documents it

TASKS: Final = 8
PARTITIONS: Final = 30
FEW_PARTITIONS: Final = 10
STATES: Final = ("new", "paid", "packed", "sent", "returned")
NARROW_COLUMNS: Final = 298  # with a key and the partition column: 300


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much of it."""

    rows: int
    scale: float  # of TPC-H
    tpch: Path  # where its files are


@dataclass(frozen=True, kw_only=True)
class Case:
    """Rows to write and the table that takes them."""

    name: str
    title: str
    columns: str
    rows: Callable[[SparkSession, Size, int], DataFrame]
    marker: str
    partition_by: tuple[str, ...] = ("dt",)
    from_files: bool = False  # else Spark makes the rows
    shape: bool = False  # one of the other shapes of data: measured with fewer contenders, and without a reader

    @property
    def partition_clause(self) -> str:
        """The part of CREATE TABLE that names the partition columns."""
        return f"PARTITIONED BY ({', '.join(self.partition_by)})" if self.partition_by else ""


def _below(limit: int, salt: int) -> Column:
    return F.pmod(F.shiftright(F.xxhash64("id"), salt), F.lit(limit))


def _whole(limit: int, salt: int) -> Column:
    return _below(limit, salt).cast("int")


def _day(number: Column) -> Column:
    return F.date_add(F.to_date(F.lit("2024-01-01")), number.cast("int")).alias("dt")


def _ids(spark: SparkSession, row_count: int) -> DataFrame:
    return spark.range(0, row_count, 1, TASKS)


def _order_columns(generation: int) -> list[Column]:
    return [
        F.col("id"),
        _whole(1_000_000, 3).alias("customer_id"),
        (_below(10_000_000, 5) / 100).cast("decimal(10,2)").alias("amount"),
        (_below(1 << 30, 7) / 7.0).alias("price"),
        F.element_at(F.array(*map(F.lit, STATES)), _whole(5, 11) + 1).alias("status"),
        F.concat(F.lit("order "), F.hex(_below(1 << 24, 13))).alias("comment"),
        F.timestamp_seconds(F.lit(1_700_000_000) + _below(86_400 * 365, 17)).alias("created_at"),
        (_whole(100, 19) + 100 * generation).alias("quantity"),
    ]


def _orders(spark: SparkSession, size: Size, generation: int) -> DataFrame:
    return _ids(spark, size.rows).select(*_order_columns(generation), _day(_below(PARTITIONS, 23)))


def _sorted(spark: SparkSession, size: Size, generation: int) -> DataFrame:
    day = F.floor(F.col("id") * PARTITIONS / size.rows)
    return _ids(spark, size.rows).select(*_order_columns(generation), _day(day))


def _lineitem(spark: SparkSession, size: Size, generation: int) -> DataFrame:
    found = spark.read.parquet((size.tpch / "lineitem").as_uri())
    changed = found.withColumn("l_linenumber", F.col("l_linenumber") + F.lit(10 * generation))
    return changed.withColumn("l_shipyear", F.year("l_shipdate"))


def _narrow(spark: SparkSession, size: Size, generation: int) -> DataFrame:
    numbers = [(_whole(1000, 1 + n % 48) + n).alias(f"n{n}") for n in range(1, NARROW_COLUMNS)]
    marker = (_whole(1000, 50) + 1000 * generation).alias("n0")
    return _ids(spark, max(size.rows // 40, TASKS)).select("id", marker, *numbers, _day(_below(FEW_PARTITIONS, 23)))


def _strings(spark: SparkSession, size: Size, generation: int) -> DataFrame:
    words = F.transform(F.sequence(F.lit(1), F.lit(64)), lambda n: F.hex(F.xxhash64(F.col("id"), n)))
    return _ids(spark, max(size.rows // 40, TASKS)).select(
        "id",
        (_whole(100, 19) + 100 * generation).alias("quantity"),
        F.concat_ws(" ", words).alias("body"),
        F.repeat(F.concat(F.lit("a line of a letter, number "), _whole(1000, 7).cast("string")), 16).alias("letter"),
        _day(_below(FEW_PARTITIONS, 23)),
    )


def _nested(spark: SparkSession, size: Size, generation: int) -> DataFrame:
    lines = F.transform(
        F.sequence(F.lit(1), _whole(6, 9) + 1),
        lambda n: F.struct(n.alias("number"), (F.xxhash64(F.col("id"), n) / 1e9).alias("price")),
    )
    address = F.struct(
        F.concat(F.lit("street "), _whole(5000, 11).cast("string")).alias("street"),
        F.struct(_whole(90, 13).alias("lat"), _whole(180, 15).alias("lon")).alias("place"),
    )
    measures = F.create_map(F.lit("width"), _whole(100, 21), F.lit("height"), _whole(200, 25))
    return _ids(spark, max(size.rows // 8, TASKS)).select(
        "id",
        (_whole(100, 19) + 100 * generation).alias("quantity"),
        lines.alias("lines"),
        address.alias("address"),
        measures.alias("measures"),
        _day(_below(FEW_PARTITIONS, 23)),
    )


ORDER_COLUMNS: Final = (
    "id BIGINT, customer_id INT, amount DECIMAL(10,2), price DOUBLE, status STRING, comment STRING,"
    " created_at TIMESTAMP, quantity INT, dt DATE"
)
LINEITEM_COLUMNS: Final = (
    "l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INT, l_quantity DECIMAL(15,2),"
    " l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag STRING,"
    " l_linestatus STRING, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct STRING,"
    " l_shipmode STRING, l_comment STRING, l_shipyear INT"
)
CASES: Final = {
    case.name: case
    for case in (
        Case(
            name="orders",
            title=f"{PARTITIONS} random partitions",
            columns=ORDER_COLUMNS,
            rows=_orders,
            marker="quantity",
        ),
        Case(
            name="lineitem",
            title="TPC-H lineitem by year of shipping",
            columns=LINEITEM_COLUMNS,
            rows=_lineitem,
            marker="l_linenumber",
            partition_by=("l_shipyear",),
            from_files=True,
        ),
        Case(
            name="unpartitioned",
            title="the rows of orders in one large unpartitioned table",
            columns=ORDER_COLUMNS,
            rows=_orders,
            marker="quantity",
            partition_by=(),
            shape=True,
        ),
        Case(
            name="sorted",
            title="the rows of orders, each task's of a few partitions, one after the other",
            columns=ORDER_COLUMNS,
            rows=_sorted,
            marker="quantity",
            shape=True,
        ),
        Case(
            name="columns300",
            title="300 narrow columns",
            columns=", ".join(["id BIGINT", *(f"n{n} INT" for n in range(NARROW_COLUMNS)), "dt DATE"]),
            rows=_narrow,
            marker="n0",
            shape=True,
        ),
        Case(
            name="strings",
            title="long strings",
            columns="id BIGINT, quantity INT, body STRING, letter STRING, dt DATE",
            rows=_strings,
            marker="quantity",
            shape=True,
        ),
        Case(
            name="nested",
            title="structs, arrays and maps",
            columns="id BIGINT, quantity INT, lines ARRAY<STRUCT<number: INT, price: DOUBLE>>,"
            " address STRUCT<street: STRING, place: STRUCT<lat: INT, lon: INT>>, measures MAP<STRING, INT>, dt DATE",
            rows=_nested,
            marker="quantity",
            shape=True,
        ),
    )
}
