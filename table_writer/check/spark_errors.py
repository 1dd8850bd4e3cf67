"""Which of Spark's failures are the data's, and which are the storage's or Spark's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark.errors import PythonException

from table_writer.sql_text import spark_reason

__all__ = ["DataError", "error_in_data"]

NOT_THE_DATA: Final = re.compile(r"^\[(FAILED_READ_FILE|SPARK_JOB_CANCELLED|INTERNAL_ERROR|UNABLE_TO_ACQUIRE_MEMORY)")
"""Conditions of Spark that no value of a row can cause."""

SPARKS_OWN: Final = "org.apache.spark.SparkException"
LOST: Final = ("java.io.IOException", "java.lang.OutOfMemoryError", "java.lang.InterruptedException")
DEEPEST: Final = 20  # causes
CONDITION: Final = re.compile(r"\[[A-Z0-9_.]+\]")  # how messages of Spark begin
FRAME: Final = '  File "'  # in a traceback of Python


@dataclass(frozen=True, slots=True)
class DataError:
    """What an expression made of some row's value.

    Parameters
    ----------
    kind
        ``[CAST_INVALID_INPUT]``, ``ValueError``: without any value, so that it may be stored.
    text
        All that was said in one line, in which values of the row may stand.
    """

    kind: str
    text: str


def error_in_data(error: Exception) -> DataError | None:
    """Return what an expression made of some row's value; ``None`` where the query failed for another reason.

    Spark wraps what a task raised. It is the data's fault unless something in the chain of causes is about reading
    (also each error of a file system), memory or cancelling, or nothing but Spark's own "job aborted" is known.
    """
    causes = list(_causes(error))
    messages = [str(cause.getMessage() or "") for cause in causes]
    if not causes or any(map(NOT_THE_DATA.match, messages)) or any(map(_is_lost, causes)):
        return None
    if isinstance(error, PythonException):
        said = _said_by_python(str(error))
        return DataError(said.partition(":")[0], said)
    for cause, message in zip(causes, messages, strict=True):
        name, condition = str(cause.getClass().getName()), CONDITION.match(message)
        if condition or name != SPARKS_OWN:
            return DataError(condition[0] if condition else name, spark_reason(message or cause.toString()))
    return None


def _said_by_python(text: str) -> str:
    """Return the line after the last frame of a traceback: ``ValueError: two is odd``."""
    lines = text[text.rfind(FRAME) + 1 :].splitlines()[1:]
    return next((line.strip() for line in lines if line[:1].strip()), "PythonException")


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
