"""What a write costs in requests and metastore calls: exact, since nothing about them depends on time.

A change that needs one more of either changes a number here, and says why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from table_writer import TableWriter, WriteResult

UPLOADS: Final = ("CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload")
LATER_WRITE: Final = {
    "GetObject": 3,  # owner, checkpoint, and the last entry: how wide were rows? what does the list lack?
    "ListObjectsV2": 3,  # the log, at plan and at publish; has a stream begun a list of its own in the root?
    "ListMultipartUploads": 1,  # what attempts that did not count have left
    "PutObject": 4,  # registration, claim, outcome, _SUCCESS
    "DeleteObjects": 1,  # the registration
}
TABLE: Final = {"get_table_req": 2}  # at plan, and just before the claim
ALTER: Final = "alter_partitions_with_environment_context"
TOLD: Final = {
    "set_aggr_stats_for": 1,
    ALTER: 1,
}  # statistics of columns, and an alter that takes the server's mark away
LOOKS: Final = 2  # at the partitions: before the claim, and before that alter


def switch(replaced: int) -> dict[str, int]:
    """Return the calls of one that replaces so many partitions which have statistics."""
    forgotten = {"get_partitions_statistics_req": 1, "delete_partition_column_statistics": replaced}
    return {**TOLD, ALTER: 2, **forgotten}


Rows = Callable[..., Any]


@pytest.fixture
def two(rows: Rows) -> Any:
    return rows((1, "a", "d1"), (2, "b", "d2")).coalesce(1)


@pytest.fixture
def written(spark: SparkSession, writer: TableWriter, orders: str, two: Any) -> str:
    """A table whose first write, which asks and makes more than later ones, is done."""
    first = writer.overwrite_partitions(two, orders)
    assert first.storage_requests == {
        **dict.fromkeys(UPLOADS, 2),
        # of a log that is not there; its owner is looked for while Spark analyzes, and taken after it. Eight are of a
        # race of conditional puts, of who loses and what has won: once in a table's life the store is tried
        "GetObject": 4 + 8,
        "HeadObject": 2,  # is the root inside another?
        # is there an id of a log? a mark of other readers? are keys listed in order, and from one of them on?
        "ListObjectsV2": 5 + 2,
        "ListMultipartUploads": 1,
        "PutObject": 6 + 8 + 4,  # one is that id; of eight racing ones one wins; four keys to be listed
        "DeleteObjects": 3,
    }
    calls = dict(first.metastore_calls)
    calls.pop("set_ugi", None)  # of a new connection
    databases = len(spark.catalog.listDatabases())
    assert calls.pop("get_table_objects_by_name_req") in range(1, databases + 1)  # none of a database without tables
    assert calls == {
        "get_table_req": 5,  # at plan; no partitions, or no table; before it is told its log; before the claim; again
        "getVersion": 2,  # can this session's own client talk to it? does it compare what it sets? Two more tell
        "get_index_names": 1,
        "get_config_value": 1,
        "alter_table_with_environment_context": 1,  # once in a table's life: which log it has
        "get_all_databases": 1,  # is one table inside another?
        "get_all_tables": databases,
        "get_partition_names": 1,  # are partitions below another root?
        "get_partitions_by_names": LOOKS,
        "add_partitions_req": 1,
        **TOLD,
    }
    return orders


def costs(result: WriteResult, requests: dict[str, int], calls: dict[str, int]) -> None:
    uploads = {name: result.storage_requests.get(name, 0) for name in UPLOADS}
    assert uploads == dict.fromkeys(UPLOADS, result.files)
    others = {name: count for name, count in result.storage_requests.items() if name not in UPLOADS}
    assert others == requests
    assert result.metastore_calls == calls


def test_overwriting_partitions(writer: TableWriter, written: str, two: Any) -> None:
    for _ in range(3):
        result = writer.overwrite_partitions(two, written)
        costs(result, LATER_WRITE, {**TABLE, "get_partitions_by_names": LOOKS, **switch(2)})


def test_rows_of_sparks_own_cost_a_look_at_how_wide_they_were(
    spark: SparkSession, writer: TableWriter, written: str
) -> None:
    own = spark.range(2).selectExpr("id", "'x' AS note", "concat('d', id) AS dt")
    result = writer.overwrite_partitions(own, written)
    mixed = {"get_partitions_by_names": LOOKS, "add_partitions_req": 1, **switch(1)}
    costs(result, {**LATER_WRITE, "GetObject": 3}, {**TABLE, **mixed})


@pytest.mark.slow
def test_more_files_cost_three_requests_each_and_nothing_else(writer: TableWriter, written: str, rows: Rows) -> None:
    many = rows(*[(number, "x", f"d{number % 40}") for number in range(400)]).repartition(3)
    writer.overwrite_partitions(many, written, engine="arrow")  # by tasks
    result = writer.overwrite_partitions(many, written, engine="arrow")
    assert result.files > 100
    costs(result, LATER_WRITE, {**TABLE, "get_partitions_by_names": LOOKS, **switch(40)})


def test_overwriting_where(writer: TableWriter, written: str, two: Any) -> None:
    result = writer.overwrite_partitions(two, written, where="dt in ('d1', 'd2')")
    names = {"get_partition_names": 2}  # does the predicate fail on one? and which does it select, before the claim
    costs(result, LATER_WRITE, {**TABLE, **names, "get_partitions_by_names": LOOKS, **switch(2)})


def test_appending(writer: TableWriter, written: str, two: Any) -> None:
    result = writer.append(two, written)
    assert result.copied_files == 2
    requests = {
        **LATER_WRITE,
        "GetObject": 5,  # the entry that has figures of the columns of what is copied, and its outcome
        "ListObjectsV2": 9,  # each partition before the copies and after them, the write's own prefix, the log again
        "CopyObject": 2,
    }
    calls = {"get_table_req": 3, "get_partitions_by_names": 4}  # two looks before the copies, one before the claim
    costs(result, requests, {**calls, **switch(2)})


def test_creating_partitions(writer: TableWriter, written: str, rows: Rows) -> None:
    result = writer.create_partitions(rows((7, "g", "d7")), written)
    # are some without rows? was the metastore set back, by one partition of the newest entry?
    calls = {"get_partition_names": 1, "get_partitions_by_names": 4, "add_partitions_req": 1}
    calls |= TOLD
    calls["get_table_req"] = 3  # the third: none of them is there; is the table?
    costs(result, LATER_WRITE, calls)


def test_overwriting_the_table(writer: TableWriter, written: str, rows: Rows) -> None:
    result = writer.overwrite_table(rows((1, "a", "d1")), written)
    dropped = {"get_partition_names": 1, "get_partitions_by_names": 3, "drop_partition": 1}
    looked = {**LATER_WRITE, "ListObjectsV2": 4}  # also: has somebody written to what is about to be dropped?
    costs(result, looked, {**TABLE, **dropped, **switch(2)})


def test_overwriting_an_unpartitioned_table(writer: TableWriter, make_table: Callable[..., str], rows: Rows) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, note STRING, dt STRING) USING parquet", "whole")
    writer.overwrite_table(rows((1, "a", "d1")), table)
    result = writer.overwrite_table(rows((2, "b", "d1")), table)
    calls = {
        "get_table_req": 4,  # before the claim: the table, as its own partition too
        "alter_table_with_environment_context": 2,
        "get_table_statistics_req": 1,
        "delete_table_column_statistics": 1,
        "update_table_column_statistics": 1,
    }
    costs(result, {**LATER_WRITE, "ListObjectsV2": 2}, calls)  # its rows are not in the root any more


def test_a_repeated_key_costs_a_look(writer: TableWriter, written: str, two: Any) -> None:
    writer.overwrite_partitions(two, written, idempotency_key="k")
    result = writer.overwrite_partitions(two, written, idempotency_key="k")
    assert result.repeated
    assert result.storage_requests == {"GetObject": 3, "ListObjectsV2": 1}
    assert result.metastore_calls == {"get_table_req": 1}
