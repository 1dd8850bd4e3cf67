"""The size of the batches in which Spark sends rows to Python, for one job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from pyspark.sql import SparkSession

__all__ = ["batches_of"]

MAX_ROWS_SETTING: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
MAX_BYTES_SETTING: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
UNWEIGHED: Final = 2**31 - 1  # the one value with which Spark does not compute the size of a batch after each row


@contextmanager
def batches_of(spark: SparkSession, row_count: int) -> Iterator[None]:
    """Let the jobs that this thread starts in a block send so many rows at once, not weighed; 0 leaves it to Spark.

    A session that sets one of Spark's two limits keeps them. Tasks read them from the properties of their job, into
    which Spark puts all that a session sets: so no setting changes, and nothing of what other threads run meanwhile.
    """
    context: Any = spark.sparkContext  # whose annotation forgets that None takes a property away
    conf: Any = spark._jsparkSession.sessionState().conf()  # noqa: SLF001 - what is set, without defaults
    limits = {MAX_ROWS_SETTING: str(row_count), MAX_BYTES_SETTING: str(UNWEIGHED)} if row_count else {}
    chosen = {} if any(conf.contains(name) for name in limits) else limits
    before = {name: context.getLocalProperty(name) for name in chosen}
    try:
        for name, value in chosen.items():
            context.setLocalProperty(name, value)
        yield
    finally:
        for name, former in before.items():
            context.setLocalProperty(name, former)
