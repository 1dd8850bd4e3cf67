"""The kinds of stores that this library writes to. A new one is its own package, an import and a name here."""

from __future__ import annotations

import re
from typing import Final

from table_writer.errors import InvalidInputError
from table_writer.model.location import Location
from table_writer.storage.azure.kind import AZURE
from table_writer.storage.gcs.kind import GCS
from table_writer.storage.local.kind import LOCAL
from table_writer.storage.object_store import StoreSettings
from table_writer.storage.s3.kind import S3
from table_writer.storage.s3.settings import NO_OVERRIDES, S3Overrides
from table_writer.storage.store_kind import Hadoop, StoreKind

KINDS: Final = (S3, AZURE, GCS, LOCAL)
SECRETS: Final = re.compile("|".join(kind.secrets for kind in KINDS if kind.secrets))
"""Whole names of Hadoop's settings whose values are secrets of stores."""

BY_SCHEME: Final = {scheme: kind for kind in KINDS for scheme in kind.schemes}
WHY_NOT: Final = {  # docs/design/stores.md has the whole of it
    "hdfs": ", since a writer that dies in the middle leaves an entry of the log that is there and empty",
    "viewfs": ", as hdfs:// is not",
    "wasb": "; write the location as abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/",
    "wasbs": "; write the location as abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/",
}


def known_kind(location: Location) -> StoreKind | None:
    """Return the kind of a location's store, ``None`` where this library cannot write."""
    return BY_SCHEME.get(location.scheme)


def kind_of(location: Location) -> StoreKind:
    """Return the kind of a location's store; ``InvalidInputError`` where this library cannot write."""
    kind = known_kind(location)
    if kind is None:
        *schemes, last = BY_SCHEME
        raise InvalidInputError(
            f"{location}: {location.scheme}:// is not supported for now{WHY_NOT.get(location.scheme, '')};"
            f" {', '.join(schemes)} and {last} are"
        )
    return kind


def settings_for(location: Location, hadoop: Hadoop, overrides: S3Overrides = NO_OVERRIDES) -> StoreSettings:
    """Return how to open the store of a location; the ``overrides`` of the writer's config win.

    Raises ``InvalidInputError`` for a scheme that is not supported, or a setting that this library can't honour.

    Examples
    --------
    >>> settings_for(Location.parse("s3a://mart/orders/"), {
    ...     "fs.s3a.endpoint": "127.0.0.1:9000", "fs.s3a.connection.ssl.enabled": "false",
    ...     "fs.s3a.access.key": "me", "fs.s3a.secret.key": "hush"}).endpoint_url
    'http://127.0.0.1:9000'
    """
    return kind_of(location).settings(location, hadoop, overrides)
