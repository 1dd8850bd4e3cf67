"""What all contenders share: one S3 server, the counting proxy in front of it, one metastore, and generated files."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from benchmarks.audit import AuditLog
from benchmarks.cases import TASKS
from benchmarks.remote import ROOT
from table_writer.testing.choices import S3ServerName
from table_writer.testing.jars import s3a_jars
from table_writer.testing.processes import LOCALHOST, ChildProcess, LakehouseError, ReservedPort, ScratchDirectory
from table_writer.testing.servers import MetastoreServer, S3Server, _find_versitygw

COUNTED_BUCKET: Final = "counted"  # every application reaches it through the proxy, and the other one directly
PROXY_START_SECONDS: Final = 30


def best_server() -> S3ServerName:
    """Return versitygw if it is installed, else moto."""
    try:
        _find_versitygw()
    except LakehouseError:
        return "moto"
    return "versitygw"


class CountingProxy:
    """The process of :mod:`benchmarks.proxy`."""

    def __init__(self, target: str, directory: Path) -> None:
        self._port = ReservedPort()
        self._process = ChildProcess("counting proxy", directory / "proxy.log")
        command = [sys.executable, "-m", "benchmarks.proxy", "--port", str(self._port.number)]
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        environment = os.environ | {"PYTHONPATH": path}
        self._process.launch([*command, "--target", target], directory=directory, environment=environment)
        self._process.wait_until_ready(self._answers, timeout_seconds=PROXY_START_SECONDS)

    @property
    def endpoint_url(self) -> str:
        """Where clients find it."""
        return f"http://{LOCALHOST}:{self._port.number}"

    def reset(self, latency_ms: float = 0) -> None:
        """Count anew, and delay each request from now on."""
        self._ask("POST", f"/_proxy/reset?latency_ms={latency_ms}")

    def traffic(self) -> dict[str, Any]:
        """Return what has passed since the last reset."""
        return self._ask("GET", "/_proxy/counts")

    def stop(self) -> None:
        """End the process."""
        self._process.stop()
        self._port.release()

    def _answers(self) -> bool:
        try:
            self.traffic()
        except OSError:
            return False
        return True

    def _ask(self, method: str, path: str) -> dict[str, Any]:
        with closing(http.client.HTTPConnection(LOCALHOST, self._port.number, timeout=10)) as connection:
            connection.request(method, path)
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
        return answer


class Servers:
    """All of them, running; a context manager that stops them."""

    def __init__(self, server: S3ServerName) -> None:
        with ExitStack() as undo:
            scratch = ScratchDirectory("bench")
            undo.callback(scratch.remove)
            self.directory = scratch.path
            self.s3 = undo.enter_context(S3Server(server))
            self.client = undo.enter_context(closing(self.s3.client()))
            self.client.create_bucket(Bucket=COUNTED_BUCKET)
            self.proxy = CountingProxy(self.s3.endpoint_url.removeprefix("http://"), self.directory)
            undo.callback(self.proxy.stop)
            self.warehouse = f"s3a://{self.s3.bucket}/warehouse"
            audit_log = self.directory / "audit.log"
            settings = self.hadoop_settings(counted=True)  # its own requests count: it makes directories
            self.metastore = undo.enter_context(
                MetastoreServer(warehouse=self.warehouse, settings=settings, jars=s3a_jars(), audit_log=audit_log)
            )
            self.audit = AuditLog(audit_log)
            self._undo = undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._undo.close()

    def hadoop_settings(self, *, counted: bool) -> dict[str, str]:
        """Return how to reach the buckets: the second one through the proxy, or both directly."""
        through = {f"fs.s3a.bucket.{COUNTED_BUCKET}.endpoint": self.proxy.endpoint_url} if counted else {}
        return self.s3.hadoop_settings() | through

    def location(self, table: str, *, counted: bool) -> str:
        """Return where a table lies."""
        return f"s3a://{COUNTED_BUCKET if counted else self.s3.bucket}/warehouse/{table.rpartition('.')[2]}"

    def sizes(self, bucket: str, prefix: str) -> dict[str, int]:
        """Return the objects below a prefix."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return {found["Key"]: found["Size"] for page in pages for found in page.get("Contents", [])}

    def clear(self) -> None:
        """Delete the tables' objects: memory is where they are."""
        for bucket in (self.s3.bucket, COUNTED_BUCKET):
            keys = sorted(self.sizes(bucket, "warehouse/"), reverse=True)
            for start in range(0, len(keys), 1000):
                batch = [{"Key": key} for key in keys[start : start + 1000]]
                self.client.delete_objects(Bucket=bucket, Delete={"Objects": batch, "Quiet": True})


def generate_lineitem(directory: Path, scale: float) -> None:
    """Let TPC-H's generator make its largest table, in a file for each task."""
    found = shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent)) or shutil.which("tpchgen-cli")
    if found is None:
        raise SystemExit("the case lineitem needs TPC-H's generator: pip install tpchgen-cli")
    command = [found, "parquet", "-s", str(scale), "--tables=lineitem", f"--parts={TASKS}", f"--output-dir={directory}"]
    subprocess.run(command, check=True, capture_output=True, text=True)
