"""What the log says about the width of rows: evidence for speed, and never a reason why a write fails."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime

import pytest

from table_writer.model.entry import LogEntry
from table_writer.model.location import Location
from table_writer.model.meaning import Operation
from table_writer.model.write import TableLayout
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.table_log import TableLog
from table_writer.testing.memory_store import MemoryStore

LAYOUT = TableLayout(Location.parse("s3a://lake/mart/orders"))
SCHEMA, EVOLVED = "[name]", "[name, page]"


def log_with(*widths: int) -> tuple[MemoryStore, TableLog]:
    """Return a log with one entry per width; 0 is one of those that no rows were written for."""
    store = MemoryStore()
    log = TableLog(store, LAYOUT)
    for version, row_bytes in enumerate(widths, 1):
        claimed = log.slots.claim(
            LogEntry(
                table="mart.orders",
                version=version,
                write_id=f"w{version}",
                operation=Operation.WRITE,
                mode=WriteMode.APPEND,
                created_at=datetime(2024, 1, 1, tzinfo=UTC),
                base_version=version - 1,
                publish_timeout_seconds=300.0,
                partitions=(),
                schema=SCHEMA,
                row_bytes=row_bytes,
            )
        )
        assert claimed
    return store, log


@pytest.mark.parametrize(
    ("widths", "seen"), [((), 0), ((0,), 0), ((100, 200), 200), ((100, 0, 0), 100), ((100, 0, 0, 0), 0)], ids=str
)
def test_the_last_write_among_recent_entries_tells(widths: tuple[int, ...], seen: int) -> None:
    _, log = log_with(*widths)
    assert log.seen_row_bytes(log.lister.read(), SCHEMA) == seen


def test_rows_with_a_column_that_was_not_there_are_of_unknown_width() -> None:
    _, log = log_with(100, 200)
    assert log.seen_row_bytes(log.lister.read(), EVOLVED) == 0


@pytest.mark.parametrize("stored", [b"", b"{", b'{"format": 99}', gzip.compress(b"{}", mtime=0)[:-4]], ids=str)
def test_an_entry_that_cannot_be_read_fails_no_write(stored: bytes) -> None:
    store, log = log_with(100, 200)
    store.put(LAYOUT.entry_key(2), stored)
    assert log.seen_row_bytes(log.lister.read(), SCHEMA) == 0
