"""For users' tests, demos and notebooks: a real lakehouse in child processes, and one in memory for jobs without Spark.

>>> from table_writer.testing import lakehouse
>>> with lakehouse() as lake:  # doctest: +SKIP
...     lake.spark.sql("SHOW DATABASES").show()

Importing this package starts nothing, and loads neither Spark nor a client of S3 or of the metastore: pytest imports
it in every run of an environment that has the library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from table_writer.testing.embedded import Lakehouse, lakehouse
    from table_writer.testing.memory import MemoryLakehouse
    from table_writer.testing.processes import LakehouseError
    from table_writer.testing.servers import MetastoreServer, S3Server

__all__ = ["Lakehouse", "LakehouseError", "MemoryLakehouse", "MetastoreServer", "S3Server", "lakehouse"]

_ON_FIRST_USE = {
    "Lakehouse": "table_writer.testing.embedded",
    "LakehouseError": "table_writer.testing.processes",
    "MemoryLakehouse": "table_writer.testing.memory",
    "MetastoreServer": "table_writer.testing.servers",
    "S3Server": "table_writer.testing.servers",
    "lakehouse": "table_writer.testing.embedded",
}


def __getattr__(name: str) -> Any:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ON_FIRST_USE[name]), name)
