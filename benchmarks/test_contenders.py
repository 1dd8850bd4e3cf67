"""Contenders make the tables they say; an application answers each command, and a dead one says what it died of."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import pytest

from benchmarks.application import _reason, serve
from benchmarks.cases import CASES, Size
from benchmarks.contenders import CONTENDERS
from benchmarks.remote import ContenderError, RemoteApplication
from table_writer.testing.processes import ChildProcess


def test_each_contender_has_tables_of_its_own() -> None:
    tables = {contender.table("orders") for contender in CONTENDERS.values()}
    assert len(tables) == len(CONTENDERS)
    assert CONTENDERS["iceberg-hash"].table("orders") == "iceberg.default.orders_by_iceberg_hash"


def test_a_statement_names_format_partitions_place_and_properties() -> None:
    contender = CONTENDERS["iceberg"]
    statement = contender.create_statement(CASES["orders"], "t", "s3a://b/t")
    assert statement.startswith("CREATE TABLE t (id BIGINT, ")
    assert statement.endswith(
        "USING iceberg PARTITIONED BY (dt) LOCATION 's3a://b/t' TBLPROPERTIES"
        " ('write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true')"
    )
    unpartitioned = CONTENDERS["spark-v2"].create_statement(CASES["unpartitioned"], "t", "s3a://b/t")
    assert unpartitioned.endswith("dt DATE) USING parquet  LOCATION 's3a://b/t'")


def test_only_the_s3a_committers_have_their_jar_on_the_class_path() -> None:
    with_cloud = {name for name, one in CONTENDERS.items() if any(jars[0] == "hadoop-cloud" for jars in one.jar_sets)}
    assert with_cloud == {"s3a-magic", "s3a-partitioned"}


class Application:
    """Answers as the real one does, without Spark."""

    def query(self, case: str, table: str) -> dict[str, Any]:
        return {"content": {"a": [1, 2]}, "error": ""}

    def content(self, case: str, table: str) -> dict[str, Any]:
        raise ValueError("\nno such table\n")

    def rest(self) -> dict[str, Any]:
        return {"resting": True}


@pytest.fixture
def channel() -> Iterator[tuple[IO[str], IO[str]]]:
    """Return what tells a served application what to do, and what its answers come from."""
    with ExitStack() as undo:
        (its_lines, ours), (answers, its_answers) = os.pipe(), os.pipe()
        commands = undo.enter_context(os.fdopen(ours, "w"))
        lines = undo.enter_context(os.fdopen(answers))

        def run() -> None:
            with os.fdopen(its_lines) as given, os.fdopen(its_answers, "w") as said:
                serve(Application(), given, said)  # type: ignore[arg-type]

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        undo.callback(thread.join)
        undo.callback(commands.close)
        yield commands, lines


def tell(commands: IO[str], **command: Any) -> None:
    print(json.dumps(command), file=commands, flush=True)


def test_a_watch_repeats_its_query_until_the_next_command(channel: tuple[IO[str], IO[str]]) -> None:
    commands, lines = channel
    assert json.loads(lines.readline()) == {"ready": True}
    tell(commands, do="watch", case="orders", table="t")
    assert [json.loads(lines.readline())["content"] for _ in range(3)] == [{"a": [1, 2]}] * 3
    tell(commands, do="rest")
    while (answer := json.loads(lines.readline())) != {"resting": True}:
        assert answer["error"] == ""


def test_a_command_that_fails_is_answered_with_its_reason(channel: tuple[IO[str], IO[str]]) -> None:
    commands, lines = channel
    lines.readline()
    tell(commands, do="content", case="orders", table="t")
    assert json.loads(lines.readline()) == {"failed": "content: no such table"}
    tell(commands, do="shutdown")
    assert json.loads(lines.readline()) == {"failed": "no such command: shutdown"}


def test_an_error_of_a_python_worker_is_named() -> None:
    text = "A worker failed.\nTraceback (most recent call last):\n  File x\nKeyError: 'dt'\n"
    assert _reason(RuntimeError(text)) == "A worker failed.; KeyError: 'dt'"
    assert _reason(ValueError("ValueError: once")) == "ValueError: once"


class Broken(ChildProcess):
    """Starts a program that ends at once."""

    def launch(self, command: Any, **keywords: Any) -> None:
        super().launch(["sh", "-c", "echo out of memory; exit 1"], **keywords)


def test_an_application_that_dies_says_what_it_died_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RemoteApplication, "_all_settings", lambda _: {})
    size = Size(rows=1, scale=1, tpch=tmp_path)
    application = RemoteApplication(CONTENDERS["delta"], warehouse="s3a://b/w", settings={}, hadoop={}, size=size)
    application._process = Broken("Delta", application._process.log_path)
    try:
        with pytest.raises(ContenderError, match="not started"):
            application.call("rest")
        application.launch()
        with pytest.raises(ContenderError, match=r"(?s)Delta ended while it was starting.*out of memory"):
            application.wait_until_ready()
    finally:
        application.stop()
        application.stop()  # a second time does nothing
