"""Airflow, dbt, and Kedro with Dagster and Prefect, over a real metastore and S3, in environments of their own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest
from hmsclient.genthrift.hive_metastore import ttypes
from pyspark.sql import SparkSession

from table_writer.testing import Lakehouse, MetastoreServer, S3Server
from table_writer.testing.jars import s3a_jars
from tests.real.conftest import address_of, worlds
from tests.real.real_world import Address

NEEDS = {
    "test_airflow_dag.py": "airflow",
    "test_operators.py": "airflow",
    "test_sensor.py": "airflow",
    "test_dbt.py": "dbt",
    "test_kedro.py": "kedro",
    "test_dagster.py": "dagster",
    "test_prefect.py": "prefect",
    "test_quality_checks.py": "great_expectations",
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
os.environ |= {"DO_NOT_TRACK": "1", "DAGSTER_DISABLE_TELEMETRY": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
os.environ.update(SETTINGS if find_spec("airflow") else {})  # Airflow reads them when it is imported
new_world = pytest.fixture(worlds)


@pytest.hookimpl(tryfirst=True)  # before options such as -m choose by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a program: `make test-airflow`, `test-dbt` and `test-pipelines` run it, and nothing else does."""
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


@pytest.fixture
def mart(lakehouse: Lakehouse) -> Iterator[SparkSession]:
    """The session of a lakehouse whose database mart is empty."""
    lakehouse.spark.sql(f"CREATE DATABASE mart LOCATION '{lakehouse.warehouse}/{uuid4()}.db'")
    yield lakehouse.spark
    lakehouse.spark.sql("DROP DATABASE mart CASCADE")


def found(spark: SparkSession, table: str) -> list[tuple[Any, ...]]:
    """Return the rows that readers find, in order."""
    return sorted((tuple(row) for row in spark.table(table).collect()), key=str)


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
