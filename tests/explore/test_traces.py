"""A recorded trace tells apart: nothing has changed, only reads have, or something that others notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from table_writer.protocol.log.listing import Listing
from table_writer.protocol.operations.publisher import _Publish

from .run import carried_out
from .schedule import Schedule
from .traces import Anchor, Trace, compare, compared, record

PAUSED = "append, overwrite: 0@40>>1 1@29!late"
"""An append is paused before its claim; the switch of the overwrite arrives later."""


def trace() -> Trace:
    return Trace.of(carried_out(Schedule.parse(PAUSED), set()))


def with_more(monkeypatch: pytest.MonkeyPatch, call: Callable[[_Publish], object]) -> None:
    """Let each publish make one call more before it looks."""
    waited = _Publish.waits

    def waits(self: _Publish, view: Listing) -> bool:
        is_over = waited(self, view)
        call(self)
        return is_over

    monkeypatch.setattr(_Publish, "waits", waits)


def test_what_has_not_changed_is_the_same(tmp_path: Path) -> None:
    before = trace()
    assert len(before.anchors) == 2
    assert 0 < len(before.changes) < len(before.calls)
    assert Trace.parse(before.as_line()) == before
    assert compared(before) == ("same", "")
    count = record(tmp_path / "traces.gz", [("", ("append", "recover"), 4), ("root", ("append", "overwrite"), 2)])
    assert count >= 4
    assert compare(tmp_path / "traces.gz", 0) == {"same": count}


def test_a_read_more_moves_no_deviation(monkeypatch: pytest.MonkeyPatch) -> None:
    before = trace()
    with_more(monkeypatch, lambda publisher: publisher.opened.store.get("nothing"))
    found, text = compared(before)
    assert found == "reads differ"
    assert "store.get nothing" in text
    now = Trace.of(carried_out(Schedule.parse(PAUSED), set()))
    assert now.anchors != before.anchors  # the same numbers are other calls


def test_a_change_more_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    before = trace()
    with_more(monkeypatch, lambda publisher: publisher.opened.store.put("nothing", b""))
    found, text = compared(before)
    assert found == "changes"
    assert PAUSED in text
    assert "+0 before store.put" in text


def test_a_call_that_is_not_made_any_more_is_lost() -> None:
    before = replace(trace(), calls=(), anchors=(Anchor("0 before store.put nowhere", 0),) * 2)
    assert compared(before).found == "lost"
