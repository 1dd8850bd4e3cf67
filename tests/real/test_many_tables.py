"""Calls on many tables over a real metastore and a real S3 endpoint: views and tables of others stand among them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from table_writer.config import SessionSettings, TableWriterConfig
from table_writer.errors import InvalidInputError
from table_writer.maintenance import Maintenance
from table_writer.model.table import TableName
from table_writer.protocol.table.services import Services
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


def test_many_tables_over_real_parts(new_world: Callable[[], RealWorld], keeper: Maintenance) -> None:
    worlds = [new_world() for _ in range(4)]
    for one in worlds[:3]:
        one.write(ONE)
    of_iceberg = {"EXTERNAL": "TRUE", "table_type": "ICEBERG"}
    worlds[0].make(TableName(DATABASE, "a_view"), kind="VIRTUAL_VIEW")
    worlds[0].make(TableName(DATABASE, "an_iceberg"), location=f"{worlds[0].root}../iceberg", parameters=of_iceberg)
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
        for name in ("a_view", "an_iceberg"):
            worlds[0].change("drop_table", DATABASE, name, False)
        keeper.close()


def assert_idle_tables_cost_little(world: RealWorld) -> None:
    name = str(world.name)
    requests, calls = (sum(one().values()) for one in (world.store.request_counts, world.metastore.call_counts))
    assert world.keeper.vacuum_many([name]).results[0].error is None
    assert world.keeper.recover_many([name]).results[0].error is None
    assert sum(world.store.request_counts().values()) - requests <= 2 * 12
    assert sum(world.metastore.call_counts().values()) - calls <= 2 * 4
