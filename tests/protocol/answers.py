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
    HasData,
    ListFiles,
    ListStale,
    PutRegistration,
    ReadLog,
    ReadMetastore,
    Rebuild,
    RecordOutcome,
    RemoveRegistration,
    Send,
    Upload,
    Verify,
)
from .state import CHANGED, INDEX, World, apply, root_of, rows_of, with_rows, without


def answer_to_read(request: Any, world: World) -> object:
    if type(request) is ReadLog:
        return world.log
    if type(request) is ReadMetastore:
        return tuple([world.metastore[INDEX[values]] for values in request.partitions])
    if type(request) is ListStale:
        return world.stale & {code.partition("/")[0] for code in world.data}, world.staged - world.stale
    if type(request) is ListFiles:
        return tuple([rows_of(world, code) for code in request.codes])
    return world.data.issuperset(request.codes) if type(request) is HasData else request.write_id in world.staged


def change(request: Any, world: World) -> tuple[str, World]:
    """Change what lies in the store, but for the log."""
    if isinstance(request, Copy):
        return copy(request, world)
    if isinstance(request, Upload):
        world = world._replace(data=world.data.union(request.codes))
        for code, rows in request.files:
            world = with_rows(world, code, rows)
        return OK, world
    if isinstance(request, Delete):
        return OK, delete(request, world)
    if isinstance(request, Rebuild):
        return OK, world._replace(log=world.log.rebuilt(*request))
    if isinstance(request, Verify):
        return OK, world._replace(log=world.log.verified(request.versions))
    return OK, change_registration(request, world)


def change_registration(request: RemoveRegistration | PutRegistration, world: World) -> World:
    """Put or remove one; where the sign of life and the record have one key, the last put wins."""
    write_id = request.write_id
    if isinstance(request, PutRegistration) and request.is_staged:
        return world._replace(staged=world.staged | {write_id})
    if isinstance(request, PutRegistration) and (request.key != staged_key(write_id) or write_id not in world.staged):
        return world
    return world._replace(staged=world.staged - {write_id}, awake=world.awake - {write_id})


def staged_key(write_id: str) -> str:
    return f"staged/{write_id}"


def copy(request: Copy, world: World) -> tuple[str, World]:
    """Copy files: those of one source at once, for nobody looks at the copies yet. A source may be gone by now."""
    if request.in_time_of and world.log.slots[request.in_time_of - 1].timed_out:
        return TOO_LATE, world
    answer = OK
    for target, source, rows in request.copies:
        if {*rows} - {*rows_of(world, source)}:
            answer = CHANGED
        else:
            world = with_rows(world, target, {*rows_of(world, target), *rows})
    return answer, world


def delete(request: Delete, world: World) -> World:
    for code in request.codes:
        if request.rows:
            world = with_rows(world, code, {*rows_of(world, code)} - {*request.rows})
            continue
        left = without(world.data, code)
        rows = tuple([found for found in world.rows if found[0] in left])
        world = world._replace(data=left, rows=rows, staged=world.staged - {code})
    return world


def claim(request: Claim, world: World) -> tuple[bool, World]:
    """Put an entry where none is: an outcome without an entry does not keep anybody from doing so."""
    log = world.log
    if request.version != log.newest + 1 and not log.slots[request.version - 1].gone:
        return False, world
    return True, world._replace(log=log.claimed(request.version, request.slot))


def record_outcome(request: RecordOutcome, world: World) -> tuple[Outcome | str, World]:
    if request.in_time_of and world.log.slots[request.in_time_of - 1].timed_out:
        return TOO_LATE, world
    log = world.log.with_outcome(request.version, request.outcome, request.write_id, request.superseded)
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
    theirs = ("dt=", "@")
    stale = {code.partition("/")[0] for code in world.data if not code.startswith(theirs)}
    return world._replace(
        log=world.log.a_day_later(),
        stale=frozenset(code for code in stale if root_of(code) not in world.awake),
        late=(),
        late_store=(),
    )
