"""Hadoop's settings as Hadoop reads them: per-bucket keys, booleans, times and sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from table_writer.errors import InvalidInputError

__all__ = ["HadoopValues", "bucket_values"]

PREFIX: Final = "fs.s3a."
RENAMED: Final = {  # old name to new, as org.apache.hadoop.fs.s3a.S3AUtils reads both
    "server-side-encryption-algorithm": "encryption.algorithm",
    "server-side-encryption.key": "encryption.key",
}
SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
BINARY: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}


class HadoopValues:
    """The ``fs.s3a.*`` settings that hold for one bucket, without their prefix.

    Empty values count as unset. No value is ever part of an error message: it may be a secret.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = {name: value.strip() for name, value in values.items() if value is not None and value.strip()}

    def text(self, name: str, default: str = "") -> str:
        """Return a value, trimmed."""
        return self._values.get(name, default)

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a boolean; as in Hadoop, what is neither true nor false counts as the default."""
        return {"true": True, "false": False}.get(self.text(name).lower(), default)

    def number(self, name: str) -> int | None:
        """Return a whole number, ``None`` when unset."""
        text = self.text(name)
        if not text:
            return None
        if not re.fullmatch(r"[+-]?\d+", text):
            raise InvalidInputError(f"{PREFIX}{name} is not a whole number")
        return int(text)

    def seconds(self, name: str, *, unit: str = "ms") -> float | None:
        """Return a duration such as ``200000``, ``5s`` or ``2m``; a bare number counts in ``unit``.

        Examples
        --------
        >>> values = HadoopValues({"connection.timeout": "200000", "assumed.role.session.duration": "30m"})
        >>> values.seconds("connection.timeout"), values.seconds("assumed.role.session.duration")
        (200.0, 1800.0)
        """
        text = self.text(name).lower()
        if not text:
            return None
        match = re.fullmatch(r"(\d+)\s*(ns|us|ms|s|m|h|d)?", text)
        if match is None:
            raise InvalidInputError(f"{PREFIX}{name} is not a duration; expected for example 200s")
        return int(match[1]) * SECONDS[match[2] or unit]

    def size_bytes(self, name: str) -> int | None:
        """Return a size such as ``67108864`` or ``64M``.

        Examples
        --------
        >>> HadoopValues({"multipart.size": "64M"}).size_bytes("multipart.size")
        67108864
        """
        text = self.text(name).lower()
        if not text:
            return None
        match = re.fullmatch(r"(\d+)([kmgtp]?)", text)
        if match is None:
            raise InvalidInputError(f"{PREFIX}{name} is not a size; expected for example 64M")
        return int(match[1]) * BINARY[match[2]]


def bucket_values(hadoop: Mapping[str, str], bucket: str) -> HadoopValues:
    """Return what holds for one bucket: ``fs.s3a.bucket.NAME.*`` over ``fs.s3a.*``, old names of keys included.

    Examples
    --------
    >>> bucket_values({"fs.s3a.endpoint": "a", "fs.s3a.bucket.my.mart.endpoint": "b"}, "my.mart").text("endpoint")
    'b'
    """
    everywhere = _layer(hadoop, PREFIX)
    here = _layer(hadoop, f"{PREFIX}bucket.{bucket}.")
    return HadoopValues(everywhere | here)


def _layer(hadoop: Mapping[str, str], prefix: str) -> dict[str, str]:
    found = {key.removeprefix(prefix): value for key, value in hadoop.items() if key.startswith(prefix) and value}
    for old, new in RENAMED.items():
        if old in found:
            found.setdefault(new, found[old])
    return found
