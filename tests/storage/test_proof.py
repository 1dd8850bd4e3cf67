"""The doctor's trials find nothing wrong with the stores that all other tests run on; lying ones: ``tests/outside``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from table_writer import TableWriterConfig
from table_writer.doctor.store import examine_store
from table_writer.model.location import Location
from table_writer.storage import proof
from table_writer.storage.proof import Probe, require_proven, try_store

if TYPE_CHECKING:
    from tests.azurite import AzuriteServer
    from tests.seaweedfs import SeaweedServer
    from tests.storage.conftest import Place

UNFIT = {"moto": {"conditional copy": "no"}}  # moto 5.2.5 passes over a condition on the source


def test_each_store_does_all_that_is_tried_and_nothing_is_left(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "ROUNDS", 2)
    probe = Probe(
        store=place.store,
        directory=f"{place.directory}probe/",
        open_other=lambda: place.store,
        takes_late_parts=place.kind in ("azurite", "local"),
    )
    verdicts = try_store(probe)
    expected = dict.fromkeys(proof.TRIALS, "yes") | UNFIT.get(place.kind, {})
    assert {verdict.name: verdict.answer for verdict in verdicts} == expected, verdicts
    assert probe.remaining_keys() == []
    assert list(place.store.list_uploads(f"{place.directory}probe/")) == []


@pytest.mark.parametrize("kind", ["azurite", "seaweedfs"])  # versitygw: tests/outside
def test_the_doctor_says_yes_to_all_that_it_tries(kind: str, request: pytest.FixtureRequest) -> None:
    server: AzuriteServer | SeaweedServer = request.getfixturevalue(kind)
    report = examine_store(str(server.location("new")), TableWriterConfig(hadoop=server.hadoop_settings()))
    answers = {finding.check: finding.message.partition(":")[0] for finding in report.findings}
    assert answers == dict.fromkeys(proof.TRIALS, "yes")


def test_a_first_write_tries_a_store_with_two_dozen_requests(place: Place) -> None:
    require_proven(place.store, Location("s3a", "storage-tests", place.directory))
    assert list(place.store.list(place.directory)) == []
    puts, gets, listings, deletes = 8 + 4, 8, 3, 5  # at most; only Azure lists thrice, and deletes one by one
    assert sum(place.requests().values()) <= puts + gets + listings + deletes
