"""A Hive table and its partitions as the metastore describes them, free of Thrift."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from table_writer.checked import nearest
from table_writer.errors import InvalidInputError
from table_writer.model.contents import Contents
from table_writer.model.units import MIB

ROOT_PARAMETER: Final = "table_writer.root"
"""Table parameter that keeps the root of an unpartitioned table, whose location moves with each write."""

PREFIX: Final = "table_writer."  # of the table properties of this library
WRITE_ID_PARAMETER: Final = "table_writer.write_id"
"""Parameter that names the write that last published a partition or an unpartitioned table."""

RETENTION_PROPERTY: Final = "table_writer.retention"
HISTORY_PROPERTY: Final = "table_writer.history_retention"
HOURS_PROPERTIES: Final = (RETENTION_PROPERTY, HISTORY_PROPERTY)  # table properties that a user sets, in hours
MIRRORS_PROPERTY: Final = "table_writer.mirrors"  # kinds of mirrors, with commas between them
VERSION_PARAMETER: Final = "table_writer.version"
"""Parameter with the version of the log that last published a partition or an unpartitioned table."""

LOG_PARAMETER: Final = "table_writer.log"
"""Parameter that names the log which last published a partition or an unpartitioned table: where its mark lies."""

COLUMNS_PARAMETER: Final = "table_writer.columns_by"
"""Table parameter that names the write that gave an unpartitioned table its columns in place of others."""

SPARK_SCHEMA: Final = "spark.sql.sources.schema"
"""Table parameter with Spark's own list of columns, or how the names of its parts begin."""

IGNORE_PROJECTION: Final = "table_writer.ignore_projection"
"""Table property of a user who knows that no reader computes where partitions are: ``true``."""

OWN_PARAMETERS: Final = (ROOT_PARAMETER, WRITE_ID_PARAMETER, VERSION_PARAMETER, LOG_PARAMETER, COLUMNS_PARAMETER)
USER_PROPERTIES: Final = (*HOURS_PROPERTIES, MIRRORS_PROPERTY, IGNORE_PROJECTION)
PROPERTIES: Final = (*USER_PROPERTIES, *OWN_PARAMETERS)
"""All table properties of this library, those that it sets itself too."""

PartitionValues = tuple[str, ...]
"""The values of one partition in the order of the table's partition columns, as the metastore spells them.

A table without partition columns is its own single partition, of values ``()``.
"""

NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
"""How Hive spells a partition value that is null or an empty string."""

WHOLE_TABLE: Final = "(whole table)"
"""The name that reports show for the one partition of an unpartitioned table, which has none."""

MANY_FILES: Final = 50
SMALL_FILE_BYTES: Final = 8 * MIB  # below it, opening files costs readers more than reading them

SPARK_CATALOG: Final = "spark_catalog"
"""How Spark calls the catalog of the session's metastore, whatever implements it."""

NAME_PART: Final = r"\s*(`[^`]*`|[^`.\s]+)\s*"
NAME: Final = re.compile(rf"{NAME_PART}(?:\.{NAME_PART})?(?:\.{NAME_PART})?")
WORD: Final = re.compile(r"\w[\w-]*")  # Hive has no hyphens, AWS Glue has
ESCAPED: Final = {code: f"%{code:02X}" for code in (*range(0x01, 0x20), 0x7F, *map(ord, "\"#%'*/:=?\\{[]^"))}


def unknown_properties(names: Iterable[str]) -> dict[str, str]:
    """Return the properties that look like this library's and are none, each with what may have been meant.

    Examples
    --------
    >>> unknown_properties(["table_writer.retentions", "table_writer.retention", "comment"])
    {'table_writer.retentions': '; did you mean table_writer.retention?'}
    """
    of_ours = (name for name in names if name.lower().startswith(PREFIX))
    return {name: nearest(name, USER_PROPERTIES) for name in sorted(of_ours) if name not in PROPERTIES}


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """``database.name``, lower case as the metastore keeps it.

    Examples
    --------
    >>> str(TableName.parse("Mart.Orders"))
    'mart.orders'
    >>> TableName.parse("`my-db`.orders").sql
    '`spark_catalog`.`my-db`.`orders`'
    """

    database: str
    name: str

    @classmethod
    def parse(cls, text: str, *, default_database: str = "default") -> TableName:
        """Read ``name``, ``database.name`` or ``spark_catalog.database.name``, each with or without backquotes."""
        parts = name_parts(text)
        if len(parts) == 3 and parts[0].lower() in {SPARK_CATALOG, "hive"}:
            parts = parts[1:]
        if len(parts) == 1:
            parts = [default_database, *parts]
        if len(parts) == 3:
            raise InvalidInputError(
                f"{text!r} is not a table name of {SPARK_CATALOG}, the session's own catalog, which alone has tables"
                " that this library writes: expected 'database.table'"
            )
        if len(parts) != 2 or not all(map(WORD.fullmatch, parts)):
            path = "; files belong to a table, which create_table(..., location=...) makes" if "/" in text else ""
            raise InvalidInputError(
                f"{text!r} is not a table name; expected 'database.table', two names of letters, digits, _ and -{path}"
            )
        return cls(parts[0].lower(), parts[1].lower())

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"

    @property
    def sql(self) -> str:
        """Return the full name for a statement of Spark's, whatever catalog or database a session uses."""
        return ".".join(map(quoted, (SPARK_CATALOG, self.database, self.name)))

    @property
    def hive_sql(self) -> str:
        """Return the name for a statement of Hive's, which has no catalogs to name."""
        return ".".join(map(quoted, (self.database, self.name)))


def quoted(name: str) -> str:
    """Return a name as Spark SQL takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def unquoted(name: str) -> str:
    """Return a name that Spark may have quoted, as it does where one is no plain word.

    Examples
    --------
    >>> unquoted("mart"), unquoted(quoted("my-db`s"))
    ('mart', 'my-db`s')
    """
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def name_parts(text: str) -> list[str]:
    """Split a name at the dots that stand outside of backquotes; empty for what is none."""
    match = NAME.fullmatch(text) if isinstance(text, str) else None
    return [part.strip("`") for part in match.groups() if part is not None] if match else []


@dataclass(frozen=True, slots=True)
class Column:
    """A column with its type in Hive's spelling, for example ``array<struct<a:int>>``."""

    name: str
    type: str
    comment: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table as the metastore describes it at one moment.

    ``native`` is the gateway's own object. It travels along so that a later change sends back every field,
    also those that this library does not model.

    Examples
    --------
    >>> orders = Table(name=TableName("mart", "orders"), kind="EXTERNAL_TABLE", location="s3://mart/orders/_table_writer/x/",
    ...                columns=(Column("id", "bigint"),), partition_columns=(),
    ...                parameters={"table_writer.root": "s3://mart/orders"})
    >>> orders.root
    's3://mart/orders/'
    """

    name: TableName
    kind: str  # MANAGED_TABLE, EXTERNAL_TABLE, VIRTUAL_VIEW, MATERIALIZED_VIEW
    location: str
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...]
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold a login, as those of JDBC do
    input_format: str = ""
    output_format: str = ""
    serde: str = ""
    serde_parameters: Mapping[str, str] = field(default_factory=dict, repr=False)  # likewise
    bucket_columns: tuple[str, ...] = ()
    has_skewed_directories: bool = False  # Hive's list bucketing: STORED AS DIRECTORIES
    created_at_seconds: int = 0
    hive_location: str = ""  # where Hive looks, if Spark looks elsewhere: at ``location``
    native: object = field(default=None, repr=False, compare=False)

    @property
    def overwrite_call(self) -> str:
        """Return the write mode that replaces rows which cannot be used: an unpartitioned table has one for all."""
        return "overwrite_partitions" if self.partition_columns else "overwrite_table"

    @property
    def shown_names(self) -> tuple[str, ...]:
        """Return the columns in lower case, with :data:`SPARK_SCHEMA` if Spark keeps a list of its own in parameters.

        A catalog that hides columns from a role leaves that list out: it would show them.
        """
        names = tuple(column.name.lower() for column in (*self.columns, *self.partition_columns))
        return (*names, SPARK_SCHEMA) if any(name.startswith(SPARK_SCHEMA) for name in self.parameters) else names

    @property
    def columns_by(self) -> str:
        """Return the write that gave the table its columns in place of others; empty: it was made with them.

        Columns can be added since. A partitioned table keeps its columns.
        """
        return "" if self.partition_columns else self.parameters.get(COLUMNS_PARAMETER, "")

    @property
    def root(self) -> str:
        """Return the directory below which all of this table is written, ending in ``/``; empty for a view.

        It is the location, except for an unpartitioned table that was published before: then the parameter
        ``table_writer.root`` has kept it. A partitioned table's location never moves, so its parameter counts nothing.
        """
        kept = "" if self.partition_columns else self.parameters.get(ROOT_PARAMETER, "")
        root = kept or self.location
        return f"{root.rstrip('/')}/" if root else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Partition:
    """One partition: its values, where readers look, its parameters.

    ``differs`` says in words for a message how the partition's own description differs from its table's, so that its
    files, put under the table's description, could be read wrongly or not at all: ``is stored as …OrcSerde``, ``has
    column amount as bigint, the table as int``. It is empty when they agree. Columns that only the table has don't
    count: they were added later, and in older files they are null. ``narrower`` says the same of types that the table
    has widened since: its files can be put under the table's description, but not files of the table under its own.
    """

    values: PartitionValues
    location: str
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    differs: str = ""
    narrower: str = ""
    native: object = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class PastPartition:
    """A partition after an earlier version: where readers looked for it, and the files that they found there.

    How many files and bytes is ``None`` where the log does not know: other tools wrote them. ``written_until`` is the
    time after which none of other tools' files was written. ``only`` names the files that are meant; ``None`` for all
    but those that ``without`` names: appends in place have added these later. ``schema`` has the columns that an
    unpartitioned table had then, Spark's JSON, where it has been given others since.
    """

    values: PartitionValues
    name: str  # for messages
    location: str
    files: int | None
    bytes: int | None
    written_until: datetime | None = None
    only: frozenset[str] | None = None
    without: frozenset[str] = frozenset()
    schema: str = ""

    @property
    def contents(self) -> Contents | None:
        """How much was found there; ``None`` where the log does not know."""
        return None if self.files is None or self.bytes is None else Contents(self.files, self.bytes)


def are_small_files(count: int, size_bytes: int) -> bool:
    """Return whether so many files of so many bytes in all cost readers more to open than to read.

    Examples
    --------
    >>> are_small_files(200, 2_000_000), are_small_files(2, 2_000_000)
    (True, False)
    """
    return count >= MANY_FILES and size_bytes < count * SMALL_FILE_BYTES


def small_files_in_all(figures: Iterable[tuple[int, int]]) -> tuple[int, int, int]:
    """Return how many files, of how many bytes, in how many partitions, are small, by the figures of partitions.

    Zeros if they are few. Many partitions of one small file each cost a reader as much as one partition of many.

    Examples
    --------
    >>> small_files_in_all([(1, 1_900)] * 2_000), small_files_in_all([(1, 1_900), (9, 2_000_000_000)])
    ((2000, 3800000, 2000), (0, 0, 0))
    """
    small = [(count, size_bytes) for count, size_bytes in figures if size_bytes < count * SMALL_FILE_BYTES]
    count = sum(count for count, _ in small)
    return (count, sum(size_bytes for _, size_bytes in small), len(small)) if count >= MANY_FILES else (0, 0, 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionChange:
    """A change that points a freshly read partition at another location.

    Columns, SerDe and formats become the table's current ones. Of the parameters only those in ``set_parameters``
    and ``removed_parameters`` change. For an unpartitioned table the partition is the table itself: its location moves,
    its SerDe parameter ``path`` with it, and the parameters are the table's. It alone can get other ``columns`` in the
    same call; ``None``: they stay.
    """

    partition: Partition
    location: str
    set_parameters: Mapping[str, str] = field(repr=False)
    removed_parameters: frozenset[str] = frozenset()
    columns: tuple[Column, ...] | None = None


def escape(value: str) -> str:
    """Escape one column name or value for a partition name.

    Examples
    --------
    >>> escape("a/b c:d%")
    'a%2Fb c%3Ad%25'
    """
    return value.translate(ESCAPED)


def unescape(text: str) -> str:
    """Undo :func:`escape`; a ``%`` that no two hex digits follow stays, as in Hive.

    Examples
    --------
    >>> unescape("a%2Fb c%3Ad%25 100%")
    'a/b c:d% 100%'
    """
    return re.sub("%([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), text)


def partition_name(columns: Sequence[str], values: PartitionValues) -> str:
    """Return ``dt=2024-01-01/country=de``: Hive's name of the partition, and its directory.

    Examples
    --------
    >>> partition_name(["dt", "country"], ("2024-01-01", NULL_PARTITION))
    'dt=2024-01-01/country=__HIVE_DEFAULT_PARTITION__'
    """
    if len(columns) != len(values):
        raise InvalidInputError(f"the table is partitioned by {list(columns)}; {list(values)} names no partition of it")
    return "/".join(f"{escape(column)}={escape(value)}" for column, value in zip(columns, values, strict=True))


def name_in(table: Table, values: PartitionValues) -> str:
    """Return Hive's name of a table's partition."""
    return partition_name([column.name for column in table.partition_columns], values)


def shown_name(table: Table, values: PartitionValues) -> str:
    """Return the name of a table's partition for people."""
    return name_in(table, values) or WHOLE_TABLE


def partition_values(name: str) -> PartitionValues:
    """Read the values out of a partition name.

    Examples
    --------
    >>> partition_values("dt=2024-01-01/path=a%2Fb")
    ('2024-01-01', 'a/b')
    """
    pairs = [part.partition("=") for part in name.split("/")]
    if not all(separator for _, separator, _ in pairs):
        raise InvalidInputError(f"{name!r} is not a partition name; expected column=value/column=value")
    return tuple(unescape(value) for _, _, value in pairs)


PartitionsNow = Mapping[PartitionValues, Partition]
"""Partitions as the metastore has just shown them; those that do not exist are absent."""


def locations(now: PartitionsNow) -> dict[PartitionValues, str]:
    """Return where each partition is."""
    return {values: partition.location for values, partition in now.items()}
