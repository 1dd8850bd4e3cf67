"""Write Hive tables on S3 from Spark: fast, and readers see old rows or new rows, never half.

1. plan      on the driver: table, schema and base version are fixed; every bad call has failed
2. upload    on executors: all parts of all files are on S3, in multipart uploads that are not completed
3. complete  every file is an object in a location that no table points at
4. check     the user's data-quality checks pass
5. publish   the log entry is claimed, then ONE metastore call repoints all partitions: readers switch
6. vacuum    any time later: replaced data is deleted past its retention

``TableWriter`` does steps 1 to 5. ``Maintenance`` and the command ``table-writer`` do step 6, and history, rollback,
recovery and checks; they need no Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from table_writer.errors import (
    CheckFailedError,
    ConflictError,
    InvalidInputError,
    MetastoreError,
    OutcomeUnknownError,
    PartitionExistsError,
    PartlyPublishedError,
    SchemaMismatchError,
    StorageError,
    TableWriterError,
)

if TYPE_CHECKING:
    from table_writer.arrow.writer import ArrowWriter
    from table_writer.config import CompactOptions, RowOptions, TableWriterConfig, WriteOptions
    from table_writer.jobs.staged_write import StagedFile, StagedWrite
    from table_writer.maintenance import Maintenance
    from table_writer.metastore.settings import GlueSettings
    from table_writer.model.check_result import CheckResult
    from table_writer.model.column_statistics import ColumnStatistics
    from table_writer.model.new_table import NewTable
    from table_writer.read.dataset import read_arrow
    from table_writer.reports.plan_report import PlanReport, RowsPlan
    from table_writer.reports.rows_result import RowsResult
    from table_writer.reports.write_result import CompactReport, PartitionResult, WriteResult
    from table_writer.storage.s3.settings import S3Overrides
    from table_writer.version import __version__
    from table_writer.writer import TableWriter

__all__ = [
    "ArrowWriter",
    "CheckFailedError",
    "CheckResult",
    "ColumnStatistics",
    "CompactOptions",
    "CompactReport",
    "ConflictError",
    "GlueSettings",
    "InvalidInputError",
    "Maintenance",
    "MetastoreError",
    "NewTable",
    "OutcomeUnknownError",
    "PartitionExistsError",
    "PartitionResult",
    "PartlyPublishedError",
    "PlanReport",
    "RowOptions",
    "RowsPlan",
    "RowsResult",
    "S3Overrides",
    "SchemaMismatchError",
    "StagedFile",
    "StagedWrite",
    "StorageError",
    "TableWriter",
    "TableWriterConfig",
    "TableWriterError",
    "WriteOptions",
    "WriteResult",
    "__version__",
    "read_arrow",
]

# Executors import this package for step 2 alone, and a command for its own call: each loads what it needs and no more.
_ON_FIRST_USE = {
    "ArrowWriter": "table_writer.arrow.writer",
    "CheckResult": "table_writer.model.check_result",
    "ColumnStatistics": "table_writer.model.column_statistics",
    "CompactOptions": "table_writer.config",
    "CompactReport": "table_writer.reports.write_result",
    "GlueSettings": "table_writer.metastore.settings",
    "Maintenance": "table_writer.maintenance",
    "NewTable": "table_writer.model.new_table",
    "PartitionResult": "table_writer.reports.write_result",
    "PlanReport": "table_writer.reports.plan_report",
    "RowOptions": "table_writer.config",
    "RowsPlan": "table_writer.reports.plan_report",
    "RowsResult": "table_writer.reports.rows_result",
    "S3Overrides": "table_writer.storage.s3.settings",
    "StagedFile": "table_writer.jobs.staged_write",
    "StagedWrite": "table_writer.jobs.staged_write",
    "TableWriter": "table_writer.writer",
    "TableWriterConfig": "table_writer.config",
    "WriteOptions": "table_writer.config",
    "WriteResult": "table_writer.reports.write_result",
    "__version__": "table_writer.version",
    "read_arrow": "table_writer.read.dataset",
}


def __getattr__(name: str) -> Any:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ON_FIRST_USE[name]), name)
