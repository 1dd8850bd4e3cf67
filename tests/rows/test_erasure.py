"""What a purge erases is in no object any more; what others need stays, and what is not erased is named."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from table_writer import ConflictError, InvalidInputError, TableWriter
from table_writer.jobs.rows.erasure import Erasing
from table_writer.protocol.table.open_table import OpenTable
from table_writer.reports.rows_result import RowsResult

Rows = Callable[..., Any]
Listed = Callable[[str], list[tuple[Any, ...]]]
SECRET = "ann@example.org"  # a person's, and no password


@pytest.fixture
def opened(writer: TableWriter, orders: str) -> OpenTable:
    services = writer._services
    return services.open_table(services.table_name(orders))


def holders(opened: OpenTable) -> list[str]:
    """Read every object below the table's root, and return the keys of those with the secret."""
    keys = [found.key for found in opened.store.list(opened.layout.root.key)]
    return [key for key in keys if SECRET in content(opened, key)]


def content(opened: OpenTable, key: str) -> str:
    stored = opened.store.get(key)
    assert stored is not None
    return str(pq.read_table(io.BytesIO(stored.body)).to_pylist()) if key.endswith(".parquet") else repr(stored.body)


def with_a_long_history(writer: TableWriter, spark: SparkSession, table: str, rows: Rows, elsewhere: str) -> int:
    """Let the secret come to every kind of place where readers leave rows; return a version of before."""
    spark.sql(f"ALTER TABLE {table} ADD PARTITION (dt='d7') LOCATION '{elsewhere}'")
    spark.sql(f"INSERT INTO {table} PARTITION (dt='d7') SELECT 70, '{SECRET}'")
    spark.sql(f"INSERT INTO {table} PARTITION (dt='d7') SELECT 71, 'k'")
    rows((1, SECRET, "d1"), (2, "b", "d1")).createOrReplaceTempView("others")
    spark.sql(f"INSERT INTO {table} PARTITION (dt) SELECT id, note, dt FROM others")  # another tool's files
    writer.append(rows((3, "c", "d1"), (4, SECRET, "d2"), (5, "e", "d9")), table)
    writer.append(rows((6, SECRET, "d2")), table, carry="in_place")
    writer.update_where(table, {"dt": "'d3'"}, where="id = 4")  # of d2, which will have no such row
    writer.overwrite_partitions(rows((7, SECRET, "d4"), (9, "x", "d9")), table)
    before = writer.overwrite_partitions(rows((8, "h", "d4")), table).version
    writer.compact(table, min_files=2)
    with writer.stage(rows((10, SECRET, "d1")), table, "append"):
        assert before is not None
    return before


def test_no_object_holds_what_was_erased(
    writer: TableWriter, spark: SparkSession, opened: OpenTable, orders: str, rows: Rows, listed: Listed
) -> None:
    before = with_a_long_history(writer, spark, orders, rows, f"{opened.layout.root}elsewhere/dt=d9")
    result = writer.delete_where(orders, f"note = '{SECRET}'", purge=True)
    assert result.deleted == 4
    with pytest.raises(InvalidInputError, match=rf"erased on [0-9-]+ by .*@.* \(write {result.write_id}\)"):
        writer.read(orders, version=before, partitions=["dt=d1"])
    for value in ("d2", "d7"):
        with pytest.raises(InvalidInputError, match="erased on"):
            writer.read(orders, version=1, partitions=[f"dt={value}"])
    with pytest.raises(InvalidInputError, match="erased on"):
        writer.maintenance.rollback(orders, version=before)
    writer.maintenance.recover(orders)
    due = writer.maintenance.erasure(orders)
    assert (due.is_complete, due.deleted_rows, due.vacuumed_at) == (False, 4, None)
    assert set(holders(opened)) <= {erased.key for erased in due.objects}
    assert [finding.status for finding in writer.doctor(orders).findings if finding.check == "erasures"] == ["warning"]

    writer.maintenance.vacuum(orders)
    assert holders(opened) == []
    certificate = writer.maintenance.erasure(orders, write_id=result.write_id)
    assert (certificate.is_complete, certificate.objects != ()) == (True, True)
    assert certificate.vacuumed_at is not None
    assert {erased.key for erased in certificate.objects} == {erased.key for erased in due.objects}
    assert listed(orders) == [(2, "b", "d1"), (3, "c", "d1"), (71, "k", "d7"), (8, "h", "d4"), (9, "x", "d9")]
    assert [tuple(row) for row in writer.read(orders, version=2, partitions=["dt=d9"]).collect()] == [(5, "e", "d9")]
    writer.maintenance.rollback(orders, version=2, partitions=["dt=d9"])
    assert writer.maintenance.vacuum(orders).deleted == ()
    assert writer.maintenance.history(orders).versions[1].state == "published"


@pytest.mark.connect
def test_what_only_older_versions_hold_is_erased_too(
    writer: TableWriter, opened: OpenTable, orders: str, rows: Rows
) -> None:
    writer.overwrite_partitions(rows((1, SECRET, "d1"), (2, "b", "d2")), orders)
    writer.overwrite_partitions(rows((3, "c", "d1"), (4, "d", "d2")), orders)
    result = writer.delete_where(orders, f"note = '{SECRET}'", purge=True)
    assert (result.version, result.deleted) == (None, 0)
    assert "1 replaced file to be erased" in result.notes[0]
    writer.maintenance.vacuum(orders)
    assert holders(opened) == []
    assert writer.read(orders, version=1, partitions=["dt=d2"]).count() == 1
    assert writer.maintenance.erasure(orders, write_id=result.write_id).is_complete


def test_what_is_not_erased_is_named(writer: TableWriter, opened: OpenTable, orders: str, rows: Rows) -> None:
    writer.overwrite_partitions(rows((1, SECRET, "d1")), orders)
    staged = writer.stage(rows((2, SECRET, "d2")), orders)
    writer.delete_where(orders, f"note = '{SECRET}'", purge=True, idempotency_key="ann")
    again = writer.delete_where(orders, f"note = '{SECRET}'", purge=True, idempotency_key="ann")
    assert again.repeated
    writer.maintenance.vacuum(orders)
    certificate = writer.maintenance.erasure(orders, write_id=again.write_id)
    assert (certificate.due, certificate.is_complete) == (0, False)
    assert any(staged.write_id in remark for remark in certificate.remarks)
    assert "names of partitions and the least" in certificate.later[0]
    assert all(staged.write_id in key for key in holders(opened))
    with pytest.raises(InvalidInputError, match="no erasure by write nobody"):
        writer.maintenance.erasure(orders, write_id="nobody")
    assert "NOT ERASED" in certificate.to_text()
    staged.discard()
    assert writer.maintenance.erasure(orders, write_id=again.write_id).to_dict()["is_complete"] is True
    assert holders(opened) == []


@pytest.mark.connect
def test_rows_that_come_back_before_they_are_to_be_erased_are_deleted_again(
    writer: TableWriter, opened: OpenTable, orders: str, rows: Rows, listed: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = writer.overwrite_partitions(rows((1, SECRET, "d1"), (2, "b", "d1"), (3, "c", "d2")), orders).version
    after, times = Erasing.after, list[int]()

    def roll_back_first(self: Erasing, *deletes: RowsResult) -> RowsResult:
        times.append(len(deletes))
        if len(times) == 1:
            writer.maintenance.rollback(orders, version=before)
        return after(self, *deletes)

    monkeypatch.setattr(Erasing, "after", roll_back_first)
    result = writer.delete_where(orders, f"note = '{SECRET}'", purge=True, idempotency_key="ann")
    assert (times, result.deleted) == ([1, 2], 2)
    writer.maintenance.vacuum(orders)
    assert writer.maintenance.erasure(orders, write_id=result.write_id).is_complete
    assert holders(opened) == []
    assert listed(orders) == [(2, "b", "d1"), (3, "c", "d2")]


@pytest.mark.parametrize("by", ["version", "path"])
@pytest.mark.parametrize("mode", ["append", "overwrite_partitions"])
def test_rows_of_a_version_that_was_read_before_a_purge_are_not_written_anew(
    writer: TableWriter, spark: SparkSession, opened: OpenTable, orders: str, rows: Rows, mode: str, by: str
) -> None:
    written = writer.overwrite_partitions(rows((1, SECRET, "d1"), (2, "b", "d2")), orders)
    path = f"{opened.layout.data(written.write_id)}dt=d1/"
    read = writer.read(orders, version=1, partitions=["dt=d1"]) if by == "version" else spark.read.parquet(path)
    old = read.selectExpr("id", "note", "'d3' AS dt")
    writer.delete_where(orders, f"note = '{SECRET}'", purge=True)
    with pytest.raises(ConflictError, match=r"computed from files of .*orders that are erased on"):
        getattr(writer, mode)(old, orders)
    writer.maintenance.vacuum(orders)
    assert holders(opened) == []


def test_a_purge_works_again_where_msck_repair_has_brought_a_partition_back(
    writer: TableWriter, spark: SparkSession, opened: OpenTable, orders: str, rows: Rows
) -> None:
    rows((1, SECRET, "d1"), (2, "b", "d2")).createOrReplaceTempView("others")
    spark.sql(f"INSERT INTO {orders} PARTITION (dt) SELECT id, note, dt FROM others")  # another tool's files
    writer.delete_where(orders, f"note = '{SECRET}'", purge=True)
    spark.sql(f"ALTER TABLE {orders} RECOVER PARTITIONS")
    assert spark.table(orders).where("dt = 'd1'").count() == 1
    assert writer.maintenance.vacuum(orders).deleted == ()
    assert writer.delete_where(orders, f"note = '{SECRET}'", purge=True).deleted == 1
    writer.maintenance.vacuum(orders)
    assert writer.maintenance.erasure(orders).is_complete
    assert holders(opened) == []
