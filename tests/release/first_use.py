"""What the wheel can do by itself: run by the Python of an empty environment, which has nothing of this repository."""

from __future__ import annotations

import importlib
import json
import pkgutil

import table_writer
from table_writer import InvalidInputError, TableWriter
from table_writer.testing import lakehouse

if __name__ == "__main__":
    missing = {}
    for module in pkgutil.walk_packages(table_writer.__path__, "table_writer."):
        try:
            importlib.import_module(module.name)
        except (ModuleNotFoundError, InvalidInputError) as error:  # the second names the extra
            missing[module.name] = str(error)
    with lakehouse(storage="file") as lake:
        lake.spark.sql("CREATE TABLE orders (id INT, dt STRING) USING parquet PARTITIONED BY (dt)")
        orders = lake.spark.createDataFrame([(1, "2024-01-01"), (2, "2024-01-02")], "id INT, dt STRING")
        TableWriter(lake.spark).overwrite_partitions(orders, "orders")
        rows = lake.spark.table("orders").count()
    print(json.dumps({"version": table_writer.__version__, "missing": missing, "rows": rows}))
