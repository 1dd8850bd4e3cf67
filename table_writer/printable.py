"""Text of others, fit to be looked at."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str) -> str:
    r"""Escape what is no picture of itself: control characters, overrides of direction, invisible ones, surrogates.

    Examples
    --------
    >>> printable("dt=\u202e1\x00")
    'dt=\\u202e1\\x00'
    """
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
