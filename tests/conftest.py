from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final, cast

import pytest
from pyspark.sql import SparkSession

from table_writer.testing import Lakehouse
from table_writer.testing.jars import java_environment
from tests.comet.settings import comet_settings
from tests.fuzz.puppet import pools_at_once

SERVERS: Final = {"java", "spark-submit", "versitygw"}

if find_spec("hypothesis"):  # the environments of single services have none
    from hypothesis import settings

    # What a push waits for draws the same examples each time; `--hypothesis-profile=anew`, nightly's, draws others,
    # and prints how to repeat what it found.
    settings.register_profile("same", derandomize=True, database=None)
    settings.register_profile("anew", print_blob=True)
    settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what the targets of a service choose."""
    parser.addoption("--needs", default="", metavar="SERVICE", help="run also the tests that need this service")
    parser.addoption(
        "--metastore-database", choices=("postgresql", "mariadb"), help="what the contract's metastore runs on"
    )
    parser.addoption("--without-servers", action="store_true", help="whoever starts Java or a server fails")
    parser.addoption("--comet", action="store_true", help="let Comet run the lakehouse's queries")
    parser.addoption("--openlineage-spec", type=Path, help="directory of OpenLineage's published schemas")


def pytest_configure(config: pytest.Config) -> None:
    """Hold what `--without-servers` says, and let the processes that tests start hear signals.

    Under nohup, or in the background of a script, SIGHUP and SIGINT are ignored, and children inherit that; a handler
    of Python becomes the default in them. Spark that a test starts by itself compiles as the lakehouse's does.
    """
    os.environ["JAVA_TOOL_OPTIONS"] = java_environment()["JAVA_TOOL_OPTIONS"]
    if config.getoption("--without-servers"):
        sys.addaudithook(_refuse_servers)
    for number, handler in ((signal.SIGHUP, lambda *_: None), (signal.SIGINT, signal.default_int_handler)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def _refuse_servers(event: str, arguments: tuple[object, ...]) -> None:
    if event == "subprocess.Popen" and Path(os.fsdecode(cast("str", arguments[0]))).name in SERVERS:
        raise PermissionError(f"{arguments[0]} in a run without servers: mark the test not_quick")


@pytest.hookimpl(tryfirst=True)  # before options such as -m choose by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs the lakehouse, and run it last: most mistakes show in seconds. Leave out other services."""
    service = config.getoption("--needs")
    served = {item: all(mark.args == (service,) for mark in item.iter_markers("needs")) for item in items}
    config.hook.pytest_deselected(items=[item for item in items if not served[item]])
    items[:] = [item for item in items if served[item]]
    for item in items:
        if "lakehouse" in getattr(item, "fixturenames", ()):
            item.add_marker("lakehouse")
    items.sort(key=lambda item: item.get_closest_marker("lakehouse") is not None)


@pytest.fixture
def in_one_thread() -> Iterator[None]:
    """Run pools in the test's own thread: a matrix over doubles is about what fails when, and threads take time."""
    with pools_at_once():
        yield


@pytest.fixture(scope="session")
def lakehouse_spark_conf(request: pytest.FixtureRequest) -> dict[str, str]:
    """Return what the lakehouse's Spark needs under `--comet`."""
    return comet_settings() if request.config.getoption("--comet") else {}


@pytest.fixture(scope="session")
def spark(lakehouse: Lakehouse) -> SparkSession:
    """Return the one Spark session of the test run."""
    return lakehouse.spark
