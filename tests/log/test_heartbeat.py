"""The sign of life of a process that is at work."""

from __future__ import annotations

import threading

from table_writer.log.registration import Heartbeat
from table_writer.testing.memory_store import MemoryStore


def test_its_own_object_is_put_again_by_a_thread_that_no_process_waits_for() -> None:
    store, again, put = MemoryStore(), threading.Event(), list[str]()

    def called(call: str, phase: str, key: str) -> None:
        if (call, phase) == ("put", "after"):
            put.append(key)
            again.set()

    store.on_call = called
    heartbeat = Heartbeat(store, "k", b"alive", every_seconds=0.001, write_id="w")
    heartbeat.start()
    (thread,) = (one for one in threading.enumerate() if one.name == "heartbeat-w")
    try:
        assert again.wait(10)
    finally:
        heartbeat.stop()
    assert set(put) == {"k"}
    assert thread.daemon
    assert not thread.is_alive()
    stored = store.get("k")
    assert stored is not None
    assert stored.body == b"alive"
