"""How the files of a table are to be encoded: what the table says, then what the session says, as Spark decides it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from table_writer.errors import InvalidInputError
from table_writer.model.table import Table
from table_writer.model.upload_spec import OrcOptions, ParquetOptions

__all__ = ["file_options"]

Conf = Callable[[str, str], str]

SERDE_FORMATS: Final = {
    "org.apache.hadoop.hive.ql.io.parquet.serde.parquethiveserde": "parquet",
    "parquet.hive.serde.parquethiveserde": "parquet",
    "org.apache.hadoop.hive.ql.io.orc.orcserde": "orc",
}
FIRST_SPARK_WITH_ZSTD_ORC: Final = 4  # spark.sql.orc.compression.codec was snappy by default before
PROTECTING: Final = ("orc.encrypt", "orc.mask", "parquet.encryption.", "parquet.crypto.")  # how their options begin
LEVEL_KEYS: Final = {"zstd": "parquet.compression.codec.zstd.level", "brotli": "compression.brotli.quality"}
LEVELS: Final = {"zstd": range(1, 23), "brotli": range(12)}


def file_options(
    table: Table, conf: Conf, data_schema_json: str, spark_version: str, *, time_zone: str
) -> ParquetOptions | OrcOptions:
    """Return the format and the encoding of a table's files.

    Parameters
    ----------
    table
        Its provider or SerDe decides on the format.
    conf
        Looks up a setting of the session; the second argument is the answer where it is not set.
    data_schema_json, spark_version
        For the footers.
    time_zone
        Of the Java machine; ORC files name it.

    Raises
    ------
    InvalidInputError
        The format, the codec or another of the table's options cannot be written.
    """
    try:
        _refuse_protection(table)
        if _format_of(table) == "orc":
            return _orc(table, conf, spark_version, time_zone)
        return _parquet(table, conf, data_schema_json, spark_version)
    except InvalidInputError as error:
        raise InvalidInputError(error.message, table=str(table.name)) from error


def _format_of(table: Table) -> str:
    provider = _named(table.parameters).get("spark.sql.sources.provider", "hive").lower()
    found = SERDE_FORMATS.get(table.serde.lower(), table.serde) if provider == "hive" else provider
    found = "orc" if found == "org.apache.spark.sql.execution.datasources.orc" else found
    if found not in SERDE_FORMATS.values():
        raise InvalidInputError(
            f"table {table.name} is stored as {found or 'an unknown format'}: Arrow writes Parquet and ORC;"
            ' write it with engine="spark"'
        )
    return found


def _refuse_protection(table: Table) -> None:
    said = _named(table.parameters) | _named(table.serde_parameters)
    keys = sorted(key for key in said if key.startswith(PROTECTING))
    if keys:
        raise InvalidInputError(
            f"table {table.name} has {', '.join(keys)}, but files are not encrypted or masked without Spark: write it"
            ' with engine="spark"'
        )


def _orc(table: Table, conf: Conf, spark_version: str, time_zone: str) -> OrcOptions:
    major = int(spark_version.partition(".")[0] or FIRST_SPARK_WITH_ZSTD_ORC)
    usual = "zstd" if major >= FIRST_SPARK_WITH_ZSTD_ORC else "snappy"
    return OrcOptions(
        compression=_said(table, "compression", "orc.compress")
        or conf("spark.sql.orc.compression.codec", usual).lower(),
        time_zone=time_zone,
        spark_version=spark_version,
    )


def _parquet(table: Table, conf: Conf, data_schema_json: str, spark_version: str) -> ParquetOptions:
    codec = _said(table, "compression", "parquet.compression")
    codec = codec or conf("spark.sql.parquet.compression.codec", "snappy").lower()
    return ParquetOptions(
        compression=codec,
        compression_level=_level(table, conf, codec),
        timestamp_type=conf("spark.sql.parquet.outputTimestampType", "INT96").upper(),
        spark_schema_json=data_schema_json,
        spark_version=spark_version,
        legacy_format=conf("spark.sql.parquet.writeLegacyFormat", "false").lower() == "true",
    )


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
