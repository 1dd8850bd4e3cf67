"""The parts of this package that others are sent: Spark's tasks, and a stream beside Spark Connect's server."""

from __future__ import annotations

import atexit
import io
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

import table_writer
from table_writer.version import DISTRIBUTION, FILES_OF_TASKS, __version__

NOT_OF_WRITES: Final = frozenset({"cli", "doctor", "integrations", "many", "page", "read", "testing"})
"""Folders that no write imports."""


def is_in_a_zip() -> bool:
    """Return whether this package was imported from a zip."""
    return not Path(table_writer.__file__).parent.is_dir()


def package_of_tasks() -> Path:
    """Return a zip of the files that tasks import: some 300 KB.

    It is not compressed: a session that is sent the zip twice, by processes with other versions of zlib, refuses one
    with other bytes.
    """
    package = files("table_writer")
    directory = Path(tempfile.mkdtemp(prefix="table_writer-package-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)  # executors that join later fetch it from here
    archive = directory / "table_writer_package.zip"
    archive.write_bytes(_zip(((name, package.joinpath(name)) for name in FILES_OF_TASKS), zipfile.ZIP_STORED))
    return archive


def package_of_streams() -> bytes:
    """Return a zip of the files that a write imports."""
    return _zip(_files_of_writes(files("table_writer"), ""), zipfile.ZIP_DEFLATED)


def _files_of_writes(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        name = f"{path}{entry.name}"
        if entry.is_dir() and name not in NOT_OF_WRITES:
            yield from _files_of_writes(entry, f"{name}/")
        elif name.endswith(".py"):
            yield name, entry


def _zip(sources: Iterable[tuple[str, Traversable]], compression: int) -> bytes:
    """Return a zip without times, with the version as an installation would tell it: log entries have it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, source in sources:
            file.writestr(zipfile.ZipInfo(f"table_writer/{name}"), source.read_bytes(), compression)
        metadata = f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: {__version__}\n"
        file.writestr(
            zipfile.ZipInfo(f"{DISTRIBUTION.replace('-', '_')}-{__version__}.dist-info/METADATA"), metadata, compression
        )
    return buffer.getvalue()
