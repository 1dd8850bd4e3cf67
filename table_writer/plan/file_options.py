"""Who encodes the files of a table, and how: what the table says, then what the session says, as Spark decides it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from table_writer.config import WriteOptions
from table_writer.errors import InvalidInputError
from table_writer.model.table import Table, TableName
from table_writer.model.table_kind import provider_of, refuse_others
from table_writer.model.upload_spec import ParquetOptions

Conf = Callable[[str, str], str]

PARQUET_SERDES: Final = frozenset(
    {"org.apache.hadoop.hive.ql.io.parquet.serde.parquethiveserde", "parquet.hive.serde.parquethiveserde"}
)

PROTECTING: Final = ("parquet.encryption.", "parquet.crypto.")  # how their options begin
LEVEL_KEYS: Final = {"zstd": "parquet.compression.codec.zstd.level", "brotli": "compression.brotli.quality"}
LEVELS: Final = {"zstd": range(1, 23), "brotli": range(12)}


def file_options(table: Table, conf: Conf, data_schema_json: str, spark_version: str) -> ParquetOptions:
    """Return the encoding of a Parquet table's files; the table's own options win over the session's.

    ``conf`` looks up a setting of the session; its second argument is the answer where it is not set.
    """
    codec = _said(table, "compression", "parquet.compression")
    codec = codec or conf("spark.sql.parquet.compression.codec", "snappy").lower()
    try:
        return ParquetOptions(
            compression=codec,
            compression_level=_level(table, conf, codec),
            timestamp_type=conf("spark.sql.parquet.outputTimestampType", "INT96").upper(),
            spark_schema_json=data_schema_json,
            spark_version=spark_version,
            legacy_format=conf("spark.sql.parquet.writeLegacyFormat", "false").lower() == "true",
        )
    except InvalidInputError as error:
        raise InvalidInputError(error.message, table=str(table.name)) from error


def _level(table: Table, conf: Conf, codec: str) -> int | None:
    """Return the level of a codec that has one and that somebody chose; ``None`` is the codec's own."""
    key = LEVEL_KEYS.get(codec)
    if key is None:
        return None
    text = _said(table, key) or conf(key, "") or conf(f"spark.hadoop.{key}", "")
    if not text:
        return None
    if not text.isdecimal() or int(text) not in LEVELS[codec]:
        low, high = LEVELS[codec][0], LEVELS[codec][-1]
        raise InvalidInputError(f"{key}={text!r} is no level of {codec}: choose one from {low} to {high}")
    return int(text)


def _said(table: Table, *keys: str) -> str:
    """Return what the table says: the first key wins, an option of the SerDe over a table property; in lower case."""
    said = {**_named(table.parameters), **_named(table.serde_parameters)}
    return next((said[key].strip().lower() for key in keys if said.get(key, "").strip()), "")


def _named(parameters: Mapping[str, str]) -> dict[str, str]:
    return {key.lower(): value for key, value in parameters.items()}


def _is_parquet(table: Table) -> bool:
    provider = provider_of(table)
    return provider == "parquet" or (provider == "hive" and table.serde.lower() in PARQUET_SERDES)


def _protection(table: Table) -> list[str]:
    said = _named(table.parameters) | _named(table.serde_parameters)
    return sorted(key for key in said if key.startswith(PROTECTING))


ARROW_REFUSALS: Final[tuple[tuple[Callable[[Table], object], str], ...]] = (
    (
        lambda table: bool(table.bucket_columns) or "spark.sql.sources.schema.numBuckets" in table.parameters,
        "is bucketed ({buckets}), and only Spark's own writer follows bucket numbers",
    ),
    (lambda table: not _is_parquet(table), "is stored as {format}, and engine='arrow' writes Parquet only"),
    (_protection, "has {protection}, and engine='arrow' encrypts nothing"),
)
"""What only Spark's own writer can write."""


def is_arrows(table: Table) -> bool:
    """Whether Arrow writes the table, unless a call says otherwise."""
    return not any(refuses(table) for refuses, _ in ARROW_REFUSALS)


def engine_of(table: Table, options: WriteOptions) -> str:
    """Return who encodes the files: ``"arrow"`` or ``"spark"``.

    Refuses a call for Arrow on a table that it cannot write, and one with Spark's own writer for what only Arrow does.
    """
    unfit = next((reason for refuses, reason in ARROW_REFUSALS if refuses(table)), None)
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
        protection=", ".join(_protection(table)),
    )
    return InvalidInputError(f"table {table.name} {detail}. Nothing was written.", table=str(table.name))
