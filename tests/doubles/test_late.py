"""Requests that come late: what the doubles keep, and when it takes effect."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from table_writer.errors import LostResponseError, StorageError
from table_writer.model.table import Partition
from table_writer.testing.late import Late
from tests.publish.world import World


def once(error: BaseException | None) -> Callable[..., None]:
    """Return a hook that makes the first call late, and lets all others pass."""
    late = [Late(error)]

    def hook(*_: str) -> None:
        if late:
            raise late.pop()

    return hook


def test_a_call_that_its_client_gives_up_takes_effect_when_it_is_applied() -> None:
    world = World()
    table = world.table
    world.metastore.on_call = once(LostResponseError("no answer"))
    with pytest.raises(LostResponseError):
        world.metastore.add_partitions(table, [Partition(values=("d1",), location=f"{world.root}d1/")])
    assert not world.partitions()
    world.metastore.pending.pop()()
    assert world.partitions().keys() == {"d1"}


def test_a_request_that_is_sent_again_takes_effect_twice() -> None:
    world = World()
    world.store.on_call = once(None)
    world.store.put("key", b"old")
    world.store.put("key", b"new")
    world.store.pending.pop()()
    stored = world.store.get("key")
    assert stored is not None
    assert stored.body == b"old"


def test_applying_a_late_request_runs_no_hook() -> None:
    world = World()
    world.store.on_call = once(StorageError("no answer"))
    with pytest.raises(StorageError):
        world.store.delete(["key"])
    calls: list[str] = []
    world.store.on_call = lambda call, *_: calls.append(call)
    world.store.pending.pop()()
    assert calls == []
