"""pytest fixtures over the embedded lakehouse; pytest finds them once table_writer is installed.

``lakehouse``
    The running :class:`~table_writer.testing.Lakehouse`, started at its first use, one per test run.
``lakehouse_database``
    The name of a fresh database with a location of its own, dropped with its tables after the test.
``lakehouse_spark_conf``
    More settings of the lakehouse's Spark, none by default: define a fixture of this name in your ``conftest.py``.

``--lakehouse-s3=moto|versitygw|none`` (or ``lakehouse_s3`` in the ini file) chooses the S3 server: ``moto``, which
comes with pip and keeps objects in memory; ``versitygw``, which is faster, and closer to S3 in how multipart uploads
end (an error says how to install it); or none, with the warehouse in a temporary directory.
``--lakehouse-hive=2.3.10|3.1.3|4.0.1|4.2.0`` (``lakehouse_hive``) chooses the metastore.
``--lakehouse-spark=classic|connect`` (``lakehouse_spark``) chooses the kind of session.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, Final, get_args

from table_writer import testing
from table_writer.errors import needs_extra
from table_writer.model.table import SPARK_CATALOG
from table_writer.testing.choices import HiveVersion, S3ServerName

with needs_extra("testing", "table_writer.testing.pytest_plugin"):
    import pytest

CHOICES: Final = {  # what an option may be, its default first
    "s3": (*get_args(S3ServerName), "none"),
    "hive": get_args(HiveVersion),
    "spark": ("classic", "connect"),
}
TITLES: Final = {"s3": "S3 server", "hive": "metastore's version", "spark": "kind of session"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add an option, and a line of the ini file, for each choice."""
    group = parser.getgroup("table_writer", "embedded lakehouse of table_writer")
    for what, choices in CHOICES.items():
        text = f"{TITLES[what]} of the lakehouse fixture"
        group.addoption(f"--lakehouse-{what}", choices=choices, help=f"{text} (default: {choices[0]})")
        parser.addini(f"lakehouse_{what}", f"{text}: {', '.join(choices)}", default=choices[0])


def chosen_option(config: pytest.Config, what: str) -> Any:
    """Return the option's value, else that of the ini file, else the default."""
    choice = config.getoption(f"--lakehouse-{what}") or config.getini(f"lakehouse_{what}")
    if choice not in CHOICES[what]:
        raise pytest.UsageError(
            f"lakehouse_{what} = {choice!r} in the ini file: choose from {', '.join(CHOICES[what])}"
        )
    return choice


@pytest.fixture(scope="session", name="lakehouse_spark_conf")
def _lakehouse_spark_conf() -> dict[str, str]:
    """Return more settings of the lakehouse's Spark."""
    return {}


@pytest.fixture(scope="session", name="lakehouse")
def _lakehouse(request: pytest.FixtureRequest, lakehouse_spark_conf: dict[str, str]) -> Iterator[testing.Lakehouse]:
    """Return a running lakehouse: metastore, S3 endpoint, Spark session; one per test run.

    Only here is Spark loaded: pytest loads this plugin in every run, of tests that have nothing to do with it, too.
    """
    s3, hive = chosen_option(request.config, "s3"), chosen_option(request.config, "hive")
    conf = {"spark.api.mode": chosen_option(request.config, "spark"), **lakehouse_spark_conf}
    where: dict[str, Any] = {"storage": "file"} if s3 == "none" else {"s3_server": s3}
    with testing.lakehouse(**where, hive=hive, spark_conf=conf) as lake:
        yield lake


@pytest.fixture(name="lakehouse_database")
def _lakehouse_database(lakehouse: testing.Lakehouse) -> Iterator[str]:
    """Return the name of a fresh database, dropped with all its tables after the test."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    lakehouse.spark.sql(f"CREATE DATABASE {SPARK_CATALOG}.{name} LOCATION '{lakehouse.warehouse}/{name}.db'")
    yield name
    lakehouse.spark.sql(f"DROP DATABASE IF EXISTS {SPARK_CATALOG}.{name} CASCADE")
