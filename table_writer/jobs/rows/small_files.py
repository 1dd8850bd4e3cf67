"""The rows of small files that this library has written, fetched by tasks of ours.

Spark's reader asks for a file five times, one after another, and looks at one file a core; ours asks once, for many
files at a time. It reads what needs no conversion: plain types, in files that hold exactly the table's columns of
today. For all else there is Spark's.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql import types as T  # noqa: N812  # as Spark documents it

from table_writer.jobs.plan.planner import typed_partition_value
from table_writer.jobs.plan.types import partition_schema, table_schema
from table_writer.model.units import MIB
from table_writer.protocol.table.open_table import OpenTable
from table_writer.spark import open_gateway
from table_writer.spark.executors import as_sent
from table_writer.spark.sql import frame_of, quoted
from table_writer.spark.types import exact_type
from table_writer.storage.footers import Footer
from table_writer.storage.parquet_rows import FilesOfTask, row_reader

LARGEST_BYTES: Final = 4 * MIB  # of a file: of larger ones Spark's requests are the smaller part
SHARE_BYTES: Final = 16 * MIB  # of the files of one task, at the most
LEAST_SHARES: Final = 8
MICROS: Final = pa.timestamp("us", tz="UTC")
ARROW_TYPES: Final[dict[T.DataType, Any]] = {
    T.BooleanType(): pa.bool_(),
    T.ByteType(): pa.int8(),
    T.ShortType(): pa.int16(),
    T.IntegerType(): pa.int32(),
    T.LongType(): pa.int64(),
    T.FloatType(): pa.float32(),
    T.DoubleType(): pa.float64(),
    T.StringType(): pa.string(),
    T.BinaryType(): pa.binary(),
    T.DateType(): pa.date32(),
    T.TimestampType(): MICROS,
    T.TimestampNTZType(): pa.timestamp("us"),
}
SHARES: Final = T.StructType([T.StructField("share", T.BinaryType())])
INT96: Final = pa.timestamp("ns")  # how Arrow shows the timestamps that Spark writes by default
SHIFTS_INT96: Final = "spark.sql.parquet.int96TimestampConversion"


class SmallFiles:
    """Reads small files of one table; :attr:`schema` is ``None`` if it has a column that only Spark reads."""

    def __init__(self, spark: SparkSession, opened: OpenTable) -> None:
        self._spark = spark
        self._opened = opened
        self._partition_fields = partition_schema(opened.table).fields
        every_field = table_schema(opened.table).fields
        self._fields = every_field[: len(every_field) - len(self._partition_fields)]
        self.schema = self._arrow_schema()

    def _arrow_schema(self) -> Any:
        types = [_arrow_type(field) for field in self._fields]
        if None in types or (MICROS in types and self._spark.conf.get(SHIFTS_INT96, "false") != "false"):
            return None
        return pa.schema([(field.name, kind) for field, kind in zip(self._fields, types, strict=True)])

    def can_read(self, footer: Footer | None) -> bool:
        """Return whether a file's rows need no conversion."""
        if footer is None or not footer.is_ours or self.schema is None:
            return False
        spellings = Counter(name.lower() for name in footer.schema.names)
        return all(
            spellings[field.name.lower()] == 1
            and field.name in footer.schema.names
            and _is_read_as(footer.schema.field(field.name).type, field.type)
            for field in self.schema
        )

    def rows(self, files: FilesOfTask) -> DataFrame:
        """Return the rows of files that can be read, with the columns and types that the table has."""
        kinds = [*(field.dataType for field in self._fields), *(T.StringType() for _ in self._partition_fields)]
        # a session may compare names too (spark.sql.execution.arrow.pyspark.validateSchema.enabled)
        schema = T.StructType([T.StructField(str(number), kind) for number, kind in enumerate(kinds)])
        gateway = open_gateway(self._spark)
        gateway.prepare_executors()
        packed = [(pickle.dumps(share),) for share in _shares(files)]
        read = as_sent(row_reader(self._opened.store_settings, self.schema, len(self._partition_fields)))
        rows = frame_of(self._spark, packed, SHARES).mapInArrow(read, schema)
        renamed = rows.toDF(*(field.name for field in (*self._fields, *self._partition_fields)))
        data = [F.col(quoted(field.name)).alias(field.name, metadata=field.metadata) for field in self._fields]
        typed = [typed_partition_value(self._spark, field) for field in self._partition_fields]
        return renamed.select(*data, *typed)


def _arrow_type(field: T.StructField) -> Any:
    """Return the type in which a column's values come; ``None`` if only Spark knows what becomes of them."""
    if exact_type(field) != field.dataType:  # CHAR and VARCHAR
        return None
    if isinstance(field.dataType, T.DecimalType):
        return pa.decimal128(field.dataType.precision, field.dataType.scale)
    return ARROW_TYPES.get(field.dataType)


def _is_read_as(stored: Any, wanted: Any) -> bool:
    if wanted == MICROS:
        return bool(stored == INT96 or (pa.types.is_timestamp(stored) and stored.tz == "UTC" and stored.unit != "ns"))
    return bool(stored == wanted)


def _shares(files: FilesOfTask) -> Iterator[FilesOfTask]:
    """Split files among tasks: evenly, and so that none gets too much."""
    total = sum(file.size_bytes for file, _ in files)
    count = min(len(files), max(LEAST_SHARES, -(-total // SHARE_BYTES)))
    return (files[start::count] for start in range(count))
