"""The gateway to Spark: everything that uses its private API.

================  ======================================================================
``gateway``       what is asked of a session, as a protocol
``classic``       a classic session, which answers through its JVM
``files``         Spark's own writer and reader at a location of our choice; committers
``past``          the rows of an older version: files that no table points at any more
``executors``     executors, prepared once, and the requests that only they can send in time
``sql``           SQL for Spark, and what Spark says of a query that failed
``create_table``  a table as Spark's own ``CREATE TABLE`` makes it
================  ======================================================================
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from table_writer.spark.classic import ClassicSpark
from table_writer.spark.gateway import SparkGateway


def open_gateway(spark: SparkSession) -> SparkGateway:
    """Return what answers for a session; it keeps nothing, so each call may open its own. Refuses Spark Connect."""
    return ClassicSpark(spark)
