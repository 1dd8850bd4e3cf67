"""Every object below ``_table_writer/`` lost, cut off, set back or another table's, and every call after that.

Each cell ends right or in a refusal that names an object or a way out; the way out is taken, and leads on. Readers lose
no row that was acknowledged, but those of a data file that was itself damaged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import pytest

from table_writer.errors import ConflictError, InvalidInputError, MetastoreError, StorageError, TableWriterError
from table_writer.jobs.running_write import Claiming
from table_writer.model.write_mode import WriteMode
from tests.maintenance.damage import OTHER_ROWS, STATES, WEEKS_SECONDS, Damage, Damaged, every_damage, state
from tests.publish.world import publisher_of

pytestmark = pytest.mark.usefixtures("in_one_thread")

REFUSALS: Final = (InvalidInputError, StorageError, ConflictError, MetastoreError)
NAMES_SOMETHING: Final = re.compile(
    r"_table_writer/|table-writer |log entry [0-9]|run it again|Run it again|overwrite_p|discard it"
    r"|has no version|ame the partitions"
)
DAMAGED: Final = re.compile(
    r"(?:dt=(?P<value>\w+)|) of mart\.orders is damaged|(?P<whole>mart\.orders) of .* is damaged"
)
UNREADABLE: Final = re.compile(r"(?:the outcome at |Put )(?P<key>\S+_table_writer/log/[0-9]+\.(?:json|done))")
MOST_WAYS_OUT: Final = 4
FAST_SHARE: Final = 32  # one call after each damage in turn; the slow test makes all of them


@dataclass
class Table:
    """A table, and what readers may see of each partition: several answers while an entry is in doubt."""

    world: Damaged
    rows: dict[str, set[frozenset[int]]] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    made: int = 0

    def __post_init__(self) -> None:
        self.rows = {value: {ids} for value, ids in self.world.acknowledged.items()}
        for value, ids in self.world.possible.items():
            self.rows[value].add(ids)

    @property
    def name(self) -> str:
        return str(self.world.name)

    @property
    def first(self) -> str:
        return "" if "" in self.rows else "d1"

    def new(self) -> frozenset[int]:
        """Rows that nobody has."""
        self.made += 1
        return frozenset({1_000 + self.made})

    def replaced(self, value: str, ids: frozenset[int]) -> None:
        self.rows[value] = {ids}

    def added(self, value: str, ids: frozenset[int]) -> None:
        self.rows[value] = {one | ids for one in self.rows.get(value, {frozenset[int]()})}

    def check(self) -> None:
        """Compare with what readers see."""
        seen = self.world.seen()
        for value, allowed in self.rows.items():
            there = frozenset(one for one in seen.get(value, ()) if one < OTHER_ROWS)
            assert any(one - self.world.void <= there <= one for one in allowed), (
                f"readers of {value} see {sorted(there)} instead of {[sorted(one) for one in allowed]}"
            )
        assert seen.keys() - {""} <= self.rows.keys() | {""}, "partitions from nowhere"

    def run(self, call: Callable[[Table], object]) -> bool:
        """Make a call, take the ways out that its refusals name, and look at the rows after each step."""
        for _ in range(MOST_WAYS_OUT):
            try:
                call(self)
            except REFUSALS as refusal:
                text = str(refusal)
                assert NAMES_SOMETHING.search(text), f"a refusal that names no way out: {text}"
                self.refusals.append(text)
                self.check()
                if not self.take_way_out(text):
                    return False
                self.check()
            else:
                self.check()
                return True
        pytest.fail(f"no way out leads on: {self.refusals}")

    def take_way_out(self, text: str) -> bool:
        keeper, store, layout = self.world.keeper, self.world.store, self.world.layout
        unreadable = UNREADABLE.search(text) if "elete it, and run" in text else None
        if unreadable:
            store.delete([unreadable["key"].removeprefix("s3a://lake/")])
        if "forget the table's history" in text:
            log = [found.key for found in store.list(layout.log_prefix)]
            store.delete([layout.owner_key, layout.checkpoint_key, *log])
            keeper.adopt(self.name, accept_loss=True)
        elif "adopt mart.orders --accept-loss" in text:
            keeper.adopt(self.name, accept_loss=True)
        elif unreadable or "--accept-loss" in text:
            keeper.recover(self.name, accept_loss="--accept-loss" in text)
        elif "table-writer adopt" in text:
            keeper.adopt(self.name)
        elif "replace the partition" in text:
            named = DAMAGED.search(text)
            value = (named and named["value"]) or ""
            whole = max(self.rows[value], key=len)
            mode = WriteMode.OVERWRITE_PARTITIONS if value else WriteMode.OVERWRITE_TABLE
            self.world.write({value: whole}, plan=self.world.plan(mode))
            self.replaced(value, whole)
        else:
            return False
        return True


def append(table: Table) -> None:
    append_to(table, table.first)


def append_elsewhere(table: Table) -> None:
    append_to(table, "d2" if table.first else "")


def append_to(table: Table, value: str) -> None:
    ids, before = table.new(), table.rows.get(value, set())
    table.world.write({value: ids}, plan=table.world.plan(WriteMode.APPEND))
    table.added(value, ids)
    whole = not before or any(one <= table.world.seen()[value] for one in before)
    assert whole or not any(table.world.shrunk & one for one in before), "the loss of a file was made permanent"


def overwrite_another(table: Table) -> None:
    value, ids = ("d2" if table.first else ""), table.new()
    mode = WriteMode.OVERWRITE_PARTITIONS if table.first else WriteMode.OVERWRITE_TABLE
    table.world.write({value: ids}, plan=table.world.plan(mode))
    table.replaced(value, ids)


def recover(table: Table) -> None:
    table.world.keeper.recover(table.name)


def rollback(table: Table) -> None:
    known = sorted(table.world.after)
    report = table.world.keeper.rollback(table.name, version=known[-2])
    if report.version is not None:
        before = table.world.after[known[-2]]
        table.rows = {value: {before.get(value, frozenset())} for value in table.rows.keys() | before.keys()}


def vacuum_in_time(table: Table) -> None:
    table.world.skipped_seconds += WEEKS_SECONDS
    table.world.keeper.vacuum(table.name)


def vacuum_at_once(table: Table) -> None:
    table.world.vacuum()


def publish_staged(table: Table) -> None:
    if not table.world.staged_ids:
        return append(table)
    table.world.publish_staged()
    ids = table.world.of(10)
    added = state_name(table) == "staged"
    return table.added("d1", ids) if added else table.replaced("d1", ids)


def state_name(table: Table) -> str:
    return next(name for name in STATES if state(name).staged_ids == table.world.staged_ids)


def discard_staged(table: Table) -> None:
    if table.world.staged_ids:
        table.world.keeper.discard(table.name, table.world.staged_ids[-1])
    else:
        overwrite_another(table)


def restore(table: Table) -> None:
    table.world.keeper.restore(table.name)


def publish_planned(table: Table) -> None:
    """What a write does that was planned and uploaded before the damage."""
    assert table.world.planned is not None
    plan, staged = table.world.planned
    services = table.world.services()
    services.log.expect(plan.log_id)
    with Claiming(services, plan) as claiming:
        publisher_of(services).publish(staged, claiming)
    table.replaced(table.first, table.world.of(30))


def publish_stale(table: Table) -> None:
    """What a write does that was planned before newer ones: it must not replace their rows."""
    assert table.world.early is not None
    plan, staged = table.world.early
    services = table.world.services()
    services.log.expect(plan.log_id)
    with Claiming(services, plan) as claiming:
        try:
            publisher_of(services).publish(staged, claiming)
        except ConflictError:
            return
    seen = {rows.get(table.first) for rows in table.world.after.values()}
    assert len(seen) == 1, "newer rows were replaced without a conflict"
    table.replaced(table.first, table.world.of(40))


CALLS: Final[Mapping[str, Callable[[Table], object]]] = {
    one.__name__: one
    for one in (
        append,
        overwrite_another,
        recover,
        rollback,
        vacuum_in_time,
        vacuum_at_once,
        publish_staged,
        discard_staged,
        restore,
        publish_planned,
        publish_stale,
        append_elsewhere,
    )
}
LATER: Final = (recover, append_elsewhere, vacuum_in_time, append)


def ends_well(damage: Damage, call: Callable[[Table], object]) -> str:
    """Return how one cell ends: right, refused with a way out that leads on, or refused."""
    table = Table(damage.done())
    table.world.wait_out_claims()
    went = table.run(call)
    ended = ("right" if not table.refusals else "way out") if went else "refused"
    for later in LATER:
        assert table.run(later), f"{later.__name__} is refused for good: {table.refusals[-1]}"
    return ended


def cells(damages: list[Damage]) -> Iterator[tuple[Damage, str]]:
    for damage in damages:
        for call in CALLS:
            yield damage, call


def failures(chosen: list[tuple[Damage, str]]) -> tuple[list[str], Counter[tuple[str, str]]]:
    """Run cells; a whole row of them at once, since each takes milliseconds."""
    wrong: list[str] = []
    ended: Counter[tuple[str, str]] = Counter()
    for damage, call in chosen:
        try:
            ended[damage.kind, ends_well(damage, CALLS[call])] += 1
        except (AssertionError, pytest.fail.Exception, TableWriterError) as error:
            wrong.append(f"{damage}, {call}: {type(error).__name__} {error}")
    return wrong, ended


@pytest.mark.parametrize("name", STATES)
def test_a_damaged_object_loses_no_row_that_was_acknowledged(name: str) -> None:
    every = list(cells([one for one in every_damage() if one.state == name]))
    wrong, _ = failures(
        [cell for place, cell in enumerate(every) if place % FAST_SHARE == place // len(CALLS) % FAST_SHARE]
    )
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.slow
@pytest.mark.parametrize("name", STATES)
def test_a_damaged_object_loses_no_row_whatever_is_called_then(name: str) -> None:
    wrong, _ = failures(list(cells([one for one in every_damage() if one.state == name])))
    assert not wrong, f"{len(wrong)}: " + "\n".join(wrong[:20])
