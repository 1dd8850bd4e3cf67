"""Where the log of a table is that another tool has moved; ``tests/maintenance`` does that to whole tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from table_writer.errors import InvalidInputError
from table_writer.model.location import Location
from table_writer.model.table import Table
from table_writer.model.write import TableLayout
from table_writer.protocol.log.owner import refuse_left_log, require_in_place
from tests.publish.world import ROOT, World

HIVES = "s3a://lake/mart/renamed/"


def split(world: World) -> Table:
    return replace(world.table, hive_location=HIVES)


@pytest.mark.parametrize("hive_has_one_too", [False, True])
def test_a_table_with_its_log_where_spark_looks_is_in_place_wherever_hive_looks(hive_has_one_too: bool) -> None:
    world = World()
    world.store.put(world.layout.owner_key, b"{}")
    if hive_has_one_too:
        world.store.put(TableLayout(Location.parse(HIVES)).owner_key, b"{}")
    require_in_place(world.store, world.layout, split(world))


def test_a_log_is_looked_for_under_the_directory_name_that_is_configured() -> None:
    world = World()
    layout = TableLayout(Location.parse(ROOT), "_ours")
    world.store.put(TableLayout(Location.parse(HIVES)).owner_key, b"{}")
    require_in_place(world.store, layout, split(world))
    world.store.put(TableLayout(Location.parse(HIVES), "_ours").owner_key, b"{}")
    statement = f"ALTER TABLE `spark_catalog`.`mart`.`orders` SET LOCATION '{HIVES.rstrip('/')}'"
    told = rf"^mart\.orders is at {ROOT} .* {statement} in Spark"
    with pytest.raises(InvalidInputError, match=told):
        require_in_place(world.store, layout, split(world))


def test_partitions_of_other_tools_and_of_the_log_itself_are_no_log_that_was_left() -> None:
    world = World()
    for value, location in (
        ("d1", "no location"),
        ("d2", "s3a://lake/elsewhere/dt=d2/"),
        ("d3", f"{ROOT}_table_writer/data/w1/dt=d3/"),
    ):
        world.pointed_by_another_tool(value, location)
    refuse_left_log(world.layout, world.table, world.partitions().values())


@pytest.mark.parametrize("root", ["s3a://lake/", "s3a://lake/mart/", ROOT])
def test_the_place_of_the_log_that_was_left_is_named_in_full(root: str) -> None:
    world = World()
    world.pointed_by_another_tool("d0", "no location")
    world.pointed_by_another_tool("d1", f"{root}_table_writer/data/w1/dt=d1/")
    elsewhere = TableLayout(Location.parse("s3a://lake/elsewhere/"))
    with pytest.raises(InvalidInputError, match=f"below {root}, which .* SET LOCATION '{root.rstrip('/')}' brings"):
        refuse_left_log(elsewhere, world.table, world.partitions().values())
