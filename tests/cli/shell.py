"""A prompt at which `table-writer` works on a world of doubles."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from table_writer.cli.main import main
from table_writer.config import SessionSettings, TableWriterConfig
from table_writer.maintenance import Maintenance
from table_writer.protocol.table.services import Services
from tests.publish.world import World

URI = "thrift://metastore:9083"
TABLE = "mart.orders"


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@dataclass
class Shell:
    """Runs commands; remembers with what ``Maintenance`` was made."""

    world: World
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch
    made: list[tuple[str, TableWriterConfig]] = field(default_factory=list)
    keeper: Callable[[], Any] | None = None

    def run(self, *words: str) -> Ran:
        """Run one command against the world's metastore and store."""
        return self.run_raw(*words, "--metastore-uri", URI)

    def run_raw(self, *words: str) -> Ran:
        code = main(words, make_maintenance=self._make)
        captured = self.capsys.readouterr()
        return Ran(int(code), captured.out, captured.err)

    def run_at_terminal(self, *words: str, answer: str) -> Ran:
        """Run one command where a person sits, who types an answer."""
        out, err = Terminal(), Terminal()
        with self.monkeypatch.context() as patched:
            patched.setattr("sys.stdin", Terminal(answer))
            patched.setattr("sys.stdout", out)
            patched.setattr("sys.stderr", err)
            code = main([*words, "--metastore-uri", URI], make_maintenance=self._make)
        return Ran(int(code), out.getvalue(), err.getvalue())

    def _make(self, metastore_uri: str, /, *, config: TableWriterConfig) -> Maintenance:
        self.made.append((metastore_uri, config))
        if self.keeper is not None:
            return self.keeper()
        hadoop = {**config.hadoop, "hive.metastore.uris": metastore_uri}
        services = Services(
            SessionSettings(hadoop=hadoop),
            config,
            open_metastore=lambda _: self.world.metastore,
            open_object_store=lambda _: self.world.store,
        )
        return Maintenance(services=services)
