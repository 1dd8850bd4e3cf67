"""A job on a cluster with Kerberos, run by itself with a directory, and settings of Spark and of Hadoop."""

from __future__ import annotations

import json
import logging
import sys
from contextlib import suppress
from pathlib import Path

from pyspark.sql import SparkSession

from table_writer import InvalidInputError, TableWriter, TableWriterConfig, TableWriterError


def main(directory: Path, settings: dict[str, str], hadoop: dict[str, str]) -> None:
    logging.basicConfig(filename=directory / "python.log", level=logging.DEBUG)
    builder = SparkSession.builder.master("local[1]").enableHiveSupport()
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        said = write(spark, directory / "orders", TableWriterConfig(hadoop=hadoop, progress="off"))
    except TableWriterError as error:
        said = {"error": str(error)}
    (directory / "said.json").write_text(json.dumps(said))
    spark.stop()


def write(spark: SparkSession, location: Path, config: TableWriterConfig) -> dict[str, object]:
    writer = TableWriter(spark, config=config)
    with suppress(InvalidInputError):  # there is no such table yet; a login that fails is another error
        writer.maintenance.history("default.orders")
    columns = "(id INT, dt STRING) USING parquet PARTITIONED BY (dt)"
    spark.sql(f"CREATE TABLE orders {columns} LOCATION '{location.as_uri()}'")
    frame = spark.createDataFrame([(1, "a"), (2, "b")], "id INT, dt STRING")
    results = [writer.overwrite_partitions(frame, "orders"), writer.append(frame.where("dt = 'b'"), "orders")]
    return {
        "rows": sorted([row.id, row.dt] for row in spark.table("orders").collect()),
        "shown": [repr(writer), repr(config), *map(repr, results)],
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3]))
