"""Reads a store's answer: a header or a field that is absent, doubled or garbled is never a raw error."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, MutableMapping
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any, Final

from table_writer.errors import StorageError

DATE_TIME: Final = re.compile(
    r"\d{1,2}[ -][A-Z][a-z]{2}[ -]\d{2,4} \d{2}:\d{2}:\d{2}(?: (?:GMT|UTC|[+-]\d{4}))?"  # RFC 9110, and its older ones
    r"|\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:?\d{2})?"  # no header of HTTP, and yet sent
)
ETAG: Final = re.compile(r'(?:W/)?"[^"]*"|[^\s,"]+')
NUMBER: Final = re.compile(r"\d+")
LOOK_AT_PROXIES: Final = (
    "A proxy or gateway between may have changed it: look at the answer with `curl -i`, and send requests around what"
    " changes it"
)


def time_in(text: str) -> datetime | None:
    """Return the first time that a header names, which a proxy may have doubled; ``None`` where none can be read.

    Examples
    --------
    >>> str(time_in("Mon, 01 Jan 2024 00:00:00 GMT, Mon, 01 Jan 2024 00:00:01 GMT")), time_in("yesterday")
    ('2024-01-01 00:00:00+00:00', None)
    """
    match = DATE_TIME.search(text)
    if match is None:
        return None
    try:
        moment = datetime.fromisoformat(match[0]) if match[0][4:5] == "-" else parsedate_to_datetime(match[0])
    except (TypeError, ValueError, IndexError, OverflowError):  # a 31st of February
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _http_time(text: str) -> str | None:
    moment = time_in(text)
    return None if moment is None else format_datetime(moment.astimezone(UTC), usegmt=True)


def _first(pattern: re.Pattern[str]) -> Callable[[str], str | None]:
    def first(text: str) -> str | None:
        match = pattern.search(text)
        return match[0] if match else None

    return first


HEADERS: Final[Mapping[str, Callable[[str], str | None]]] = {
    "Date": _http_time,
    "Last-Modified": _http_time,
    "Content-Length": _first(NUMBER),
    "ETag": _first(ETAG),
}
"""Readers of the headers that this library needs."""


def tidy_headers(headers: MutableMapping[str, str]) -> None:
    """Keep the first value of a header that was doubled, and none of one that cannot be read."""
    for name, read in HEADERS.items():
        text = headers.get(name)
        value = None if text is None else read(str(text))
        if value is not None:
            headers[name] = value
        elif text is not None:
            del headers[name]


def field_of(answer: Mapping[str, Any], name: str, where: str) -> Any:
    """Return a field of an answer; ``StorageError`` if the store has not sent it, or not so that it can be read."""
    value = answer.get(name)
    if value is None or (value == "" and name != "ETag"):  # files that no S3 client has put may have none
        raise unreadable(where, f"it has no {name}, or none that can be read")
    return value


def age_seconds(date: str, modified_at: datetime, where: str) -> float:
    """Return how old an object is by the store's own clock, which its answer's ``Date`` header tells."""
    moment = time_in(date)
    if moment is None:
        raise unreadable(where, "it has no Date header, or none that can be read; ages need one")
    return max(0.0, (moment - modified_at).total_seconds())


def unreadable(where: str, reason: str) -> StorageError:
    """Say what is wrong with an answer."""
    return StorageError(
        f"the store's answer on {where} is not what S3, Azure or Google would send: {reason}. {LOOK_AT_PROXIES}"
    )
