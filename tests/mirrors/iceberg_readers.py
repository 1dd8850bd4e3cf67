"""Readers of Iceberg that nobody here wrote: pyiceberg, by its own Hive catalog, and Polars' own reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from table_writer.testing import Lakehouse

from .comparing import S3Access, as_rows


class IcebergReader:
    """Reads the mirror of one table."""

    def __init__(self, lake: Lakehouse, table: str) -> None:
        self._access = access = S3Access.of(lake)
        options = {
            "s3.endpoint": access.endpoint,
            "s3.access-key-id": access.access_key,
            "s3.secret-access-key": access.secret_key,
            "s3.region": access.region,
        }
        self._catalog = load_catalog("mirrors", type="hive", uri=lake.metastore_uri, **options)
        self._name = f"{table}_iceberg"

    def table(self) -> Table:
        return self._catalog.load_table(self._name)

    def rows(self, columns: Sequence[str], snapshot_id: int | None = None, where: str = "true") -> list[Any]:
        """Return what pyiceberg reads of these columns."""
        scan = self.table().scan(selected_fields=tuple(columns), snapshot_id=snapshot_id)
        return as_rows((scan if where == "true" else scan.filter(where)).to_arrow().select(columns))

    def rows_by_polars(self, columns: Sequence[str]) -> list[Any]:
        """Return what Polars' own reader of Parquet reads."""
        storage = {
            "aws_endpoint_url": self._access.endpoint,
            "aws_access_key_id": self._access.access_key,
            "aws_secret_access_key": self._access.secret_key,
            "aws_region": self._access.region,
            "aws_allow_http": "true",
        }
        frame = pl.scan_iceberg(self.table(), reader_override="native", storage_options=storage)
        return as_rows(frame.select(columns).collect().to_arrow())
