"""The socket under Thrift: raises plain ``OSError``, and remembers whether anything was sent."""

from __future__ import annotations

import socket
import ssl
import time

__all__ = ["Wire"]


class Wire:
    """An open socket with the few methods that Thrift's buffered and framed transports ask of the one below.

    Thrift's own ``TSocket`` logs a traceback for every refused connection, hides the cause in exceptions of its own,
    copies what is left of a big message at each send, and does not say whether it began to send.

    Parameters
    ----------
    handle
        A connected socket with its timeout set.
    """

    def __init__(self, handle: socket.socket) -> None:
        self._socket = handle
        self._used_at_seconds = time.monotonic()
        self.sent = False
        """Whether any byte may have left since this was last set to false."""

    @classmethod
    def connect(
        cls, host: str, port: int, *, tls: ssl.SSLContext | None, connect_timeout_seconds: float, timeout_seconds: float
    ) -> Wire:
        """Open a connection; any failure is an ``OSError``."""
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
        return cls(handle)

    def is_quiet(self) -> bool:
        """Whether the connection is open with nothing to read: neither closed by the server nor out of step."""
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
        """Return how long ago the last byte was sent or received."""
        return time.monotonic() - self._used_at_seconds

    def read(self, size: int) -> bytes:
        """Receive up to ``size`` bytes, at least one."""
        data = self._socket.recv(min(size, 1 << 20))
        if not data:
            raise ConnectionResetError("the server closed the connection")
        self._used_at_seconds = time.monotonic()
        return data

    def readAll(self, size: int) -> bytes:  # noqa: N802 - Thrift's name
        """Receive exactly ``size`` bytes."""
        chunks = []
        while size > 0:
            chunks.append(self.read(size))
            size -= len(chunks[-1])
        return b"".join(chunks)

    def write(self, data: bytes) -> None:
        """Send all bytes; the timeout is for each piece that the system takes."""
        self.sent = True
        left = memoryview(data)
        while left:
            left = left[self._socket.send(left) :]
        self._used_at_seconds = time.monotonic()

    def flush(self) -> None:
        """Do nothing: writes are not held back."""

    def close(self) -> None:
        """Close the socket, however it stands."""
        self._socket.close()
