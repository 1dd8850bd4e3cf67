"""Checks of partitions: late calls, and traces of other tools."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from table_writer.doctor import table as partitions
from table_writer.model.location import Location
from table_writer.protocol.operations.rollback import roll_back
from tests.doctor.conftest import of_check, status_of
from tests.publish.world import ROOT, TABLE, World


def location(world: World, value: str) -> str:
    return world.partitions()[value].location


def key(world: World, value: str) -> str:
    """The one file of a partition."""
    (found,) = world.store.list(Location.parse(location(world, value)).key)
    return found.key


def point(world: World, value: str, where: str) -> None:
    world.metastore.put_partition(TABLE, replace(world.partitions()[value], location=where))


def test_a_late_call_is_an_error_that_recover_puts_right(world: World) -> None:
    older = location(world, "1")
    world.write({"1": frozenset({5})})
    assert status_of(world.services(), "partition locations") == "ok"
    point(world, "1", older)
    (finding,) = of_check(world.services(), "partition locations")
    assert finding.status == "error"
    assert finding.message.endswith(": dt=1")
    assert finding.advice == "table-writer recover mart.orders"


def test_a_publish_between_two_looks_is_no_finding(world: World) -> None:
    written: list[int] = []

    def publish_meanwhile(call: str, phase: str) -> None:
        if (call, phase) == ("get_partition_names", "before") and len(written) < 2:
            written.append(1)
            if len(written) == 2:  # after the doctor has read the log; the first one is the estimate of the switch
                world.metastore.on_call = None
                world.write({"1": frozenset({7})})

    services = world.services()
    world.metastore.on_call = publish_meanwhile
    assert status_of(services, "partition locations") == "ok"
    assert len(written) == 2


def test_small_files_count_in_all_where_no_partition_has_many(world: World) -> None:
    assert status_of(world.services(), "small files") == "ok"
    world.write({f"d{number:03}": frozenset({number}) for number in range(60)})
    (found,) = of_check(world.services(), "small files")
    assert found.status == "note"
    assert re.match(r"6\d small files in 6\d partitions, of \d B each, and a query opens every one: ", found.message)
    assert "coarser column" in found.message, "compact has nothing to join where each partition has one file"
    (said,) = world.keeper.history(str(TABLE)).notes
    assert said == found.message
    page = world.keeper.report(str(TABLE)).to_html()
    assert re.search(r"<small>6\d small files in all, \d B each</small>", page)
    assert "many small files</small>" not in page


def test_moved_and_missing_partitions_are_notes(world: World) -> None:
    point(world, "1", f"{ROOT}elsewhere/")
    world.metastore.drop_partition(world.table, ("2",))
    found = of_check(world.services(), "partition locations")
    assert [finding.status for finding in found] == ["note", "note"]
    assert [finding.message.rpartition(": ")[2] for finding in found] == ["dt=1", "dt=2"]
    assert found[1].advice.endswith("table-writer restore mart.orders")


def test_partitions_of_other_tools_are_counted_and_left_alone(world: World) -> None:
    world.written_by_another_tool("3", frozenset({3}))
    (finding,) = of_check(world.services(), "partition locations")
    assert finding.status == "ok"
    assert finding.message.endswith("never written by this library: 1")
    assert status_of(world.services(), "partition files") == "ok"


def test_rows_that_another_tool_has_added_are_a_warning(world: World) -> None:
    assert status_of(world.services(), "partition files") == "ok"
    world.store.put(f"{Location.parse(location(world, '1')).key}part-0.json", b"[8]")
    (finding,) = of_check(world.services(), "partition files")
    assert finding.status == "warning"
    assert "1 partition of this library: dt=1." in finding.message
    world.write({"1": frozenset({5})})
    assert status_of(world.services(), "partition files") == "ok"


def test_files_that_another_tool_has_replaced_are_a_warning(world: World) -> None:
    directory = Location.parse(location(world, "1")).key
    world.store.delete([key(world, "1")])
    world.store.put(f"{directory}part-0.json", b"[888]")  # as many files of as many bytes would pass: none is read
    assert status_of(world.services(), "partition files") == "warning"


def test_files_of_ours_with_other_bytes_are_a_warning(world: World) -> None:
    world.store.put(key(world, "1"), b"[1, 2, 3]")
    assert status_of(world.services(), "partition files") == "warning"


def test_files_that_are_gone_are_an_error(world: World) -> None:
    world.store.delete([key(world, "1")])
    (finding,) = of_check(world.services(), "partition files")
    assert finding.status == "error"
    assert "dt=1" in finding.message
    assert "rollback mart.orders --version" in finding.advice


def test_a_rolled_back_partition_is_what_was_published_then(world: World) -> None:
    world.write({"1": frozenset({5, 6, 7})})
    roll_back(world.services(), 1, None, dry_run=False)
    assert status_of(world.services(), "partition files") == "ok"
    assert status_of(world.services(), "partition locations") == "ok"


def test_only_the_newest_partitions_are_listed_and_the_rest_is_said(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.store.delete([key(world, "1")])
    world.write({"3": frozenset({3})})
    monkeypatch.setattr(partitions, "LISTED_PARTITIONS", 1)
    (finding,) = of_check(world.services(), "partition files")
    assert finding.status == "note"
    assert finding.message == "only the 1 newest of 3 partitions were listed"


def test_many_names_are_shortened(world: World) -> None:
    world.write({f"p{number:02d}": frozenset({number}) for number in range(12)})
    for number in range(12):
        world.metastore.drop_partition(world.table, (f"p{number:02d}",))
    (finding,) = of_check(world.services(), "partition locations")
    assert finding.message.endswith("dt=p09 and 2 more")


def test_partitions_that_the_log_has_forgotten_are_an_error(world: World) -> None:
    assert status_of(world.services(), "forgotten partitions") == "ok"
    world.store.delete([world.layout.owner_key, *(found.key for found in world.store.list(world.layout.log_prefix))])
    world.write({"3": frozenset({3})})
    (finding,) = of_check(world.services(), "forgotten partitions")
    assert finding.status == "error"
    assert "by hand: dt=1, dt=2." in finding.message
    assert finding.advice.startswith("do not vacuum mart.orders")
