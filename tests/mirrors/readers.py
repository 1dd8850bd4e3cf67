"""Readers that nobody here wrote: delta-rs by its two ways, and Polars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from table_writer import TableWriter
from table_writer.model.table import TableName
from table_writer.testing import Lakehouse

from .comparing import S3Access, as_rows


class DeltaReader:
    """Reads the mirror of one table."""

    def __init__(self, lake: Lakehouse, writer: TableWriter, table: str) -> None:
        access = S3Access.of(lake)
        self.options = {
            "AWS_ENDPOINT_URL": access.endpoint,
            "AWS_ACCESS_KEY_ID": access.access_key,
            "AWS_SECRET_ACCESS_KEY": access.secret_key,
            "AWS_REGION": access.region,
            "AWS_ALLOW_HTTP": "true",
        }
        root = str(writer._services.open_table(TableName.parse(table)).layout.root)
        self.uri = root.replace("s3a://", "s3://").rstrip("/")

    def table(self, version: int | None = None) -> DeltaTable:
        return DeltaTable(self.uri, version=version, storage_options=self.options)

    def rows(self, columns: Sequence[str], version: int | None = None) -> list[tuple[Any, ...]]:
        """Return what delta-rs reads of these columns."""
        return self.query(f"SELECT {', '.join(map(quoted, columns))} FROM mirrored", version)

    def append(self, *rows: tuple[int, str, str]) -> None:
        """Write rows as delta-rs does."""
        columns = dict(zip(("id", "note", "dt"), map(list, zip(*rows, strict=True)), strict=True))
        write_deltalake(self.uri, pa.table(columns), mode="append", storage_options=self.options)

    def query(self, sql: str, version: int | None = None) -> list[tuple[Any, ...]]:
        """Ask the engine inside delta-rs, which goes by the statistics of files."""
        return as_rows(pa.table(QueryBuilder().register("mirrored", self.table(version)).execute(sql)))

    def rows_by_pyarrow(self, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        found = pl.read_delta(self.uri, storage_options=self.options, use_pyarrow=True)
        return as_rows(found.select(columns).to_arrow())

    def rows_by_polars(self, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return what Polars' own reader reads; on S3 it takes percent-encoded paths as they are spelled."""
        return as_rows(pl.scan_delta(self.uri, storage_options=self.options).select(columns).collect().to_arrow())


def quoted(name: str) -> str:
    return f'"{name}"'
