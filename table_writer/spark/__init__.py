"""The gateway to Spark: everything that uses its private API.

====================  ==========================================================================
``gateway``           what is asked of a session, as a protocol
``classic``           a classic session, which answers through its JVM
``connect``           a session of Spark Connect, which has none
``files``             Spark's own writer and reader at a location of our choice; committers
``past``              the rows of an older version: files that no table points at any more
``reads``             what a query reads of one table, file by file, as Spark has listed it
``executors``         executors, prepared once, and the requests that only they can send in time
``session``           a session for a call that takes Spark, where nobody has one
``shipping``          the parts of this package that executors and streams are sent
``types``             types, and how they, names and texts are spelled for Spark's parser
``sql``               SQL for Spark, and what Spark says of a query that failed
``statement``         a statement of SQL, taken apart
``parser``            Spark's parser and analyzer, which take it apart
``other_statements``  statements that no call is made of, and what to do instead
``conditions``        the one rule for texts that are to be a condition
``widths``            how many bytes rows take in Arrow
``comet``             Comet's batches, where it is a plugin of Spark
``few_rows``          rows that may be few enough for the driver to write
``create_table``      a table as Spark's own ``CREATE TABLE`` makes it
====================  ==========================================================================
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from table_writer.spark.gateway import SparkGateway


def open_gateway(spark: SparkSession) -> SparkGateway:
    """Return a session's gateway; it keeps nothing, so each call may open its own.

    Of the two kinds only that is imported that is asked for: one needs a JVM, the other its packages for gRPC.
    """
    if is_connect(spark):
        from table_writer.spark.connect import ConnectSpark  # noqa: PLC0415

        return ConnectSpark(spark)
    from table_writer.spark.classic import ClassicSpark  # noqa: PLC0415

    return ClassicSpark(spark)


def is_connect(spark: object) -> bool:
    """Return whether a session is one of Spark Connect; nothing is imported to find out."""
    return any(kind.__module__.startswith("pyspark.sql.connect.") for kind in type(spark).__mro__)
