"""Files that end near a target size, and partitions that must not get rows."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator

import pyarrow as pa
import pytest

from table_writer.errors import InvalidInputError, PartitionExistsError
from table_writer.jobs.upload.partitioning import PartitionIds
from table_writer.model.message import CommitMessage
from table_writer.model.table import NULL_PARTITION
from table_writer.model.upload_spec import ParquetOptions
from table_writer.spark.classic import spark_errors_translated

MIB = 1024 * 1024
WORDS = [f"word {number}" for number in range(500)]
FORMATS = [ParquetOptions(compression="zstd"), ParquetOptions(compression="none")]


def batches(row_count: int, partition_count: int, *, batch_rows: int = 10_000) -> Iterator[pa.RecordBatch]:
    """Rows of ordinary data: a key, and text of which some repeats."""
    draw = random.Random(7)
    for start in range(0, row_count, batch_rows):
        ids = range(start, min(start + batch_rows, row_count))
        names = [f"{draw.choice(WORDS)} {draw.getrandbits(100):x}" for _ in ids]
        yield pa.record_batch({"id": list(ids), "name": names, "dt": [f"d{row % partition_count}" for row in ids]})


def by_partition(message: CommitMessage) -> dict[tuple[str, ...], list[int]]:
    sizes: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for entry in message.uploads:
        sizes[entry.partition_values].append(entry.size_bytes)
    return sizes


def assert_near(sizes: list[int], target_bytes: int) -> None:
    assert all(0.5 * target_bytes <= size <= 1.5 * target_bytes for size in sizes[:-1]), sizes
    assert sizes[-1] <= 1.5 * target_bytes


@pytest.mark.parametrize("options", FORMATS, ids=["parquet", "plain parquet"])
@pytest.mark.parametrize(
    "changes", [{}, {"buffer_bytes": MIB, "row_group_bytes": 2 * MIB}, {"row_group_bytes": 100_000}]
)
def test_every_file_but_the_last_is_near_the_target(store, spec, upload, options, changes):
    message = upload(batches(300_000, 1), spec(file_options=options, target_file_bytes=MIB, **changes))
    (sizes,) = by_partition(message).values()
    assert len(sizes) > 4
    assert_near(sizes, MIB)
    assert message.row_count == sum(entry.row_count for entry in message.uploads) == 300_000
    suffix = options.file_name_suffix
    names = [entry.key.rsplit("/", 1)[1] for entry in message.uploads]
    assert names == [f"part-00003-w1-17-{number}{suffix}" for number in range(len(names))]


def test_rolled_files_hold_every_row_once_and_in_order(store, spec, upload):
    message = upload(batches(300_000, 1), spec(target_file_bytes=MIB))
    found = [row for rows in store.files(message).values() for row in rows["id"].to_pylist()]
    assert found == list(range(300_000))


def test_partitions_that_waited_on_disk_roll_over_too(store, spec, upload, tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    chosen = spec(target_file_bytes=MIB, max_open_files=2, buffer_bytes=MIB)
    message = upload(batches(600_000, 5), chosen)
    sizes = by_partition(message)
    assert len(sizes) == 5
    for of_one in sizes.values():
        assert len(of_one) > 1
        assert_near(of_one, MIB)
    rows = sorted(row for table in store.files(message).values() for row in table["id"].to_pylist())
    assert rows == list(range(600_000))


def test_a_partition_below_the_target_is_one_file(store, spec, upload):
    assert len(upload(batches(1000, 10), spec(target_file_bytes=MIB)).uploads) == 10


def test_rows_larger_than_the_target_get_a_file_each(store, spec, upload):
    given = [
        pa.record_batch({"id": [row], "name": [random.Random(row).randbytes(2 * MIB).hex()], "dt": ["d"]})
        for row in range(3)
    ]
    assert [entry.row_count for entry in upload(given, spec(target_file_bytes=MIB)).uploads] == [1, 1, 1]


def test_an_unpartitioned_table_rolls_over_too(store, spec, upload):
    given = (batch.select([0, 1]) for batch in batches(300_000, 1))
    message = upload(given, spec(partition_columns=(), target_file_bytes=MIB))
    assert len(message.uploads) > 4
    assert {entry.partition_values for entry in message.uploads} == {()}
    assert all(entry.key.rpartition("/")[0].endswith("/w1") for entry in message.uploads)


def test_a_target_below_a_mebibyte_is_refused(spec):
    with pytest.raises(InvalidInputError, match="target_file_bytes must be 1 MiB or more"):
        spec(target_file_bytes=MIB - 1)


def test_a_row_of_an_existing_partition_ends_the_task_with_nothing_sent(store, spec, upload):
    with pytest.raises(PartitionExistsError, match="partition dt=d1 exists; create_partitions changes nothing"):
        upload(batches(100, 3), spec(existing=frozenset({("d1",)})))
    assert store.counts == {}


def test_a_row_of_an_existing_partition_late_in_a_task_undoes_what_was_sent(store, spec, upload):
    def rows():
        yield from batches(200_000, 1)
        yield pa.record_batch({"id": [1], "name": ["x"], "dt": ["late"]})

    with pytest.raises(PartitionExistsError, match="partition dt=late exists"):
        upload(rows(), spec(existing=frozenset({("late",)}), row_group_bytes=MIB, part_size_bytes=5 * MIB))
    assert sorted(store.aborted) == sorted(store.uploads)


@pytest.mark.parametrize(
    ("value", "existing", "name"),
    [
        (None, NULL_PARTITION, f"dt={NULL_PARTITION}"),
        ("", NULL_PARTITION, f"dt={NULL_PARTITION}"),
        ("a/b", "a/b", "dt=a%2Fb"),
        ("ä", "ä", "dt=ä"),
    ],
)
def test_an_existing_partition_is_named_as_hive_spells_it(value, existing, name):
    ids = PartitionIds(["dt"], existing={(existing,)})
    with pytest.raises(PartitionExistsError, match=f"partition {name} exists"):
        ids.of([pa.array([value], type=pa.string())], 1)


def test_existing_integers_and_dates_are_met_by_their_text():
    with pytest.raises(PartitionExistsError, match="partition n=-7 exists"):
        PartitionIds(["n"], existing={("-7",)}).of([pa.array([-7], type=pa.int32())], 1)
    with pytest.raises(PartitionExistsError, match="partition d=1970-01-02 exists"):
        PartitionIds(["d"], existing={("1970-01-02",)}).of([pa.array([1], type=pa.date32())], 1)


def test_partitions_beside_existing_ones_are_written(store, spec, upload):
    assert len(upload(batches(100, 3), spec(existing=frozenset({("x",), ("d1", "y")}))).uploads) == 3


def test_the_error_is_the_same_on_the_driver():
    from pyspark.errors import PythonException

    with pytest.raises(PartitionExistsError, match="partition dt=d1 exists") as caught, spark_errors_translated("w1"):
        raise PythonException(
            "Traceback\ntable_writer.errors.PartitionExistsError: partition dt=d1 exists; use append\n"
        )
    assert caught.value.write_id == "w1"


def test_a_spec_does_not_show_thousands_of_partitions(spec):
    assert "d17" not in repr(spec(existing=frozenset({("d17",)})))
