"""A claim has its time from before it is sent: whoever has claimed changes nothing after it, whatever was claimed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import pytest

from table_writer.errors import MetastoreError, OutcomeUnknownError, StorageError
from table_writer.protocol.log.deadline import Deadline
from table_writer.protocol.table import open_table
from tests.fuzz.history import CHANGING
from tests.maintenance.operations import OLD, REPLACED
from tests.publish.world import DIED, World, fail, written


def _dying(world: World) -> None:
    world.fails(DIED, lambda: world.write(REPLACED))
    world.wait_out_claims()


def _replacing(world: World) -> None:
    world.write(REPLACED)


CALLS: Final[dict[str, tuple[Callable[[World], None], Callable[[World], object]]]] = {
    "write": (lambda _: None, lambda world: world.write(REPLACED)),
    "rollback": (_replacing, lambda world: world.keeper.rollback(str(world.name), version=1)),
    "restore": (lambda world: world.dropped_by_another_tool("d1"), lambda world: world.keeper.restore(str(world.name))),
    "recover": (_dying, lambda world: world.keeper.recover(str(world.name))),
}


@pytest.mark.parametrize("name", CALLS)
def test_whoever_was_paused_after_the_claim_changes_nothing_any_more(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, call = CALLS[name]
    world, now, sent = written(OLD), [0.0], list[str]()
    prepare(world)
    before = world.partitions()
    monkeypatch.setattr(open_table, "Deadline", partial(Deadline, clock=lambda: now[0]))

    def paused() -> None:
        now[0] += 100_000

    def noted(called: str, phase: str) -> None:
        if called in CHANGING and phase == "before":
            sent.append(called)

    world.at_store("put_if_absent", "after", paused, ".json")
    world.metastore.on_call = noted
    with pytest.raises((MetastoreError, OutcomeUnknownError), match="not enough"):
        call(world)
    assert now[0] > 0
    assert world.partitions() == before
    assert sent == []


def test_a_call_that_is_stopped_while_it_claims_says_what_may_have_become_of_it() -> None:
    world = written(OLD)
    world.at_store("put_if_absent", "after", lambda: fail(KeyboardInterrupt()), ".json")
    with pytest.raises(KeyboardInterrupt) as stopped:
        world.write(REPLACED)
    notes = getattr(stopped.value, "__notes__", [])
    assert ["it is not known whether write" in note and "table-writer recover" in note for note in notes] == [True]


def test_of_a_vacuum_without_an_answer_nothing_is_said_that_would_be_untrue() -> None:
    world = written(OLD)
    world.write(REPLACED)
    world.at_store("put_if_absent", "before", lambda: fail(StorageError("the bucket is gone")), ".json")
    with pytest.raises(StorageError, match="the bucket is gone") as failed:
        world.vacuum()
    assert type(failed.value) is StorageError
