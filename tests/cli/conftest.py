from __future__ import annotations

import pytest

from tests.cli.shell import Shell
from tests.publish.world import World

VARIABLES = ("TABLE_WRITER_METASTORE_URI", "HADOOP_CONF_DIR", "HIVE_CONF_DIR", "SPARK_CONF_DIR")


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def shell(world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return Shell(world, capsys, monkeypatch)
