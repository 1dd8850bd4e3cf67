"""Bytes to a metastore and back: the socket, what a login puts around it, and what a server seems to speak."""

from __future__ import annotations

import io
import socket
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

SILENT_SECONDS: Final = 10.0  # after which somebody is told that an answer is still being waited for
THRIFT: Final = b"\x80\x01"  # how an answer begins
SASL_REFUSALS: Final = (b"\3", b"\4")  # how the frame of a failed handshake begins
BEGINNING_BYTES: Final = 5


class LoginError(ConnectionError):
    """No login: the text says why and what helps, and holds nothing secret; no call was sent.

    ``everywhere``: the reason lies at this end, and another address would not help.
    """

    def __init__(self, message: str, *, everywhere: bool = False) -> None:
        super().__init__(message)
        self.everywhere = everywhere


class ClosedError(ConnectionResetError):
    """The server has ended the connection in order."""


class Stream(ABC):
    """The methods that Thrift's buffered and framed transports call on the transport below them."""

    has_sent: bool
    """True once a byte of a call may have left; each call sets it to false first."""

    @abstractmethod
    def read(self, size: int) -> bytes:
        """Receive up to ``size`` bytes, at least one."""

    def readAll(self, size: int) -> bytes:  # noqa: N802 - Thrift's name
        """Receive exactly ``size`` bytes."""
        chunks = []
        while size > 0:
            chunks.append(self.read(size))
            size -= len(chunks[-1])
        return b"".join(chunks)

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Send all bytes, or keep them for ``flush``."""

    def flush(self) -> None:  # noqa: B027 - most keep nothing
        """Send what was kept."""

    @abstractmethod
    def hint(self) -> str:
        """Say, after a failure, what the server speaks instead, or might; empty if it was understood."""

    @abstractmethod
    def is_quiet(self) -> bool:
        """Return whether the connection is open with nothing to read: neither closed by the server nor out of step."""

    @abstractmethod
    def idle_seconds(self) -> float:
        """Return how long ago the last byte was sent or received."""

    @abstractmethod
    def close(self) -> None:
        """Close the socket, however it stands."""


class Wire(Stream):
    """An open socket with the few methods that Thrift's buffered and framed transports ask of the one below.

    Thrift's own ``TSocket`` logs a traceback for every refused connection, hides the cause in exceptions of its own,
    copies what is left of a big message at each send, and does not say whether it began to send.
    """

    def __init__(self, handle: socket.socket, on_silence: Callable[[float], None]) -> None:
        self._socket = handle
        self._on_silence = on_silence
        self._used_at_seconds = time.monotonic()
        self.first_bytes = b""  # of all that was received
        self.has_sent = False

    @classmethod
    def connect(
        cls,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None,
        connect_timeout_seconds: float,
        timeout_seconds: float,
        on_silence: Callable[[float], None] = lambda _: None,
    ) -> Wire:
        """Open a connection; any failure is an ``OSError``.

        ``on_silence`` is called with the whole timeout once an answer has not come for ten seconds.
        """
        handle = socket.create_connection((host, port), timeout=connect_timeout_seconds)
        try:
            handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if tls is not None:
                handle = tls.wrap_socket(handle, server_hostname=host)
            handle.settimeout(timeout_seconds)
        except BaseException:  # Ctrl-C as well: no socket stays open
            handle.close()
            raise
        return cls(handle, on_silence)

    @contextmanager
    def answer_timeout(self, seconds: float) -> Iterator[None]:
        """Wait that long for each answer, for a while."""
        usual = self._socket.gettimeout()
        self._socket.settimeout(seconds)
        yield
        self._socket.settimeout(usual)

    def hint(self) -> str:
        """Say, after a failure, what the server speaks instead, or might; empty if it has spoken Thrift."""
        if not self.first_bytes:
            return (
                " and has answered nothing: if it does so each time, its port may want TLS (set"
                " hive.metastore.use.SSL=true) or a login (set hive.metastore.sasl.enabled=true)"
            )
        return (
            "" if self.first_bytes[:2] == THRIFT else f"; {meant}" if (meant := protocol_hint(self.first_bytes)) else ""
        )

    def is_quiet(self) -> bool:
        timeout = self._socket.gettimeout()
        try:
            self._socket.settimeout(0)
            self._socket.recv(1)  # an end, or a byte that no call waits for
        except (BlockingIOError, ssl.SSLWantReadError):
            self._socket.settimeout(timeout)
            return True
        except OSError:
            return False
        return False

    def idle_seconds(self) -> float:
        return time.monotonic() - self._used_at_seconds

    def read(self, size: int) -> bytes:
        data = self._receive(min(size, 1 << 20))
        if not data:
            raise ClosedError("the server closed the connection")
        if len(self.first_bytes) < BEGINNING_BYTES:
            self.first_bytes += data[:BEGINNING_BYTES]
        self._used_at_seconds = time.monotonic()
        return data

    def _receive(self, size: int) -> bytes:
        """Wait as long as the timeout says, and tell of it after the first seconds of silence."""
        timeout = self._socket.gettimeout()
        if timeout is None or timeout <= SILENT_SECONDS:
            return self._socket.recv(size)
        try:
            with suppress(TimeoutError):
                self._socket.settimeout(SILENT_SECONDS)
                return self._socket.recv(size)
            self._on_silence(timeout)
            self._socket.settimeout(timeout - SILENT_SECONDS)
            return self._socket.recv(size)
        finally:
            self._socket.settimeout(timeout)

    def write(self, data: bytes) -> None:
        """Send all bytes; the timeout is for each piece that the system takes."""
        self.has_sent = True
        left = memoryview(data)
        while left:
            left = left[self._socket.send(left) :]
        self._used_at_seconds = time.monotonic()

    def close(self) -> None:
        self._socket.close()


class Layer(Stream):
    """Something around a wire."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    @property
    def has_sent(self) -> bool:
        return self._wire.has_sent

    @has_sent.setter
    def has_sent(self, value: bool) -> None:
        self._wire.has_sent = value

    def hint(self) -> str:
        return ""

    def is_quiet(self) -> bool:
        return self._wire.is_quiet()

    def idle_seconds(self) -> float:
        return self._wire.idle_seconds()

    def close(self) -> None:
        self._wire.close()


class ReceivedBytes(io.RawIOBase):
    """The bytes of a wire as a file, which ends where the server has ended the connection in order."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self._wire = wire

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._wire.read(len(buffer))
        except ClosedError:
            return 0
        buffer[: len(data)] = data
        return len(data)


def protocol_hint(beginning: bytes) -> str:
    """Say what a server speaks and which setting it wants, going by how its answer begins; empty if nobody knows.

    Examples
    --------
    >>> protocol_hint(bytes([21, 3, 3, 0, 2]))
    'the port speaks TLS: set hive.metastore.use.SSL=true, and metastore_ca_file'
    """
    if beginning[:2] == b"\x15\x03":  # a TLS alert
        return "the port speaks TLS: set hive.metastore.use.SSL=true, and metastore_ca_file"
    if beginning[:4] == b"HTTP":
        return "the port speaks HTTP: set hive.metastore.client.thrift.transport.mode=http"
    if beginning[:1] in SASL_REFUSALS and beginning[1:3] == b"\0\0":
        return (
            "the port wants a login by SASL: set hive.metastore.sasl.enabled=true and hive.metastore.kerberos.principal"
        )
    if beginning[:2] == THRIFT:
        return "the port speaks Thrift without SASL: set hive.metastore.sasl.enabled=false"
    return ""
