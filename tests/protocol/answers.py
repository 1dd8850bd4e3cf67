"""What the store and the metastore do with a request when nothing goes wrong."""

from __future__ import annotations

from typing import Any

from table_writer.model.entry import Outcome

from .requests import (
    OK,
    TOO_LATE,
    Claim,
    Copy,
    CopyRows,
    Delete,
    DeleteRows,
    GiveTurnBack,
    HasData,
    ListFiles,
    ListStale,
    ListTurns,
    ReadLog,
    ReadMetastore,
    ReadRegistration,
    RemoveRegistration,
    RemoveTurns,
    Send,
    Settle,
    TakeTurn,
    Upload,
)
from .state import CHANGED, INDEX, Turn, World, apply, rows_of, with_rows, without


def answer_to_read(request: Any, world: World) -> object:
    if type(request) is ReadLog:
        return world.log
    if type(request) is ReadMetastore:
        return tuple([world.metastore[INDEX[values]] for values in request.partitions])
    if type(request) is ListStale:
        return world.stale & {code.partition("/")[0] for code in world.data}, world.staged - world.stale
    if type(request) is ListFiles:
        return tuple([rows_of(world, code) for code in request.codes])
    return world.data.issuperset(request.codes) if type(request) is HasData else answer_of_staged(request, world)


def answer_of_staged(request: Any, world: World) -> object:
    if type(request) is ReadRegistration:
        return request.write_id in world.staged
    if type(request) is ListTurns:
        return tuple([turn.number for turn in world.turns])
    return next((turn.is_held for turn in world.turns if turn.number == request.number), None)


def is_late(world: World, turn: int) -> bool:
    """Whether a turn is over, and its holder sends nothing any more."""
    return bool(turn) and not any(one.number == turn and one.is_held for one in world.turns)


def change_staged(request: Any, world: World) -> tuple[object, World]:
    """Change what belongs to a staged write."""
    if isinstance(request, RemoveRegistration):
        return OK, world._replace(staged=world.staged - {request.write_id})
    if isinstance(request, DeleteRows | CopyRows):
        if is_late(world, request.turn):
            return TOO_LATE, world
        return delete_rows(request, world) if isinstance(request, DeleteRows) else copy_rows(request, world)
    return change_turns(request, world)


def change_turns(request: TakeTurn | GiveTurnBack | RemoveTurns, world: World) -> tuple[object, World]:
    turns = world.turns
    if isinstance(request, GiveTurnBack):
        return OK, world._replace(turns=over(turns, request.number))
    if isinstance(request, RemoveTurns):
        return OK, world._replace(turns=tuple(turn for turn in turns if turn.number > request.number))
    if any(turn.number == request.number for turn in turns):
        return False, world
    return True, world._replace(turns=tuple(sorted((*turns, Turn(request.number, request.by, is_held=True)))))


def over(turns: tuple[Turn, ...], number: int) -> tuple[Turn, ...]:
    """Return the turns once nobody takes one of them for held any more."""
    return tuple(turn._replace(is_held=False) if turn.number == number else turn for turn in turns)


def delete_rows(request: DeleteRows, world: World) -> tuple[str, World]:
    for code, rows in request.rows:
        world = with_rows(world, code, {*rows_of(world, code)} - {*rows})
    return OK, world


def copy_rows(request: CopyRows, world: World) -> tuple[str, World]:
    answer = OK
    for target, source, rows in request.copies:
        if source in world.data:
            world = with_rows(world, target, {*rows_of(world, target), *rows})
        else:
            answer = CHANGED
    return answer, world


def change_data(request: Upload | Delete, world: World) -> World:
    if isinstance(request, Upload):
        return world._replace(data=world.data.union(request.codes))
    left = without(world.data, request.code)
    rows = tuple([found for found in world.rows if found[0] in left])
    return world._replace(data=left, rows=rows, staged=world.staged - {request.code})


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


def claim(request: Claim, world: World) -> tuple[bool | str, World]:
    if is_late(world, request.turn):
        return TOO_LATE, world
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
