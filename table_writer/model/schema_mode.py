"""What may differ between the columns of a DataFrame and those of its table."""

from __future__ import annotations

import enum

__all__ = ["SchemaMode"]


class SchemaMode(enum.Enum):
    """What happens to columns that only the table has, or only the DataFrame.

    ==================  =========================  =======================
    mode                only the table has it      only the DataFrame does
    ==================  =========================  =======================
    ``STRICT``          an error                   an error
    ``ALLOW_MISSING``   null, if it may be null    an error
    ``EVOLVE``          null, if it may be null    added to the table
    ==================  =========================  =======================

    Examples
    --------
    >>> SchemaMode("allow_missing")
    <SchemaMode.ALLOW_MISSING: 'allow_missing'>
    """

    STRICT = "strict"
    ALLOW_MISSING = "allow_missing"
    EVOLVE = "evolve"

    @property
    def fills(self) -> bool:
        """Whether what is missing in the DataFrame becomes null."""
        return self is not SchemaMode.STRICT
