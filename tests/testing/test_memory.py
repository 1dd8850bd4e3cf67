"""A job can be tested in memory: the real writer on doubles, and every failure on request."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pyarrow as pa
import pytest

from table_writer import ConflictError, InvalidInputError, StorageError
from table_writer.testing import MemoryLakehouse

COLUMNS = {"id": "bigint", "note": "string", "dt": "string"}


def rows(*ids: int, dt: str = "d1") -> pa.Table:
    return pa.table({"id": list(ids), "note": ["n"] * len(ids), "dt": [dt] * len(ids)})


@pytest.fixture
def lake() -> MemoryLakehouse:
    lake = MemoryLakehouse()
    lake.create_table("mart.orders", COLUMNS, partition_by=["dt"])
    return lake


def test_what_is_written_is_what_readers_see(lake: MemoryLakehouse) -> None:
    writer = lake.writer()
    assert writer.overwrite_partitions(rows(1, 2), "mart.orders").version == 1
    writer.append(rows(3), "mart.orders")
    writer.append(rows(4, dt="d2"), "mart.orders")
    assert sorted(lake.rows("mart.orders").column("id").to_pylist()) == [1, 2, 3, 4]
    assert lake.rows("mart.orders", [("dt", "=", "d2")]).column("id").to_pylist() == [4]
    assert [version.version for version in lake.maintenance.history("mart.orders").versions] == [3, 2, 1]
    lake.maintenance.rollback("mart.orders", version=1)
    assert sorted(lake.rows("mart.orders").column("id").to_pylist()) == [1, 2]


@pytest.mark.parametrize(
    ("columns", "partition_by", "why"),
    [
        ({"id": "bigint", "dt": "string"}, ["dt", "dt"], "named twice"),
        ({"id": "bigint", "ID": "string"}, [], "named twice"),
        ({"dt": "string"}, ["dt"], "no column beside"),
        ({}, [], "no column beside"),
        ({"id": "bigintt"}, [], "no type for 'bigintt'"),
        ({"id": "bigint"}, ["dt"], "no column 'dt'"),
    ],
    ids=str,
)
def test_what_hive_would_refuse_is_no_table(
    lake: MemoryLakehouse, columns: dict[str, str], partition_by: list[str], why: str
) -> None:
    with pytest.raises(InvalidInputError, match=why):
        lake.create_table("mart.odd", columns, partition_by=partition_by)
    lake.create_table("mart.odd", {"ID": "bigint", "Dt": "string"}, partition_by=["DT"])
    assert lake.rows("mart.odd").column_names == ["id", "dt"]


def test_a_failing_store_leaves_readers_where_they_were(lake: MemoryLakehouse) -> None:
    writer = lake.writer()
    writer.overwrite_partitions(rows(1), "mart.orders")

    def fail(operation: str, phase: str, _key: str) -> None:
        if (operation, phase) == ("upload_part", "before"):
            raise StorageError("no route to host")

    lake.store.on_call = fail
    with pytest.raises(StorageError, match="no route"):
        writer.overwrite_partitions(rows(2), "mart.orders")
    lake.store.on_call = None
    assert lake.rows("mart.orders").column("id").to_pylist() == [1]


def test_two_writers_conflict_as_they_would(lake: MemoryLakehouse) -> None:
    writer, other = lake.writer(), lake.writer()
    writer.overwrite_partitions(rows(1), "mart.orders")
    staged = writer.stage(rows(2), "mart.orders")
    other.overwrite_partitions(rows(3), "mart.orders")
    with pytest.raises(ConflictError):
        lake.maintenance.publish("mart.orders", staged.summary.write_id)
    assert lake.rows("mart.orders").column("id").to_pylist() == [3]


@pytest.mark.parametrize(("partition_by", "why"), [(["day"], "no column 'day'"), (["dt"], "already")])
def test_a_table_that_cannot_be_made_says_why(lake: MemoryLakehouse, partition_by: list[str], why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        lake.create_table("mart.orders", COLUMNS, partition_by=partition_by)


def test_what_starts_processes_says_that_they_do_not_reach_it(lake: MemoryLakehouse) -> None:
    with pytest.raises(InvalidInputError, match="none of them reaches what is in the memory"):
        lake.maintenance.certify("s3a://memory/proof")


def test_neither_spark_nor_a_client_of_a_service_is_imported() -> None:
    job = """
    import sys
    import pyarrow as pa
    from table_writer.testing import MemoryLakehouse

    lake = MemoryLakehouse()
    lake.create_table("mart.orders", {"id": "bigint"})
    lake.writer().append(pa.table({"id": [1]}), "mart.orders")
    assert lake.rows("mart.orders").num_rows == 1
    print(sorted({name.partition(".")[0] for name in sys.modules} & {"pyspark", "py4j", "moto", "pytest"}))
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(job)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ran.returncode, ran.stdout.strip()) == (0, "[]"), ran.stderr
