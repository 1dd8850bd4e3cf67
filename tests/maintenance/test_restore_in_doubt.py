"""A restore after a metastore was lost, set back, or lost a part, while publishes are in doubt: the log's rows, whole.

Cells are an operation that dies some calls after its claim, and what becomes of the metastore then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from typing import Final

import pytest

from table_writer.model.entry import Outcome
from table_writer.model.table import Partition, PartitionValues
from table_writer.model.write_mode import WriteMode
from tests.publish.world import CHANGING, ROOT, TABLE, DeathError, Rows, World

pytestmark = pytest.mark.usefixtures("in_one_thread")

T: Final = str(TABLE)
FIRST: Final = {"d1": frozenset({1}), "d2": frozenset({2})}
SECOND: Final = {"d1": frozenset({11}), "d3": frozenset({3})}
MIXED: Final = {"d1": frozenset({100}), "d2": frozenset({200}), "d9": frozenset({900})}
ONE: Final = {"d1": frozenset({100})}
NEW: Final = {"d9": frozenset({900})}
WHOLE: Final = {"": frozenset({9})}


@dataclass
class LosingWorld(World):
    """A world whose metastore can be set back to where it was after each version; claims are waited for at once."""

    backups: list[Mapping[PartitionValues, Partition]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.sleep = self._skip

    def _skip(self, seconds: float) -> None:
        self.skipped_seconds += max(seconds, 60.0)

    def back_up(self) -> None:
        self.backups.append(dict(self.metastore._partitions[TABLE]))

    def set_back(self, version: int) -> None:
        self.metastore._partitions[TABLE] = dict(self.backups[version])

    @contextmanager
    def dying(self, number: int) -> Iterator[None]:
        """Let the process die after its claim and so many changes more; later calls die, too."""
        claim, left = self.layout.entry_key(self.history().newest + 1), -1

        def called(service: str, call: str, phase: str, key: str = "") -> None:
            nonlocal left
            if left == 0:
                raise DeathError
            is_claim = key == claim and call == "put_if_absent"
            if phase == "after" and (is_claim or (left > 0 and (service, call) in CHANGING)):
                left = number if is_claim else left - 1
                if left == 0:
                    raise DeathError

        self.store.on_call = lambda call, phase, key: called("store", call, phase, key)
        self.metastore.on_call = lambda call, phase: called("metastore", call, phase)
        try:
            yield
        except DeathError:
            pass
        finally:
            self.store.on_call = self.metastore.on_call = None


Act = Callable[[LosingWorld], object]


def write(rows: Rows, mode: WriteMode = WriteMode.OVERWRITE_PARTITIONS, *, in_place: bool = False) -> Act:
    return lambda world: world.write(rows, plan=world.plan(mode, in_place=in_place))


def staged(rows: Rows, mode: WriteMode, *, in_place: bool = False) -> Act:
    def publish(world: LosingWorld) -> None:
        world.stage(rows, plan=world.plan(mode, in_place=in_place))
        world.publish_staged()

    return publish


APPEND: Final = WriteMode.APPEND
OPERATIONS: Final[Mapping[str, Act]] = {
    "overwrite": write(MIXED),
    "append": write(MIXED, APPEND),
    "append to a new partition": write(NEW, APPEND),
    "append in place": write(ONE, APPEND, in_place=True),
    "append in place to several": write(MIXED, APPEND, in_place=True),
    "overwrite of the table": write(ONE, WriteMode.OVERWRITE_TABLE),
    "creation": write(NEW, WriteMode.CREATE_PARTITIONS),
    "compaction": lambda world: world.compact("d1", "d2"),
    "rollback": lambda world: world.keeper.rollback(T, version=1),
    "rollback of files": lambda world: world.keeper.rollback(T, version=2),
    "staged overwrite": staged(MIXED, WriteMode.OVERWRITE_PARTITIONS),
    "staged append in place": staged(MIXED, APPEND, in_place=True),
}
OF_WHOLE_TABLE: Final[Mapping[str, Act]] = {
    "overwrite": write(WHOLE, WriteMode.OVERWRITE_TABLE),
    "append": write(WHOLE, APPEND),
    "append in place": write(WHOLE, APPEND, in_place=True),
    "rollback": lambda world: world.keeper.rollback(T, version=1),
}
LOSSES: Final[Mapping[str, Act]] = {
    "lost": lambda world: world.lose_metastore(),
    "d1 lost": lambda world: world.dropped_by_another_tool("d1"),
    "set back by one version": lambda world: world.set_back(2),
    "set back to version 1": lambda world: world.set_back(1),
    "set back to the beginning": lambda world: world.set_back(0),
    "all lost but d1": lambda world: [world.dropped_by_another_tool(value) for value in ("d2", "d3", "d9")],
}
CALLS: Final = range(9)  # after the claim; whoever needs fewer has published
FAST: Final = (0, 2)
FAST_LOSSES: Final = ("lost", "d1 lost", "set back by one version")


def started() -> LosingWorld:
    """Return a table of three versions, the last an append in place."""
    world = LosingWorld()
    world.back_up()
    for act in (write(FIRST), write(SECOND), write({"d2": frozenset({22})}, APPEND, in_place=True)):
        act(world)
        world.back_up()
    return world


def unpartitioned() -> LosingWorld:
    world = LosingWorld()
    world.become_unpartitioned()
    for ids in ({1, 2}, {3}):
        world.write({"": frozenset(ids)}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    return world


@cache
def rows_of(make: Callable[[], LosingWorld], act: Act) -> tuple[Rows, Rows]:
    """Return the rows before and after."""
    world = make()
    before = world.rows()
    act(world)
    return before, world.rows()


def assert_restored(world: LosingWorld, *allowed: Rows) -> None:
    """Readers see what the log says, all of it and once: a second restore, a write and a vacuum go on from there."""
    assert world.keeper.restore(T).not_there == {}
    rows = world.rows()
    assert rows in allowed
    assert world.history().records.in_doubt == ()
    belongs = {
        "".join(values): current.partition.new_location
        for values, current in world.history().state.current_partitions.items()
        if current.partition.new_location is not None
    }
    assert {value: partition.location for value, partition in world.partitions().items()} == belongs
    again = world.keeper.restore(T)
    assert (again.version, again.partitions, again.notes) == (None, (), ())
    value = min(rows)
    world.write({value: frozenset({7})}, plan=world.plan(APPEND))
    assert world.rows() == {**rows, value: rows[value] | {7}}
    world.wait_out_claims()
    assert world.vacuum().failures == ()
    assert world.leftovers() == []
    assert world.rows() == {**rows, value: rows[value] | {7}}


def cells() -> Iterator[object]:
    for name, loss, number in product(OPERATIONS, LOSSES, CALLS):
        is_fast = loss in FAST_LOSSES and number in FAST
        yield pytest.param(name, loss, number, marks=[] if is_fast else [pytest.mark.slow])


@pytest.mark.parametrize(("name", "loss", "number"), list(cells()))
def test_an_entry_in_doubt_is_carried_out_whole_or_not_at_all(name: str, loss: str, number: int) -> None:
    world = started()
    with world.dying(number):
        OPERATIONS[name](world)
    LOSSES[loss](world)
    assert_restored(world, *rows_of(started, OPERATIONS[name]))


@pytest.mark.parametrize("number", CALLS)
@pytest.mark.parametrize("name", OF_WHOLE_TABLE)
def test_so_it_is_in_an_unpartitioned_table_that_was_made_again(name: str, number: int) -> None:
    world = unpartitioned()
    with world.dying(number):
        OF_WHOLE_TABLE[name](world)
    world.lose_metastore()
    world.metastore.create_table(replace(world.table, location=ROOT, hive_location="", parameters={}))
    assert_restored(world, *rows_of(unpartitioned, OF_WHOLE_TABLE[name]))


@pytest.mark.parametrize("loss", FAST_LOSSES)
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("in_place", [True, False])
def test_of_two_entries_in_doubt_each_is_whole(loss: str, number: int, in_place: bool) -> None:
    world = started()
    for value, row in (("d1", 100), ("d2", 200)):
        with world.dying(number):
            write({value: frozenset({row})}, APPEND, in_place=in_place)(world)
    LOSSES[loss](world)
    assert len(world.history().records.publishes_in_doubt) == 2
    old = {"d1": frozenset({11}), "d2": frozenset({2, 22}), "d3": frozenset({3})}
    assert_restored(world, {**old, "d1": frozenset({11, 100}), "d2": frozenset({2, 22, 200})})


@pytest.mark.parametrize("number", CALLS)
@pytest.mark.parametrize("call", ["restore", "recover"])
@pytest.mark.parametrize("name", ["append in place to several", "overwrite"])
def test_who_resolves_it_may_die_too(name: str, call: str, number: int) -> None:
    """A recovery that has begun while all was there is gone on with."""
    world = started()
    with world.dying(0):
        OPERATIONS[name](world)
    world.wait_out_claims()
    if call == "restore":
        world.lose_metastore()
    with world.dying(number):
        getattr(world.keeper, call)(T)
    world.lose_metastore()
    assert_restored(world, rows_of(started, OPERATIONS[name])[1])


def test_a_restore_carries_out_an_entry_in_doubt_whole() -> None:
    world = started()
    with world.dying(1):
        write(ONE, APPEND, in_place=True)(world)
    world.lose_metastore()
    world.keeper.restore(T)
    assert world.rows() == {"d1": {11, 100}, "d2": {2, 22}, "d3": {3}}


def test_a_publish_whose_outcome_could_not_be_recorded_is_not_forgotten_with_the_metastore() -> None:
    world = started()
    with world.dying(2):  # added and altered: readers have seen it
        write(MIXED)(world)
    assert world.rows()["d1"] == {100}
    world.lose_metastore()
    world.keeper.restore(T)
    assert world.rows() == {**MIXED, "d3": {3}}
    assert world.history().records[3].outcome is Outcome.PUBLISHED


def test_a_restore_puts_back_what_a_backup_has_at_older_rows() -> None:
    world = started()
    write({"d3": frozenset({33})})(world)
    before = world.rows()
    world.set_back(1)
    dry = world.keeper.restore(T, dry_run=True)
    assert dry.notes == ("1 partition to be put back to the newest version: dt=d1",)
    report = world.keeper.restore(T)
    assert [partition.name for partition in report.partitions] == ["dt=d3"]
    assert report.notes == ("2 partitions put back to the newest version: dt=d1, dt=d2",), "d2 has older figures"
    assert world.rows() == before


def test_a_restore_of_named_partitions_leaves_the_others_as_they_are() -> None:
    world = started()
    world.set_back(1)
    world.keeper.restore(T, partitions=["dt=d3"])
    assert world.rows()["d1"] == {1}
