"""How names and texts are put into a SQL statement, and what to quote of Spark's answer."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final

__all__ = ["garbled", "literal", "quoted", "spark_reason"]

TRAPS: Final = (
    ("spark.sql.variable.substitute", "${", "would take '${' in a name or a default for a variable"),
    ("spark.sql.parser.escapedStringLiterals", "\\", "would not undo the escaping of quotes, backslashes and '${'"),
)
"""Session settings under which Spark reads a text in a statement otherwise than it is meant."""


@functools.cache
def quoted(name: str) -> str:
    """Return a name as Spark SQL takes it, whatever is in it.

    Examples
    --------
    >>> print(quoted("a `b`"))
    `a ``b```
    """
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    r"""Quote a text; ``${`` is escaped too, since Spark puts variables into a statement before it reads it.

    Examples
    --------
    >>> print(literal("it's ${env:HOME}\\"))
    'it\'s \u0024{env:HOME}\\'
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
    return f"'{escaped}'"


def garbled(statement: str, setting: Callable[[str], str | None]) -> str:
    r"""Say why a session would read a statement otherwise than it is meant; empty if it would not.

    Parameters
    ----------
    statement
        With :func:`quoted` names and :func:`literal` texts.
    setting
        Looks up a setting of the session.

    Examples
    --------
    >>> session = {"spark.sql.parser.escapedStringLiterals": "true"}
    >>> garbled("COMMENT 'plain'", session.get)
    ''
    >>> garbled("COMMENT " + literal("it's"), session.get).partition(":")[2]
    ' set spark.sql.parser.escapedStringLiterals=false in this session, or choose other texts'
    """
    for name, text, effect in TRAPS:
        if text in statement and str(setting(name)).lower() == "true":
            return f"Spark {effect}: set {name}=false in this session, or choose other texts"
    return ""


def spark_reason(said: object) -> str:
    r"""Return the first line that says something, of an error of Spark or of its text; a stack follows it.

    Examples
    --------
    >>> spark_reason("An error occurred while calling o1.collect.\n: java.lang.Error: no room\n\tat x")
    'java.lang.Error: no room'
    """
    lines = (line.strip(": ") for line in str(said).splitlines())
    return next((line for line in lines if line and not line.startswith("An error occurred while calling")), str(said))
