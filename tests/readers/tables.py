"""The tables that every engine reads: types × formats, hostile partition values, and what each call leaves behind."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from table_writer import ArrowWriter, Maintenance, TableWriter, TableWriterConfig
from tests.end_to_end.test_partition_values import VALUES
from tests.upload import rows_of_all_types

MODERN: Final = (datetime(1900, 1, 1), datetime(2262, 1, 1))  # noqa: DTZ001  # one calendar, and nanoseconds fit
KINDS: Final = {"using": "USING parquet {by}", "stored": "{by} STORED AS PARQUET"}
ORC_KINDS: Final = {"using_orc": "USING orc {by}", "stored_orc": "{by} STORED AS ORC"}
TYPES: Final = {**rows_of_all_types.COLUMNS, **rows_of_all_types.TIMESTAMPS}
OLD: Final = {name: column for name, column in TYPES.items() if name in ("date", "timestamp", "map_of_arrays")}
LATER_NAME: Final = ".writes"  # of the library's directory, without an underscore


def is_modern(value: Any) -> bool:
    """Whether a value has no date that calendars, or nanoseconds, differ about."""
    if isinstance(value, datetime):
        return MODERN[0] <= value.replace(tzinfo=None) <= MODERN[1]
    if isinstance(value, date):
        return MODERN[0].date() <= value <= MODERN[1].date()
    if isinstance(value, dict):
        return all(map(is_modern, (*value, *value.values())))
    return all(map(is_modern, value)) if isinstance(value, list | tuple) else True


def modern() -> dict[str, tuple[str, list[Any]]]:
    return {name: (kind, [one for one in values if is_modern(one)]) for name, (kind, values) in TYPES.items()}


class Tables:
    """Makes them in one database, through this library."""

    def __init__(self, spark: SparkSession, database: str) -> None:
        self._spark = spark
        self._database = database
        self._writer = TableWriter(spark)
        self._keeper = Maintenance(services=self._writer._services)
        self.made: dict[str, str] = {}

    def make_all(self) -> Mapping[str, str]:
        for name, kind in {**KINDS, **ORC_KINDS}.items():
            self._types(f"types_{name}", kind, modern())
        for name, kind in KINDS.items():
            self._types(f"old_{name}", kind, OLD)
            self._history(f"history_{name}", kind)
            self._whole(f"whole_{name}", kind)
        self._spark.conf.set("spark.sql.parquet.writeLegacyFormat", "true")
        for name, kind in KINDS.items():
            self._types(f"legacy_{name}", kind, modern())
        self._spark.conf.unset("spark.sql.parquet.writeLegacyFormat")
        for name, kind in KINDS.items():
            self._types_without_spark(f"arrow_types_{name}", kind, f"types_{name}")
        for number, (case, (kind, values)) in enumerate(VALUES.items()):
            if kind != "TIMESTAMP_NTZ":  # which only Spark knows
                self._values(f"values_{case.replace(' ', '_').replace('-', '_')}", kind, values, number)
        self._elsewhere()
        return self.made

    def _create(self, name: str, columns: str, kind: str, by: str = "") -> str:
        table = f"{self._database}.{name}"
        if kind.startswith("USING"):
            inner, by = (f"{columns}, {by}", f"PARTITIONED BY ({by.split(maxsplit=1)[0]})") if by else (columns, "")
        else:
            inner, by = columns, f"PARTITIONED BY ({by})" if by else ""
        self._spark.sql(f"CREATE TABLE {table} ({inner}) {kind.format(by=by)}")
        self.made[name] = table
        return table

    def _rows(self, *rows: Sequence[Any]) -> DataFrame:
        return self._spark.createDataFrame(list(rows), "id BIGINT, note STRING, dt STRING")

    def _types(self, name: str, kind: str, columns: dict[str, tuple[str, list[Any]]]) -> None:
        types = ", ".join(f"`{column}` {of}" for column, (of, _) in columns.items())
        table = self._create(name, f"`row` INT, {types}", kind, "p STRING")
        df = rows_of_all_types.table(self._spark, columns).withColumn("p", F.lit("a"))
        self._writer.overwrite_partitions(df, table)

    def _types_without_spark(self, name: str, kind: str, other: str) -> None:
        """Write the rows of another table by Arrow's writer."""
        rows = self._spark.table(self.made[other])
        ddl = [f"`{field.name}` {field.dataType.simpleString()}" for field in rows.schema]
        table = self._create(name, ", ".join(ddl[:-1]), kind, "p STRING")
        ArrowWriter(services=self._writer._services).overwrite_partitions(rows.toArrow(), table)

    def _values(self, name: str, kind: str, values: list[str], number: int) -> None:
        table = self._create(name, "id INT", list(KINDS.values())[number % 2], f"p {kind}")
        source = "STRING" if kind.startswith(("CHAR", "VARCHAR")) else kind
        texts = self._spark.createDataFrame(list(enumerate([*values, None])), "id INT, text STRING")
        self._writer.overwrite_partitions(texts.select("id", F.col("text").cast(source).alias("p")), table)

    def _history(self, name: str, kind: str) -> None:
        """Let every call have had its turn at one table."""
        table = self._create(name, "id BIGINT, note STRING", kind, "dt STRING")
        rows, writer = self._rows, self._writer
        rows((1, "inserted", "d0")).write.insertInto(table)
        writer.overwrite_partitions(rows((1, "a", "d1"), (2, "b", "d2"), (3, "c", "d3"), (4, "d", "d4")), table)
        writer.overwrite_partitions(rows((20, "B", "d2"), (50, "E", "d5")), table)
        writer.append(rows((10, "appended", "d0"), (11, "appended", "d1")), table)
        for number in range(3):
            writer.append(rows((60 + number, "in place", "d2")), table, carry="in_place")
        writer.overwrite_partitions(rows((0, "rolled back", "d1")), table)
        self._keeper.rollback(table, version=writer.overwrite_partitions(rows((9, "x", "d9")), table).version - 2)
        writer.compact(table, min_files=3)
        writer.stage(rows((70, "staged", "d7")), table, "append").publish()
        writer.overwrite_partitions(rows().limit(0), table, where="dt = 'd3'", if_empty="replace")
        wide = rows((80, "wide", "d8")).withColumn("more", F.lit(1.5))
        writer.append(wide, table, schema="evolve")

    def _whole(self, name: str, kind: str) -> None:
        table = self._create(name, "id BIGINT, note STRING, dt STRING", kind)
        self._writer.overwrite_table(self._rows((1, "a", "x"), (2, None, "y")), table)
        self._writer.append(self._rows((3, "c", "z")), table)
        self._writer.append(self._rows((4, "d", "z")), table, carry="in_place")

    def _elsewhere(self) -> None:
        """Use another name for the library's directory."""
        table = self._create("elsewhere", "id BIGINT, note STRING", KINDS["stored"], "dt STRING")
        writer = TableWriter(self._spark, config=TableWriterConfig(directory_name=LATER_NAME))
        for number in range(2):
            writer.overwrite_partitions(self._rows((number, "a", "d1"), (number, "b", "d2")), table)


def plain(value: Any, kind: T.DataType) -> Any:
    """Return a value, of whatever engine, in one spelling: by the type that Spark has for it."""
    if value is None:
        return None
    if isinstance(kind, T.StructType):
        inner = [value[field.name] for field in kind] if isinstance(value, dict) else list(value)
        return tuple(plain(one, field.dataType) for one, field in zip(inner, kind, strict=True))
    if isinstance(kind, T.ArrayType):
        return [plain(one, kind.elementType) for one in value]
    if isinstance(kind, T.MapType):
        pairs = value.items() if isinstance(value, dict) else value
        return sorted((str(plain(key, kind.keyType)), plain(one, kind.valueType)) for key, one in pairs)
    if isinstance(kind, T.DoubleType | T.FloatType):
        return "NaN" if math.isnan(value) else repr(float(value))
    moment = value.replace(tzinfo=None) if isinstance(value, datetime) else value
    return bytes(value) if isinstance(kind, T.BinaryType) else moment


def spelled(rows: Sequence[Any], schema: T.StructType) -> list[str]:
    """Return rows as texts, in an order of their own."""
    kinds = [field.dataType for field in schema]
    return sorted(repr([plain(value, kind) for value, kind in zip(row, kinds, strict=True)]) for row in rows)
