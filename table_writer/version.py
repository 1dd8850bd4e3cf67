"""The installed version of this library, which is made of the last tag; executors are sent it with the package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Final

__all__ = ["__version__"]

DISTRIBUTION: Final = "table-writer"

try:
    __version__ = version(DISTRIBUTION)
except PackageNotFoundError:  # a checkout that is not installed, or a zip of the sources made by hand
    __version__ = "0+unknown"
