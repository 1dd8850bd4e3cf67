"""Readers that nobody here wrote: delta-rs by its two ways, and Polars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from table_writer import TableWriter
from table_writer.model.table import TableName
from table_writer.testing import Lakehouse


class DeltaReader:
    """Reads the mirror of one table."""

    def __init__(self, lake: Lakehouse, writer: TableWriter, table: str) -> None:
        settings = lake.s3_server.hadoop_settings()

        def said(end: str) -> str:
            return next(value for name, value in settings.items() if name.endswith(end))

        endpoint = said("fs.s3a.endpoint")
        self.options = {
            "AWS_ENDPOINT_URL": endpoint if "://" in endpoint else f"http://{endpoint}",
            "AWS_ACCESS_KEY_ID": said("access.key"),
            "AWS_SECRET_ACCESS_KEY": said("secret.key"),
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }
        root = str(writer._services.open_table(TableName.parse(table)).layout.root)
        self.uri = root.replace("s3a://", "s3://").rstrip("/")

    def table(self, version: int | None = None) -> DeltaTable:
        return DeltaTable(self.uri, version=version, storage_options=self.options)

    def rows(self, columns: Sequence[str], version: int | None = None) -> list[tuple[Any, ...]]:
        """Return what delta-rs reads of these columns."""
        return self.query(f"SELECT {', '.join(map(quoted, columns))} FROM mirrored", version)

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


def as_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
