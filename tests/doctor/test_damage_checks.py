"""Whatever is damaged below ``_table_writer/``, the doctor says so and how to mend it, and fails by nothing."""

from __future__ import annotations

from typing import Final

import pytest

from table_writer.doctor.examination import examine
from tests.maintenance.damage import Damage, every_damage, state

EXAMINED: Final = ("rolled_back", "staged", "vacuumed", "overwrites")
SILENT: Final = (
    "/data/",  # the check of the partitions' files looks there
    "log/recovered-",  # entries say the same
    "log/rolled-back-",
    "log/trimmed-00000000000000000001",  # a newer mark says more
)


def is_to_be_found(damage: Damage) -> bool:
    """Whether the damage can be told from a table that is well."""
    lost_record = damage.kind == "absent" and any(one in damage.what for one in ("/staged/", "/writes/", "checkpoint"))
    same = damage.kind == "an older copy" or (damage.kind == "another table's" and "/writes/" in damage.what)
    return not lost_record and not same and not any(one in damage.what for one in SILENT)


@pytest.mark.parametrize("name", EXAMINED)
def test_damage_is_a_finding_with_a_way_out(name: str) -> None:
    for damage in (one for one in every_damage() if one.state == name and is_to_be_found(one)):
        world = damage.done()
        world.wait_out_claims()
        findings = [one for one in examine(world.services()) if one.check in {"damage of the log", "owner", "log"}]
        bad = [one for one in findings if one.status in {"error", "warning"}]
        assert bad, f"{damage}: nothing is found"
        assert all(one.advice for one in bad), damage


def test_a_table_that_is_well_has_no_damage() -> None:
    (finding,) = [one for one in examine(state("rolled_back").copied().services()) if one.check == "damage of the log"]
    assert finding.status == "ok"


def test_one_lost_entry_is_reported_once_and_keeps_no_other_check_from_its_turn() -> None:
    lost = next(one for one in every_damage() if "0002.json" in one.what and one.kind == "absent")
    findings = examine(lost.done().services())
    errors = [one for one in findings if one.status == "error"]
    assert [one.check for one in errors] == ["damage of the log"]
    assert "version 2" in errors[0].message
    assert "--accept-loss" in errors[0].advice
    assert {one.check for one in findings} >= {"table properties", "retention", "owner", "partition files"}
