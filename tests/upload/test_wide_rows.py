"""Rows of many columns or of huge values, without Spark: what a task holds does not follow them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from table_writer.jobs.upload import files as files_module
from table_writer.jobs.upload import parquet as widths
from table_writer.jobs.upload import partitioning as partitioning_module
from table_writer.jobs.upload import parts as parts_module
from table_writer.model import upload_spec as spec_module

MIB = 1024 * 1024


def noise(seed, rows, width):
    values = np.random.default_rng(seed).integers(0, 256, rows * width, dtype=np.uint8)
    offsets = np.arange(0, rows * width + 1, width, dtype=np.int32)
    return pa.BinaryArray.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(values)])


def pages(partition_count, row_count, *, width, each=4):
    """Binary values of one width, in batches as Spark would send them."""
    for start in range(0, row_count, each):
        ids = list(range(start, start + each))
        dt = [f"d{row % partition_count}" for row in ids]
        yield pa.record_batch({"id": ids, "name": noise(start, each, width), "dt": dt})


def columns(count, partition_count, row_count, *, each=2_000):
    for start in range(0, row_count, each):
        ids = np.arange(start, start + each)
        dt = pa.array([f"d{row % partition_count}" for row in ids.tolist()])
        yield pa.record_batch({**{f"n{n}": ids * (n + 1) for n in range(count)}, "dt": dt})


@pytest.fixture
def held(monkeypatch):
    """What Arrow and the sinks hold, whenever encoded bytes arrive."""
    seen = []
    took = parts_module.Uploads.take_bytes
    base_bytes = pa.total_allocated_bytes()

    def watch(self, sink, size_bytes):
        seen.append(pa.total_allocated_bytes() - base_bytes + self._held_bytes)
        took(self, sink, size_bytes)

    monkeypatch.setattr(parts_module.Uploads, "take_bytes", watch)
    return seen


@pytest.fixture
def opened(monkeypatch):
    """How many files were open, at the most."""
    alive, most = set(), [0]
    opens, close = files_module.PartitionFile._open_file, files_module.PartitionFile.close

    def watch_open(self, rows):
        answer = opens(self, rows)
        alive.add(id(self))
        most[0] = max(most[0], len(alive))
        return answer

    def watch_close(self):
        close(self)
        alive.discard(id(self))

    monkeypatch.setattr(files_module.PartitionFile, "_open_file", watch_open)
    monkeypatch.setattr(files_module.PartitionFile, "close", watch_close)
    return most


@pytest.fixture
def small_chunks(monkeypatch):
    """Rows are split by partition a few at a time, so that little data makes many row groups."""
    monkeypatch.setattr(partitioning_module, "CHUNK_ROWS", 100)


def forget(store):
    store.upload_part = lambda key, upload_id, number, body: parts_module.UploadedPart(
        number=number, etag="e", size_bytes=len(body)
    )


@pytest.mark.parametrize("partition_count", [1, 20])
def test_huge_values_are_written_page_by_page_within_the_bound(store, spec, upload, held, partition_count):
    forget(store)
    chosen = spec(buffer_bytes=16 * MIB, row_group_bytes=16 * MIB, part_size_bytes=5 * MIB)
    given = list(pages(1, 1, width=2 * MIB, each=1))
    batch_bytes = given[0].nbytes * 4
    message = upload(pages(partition_count, 80, width=2 * MIB), chosen)
    assert message.row_count == 80
    assert max(held) < chosen.memory_bytes(batch_bytes=batch_bytes)
    assert max(held) < 20 * 2 * MIB * spec_module.LAST_PAGE_SHARE, "the bound must be below what 20 open files keep"


@pytest.mark.usefixtures("small_chunks")
def test_values_that_suddenly_are_huge_go_on_in_another_file(store, spec, upload):
    given = [*pages(1, 200, width=10, each=100), *pages(1, 8, width=2 * MIB)]
    message = upload(given, spec(buffer_bytes=4096, row_group_bytes=4096))
    sizes = [entry.size_bytes for entry in message.uploads]
    assert len(sizes) == 2
    assert sizes[0] < MIB < 16 * MIB < sizes[1]
    tables = list(store.files(message).values())
    assert pa.concat_tables(tables)["id"].to_pylist() == [*range(200), *range(8)]


@pytest.mark.parametrize(
    ("column_count", "most"),
    [
        (2, 20),
        (100, 20),
        (500, 4),
        pytest.param(2_000, 1, marks=pytest.mark.slow),
        pytest.param(5_000, 1, marks=pytest.mark.slow),
    ],
)
def test_fewer_files_are_open_where_rows_have_many_columns(store, spec, upload, opened, column_count, most):
    names = tuple(f"n{n}" for n in range(column_count))
    chosen = spec(data_columns=names, buffer_bytes=MIB // 4)
    message = upload(columns(column_count, 30, 300, each=100), chosen)
    assert opened[0] <= most == chosen.open_files(column_count)
    found = {key.split("/")[-2]: table["n1"].to_pylist() for key, table in store.files(message).items()}
    assert found == {f"dt=d{number}": [2 * row for row in range(number, 300, 30)] for number in range(30)}


@pytest.mark.usefixtures("small_chunks")
def test_a_file_whose_footer_has_grown_is_continued_in_another(store, spec, upload, monkeypatch):
    monkeypatch.setattr(spec_module, "FOOTERS_BYTES", 20 * 5 * 10 * widths.CHUNK_FOOTER_BYTES)  # 5 row groups a file
    chosen = spec(data_columns=tuple(f"n{n}" for n in range(10)), buffer_bytes=4096, row_group_bytes=4096)
    message = upload(columns(10, 1, 2_400, each=100), chosen)
    names = [entry.key.rsplit("/", 1)[1] for entry in message.uploads]
    assert names == [f"part-00003-w1-17-{number}.zstd.parquet" for number in range(5)]
    tables = store.files(message).values()
    assert [row for table in tables for row in table["n0"].to_pylist()] == list(range(2_400))


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        (pa.int64(), 1),
        (pa.list_(pa.int64()), 1),
        (pa.struct([("a", pa.int8()), ("b", pa.struct([("c", pa.string()), ("d", pa.list_(pa.int8()))]))]), 3),
        (pa.map_(pa.string(), pa.struct([("a", pa.int8()), ("b", pa.int8())])), 3),
        (pa.struct([]), 1),
    ],
    ids=str,
)
def test_nested_types_count_as_the_columns_of_a_file_that_they_are(kind, count):
    assert widths.leaf_count(pa.schema([("id", pa.int64()), ("x", kind)])) == count + 1
