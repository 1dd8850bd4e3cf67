"""The choice of the engine and its options: what the table says, then what the session says, as Spark decides it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from table_writer.config import WriteOptions
from table_writer.errors import InvalidInputError, few
from table_writer.jobs.plan.parquet_settings import FileSettings
from table_writer.model.table import Table, TableName
from table_writer.model.table_kind import provider_of, refuse_others
from table_writer.model.units import MIB
from table_writer.model.upload_spec import ParquetOptions

Conf = Callable[[str, str], str]

PARQUET_SERDES: Final = frozenset(
    {"org.apache.hadoop.hive.ql.io.parquet.serde.parquethiveserde", "parquet.hive.serde.parquethiveserde"}
)

LEVEL_KEYS: Final = {"zstd": "parquet.compression.codec.zstd.level", "brotli": "compression.brotli.quality"}
LEVELS: Final = {"zstd": range(1, 23), "brotli": range(12)}
LEGACY_FORMAT: Final = "spark.sql.parquet.writeLegacyFormat"
"""On by default for a table that was not made with USING: Hive's own reader takes no decimal from an integer."""

PAGE_VERSIONS: Final = {"parquet_1_0": "1.0", "v1": "1.0", "parquet_2_0": "2.0", "v2": "2.0"}


def file_options(
    table: Table, conf: Conf, settings: FileSettings, data_schema_json: str, spark_version: str
) -> ParquetOptions:
    """Return the encoding of a Parquet table's files, as Spark would decide it.

    ``conf`` looks up a setting of the session; its second argument is the answer where it is not set.
    """
    codec = codec_of(settings, conf)
    try:
        return ParquetOptions(
            compression=codec,
            compression_level=_level(settings, codec),
            timestamp_type=_timestamp_type(table, conf),
            spark_schema_json=data_schema_json,
            spark_version=spark_version,
            legacy_format=settings.is_on(LEGACY_FORMAT, default=provider_of(table) == "hive"),
            dictionaries=settings.switch("parquet.enable.dictionary", default=True),
            statistics=settings.switch("parquet.column.statistics.enabled", default=True),
            page_bytes=min(MIB, settings.number("parquet.page.size", MIB)),
            dictionary_bytes=min(MIB, settings.number("parquet.dictionary.page.size", MIB)),
            page_version=_page_version(settings),
            page_checksums=settings.is_on("parquet.page.write-checksum.enabled", default=True),
            row_group_rows=min(MIB, settings.number("parquet.block.row.count.limit", MIB)),
            field_ids=conf("spark.sql.parquet.fieldId.write.enabled", "true").lower() == "true",
        )
    except InvalidInputError as error:
        raise InvalidInputError(error.message, table=str(table.name)) from error


def codec_of(settings: FileSettings, conf: Conf) -> str:
    """Return the codec of a table's files: its own, else the session's."""
    codec = settings.of_table("compression", "parquet.compression")
    return (codec or conf("spark.sql.parquet.compression.codec", "snappy")).lower()


def _level(settings: FileSettings, codec: str) -> int | None:
    """Return the level of a codec that has one and that somebody chose; ``None`` is the codec's own."""
    key = LEVEL_KEYS.get(codec)
    text = settings.text(key) if key else ""
    if not text:
        return None
    if not text.isdecimal() or int(text) not in LEVELS[codec]:
        low, high = LEVELS[codec][0], LEVELS[codec][-1]
        raise InvalidInputError(f"{key}={text!r} is no level of {codec}: choose one from {low} to {high}")
    return int(text)


def _timestamp_type(table: Table, conf: Conf) -> str:
    """Return what Spark's ``INSERT`` would write: Hive's own encoding where the session leaves tables to Hive."""
    chosen = conf("spark.sql.parquet.outputTimestampType", "INT96").upper()
    if chosen == "INT96" or provider_of(table) != "hive":
        return chosen
    return chosen if conf("spark.sql.hive.convertMetastoreParquet", "true").lower() == "true" else "INT96"


def _page_version(settings: FileSettings) -> str:
    text = settings.text("parquet.writer.version") or "v1"
    if text.lower() not in PAGE_VERSIONS:
        raise InvalidInputError(f"parquet.writer.version={text!r} is neither PARQUET_1_0 nor PARQUET_2_0")
    return PAGE_VERSIONS[text.lower()]


def _is_parquet(table: Table) -> bool:
    provider = provider_of(table)
    return provider == "parquet" or (provider == "hive" and table.serde.lower() in PARQUET_SERDES)


ARROW_REFUSALS: Final[tuple[tuple[Callable[[Table], object], str], ...]] = (
    (
        lambda table: bool(table.bucket_columns) or "spark.sql.sources.schema.numBuckets" in table.parameters,
        "is bucketed ({buckets}), and only Spark's own writer follows bucket numbers",
    ),
    (lambda table: not _is_parquet(table), "is stored as {format}, and engine='arrow' writes Parquet only"),
)
"""The formats that only Spark's own writer can write."""


def is_arrows(table: Table, settings: FileSettings | None = None) -> bool:
    """Return whether Arrow writes the table unless a call says otherwise; without ``settings``, by the table alone."""
    return _why_unfit(table, settings or FileSettings(table, {})) is None


def _why_unfit(table: Table, settings: FileSettings) -> str | None:
    """Return why Arrow does not write the table, ``None`` where it does."""
    reason = next((reason for refuses, reason in ARROW_REFUSALS if refuses(table)), None)
    if reason is None and settings.protection:
        names = few(settings.protection, most=3)
        return f"has {names} (of the table or the session), and engine='arrow' encrypts nothing"
    return reason


def engine_of(table: Table, options: WriteOptions, settings: FileSettings) -> str:
    """Return who encodes the files: ``"arrow"`` or ``"spark"``.

    Refuses a call for Arrow on a table that it cannot write, one with Spark's own writer for what only Arrow does, and
    files that ask for encryption and would be plain.
    """
    if _is_parquet(table):
        settings.require_protection()
    unfit = _why_unfit(table, settings)
    if options.engine == "arrow" and unfit is not None:
        raise _refusal(table, f"{unfit}: leave engine out, and Spark's own writer writes it")
    engine = "spark" if unfit is not None or options.engine == "spark" else "arrow"
    if engine == "spark" and options.target_file_bytes is not None:
        raise InvalidInputError(
            f"target_file_bytes counts what Arrow encodes, and Spark's own writer writes {table.name}: set"
            " spark.sql.files.maxRecordsPerFile instead. Nothing was written.",
            table=str(table.name),
        )
    return engine


def require_writable(table: Table | None, name: TableName, metastore_uri: str, meant: str = "") -> Table:
    """Return the table if it can be written; else ``InvalidInputError`` says why not, and what would do.

    ``meant`` says which table may be meant by the name of one that is not there.
    """
    if table is None:
        said = f"table {name} does not exist in the metastore at {metastore_uri}{meant}"
        how = "To make it: create_table, or if_missing=NewTable(...)"
        raise InvalidInputError(f"{said}{'' if meant.endswith('?') else '.'} {how}", table=str(name))
    refuse_others(table)
    return table


def _refusal(table: Table, reason: str) -> InvalidInputError:
    detail = reason.format(
        buckets=", ".join(table.bucket_columns) or "by a Spark bucket spec",
        format=provider_of(table) if provider_of(table) != "hive" else table.serde or "an unknown format",
    )
    return InvalidInputError(f"table {table.name} {detail}. Nothing was written.", table=str(table.name))
