"""What a write of very many files costs, counted: bytes in the driver, requests, calls. Seconds are a benchmark's."""

from __future__ import annotations

import pytest

from benchmarks.scale import Point, driver_bytes, point
from benchmarks.scale_world import ScaleWorld

FILES = 2_000


@pytest.mark.parametrize("parts", [(1,), (1, 1, 1, 1, 10)], ids=["one part each", "every fifth file has ten"])
def test_each_further_file_costs_the_driver_less_than_a_kilobyte(parts: tuple[int, ...]) -> None:
    """From ``collect`` to the end of the publish, keys of 200 characters, partitions and their entries included."""
    fewer, more = (driver_bytes(files, files // 20, parts) * files for files in (FILES, 2 * FILES))
    assert (more - fewer) / FILES < 1_000


def test_keys_are_as_long_as_real_ones() -> None:
    world = ScaleWorld(files=10, partitions=10)
    (message,) = world.messages(world.plan())
    assert min(len(upload.key) for upload in message.uploads) > 150


@pytest.fixture(scope="module")
def points() -> tuple[Point, Point]:
    """The same with twice as many partitions and files."""
    return point(500, 250, 0), point(1_000, 500, 0)


def test_a_write_sends_a_request_for_each_file_and_a_few_that_do_not_grow(points: tuple[Point, Point]) -> None:
    small, large = points
    assert [one.requests["messages"] for one in points] == [0, 0]
    assert [one.requests["complete"] - one.files for one in points] == [1, 1], "one listing of what is left"
    assert small.requests["publish"] == large.requests["publish"]
    assert small.requests["history"] == large.requests["history"]
    recovered = [one.requests["recover"] - one.partitions for one in points]
    assert recovered[0] == recovered[1], "beside a look at the files of each partition before readers are pointed there"


def test_a_vacuum_lists_each_location_once_and_deletes_in_batches(points: tuple[Point, Point]) -> None:
    small, large = points
    batches = 250 // 64  # more for the 250 locations more: each chunk of 64 is deleted by itself
    assert large.requests["vacuum"] - small.requests["vacuum"] == pytest.approx(250 + batches, abs=1)


@pytest.mark.slow
def test_a_vacuum_reads_the_metastore_s_partitions_no_more_often_the_more_there_are() -> None:
    reads = [point(count, count, 0).partitions_read / count for count in (1_024, 1_536)]
    assert max(reads) < 25, "16 times for each location, and a few times all"
    assert reads[1] <= reads[0] * 1.1


def test_one_call_switches_however_many_partitions_there_are(points: tuple[Point, Point]) -> None:
    for one in points:
        assert one.calls_of_publish == {
            "get_table_req": 1,
            "get_partitions_by_names": -(-one.partitions // 250),
            "get_partitions_statistics_req": -(-one.partitions // 250),
            "alter_partitions_with_environment_context": 1,
        }


def test_a_long_entry_is_stored_as_a_tenth_of_its_text(points: tuple[Point, Point]) -> None:
    assert all(one.entry_bytes < one.entry_text_bytes / 10 for one in points)
