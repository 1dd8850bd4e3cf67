"""For users' tests, demos and notebooks: a real lakehouse in child processes.

>>> from table_writer.testing import lakehouse
>>> with lakehouse() as lake:  # doctest: +SKIP
...     lake.spark.sql("SHOW DATABASES").show()

Importing this package starts nothing.
"""

from __future__ import annotations

from table_writer.testing.lakehouse import Lakehouse, lakehouse  # the function hides the module of its name, on purpose
from table_writer.testing.processes import LakehouseError
from table_writer.testing.servers import MetastoreServer, S3Server

__all__ = ["Lakehouse", "LakehouseError", "MetastoreServer", "S3Server", "lakehouse"]
