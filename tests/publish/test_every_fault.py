"""The crash matrix over the doubles, generated from the calls that a write really makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import pytest

from table_writer.errors import ConflictError, LostResponseError, OutcomeUnknownError, TableWriterError
from table_writer.model.entry import Outcome

from .world import DeathError, Fault, World

OLD = {"d1": frozenset({1, 2}), "d2": frozenset({3})}
SHAPES: dict[str, dict[str, frozenset[int]]] = {
    "adds": {"d8": frozenset({8}), "d9": frozenset({9})},
    "replaces": {"d1": frozenset({10}), "d2": frozenset({30, 31})},
    "mixes": {"d1": frozenset({10}), "d9": frozenset({9})},
}
KINDS: tuple[type[BaseException], ...] = (Exception, KeyboardInterrupt, DeathError)


def started(first: str) -> World:
    world = World()
    if first == "ours":
        world.write(OLD)
    else:
        for value, ids in OLD.items():
            world.written_by_another_tool(value, ids)
    return world


def calls_of(shape: str, first: str) -> list[tuple[str, str]]:
    world = started(first)
    with world.recording() as calls:
        world.write(SHAPES[shape])
    return calls


def every_fault() -> Iterator[tuple[str, str, Fault]]:
    for first in ("ours", "another tool's"):
        for shape in SHAPES:
            seen: Counter[tuple[str, str]] = Counter()
            for service, call in calls_of(shape, first):
                seen[service, call] += 1
                for phase in ("before", "after"):
                    for kind in KINDS:
                        yield first, shape, Fault(service, call, seen[service, call], phase, kind)


@pytest.mark.parametrize(("first", "shape", "fault"), list(every_fault()), ids=str)
def test_readers_see_all_old_or_all_new_rows_and_a_second_run_succeeds(first: str, shape: str, fault: Fault) -> None:
    world = started(first)
    new = {**OLD, **SHAPES[shape]}
    raised: BaseException | None = None
    with world.inject(fault):
        try:
            world.write(SHAPES[shape])
        except (TableWriterError, KeyboardInterrupt, DeathError) as error:
            raised = error
    seen = world.rows()
    assert seen in (OLD, new)
    if raised is None:
        assert seen == new
    if isinstance(raised, TableWriterError) and not isinstance(raised, OutcomeUnknownError):
        assert seen == OLD, "an error that promises that nothing is visible"
        assert not world.services().log.read_state(listed_after=0).in_doubt, "nor may it become visible later"
    world.wait_out_claims()
    run_again(world, SHAPES[shape])
    assert world.rows() == new
    state = world.services().log.read_state(listed_after=0)
    assert not state.in_doubt
    assert_published_entries_lead_to(world)


def run_again(world: World, rows: dict[str, frozenset[int]]) -> None:
    """Run the write again; a first conflict with what the dead writer left in doubt is an answer too."""
    with suppress(ConflictError):
        world.write(rows)
        return
    world.write(rows)


def assert_published_entries_lead_to(world: World) -> None:
    """Every partition of ours is where the newest published entry that names it says."""
    log = world.services().log
    newest: dict[str, str] = {}
    for version in range(1, log.read_state(listed_after=0).newest + 1):
        record = log.read(version)
        if record.outcome is Outcome.PUBLISHED:
            newest |= {partition.values[0]: partition.new_location for partition in record.entry.partitions}
    for value, location in newest.items():
        assert world.partitions()[value].location == location


@pytest.mark.parametrize("late", [False, True], ids=["never applied", "applied late"])
@pytest.mark.parametrize("shape", SHAPES)
def test_an_answer_that_never_comes_is_an_unknown_outcome_that_the_next_write_settles(shape: str, late: bool) -> None:
    world = started("ours")
    call = "add_partitions" if shape == "adds" else "alter_partitions"
    request = Fault("metastore", call, 1, "before", LostResponseError)
    with world.inject(request, keep_call=late), pytest.raises(OutcomeUnknownError, match="recover"):
        world.write(SHAPES[shape])
    assert world.rows() == OLD
    assert len(world.services().log.read_state().in_doubt) == 1
    world.apply_kept_call()
    world.wait_out_claims()
    run_again(world, SHAPES[shape])
    assert world.rows() == {**OLD, **SHAPES[shape]}
    assert_published_entries_lead_to(world)


@pytest.mark.parametrize("kind", [Exception, KeyboardInterrupt])
def test_a_failure_before_the_claim_leaves_nothing_of_the_write(kind: type[BaseException]) -> None:
    world = started("ours")
    before = {info.key for info in world.store.list("")}

    def fail() -> None:
        raise kind("between complete and publish")

    with pytest.raises(kind):
        world.write(SHAPES["mixes"], before_publish=fail)
    assert {info.key for info in world.store.list("")} == before
    assert list(world.store.list_uploads("mart/orders/")) == []


def test_the_matrix_holds_every_call_of_a_write() -> None:
    called = {call for first in ("ours", "x") for shape in SHAPES for call in calls_of(shape, first)}
    injected = {(fault.service, fault.call) for _, _, fault in every_fault()}
    assert injected == called
    assert {("metastore", "add_partitions"), ("metastore", "alter_partitions"), ("store", "put_if_absent")} <= called
