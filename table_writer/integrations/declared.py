"""What a catalog or an asset declares of its writes, where nobody calls a ``TableWriter`` by hand."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pkgutil import resolve_name
from typing import Any, Final, get_type_hints

from table_writer.checked import nearest
from table_writer.config import MergeKeywords, WriteKeywords
from table_writer.errors import InvalidInputError

OF_WRITE: Final = frozenset(get_type_hints(WriteKeywords)) - {"if_missing", "based_on", "write_uuid"}
OF_MERGE: Final = frozenset({*get_type_hints(MergeKeywords), "matched", "missing", "set"})
"""The options that may be declared; the others are of one call, or said in another way."""


def require_known(given: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Raise ``InvalidInputError`` for the first name that nobody would read, and say which are known."""
    for name in given:
        if name not in known:
            hint = nearest(name, known) or "."
            raise InvalidInputError(f"{where} has no {name}{hint} It takes {', '.join(sorted(known))}")


def kind_of(value: object) -> str:
    """Return the name of a value's class with its module: many things are called DataFrame.

    Examples
    --------
    >>> kind_of(1)
    'builtins.int'
    """
    return f"{type(value).__module__}.{type(value).__qualname__}"


def declared_checks(declared: Any) -> list[object]:
    """Return checks; a text is the path of a check, of a function, or of a list of them.

    Examples
    --------
    >>> [check.__name__ for check in declared_checks(["table_writer.check.row_count", len])]
    ['row_count', 'len']
    >>> declared_checks("table_writer.check.rows_count")
    Traceback (most recent call last):
    table_writer.errors.InvalidInputError: checks: 'table_writer.check.rows_count' names nothing that can be imported: \
module 'table_writer.check' has no attribute 'rows_count'
    """
    listed = declared if isinstance(declared, Sequence) and not isinstance(declared, str) else [declared]
    return [check for one_or_more in listed for check in _found(one_or_more)]


def _found(declared: Any) -> Iterator[object]:
    if not isinstance(declared, str):
        yield declared
        return
    try:
        found = resolve_name(declared)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInputError(f"checks: {declared!r} names nothing that can be imported: {error}") from error
    yield from found if isinstance(found, list | tuple) else (found,)
