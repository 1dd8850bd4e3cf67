"""Which files of a table are counted, copied and read, without Spark: files of Parquet in a store of doubles."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types as T  # noqa: N812  # as Spark documents it

from table_writer.errors import ConflictError, InvalidInputError
from table_writer.jobs.rows import kept as kept_files
from table_writer.jobs.rows import small_files
from table_writer.jobs.rows import snapshot as snapshots
from table_writer.jobs.rows.kept import KeptFiles
from table_writer.jobs.rows.snapshot import FILE, Snapshot
from table_writer.model.location import Location
from table_writer.model.table import PastPartition
from table_writer.reports.write_result import PartitionResult
from table_writer.storage.footers import MOST_FOOTERS
from table_writer.storage.object_store import SourceChangedError
from table_writer.testing.memory_store import MemoryStore
from tests.publish.conftest import world
from tests.publish.world import World

from .test_on_doubles import NO_SPARK, snapshot_of

__all__ = ["world"]

OURS = {b"org.apache.spark.version": b"4.0.0"}
D1, D2 = ("d1",), ("d2",)


def parquet(rows: int, notes: dict[bytes, bytes] | None = None) -> bytes:
    table, body = pa.table({"id": pa.array(range(rows), pa.int64())}), io.BytesIO()
    pq.write_table(table.replace_schema_metadata(OURS if notes is None else notes), body)
    return body.getvalue()


def held(world: World, files: dict[str, dict[str, bytes]]) -> None:
    """Let another tool have written these files by partition."""
    for value, bodies in files.items():
        for name, body in bodies.items():
            world.store.put(f"mart/orders/dt={value}/{name}", body)
        world.pointed_by_another_tool(value, f"{world.root}dt={value}/")


@pytest.fixture
def two_days(world: World) -> World:
    held(world, {"d1": {"a": parquet(2), "b": parquet(3)}, "d2": {"c": parquet(4)}, "d3": {"d": parquet(5)}})
    return world


@dataclass
class Asked:
    """What was asked of Spark and of our own tasks."""

    parts: list[PastPartition] = field(default_factory=list)
    file_column: str = ""
    small: list[tuple[str, Any]] = field(default_factory=list)

    def past_rows(
        self, opened: object, subject: str, partitions: Sequence[PastPartition], *, file_column: str = ""
    ) -> str:
        assert "of mart.orders" in subject
        self.parts, self.file_column = list(partitions), file_column
        return "by Spark"

    def of_small(self, files: list[tuple[Any, Any]]) -> str:
        self.small = [(info.key.rpartition("/")[2], values) for info, values in files]
        return "by us"

    @property
    def only(self) -> dict[Any, tuple[Any, ...]]:
        return {part.values: (sorted(part.only or ()), part.files, part.bytes) for part in self.parts}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    found = Asked()
    monkeypatch.setattr(snapshots, "open_gateway", lambda _: found)
    monkeypatch.setattr(small_files.SmallFiles, "rows", found.of_small)
    day = T.StructField("dt", T.StringType())
    monkeypatch.setattr(small_files, "partition_schema", lambda _: T.StructType([day]))  # Spark parses types
    monkeypatch.setattr(small_files, "table_schema", lambda _: T.StructType([T.StructField("id", T.LongType()), day]))
    return found


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which objects were read in parts, as footers are."""
    names: list[str] = []
    read_range = MemoryStore.read_range

    def noted(store: MemoryStore, info: Any, *where: int) -> bytes:
        names.append(info.key.rpartition("/")[2])
        return read_range(store, info, *where)

    monkeypatch.setattr(MemoryStore, "read_range", noted)
    return names


def size(rows: int) -> int:
    return len(parquet(rows))


@pytest.mark.parametrize("counts", [True, False])
def test_rows_of_replaced_files_are_counted_if_asked_and_files_that_stay_always(
    counts: bool, two_days: World, read: list[str]
) -> None:
    kept = KeptFiles.of(snapshot_of(two_days), {D1: ["a"]}, [D1, D2], counts=counts)
    assert {values: set(files) for values, files in kept.files.items()} == {D1: {"b"}, D2: {"c"}}
    assert kept.rows == {D1: 3, D2: 4}
    assert kept.replaced_rows == (2 if counts else 0)
    assert sorted(read) == (["a", "b", "c"] if counts else ["b", "c"])


def test_a_partition_all_of_whose_files_are_replaced_keeps_none(two_days: World) -> None:
    kept = KeptFiles.of(snapshot_of(two_days), {D1: ["a", "b"]}, [D1], counts=True)
    assert (kept.files, kept.rows, kept.replaced_rows) == ({}, {}, 5)


def test_a_file_of_which_nobody_has_counted_a_row_has_none(two_days: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's job names the files of which it has found rows alone."""
    monkeypatch.setattr(kept_files, "rows_by_file", lambda *_: {D1: {}})
    kept = KeptFiles.of(snapshot_of(two_days), {D1: ["a"]}, [D1], counts=True)
    assert (kept.rows, kept.replaced_rows) == ({D1: 0}, 0)


def test_copies_are_no_part_of_what_was_written(two_days: World) -> None:
    kept = KeptFiles.of(snapshot_of(two_days), {D1: ["a"]}, [D1], counts=False)
    told = PartitionResult(name="dt=d1", values=D1, location="s3a://lake/x/", rows=10, bytes=9_999, files=3)
    result = kept.result_of(told)
    assert (result.rows, result.bytes, result.files) == (7, 9_999 - size(3), 2)
    assert (result.copied_files, result.copied_bytes) == (1, size(3))
    other = PartitionResult(name="dt=d9", values=("d9",), location="s3a://lake/y/", rows=10, bytes=9_999, files=3)
    assert kept.result_of(other) == other
    uncounted = PartitionResult(name="dt=d9", values=("d9",), location="s3a://lake/y/", rows=None, bytes=9, files=3)
    assert kept.result_of(uncounted).rows == 0


def test_a_footer_is_read_once(two_days: World, read: list[str]) -> None:
    snapshot = snapshot_of(two_days)
    first = snapshot.footers_of([(D1, "a"), (D2, "c")])
    again = snapshot.footers_of([(D2, "c"), (D1, "b"), (D1, "a")])
    assert [footer.row_count for footer in first if footer] == [2, 4]
    assert [footer.row_count for footer in again if footer] == [4, 3, 2]
    assert sorted(read) == ["a", "b", "c"]


def test_small_files_of_ours_are_read_by_us(two_days: World, asked: Asked) -> None:
    snapshot = snapshot_of(two_days)
    assert snapshot.rows({D1: ["b"], D2: ["c"]}) == "by us"
    assert asked.small == [("b", D1), ("c", D2)]


@pytest.mark.parametrize("how", [{"with_file": True}, {"by_spark": True}])
def test_where_the_file_of_each_row_is_asked_for_spark_reads(how: Any, two_days: World, asked: Asked) -> None:
    snapshot = snapshot_of(two_days)
    assert snapshot.rows({D1: ["b"], D2: []}, **how) == "by Spark"
    assert asked.only == {D1: (["b"], 1, size(3))}
    assert asked.file_column == (FILE if "with_file" in how else "")


def large(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "LARGEST_BYTES", size(3))


def few(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MOST_FOOTERS", 0)


def of_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.store.put("mart/orders/dt=d1/b", parquet(3, {}))


def changed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise SourceChangedError("another file")

    monkeypatch.setattr(snapshots, "read_footer", gone)


@pytest.mark.parametrize("why", [large, few, of_others, changed])
def test_other_files_are_read_by_spark(
    why: Callable[[World, pytest.MonkeyPatch], None], two_days: World, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    why(two_days, monkeypatch)
    assert snapshot_of(two_days).rows({D1: ["b"]}) == "by Spark"
    assert [*asked.only] == [D1]
    assert asked.file_column == ""


def test_nothing_is_read_by_spark(two_days: World, asked: Asked) -> None:
    """A frame of no share would have no type of a partition's."""
    assert snapshot_of(two_days).rows({D1: []}) == "by Spark"
    assert asked.parts == []


def test_at_the_bound_of_footers_we_still_read(two_days: World, asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_FOOTERS > 1
    monkeypatch.setattr(snapshots, "MOST_FOOTERS", 1)
    monkeypatch.setattr(snapshots, "LARGEST_BYTES", size(3) + 1)
    assert snapshot_of(two_days).rows({D1: ["b"]}) == "by us"


def test_a_scan_lists_what_others_have_written_and_leaves_to_spark_what_the_log_knows(
    two_days: World, asked: Asked
) -> None:
    two_days.write({"d5": frozenset({5}), "d6": frozenset({6})})
    there = two_days.partitions()["d6"].location
    two_days.store.put(f"{Location.parse(there).key}x/part-0.json", b"[7]")
    two_days.store.put("mart/orders/dt=d2/below/e", parquet(1))
    assert snapshot_of(two_days).scan([D1, D2, ("d5",), ("d6",)]) == "by Spark"
    assert asked.file_column == FILE
    assert asked.only[D1] == (["a", "b"], 2, size(2) + size(3))
    assert asked.only[D2] == ([], 0, 1)  # which holds a file: whoever looks into it fails
    assert asked.only["d5",][1:] == asked.only["d6",][1:] == (1, 3)


def test_what_is_smaller_is_listed_only_where_the_log_does_not_say_that_it_is_larger(two_days: World) -> None:
    snapshot, both = snapshot_of(two_days), size(2) + size(3) + size(4)
    assert snapshot.is_smaller([D1, D2], both)
    assert not snapshot.is_smaller([D1, D2], both - 1)
    two_days.write({"d5": frozenset({5, 6, 7})})
    snapshot = snapshot_of(two_days)
    with two_days.recording() as calls:
        assert not snapshot.is_smaller([("d5",)], 8)
        assert ("store", "list") not in calls
        assert snapshot.is_smaller([("d5",)], 9)
    assert snapshot.is_smaller([("d9",)], 0)


@pytest.mark.parametrize(
    ("value", "named"), [("d1", "NOT (dt <=> 'd1')"), ("__HIVE_DEFAULT_PARTITION__", "NOT (dt <=> NULL)")]
)
def test_a_refusal_says_how_the_partition_is_left_out(value: str, named: str, world: World) -> None:
    held(world, {value: {"x/a": parquet(1)}})
    snapshot = Snapshot(NO_SPARK, world.services(), selects_by="condition")
    with pytest.raises(InvalidInputError) as refused:
        snapshot.open(snapshot.selected)
    assert f"or leave it out: add {named} to condition." in refused.value.message.replace("`", "")


def test_of_an_unpartitioned_table_all_rows_are_replaced(world: World) -> None:
    world.become_unpartitioned()
    world.store.put("mart/orders/x/a", parquet(1))
    snapshot = snapshot_of(world)
    assert snapshot.selected == {()}
    with pytest.raises(InvalidInputError, match=r"Replace its rows with overwrite_table\."):
        snapshot.open(snapshot.selected)


def test_files_in_another_bucket_are_not_changed(world: World) -> None:
    world.write({"d2": frozenset({2})})
    world.pointed_by_another_tool("d1", "s3a://other/mart/orders/dt=d1/")
    with pytest.raises(InvalidInputError, match="lies in another bucket, at s3a://other/"):
        snapshot_of(world).open([D1])


def test_two_partitions_of_one_place_cannot_be_told_apart(two_days: World) -> None:
    two_days.pointed_by_another_tool("d4", f"{two_days.root}dt=d1/")
    snapshot = snapshot_of(two_days)
    snapshot.open([D1, D2])
    assert set(snapshot.places.values()) == {D1, D2}
    snapshot.open([("d4",)])
    with pytest.raises(InvalidInputError, match=r"shares s3a://lake/mart/orders/dt=d1/? with "):
        assert snapshot.places


def test_an_error_that_is_not_about_the_files_says_nothing_of_them(two_days: World) -> None:
    snapshot = snapshot_of(two_days)
    snapshot.open([D1])
    two_days.store.put("mart/orders/dt=d2/below/e", parquet(1))
    snapshot._past_partitions([D2])
    snapshot.require_unchanged(ValueError("another thing"))
    with pytest.raises(InvalidInputError, match="has files in directories of its own"):
        snapshot.require_unchanged(ValueError(f"{snapshot._past.subject}: it is not so"))


def test_what_others_have_published_meanwhile_is_a_conflict(two_days: World) -> None:
    two_days.write({"d5": frozenset({5})})
    snapshot = snapshot_of(two_days)
    assert type(snapshot.refusal("no")) is InvalidInputError
    assert snapshot.refusal("no").table == "mart.orders"
    two_days.write({"d6": frozenset({6})})
    assert type(snapshot.refusal("no")) is ConflictError
