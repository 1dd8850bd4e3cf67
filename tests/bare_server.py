"""A bare socket on the other side of a gateway: what it sends, when, and how the connection ends, is up to a test."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from types import MappingProxyType
from typing import Final, Literal, Self

from table_writer.testing.processes import LOCALHOST

PAGE: Final = b"<html><head><title>Gateway</title></head><body><p>Please log in</p></body></html>"
Fault = Literal[
    "cut in its first line",
    "cut in its head",
    "cut after its head",
    "cut in its body",
    "nothing",
    "reset",
    "late",
    "twice",
    "page 200",
    "page 404",
    "page 502",
    "page 407",
]
OF_PROXIES: Final[tuple[Fault, ...]] = ("page 200", "page 404", "page 502", "page 407")  # the store has not heard it
UNANSWERED: Final[tuple[Fault, ...]] = ("nothing", "reset", "cut in its first line")  # whether it has, nobody knows


def page(status: int) -> bytes:
    """Return a proxy's answer, as a portal or a firewall gives it."""
    head = f"HTTP/1.1 {status} Said The Proxy\r\nContent-Type: text/html\r\nContent-Length: {len(PAGE)}\r\n\r\n"
    return head.encode() + PAGE


@dataclass
class Request:
    """A request of HTTP; ``headers`` by their names in small letters."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


def read_request(end: socket.socket) -> Request | None:
    """Read a request whole; there is none at the end of a connection."""
    received = b""
    while b"\r\n\r\n" not in received:
        more = end.recv(1 << 16)
        if not more:
            return None
        received += more
    head, _, body = received.partition(b"\r\n\r\n")
    line, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
    if headers.get("expect"):
        end.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    while len(body) < int(headers.get("content-length", 0)):
        body += end.recv(1 << 16)
    method, path, _ = line.split(" ")
    return Request(method, path, headers, body)


def http(
    status: int, body: bytes, headers: Mapping[str, str] = MappingProxyType({}), *, has_body: bool = True
) -> bytes:
    """Spell an answer, dated now."""
    named = {"Date": formatdate(usegmt=True), "Content-Length": str(len(body)), **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status} Said\r\n{lines}\r\n".encode() + body * has_body


@dataclass
class BareServer:
    """Accepts connections; ``converse`` reads one request and returns its honest answer, ``None`` at the end.

    The answers to the requests that ``is_hit`` chooses get the fault: the first of them, or all. ``late_seconds`` is
    how long a late one takes; it is sent nevertheless.
    """

    converse: Callable[[socket.socket], tuple[str, bytes] | None]
    late_seconds: float = 0.4
    fault: Fault | None = None
    hit: str = ""  # the request that it comes with
    always: bool = False
    heard: list[str] = field(default_factory=list)
    _open: set[socket.socket] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._listener = socket.create_server((LOCALHOST, 0))
        self.port = int(self._listener.getsockname()[1])
        self._stopped = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread
        self._listener.close()
        self.disconnect()

    def fails(self, hit: str, fault: Fault, *, always: bool = False) -> None:
        """Let an answer fail from now on."""
        self.hit, self.fault, self.always = hit, fault, always
        self.heard.clear()

    def disconnect(self) -> None:
        """End all open connections, as a server does with idle ones; new ones are accepted."""
        for end in tuple(self._open):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def hits(self, name: str) -> bool:
        """Whether the answer to this request will get the fault."""
        return self.fault is not None and name == self.hit

    def _accept(self) -> None:
        while True:
            try:
                end, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(end,), daemon=True).start()

    def _serve(self, end: socket.socket) -> None:
        self._open.add(end)
        with end, suppress(OSError):
            while (asked := self.converse(end)) is not None:
                name, answer = asked
                self.heard.append(name)
                fault = self.fault if self.hits(name) else None
                if fault is not None and not self.always:
                    self.fault = None
                if not self._send(end, answer, fault):
                    return

    def _send(self, end: socket.socket, answer: bytes, fault: Fault | None) -> bool:
        """Send what becomes of an answer; returns whether the connection stays open."""
        head = answer.find(b"\r\n\r\n") + 4 if b"\r\n\r\n" in answer else len(answer) // 2
        cuts = {
            "cut in its first line": 7,
            "cut in its head": answer.find(b"\r\n") + 2 if b"\r\n" in answer else 12,
            "cut after its head": head,
            "cut in its body": (head + len(answer)) // 2,
            "nothing": 0,
        }
        if fault == "reset":
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        if fault in cuts:
            end.sendall(answer[: cuts[fault]])
            return False
        if fault == "late":
            self._stopped.wait(self.late_seconds)
        if fault is not None and fault.startswith("page"):
            answer = page(int(fault.removeprefix("page ")))
        end.sendall(answer * (2 if fault == "twice" else 1))
        return True
