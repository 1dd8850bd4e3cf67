"""What a catalog or an asset declares of its writes, where nobody calls a ``TableWriter`` by hand."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pkgutil import resolve_name
from typing import Any, Final, get_type_hints

from pyspark.sql import SparkSession

from table_writer import check
from table_writer.checked import nearest
from table_writer.config import WriteKeywords
from table_writer.errors import InvalidInputError
from table_writer.jobs.rows.merge import MergeKeywords

OF_WRITE: Final = frozenset(get_type_hints(WriteKeywords)) - {"if_missing", "based_on", "write_uuid"}
OF_MERGE: Final = frozenset({*get_type_hints(MergeKeywords), "matched", "missing", "set"})
"""The options that may be declared; the others are of one call, or said in another way."""

NAMED_CHECKS: Final = frozenset(check.__all__) - {"Check", "function_check"}


def require_known(given: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Raise ``InvalidInputError`` for the first name that nobody would read, and say which are known."""
    for name in given:
        if name not in known:
            hint = nearest(name, known) or "."
            raise InvalidInputError(f"{where} has no {name}{hint} It takes {', '.join(sorted(known))}")


def session(config: Mapping[str, str] | None = None) -> SparkSession:
    """Return the session of this process; a new one has Hive's catalog, and these settings."""
    builder = SparkSession.builder.enableHiveSupport()
    for name, value in (config or {}).items():
        builder = builder.config(name, value)
    return SparkSession.getActiveSession() or builder.getOrCreate()


def kind_of(value: object) -> str:
    """Return the name of a value's class with its module: many things are called DataFrame.

    Examples
    --------
    >>> kind_of(1)
    'builtins.int'
    """
    return f"{type(value).__module__}.{type(value).__qualname__}"


def declared_checks(declared: Any) -> list[object]:
    """Return checks: by name with arguments, or by the path of a check, of a function, or of a list of them.

    Examples
    --------
    >>> checks = declared_checks([{"not_null": ["id", "dt"]}, {"in_range": {"column": "amount", "min": 0}}])
    >>> [check.name for check in checks]
    ['not_null(id, dt)', 'in_range(amount, min=0)']
    >>> declared_checks("builtins.len")
    [<built-in function len>]
    >>> declared_checks([{"notnull": "id"}])
    Traceback (most recent call last):
    table_writer.errors.InvalidInputError: no check is called notnull; did you mean not_null?
    """
    listed = declared if isinstance(declared, Sequence) and not isinstance(declared, str) else [declared]
    return [check for one_or_more in listed for check in _checks(one_or_more)]


def _checks(declared: Any) -> Sequence[object]:
    if isinstance(declared, Mapping):
        return [_named_check(name, arguments) for name, arguments in declared.items()]
    if not isinstance(declared, str):
        return [declared]
    try:
        found = resolve_name(declared)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInputError(f"checks: {declared!r} names nothing that can be imported: {error}") from error
    return found if isinstance(found, list | tuple) else [found]


def _named_check(name: str, arguments: Any) -> object:
    if name not in NAMED_CHECKS:
        raise InvalidInputError(f"no check is called {name}{nearest(name, NAMED_CHECKS)}")
    function = getattr(check, name)
    if isinstance(arguments, Mapping):
        return function(**arguments)
    return function(*arguments) if isinstance(arguments, list | tuple) else function(arguments)
