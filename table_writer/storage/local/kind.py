"""What the rest of this library knows of local files."""

from __future__ import annotations

from typing import Final

from table_writer.errors import InvalidInputError
from table_writer.model.location import Location
from table_writer.storage.local.settings import LocalSettings
from table_writer.storage.store_kind import StoreKind


def local_settings(location: Location, *_: object) -> LocalSettings:
    """Return how to open the file system; a location on another machine is refused."""
    if location.bucket:
        raise InvalidInputError(f"{location} names a host; a local directory has three slashes: file:///path/")
    return LocalSettings()


LOCAL: Final = StoreKind(
    name="local files",
    package=__package__,
    schemes=("file",),
    settings=local_settings,
    permission=lambda location, _request: f"let this user read and write {location}",
)
