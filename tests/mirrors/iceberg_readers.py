"""Readers of Iceberg that nobody here wrote: pyiceberg, by its own Hive catalog, and Polars' own reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from table_writer.testing import Lakehouse


class IcebergReader:
    """Reads the mirror of one table."""

    def __init__(self, lake: Lakehouse, table: str) -> None:
        settings = lake.s3_server.hadoop_settings()

        def said(end: str) -> str:
            return next(value for name, value in settings.items() if name.endswith(end))

        endpoint = said("fs.s3a.endpoint")
        self.options = {
            "s3.endpoint": endpoint if "://" in endpoint else f"http://{endpoint}",
            "s3.access-key-id": said("access.key"),
            "s3.secret-access-key": said("secret.key"),
            "s3.region": "us-east-1",
        }
        self._catalog = load_catalog("mirrors", type="hive", uri=lake.metastore_uri, **self.options)
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
            "aws_endpoint_url": self.options["s3.endpoint"],
            "aws_access_key_id": self.options["s3.access-key-id"],
            "aws_secret_access_key": self.options["s3.secret-access-key"],
            "aws_region": "us-east-1",
            "aws_allow_http": "true",
        }
        frame = pl.scan_iceberg(self.table(), reader_override="native", storage_options=storage)
        return as_rows(frame.select(columns).collect().to_arrow())


def as_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
