"""Logins that people put into addresses: nobody needs them, so they are left out where text comes in."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["without_login", "without_s3_login", "without_s3_logins"]

# Old Hadoops took keys there. A bucket has no colon, so keys that were not escaped (``s3a://KEY:se/cret@``) are known.
S3_LOGIN: Final = re.compile(r"^(s3[an]?://)(?:[^/]*@|[^/@:]*:[^@]*@)", re.IGNORECASE)
IN_A_TEXT: Final = re.compile(r"\b(s3[an]?://)(?:[^/\s'\"]*@|[^/@:\s'\"]*:[^@\s'\"]*@)", re.IGNORECASE)


def without_login(uri: str) -> str:
    """Return an address without a user name and password.

    Examples
    --------
    >>> without_login("thrift://me:hush@metastore:9083")
    'thrift://metastore:9083'
    """
    return re.sub(r"^\s*([a-z][a-z0-9+.-]*://)?.*@", r"\1", uri, flags=re.IGNORECASE | re.DOTALL)


def without_s3_login(location: str) -> str:
    """Return a location without the keys that may stand in front of the bucket.

    Examples
    --------
    >>> [without_s3_login(text) for text in ("s3a://AKIA1:hu/sh@mart/orders/", "s3://mart/a@b/s3://c:d@e/")]
    ['s3a://mart/orders/', 's3://mart/a@b/s3://c:d@e/']
    """
    return S3_LOGIN.sub(r"\1", location) if "@" in location else location


def without_s3_logins(text: str) -> str:
    """Return a text for people with its S3 locations without keys.

    Examples
    --------
    >>> without_s3_logins("dt=1 is at s3a://AKIA1:hush@mart/orders/a@b and at s3://mart/c@d")
    'dt=1 is at s3a://mart/orders/a@b and at s3://mart/c@d'
    """
    return IN_A_TEXT.sub(r"\1", text) if "@" in text else text
