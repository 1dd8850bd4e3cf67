"""A kind of store as one value: all that the rest of this library knows of S3, Azure, Google's or a file system."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from table_writer.model.location import Location
from table_writer.storage.object_store import StoreSettings

if TYPE_CHECKING:
    from table_writer.storage.s3.settings import S3Overrides

Hadoop = Mapping[str, str]
"""Settings as ``Configuration.get`` returns them, ``${…}`` expanded and without ``spark.hadoop.``."""


class Tuning:
    """What Hadoop's settings say of this library's own work: here nothing. Each is read when it is asked for."""

    @property
    def part_bytes(self) -> int | None:
        """Bytes of each uploaded part but a file's last."""
        return None

    @property
    def committer_threads(self) -> int | None:
        """Threads that complete uploads."""
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Renames:
    """Why Spark's own writer renames files at a location, and what helps; empty where it does not."""

    why: str = ""
    advice: str = ""
    is_certain: bool = True  # False: the connector may have a committer, and this library cannot tell
    is_magic: bool = False  # S3A's magic committer is to write: the files are uploads until the job commits


NO_RENAMES: Final = Renames()


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreKind:
    """One kind of store. Its package below ``table_writer.storage`` makes it, and ``kinds.py`` lists it.

    The package has a module ``settings``, with the class that opens the store, and a module ``store`` with the store.
    Executors are sent both; ``kind`` and ``hadoop`` stay with the driver.
    """

    name: str
    """For people: ``Azure``."""
    package: str
    """Where it is made: ``table_writer.storage.azure``."""
    schemes: tuple[str, ...]
    """Of its locations. Several name one place only where ``model/location.py`` says so."""
    settings: Callable[[Location, Hadoop, S3Overrides], StoreSettings]
    """Returns how to open the store of a location; ``InvalidInputError`` names what cannot be honoured."""
    permission: Callable[[Location, str], str]
    """Returns advice on what to allow for a kind of request, as ``request_counts`` of the store names them."""

    hadoop_prefix: str = ""
    """How the names of Hadoop's settings for it begin: ``fs.azure.``."""
    secrets: str = ""
    """A regular expression of whole names among these whose values are secrets, or a part of one, as a key's name is.

    The command line masks what a word such as ``secret`` gives away: ``SECRET_NAME`` in ``cli/configuration.py``.
    """
    keys: tuple[str, ...] = ()
    """Names of secrets that a session may be given while it runs."""
    without_spark: Callable[[Hadoop], Hadoop] = lambda _: {}
    """Returns what holds beside the settings of a config where no session says how to log in."""
    tuning: Callable[[Location, Hadoop], Tuning] = lambda _location, _hadoop: Tuning()
    renames: Callable[[Location, Hadoop, str], Renames] = lambda _location, _hadoop, _missing_jar: NO_RENAMES
    """Returns what Spark's own writer does at a location; the text names a jar that is missing on the class path."""
    libraries: tuple[tuple[str, int], ...] = ()
    """What executors must be able to import beside pyarrow and boto3, with the lowest major version."""
    requirements: tuple[str, ...] = ()
    """The same for ``pip install``."""
    takes_late_parts: bool = False
    """Whether a part that comes after an abort is taken; it completes nothing."""
    lists_from_a_key: bool = True
    """Whether a listing can begin at a key: else pages of it are read from its first one on."""
    iceberg_library: str = ""
    """What pyiceberg needs beside itself to read files there."""
    unread_rules: tuple[str, str] | None = None
    """What of rules and versions of a bucket cannot be read here, and what to see to; ``None``: the store tells."""
    lineage: str = ""
    """OpenLineage's scheme of its namespaces, where keys have no leading slash; empty: as of a file system."""
