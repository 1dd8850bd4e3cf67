"""Which tables can be written, and what to say about the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from table_writer.errors import InvalidInputError
from table_writer.model.table import Table, TableName

__all__ = ["provider_of", "require_writable"]

PARQUET_SERDE: Final = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
ORC_SERDE: Final = "org.apache.hadoop.hive.ql.io.orc.OrcSerde"


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
