"""The same over Spark Connect, which shows no plan: the server forgets what it remembers before each job.

See :mod:`tests.outside.test_stale_reads` (apache/spark#13419). What `read` returned carries its version in the
query that the client holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame

from table_writer import ConflictError, Maintenance, TableWriter

pytestmark = pytest.mark.needs("connect")
SCHEMA: Final = "id INT, v STRING, dt STRING"


def counted(frame: DataFrame) -> DataFrame:
    frame.count()
    return frame


HELD: Final[dict[str, Callable[[Any, str], DataFrame]]] = {
    "frame": lambda spark, name: counted(spark.table(name)),
    "cached": lambda spark, name: counted(spark.table(name).cache()),
    "SQL": lambda spark, name: counted(spark.sql(f"SELECT * FROM {name} WHERE id IN (SELECT id FROM {name})")),
}


@pytest.mark.parametrize("ddl", ["USING parquet", "USING parquet PARTITIONED BY (dt)"])
def test_no_row_of_others_is_lost(spark: Any, lakehouse_database: str, ddl: str) -> None:
    writer, name = TableWriter(spark), f"{lakehouse_database}.orders"
    elsewhere = Maintenance(services=writer._services)
    put = writer.overwrite_partitions if "PARTITIONED" in ddl else writer.overwrite_table
    spark.sql(f"CREATE TABLE {name} ({SCHEMA}) {ddl}")
    put(spark.createDataFrame([(1, "a", "d1"), (2, "b", "d1")], SCHEMA), name)
    expected = [1, 2]
    for way, held in HELD.items():
        for carry in ("copy", "in_place"):
            frame, other = held(spark, name), len(expected) + 1
            rows = spark.createDataFrame([(other, "other", "d1")], SCHEMA)
            elsewhere.publish(name, writer.stage(rows, name, "append", carry=carry).write_id)
            put(frame.where("id < 100"), name)
            expected.append(other)
            spark.catalog.refreshTable(name)
            assert sorted(row.id for row in spark.table(name).collect()) == expected, (way, carry)
    read = writer.read(name)
    version = writer.version_of(read.join(spark.table(name).select("id"), "id").where("id > 0"), name)
    writer.append(spark.createDataFrame([(50, "other", "d1")], SCHEMA), name)
    with pytest.raises(ConflictError, match=f"after version {version}, on which its rows are based"):
        put(read.where("id < 100"), name)
