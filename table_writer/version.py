"""The installed version of this library."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

__all__ = ["__version__"]

try:
    __version__ = version("table-writer")
except PackageNotFoundError:  # shipped to an executor as a zip, or run from a checkout that is not installed
    __version__ = "0+unknown"
