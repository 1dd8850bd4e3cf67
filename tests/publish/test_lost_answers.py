"""Lost answers and failures of a write over the doubles; the whole matrix is in ``tests/maintenance``."""

from __future__ import annotations

import pytest

from table_writer.errors import LostResponseError, OutcomeUnknownError
from tests.maintenance.operations import ADDED, MIXED, OLD, REPLACED, write
from tests.publish.world import Fault, fail, written

SHAPES = {"adds": ADDED, "replaces": REPLACED, "mixes": MIXED}


@pytest.mark.parametrize("late", [False, True], ids=["never applied", "applied late"])
@pytest.mark.parametrize("shape", SHAPES)
def test_an_answer_that_never_comes_is_an_unknown_outcome_that_the_next_write_resolves(shape: str, late: bool) -> None:
    world = written(OLD)
    call = "add_partitions" if shape == "adds" else "alter_partitions"
    request = Fault("metastore", call, 1, "before", LostResponseError)
    with world.inject(request, keep_call=late), pytest.raises(OutcomeUnknownError, match="recover"):
        world.write(SHAPES[shape])
    assert world.rows() == OLD
    assert len(world.services().log.lister.read().in_doubt) == 1
    world.apply_kept_call()
    world.wait_out_claims()
    write(SHAPES[shape])(world)
    assert world.rows() == {**OLD, **SHAPES[shape]}
    assert world.keeper.recover(str(world.name)).put_right == ()


def test_a_lost_answer_is_an_unknown_outcome_also_where_the_entry_is_lost() -> None:
    world = written(OLD)

    def lose() -> None:
        world.store.delete([world.layout.entry_key(2)])
        raise LostResponseError("no answer")

    world.at_metastore("alter_partitions", "before", lose)
    with pytest.raises(OutcomeUnknownError, match="recover"):
        world.write(REPLACED)


@pytest.mark.parametrize("kind", [Exception, KeyboardInterrupt])
def test_a_failure_before_the_claim_leaves_nothing_of_the_write(kind: type[BaseException]) -> None:
    world = written(OLD)
    before = {info.key for info in world.store.list("")}
    with pytest.raises(kind):
        world.write(SHAPES["mixes"], before_publish=lambda: fail(kind("between complete and publish")))
    assert {info.key for info in world.store.list("")} == before
    assert list(world.store.list_uploads("mart/orders/")) == []
