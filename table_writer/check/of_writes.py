"""The functions that make checks of a whole write; a call that makes no sense fails at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from table_writer.check.check import Check, Severity
from table_writer.check.counts import RowCount, RowCountChange
from table_writer.check.fresh import Fresh
from table_writer.check.function import FunctionCheck, function_name
from table_writer.check.partitions import ExpectedPartitions, OnlyPartitions, OnlyWhere
from table_writer.check.schema_check import HasSchema
from table_writer.check.wording import check_name, shown
from table_writer.checked import checked
from table_writer.errors import InvalidInputError

__all__ = [
    "expected_partitions",
    "fresh",
    "function_check",
    "has_schema",
    "only_partitions",
    "row_count",
    "row_count_change",
]

Partitions = str | Mapping[str, object] | Collection[str | Mapping[str, object]]


@checked
def row_count(
    min: int | None = None,  # noqa: A002  # the word that users know
    max: int | None = None,  # noqa: A002  # the word that users know
    *,
    severity: Severity = "error",
    name: str = "",
) -> Check:
    """The write has at least ``min`` and at most ``max`` rows. Costs no read.

    Parameters
    ----------
    min, max
        One may be left out.
    severity
        ``"error"``: nothing is published if it fails. ``"warn"``: the result tells.
    name
        Instead of ``row_count(min=1)``.

    Raises
    ------
    InvalidInputError
        Neither is given, or they are no counts.

    Examples
    --------
    >>> row_count(min=1).name
    'row_count(min=1)'
    """
    _require_limits("row_count", min, max)
    return RowCount(name=name or check_name("row_count", min=min, max=max), severity=severity, low=min, high=max)


@checked
def row_count_change(
    min_ratio: float | None = None,
    max_ratio: float | None = None,
    *,
    severity: Severity = "error",
    name: str = "",
) -> Check:
    """The write has about as many rows as it replaces: rows now ÷ rows before. Passes if it replaces none.

    Costs no read of the write's files. The rows before are those of the partitions that it replaces or drops.

    Parameters
    ----------
    min_ratio, max_ratio
        For example 0.5 and 2; one may be left out.
    severity, name
        As for :func:`row_count`.

    Raises
    ------
    InvalidInputError
        Neither is given, or they are no ratios.

    Examples
    --------
    >>> row_count_change(min_ratio=0.5, max_ratio=2).name
    'row_count_change(min_ratio=0.5, max_ratio=2)'
    """
    _require_limits("row_count_change", min_ratio, max_ratio)
    default = check_name("row_count_change", min_ratio=min_ratio, max_ratio=max_ratio)
    return RowCountChange(name=name or default, severity=severity, low=min_ratio, high=max_ratio)


@checked
def fresh(column: str, within: timedelta, *, severity: Severity = "error", name: str = "") -> Check:
    """The newest value of a column is not older than ``within``, by the driver's clock. Without a value it fails.

    Costs no read where the files' footers or the partitions tell the newest value.

    Parameters
    ----------
    column
        A date, which stands for all of its day in UTC: yesterday is fresh within one day. Or a timestamp; one without
        a zone is taken to be in UTC.
    within
        Not negative.
    severity, name
        As for :func:`row_count`.

    Raises
    ------
    InvalidInputError
        It is no such span of time.

    Examples
    --------
    >>> fresh("ordered_at", within=timedelta(hours=6)).name
    'fresh(ordered_at, 6:00:00)'
    """
    if within < timedelta():
        raise InvalidInputError(f"fresh: give a span of time that is not negative, and not {shown(within)}")
    return Fresh(name=name or check_name("fresh", column, within), severity=severity, column=column, within=within)


@checked
def expected_partitions(names: Partitions, *, severity: Severity = "error", name: str = "") -> Check:
    """Each of some partitions gets rows by the write. Costs no read.

    Parameters
    ----------
    names
        Each as ``"dt=2024-01-01/country=de"`` or as ``{"dt": "2024-01-01", "country": "de"}``. A column that is left
        out may have any value.
    severity, name
        As for :func:`row_count`.

    Raises
    ------
    InvalidInputError
        None is given.

    Examples
    --------
    >>> expected_partitions([f"dt=2024-01-0{day}" for day in (1, 2)]).name
    'expected_partitions(dt=2024-01-01, dt=2024-01-02)'
    """
    given = _partitions(names, "expected_partitions")
    default = check_name("expected_partitions", *given)
    return ExpectedPartitions(name=name or default, severity=severity, names=given)


@checked
def only_partitions(
    names: Partitions | None = None, where: str | None = None, *, severity: Severity = "error", name: str = ""
) -> Check:
    """No other partitions get rows by the write. Reads no file.

    Parameters
    ----------
    names
        As for :func:`expected_partitions`.
    where
        Instead of names: a predicate in Spark SQL over the partition columns, as ``dt >= '2024-01-01'``. It does not
        select a partition for which it is null.
    severity, name
        As for :func:`row_count`.

    Raises
    ------
    InvalidInputError
        Neither or both are given.

    Examples
    --------
    >>> only_partitions(where="dt >= '2024-01-01'").name
    "only_partitions(where=dt >= '2024-01-01')"
    """
    if (names is None) == (where is None):
        raise InvalidInputError("only_partitions: give either names or where")
    if names is not None:
        given = _partitions(names, "only_partitions")
        return OnlyPartitions(name=name or check_name("only_partitions", *given), severity=severity, names=given)
    if not where or not where.strip():
        raise InvalidInputError(f"only_partitions: where is a predicate in SQL, not {shown(where)}")
    return OnlyWhere(name=name or check_name("only_partitions", where=where), severity=severity, where=where)


@checked
def has_schema(expected: StructType | str, *, severity: Severity = "error", name: str = "") -> Check:
    """The table has just these columns: names, types and order. Whether they may be null does not count. No read.

    Parameters
    ----------
    expected
        Data columns, then partition columns; as a ``StructType``, or in DDL: ``"id BIGINT, amount DOUBLE, dt STRING"``.
    severity, name
        As for :func:`row_count`.

    Raises
    ------
    InvalidInputError
        It is no schema.

    Examples
    --------
    >>> has_schema("id BIGINT, dt STRING").name
    'has_schema(id BIGINT, dt STRING)'
    """
    if isinstance(expected, str) and not expected.strip():
        raise InvalidInputError(f"has_schema: give a StructType, or DDL, not {shown(expected)}")
    text = expected if isinstance(expected, str) else expected.simpleString()
    return HasSchema(name=name or check_name("has_schema", text), severity=severity, expected=expected)


@checked
def function_check(function: Callable[[DataFrame], Any], *, severity: Severity = "error", name: str = "") -> Check:
    """A function of one's own that takes the staged rows as a DataFrame finds nothing wrong.

    ``None`` and ``True`` pass. ``False`` fails, and so does whatever it raises, or returns besides.

    Parameters
    ----------
    function
        Any callable. In a list of checks it may stand as it is.
    severity, name
        As for :func:`row_count`.

    Raises
    ------
    InvalidInputError
        It cannot be called.

    Examples
    --------
    >>> def amounts_add_up(df):
    ...     assert df.selectExpr("sum(amount) = 100").first()[0]
    >>> function_check(amounts_add_up, severity="warn").name
    'amounts_add_up'
    """
    return FunctionCheck(name=name or function_name(function), severity=severity, function=function)


def _require_limits(function: str, low: float | None, high: float | None) -> None:
    given = [one for one in (low, high) if one is not None]
    if not given or min(given) < 0 or given != sorted(given):
        raise InvalidInputError(
            f"{function}: give a lower limit, an upper one, or both; not {shown(low)} and {shown(high)}"
        )


def _partitions(names: Partitions, function: str) -> tuple[object, ...]:
    given = (names,) if isinstance(names, (str, Mapping)) else tuple(names)
    if not given:
        raise InvalidInputError(f"{function}: name at least one partition, not {shown(names)}")
    return given
