"""The page on the log's format is enough: what was written from it alone answers as the product does."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from table_writer.errors import InvalidInputError
from table_writer.model.entry import LogEntry
from table_writer.model.location import Location
from table_writer.protocol.log.table_log import TableLog
from tests.explore.actors import OTHERS, OURS
from tests.explore.run import Run
from tests.explore.search import BUDGETED, Exploration
from tests.fuzz.report import history
from tests.fuzz.simulation import Simulation
from tests.publish.world import TableWorld, World

from .format_reader import Log, normal, read_log

PAGE: Final = (Path(__file__).parents[2] / "docs/reference/log-format.md").read_text()
EXAMPLE: Final = Path(__file__).parents[1] / "model/stored/example"


def stored(world: TableWorld) -> dict[str, bytes]:
    """Return the stored objects below the library's directory."""
    own = world.layout.own.key
    return {key.removeprefix(own): body for key, (body, _) in world.store._objects.items() if key.startswith(own)}


def answered(world: TableWorld) -> Log:
    """Return what the product says of the same log."""
    log = TableLog(world.store, world.layout)
    listing = log.lister.read(listed_after=0)
    state, root = log.read_recent().state, str(world.layout.root)

    def told(location: str | None) -> str | None:
        return None if location is None else normal(location, root)

    records = [log.slots.read(version) for version in sorted(listing.versions)]
    return Log(
        versions={
            one.entry.version: (one.entry.operation.value, one.outcome.value if one.outcome else None)
            for one in records
        },
        shown={values: told(one.partition.new_location) for values, one in state.current_partitions.items()},
        left={normal(str(one.location), root): one.left_by for one in state.left_locations.values()},
        in_doubt=frozenset(one.entry.version for one in records if one.outcome is None),
        going=frozenset(normal(str(Location(*place)), root) for place in state.doomed_places),
    )


def test_the_example_of_the_page_is_what_is_stored() -> None:
    for path in sorted(EXAMPLE.rglob("*.*")):
        assert f"`{path.relative_to(EXAMPLE).as_posix()}`\n\n```json\n{path.read_text()}\n```\n" in PAGE


def test_the_example_is_read_for_ever_and_goes_back_byte_for_byte() -> None:
    root = Location.parse("s3a://lake/mart/orders/")
    for version in range(1, 5):
        body = (EXAMPLE / f"log/{version:020d}.json").read_bytes()
        assert LogEntry.from_json(body, root=root, version=version).to_json(root) == body
    first = "_table_writer/data/20260301T080000-1111111111111111/dt=2026-03-01/"
    assert read_log(example(), str(root)) == Log(
        versions={1: ("write", "published"), 2: ("write", "published"), **LAST_TWO},
        shown={("2026-03-01",): first, ("2026-03-02",): None},
        left={},
        in_doubt=frozenset(),
        going=frozenset(),
    )


LAST_TWO: Final = {3: ("rollback", "published"), 4: ("vacuum", "published")}


def example() -> dict[str, bytes]:
    return {path.relative_to(EXAMPLE).as_posix(): path.read_bytes() for path in EXAMPLE.rglob("*") if path.is_file()}


def changed(name: str, **fields: object) -> dict[str, bytes]:
    """Return the example with other fields in one object."""
    objects = example()
    return {**objects, name: json.dumps({**json.loads(objects[name]), **fields}).encode()}


NEWEST: Final = "log/00000000000000000004"
ERRORS: Final = {
    "another format": changed(f"{NEWEST}.json", format=2),
    "a word that must be understood": changed(f"{NEWEST}.json", must_understand={"a group of tables": "0.3"}),
    "an entry of another log": changed(f"{NEWEST}.json", log_id="0123"),
    "an entry of another slot": changed(f"{NEWEST}.json", version=3),
    "an unknown operation": changed(f"{NEWEST}.json", operation="publish a group"),
    "an outcome of another entry": changed(f"{NEWEST}.done", of="20260306T030000-5555555555555555"),
    "an unknown outcome": changed(f"{NEWEST}.done", outcome="half"),
    "an entry that is gone": {key: body for key, body in example().items() if key != "log/00000000000000000002.json"},
}


@pytest.mark.parametrize("objects", ERRORS.values(), ids=ERRORS)
def test_what_the_page_calls_an_error_is_one_to_both(objects: Mapping[str, bytes]) -> None:
    world = World()
    for key, body in objects.items():
        world.store.put(f"{world.layout.own.key}{key}", body)
    with pytest.raises(ValueError):  # noqa: PT011  # what it says is its own affair
        read_log(objects, str(world.layout.root))
    with pytest.raises(InvalidInputError):
        answered(world)


def test_a_long_entry_is_read_as_a_short_one() -> None:
    objects = example()
    packed = {key: gzip.compress(body) if body else body for key, body in objects.items() if "owner" not in key}
    assert read_log({**objects, **packed}, "s3a://lake/mart/orders/") == read_log(objects, "s3a://lake/mart/orders/")


def require_same(name: str, world: TableWorld, told: Counter[str]) -> None:
    """The product and the page's reader answer alike: versions, what is shown, left, in doubt, and going."""
    objects = stored(world)
    told.update(kind for kind in ("folded", "trimmed") if any(f"log/{kind}-" in key for key in objects))
    assert read_log(objects, str(world.layout.root)) == answered(world), name


@pytest.mark.parametrize(
    "first", [pytest.param(first, marks=pytest.mark.slow if first else ()) for first in range(0, 1_000, 50)]
)
def test_drawn_histories_are_read_alike(first: int) -> None:
    told: Counter[str] = Counter()
    for seed in range(first, first + 50):
        one = history(seed, unpartitioned=seed % 4 == 3)
        simulation = Simulation(one.partitions)
        simulation.run(one.steps, ends=False)
        require_same(f"seed {seed}", simulation.world, told)
    assert told["folded"]


@pytest.mark.parametrize("actor", [*OURS, *OTHERS])
def test_what_each_actor_leaves_in_the_log_is_read_alike(actor: str) -> None:
    told: Counter[str] = Counter()

    def noted(run: Run) -> None:
        with run.unhooked():
            if run.base.services().log.lister.read(listed_after=0, allow_lost=True).lost:
                return  # an error to both
            require_same(str(run.schedule), run.base, told)

    for other in ("append", "vacuum"):
        Exploration((actor, other), BUDGETED, noted=noted).sample(2)
