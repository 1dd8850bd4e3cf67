"""What is kept of a table is told to the last object, and readers need none of what can go."""

from __future__ import annotations

from datetime import timedelta

import pytest

from table_writer.config import TableWriterConfig
from table_writer.doctor.leave import look_at_holdings
from table_writer.errors import InvalidInputError
from table_writer.model.location import Location
from table_writer.reports.leave_report import LeaveReport
from tests.mirrors.world import MirroredWorld
from tests.publish.world import World


def looked_at(world: World) -> LeaveReport:
    return look_at_holdings(world.services())


def by_fate(report: LeaveReport) -> dict[str, int]:
    found: dict[str, int] = {}
    for holding in report.holdings:
        found[holding.fate] = found.get(holding.fate, 0) + holding.objects
    return found


def test_every_object_is_told_and_what_can_go_is_needed_by_no_reader() -> None:
    world = World(config=TableWriterConfig(progress="off"))
    world.write({"d1": frozenset({1}), "d2": frozenset({2})})
    world.write({"d1": frozenset({3})})
    before = world.rows()
    report = looked_at(world)
    everything = list(world.store.list(world.layout.own.key))
    assert sum(holding.objects for holding in report.holdings) == len(everything)
    assert sum(holding.bytes for holding in report.holdings) == sum(info.size_bytes for info in everything)
    assert (report.partitions, report.elsewhere, report.in_doubt) == (2, 0, ())
    assert by_fate(report)["stays"] == 2
    assert by_fate(report)["vacuum"] >= 1
    assert not report.is_ready
    needed = {Location.parse(partition.location).key for partition in world.partitions().values()}
    world.store.delete([info.key for info in everything if f"{info.key.rpartition('/')[0]}/" not in needed])
    assert world.rows() == before
    assert by_fate(looked_at(world)) == {"stays": 2}
    assert looked_at(world).is_ready


def test_a_partition_that_another_tool_has_dropped_is_named_by_its_own_place_and_no_vacuum_is_asked_for() -> None:
    world = World(config=TableWriterConfig(progress="off"))
    world.write({"d1": frozenset({1}), "d2": frozenset({2})})
    dropped = world.partitions()["d2"].location
    world.dropped_by_another_tool("d2")
    world.keeper.vacuum(str(world.name), older_than=timedelta(0), force=True)
    report = looked_at(world)
    (holding,) = (one for one in report.holdings if "another tool has dropped" in one.what)
    assert (holding.fate, holding.location, holding.objects) == ("delete at last", dropped, 1)
    assert report.is_ready
    key = Location.parse(dropped).key
    before = world.rows()
    world.store.delete([info.key for info in world.store.list(key)])
    assert world.rows() == before


def test_a_table_that_goes_on_as_another_has_nothing_that_can_go() -> None:
    world = MirroredWorld(config=TableWriterConfig(progress="off", mirrors=["delta"]))
    world.write({"d1": frozenset({1})})
    assert "the Delta mirror" in {holding.what for holding in looked_at(world).holdings}
    world.keeper.handover(str(world.name), to="delta")
    with pytest.raises(InvalidInputError, match="goes on as a table of delta"):
        looked_at(world)


def test_what_others_have_put_there_is_not_ours_and_placeholders_are_not_named_for_deletion() -> None:
    world = World(config=TableWriterConfig(progress="off"))
    world.write({"d1": frozenset({1}), "d2": frozenset({2})})
    world.store.put(f"{world.layout.own.key}odd/file", b"x")
    world.store.put(f"{world.layout.root.key}_delta_log/00000000000000000000.json", b'{"protocol": {}}')
    world.store.put(f"{world.layout.root.key}_iceberg/v1.metadata.json", b"{}")
    world.store.put(f"{world.layout.own.key}probe-1f/claim-0", b"")
    placeholder = world.layout.placeholder("w", ("d3",))
    world.pointed_by_another_tool("d3", str(placeholder))
    world.store.put(f"{placeholder.key}part-0", b"[3]")
    fates = {holding.location: holding.fate for holding in looked_at(world).holdings}
    assert fates[f"{world.layout.own}odd"] == "not ours"
    assert fates[f"{world.layout.root}_delta_log/"] == "not ours"
    assert fates[f"{world.layout.root}_iceberg/"] == "not ours"
    assert fates[f"{world.layout.own}probe-1f"] == "delete at last"
    assert fates[str(world.layout.all_placeholders).rstrip("/")] == "stays"
    assert not any(place.endswith(("empty", "data")) for place, fate in fates.items() if fate == "delete at last")


@pytest.mark.parametrize(("how", "left"), [("dropped", {"not ours"}), ("moved", {"not ours"}), ("replaced", set())])
def test_what_another_tool_has_put_into_a_placeholder_does_not_keep_anybody_from_leaving(
    how: str, left: set[str]
) -> None:
    world = World(config=TableWriterConfig(progress="off"))
    world.write({"d1": frozenset({1})})
    placeholder = world.layout.placeholder("w", ("d3",))
    world.pointed_by_another_tool("d3", str(placeholder))
    world.store.put(f"{placeholder.key}part-0", b"[3]")
    if how == "dropped":
        world.dropped_by_another_tool("d3")
    elif how == "moved":
        world.pointed_by_another_tool("d3", f"{world.layout.root}elsewhere/")
    else:
        world.write({"d3": frozenset({4})})
    world.keeper.vacuum(str(world.name), older_than=timedelta(0), force=True)
    report = looked_at(world)
    assert {holding.fate for holding in report.holdings if holding.location.endswith("empty")} == left
    assert report.is_ready
