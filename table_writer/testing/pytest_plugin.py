"""pytest fixtures over the embedded lakehouse; pytest finds them once table_writer is installed.

``lakehouse``
    The running :class:`~table_writer.testing.Lakehouse`, started at its first use, one per test run.
``lakehouse_database``
    The name of a fresh database with a location of its own, dropped with its tables after the test.

``--lakehouse-s3=moto|versitygw|none`` (or ``lakehouse_s3`` in the ini file) chooses the S3 server; ``none`` keeps the
warehouse in a temporary directory.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from table_writer.testing.lakehouse import Lakehouse
from table_writer.testing.lakehouse import lakehouse as start_lakehouse

S3_CHOICES = ("moto", "versitygw", "none")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the one option."""
    group = parser.getgroup("table_writer", "embedded lakehouse of table_writer")
    text = "S3 server of the lakehouse fixture"
    group.addoption("--lakehouse-s3", choices=S3_CHOICES, default=None, help=f"{text} (default: moto)")
    parser.addini("lakehouse_s3", f"{text}: {', '.join(S3_CHOICES)}", default="moto")


@pytest.fixture(scope="session", name="lakehouse")
def _lakehouse(request: pytest.FixtureRequest) -> Iterator[Lakehouse]:
    """Return a running lakehouse: metastore, S3 endpoint, Spark session; one per test run."""
    choice = request.config.getoption("--lakehouse-s3") or request.config.getini("lakehouse_s3")
    if choice not in S3_CHOICES:
        raise pytest.UsageError(f"lakehouse_s3 = {choice!r} in the ini file: choose from {', '.join(S3_CHOICES)}")
    with start_lakehouse(storage="file") if choice == "none" else start_lakehouse(s3_server=choice) as lake:
        yield lake


@pytest.fixture(name="lakehouse_database")
def _lakehouse_database(lakehouse: Lakehouse) -> Iterator[str]:
    """Return the name of a fresh database, dropped with all its tables after the test."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    lakehouse.spark.sql(f"CREATE DATABASE {name} LOCATION '{lakehouse.warehouse}/{name}.db'")
    yield name
    lakehouse.spark.sql(f"DROP DATABASE IF EXISTS {name} CASCADE")
