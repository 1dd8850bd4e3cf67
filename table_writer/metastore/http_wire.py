"""Thrift over HTTP, as Hive 4 can serve it: each call is one POST, and says anew who calls.

The status is looked at before Thrift sees anything. A request that was turned away was not carried out; any other
status but 200 says nothing of the call, as no answer does.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPResponse
from typing import BinaryIO, Final, Protocol

DEFAULT_PATH: Final = "metastore"
SHOWN_CHARACTERS: Final = 200
CONTENT: Final = "application/x-thrift"
FIXED: Final[Mapping[str, str]] = {"Content-Type": CONTENT, "Accept": CONTENT, "User-Agent": "table_writer"}
TURNED_AWAY: Final = frozenset(
    {400, 401, 403, 404, 405, 411, 413, 414, 415, 429, 431}
)  # before anything was carried out
ADVICE: Final[Mapping[int, str]] = {
    401: "the token (HMS_JWT) is expired, or not of an issuer that the metastore trusts, or it wants one",
    403: "this user may not",
    404: "hive.metastore.client.thrift.http.path is not the metastore's",
}


class TurnedAwayError(ConnectionError):
    """The server did not take a request: the call was not carried out."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """Where calls go and what says who calls; the repr does not show that."""

    host: str
    path: str
    headers: Mapping[str, str] = field(repr=False)

    def head(self, size: int) -> bytes:
        """Return a request up to its body."""
        fields = {"Host": self.host, **FIXED, **self.headers, "Content-Length": str(size)}
        lines = [f"POST /{self.path.strip('/')} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


class Bytes(Protocol):
    """What HTTP asks of the wire below it."""

    sent: bool

    def makefile(self, mode: str) -> BinaryIO:
        """Open the received bytes as a file, for ``http.client``."""

    def write(self, data: bytes) -> None:
        """Send all bytes."""

    def is_quiet(self) -> bool:
        """Whether the connection is open with nothing to read."""

    def idle_seconds(self) -> float:
        """Return how long ago the last byte was sent or received."""

    def close(self) -> None:
        """Close the socket."""


class HttpWire:
    """A wire whose ``flush`` sends a request and takes in the whole answer."""

    def __init__(self, wire: Bytes, request: HttpRequest) -> None:
        self._wire = wire
        self._request = request
        self._body = io.BytesIO()
        self._answer = io.BytesIO()
        self._is_over = False  # the server closes this connection

    @property
    def sent(self) -> bool:
        """Whether any byte of a call may have left since this was last set to false."""
        return self._wire.sent

    @sent.setter
    def sent(self, value: bool) -> None:
        self._wire.sent = value

    def write(self, data: bytes) -> None:
        """Keep a part of a call."""
        self._body.write(data)

    def flush(self) -> None:
        """Send the call and receive its answer; ``TurnedAwayError`` if the server did not take it."""
        body, self._body = self._body.getvalue(), io.BytesIO()
        self._wire.write(self._request.head(len(body)) + body)
        with HTTPResponse(self._wire, method="POST") as response:  # type: ignore[arg-type]  # it asks for makefile alone
            response.begin()
            said = response.read()
            self._is_over = response.will_close
        if response.status != 200:
            self._refuse(response.status, said)
        self._answer = io.BytesIO(said)

    def _refuse(self, status: int, said: bytes) -> None:
        text = " ".join(said.decode(errors="replace").split())[:SHOWN_CHARACTERS]
        advice = f"; {ADVICE[status]}" if status in ADVICE else ""
        message = f"HTTP status {status}{f' ({text})' if text else ''}{advice}"
        if status in TURNED_AWAY:
            self._wire.sent = False
            raise TurnedAwayError(message)
        raise ConnectionError(message)

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes of the answer, at least one."""
        data = self._answer.read(size)
        if not data:
            raise ConnectionResetError("the answer over HTTP ends too early")
        return data

    def readAll(self, size: int) -> bytes:  # noqa: N802 - Thrift's name
        """Return exactly ``size`` bytes."""
        chunks = []
        while size > 0:
            chunks.append(self.read(size))
            size -= len(chunks[-1])
        return b"".join(chunks)

    def hint(self) -> str:
        """Say nothing: the status has said it."""
        return ""

    def is_quiet(self) -> bool:
        """Whether the connection is open with nothing to read."""
        return not self._is_over and self._wire.is_quiet()

    def idle_seconds(self) -> float:
        """Return how long ago the last byte was sent or received."""
        return self._wire.idle_seconds()

    def close(self) -> None:
        """Close the socket, however it stands."""
        self._wire.close()
