"""SQL for Spark, and what Spark says of a query that failed; nothing of Java leaves this module."""

from __future__ import annotations

import functools
import logging
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    IntegralType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from table_writer import errors
from table_writer.model import table
from table_writer.model.column_statistics import CHAR_VARCHAR
from table_writer.model.table import NULL_PARTITION, PartitionValues
from table_writer.model.table_read import ReadVersion
from table_writer.spark.types import all_types, cast_sql

Part = TypeVar("Part")

try:
    from py4j.protocol import Py4JError
except ImportError:  # a PySpark of Spark Connect alone has no JVM that could raise it
    SPARK_ERRORS: tuple[type[Exception], ...] = (PySparkException,)
else:
    SPARK_ERRORS = (PySparkException, Py4JError)
"""Errors that a call of Spark raises; some errors of Java have no class of their own in PySpark."""


def _query_loggers() -> tuple[logging.Logger, ...]:
    try:
        from pyspark.logger import PySparkLogger  # noqa: PLC0415 - from Spark 4 on
    except ImportError:
        return ()
    return tuple(map(PySparkLogger.getLogger, ("SQLQueryContextLogger", "DataFrameQueryContextLogger")))


QUERY_LOGGERS: Final = _query_loggers()
"""To these PySpark tells each error of a query, in kilobytes of JSON on standard error, before it is raised."""

PLAIN_IN_PYTHON: Final = (IntegralType, DecimalType, StringType, BooleanType, BinaryType, StructType, ArrayType)
"""Types whose values Python tells apart as Spark does; of structs and arrays it counts what is inside."""

NEWER: Final = 4  # Spark's version, from which on it takes Arrow, and knows UTF-8
ARROW_TYPES: Final[dict[type[DataType], Any]] = {LongType: pa.int64(), StringType: pa.string(), BinaryType: pa.binary()}

TRAPS: Final = (
    ("spark.sql.variable.substitute", "${", "would take '${' in a name or a default for a variable"),
    ("spark.sql.parser.escapedStringLiterals", "\\", "would not undo the escaping of quotes, backslashes and '${'"),
)
"""Session settings under which Spark reads a text in a statement differently from how it is meant."""

NOT_THE_DATA: Final = re.compile(r"^\[(FAILED_READ_FILE|SPARK_JOB_CANCELLED|INTERNAL_ERROR|UNABLE_TO_ACQUIRE_MEMORY)")
"""Conditions of Spark that no value of a row can cause."""

LOST: Final = ("java.io.IOException", "java.lang.OutOfMemoryError", "java.lang.InterruptedException")
OF_THE_DATA: Final = ("21", "22", "23", "38", "39", "P0")
"""Classes of SQLSTATE that are about values, and about a user's own functions."""

RAISED_ON_EXECUTOR: Final = re.compile(r"^(?:.*: )?table_writer\.errors\.(\w+): (.*)$", re.MULTILINE)
"""The end of a Python traceback, in the text of Spark's exception."""

CLOCK: Final = re.compile(
    r"""\b(?:current_(?:timestamp|date|time)|curdate|local_?time(?:stamp)?|now)\s*\(
    |\b(?:date|timestamp(?:_ntz|_ltz)?)\s*['"]\s*(?:now|today|tomorrow|yesterday)\b
    |\bcast\(\s*(?:now|today|tomorrow|yesterday)\b[^()#]*\ as\ (?:date|timestamp)""",
    re.IGNORECASE | re.VERBOSE,
)
"""Functions of the clock, and the words that Spark takes for a time: ``DATE 'today'``, ``cast('now' AS TIMESTAMP)``."""

UNKNOWN_NAME: Final = "[TABLE_OR_VIEW_NOT_FOUND]"
LOOKED_UP: Final = (
    "A temporary view is known to the session that made it. Names are looked up in the session of the DataFrame that"
    " the call is given; without one in that of the streaming batch on this thread, else in the TableWriter's"
)

STACK_OVERFLOW: Final = "java.lang.StackOverflowError"
SPARKS_OWN: Final = "org.apache.spark.SparkException"
DEEPEST: Final = 20  # causes
ENCRYPTING: Final = re.compile(r"org\.apache\.parquet\.crypto\.|createEncryptionProperties")
CONDITION: Final = re.compile(r"\[[A-Z0-9_.]+\]")  # how messages of Spark begin
FRAME: Final = '  File "'  # in a traceback of Python


quoted: Final = functools.cache(table.quoted)


def misreading(statement: str, setting: Callable[[str], str | None]) -> str:
    """Say why a session would read a statement of quoted names and texts differently from what is meant; else empty."""
    for name, text, effect in TRAPS:
        if text in statement and str(setting(name)).lower() == "true":
            return f"Spark {effect}: set {name}=false in this session, or choose other texts"
    return ""


def spark_reason(said: object) -> str:
    """Return the first line that says something, of an error of Spark or of its text; a stack follows it."""
    lines = (line.strip(": ") for line in str(said).splitlines())
    found = next((line for line in lines if line and not line.startswith("An error occurred while calling")), str(said))
    return f"{found.rstrip('.')}. {LOOKED_UP}" if found.startswith(UNKNOWN_NAME) else found


def spark_sentence(said: object) -> str:
    """Return the same, ended by one full stop."""
    return f"{spark_reason(said).rstrip('.')}."


def analyzed_now(query: DataFrame) -> DataFrame:
    """Let Spark analyze a query at once, and raise what is wrong with it: Spark Connect puts that off."""
    query.schema  # noqa: B018
    return query


def frame_of(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: StructType) -> DataFrame:
    """Return rows of numbers, texts and bytes that the driver holds.

    From 4.0 on Spark takes Arrow, and knows how few they are; else a Python worker reads them before any query.
    """
    if int(spark.version.split(".")[0]) < NEWER:
        return spark.createDataFrame(rows, schema)
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    arrays = [
        pa.array(values, ARROW_TYPES[type(field.dataType)]) for values, field in zip(columns, schema, strict=True)
    ]
    return spark.createDataFrame(pa.table(arrays, names=schema.names), schema)


def fetched(rows: DataFrame) -> list[Row]:
    """Collect a small frame into the driver, to be compared and shown there: numbers, texts, truths and bytes.

    Python has other times and dates than Spark: naive ones, in the zone of the process, of which two are equal in the
    hour that comes twice, and none before year 1 and after 9999. So values of these types stay in Spark.
    """
    odd = [kind for kind in all_types(rows.schema) if not isinstance(kind, PLAIN_IN_PYTHON)]
    if odd:
        raise TypeError(f"values of {odd[0]} are not the same in Python: compare them in Spark, or collect their text")
    return rows.collect()


def grouped(rows: DataFrame, keys: Mapping[str, Column], *aggregates: Column) -> DataFrame:
    """Return the groups of rows: their keys, by their names, and then what each is aggregated to.

    Spark adds the keys itself, unless a session says otherwise (``spark.sql.retainGroupColumns``): so they are asked
    for, and nothing else is taken.
    """
    own = {f"__table_writer_group_{position}": key for position, key in enumerate(keys.values())}
    found = rows.groupBy(*keys.values()).agg(*(key.alias(alias) for alias, key in own.items()), *aggregates)
    values = (F.col(alias).alias(name) for alias, name in zip(own, keys, strict=True))
    return found.select(*values, *map(quoted, found.columns[len(found.columns) - len(aggregates) :]))


def is_utf8(spark: SparkSession, text: Column) -> Column:
    """Return whether a text is one; before 4.0 Spark has no function for it, and none that fails."""
    if int(spark.version.split(".")[0]) >= NEWER:
        return F.call_function("is_valid_utf8", text)
    return F.encode(F.decode(text.cast("binary"), "UTF-8"), "UTF-8") == text.cast("binary")


def text_of(value: Column, kind: DataType) -> Column:
    """Spell a value for people; bytes in hexadecimal, since they need be no text."""
    return F.concat(F.lit("0x"), F.hex(value)) if isinstance(kind, BinaryType) else value.cast("string")


def balanced_tree(combine: Callable[[Part, Part], Part], parts: Iterable[Part]) -> Part:
    """Combine one part or more, in their order, to a tree of the least depth.

    Spark walks through a query by recursion: a chain of some hundred parts overflows the stack of its threads.

    Examples
    --------
    >>> balanced_tree("({}+{})".format, "abcde")
    '(((a+b)+(c+d))+e)'
    """
    level = list(parts)
    while len(level) > 1:
        level = [*map(combine, level[::2], level[1::2]), *level[len(level) & ~1 :]]
    return level[0]


def version_name(table: str, version: int) -> str:
    """Return the alias of rows of one version; it stays in the plan of every query that is made of them.

    Examples
    --------
    >>> version_name("mart.orders", 12), version_named("mart.orders@12", "mart.orders")
    ('mart.orders@12', 12)
    """
    return f"{table}@{version}"


def version_named(alias: str, table: str) -> ReadVersion | None:
    """Read the version out of such an alias; ``None`` if it is another, or of another table."""
    name, _, version = alias.rpartition("@")
    return ReadVersion(version) if name == table and version.isdecimal() else None


def in_partitions(fields: Sequence[StructField], partitions: Collection[PartitionValues]) -> Column:
    """Return whether a row is of one of some partitions, of which there is one or more; Spark lists no others.

    One set to look up: a chain of ORs overflows Spark's stack at some thousand partitions. And one text, in which all
    values are in hexadecimal: a Column for each costs milliseconds.
    """
    if not fields:
        return F.lit(True)

    def comparable(value: str, field: StructField) -> str:  # char(n) is read with blanks, and may lie without
        return f"rtrim({value})" if str(field.metadata.get(CHAR_VARCHAR)).startswith("char(") else value

    def value(text: str, field: StructField) -> str:
        given = "NULL" if text == NULL_PARTITION else cast_sql(f"X'{text.encode().hex()}'", StringType())
        return comparable(cast_sql(given, field.dataType), field)

    def struct(values: Iterable[str]) -> str:  # nulls inside of structs are equal
        named = (f"'_{position}', {value}" for position, value in enumerate(values))
        return f"named_struct({', '.join(named)})"

    rows = (struct(map(value, values, fields)) for values in partitions)
    return F.expr(f"{struct(comparable(quoted(field.name), field) for field in fields)} IN ({', '.join(rows)})")


@dataclass(frozen=True, slots=True)
class DataError:
    """An error that an expression met in some row's value."""

    kind: str  # ``[CAST_INVALID_INPUT]``, ``ValueError``: without any value, so that it may be stored
    text: str  # all that was said in one line, in which values of the row may stand


def error_in_data(error: Exception) -> DataError | None:
    """Return the error that an expression met in some row's value; ``None`` where the query failed for another reason.

    Spark wraps what a task raised. It is the data's fault unless something in the chain of causes is about reading
    (also each error of a file system), memory or cancelling, or nothing but Spark's own "job aborted" is known.
    """
    if not hasattr(error, "_origin") and isinstance(error, PySparkException):
        return _of_a_server(error)
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


def _of_a_server(error: PySparkException) -> DataError | None:
    """Judge by what Spark Connect keeps of the causes: a condition and its SQLSTATE, or a traceback of Python."""
    said = str(error)
    if isinstance(error, PythonException):
        line = _said_by_python(said)
        return DataError(line.partition(":")[0], line)
    if NOT_THE_DATA.match(said.strip()) or str(error.getSqlState() or "")[:2] not in OF_THE_DATA:
        return None
    return DataError(f"[{error.getCondition()}]", spark_reason(said))


@contextmanager
def without_logs_of(*loggers: logging.Logger) -> Iterator[None]:
    """Keep what this thread does out of some loggers of PySpark: secrets that it is told, errors that it asks for."""
    here = threading.get_ident()

    def is_other(record: logging.LogRecord) -> bool:
        return record.thread != here

    for logger in loggers:
        logger.addFilter(is_other)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_other)


def without_query_log() -> AbstractContextManager[None]:
    """Keep this thread's failing queries out of PySpark's log: each error is raised, and says as much."""
    return without_logs_of(*QUERY_LOGGERS)


def asks_clock(text: str) -> bool:
    """Return whether an expression, as it is written or as Spark has analyzed it, is about the time of its job."""
    return CLOCK.search(text) is not None


@contextmanager
def spark_errors_translated(write_id: str) -> Iterator[None]:
    """Turn Spark's exception into the error that a task raised; let failures of the user's own code pass."""
    try:
        yield
    except SPARK_ERRORS as error:
        found = RAISED_ON_EXECUTOR.findall(str(error))
        if STACK_OVERFLOW in str(error):
            raise errors.InvalidInputError(
                "this DataFrame's query is too deep for the stack of Spark's threads (StackOverflowError): it may be a"
                ""
                " long"
                " chain of withColumn, union or conditions. Nothing was published. Write or checkpoint what comes"
                " before, and go on from there; or start Spark with spark.driver.extraJavaOptions=-Xss16m.",
                write_id=write_id,
            ) from error
        if not found:
            raise
        name, message = found[-1]
        kind = getattr(errors, name, errors.TableWriterError)
        raise kind(message, write_id=write_id) from error


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


def why_not_encrypted(error: Exception) -> str:
    """Return why Parquet's encryption has failed; empty where something else has.

    Java's messages are not repeated, for keys may be in them; but for the name of a class that is not there.
    """
    causes = list(_causes(error))
    frames = (str(frame) for cause in causes for frame in cause.getStackTrace())
    if not any(map(ENCRYPTING.search, frames)):
        return ""
    first = causes[-1]
    name = str(first.getClass().getName())
    return str(first.getMessage()) if name == "java.lang.ClassNotFoundException" else name


def _is_lost(cause: Any) -> bool:
    kind: Any = cause.getClass()
    names = []
    while kind is not None:
        names.append(str(kind.getName()))
        kind = kind.getSuperclass()
    return any(name in LOST for name in names)
