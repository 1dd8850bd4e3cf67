"""What the rest of this library knows of a directory with a lock file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from table_writer.model.location import Location
from table_writer.storage.locked.settings import LockedSettings
from table_writer.storage.store_kind import StoreKind

PREFIX: Final = "fs.locked."


def locked_settings(_: Location, hadoop: Mapping[str, str], *_others: object) -> LockedSettings:
    """Return how to open the store."""
    return LockedSettings(hadoop[f"{PREFIX}directory"])


LOCKED: Final = StoreKind(
    name="a directory with a lock file",
    package=__package__,
    schemes=("locked",),
    settings=locked_settings,
    permission=lambda location, _: f"let this user write the directory of {location}",
    hadoop_prefix=PREFIX,
)
