"""A process remembers a mirror, and others drop it and make another one in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final
from unittest import mock

import pytest

from table_writer.mirrors import follow
from table_writer.mirrors.delta import DeltaMirror

from .iceberg_world import rows_of_json
from .test_handover import TABLE, kind, mirrored
from .world import PREFIX, MirroredWorld

__all__ = ["kind"]
pytestmark = pytest.mark.usefixtures("in_one_thread")

GONE: Final[dict[str, Callable[[MirroredWorld, str], object]]] = {
    "dropped": lambda world, kind: world.keeper.mirror(TABLE, as_=kind, drop=True),
    "deleted by hand": lambda world, _: world.store.delete(list(world.store.list_files(PREFIX))),
}


@pytest.fixture(autouse=True)
def _rows_of_json() -> Iterator[None]:
    with rows_of_json():
        yield


def remembering(kind: str) -> MirroredWorld:
    """Return a world whose process remembers a mirror of more versions than it will be made of again."""
    world = mirrored(kind)
    for number in range(3):
        world.write({"d1": frozenset({500 + number})})
    world.vacuum()
    world.write({"d1": frozenset({510})})
    return world


def made_again(world: MirroredWorld, kind: str, how: str, *, writes: int) -> dict[Any, Any]:
    """Let another process make the mirror again; returns what this one remembers of the first."""
    remembered, world.memory = dict(world.memory), {}
    GONE[how](world, kind)
    world.memory.clear()
    for number in range(writes):
        world.write({"d1": frozenset({600 + number})})
    world.keeper.mirror(TABLE, as_=kind)
    return remembered


def assert_in_step(world: MirroredWorld, kind: str) -> None:
    """Readers find every row, no commit is missing, and none is where nobody reads it."""
    assert world.mirrored_rows() == world.rows()
    world.memory.clear()
    assert world.keeper.mirror(TABLE, as_=kind, check=True).state == "in step"
    if kind == "delta":
        numbers = [int(key[-25:-5]) for key in world.commits()]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


@pytest.mark.parametrize("writes", [0, 1, 4, 12])
def test_a_writer_that_remembers_a_mirror_which_was_dropped_leaves_no_gap_in_the_next_one(
    kind: str, writes: int
) -> None:
    world = remembering(kind)
    remembered = made_again(world, kind, "dropped", writes=writes)
    other, world.memory = world.memory, remembered
    world.write({"d2": frozenset({700})})
    assert_in_step(world, kind)
    world.memory = other  # the process that has made the second goes on, too
    world.write({"d2": frozenset({701})})
    assert_in_step(world, kind)


@pytest.mark.parametrize("writes", [0, 1, 4, 12])
def test_a_log_that_a_person_has_deleted_and_another_process_begun_again_is_noticed_within_a_minute(
    writes: int,
) -> None:
    world = remembering("delta")
    world.memory = made_again(world, "delta", "deleted by hand", writes=writes)
    world.write({"d2": frozenset({700})})  # may leave a gap: nothing says that another log is there
    with mock.patch.object(follow, "SECONDS_BETWEEN_LOOKS", 0.0):
        world.write({"d2": frozenset({701})})
    assert world.mirrored_rows() == world.rows()


def test_one_that_looks_only_whether_a_log_is_there_is_noticed() -> None:
    with mock.patch.object(DeltaMirror, "is_there", return_value=True), pytest.raises(AssertionError):
        test_a_log_that_a_person_has_deleted_and_another_process_begun_again_is_noticed_within_a_minute(0)
