from __future__ import annotations

import json
from datetime import UTC, datetime

from table_writer.mirrors.delta.actions import statistics
from table_writer.mirrors.mirror import MirroredFile, MirroredTable
from table_writer.model.column_figures import ColumnFigures, as_text


def test_a_year_has_four_digits() -> None:
    moment = int(datetime(99, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()) * 1_000_000
    figures = as_text({"at": ColumnFigures("timestamp", nulls=0, values=1, low=moment, high=moment + 1_000)})
    table = MirroredTable(
        name="mart.orders",
        fields=({"name": "at", "type": "timestamp", "nullable": True, "metadata": {}},),
        partition_columns=(),
        log_id="",
        columns_by="",
    )
    stats = json.loads(statistics(MirroredFile(key="f", size_bytes=1, rows=1, figures=figures), table))
    assert stats["minValues"] == {"at": "0099-01-02T03:04:05.000Z"}
    assert stats["maxValues"] == {"at": "0099-01-02T03:04:05.001Z"}
