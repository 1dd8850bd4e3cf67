"""Where a call concerns many partitions, their directories are listed together: what each holds stays what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from table_writer.errors import InvalidInputError
from table_writer.model.location import Location
from table_writer.model.write_mode import WriteMode
from table_writer.storage.table_files import TOGETHER

from .test_in_place import at_a_placeholder
from .world import World

DAYS: Final = tuple(f"d{number}" for number in range(TOGETHER + 1))


def rows_of(first: int) -> dict[str, frozenset[int]]:
    return {day: frozenset({first + number}) for number, day in enumerate(DAYS)}


def at_placeholders(world: World) -> None:
    for day, rows in rows_of(100).items():
        world.dropped_by_another_tool(day)
        at_a_placeholder(world, day, rows)


def first_place(world: World) -> str:
    return world.partitions()[DAYS[0]].location.rstrip("/") + "/"


def beside(world: World) -> None:
    """Another tool has added a file to each."""
    for number, day in enumerate(DAYS):
        world.store.put(f"{Location.parse(world.located()[day]).key}theirs.json", f"[{500 + number}]".encode())


STATES: Final[dict[str, Callable[[World], object]]] = {
    "as they were written": lambda _: None,
    "at placeholders where another tool has written": at_placeholders,
    "one at the directory of the write": lambda world: world.pointed_by_another_tool(
        "latest", first_place(world).removesuffix(f"dt={DAYS[0]}/")
    ),
    "one at the place of another, in another scheme": lambda world: world.pointed_by_another_tool(
        "latest", first_place(world).replace("s3a:", "s3:")
    ),
    "one below another": lambda world: (
        world.store.put(f"{Location.parse(first_place(world)).key}b=2/theirs.json", b"[50]"),
        world.pointed_by_another_tool("latest", f"{first_place(world)}b=2/"),
    ),
    "files of another tool beside": beside,
}


@pytest.mark.parametrize("state", STATES)
def test_an_append_to_many_keeps_the_rows_of_each(state: str) -> None:
    world = World()
    world.write(rows_of(100))
    STATES[state](world)
    before = world.rows()
    added = {value: frozenset({1_000 + number}) for number, value in enumerate(before)}
    world.write(added, plan=world.plan(WriteMode.APPEND))
    assert world.rows() == {value: before[value] | rows for value, rows in added.items()}


def test_a_rollback_of_many_is_refused_if_one_is_not_as_it_was() -> None:
    def back(spoil: Callable[[World, str], object]) -> World:
        world = World()
        world.write(rows_of(100))
        places = dict(world.located())
        world.write(rows_of(200))
        spoil(world, Location.parse(places[DAYS[3]]).key)
        world.keeper.rollback("mart.orders", version=1)
        assert world.located() == places
        return world

    assert back(lambda *_: None).rows() == rows_of(100)

    def without_a_file(world: World, place: str) -> None:
        world.store.delete([info.key for info in world.store.list(place)])

    def with_another(world: World, place: str) -> None:
        world.store.put(f"{place}theirs.json", b"[7]")

    for spoil in (without_a_file, with_another):
        with pytest.raises(InvalidInputError, match=f"1 of {len(DAYS)} partitions .*cannot be put back: dt={DAYS[3]}"):
            back(spoil)
