"""Run something in a real fork of this process, and two servers that tell their connections apart."""

from __future__ import annotations

import http.server
import os
import select
import signal
import socketserver
import threading
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TFileObjectTransport, TTransportException

PATIENCE_SECONDS = 30.0  # a child that hangs is ended, and the test fails


class Child:
    """A fork that runs one function; what that returns, as text, or raises, comes back through a pipe."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._answer, mine = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                text = f"={work()}"
            except BaseException:  # noqa: BLE001 - all that happens in the child is for the parent to judge
                text = traceback.format_exc()
            with suppress(BaseException):
                os.write(mine, text.encode()[:60_000])
            os._exit(0)  # not one line of the test runs twice
        os.close(mine)

    def answer(self) -> str:
        readable, _, _ = select.select([self._answer], [], [], PATIENCE_SECONDS)
        if not readable:
            os.kill(self.pid, signal.SIGKILL)
        with os.fdopen(self._answer, "rb") as pipe:
            text = pipe.read().decode()
        os.waitpid(self.pid, 0)
        assert readable, "the child hangs"
        assert text.startswith("="), text
        return text[1:]


def in_child(work: Callable[[], object]) -> str:
    return Child(work).answer()


class _Server:
    """Answers from threads; notes for each call from which connection (the client's port) it came.

    A call whose name is in ``held`` is answered once its event is set; ``arrived`` says that one is there.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[int, str]] = []
        self.ended: list[int] = []
        self.held: dict[str, threading.Event] = {}
        self.arrived: defaultdict[str, threading.Event] = defaultdict(threading.Event)

    def ports(self, name: str = "") -> set[int]:
        return {port for port, called in self.calls if name in called}

    def note(self, port: int, name: str) -> None:
        self.calls.append((port, name))
        self.arrived[name].set()
        if name in self.held:
            assert self.held[name].wait(PATIENCE_SECONDS)

    @contextmanager
    def busy_with(self, name: str, call: Callable[[], object]) -> Iterator[list[object]]:
        """Keep another thread waiting for an answer to ``call`` as long as the block lasts; then it gets it."""
        answers: list[object] = []
        self.held[name] = threading.Event()
        thread = threading.Thread(target=lambda: answers.append(call()), daemon=True)
        thread.start()
        assert self.arrived[name].wait(PATIENCE_SECONDS)
        try:
            yield answers
        finally:
            self.held.pop(name).set()
            thread.join()


class MetastoreOfNames(_Server):
    """A Thrift metastore of partitioned tables, each with one partition that is named after the table."""

    def __init__(self, location: str) -> None:
        super().__init__()
        self._location = location
        self._port = threading.local()
        fake = self
        processor = ThriftHiveMetastore.Processor(self)

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                fake._port.number = self.client_address[1]
                reading = TBinaryProtocol(TFileObjectTransport(self.rfile))
                writing = TBinaryProtocol(TFileObjectTransport(self.wfile))
                with suppress(TTransportException, EOFError, OSError):
                    while self.rfile.peek(1):
                        processor.process(reading, writing)
                fake.ended.append(self.client_address[1])

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.uri = f"thrift://127.0.0.1:{self.server.server_address[1]}"

    def set_ugi(self, user: str, groups: list[str]) -> list[str]:
        return groups

    def get_partition_names(self, database: str, table: str, limit: int) -> list[str]:
        self.note(self._port.number, table)
        return [f"dt={table}"]

    def _storage(self, path: str) -> ttypes.StorageDescriptor:
        serde = ttypes.SerDeInfo(serializationLib="ParquetHiveSerDe", parameters={})
        return ttypes.StorageDescriptor(cols=[], location=f"{self._location}/{path}", serdeInfo=serde)

    def get_partitions_by_names(self, database: str, table: str, names: list[str]) -> list[ttypes.Partition]:
        self.note(self._port.number, table)
        storage = self._storage(f"{table}/dt={table}")
        return [ttypes.Partition(values=[table], dbName=database, tableName=table, sd=storage, parameters={})]

    def get_table_req(self, request: Any) -> ttypes.GetTableResult:
        self.note(self._port.number, request.tblName)
        storage = self._storage(request.tblName)
        return ttypes.GetTableResult(
            ttypes.Table(
                tableName=request.tblName,
                dbName=request.dbName,
                createTime=1,
                tableType="EXTERNAL_TABLE",
                sd=storage,
                partitionKeys=[ttypes.FieldSchema("dt", "string", None)],
                parameters={},
            )
        )


class StoreOfNames(_Server):
    """An S3 endpoint where each object holds its own name."""

    def __init__(self) -> None:
        super().__init__()
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                name = self.path.rpartition("/")[2]
                fake.note(self.client_address[1], name)
                self.send_response(200)
                for header, value in (("ETag", '"e"'), ("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")):
                    self.send_header(header, value)
                self.send_header("Content-Length", str(len(name)))
                self.end_headers()
                self.wfile.write(name.encode())

            def log_message(self, *_: object) -> None:
                """Keep quiet."""

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@contextmanager
def serving(fake: Any) -> Iterator[Any]:
    fake.server.daemon_threads = True
    fake.server.block_on_close = False
    thread = threading.Thread(target=fake.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        fake.server.shutdown()
        fake.server.server_close()
        thread.join()
