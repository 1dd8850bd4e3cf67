"""How the files of a table are to be encoded: what the table says, then what the session says, as Spark decides it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from table_writer.errors import InvalidInputError
from table_writer.model.table import Table, TableName
from table_writer.model.upload_spec import OrcOptions, ParquetOptions

__all__ = ["file_options", "provider_of", "require_writable"]


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

PARQUET_SERDE: Final = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"

ORC_SERDE: Final = "org.apache.hadoop.hive.ql.io.orc.OrcSerde"


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


def provider_of(table: Table) -> str:
    """Return Spark's data source of the table, ``hive`` for one that was not made with ``USING``."""
    return table.parameters.get("spark.sql.sources.provider", "hive").lower()


def _is_columnar(table: Table) -> bool:
    provider = provider_of(table)
    return provider in {"parquet", "orc"} or (provider == "hive" and table.serde in {PARQUET_SERDE, ORC_SERDE})


def _parameter(table: Table, name: str) -> str:
    return {key.lower(): value for key, value in table.parameters.items()}.get(name, "").lower()


REFUSALS: Final[tuple[tuple[Callable[[Table], bool], str], ...]] = (
    (lambda table: "VIEW" in table.kind, "is a view ({kind}): name the table that holds its data"),
    (
        lambda table: (
            _parameter(table, "table_type") in {"iceberg", "delta", "hudi"}
            or provider_of(table) in {"iceberg", "delta", "hudi"}
        ),
        "is not a plain Hive table but {provider}: its own writer must write it, or its readers see nothing",
    ),
    (
        lambda table: _parameter(table, "transactional") == "true",
        "is a Hive ACID table (transactional=true): only Hive can write it; use a table with transactional=false",
    ),
    (
        lambda table: (
            bool(table.partition_columns)
            and provider_of(table) != "hive"
            and _parameter(table, "spark.sql.partitionprovider") != "catalog"
        ),
        "keeps its partitions in directory names, not in the metastore: run MSCK REPAIR TABLE {name} first",
    ),
    (lambda table: not table.location, "has no location in the metastore"),
)

ARROW_REFUSALS: Final[tuple[tuple[Callable[[Table], bool], str], ...]] = (
    (
        lambda table: bool(table.bucket_columns) or "spark.sql.sources.schema.numBuckets" in table.parameters,
        "is bucketed ({buckets}): only Spark's own writer follows bucket numbers; call with engine='spark'",
    ),
    (
        lambda table: not _is_columnar(table),
        "is stored as {format}: engine='arrow' writes Parquet and ORC; call with engine='spark'",
    ),
)
"""What only Spark's own writer can write."""


def require_writable(table: Table | None, name: TableName, metastore_uri: str, *, engine: str = "arrow") -> Table:
    """Return the table if an engine can write it.

    Raises
    ------
    InvalidInputError
        Says why not, and what would do.
    """
    if table is None:
        raise InvalidInputError(
            f"table {name} does not exist in the metastore at {metastore_uri}: create it first, or check the database",
            table=str(name),
        )
    for refuses, reason in (*REFUSALS, *(ARROW_REFUSALS if engine == "arrow" else ())):
        if refuses(table):
            detail = reason.format(
                name=name,
                kind=table.kind,
                provider=_parameter(table, "table_type") or provider_of(table),
                buckets=", ".join(table.bucket_columns) or "by a Spark bucket spec",
                format=provider_of(table) if provider_of(table) != "hive" else table.serde or "an unknown format",
            )
            raise InvalidInputError(f"table {name} {detail}. Nothing was written.", table=str(name))
    return table
