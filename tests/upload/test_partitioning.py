from __future__ import annotations

import itertools
import random

import pyarrow as pa
import pytest

from table_writer.errors import InvalidInputError
from table_writer.jobs.upload.partitioning import PartitionIds, in_chunks, rows_by_partition
from table_writer.model.table import NULL_PARTITION


def grouped(columns: dict[str, list[str | None]], order: list[int]) -> dict[tuple[str, ...], list[int]]:
    ids = PartitionIds(list(columns))
    numbers = ids.of([pa.array(values, type=pa.string()) for values in columns.values()], len(order))
    rows = pa.record_batch({"row": order})
    return {ids.values(number): piece.column(0).to_pylist() for number, piece in rows_by_partition(numbers, rows)}


def test_rows_keep_their_order_within_a_partition() -> None:
    assert grouped({"dt": ["b", "a", "b", "a", "b"]}, [0, 1, 2, 3, 4]) == {("b",): [0, 2, 4], ("a",): [1, 3]}


def test_null_and_empty_are_the_default_partition() -> None:
    values = [None, "", NULL_PARTITION, "x"]
    numbers = PartitionIds(["dt"])
    ids = numbers.of([pa.array(values)], 4).to_pylist()
    assert ids[0] == ids[1] == ids[2] != ids[3]
    assert numbers.values(ids[0]) == (NULL_PARTITION,)


def test_rows_of_an_unpartitioned_table_are_one_partition() -> None:
    ids = PartitionIds([])
    numbers = ids.of([], 3)
    assert numbers.to_pylist() == [0, 0, 0]
    assert ids.directory(0) == ""


def test_rows_that_lie_together_are_not_copied() -> None:
    rows = pa.record_batch({"row": pa.array(range(100))})
    pieces = dict(rows_by_partition(pa.array([7] * 50 + [3] * 50, type=pa.int32()), rows))
    assert list(pieces) == [7, 3]
    assert pieces[3].column(0).buffers()[1].address == rows.column(0).buffers()[1].address


@pytest.mark.parametrize("column_count", [1, 2, 3, 5])
def test_several_columns_group_as_tuples_do(column_count: int) -> None:
    draw = random.Random(column_count)
    alphabet = ["x", "y/ß", "'", None, "", " ", "10", *map(str, range(300))]
    columns = {f"c{position}": draw.choices(alphabet, k=5000) for position in range(column_count)}
    expected: dict[tuple[str, ...], list[int]] = {}
    for row, values in enumerate(zip(*columns.values(), strict=True)):
        expected.setdefault(tuple(value or NULL_PARTITION for value in values), []).append(row)
    assert grouped(columns, list(range(5000))) == expected


def test_ten_columns_of_many_values_do_not_overflow() -> None:
    columns = {f"c{position}": [f"{position}-{row}" for row in range(2000)] for position in range(10)}
    assert len(grouped(columns, list(range(2000)))) == 2000


def test_ids_are_the_same_in_every_chunk() -> None:
    ids = PartitionIds(["dt"])
    first = ids.of([pa.array(["a", "b", "a"])], 3).to_pylist()
    second = ids.of([pa.array(["c", "b"])], 2).to_pylist()
    assert (first, second) == ([0, 1, 0], [2, 1])


def test_a_directory_is_escaped_as_hive_does() -> None:
    ids = PartitionIds(["dt"])
    ids.of([pa.array(["a/b\x01 c:d%{.."])], 1)
    assert ids.directory(0) == "dt=a%2Fb%01 c%3Ad%25%7B../"


def test_a_key_longer_than_s3_takes_names_the_partition() -> None:
    ids = PartitionIds(["dt"], rest_of_key="k" * 100)
    ids.of([pa.array(["ß" * 460])], 1)  # 100 + 3 + 920 + 1 = 1,024 bytes
    with pytest.raises(InvalidInputError, match=r"dt=ßßß.* 1025 bytes.*1024"):
        ids.of([pa.array(["ß" * 460 + "x"])], 1)


def test_chunks_join_small_batches_and_drop_empty_ones() -> None:
    batches = [pa.record_batch({"a": list(range(rows))}) for rows in (0, 70_000, 0, 70_000, 70_000, 5)]
    assert [chunk.num_rows for chunk in in_chunks(batches)] == [210_000, 5]
    assert list(in_chunks(itertools.repeat(batches[0], 3))) == []
