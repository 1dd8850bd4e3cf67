"""Units of size and time."""

from __future__ import annotations

from typing import Final

MIB: Final = 1024 * 1024
HOUR_SECONDS: Final = 3_600
DAY_SECONDS: Final = 86_400
BINARY: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
"""What Hadoop and Spark put behind a number of bytes."""
