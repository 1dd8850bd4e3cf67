"""A proxy in front of an S3 server: counts requests and bytes by kind, and delays each request on its arrival.

It changes nothing: the ``Host`` that a client has signed goes on as it is. A request waits for the latency without
holding up another. Run as a program, a process of its own; the paths below ``/_proxy/``, which no bucket can have, are
for who runs it: ``GET /_proxy/counts`` answers in JSON, ``POST /_proxy/reset?latency_ms=20`` begins anew.

Run: ``python -m benchmarks.proxy --port 9001 --target 127.0.0.1:9000``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, urlsplit

from benchmarks.s3_operations import Request, parse_request

CONTROL: Final = "/_proxy/"
MAX_HEAD_BYTES: Final = 1 << 16
PIECE_BYTES: Final = 1 << 18


@dataclass
class Traffic:
    """What has passed since the last reset."""

    latency_ms: float = 0
    requests: Counter[str] = field(default_factory=Counter)
    sent_bytes: int = 0  # bodies, from clients
    answered_bytes: int = 0  # bodies, to clients
    copied_bytes: int = 0  # inside the store
    unknown_copies: int = 0  # of objects that did not come through here, whose size is not known
    refused: Counter[str] = field(default_factory=Counter)  # answers of 400 and more, by operation and status

    def as_json(self) -> str:
        """Return all figures."""
        return json.dumps(vars(self))


class Sizes:
    """How large the objects are that came through here: what a copy inside the store copies."""

    def __init__(self) -> None:
        self._objects: dict[str, int] = {}
        self._parts: dict[str, dict[int, int]] = {}

    def note(self, request: Request) -> int | None:
        """Remember what a request that succeeded stored; returns how many bytes it copied, ``None`` if unknown."""
        if request.operation == "PutObject":
            self._objects[request.path] = request.object_bytes
        elif request.operation == "UploadPart":
            self._parts.setdefault(request.upload_id, {})[request.part] = request.object_bytes
        elif request.operation == "CompleteMultipartUpload":
            parts = self._parts.pop(request.upload_id, {})
            self._objects.setdefault(request.path, 0)
            self._objects[request.path] = sum(parts.values()) or self._objects[request.path]
        elif request.operation in ("CopyObject", "UploadPartCopy"):
            return self._note_copy(request)
        return 0

    def _note_copy(self, request: Request) -> int | None:
        size = self._objects.get(request.copied_from)
        if request.copied_range is not None:
            size = request.copied_range[1] - request.copied_range[0] + 1
        if size is None:
            return None
        if request.operation == "CopyObject":
            self._objects[request.path] = size
        else:
            self._parts.setdefault(request.upload_id, {})[request.part] = size
        return size


@dataclass(frozen=True, kw_only=True)
class Head:
    """The first lines of a request or an answer."""

    raw: bytes
    start: tuple[str, ...]
    headers: dict[str, str]

    @property
    def chunked(self) -> bool:
        """Whether the body comes in chunks that say their size."""
        return "chunked" in self.headers.get("transfer-encoding", "").lower()

    @property
    def length(self) -> int | None:
        """The body's size, if it is said."""
        return int(self.headers["content-length"]) if "content-length" in self.headers else None

    @property
    def closes(self) -> bool:
        """Whether the connection ends with this message."""
        return self.headers.get("connection", "").lower() == "close"


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """Read up to the empty line; ``None`` if the other side has ended the connection."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    start, *lines = raw.decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Head(raw=raw, start=tuple(start.split(" ", 2)), headers=headers)


async def pass_exactly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, size: int) -> int:
    """Pass so many bytes on, or all there are; returns how many came."""
    left = size
    while left > 0 and (piece := await reader.read(min(left, PIECE_BYTES))):
        writer.write(piece)
        await writer.drain()
        left -= len(piece)
    return size - left


async def pass_chunks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    """Pass a chunked body on as it is; returns how many bytes its chunks held."""
    total = 0
    while True:
        line = await reader.readline()
        writer.write(line)
        size = int(line.split(b";")[0], 16)
        total += size
        if size == 0:
            break
        await pass_exactly(reader, writer, size + 2)  # a line's end follows each chunk
    while (line := await reader.readline()) not in (b"\r\n", b""):  # trailers
        writer.write(line)
    writer.write(line)
    await writer.drain()
    return total


async def pass_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: Head) -> int:
    """Pass on the body that a head announces."""
    if head.chunked:
        return await pass_chunks(reader, writer)
    return await pass_exactly(reader, writer, head.length or 0)


class Proxy:
    """Accepts connections and passes them on, each to a connection of its own."""

    def __init__(self, target_host: str, target_port: int) -> None:
        self._target = (target_host, target_port)
        self._sizes = Sizes()
        self.traffic = Traffic()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what comes over one connection, until one side ends it."""
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        try:
            while (head := await read_head(reader)) is not None:
                if head.start[1].startswith(CONTROL):
                    writer.write(self._control(head.start[1]))
                    await writer.drain()
                    continue
                if server is None or server[0].at_eof():  # it ends idle connections when it likes
                    server = await asyncio.open_connection(*self._target, limit=MAX_HEAD_BYTES)
                if not await self._exchange(head, (reader, writer), server):
                    break
        except ConnectionError:
            pass  # either side went away: both connections end below
        finally:
            for one in filter(None, (writer, server and server[1])):
                one.close()

    async def _exchange(
        self,
        head: Head,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> bool:
        """Pass one request and its answer on; returns whether both connections can go on."""
        method, target, _ = head.start
        request = parse_request(method, target, head.headers)
        traffic = self.traffic  # a reset meanwhile does not get what began before
        traffic.requests[request.operation] += 1
        if traffic.latency_ms:
            await asyncio.sleep(traffic.latency_ms / 1000)
        server[1].write(head.raw)
        body = asyncio.ensure_future(pass_body(client[0], server[1], head))
        try:
            answer = await read_head(server[0])
            while answer is not None and answer.start[1].startswith("1"):  # 100 Continue: the client sends its body
                client[1].write(answer.raw)
                answer = await read_head(server[0])
            if answer is None:
                return False
            status = int(answer.start[1])
            self._note(traffic, request, status)
            client[1].write(answer.raw)
            if method != "HEAD" and status not in (204, 304):
                traffic.answered_bytes += await self._pass_answer(answer, server[0], client[1])
            await client[1].drain()
            if status >= 400 and not body.done() and "expect" in head.headers:
                return False  # refused before the body: the client will not send it
            traffic.sent_bytes += await body
            return not (head.closes or answer.closes)
        finally:
            body.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await body

    @staticmethod
    async def _pass_answer(answer: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        if answer.chunked or answer.length is not None:
            return await pass_body(reader, writer, answer)
        return await pass_exactly(reader, writer, 1 << 62)  # until the server ends the connection

    def _note(self, traffic: Traffic, request: Request, status: int) -> None:
        if status >= 400:
            traffic.refused[f"{request.operation} {status}"] += 1
            return
        copied_bytes = self._sizes.note(request)
        traffic.copied_bytes += copied_bytes or 0
        traffic.unknown_copies += copied_bytes is None

    def _control(self, target: str) -> bytes:
        address = urlsplit(target)
        if address.path == f"{CONTROL}reset":
            self.traffic = Traffic(latency_ms=float(parse_qs(address.query).get("latency_ms", ["0"])[0]))
        body = self.traffic.as_json().encode()
        return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


async def run(port: int, target: str) -> None:
    """Serve until the process is ended."""
    host, _, number = target.rpartition(":")
    proxy = Proxy(host, int(number))
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", port, limit=MAX_HEAD_BYTES)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--target", required=True, help="host:port")
    chosen = parser.parse_args()
    asyncio.run(run(chosen.port, chosen.target))
