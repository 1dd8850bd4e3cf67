from __future__ import annotations

import signal

import pytest
from pyspark.sql import SparkSession

from table_writer.testing import Lakehouse


def pytest_configure() -> None:
    """Let the processes that tests start hear signals.

    Under nohup, or in the background of a script, SIGHUP and SIGINT are ignored, and children inherit that; a handler
    of our own becomes the default in them.
    """
    for number in (signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what needs no lakehouse first: most mistakes show in seconds."""
    items.sort(key=lambda item: "lakehouse" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def spark(lakehouse: Lakehouse) -> SparkSession:
    """Return the one Spark session of the test run."""
    return lakehouse.spark
