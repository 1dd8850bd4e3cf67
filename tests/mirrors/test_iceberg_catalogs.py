"""An Iceberg mirror in another catalog than the metastore: one of pyiceberg's own, here a database in a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from table_writer.config import TableWriterConfig
from table_writer.errors import MetastoreError
from table_writer.mirrors.iceberg import catalog as catalogs
from table_writer.mirrors.iceberg.files import StoreFiles
from tests.maintenance.operations import ADDED, MIXED, OLD, REPLACED

from .iceberg_world import MIRROR, IcebergWorld, rows_of_json

TABLE = "mart.orders"


class SqlWorld(IcebergWorld):
    """A world whose mirror is found in a database."""

    @property
    def metadata_location(self) -> str:
        return str(self.sql.load_table((MIRROR.database, MIRROR.name)).metadata_location)

    sql: SqlCatalog


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SqlWorld]:
    found = SqlWorld(config=TableWriterConfig(mirrors=["iceberg"], iceberg_catalog="lake"))
    found.plan()
    found.sql = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse="s3a://lake/other/")
    files = StoreFiles(found.store, found.layout.root)
    with (
        rows_of_json(),
        mock.patch.object(catalogs, "load_catalog", return_value=found.sql),
        mock.patch("pyiceberg.catalog.load_file_io", return_value=files),
        mock.patch("pyiceberg.catalog.sql.load_file_io", return_value=files),
    ):
        yield found
    found.sql.close()


def test_the_mirror_follows_in_a_catalog_of_pyicebergs(world: SqlWorld) -> None:
    for rows in (OLD, MIXED, REPLACED):
        world.write(rows)
        assert world.mirrored_rows() == world.rows()
    assert world.notes() == ()
    assert world.metastore.get_table(MIRROR) is None
    assert world.versions() == [1, 2, 3]
    world.vacuum()
    assert world.named_files_are_there()
    world.config = TableWriterConfig(mirrors=["iceberg"])  # the note in the root says where it is
    world.write(ADDED)
    assert world.mirrored_rows() == world.rows()
    assert world.keeper.mirror(TABLE, as_="iceberg", drop=True).state == "dropped"
    assert not world.sql.table_exists((MIRROR.database, MIRROR.name))


def test_a_commit_of_others_in_that_catalog_is_overruled(world: SqlWorld) -> None:
    world.write(OLD)
    with world.sql.load_table((MIRROR.database, MIRROR.name)).transaction() as transaction:
        transaction.set_properties({"gc.enabled": "true"})
    assert world.keeper.mirror(TABLE, as_="iceberg", check=True).state == "damaged"
    world.write(MIXED)
    assert world.mirrored_rows() == world.rows()
    assert world.read_by_pyiceberg().properties["gc.enabled"] == "false"


def test_a_catalog_that_fails_is_named(world: SqlWorld) -> None:
    world.write(OLD)
    with mock.patch.object(world.sql, "load_table", side_effect=RuntimeError("gone away")):
        world.write(MIXED)
        with pytest.raises(MetastoreError, match="catalog 'lake' fails: RuntimeError: gone away"):
            world.keeper.mirror(TABLE, as_="iceberg", check=True)
    assert "catalog 'lake' fails" in world.notes()[0]
    world.write(ADDED)
    assert world.mirrored_rows() == world.rows()
