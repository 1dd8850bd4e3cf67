"""The functions that make checks; a call that makes no sense fails at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from table_writer.check import keys, rows, writes
from table_writer.check.check import Check, Question, Severity, check_name, value_text
from table_writer.checked import checked
from table_writer.errors import InvalidInputError
from table_writer.spark.types import shown_type

MOST_VALUES: Final = 1_000  # each is an expression of its own to Spark's analyzer: 1,000 take it a second
Partitions = str | Mapping[str, object] | Collection[str | Mapping[str, object]]


@checked
def not_null(*columns: str, severity: Severity = "error", name: str = "") -> Check:
    """Every row has a value in each of the columns.

    Costs no read where the files' footers say that there is no null.

    Parameters
    ----------
    *columns
        Names, or paths of fields in structs: ``"address.city"`` is null too where ``address`` is.

    Examples
    --------
    >>> not_null("order_id", "amount").name
    'not_null(order_id, amount)'
    """
    given = _columns(columns, "not_null")
    return _check(name or check_name("not_null", *given), severity, rows.not_null, names=given)


@checked
def unique(*columns: str, severity: Severity = "error", name: str = "") -> Check:
    """No two rows of the write have the same values in the columns, taken together.

    Rows with a null in one of the columns do not count, as in SQL. Rows that the table keeps are not looked at.

    Parameters
    ----------
    *columns
        One key: names, or paths of fields in structs.

    Examples
    --------
    >>> unique("order_id", "line", severity="warn").severity
    'warn'
    """
    given = _columns(columns, "unique")
    return _check(name or check_name("unique", *given), severity, keys.unique, names=given)


@checked
def in_range(
    column: str,
    min: object = None,  # noqa: A002  # the word that users know
    max: object = None,  # noqa: A002  # the word that users know
    *,
    severity: Severity = "error",
    name: str = "",
) -> Check:
    """Values are at least ``min`` and at most ``max``; null passes, NaN does not.

    Costs no read where the files' footers tell the smallest and largest value, and both are inside.

    Parameters
    ----------
    column
        Numbers, text, dates, timestamps or binary.
    min, max
        Both are allowed values themselves; one may be left out. They are compared as values of the column's type: a
        date or a time may be text, as Spark's ``CAST`` reads it: ``"2024-01-31"``, ``"2024-01-31T12:00:00+01:00"``. A
        date stands for its midnight. A time without a zone is in that of the session.

    Examples
    --------
    >>> in_range("amount", min=0, max=10_000).name
    'in_range(amount, min=0, max=10000)'
    """
    [column] = _columns((column,), "in_range")
    if min is None and max is None:
        raise InvalidInputError(f"in_range({column}): give min, max, or both")
    default = check_name("in_range", column, min=min, max=max)
    return _check(name or default, severity, rows.in_range, name=column, low=min, high=max)


@checked
def allowed_values(column: str, values: Collection[object], *, severity: Severity = "error", name: str = "") -> Check:
    """Each value is one of some; null passes.

    Parameters
    ----------
    column
        Of a simple type.
    values
        At most 1,000, compared as values of the column's type. For more of them see :func:`references`.

    Examples
    --------
    >>> allowed_values("country", ["de", "fr"]).name
    'allowed_values(country, de, fr)'
    """
    [column] = _columns((column,), "allowed_values")
    given = tuple(value for value in values if value is not None)
    if not 0 < len(given) <= MOST_VALUES:
        raise InvalidInputError(
            f"allowed_values({column}): {len(given):,} values; give 1 to {MOST_VALUES:,}, or put them into a table and"
            " use references()"
        )
    default = check_name("allowed_values", column, *given)
    return _check(name or default, severity, rows.allowed_values, name=column, values=given)


@checked
def matches(column: str, pattern: str, *, severity: Severity = "error", name: str = "") -> Check:
    """All of each value matches a regular expression; null passes.

    Parameters
    ----------
    column
        Text.
    pattern
        As Java's, like Spark's ``rlike``; but the whole value has to match, as if it stood between ``^`` and ``$``.
        Write ``.*`` around it for a part.

    Examples
    --------
    >>> matches("order_id", "[A-Z]{2}[0-9]+").name
    'matches(order_id, [A-Z]{2}[0-9]+)'
    """
    [column] = _columns((column,), "matches")
    return _check(name or check_name("matches", column, pattern), severity, rows.matches, name=column, pattern=pattern)


@checked
def expression(sql: str, *, severity: Severity = "error", name: str = "") -> Check:
    """A condition in Spark SQL is true for every row; null passes, as with SQL's ``CHECK``.

    With an aggregate function in it, it is judged once, over all rows of the write.

    Parameters
    ----------
    sql
        For example ``shipped_at >= ordered_at``, or ``sum(amount) > 0 AND count(DISTINCT country) >= 5``.

    Examples
    --------
    >>> expression("shipped_at >= ordered_at", name="shipped after it was ordered").name
    'shipped after it was ordered'
    """
    if not sql.strip():
        raise InvalidInputError(f"expression: give a condition in SQL, not {value_text(sql)}")
    return _check(name or check_name("expression", sql.strip()), severity, rows.expression, sql=sql)


@checked
def references(
    columns: str | Collection[str],
    table: str,
    other_columns: str | Collection[str] | None = None,
    *,
    severity: Severity = "error",
    name: str = "",
) -> Check:
    """Every key is there in another table, as with SQL's foreign keys; a key with a null in it passes.

    The other table may be the one that is written: then the rows of the write count too.

    Parameters
    ----------
    columns
        One name, or several that are one key.
    table
        ``database.table``, or a view.
    other_columns
        Their names there; by default the same.

    Examples
    --------
    >>> references("customer_id", "mart.customers", "id").name
    'references(customer_id, mart.customers, id)'
    """
    here = _columns((columns,) if isinstance(columns, str) else columns, "references")
    others = here if other_columns is None else other_columns
    there = _columns((others,) if isinstance(others, str) else others, "references")
    if not table.strip() or len(here) != len(there):
        raise InvalidInputError(
            f"references: give a table, and as many columns there ({len(there)}) as here ({len(here)}), not"
            f" {value_text(table)}"
        )
    default = check_name("references", *here, table, *(there if there != here else ()))
    return _check(name or default, severity, keys.references, names=here, table=table, other_names=there)


def _check(name: str, severity: Severity, rule: Callable[..., Question], /, **given: object) -> Check:
    return Check(name=name, severity=severity, rule=partial(rule, **given))


def _columns(given: Collection[str], function: str) -> tuple[str, ...]:
    columns = tuple(given)
    if not columns or not all(columns):
        raise InvalidInputError(f"{function}: give columns by their names, not {value_text(list(columns))}")
    return columns


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

    Examples
    --------
    >>> row_count(min=1).name
    'row_count(min=1)'
    """
    _require_limits("row_count", min, max)
    return _check(name or check_name("row_count", min=min, max=max), severity, writes.row_count, low=min, high=max)


@checked
def row_count_change(
    min_ratio: float | None = None, max_ratio: float | None = None, *, severity: Severity = "error", name: str = ""
) -> Check:
    """The write has about as many rows as it replaces: rows now ÷ rows before. Passes if it replaces none.

    Costs no read of the write's files. The rows before are those of the partitions that it replaces or drops.

    Parameters
    ----------
    min_ratio, max_ratio
        For example 0.5 and 2; one may be left out.

    Examples
    --------
    >>> row_count_change(min_ratio=0.5, max_ratio=2).name
    'row_count_change(min_ratio=0.5, max_ratio=2)'
    """
    _require_limits("row_count_change", min_ratio, max_ratio)
    default = check_name("row_count_change", min_ratio=min_ratio, max_ratio=max_ratio)
    return _check(name or default, severity, writes.row_count_change, low=min_ratio, high=max_ratio)


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

    Examples
    --------
    >>> fresh("ordered_at", within=timedelta(hours=6)).name
    'fresh(ordered_at, 6:00:00)'
    """
    if within < timedelta():
        raise InvalidInputError(f"fresh: give a span of time that is not negative, and not {value_text(within)}")
    return _check(name or check_name("fresh", column, within), severity, writes.fresh, name=column, within=within)


@checked
def expected_partitions(names: Partitions, *, severity: Severity = "error", name: str = "") -> Check:
    """Each of some partitions gets rows by the write. Costs no read.

    Parameters
    ----------
    names
        Each as ``"dt=2024-01-01/country=de"`` or as ``{"dt": "2024-01-01", "country": "de"}``. A column that is left
        out may have any value.

    Examples
    --------
    >>> expected_partitions([f"dt=2024-01-0{day}" for day in (1, 2)]).name
    'expected_partitions(dt=2024-01-01, dt=2024-01-02)'
    """
    given = _partitions(names, "expected_partitions")
    return _check(name or check_name("expected_partitions", *given), severity, writes.expected_partitions, names=given)


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

    Examples
    --------
    >>> only_partitions(where="dt >= '2024-01-01'").name
    "only_partitions(where=dt >= '2024-01-01')"
    """
    if (names is None) == (where is None):
        raise InvalidInputError("only_partitions: give either names or where")
    if names is not None:
        given = _partitions(names, "only_partitions")
        return _check(name or check_name("only_partitions", *given), severity, writes.only_partitions, names=given)
    if not where or not where.strip():
        raise InvalidInputError(f"only_partitions: where is a predicate in SQL, not {value_text(where)}")
    return _check(name or check_name("only_partitions", where=where), severity, writes.only_where, where=where)


@checked
def has_schema(expected: StructType | str, *, severity: Severity = "error", name: str = "") -> Check:
    """The table has just these columns: names, types and order. Whether they may be null does not count. No read.

    Parameters
    ----------
    expected
        Data columns, then partition columns; as a ``StructType``, or in DDL: ``"id BIGINT, amount DOUBLE, dt STRING"``.

    Examples
    --------
    >>> has_schema("id BIGINT, dt STRING").name
    'has_schema(id BIGINT, dt STRING)'
    """
    if isinstance(expected, str) and not expected.strip():
        raise InvalidInputError(f"has_schema: give a StructType, or DDL, not {value_text(expected)}")
    text = expected if isinstance(expected, str) else shown_type(expected)
    return _check(name or check_name("has_schema", text), severity, writes.has_schema, expected=expected)


@checked
def function_check(function: Callable[[DataFrame], Any], *, severity: Severity = "error", name: str = "") -> Check:
    """A function of one's own that takes the staged rows as a DataFrame finds nothing wrong.

    ``None`` and ``True`` pass. ``False`` fails, and so does whatever it raises, or returns besides.

    Parameters
    ----------
    function
        Any callable. In a list of checks it may stand as it is.

    Examples
    --------
    >>> def amounts_add_up(df):
    ...     assert df.selectExpr("sum(amount) = 100").first()[0]
    >>> function_check(amounts_add_up, severity="warn").name
    'amounts_add_up'
    """
    return _check(name or writes.function_name(function), severity, writes.function_check, function=function)


def _require_limits(function: str, low: float | None, high: float | None) -> None:
    given = [limit for limit in (low, high) if limit is not None]
    if not given or min(given) < 0 or given != sorted(given):
        raise InvalidInputError(
            f"{function}: give a lower limit, an upper one, or both; not {value_text(low)} and {value_text(high)}"
        )


def _partitions(names: Partitions, function: str) -> tuple[object, ...]:
    given = (names,) if isinstance(names, (str, Mapping)) else tuple(names)
    if not given:
        raise InvalidInputError(f"{function}: name at least one partition, not {value_text(names)}")
    return given
