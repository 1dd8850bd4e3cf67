"""Calls on many tables over a real metastore and a real S3 endpoint: views and tables of others stand among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore import ttypes

from table_writer.config import SessionSettings, TableWriterConfig
from table_writer.errors import InvalidInputError
from table_writer.log.open_table import Services
from table_writer.maintenance import Maintenance
from tests.real.real_world import DATABASE, Address, RealWorld

ONE = {"d1": frozenset({1}), "d2": frozenset({2})}


@pytest.fixture
def keeper(address: Address) -> Maintenance:
    """Work with connections of the library's own: one for each worker."""
    hadoop = {
        "hive.metastore.uris": address.metastore_uri,
        "fs.s3a.endpoint": address.endpoint_url,
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": address.access_key,
        "fs.s3a.secret.key": address.secret_key,
    }
    return Maintenance(services=Services(SessionSettings(hadoop=hadoop), TableWriterConfig(progress="off")))


def make_other(world: RealWorld, name: str, *, kind: str, parameters: dict[str, str], location: str | None) -> None:
    columns = [ttypes.FieldSchema("id", "bigint", "")]
    storage = ttypes.StorageDescriptor(cols=columns, location=location, serdeInfo=ttypes.SerDeInfo(parameters={}))
    view = {"viewOriginalText": "SELECT 1", "viewExpandedText": "SELECT 1"} if "VIEW" in kind else {}
    table = ttypes.Table(
        tableName=name,
        dbName=DATABASE,
        owner="tests",
        sd=storage,
        partitionKeys=[],
        parameters=parameters,
        tableType=kind,
        **view,
    )
    world._thrift("create_table", table)


def test_many_tables_over_real_parts(new_world: Callable[[], RealWorld], keeper: Maintenance) -> None:
    worlds = [new_world() for _ in range(4)]
    for one in worlds[:3]:
        one.write(ONE)
    others: dict[str, dict[str, Any]] = {
        "a_view": {"kind": "VIRTUAL_VIEW", "parameters": {}, "location": None},
        "an_iceberg": {
            "kind": "EXTERNAL_TABLE",
            "parameters": {"EXTERNAL": "TRUE", "table_type": "ICEBERG"},
            "location": f"{worlds[0].root}../iceberg",
        },
    }
    for name, fields in others.items():
        make_other(worlds[0], name, **fields)
    try:
        written = [str(one.name) for one in worlds[:3]]
        for report in (keeper.vacuum_many(database=DATABASE), keeper.recover_many(database=DATABASE)):
            assert [(one.table, one.error) for one in report.results] == [(name, None) for name in sorted(written)]
            assert report.others_count == 3
        tables = keeper.tables(DATABASE)
        assert [(one.table, one.version, one.health) for one in tables.tables] == [(name, 1, "ok") for name in written]
        assert_idle_tables_cost_little(worlds[0])
        named = keeper.vacuum_many([*written, f"{DATABASE}.a_view", f"{DATABASE}.an_iceberg", f"{DATABASE}.gone"])
        assert {one.table: type(one.error) for one in named.failed} == {
            f"{DATABASE}.{name}": InvalidInputError for name in ("a_view", "an_iceberg", "gone")
        }
        with pytest.raises(InvalidInputError, match="there is no database"):
            keeper.tables("nowhere")
    finally:
        for name in others:
            worlds[0]._thrift("drop_table", DATABASE, name, False)
        keeper.close()


def assert_idle_tables_cost_little(world: RealWorld) -> None:
    name = str(world.name)
    requests, calls = (sum(one().values()) for one in (world.store.request_counts, world.metastore.call_counts))
    assert world.keeper.vacuum_many([name]).results[0].error is None
    assert world.keeper.recover_many([name]).results[0].error is None
    assert sum(world.store.request_counts().values()) - requests <= 2 * 12
    assert sum(world.metastore.call_counts().values()) - calls <= 2 * 4
