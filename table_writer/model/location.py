"""Locations: full URIs that end in ``/``, compared by the place they name and not by their spelling."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from table_writer.errors import InvalidInputError

SPELLINGS: Final = {  # schemes that are another spelling of one store, of which all other schemes are one each
    "s3a": "s3",  # Hadoop's connector of today; the first and the second were EMR's too
    "s3n": "s3",
    "abfss": "abfs",  # with TLS, and with or without
}
Place = tuple[str, str, str]  # store, bucket and key: what two spellings of one location have in common

# Old Hadoops took keys there. A bucket has no colon, so keys that were not escaped (``s3a://KEY:se/cret@``) are known.
S3_LOGIN: Final = re.compile(r"^(s3[an]?://)(?:[^/]*@|[^/@:]*:[^@]*@)", re.IGNORECASE)
OTHERS_LOGIN: Final = re.compile(r"^([a-z][a-z0-9+.-]*://)[^/@]*:[^/]*@", re.IGNORECASE)  # no container has a colon
IN_A_TEXT: Final = re.compile(r"\b(s3[an]?://)(?:[^/\s'\"]*@|[^/@:\s'\"]*:[^@\s'\"]*@)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Location:
    """A directory in a store: ``scheme://bucket/key/``, with the table's own scheme, and an empty bucket for ``file``.

    The text is a Hadoop path, not a percent-encoded URI: ``%20`` in it is three characters of the key,
    as Spark and Hive write partition locations (``org.apache.hadoop.fs.Path``).

    Examples
    --------
    >>> orders = Location.parse("s3a://mart/warehouse//orders")
    >>> str(orders.child("_table_writer"))
    's3a://mart/warehouse/orders/_table_writer/'
    >>> orders.same_place(Location.parse("s3://mart/warehouse/orders/"))
    True
    """

    scheme: str
    bucket: str
    key: str  # no leading slash; ends in ``/`` unless empty

    @classmethod
    def parse(cls, text: str) -> Location:
        """Read a location as metastores store it, with or without the trailing slash; a login in it is left out.

        Refuses what is not an absolute URI, and what leaves its directory with ``..``.
        """
        text = without_s3_login(text)
        match = re.fullmatch(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*)?", text, flags=re.DOTALL)
        if match is None:
            raise InvalidInputError(f"{text!r} is not a full location; expected for example s3a://bucket/path/")
        segments = [segment for segment in (match[3] or "").split("/") if segment not in ("", ".")]
        if ".." in segments:
            raise InvalidInputError(f"{text!r} contains '..'; write the location without it")
        return cls(match[1].lower(), match[2] or "", "".join(f"{segment}/" for segment in segments))

    @classmethod
    def parse_any(cls, text: str) -> Location | None:
        """Read a location, ``None`` for a text that is none: other tools may have written anything."""
        try:
            return cls.parse(text)
        except InvalidInputError:
            return None

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.key}"

    @property
    def place(self) -> Place:
        """Return what identifies the location: the three schemes of S3 are one store, and so are the two of Azure.

        Azure's hosts are written in any case, and name one account by its ``dfs`` and its ``blob`` service.
        """
        store = SPELLINGS.get(self.scheme, self.scheme)
        if store == "abfs":
            container, at, host = self.bucket.rpartition("@")
            return (store, f"{container}{at}{host.lower().replace('.blob.', '.dfs.', 1)}", self.key)
        return (store, self.bucket, self.key)

    def same_place(self, other: Location) -> bool:
        """Return whether both name one directory, however they are spelled."""
        return self.place == other.place

    def child(self, *names: str) -> Location:
        """Return the directory below this one; a name may hold several segments, or none."""
        below = "".join(f"{name.strip('/')}/" for name in names if name)
        return self.beside(self.key + below)

    def beside(self, key: str) -> Location:
        """Return the location of a key in the same bucket."""
        return Location(self.scheme, self.bucket, key)

    def contains(self, other: Location) -> bool:
        """Return whether the other is this directory or lies below it."""
        mine, theirs = self.place, other.place
        return mine[:2] == theirs[:2] and theirs[2].startswith(mine[2])

    def relative_key(self, other: Location) -> str:
        """Return the other's key below this location; the other must lie below it."""
        if not self.contains(other):
            raise InvalidInputError(f"{other} is not below {self}")
        return other.key.removeprefix(self.key)


def same_place(location: str | None, other: str | None) -> bool:
    """Return whether two locations are one, or neither exists."""
    if location is None or other is None:
        return location is other
    return Location.parse(location).same_place(Location.parse(other))


class PlaceSet:
    """Places that must not be touched, nor anything around or below them.

    Examples
    --------
    >>> live = PlaceSet([Location.parse("s3a://mart/orders/dt=1/").place])
    >>> live.meets(Location.parse("s3://mart//orders/dt=1/hour=2/").place), live.meets(("s3", "mart", "orders/"))
    (True, True)
    >>> live.meets(Location.parse("s3n://mart/orders/dt=11/").place), live.holds(("s3", "mart", "orders/dt=1/a"))
    (False, True)
    """

    def __init__(self, places: Iterable[Place]) -> None:
        self._places = frozenset(places)
        self._above = frozenset(above for place in self._places for above in _and_above(place))

    def meets(self, place: Place) -> bool:
        """Return whether the place is one of these, lies below one, or has one below it."""
        return place in self._above or self.holds(place)

    def holds(self, place: Place) -> bool:
        """Return whether the place of a directory or an object is one of these or lies below one."""
        return self.holder(place) is not None

    def holder(self, place: Place) -> Place | None:
        """Return which of these the place is or lies below, the nearest; ``None`` if there is none."""
        return next((above for above in _and_above(place) if above in self._places), None)


def _and_above(place: Place) -> Iterable[Place]:
    store, bucket, key = place
    yield place
    end = key.rstrip("/").rfind("/")
    while end >= 0:
        yield store, bucket, key[: end + 1]
        end = key.rfind("/", 0, end)
    yield store, bucket, ""


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


def without_password(location: str) -> str:
    """Return a location of any store without the login that may stand in front of its bucket or host.

    Examples
    --------
    >>> without_password("ftp://me:hush@host/in"), without_password("abfss://box@one.dfs.core.windows.net/in")
    ('ftp://host/in', 'abfss://box@one.dfs.core.windows.net/in')
    """
    return OTHERS_LOGIN.sub(r"\1", without_s3_login(location))


def without_s3_logins(text: str) -> str:
    """Return a text for people with its S3 locations without keys.

    Examples
    --------
    >>> without_s3_logins("dt=1 is at s3a://AKIA1:hush@mart/orders/a@b and at s3://mart/c@d")
    'dt=1 is at s3a://mart/orders/a@b and at s3://mart/c@d'
    """
    return IN_A_TEXT.sub(r"\1", text) if "@" in text else text
