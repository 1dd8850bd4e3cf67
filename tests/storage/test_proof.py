"""The doctor's trials find nothing wrong with the stores that all other tests run on; lying ones: ``tests/outside``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from table_writer.model.location import Location
from table_writer.storage import proof
from table_writer.storage.proof import Probe, require_proven, try_store

if TYPE_CHECKING:
    from tests.storage.conftest import Place


def test_each_store_does_all_that_is_tried_and_nothing_is_left(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "ROUNDS", 2)
    probe = Probe(
        store=place.store,
        directory=f"{place.directory}probe/",
        open_other=lambda: place.store,
        takes_late_parts=place.kind in ("azurite", "local"),
    )
    verdicts = try_store(probe)
    assert [(verdict.name, verdict.answer) for verdict in verdicts] == [(name, "yes") for name in proof.TRIALS], (
        verdicts
    )
    assert probe.left() == []
    assert list(place.store.list_uploads(f"{place.directory}probe/")) == []


def test_a_first_write_tries_a_store_with_two_dozen_requests(place: Place) -> None:
    require_proven(place.store, Location("s3a", "storage-tests", place.directory))
    assert list(place.store.list(place.directory)) == []
    assert sum(place.requests().values()) <= 8 + 7 + 4 + 2 + 5
