"""The runner's side of an application: starts its process, tells it what to do, and surely ends it."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Final

from benchmarks.cases import TASKS, Size
from benchmarks.contenders import Contender
from table_writer.testing.connect import write_spark_conf
from table_writer.testing.embedded import _spark_settings
from table_writer.testing.jars import s3a_jars
from table_writer.testing.processes import LOCALHOST, ChildProcess, LakehouseError, ScratchDirectory

ROOT: Final = Path(__file__).parents[1]
MASTER: Final = "local[2]"
START_SECONDS: Final = 180
COMMAND_SECONDS: Final = 900


class ContenderError(Exception):
    """A contender could not do what it was told, or did it wrong."""


class RemoteApplication:
    """One Spark application in a process of its own.

    Parameters
    ----------
    contender
        Whose settings and statements it has.
    warehouse
        URI of the default database.
    settings
        Spark settings that all applications have beside those of the lakehouse; the contender's own are stronger.
    hadoop
        How to reach the stores.
    size
        How many rows the cases have.
    """

    def __init__(
        self,
        contender: Contender,
        *,
        warehouse: str,
        settings: Mapping[str, str],
        hadoop: Mapping[str, str],
        size: Size,
    ) -> None:
        self._contender = contender
        self._warehouse = warehouse
        self._settings = settings
        self._hadoop = hadoop
        self._size = size
        self._scratch = ScratchDirectory("app")
        self._directory = self._scratch.path
        self._process = ChildProcess(contender.title, self._directory / "application.log")
        self._listener = socket.socket(socket.AF_UNIX)
        self._channel: socket.socket | None = None
        self._lines: IO[str] | None = None

    def _all_settings(self) -> dict[str, str]:
        jars = (*s3a_jars(), *self._contender.jars())
        return _spark_settings(MASTER, self._warehouse, jars, self._hadoop, self._directory) | {
            "spark.app.name": self._contender.name,
            "spark.sql.parquet.compression.codec": "zstd",
            "spark.sql.sources.partitionOverwriteMode": "dynamic",
            "spark.sql.shuffle.partitions": str(TASKS),
            "spark.sql.files.minPartitionNum": str(TASKS),
            "spark.hadoop.fs.s3a.committer.staging.tmp.path": (self._directory / "staging").as_uri(),
            **self._settings,
            **self._contender.settings,
            **self._contender.plugin(),
        }

    def launch(self) -> None:
        """Start the process without waiting for it; the first time, jars are downloaded."""
        write_spark_conf(self._directory, self._all_settings())
        address = self._directory / "channel"
        self._listener.bind(str(address))
        self._listener.listen(1)
        self._listener.setblocking(False)
        environment = os.environ | {
            "SPARK_CONF_DIR": str(self._directory),
            "SPARK_LOCAL_IP": LOCALHOST,
            "SPARK_CONNECT_MODE": "0",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": "pyspark-shell",
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        }
        size = json.dumps(asdict(self._size) | {"tpch": str(self._size.tpch)})
        command = [sys.executable, "-m", "benchmarks.application", str(address), self._contender.name, size]
        self._process.launch(command, directory=ROOT, environment=environment)

    def wait_until_ready(self) -> None:
        """Return when its Spark session is up."""
        try:
            self._process.wait_until_ready(self._accepted, timeout_seconds=START_SECONDS)
            self._receive()
        except LakehouseError as error:
            raise ContenderError(str(error)) from error

    def call(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Let it do something and return its answer.

        Raises
        ------
        ContenderError
            It failed, or the process has ended.
        """
        self._send({"do": do, **arguments})
        return self._receive()

    @contextmanager
    def watching(self, case: str, table: str) -> Iterator[list[dict[str, Any]]]:
        """Let it query a table for the length of the block; the list is filled at the block's end.

        The first query has ended before the block begins, and the last one begins after its end.
        """
        self._send({"do": "watch", "case": case, "table": table})
        seen = [self._receive()]
        yield seen
        self._send({"do": "rest"})
        while not (answer := self._receive()).get("resting"):
            seen.append(answer)

    def stop(self) -> None:
        """End the process and remove its files."""
        for end in filter(None, (self._channel, self._listener)):
            end.close()
        self._process.stop(grace_seconds=1)
        self._scratch.remove()

    def _accepted(self) -> bool:
        try:
            self._channel, _ = self._listener.accept()
        except BlockingIOError:
            return False
        self._channel.settimeout(COMMAND_SECONDS)
        self._lines = self._channel.makefile("r")
        return True

    def _send(self, command: Mapping[str, Any]) -> None:
        if self._channel is None:
            raise ContenderError(f"{self._contender.title}: not started")
        try:
            self._channel.sendall(f"{json.dumps(command)}\n".encode())
        except OSError as error:
            raise ContenderError(f"the application has ended: {self._process._log_tail()}") from error

    def _receive(self) -> dict[str, Any]:
        if self._lines is None:
            raise ContenderError(f"{self._contender.title}: not started")
        try:
            line = self._lines.readline()
        except TimeoutError as error:
            raise ContenderError(f"no answer within {COMMAND_SECONDS} s") from error
        if not line:
            raise ContenderError(f"the application has ended: {self._process._log_tail()}")
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise ContenderError(answer["failed"])
        return answer
