"""Checks of the metastore."""

from __future__ import annotations

from dataclasses import replace

import pytest

from table_writer.config import TableWriterConfig
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
