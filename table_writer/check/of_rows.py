"""The functions that make checks of rows; a call that makes no sense fails at once."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from table_writer.check.check import Check, Severity
from table_writer.check.expression import Expression
from table_writer.check.references import References
from table_writer.check.row_checks import Matches, NotNull
from table_writer.check.unique import Unique
from table_writer.check.value_checks import AllowedValues, InRange
from table_writer.check.wording import check_name, shown
from table_writer.checked import checked
from table_writer.errors import InvalidInputError

__all__ = ["allowed_values", "expression", "in_range", "matches", "not_null", "references", "unique"]

MOST_VALUES: Final = 1_000  # each is an expression of its own to Spark's analyzer: 1,000 take it a second


@checked
def not_null(*columns: str, severity: Severity = "error", name: str = "") -> Check:
    """Every row has a value in each of the columns.

    Costs no read where the files' footers say that there is no null.

    Parameters
    ----------
    *columns
        Names, or paths of fields in structs: ``"address.city"`` is null too where ``address`` is.
    severity
        ``"error"``: nothing is published if it fails. ``"warn"``: the result tells.
    name
        Instead of ``not_null(order_id)``.

    Raises
    ------
    InvalidInputError
        No column is given.

    Examples
    --------
    >>> not_null("order_id", "amount").name
    'not_null(order_id, amount)'
    """
    given = _columns(columns, "not_null")
    return NotNull(name=name or check_name("not_null", *given), severity=severity, columns=given)


@checked
def unique(*columns: str, severity: Severity = "error", name: str = "") -> Check:
    """No two rows of the write have the same values in the columns, taken together.

    Rows with a null in one of the columns do not count, as in SQL. Rows that the table keeps are not looked at.

    Parameters
    ----------
    *columns
        One key: names, or paths of fields in structs.
    severity, name
        As for :func:`not_null`.

    Raises
    ------
    InvalidInputError
        No column is given.

    Examples
    --------
    >>> unique("order_id", "line", severity="warn").severity
    'warn'
    """
    given = _columns(columns, "unique")
    return Unique(name=name or check_name("unique", *given), severity=severity, columns=given)


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
        date or a time may be text (ISO 8601). A date stands for its midnight. A time without a zone is in that of the
        session.
    severity, name
        As for :func:`not_null`.

    Raises
    ------
    InvalidInputError
        Neither is given.

    Examples
    --------
    >>> in_range("amount", min=0, max=10_000).name
    'in_range(amount, min=0, max=10000)'
    """
    [column] = _columns((column,), "in_range")
    if min is None and max is None:
        raise InvalidInputError(f"in_range({column}): give min, max, or both")
    default = check_name("in_range", column, min=min, max=max)
    return InRange(name=name or default, severity=severity, column=column, low=min, high=max)


@checked
def allowed_values(column: str, values: Collection[object], *, severity: Severity = "error", name: str = "") -> Check:
    """Each value is one of some; null passes.

    Parameters
    ----------
    column
        Of a simple type.
    values
        At most 1,000, compared as values of the column's type. For more of them see :func:`references`.
    severity, name
        As for :func:`not_null`.

    Raises
    ------
    InvalidInputError
        There is no value, or there are too many.

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
    return AllowedValues(name=name or default, severity=severity, column=column, values=given)


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
    severity, name
        As for :func:`not_null`.

    Raises
    ------
    InvalidInputError
        It is no text.

    Examples
    --------
    >>> matches("order_id", "[A-Z]{2}[0-9]+").name
    'matches(order_id, [A-Z]{2}[0-9]+)'
    """
    [column] = _columns((column,), "matches")
    default = check_name("matches", column, pattern)
    return Matches(name=name or default, severity=severity, column=column, pattern=pattern)


@checked
def expression(sql: str, *, severity: Severity = "error", name: str = "") -> Check:
    """A condition in Spark SQL is true for every row; null passes, as with SQL's ``CHECK``.

    With an aggregate function in it, it is judged once, over all rows of the write.

    Parameters
    ----------
    sql
        For example ``shipped_at >= ordered_at``, or ``sum(amount) > 0 AND count(DISTINCT country) >= 5``.
    severity, name
        As for :func:`not_null`.

    Raises
    ------
    InvalidInputError
        It is no text.

    Examples
    --------
    >>> expression("shipped_at >= ordered_at", name="shipped after it was ordered").name
    'shipped after it was ordered'
    """
    if not sql.strip():
        raise InvalidInputError(f"expression: give a condition in SQL, not {shown(sql)}")
    return Expression(name=name or check_name("expression", sql.strip()), severity=severity, sql=sql)


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
    severity, name
        As for :func:`not_null`.

    Raises
    ------
    InvalidInputError
        There are not as many columns here as there.

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
            f" {shown(table)}"
        )
    default = check_name("references", *here, table, *(there if there != here else ()))
    return References(name=name or default, severity=severity, columns=here, table=table, other_columns=there)


def _columns(given: Collection[str], function: str) -> tuple[str, ...]:
    columns = tuple(given)
    if not columns or not all(columns):
        raise InvalidInputError(f"{function}: give columns by their names, not {shown(list(columns))}")
    return columns
