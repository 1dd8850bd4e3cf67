"""How checks, values and counts are spelled for people; nothing here can break a terminal or a log line."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Final

from table_writer.printable import printable

__all__ = ["check_name", "counted", "listed", "printable", "row_count_text", "shortened", "shown"]

LONGEST_NAME: Final = 120
LONGEST_VALUE: Final = 40
LISTED: Final = 5


def shortened(text: str, longest: int = LONGEST_VALUE) -> str:
    """Cut a text.

    Examples
    --------
    >>> shortened("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= longest else text[: longest - 1] + "…"


def shown(value: object) -> str:
    """Spell one value.

    Examples
    --------
    >>> print(shown("it's"), shown("de"), shown(3))
    "it's" 'de' 3
    """
    return printable(shortened(repr(value) if isinstance(value, (str, bytes)) else str(value)))


def listed(values: Iterable[str], most: int = LISTED) -> str:
    """Enumerate the first of some texts.

    Examples
    --------
    >>> listed("abcdefg")
    'a, b, c, d, e and 2 more'
    """
    texts = list(values)
    hidden = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {hidden:,} more" if hidden > 0 else "")


def counted(count: int, noun: str) -> str:
    """Spell a number of things.

    Examples
    --------
    >>> counted(1, "column"), counted(1200, "column")
    ('1 column', '1,200 columns')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def row_count_text(count: int) -> str:
    """Spell a number of rows.

    Examples
    --------
    >>> row_count_text(1), row_count_text(1200)
    ('1 row', '1,200 rows')
    """
    return counted(count, "row")


def check_name(function: str, *arguments: object, **keywords: object) -> str:
    """Return how a check calls itself if nobody names it: as it was called; the same in every process.

    Examples
    --------
    >>> check_name("in_range", "amount", min=0, max=None)
    'in_range(amount, min=0)'
    """
    given = [*map(str, arguments), *(f"{key}={value}" for key, value in keywords.items() if value is not None)]
    name = printable(f"{function}({', '.join(given)})")
    if len(name) <= LONGEST_NAME:
        return name
    mark = f"…{zlib.crc32(name.encode()):08x})"  # long names that begin alike stay two names
    return name[: LONGEST_NAME - len(mark)] + mark
