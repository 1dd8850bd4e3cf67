"""The description of a table that does not exist yet, and the modes of its schema."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from table_writer.checked import checked
from table_writer.errors import InvalidInputError
from table_writer.model.table import unknown_properties
from table_writer.model.table_kind import OTHERS

HIVE_COMPRESSION: Final = {"parquet": "parquet.compression", "orc": "orc.compress"}  # Hive's own table properties
HIVE_OPTIONS: Final = frozenset({"fieldDelim", "escapeDelim", "collectionDelim", "mapkeyDelim", "lineDelim"})
"""Spark spells all others in lower case, where SerDes do not find them."""


@checked
@dataclass(frozen=True, kw_only=True, slots=True)
class NewTable:
    """Describes a table that does not exist yet.

    Parameters
    ----------
    partition_by
        Names of columns, in the order of the directories; they become the table's last columns, as in Spark.
    location
        Full URI of the table's directory: the table is external. Empty: below the database's, and managed.
    format
        A data source of Spark, as after ``USING``: ``parquet``, ``orc``, ``avro``, ``csv``, ``json``, ``text``. With
        ``hive:`` before it a Hive table, as after ``STORED AS``: ``hive:parquet``, ``hive:orc``, ``hive:textfile``.
    compression
        Codec of the files that are written into it; empty: the session's.
    comment
        On the table. Comments on columns come with the schema.
    properties
        Table properties, for example ``table_writer.retention``.
    options
        Of the data source, for example ``header`` of ``csv``; of ``hive:textfile`` ``fieldDelim``.

    Raises
    ------
    InvalidInputError
        A value cannot be used.

    Examples
    --------
    >>> NewTable(partition_by=["dt"], format="hive:parquet", compression="zstd").table_properties
    {'parquet.compression': 'zstd'}
    """

    partition_by: Sequence[str] = ()
    location: str = ""
    format: str = "parquet"
    compression: str = ""
    comment: str = ""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)  # either may hold a login
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        faults = tuple(self._faults())
        if faults:
            raise InvalidInputError(f"no table can be made like that: {'; '.join(faults)}")
        object.__setattr__(self, "partition_by", tuple(self.partition_by))
        object.__setattr__(self, "properties", dict(self.properties))
        object.__setattr__(self, "options", dict(self.options))

    def _faults(self) -> Iterator[str]:
        for name, hint in unknown_properties(self.properties).items():
            yield f"table_writer knows no table property {name}{hint}"
        if not re.fullmatch(r"(?i:hive):\w+|[A-Za-z_][\w.]*", self.format, re.ASCII):
            yield f"format={self.format!r} is neither a data source ('parquet') nor a format of Hive's ('hive:parquet')"
        elif OTHERS.search(self.provider):
            yield f"format={self.format!r}: only its own writer makes and writes such tables; 'parquet' is written here"
        elif self.format.lower() == "hive":
            yield "format='hive' does not say which: 'hive:parquet', 'hive:orc', 'hive:textfile', …"
        elif self.file_format and self.compression and self.file_format not in HIVE_COMPRESSION:
            yield f"compression cannot be said for format={self.format!r}: give the property that its SerDe reads"
        elif self.file_format and (other_options := sorted(set(self.options) - HIVE_OPTIONS)):
            yield f"of the options of {self.format!r} only {sorted(HIVE_OPTIONS)} can be said, and not {other_options}"

    @property
    def provider(self) -> str:
        """Return the provider, as it stands after ``USING``."""
        return self.format.partition(":")[0]

    @property
    def file_format(self) -> str:
        """Return Hive's file format; empty for tables of Spark's data sources."""
        return self.format.partition(":")[2].lower()

    @property
    def table_properties(self) -> dict[str, str]:
        """Return all table properties, with a Hive table's compression."""
        hives = {HIVE_COMPRESSION[self.file_format]: self.compression} if self.compression and self.file_format else {}
        return {**self.properties, **hives}

    @property
    def table_options(self) -> dict[str, str]:
        """Return all options, with Hive's file format or a data source's compression."""
        options = {"fileFormat": self.file_format, "compression": "" if self.file_format else self.compression}
        return {**self.options, **{key: value for key, value in options.items() if value}}


class SchemaMode(enum.Enum):
    """The treatment of columns that only the table has, or only the DataFrame.

    ==================  =========================  =======================
    mode                only the table has it      only the DataFrame does
    ==================  =========================  =======================
    ``STRICT``          an error                   an error
    ``ALLOW_MISSING``   null, if it may be null    an error
    ``EVOLVE``          null, if it may be null    added to the table
    ``REPLACE``         goes with all rows         added to the table
    ``FIXED``           an error                   an error
    ==================  =========================  =======================

    ``FIXED`` is that of a call which changes rows: it has no parameter ``schema`` that its caller could be told of.

    Examples
    --------
    >>> SchemaMode("allow_missing")
    <SchemaMode.ALLOW_MISSING: 'allow_missing'>
    """

    STRICT = "strict"
    ALLOW_MISSING = "allow_missing"
    EVOLVE = "evolve"
    REPLACE = "replace"
    FIXED = "fixed"

    @property
    def fills(self) -> bool:
        """Return whether columns that the DataFrame lacks become null."""
        return self in {SchemaMode.ALLOW_MISSING, SchemaMode.EVOLVE}
