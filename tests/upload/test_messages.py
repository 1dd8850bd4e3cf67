"""What the driver believes of the tasks' messages, and what it makes of their failures."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

import pytest
from pyspark.errors import PythonException

from table_writer.errors import InvalidInputError, StorageError
from table_writer.jobs.upload.job import check_messages
from table_writer.model.column_statistics import ColumnStatistics
from table_writer.model.message import CommitMessage, CommitMessages, PendingUpload, RowMark, UploadedPart
from table_writer.spark.classic import spark_errors_translated

PREFIX = "mart/orders/_table_writer/data/w1/"


def message(task_index: int, *, key: str = "", write_id: str = "w1") -> CommitMessage:
    upload = PendingUpload(
        key=key or f"{PREFIX}dt=a/part-{task_index:05d}-{write_id}-0.parquet",
        upload_id=f"u{task_index}",
        parts=(UploadedPart(number=1, etag="e", size_bytes=5),),
        size_bytes=5,
        row_count=2,
        partition_values=("a",),
    )
    return CommitMessage(write_id=write_id, task_index=task_index, attempt_id=9, row_count=2, uploads=(upload,))


def sent(messages: list[CommitMessage]) -> list[bytes]:
    return [each.to_bytes() for each in messages]


def test_a_message_survives_the_way_to_the_driver():
    assert CommitMessage.from_bytes(message(3).to_bytes()) == message(3)
    assert list(CommitMessages((message(3).to_bytes(),))) == [message(3)]


def test_messages_come_back_in_the_order_of_tasks(spec):
    given = sent([message(2), message(0), message(1)])
    assert [entry.task_index for entry in check_messages(given, spec())] == [0, 1, 2]


def test_no_task_is_no_message(spec):
    assert list(check_messages([], spec())) == []


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ([message(0), message(2)], r"exactly once each: \[0, 2\]"),
        ([message(1)], r"exactly once each: \[1\]"),
        ([message(0), message(0)], r"exactly once each: \[0, 0\]"),
        ([message(0), message(1, write_id="w2")], "write w2"),
        ([message(0), replace(message(1), uploads=message(0).uploads)], "not named as files of task 1"),
        ([message(0, key="mart/orders/_table_writer/data/w2/dt=a/part-00000-w1-0.parquet")], "not a file of partition"),
        ([message(0, key=f"{PREFIX}dt=b/part-00000-w1-0.parquet")], "not a file of partition"),
        ([message(0, key=f"{PREFIX}dt=a/../dt=b/part-00000-w1-0.parquet")], "not a file of partition"),
        ([replace(message(0), row_count=3)], "read 3 rows but its files hold 2"),
        ([replace(message(0), marks={RowMark.KEPT: 1, RowMark.DELETED: 1})], "wrote 2 rows and has marks of 1"),
    ],
)
def test_messages_that_contradict_each_other_are_refused(spec, given, complaint):
    with pytest.raises(StorageError, match=complaint):
        check_messages(sent(given), spec())


def test_statistics_travel_with_a_message():
    told = {"id": ColumnStatistics(null_count=1, low=7, high=9), "b.c`": ColumnStatistics(null_count=2)}
    (found,) = read_again(replace(message(0), statistics=told))
    assert found.statistics == told


def read_again(*messages):
    return CommitMessages(tuple(sent(list(messages))))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"statistics": {"id": ColumnStatistics(null_count=3)}}, "read 2 rows but tells of column 'id'"),
        ({"row_count": 0, "uploads": (), "statistics": {"id": ColumnStatistics()}}, "read 0 rows but tells"),
    ],
)
def test_statistics_of_other_rows_are_never_sent(changes, complaint):
    with pytest.raises(StorageError, match=complaint):
        replace(message(0), **changes).to_bytes()


@pytest.mark.parametrize(
    "wrong",
    [
        [["id"], [3], [None], [None], [None]],
        [["id"], [0], ["int"], ["x"], [None]],
        [["id"], [0], [None], ["1"], [None]],
        [["id"], [0], ["decimal"], ["x"], [None]],
        [["id", "name"], [0], [None], [None], [None]],
        [["id"], [0]],
    ],
)
def test_statistics_that_are_none_are_refused_when_read(wrong):
    fields = json.loads(zlib.decompress(message(0).to_bytes())) | {"statistics": wrong}
    with pytest.raises(StorageError, match=r"column 'id'|statistics of columns"):
        CommitMessage.from_bytes(zlib.compress(json.dumps(fields).encode()))


def test_a_message_of_the_version_before_is_refused():
    fields = json.loads(zlib.decompress(message(0).to_bytes())) | {"format": 2}
    with pytest.raises(StorageError, match="another version of table_writer"):
        CommitMessage.from_bytes(zlib.compress(json.dumps(fields).encode()))


def traceback_of(text: str) -> PythonException:
    return PythonException(
        f"\n  An exception was thrown from the Python worker.\nTraceback (most recent call last):\n{text}\n"
    )


def test_an_error_of_ours_is_itself_again():
    original = traceback_of('  File "x.py"\ntable_writer.errors.InvalidInputError: the key is long: 1030 bytes')
    with pytest.raises(InvalidInputError) as caught, spark_errors_translated("w1"):
        raise original
    assert caught.value.message == "the key is long: 1030 bytes"
    assert caught.value.write_id == "w1"
    assert caught.value.__cause__ is original


def test_the_last_of_chained_errors_is_the_one():
    text = "table_writer.errors.InvalidInputError: first\n\nDuring handling\n\ntable_writer.errors.StorageError: second"
    with pytest.raises(StorageError, match="second"), spark_errors_translated("w1"):
        raise traceback_of(text)


@pytest.mark.parametrize("text", ["ZeroDivisionError: division by zero", "ValueError: not table_writer.errors at all"])
def test_failures_of_the_users_code_pass_unchanged(text):
    original = traceback_of(text)
    with pytest.raises(PythonException) as caught, spark_errors_translated("w1"):
        raise original
    assert caught.value is original
