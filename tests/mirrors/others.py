"""Files as other tools write them: their spelling of columns, and their ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

PERSON: Final = "STRUCT<City: STRING, Zip: INT>"
DDL: Final = (
    f"CREATE TABLE {{name}} (userId INT, Amount DOUBLE, home {PERSON}, stays ARRAY<{PERSON}>,"
    f" byYear MAP<STRING, {PERSON}>, dt STRING) {{stored}} PARTITIONED BY (dt)"
)
HIVES: Final = f"""CREATE TABLE {{name}} (userid INT, amount DOUBLE, home {PERSON.lower()},
    stays ARRAY<{PERSON.lower()}>, byyear MAP<STRING, {PERSON.lower()}>) PARTITIONED BY (dt STRING) STORED AS PARQUET"""
SPELLINGS: Final[Mapping[str, Callable[[str], str]]] = {
    "as in the table": str,
    "lower": str.lower,
    "upper": str.upper,
    "swapped": str.swapcase,
    "within structs alone": lambda name: name.lower() if name in {"City", "Zip"} else name,
}


def people(spell: Callable[[str], str] = str, ids: Mapping[str, int] | None = None) -> pa.Table:
    """Return two rows as another tool writes them."""

    def field(name: str, kind: Any) -> Any:
        number = (ids or {}).get(name)
        return pa.field(spell(name), kind, metadata=None if number is None else {"PARQUET:field_id": str(number)})

    person = pa.struct([field("City", pa.string()), field("Zip", pa.int32())])
    berlin, rome = ({spell("City"): city, spell("Zip"): code} for city, code in (("Berlin", 10115), ("Rome", 100)))
    columns = {
        "userId": (pa.int32(), [1, 2]),
        "Amount": (pa.float64(), [1.5, 2.5]),
        "home": (person, [berlin, rome]),
        "stays": (pa.list_(person), [[berlin, rome], [rome]]),
        "byYear": (pa.map_(pa.string(), person), [[("2024", berlin)], [("2025", rome)]]),
    }
    fields = [field(name, kind) for name, (kind, _) in columns.items()]
    return pa.table([pa.array(values, kind) for kind, values in columns.values()], pa.schema(fields))


def another(spark: SparkSession, table: str, number: int, partition: str) -> Any:
    """Return one row more, of the table's own columns."""
    person = f"named_struct('City', 'Oslo', 'Zip', {number})"
    columns = f"{number} AS userId, {number}.5D AS Amount, {person} AS home, array({person}) AS stays"
    return spark.sql(f"SELECT {columns}, map('2026', {person}) AS byYear, '{partition}' AS dt")


def put_local_file(spark: SparkSession, table: str, partition: str, rows: pa.Table) -> None:
    """Put a file of another tool into a partition of a table that is in local files."""
    described = spark.sql(f"DESCRIBE FORMATTED {table}").where("col_name = 'Location'").first()
    assert described is not None
    directory = Path(str(described[1]).removeprefix("file:")) / partition
    directory.mkdir(parents=True)
    pq.write_table(rows, directory / "theirs.parquet")
    name, _, value = partition.partition("=")
    spark.sql(f"ALTER TABLE {table} ADD PARTITION ({name}='{value}')")
    spark.sql(f"REFRESH TABLE {table}")
