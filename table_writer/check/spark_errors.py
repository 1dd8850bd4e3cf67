"""Which of Spark's failures are the data's, and which are the storage's or Spark's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from pyspark.errors import PythonException

from table_writer.sql_text import spark_reason

__all__ = ["reason_in_data"]

NOT_THE_DATA: Final = re.compile(r"^\[(FAILED_READ_FILE|SPARK_JOB_CANCELLED|INTERNAL_ERROR|UNABLE_TO_ACQUIRE_MEMORY)")
"""Conditions of Spark that no value of a row can cause."""

SPARKS_OWN: Final = "org.apache.spark.SparkException"
LOST: Final = ("java.io.IOException", "java.lang.OutOfMemoryError", "java.lang.InterruptedException")
DEEPEST: Final = 20  # causes


def reason_in_data(error: Exception) -> str | None:
    """Return what an expression made of some row's value; ``None`` where the query failed for another reason.

    Spark wraps what a task raised. It is the data's fault unless something in the chain of causes is about reading
    (also each error of a file system), memory or cancelling, or nothing but Spark's own "job aborted" is known.
    """
    causes = list(_causes(error))
    messages = [str(cause.getMessage() or "") for cause in causes]
    if not causes or any(map(NOT_THE_DATA.match, messages)) or any(map(_is_lost, causes)):
        return None
    if isinstance(error, PythonException):
        return [line for line in str(error).splitlines() if line.strip()][-1].strip()
    for cause, message in zip(causes, messages, strict=True):
        if message.startswith("[") or str(cause.getClass().getName()) != SPARKS_OWN:
            return spark_reason(message or cause.toString())
    return None


def _causes(error: Exception) -> Iterator[Any]:
    """Yield Java's exceptions from the outermost to the first."""
    cause: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    for _ in range(DEEPEST):
        if cause is None:
            return
        yield cause
        cause = cause.getCause()


def _is_lost(cause: Any) -> bool:
    kind: Any = cause.getClass()
    names = []
    while kind is not None:
        names.append(str(kind.getName()))
        kind = kind.getSuperclass()
    return any(name in LOST for name in names)
