"""Where Hive 4 lets an unpartitioned table move: what is said before a write is what the server then does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from table_writer.errors import MetastoreError
from table_writer.model.table import PartitionChange, TableName
from table_writer.testing import MetastoreServer
from tests.metastore.conftest import hive_world

pytestmark = [pytest.mark.slow, pytest.mark.other_hive]
EXTERNAL = {"metastore.warehouse.external.dir": "file:/elsewhere"}
SETTINGS = {
    "external.dir is not set": {},
    "external.dir is set": EXTERNAL,
    "no transformer": {**EXTERNAL, "metastore.metadata.transformer.class": " "},
}


class Server(NamedTuple):
    uri: str
    warehouse: Path
    is_strict: bool  # Hive 4 keeps external tables out of its warehouse


@pytest.fixture(scope="module", params=SETTINGS)
def server(
    request: pytest.FixtureRequest, hive_version: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    warehouse = tmp_path_factory.mktemp("managed")
    settings, is_strict = SETTINGS[request.param], request.param == "external.dir is set"
    with MetastoreServer(hive=hive_version, warehouse=warehouse.as_uri(), settings=settings) as started:
        yield Server(started.uri, warehouse, is_strict and hive_version.startswith("4."))


@pytest.mark.parametrize("kind", ["MANAGED_TABLE", "EXTERNAL_TABLE"])
@pytest.mark.parametrize("inside", [True, False], ids=["in the warehouse", "elsewhere"])
def test_the_server_refuses_what_is_said_to_be_immovable_and_nothing_else(
    server: Server, kind: str, inside: bool, tmp_path: Path
) -> None:
    world = hive_world(server.uri, server.warehouse if inside else tmp_path)
    refuses = server.is_strict and inside
    if refuses and kind == "EXTERNAL_TABLE":
        with pytest.raises(MetastoreError, match="managed warehouse"):  # it cannot even be made
            world.table((), kind=kind)
        return
    table = world.table((), kind=kind, parameters={"EXTERNAL": "TRUE"} if kind == "EXTERNAL_TABLE" else {})
    said = world.metastore.why_immovable(table)
    assert ("keeps external tables out of its managed warehouse" in said) is refuses
    whole = world.metastore.get_partitions(table, [()])[()]
    move = PartitionChange(
        partition=whole, location=f"{table.root}_table_writer/data/w/", set_parameters={"moved": "yes"}
    )
    if refuses:
        with pytest.raises(MetastoreError, match="managed warehouse"):
            world.metastore.alter_partitions(table, [move])
    else:
        assert not said
        world.metastore.alter_partitions(table, [move])
    after = world.metastore.get_table(TableName("default", table.name.name))
    assert after is not None
    assert (after.parameters.get("moved") == "yes") is not refuses
