"""Hadoop's settings for one store, read as Hadoop reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from table_writer.errors import InvalidInputError
from table_writer.model.units import BINARY

SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def layer(hadoop: Mapping[str, str], prefix: str, suffix: str = "") -> dict[str, str]:
    """Return the settings whose names begin and end so, by what is between; without those that are empty."""
    return {
        name.removeprefix(prefix).removesuffix(suffix): value
        for name, value in hadoop.items()
        if name.startswith(prefix) and name.endswith(suffix) and value
    }


class HadoopValues:
    """The settings that hold for one bucket or container, without their prefix.

    Empty values count as unset. No value is ever part of an error message: it may be a secret.
    """

    def __init__(self, prefix: str, values: Mapping[str, str]) -> None:
        self._prefix = prefix
        self._values = {name: value.strip() for name, value in values.items() if value is not None and value.strip()}

    def text(self, name: str, default: str = "") -> str:
        """Return a value, trimmed."""
        return self._values.get(name, default)

    def required_values(self, *names: str) -> list[str]:
        """Return the values of all these; the error names the first that is missing."""
        values = [self.text(name) for name in names]
        if not all(values):
            raise InvalidInputError(f"{self._prefix}{names[values.index('')]} is not set, and this login needs it")
        return values

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a boolean; as in Hadoop, what is neither true nor false counts as the default."""
        return {"true": True, "false": False}.get(self.text(name).lower(), default)

    def _read(self, name: str, pattern: str, expected: str) -> re.Match[str] | None:
        text = self.text(name).lower()
        match = re.fullmatch(pattern, text)
        if text and match is None:
            raise InvalidInputError(f"{self._prefix}{name} is not {expected}")
        return match

    def number(self, name: str) -> int | None:
        """Return a whole number, ``None`` when unset."""
        match = self._read(name, r"[+-]?\d+", "a whole number")
        return int(match[0]) if match else None

    def seconds(self, name: str, *, unit: str = "ms") -> float | None:
        """Return a duration such as ``200000``, ``5s`` or ``2m``; a bare number counts in ``unit``.

        Examples
        --------
        >>> values = HadoopValues("fs.s3a.", {"connection.timeout": "200000", "assumed.role.session.duration": "30m"})
        >>> values.seconds("connection.timeout"), values.seconds("assumed.role.session.duration")
        (200.0, 1800.0)
        """
        match = self._read(name, r"(\d+)\s*(ns|us|ms|s|m|h|d)?", "a duration; expected for example 200s")
        return int(match[1]) * SECONDS[match[2] or unit] if match else None

    def size_bytes(self, name: str) -> int | None:
        """Return a size such as ``67108864`` or ``64M``."""
        match = self._read(name, r"(\d+)([kmgtp]?)", "a size; expected for example 64M")
        return int(match[1]) * BINARY[match[2]] if match else None
