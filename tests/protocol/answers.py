"""What the store and the metastore do with a request when nothing goes wrong."""

from __future__ import annotations

from typing import Any

from table_writer.model.entry import Outcome

from .requests import TOO_LATE, Claim, Delete, ListStale, ReadLog, ReadMetastore, Send, Settle, Upload
from .state import INDEX, World, apply, without


def answer_to_read(request: Any, world: World) -> object:
    if type(request) is ReadLog:
        return world.log
    if type(request) is ReadMetastore:
        return tuple([world.metastore[INDEX[values]] for values in request.partitions])
    if type(request) is ListStale:
        return world.stale & {code.partition("/")[0] for code in world.data}
    return world.data.issuperset(request.codes)


def change_data(request: Upload | Delete, world: World) -> World:
    if isinstance(request, Upload):
        return world._replace(data=world.data.union(request.codes))
    return world._replace(data=without(world.data, request.code))


def claim(request: Claim, world: World) -> tuple[bool, World]:
    if request.version != world.log.newest + 1:
        return False, world
    return True, world._replace(log=world.log.claimed(request.slot))


def settle(request: Settle, world: World) -> tuple[Outcome | str, World]:
    if request.in_time_of and world.log.slots[request.in_time_of - 1].timed_out:
        return TOO_LATE, world
    log = world.log.settled(request.version, request.outcome, request.write_id)
    stands = log.slots[request.version - 1].outcome
    assert stands is not None
    return stands, world._replace(log=log)


def send(request: Send, world: World) -> tuple[str, World]:
    if request.in_time_of and world.log.slots[request.in_time_of - 1].timed_out:
        return TOO_LATE, world
    answer, metastore = apply(request.call, world.metastore)
    return answer, world._replace(metastore=metastore)


def a_day_later(world: World) -> World:
    """Every claim is over, no server applies a call that old, and outcomes so far are past their retention."""
    stale = frozenset(code.partition("/")[0] for code in world.data if not code.startswith("dt="))
    return world._replace(log=world.log.a_day_later(), stale=stale, late=())
