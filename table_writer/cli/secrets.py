"""Which settings hold secrets, and how their values are kept out of everything that is printed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Final

__all__ = ["Redaction", "is_secret"]

SECRET_NAME: Final = re.compile(r"secret|password|passphrase|session\.token", re.IGNORECASE)
NOT_A_VALUE: Final = re.compile(r"credential\.provider|\.file$|\.path$", re.IGNORECASE)  # these say where a secret lies
SECRET_VARIABLES: Final = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
USER_INFO: Final = re.compile(r"(?<=://)[^/\s'\"]+(?=@)|[^\s/:'\"]+:[^\s/'\"]+(?=@)")  # also without the scheme
SHORTEST_SECRET: Final = 4  # a shorter one would blank out ordinary words
MASK: Final = "***"


def is_secret(name: str) -> bool:
    """Whether a setting's value is a secret, going by its name.

    Examples
    --------
    >>> is_secret("fs.s3a.bucket.lake.secret.key"), is_secret("fs.s3a.endpoint")
    (True, False)
    """
    return bool(SECRET_NAME.search(name)) and not NOT_A_VALUE.search(name)


class Redaction:
    """Blanks out the secrets that were read, and logins inside addresses.

    Examples
    --------
    >>> redaction = Redaction()
    >>> redaction.hide({"fs.s3a.secret.key": "hush-hush"})
    >>> redaction.of("key hush-hush at https://me:pw@proxy")
    'key *** at https://***@proxy'
    """

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._hide(os.environ.get(name, "") for name in SECRET_VARIABLES)

    def hide(self, settings: Mapping[str, str]) -> None:
        """Keep the secrets among these settings out."""
        self._hide(value for name, value in settings.items() if is_secret(name))

    def _hide(self, values: Iterable[str]) -> None:
        stripped = (value.strip() for value in values)
        self._values |= {value for value in stripped if len(value) >= SHORTEST_SECRET}

    def of(self, text: str) -> str:
        """Return the text without secrets; the longest first, for one may be part of another."""
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, MASK)
        return USER_INFO.sub(MASK, text)
