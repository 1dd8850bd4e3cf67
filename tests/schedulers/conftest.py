"""Airflow and dbt over a real metastore and a real S3 endpoint, each in an environment of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore import ttypes

from table_writer.testing import MetastoreServer, S3Server
from table_writer.testing.jars import s3a_jars
from tests.real.conftest import address_of, worlds
from tests.real.real_world import Address

NEEDS = {
    "test_airflow_dag.py": "airflow",
    "test_operators.py": "airflow",
    "test_sensor.py": "airflow",
    "test_dbt.py": "dbt",
}
collect_ignore = [name for name, package in NEEDS.items() if not find_spec(package)]
HOME = TemporaryDirectory(prefix="airflow-")
SETTINGS = {
    "AIRFLOW_HOME": HOME.name,
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DAGS_FOLDER": f"{HOME.name}/dags",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
}
os.environ.update(SETTINGS if find_spec("airflow") else {})  # Airflow reads them when it is imported
new_world = pytest.fixture(worlds)


@pytest.hookimpl(tryfirst=True)  # before options such as -m choose by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs Airflow or dbt: `make test-airflow` and `make test-dbt` run it, and nothing else does."""
    for item in items:
        if "/tests/schedulers/" in str(item.path):
            item.add_marker(pytest.mark.needs("schedulers"))


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with S3Server("versitygw", bucket="scheduled") as server:
        yield server


@pytest.fixture(scope="session")
def metastore_server(s3_server: S3Server) -> Iterator[MetastoreServer]:
    warehouse, settings = f"s3a://{s3_server.bucket}/warehouse", s3_server.hadoop_settings()
    with MetastoreServer(warehouse=warehouse, settings=settings, jars=s3a_jars()) as server:
        yield server


@pytest.fixture(scope="session")
def address(s3_server: S3Server, metastore_server: MetastoreServer) -> Address:
    return address_of(s3_server, metastore_server)


def make_database(address: Address, name: str) -> None:
    with address.metastore() as metastore:
        database = ttypes.Database(name, "", f"s3a://{address.bucket}/{name}", {})
        metastore._connection.change("create_database", database, table=name)


@pytest.fixture(scope="session")
def connection(s3_server: S3Server, metastore_server: MetastoreServer) -> dict[str, Any]:
    """What an Airflow connection to the servers holds."""
    host, _, port = metastore_server.uri.removeprefix("thrift://").partition(":")
    settings = s3_server.hadoop_settings()
    return {"conn_type": "generic", "host": host, "port": int(port), "extra": {"conf": settings}}


@pytest.fixture
def lake(connection: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of that connection, which Airflow finds in the environment."""
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(connection))
    return "lake"
