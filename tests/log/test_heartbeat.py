"""The sign of life of a process that is at work."""

from __future__ import annotations

import threading

from table_writer.log.registration import Registration
from tests.doubles.memory_store import MemoryStore
from tests.publish.world import World


def test_its_own_object_is_put_again_by_a_thread_that_no_process_waits_for() -> None:
    store, again, put = MemoryStore(), threading.Event(), list[str]()

    def called(call: str, phase: str, key: str) -> None:
        if (call, phase) == ("put", "after"):
            put.append(key)
            if len(put) > 1:
                again.set()

    plan = World().plan()
    key = plan.layout.registration_key(plan.write_id)
    store.on_call = called
    with Registration(store, plan, {"host": "here"}, heartbeat_seconds=0.001):
        (thread,) = (one for one in threading.enumerate() if one.name == f"heartbeat-{plan.write_id}")
        first = store.get(key)
        assert again.wait(10)
        stored = store.get(key)
    assert set(put) == {key}
    assert thread.daemon
    assert not thread.is_alive()
    assert stored is not None
    assert first is not None
    assert stored.body == first.body
    assert store.get(key) is None
