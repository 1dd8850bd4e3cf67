"""Checks of the metastore."""

from __future__ import annotations

from dataclasses import replace

import pytest

from table_writer.config import TableWriterConfig
from table_writer.doctor.examination import examine
from table_writer.errors import MetastoreError
from table_writer.model.table import Partition
from tests.doctor.conftest import of_check, status_of, with_hadoop
from tests.publish.world import ROOT, TABLE, World


@pytest.mark.parametrize(
    ("version", "partitioned", "unpartitioned"),
    [
        ("2.3.10", "ok", "ok"),
        ("4.0.1", "ok", "ok"),
        ("4", "ok", "ok"),
        ("2.3", "note", "warning"),
        ("2.3.9", "note", "warning"),
        ("3.1.3", "note", "warning"),
        ("3", "note", "warning"),
        ("3.1.3000.7.2", "note", "warning"),
        ("", "note", "note"),
    ],
)
def test_compare_and_set_matters_to_unpartitioned_tables(
    world: World, version: str, partitioned: str, unpartitioned: str
) -> None:
    world.metastore.version = version
    services = world.services()
    assert status_of(services, "metastore version") == partitioned
    flat = replace(services, table=replace(services.table, partition_columns=()))
    assert status_of(flat, "metastore version") == unpartitioned


def test_a_database_that_hive_replicates_is_worth_a_warning(world: World) -> None:
    assert status_of(world.services(), "replication") == "ok"
    world.metastore.replicated = "nightly,dr"
    (found,) = of_check(world.services(), "replication")
    assert found.status == "warning"
    assert "repl.source.for=nightly,dr" in found.message
    assert found.advice


def test_several_addresses_are_worth_a_note(world: World) -> None:
    assert status_of(world.services(), "metastore addresses") == "ok"
    two = with_hadoop(world.services(), {"hive.metastore.uris": "thrift://a:9083, thrift://b:9083"})
    assert status_of(two, "metastore addresses") == "note"
    config = TableWriterConfig(metastore_uris=("thrift://a:9083", "thrift://b:9083"))
    assert status_of(world.services(config), "metastore addresses") == "note"


def test_a_switch_of_all_partitions_must_fit_into_the_timeout(world: World) -> None:
    config = TableWriterConfig(metastore_timeout_seconds=2.0, publish_timeout_seconds=10.0)
    assert status_of(world.services(config), "metastore timeouts") == "ok"
    for number in range(500):
        world.metastore.put_partition(TABLE, Partition(values=(f"p{number}",), location=f"{ROOT}dt=p{number}/"))
    (finding,) = of_check(world.services(config), "metastore timeouts")
    assert finding.status == "warning"
    assert "502 partitions" in finding.message
    assert "1.4 s" in finding.message
    assert "metastore_timeout_seconds=6 and publish_timeout_seconds=17" in finding.advice
    TableWriterConfig(metastore_timeout_seconds=6, publish_timeout_seconds=17)  # what it advises is accepted
    world.metastore.version = "4.0.1"
    assert status_of(world.services(config), "metastore timeouts") == "ok"


def characters(world: World, *, scratch_table: bool = False) -> list[tuple[str, str]]:
    found = examine(world.services(), scratch_table=scratch_table)
    return [(one.status, one.message) for one in found if one.check == "metastore characters"]


def test_characters_are_tried_only_where_a_table_may_be_made(world: World) -> None:
    world.metastore.character_set = "latin1"
    with world.recording() as calls:
        ((status, message),) = characters(world)
    assert (status, "--scratch-table" in message) == ("ok", True)
    assert ("metastore", "try_values") not in calls
    (error, *_) = characters(world, scratch_table=True)
    assert error[0] == "error"
    assert "does not keep" in error[1]
    assert world.metastore.get_tables("mart") == [world.table]
    world.metastore.character_set = ""
    assert [status for status, _ in characters(world, scratch_table=True)] == ["ok"]


def test_partitions_that_have_lost_their_values_are_an_error(world: World) -> None:
    world.metastore.character_set = "latin1"
    world.metastore.put_partition(TABLE, Partition(values=("日本",), location=f"{ROOT}dt=日本/"))
    ((status, message),) = characters(world)
    assert (status, "'??'" in message, "character set" in message) == ("error", True, True)


def test_columns_without_text_lose_nothing(world: World) -> None:
    table = world.table
    world.metastore.create_table(replace(table, partition_columns=(replace(table.partition_columns[0], type="int"),)))
    assert characters(world, scratch_table=True) == [("ok", "no partition column holds text")]


def test_a_table_that_may_not_be_made_is_said(world: World) -> None:
    def refuse(method: str, phase: str) -> None:
        if (method, phase) == ("try_values", "before"):
            raise MetastoreError("not allowed to create tables")

    world.metastore.on_call = refuse
    ((status, message),) = characters(world, scratch_table=True)
    assert (status, "not allowed to create tables" in message) == ("error", True)
