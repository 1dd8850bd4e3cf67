"""The installed version of this library, and whether the files that this process has loaded are still those on disk.

The version is that of pyproject.toml; executors are sent it with the package.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

__all__ = ["CODE", "code_of_tasks", "is_replaced"]

DISTRIBUTION: Final = "hive-table-writer"
MODULES_OF_TASKS: Final = {
    "": "__init__ checked errors version",
    "model/": (
        "__init__ column_figures column_statistics contents location message partition_value process table units"
        " upload_spec"
    ),
    "storage/": "__init__ answers bucket_rules causes object_store parquet_rows remote request_settings worker",
    "jobs/": "__init__",
    "jobs/upload/": "__init__ arrays figures files parquet partitioning parts task",
}
MODULE: Final = re.compile(r"[a-z_][a-z0-9_]*\.py")
OF_DRIVERS: Final = frozenset({"kind.py", "hadoop.py"})  # of a store's package: tasks get its settings ready-made


def _files_of_stores() -> Iterator[str]:
    """Yield the files of each kind of store that tasks import: what is new below ``storage/`` is among them."""
    storage = files("table_writer").joinpath("storage")
    packages = (place for place in storage.iterdir() if place.is_dir()) if storage.is_dir() else ()
    for package in packages:
        names = {place.name for place in package.iterdir()} - OF_DRIVERS
        yield from (f"storage/{package.name}/{name}" for name in names if MODULE.fullmatch(name))


FILES_OF_TASKS: Final = (
    *(f"{folder}{name}.py" for folder, names in MODULES_OF_TASKS.items() for name in names.split()),
    *sorted(_files_of_stores()),
)
"""The files that Spark's tasks import: executors are sent these, and have to have them as the driver has."""


def installed_version() -> str:
    """Return the version that is installed now."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - see __getattr__

    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:  # a checkout that is not installed, or a zip of the sources made by hand
        return "0+unknown"


def _sources() -> Iterator[tuple[str, Traversable]]:
    package = files("table_writer")
    sources = ((name, package.joinpath(name)) for name in FILES_OF_TASKS)
    return ((name, source) for name, source in sources if source.is_file())  # none where a tool has frozen the package


def code_of_tasks() -> int:
    """Return a checksum of the sources that tasks depend on, wherever this package was imported from."""
    checksum = 0
    for name, source in _sources():
        checksum = zlib.crc32(source.read_bytes(), zlib.crc32(name.encode(), checksum))
    return checksum


def _stamps() -> list[tuple[int, int, int]]:
    """Return what changes when a file is replaced; nothing of a package in a zip, which nobody installs over."""
    stats = [source.stat() for _, source in _sources() if isinstance(source, Path)]
    return [(stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats]


def is_replaced() -> bool:
    """Whether another version was installed since this process has loaded this one; costs half a millisecond."""
    global _known_stamps  # noqa: PLW0603
    try:
        stamps = _stamps()
        if stamps == _known_stamps:
            return False
        replaced = code_of_tasks() != CODE
    except OSError:  # in the middle of an installation, or after the package was taken away
        return True
    if not replaced:  # the same files once more
        _known_stamps = stamps
    return replaced


_known_stamps = _stamps()
CODE: Final = code_of_tasks()
"""Of what this process has loaded."""


def __getattr__(name: str) -> str:
    """Return ``__version__``, looked up when it is first asked for.

    Tasks never ask. In their processes Spark's jars are on Python's path, and looking for packages in them takes 0.2 s.
    """
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = installed_version()
    return found
