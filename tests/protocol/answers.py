"""What the store and the metastore do with a request when nothing goes wrong."""

from __future__ import annotations

from typing import Any

from table_writer.model.entry import Outcome

from .requests import (
    OK,
    TOO_LATE,
    Claim,
    Copy,
    Delete,
    ListFiles,
    ListStale,
    ReadLog,
    ReadMetastore,
    Send,
    Settle,
    Upload,
)
from .state import CHANGED, INDEX, World, apply, rows_of, without


def answer_to_read(request: Any, world: World) -> object:
    if type(request) is ReadLog:
        return world.log
    if type(request) is ReadMetastore:
        return tuple([world.metastore[INDEX[values]] for values in request.partitions])
    if type(request) is ListStale:
        return world.stale & {code.partition("/")[0] for code in world.data}
    if type(request) is ListFiles:
        return tuple([rows_of(world, code) for code in request.codes])
    return world.data.issuperset(request.codes)


def change_data(request: Upload | Delete, world: World) -> World:
    if isinstance(request, Upload):
        return world._replace(data=world.data.union(request.codes))
    left = without(world.data, request.code)
    return world._replace(data=left, rows=tuple([found for found in world.rows if found[0] in left]))


def copy(request: Copy, world: World) -> tuple[str, World]:
    """Copy files: those of one source at once, for nobody looks at the copies yet. A source may be gone by now."""
    answer, rows, data = OK, dict(world.rows), set(world.data)
    for values in request.partitions:
        target = f"{request.write_id}/{values}"
        own = (target,) if target in rows_of(world, target) else ()
        brought: tuple[str, ...] = ()
        for source in request.wanted:
            if source[0] == values and (source in request.copied or source[1] in world.data):
                brought += source[2]
            elif source[0] == values:
                answer = CHANGED
        rows[target] = tuple(sorted(own + brought))
        if own == (target,) and not brought:
            del rows[target]
        elif rows[target]:
            data.add(target)
    return answer, world._replace(rows=tuple(sorted(rows.items())), data=frozenset(data))


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
    stale = frozenset(code.partition("/")[0] for code in world.data if not code.startswith("dt=")) - world.awake
    return world._replace(log=world.log.a_day_later(), stale=stale, late=())
