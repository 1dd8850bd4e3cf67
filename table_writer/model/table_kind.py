"""The kinds of tables whose rows are the files at their locations: one rule for writing, making and reading tables.

A location and a SerDe do not say it. An input format may read other files than those that lie there, a format such as
Delta has a log of its own, and an option of a data source hides files by their names or ages. What is known to be read
as it lies there passes; all else is refused, with what to do instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from table_writer.errors import InvalidInputError
from table_writer.model.table import IGNORE_PROJECTION, Table

PROVIDER_PARAMETER: Final = "spark.sql.sources.provider"
OTHERS: Final = re.compile("iceberg|delta|hudi|hoodie|paimon|carbondata|kudu|lance", re.IGNORECASE)
"""Formats with a log of their own, as providers, classes and ``table_type`` name them."""

OTHERS_PARAMETERS: Final = re.compile(
    r"(?P<iceberg>metadata_location)|(?P<hudi>hoodie\..+|last_commit_time_sync)|(?P<delta>delta\..+)", re.IGNORECASE
)
HIVE: Final = "org.apache.hadoop.hive.ql.io."
MAPRED: Final = "org.apache.hadoop.mapred."
FORMATS: Final[Mapping[str, tuple[Sequence[str], Sequence[str]]]] = {  # how Hive reads, and how it writes
    "parquet": (
        (f"{HIVE}parquet.MapredParquetInputFormat", "parquet.hive.DeprecatedParquetInputFormat"),
        (f"{HIVE}parquet.MapredParquetOutputFormat", "parquet.hive.DeprecatedParquetOutputFormat"),
    ),
    "orc": ((f"{HIVE}orc.OrcInputFormat",), (f"{HIVE}orc.OrcOutputFormat",)),
    "avro": ((f"{HIVE}avro.AvroContainerInputFormat",), (f"{HIVE}avro.AvroContainerOutputFormat",)),
    "text": (
        (f"{MAPRED}TextInputFormat",),
        (f"{HIVE}HiveIgnoreKeyTextOutputFormat", f"{HIVE}IgnoreKeyTextOutputFormat", f"{MAPRED}TextOutputFormat"),
    ),
    "sequencefile": (
        (f"{MAPRED}SequenceFileInputFormat",),
        (f"{HIVE}HiveSequenceFileOutputFormat", f"{MAPRED}SequenceFileOutputFormat"),
    ),
    "rcfile": ((f"{HIVE}RCFileInputFormat",), (f"{HIVE}RCFileOutputFormat",)),
}
READ_AS: Final = {name.lower(): kind for kind, (names, _) in FORMATS.items() for name in names}
WRITTEN_AS: Final = {name.lower(): kind for kind, (_, names) in FORMATS.items() for name in names}
COLUMNAR: Final = {"parquethiveserde": "parquet", "orcserde": "orc", "avroserde": "avro"}
"""Formats whose SerDe reads no other; lines and sequence files are any SerDe's."""

HIDING: Final = ("pathGlobFilter", "modifiedBefore", "modifiedAfter", "recursiveFileLookup", "basePath")
"""Options of a data source by which Spark leaves files out, or takes more; Hive and others do not know them."""

SKIPPED_LINES: Final = ("skip.header.line.count", "skip.footer.line.count")
NO_VALUE: Final = {"", "0", "false"}
Reason = Callable[[Table], str]


def as_parquet(table: Table) -> Table:
    """Return the same table as Hive's ``STORED AS PARQUET`` makes it."""
    (reads, *_), (writes, *_) = FORMATS["parquet"]
    return replace(table, input_format=reads, output_format=writes, serde=f"{HIVE}parquet.serde.ParquetHiveSerDe")


def provider_of(table: Table) -> str:
    """Return Spark's data source of the table, ``hive`` for one that was not made with ``USING``."""
    return table.parameters.get(PROVIDER_PARAMETER, "hive").lower()


def parameter(table: Table, name: str) -> str:
    """Return a table property in lower case, whatever the case of its name."""
    return next((value.strip().lower() for key, value in table.parameters.items() if key.lower() == name), "")


def format_of_others(table: Table) -> str:
    """Return the format of a table that only its own writer can write, such as ``iceberg``; else the empty string.

    Examples
    --------
    >>> from table_writer.model.table import TableName
    >>> format_of_others(Table(name=TableName("mart", "orders"), kind="EXTERNAL_TABLE", location="s3://mart/orders/",
    ...                        columns=(), partition_columns=(), parameters={"table_type": "ICEBERG"}))
    'iceberg'
    """
    texts = (
        parameter(table, "table_type"),
        provider_of(table),
        table.input_format,
        parameter(table, "storage_handler"),
    )
    classes = (found[0].lower() for text in texts if (found := OTHERS.search(text)))
    by_parameters = (found.lastgroup or "" for name in table.parameters if (found := OTHERS_PARAMETERS.fullmatch(name)))
    return next(chain(classes, by_parameters), "").replace("hoodie", "hudi")


def why_not_read(table: Table) -> str:
    """Say why the files at a table's location are not its rows as they lie there, and what to do; else empty."""
    return next(filter(None, (reason(table) for reason in OF_READERS)), "")


def why_not_written(table: Table) -> str:
    """Say why rows that are put where the metastore points would not be the table's to all readers; empty if so."""
    return next(filter(None, (reason(table) for reason in (*OF_READERS, *OF_WRITERS))), "")


def refuse_others(table: Table) -> None:
    """Refuse a table whose readers would not see what is put where the metastore points: ``InvalidInputError``."""
    if reason := why_not_written(table):
        raise InvalidInputError(f"table {table.name} {reason}. Nothing was written.", table=str(table.name))


def _why_no_table(table: Table) -> str:
    if "VIEW" in table.kind:
        return f"is a view ({table.kind}): name the table that holds its data"
    if table.kind.upper() not in {"", "MANAGED_TABLE", "EXTERNAL_TABLE"}:
        return f"is of the kind {table.kind}, which only its own writer can write: use a plain or external table"
    return ""


def _why_of_others(table: Table) -> str:
    format_name = format_of_others(table)
    if format_name:
        return f"is not a plain Hive table but {format_name}: its own writer must write it, and its own reader read it"
    if parameter(table, "transactional") == "true":
        return "is a Hive ACID table (transactional=true): only Hive can write it; use a table with transactional=false"
    handler = parameter(table, "storage_handler")
    if handler:
        return f"keeps its rows in no files but behind {handler}: write to that with its own connector"
    return ""


def _why_read_otherwise(table: Table) -> str:
    """Compare how the metastore says that files are read with the formats that are known to read what lies there."""
    if not table.input_format:
        return ""
    read_as = READ_AS.get(table.input_format.lower(), "")
    if not read_as:
        return (
            f"is read by {table.input_format}, which may take other files for its rows than those at its location: use"
            " a table that is STORED AS PARQUET, ORC, AVRO, TEXTFILE, SEQUENCEFILE or RCFILE over a place of its own"
        )
    kind = provider_of(table)
    by_serde = COLUMNAR.get(table.serde.rpartition(".")[2].lower(), "")
    stored_as = by_serde if kind == "hive" else kind if kind in COLUMNAR.values() else ""
    if (
        stored_as
        and stored_as != read_as
        and {stored_as, read_as} & set(COLUMNAR.values())
        and read_as != "sequencefile"
    ):
        return (
            f"is stored as {stored_as}, and read by {table.input_format}: ALTER TABLE … SET FILEFORMAT in Hive makes"
            " the two agree"
        )
    if kind == "hive" and read_as in COLUMNAR.values() and not by_serde:
        return f"is read by {table.input_format}, with {table.serde or 'no SerDe'}: give it the SerDe of that format"
    return ""


def _why_files_hidden(table: Table) -> str:
    options = {name.lower(): value.strip().lower() for name, value in table.serde_parameters.items()}
    hiding = [name for name in HIDING if options.get(name.lower(), "") not in NO_VALUE]
    if not hiding:
        return ""
    return (
        f"has the option {hiding[0]}, by which Spark takes other files for its rows than other readers: make it"
        " without, and give the option to spark.read where it is wanted"
    )


def _has_no_partitions(table: Table) -> str:
    is_catalogs = parameter(table, "spark.sql.partitionprovider") == "catalog"
    if table.partition_columns and provider_of(table) != "hive" and not is_catalogs:
        repair = f"MSCK REPAIR TABLE {table.name.sql}"
        return f"keeps its partitions in directory names, not in the metastore: run {repair} first"
    return "" if table.location else "has no location in the metastore"


def _is_projected(table: Table) -> str:
    is_asked_for = parameter(table, IGNORE_PROJECTION) == "true"
    if not table.partition_columns or parameter(table, "projection.enabled") != "true" or is_asked_for:
        return ""
    return (
        "has partition projection (projection.enabled): Athena and Trino compute where partitions are, and see no row"
        f" that the metastore points at elsewhere. ALTER TABLE {table.name.sql} SET TBLPROPERTIES"
        f" ('projection.enabled' = 'false'), or, where neither reads it, ('{IGNORE_PROJECTION}' = 'true')"
    )


def _is_list_bucketed(table: Table) -> str:
    if not table.has_skewed_directories:
        return ""
    return (
        "keeps skewed values in directories of their own (STORED AS DIRECTORIES), where Hive alone looks for them:"
        " ALTER TABLE … NOT STORED AS DIRECTORIES in Hive"
    )


def _skips_lines(table: Table) -> str:
    skipped = next((name for name in SKIPPED_LINES if parameter(table, name) not in NO_VALUE), "")
    is_hives = provider_of(table) == "hive" or READ_AS.get(table.input_format.lower()) in COLUMNAR.values()
    if not skipped or not is_hives:
        return ""
    return (
        f"has {skipped}, so Hive would skip rows: no such lines are written. ALTER TABLE {table.name.sql} UNSET"
        f" TBLPROPERTIES ('{skipped}')"
    )


def _is_written_otherwise(table: Table) -> str:
    """Refuse an output format nobody knows; Parquet tables often have that of text, which nothing asks."""
    read_as = READ_AS.get(table.input_format.lower(), "")
    written_as = WRITTEN_AS.get(table.output_format.lower(), "")
    if not table.output_format or not read_as or read_as == written_as:
        return ""
    if written_as and (read_as == "parquet" or provider_of(table) != "hive"):
        return ""
    return (
        f"is read by {table.input_format}, and written by {table.output_format}: ALTER TABLE … SET FILEFORMAT in Hive"
        " makes the two agree"
    )


OF_READERS: Final[Sequence[Reason]] = (
    _why_no_table,
    _why_of_others,
    _why_read_otherwise,
    _why_files_hidden,
    _has_no_partitions,
)
OF_WRITERS: Final[Sequence[Reason]] = (_is_projected, _is_list_bucketed, _skips_lines, _is_written_otherwise)
