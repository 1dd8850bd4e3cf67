"""One task, without Spark: what it uploads, how much it holds, what it undoes."""

from __future__ import annotations

import os
import tracemalloc
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from table_writer.errors import InvalidInputError, StorageError
from table_writer.jobs.upload import files as files_module
from table_writer.jobs.upload import parts as parts_module
from table_writer.model.message import RowMark
from table_writer.model.upload_spec import ParquetOptions

MIB = 1024 * 1024


def batches(partition_count, rows_each, *, batch_rows=10_000, payload_bytes=0):
    """Rows that cycle through the partitions, in batches as Spark sends them."""
    total = partition_count * rows_each
    for start in range(0, total, batch_rows):
        ids = range(start, min(start + batch_rows, total))
        names = [os.urandom(payload_bytes // 2).hex() if payload_bytes else f"name {row % 10}" for row in ids]
        yield pa.record_batch({"id": list(ids), "name": names, "dt": [f"d{row % partition_count}" for row in ids]})


def rows_of(files):
    found = {}
    for key, table in files.items():
        found.setdefault(key.split("/")[-2], []).extend(table["id"].to_pylist())
    return {directory: sorted(rows) for directory, rows in found.items()}


def expected_rows(partition_count, rows_each):
    total = partition_count * rows_each
    return {f"dt=d{number}": list(range(number, total, partition_count)) for number in range(partition_count)}


def test_every_row_is_in_the_file_of_its_partition(store, spec, upload):
    message = upload(batches(7, 3000), spec())
    files = store.files(message)
    assert rows_of(files) == expected_rows(7, 3000)
    assert all(table.column_names == ["id", "name"] for table in files.values())
    assert message.row_count == 21_000
    assert (message.task_index, message.attempt_id, message.write_id) == (3, 17, "w1")


def test_keys_name_task_write_and_codec(store, spec, upload):
    message = upload(batches(1, 10), spec())
    assert [upload.key for upload in message.uploads] == [
        "mart/orders/_table_writer/data/w1/dt=d0/part-00003-w1-17-0.zstd.parquet"
    ]


@pytest.mark.parametrize(("codec", "infix"), [("none", ""), ("snappy", ".snappy"), ("gzip", ".gz"), ("lz4", ".lz4raw")])
def test_codecs_are_spelled_as_spark_spells_them(store, spec, upload, codec, infix):
    message = upload(batches(1, 10), spec(file_options=ParquetOptions(compression=codec)))
    assert message.uploads[0].key.endswith(f"-0{infix}.parquet")
    assert rows_of(store.files(message)) == expected_rows(1, 10)


def test_a_codec_that_arrow_lacks_is_refused_when_the_spec_is_made():
    with pytest.raises(InvalidInputError, match="lzo"):
        ParquetOptions(compression="lzo")


def test_both_attempts_of_a_task_use_the_same_keys(store, spec, upload):
    first = upload(batches(5, 100), spec())
    second = upload(reversed(list(batches(5, 100, batch_rows=50))), spec())
    assert {entry.key for entry in first.uploads} == {entry.key for entry in second.uploads}
    assert not {entry.upload_id for entry in first.uploads} & {entry.upload_id for entry in second.uploads}


def test_a_task_without_rows_sends_a_message_and_uploads_nothing(store, spec, upload):
    message = upload(iter([]), spec())
    assert (message.row_count, message.uploads, store.counts) == (0, (), {})


def test_a_small_file_costs_two_requests_here(store, spec, upload):
    message = upload(batches(30, 1000), spec())
    assert message.requests == (("create_upload", 30), ("upload_part", 30))


def test_a_large_file_goes_out_in_parts_of_the_chosen_size(store, spec, upload):
    message = upload(batches(1, 60_000, payload_bytes=600), spec(part_size_bytes=6 * MIB, row_group_bytes=8 * MIB))
    (entry,) = message.uploads
    assert len(entry.parts) >= 3
    assert {part.size_bytes for part in entry.parts[:-1]} == {6 * MIB}
    assert entry.parts[-1].size_bytes <= 6 * MIB
    assert rows_of(store.files(message)) == expected_rows(1, 60_000)


def test_parts_are_alike_however_much_waits_in_many_files_and_memory_keeps_to_its_bound(
    store, spec, upload, tmp_path, monkeypatch
):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    held, moved, seen = [], [], set()
    took, move_to_disk = parts_module.Uploads.take_bytes, parts_module.PartSink.move_to_disk

    def watch(self, sink, size_bytes):
        took(self, sink, size_bytes)
        held.append(self._held_bytes)
        seen.add(self)

    monkeypatch.setattr(parts_module.Uploads, "take_bytes", watch)
    monkeypatch.setattr(parts_module.PartSink, "move_to_disk", lambda sink: moved.append(sink) or move_to_disk(sink))
    chosen = spec(part_size_bytes=16 * MIB, max_open_files=3, buffer_bytes=4 * MIB)
    message = upload(batches(3, 70_000, payload_bytes=700), chosen)
    assert max(held) <= 16 * MIB
    assert moved
    assert [uploads._held_bytes for uploads in seen] == [0]
    assert {part.size_bytes for entry in message.uploads for part in entry.parts[:-1]} == {16 * MIB}
    assert all(entry.parts[-1].size_bytes <= 16 * MIB for entry in message.uploads)
    assert rows_of(store.files(message)) == expected_rows(3, 70_000)
    assert not list(tmp_path.iterdir()), "scratch files are gone"


def test_a_local_disk_that_fails_under_a_part_is_named(store, spec, monkeypatch):
    monkeypatch.setattr(parts_module, "local_directory", lambda: "/nowhere")
    with parts_module.Uploads(spec(part_size_bytes=16 * MIB, max_open_files=1), store) as uploads:
        uploads.open("a").write(bytes(15 * MIB))
        with pytest.raises(StorageError, match=r"local disk.*SPARK_LOCAL_DIRS"):
            uploads.open("b").write(bytes(15 * MIB))


@pytest.mark.parametrize(
    "sizes", [[5 * MIB], [1, 5 * MIB - 1], [17 * MIB], [3 * MIB] * 7, [5 * MIB - 1, 2], [10 * MIB]]
)
def test_bytes_are_cut_where_a_part_ends_however_they_come(store, spec, sizes):
    written = [bytes([number]) * size for number, size in enumerate(sizes)]
    with parts_module.Uploads(spec(part_size_bytes=5 * MIB, max_open_files=1), store) as uploads:
        sink = uploads.open("k")
        assert [sink.write(pa.py_buffer(data)) for data in written] == sizes
        sink.finish()
        parts = [part.result().size_bytes for part in sink.parts]
    whole, rest = divmod(sum(sizes), 5 * MIB)
    assert parts == [5 * MIB] * whole + ([rest] if rest else [])
    assert store.body(sink.upload_id) == b"".join(written)


def test_a_file_that_nears_the_last_part_is_continued_in_another(store, spec, upload, monkeypatch):
    monkeypatch.setattr(parts_module, "MAX_PARTS", parts_module.SPARE_PARTS + 1)
    chosen = spec(part_size_bytes=5 * MIB, row_group_bytes=6 * MIB, buffer_bytes=6 * MIB)
    message = upload(batches(1, 60_000, payload_bytes=600), chosen)
    names = [entry.key.rsplit("/", 1)[1] for entry in message.uploads]
    assert names == [f"part-00003-w1-17-{number}.zstd.parquet" for number in range(len(names))]
    assert len(names) > 1
    assert rows_of(store.files(message)) == expected_rows(1, 60_000)


@pytest.mark.parametrize("partition_count", [8, 9, 100, pytest.param(2000, marks=pytest.mark.slow)])
def test_partitions_beyond_the_open_files_get_one_file_each(
    store, spec, upload, partition_count, tmp_path, monkeypatch
):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    rows_each = 40_000 // partition_count
    message = upload(batches(partition_count, rows_each), spec(max_open_files=8, buffer_bytes=MIB // 4))
    assert rows_of(store.files(message)) == expected_rows(partition_count, rows_each)
    assert len(message.uploads) == partition_count
    assert list(tmp_path.iterdir()) == []


def test_a_partition_that_dominates_stays_off_the_disk(store, spec, upload, monkeypatch):
    spilled = set()
    add = files_module.Spill.add
    monkeypatch.setattr(
        files_module.Spill, "add", lambda self, pieces: add(self, [spilled.add(entry[0]) or entry for entry in pieces])
    )
    rows = [f"d{row % 500}" if row % 4 == 0 else "large" for row in range(60_000)]
    given = [
        pa.record_batch(
            {"id": list(range(start, start + 10_000)), "name": ["x" * 20] * 10_000, "dt": rows[start : start + 10_000]}
        )
        for start in range(0, 60_000, 10_000)
    ]
    message = upload(given, spec(max_open_files=4, buffer_bytes=MIB))
    by_id = {entry.partition_values: entry for entry in message.uploads}
    assert by_id["large",].row_count == 45_000
    assert len(by_id) == len(message.uploads) == 126
    assert len(spilled) in range(100, 126)  # all but the large one, and those that only the last rows had


def test_rows_that_fit_into_the_buffer_never_see_the_disk(store, spec, upload, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/nowhere")
    monkeypatch.setattr(files_module.Spill, "_writer", None)
    assert len(upload(batches(300, 10), spec(max_open_files=2)).uploads) == 300


def test_a_full_local_disk_is_a_storage_error_and_leaves_nothing(store, spec, upload, tmp_path, monkeypatch):
    tmp_path.joinpath("full").mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "full"))

    def full(self, bucket):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files_module.Spill, "_path", full)
    with pytest.raises(StorageError, match=r"local disk.*No space left.*SPARK_LOCAL_DIRS"):
        upload(batches(300, 100), spec(max_open_files=2, buffer_bytes=MIB // 4))
    assert sorted(store.aborted) == sorted(store.uploads)


@pytest.mark.parametrize("operation", ["create_upload", "upload_part"])
@pytest.mark.parametrize("nth", [1, 2, 17, 30])
def test_an_attempt_that_fails_aborts_all_its_uploads(store, spec, upload, operation, nth):
    store.fail = lambda name, count: (name, count) == (operation, nth)
    with pytest.raises(StorageError, match=f"{operation} failed as told"):
        upload(batches(30, 1000), spec())
    assert sorted(store.aborted) == sorted(store.uploads)


def test_a_failing_abort_never_hides_the_first_error_nor_stops_the_others(store, spec, upload, caplog):
    store.fail = lambda name, count: (name, count) == ("upload_part", 20) or name == "abort_upload"
    with pytest.raises(StorageError, match="upload_part failed as told"):
        upload(batches(30, 1000), spec())
    assert store.counts["abort_upload"] == len(store.uploads) > 1
    assert "write_id=w1" in caplog.text


def test_rows_that_fail_half_way_abort_what_was_sent(store, spec, upload):
    def failing():
        yield from batches(1, 60_000, payload_bytes=600)
        raise RuntimeError("the user's own")

    with pytest.raises(RuntimeError, match="the user's own"):
        upload(failing(), spec(part_size_bytes=5 * MIB, row_group_bytes=8 * MIB))
    assert store.aborted == list(store.uploads) != []


def test_a_type_without_a_parquet_column_is_named(store, spec, upload):
    given = [pa.record_batch({"id": pa.nulls(3), "name": ["a", "b", "c"], "dt": ["x"] * 3})]
    with pytest.raises(InvalidInputError, match="column 'id' has type null"):
        upload(given, spec())


def test_an_unpartitioned_table_has_its_files_at_the_prefix(store, spec, upload):
    given = (batch.select([0, 1]) for batch in batches(1, 25_000))
    message = upload(given, spec(partition_columns=()))
    assert [entry.key for entry in message.uploads] == [
        "mart/orders/_table_writer/data/w1/part-00003-w1-17-0.zstd.parquet"
    ]
    assert message.uploads[0].partition_values == ()


def test_columns_of_another_number_are_refused(store, spec, upload):
    with pytest.raises(InvalidInputError, match="3 columns"):
        upload(batches(1, 5), spec(partition_columns=()))


def test_marks_are_counted_and_rows_that_go_are_in_no_file(store, spec, upload):
    def marked(marks):
        for batch, number in zip(batches(1, 21, batch_rows=7), range(3), strict=True):
            mark = pa.array(map(int, marks[7 * number : 7 * number + 7]), pa.int8())
            yield pa.RecordBatch.from_arrays([*batch.columns, mark], names=[*batch.schema.names, "mark"])

    marks = [RowMark(number % 4) for number in range(21)]
    message = upload(marked(marks), spec(is_marked=True))
    assert message.marks == Counter(marks)
    assert rows_of(store.files(message)) == {
        "dt=d0": [number for number, mark in enumerate(marks) if mark is not RowMark.DELETED]
    }
    message = upload(marked([RowMark.DELETED] * 21), spec(is_marked=True))
    assert (message.row_count, message.uploads, message.marks) == (0, (), {RowMark.DELETED: 21})


def test_a_column_that_repeats_gets_a_dictionary_and_others_none(store, spec, upload):
    message = upload(batches(1, 100_000), spec())
    metadata = pa.parquet.read_metadata(pa.BufferReader(store.body(message.uploads[0].upload_id)))
    assert [metadata.row_group(0).column(position).has_dictionary_page for position in (0, 1)] == [False, True]


def test_the_footer_is_sparks(store, spec, upload):
    options = ParquetOptions(compression="zstd", spark_schema_json='{"type":"struct"}', spark_version="4.3.0")
    message = upload(batches(1, 10), spec(file_options=options))
    metadata = pa.parquet.read_metadata(pa.BufferReader(store.body(message.uploads[0].upload_id))).metadata
    assert metadata == {
        b"org.apache.spark.version": b"4.3.0",
        b"org.apache.spark.sql.parquet.row.metadata": b'{"type":"struct"}',
    }


def test_raw_size_is_the_size_before_compression(store, spec, upload):
    (entry,) = upload(batches(1, 50_000), spec()).uploads
    assert entry.raw_size_bytes > 50_000 * 8


def test_python_holds_no_more_than_the_parts_under_way(store, spec, upload):
    sent = []
    store.upload_part_before, store.upload_part = store.upload_part, None

    def forget(key, upload_id, number, body):
        sent.append(len(body))
        return parts_module.UploadedPart(number=number, etag="e", size_bytes=len(body))

    store.upload_part = forget
    chosen = spec(
        part_size_bytes=5 * MIB, upload_threads=2, row_group_bytes=8 * MIB, buffer_bytes=8 * MIB, max_open_files=1
    )
    given = list(batches(1, 80_000, payload_bytes=800))
    tracemalloc.start()
    upload(iter(given), chosen)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(sent) > 25 * MIB
    assert peak_bytes < (2 + 2) * 6 * MIB


def test_a_spec_shows_no_secret_and_is_complete_when_made(spec):
    assert "hush" not in repr(spec(store={"secret_key": "hush"}))
    for changes in ({"key_prefix": "a/b"}, {"data_columns": ()}, {"part_size_bytes": MIB}, {"upload_threads": 0}):
        with pytest.raises(InvalidInputError):
            spec(**changes)


def test_the_scratch_directory_is_one_of_sparks(store, spec, upload, tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    seen = []
    path = files_module.Spill._path
    monkeypatch.setattr(files_module.Spill, "_path", lambda self, bucket: seen.append(path(self, bucket)) or seen[-1])
    upload(batches(300, 100), spec(max_open_files=2, buffer_bytes=MIB // 4))
    assert {Path(entry).parent.parent for entry in seen} == {tmp_path}
