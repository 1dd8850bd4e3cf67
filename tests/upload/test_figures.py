"""What is counted of a file's columns for optimizers is what is in the file."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from table_writer.model.column_figures import ColumnFigures, as_text, from_text, together
from table_writer.model.upload_spec import ParquetOptions
from table_writer.upload.parquet import ParquetFile
from tests.doubles.sinks import BytesSink
