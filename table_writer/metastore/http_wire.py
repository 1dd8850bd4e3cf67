"""Thrift over HTTP, as Hive 4 can serve it: each call is one POST, and says anew who calls.

The status is looked at before Thrift sees anything. A request that was turned away was not carried out; any other
status but 200 says nothing of the call, as no answer does.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, NoReturn

from table_writer.errors import printable
from table_writer.metastore.wire import Layer, ReceivedBytes, Wire, protocol_hint

DEFAULT_PATH: Final = "metastore"
SHOWN_CHARACTERS: Final = 200
CONTENT: Final = "application/x-thrift"
FIXED: Final[Mapping[str, str]] = {"Content-Type": CONTENT, "Accept": CONTENT, "User-Agent": "table_writer"}
TURNED_AWAY: Final = frozenset({401, 404, 405, 411, 413, 414, 415, 429, 431})
"""Before anything was carried out. A gateway that looks into answers may say 400 or 403 after it."""

ADVICE: Final[Mapping[int, str]] = {
    401: "the token (HMS_JWT) is expired, or not of an issuer that the metastore trusts, or it wants one",
    403: "this user may not",
    404: "hive.metastore.client.thrift.http.path is not the metastore's",
    429: "it has too many requests: try again later",
}


class TurnedAwayError(ConnectionError):
    """The server did not take a request: the call was not carried out."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """The path of calls, and headers that say who calls; neither is shown or pickled."""

    path: str
    headers: Callable[[], Mapping[str, str]] = field(repr=False)  # asked for each call: a token may be renewed

    def __reduce__(self) -> NoReturn:
        raise TypeError("what says who calls is not pickled or copied: it may hold a token")


class HttpWire(Layer):
    """A wire whose ``flush`` sends a request and takes in the whole answer."""

    def __init__(self, wire: Wire, request: HttpRequest, host: str) -> None:
        super().__init__(wire)
        self._request = request
        self._host = host
        self._body = io.BytesIO()
        self._answer = io.BytesIO()
        self._is_over = False  # the server closes this connection

    def makefile(self, _: str) -> BinaryIO:
        """Open the received bytes as a file, for ``http.client``."""
        return io.BufferedReader(ReceivedBytes(self._wire))

    def write(self, data: bytes) -> None:
        self._body.write(data)

    def flush(self) -> None:
        """Send the call and receive its answer; ``TurnedAwayError`` if the server did not take it."""
        from http.client import BadStatusLine, HTTPResponse, IncompleteRead, RemoteDisconnected  # noqa: PLC0415

        body, self._body = self._body.getvalue(), io.BytesIO()
        headers = self._request.headers()
        fields = {"Host": self._host, **FIXED, **headers, "Content-Length": str(len(body))}
        lines = [f"POST /{self._request.path.strip('/')} HTTP/1.1", *(f"{name}: {fields[name]}" for name in fields)]
        self._wire.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        try:
            with HTTPResponse(_as_socket(self), method="POST") as response:
                response.begin()
                said = response.read()
                self._is_over = response.will_close
        except RemoteDisconnected:
            raise
        except BadStatusLine as error:  # whose text is what was received
            meant = protocol_hint(self._wire.first_bytes)
            raise ConnectionError(f"the port does not speak HTTP{f': {meant}' if meant else ''}") from error
        except IncompleteRead as error:
            raise ConnectionResetError("the answer over HTTP ends too early") from error
        if response.status != 200:
            self._refuse(response.status, said, headers.values())
        self._answer = io.BytesIO(said)

    def _refuse(self, status: int, said: bytes, secrets: Iterable[str]) -> None:
        """Say what the server said, without what it may have repeated of the headers."""
        text = " ".join(said.decode(errors="replace").split())
        for secret in (word for value in secrets for word in value.split()):
            text = text.replace(secret, "***")
        shown = f" ({printable(text[:SHOWN_CHARACTERS])})" if text else ""
        message = f"HTTP status {status}{shown}{f'; {ADVICE[status]}' if status in ADVICE else ''}"
        if status in TURNED_AWAY:
            self._wire.has_sent = False
            raise TurnedAwayError(message)
        raise ConnectionError(message)

    def read(self, size: int) -> bytes:
        data = self._answer.read(size)
        if not data:
            raise ConnectionResetError("the answer over HTTP ends too early")
        return data

    def is_quiet(self) -> bool:
        return not self._is_over and super().is_quiet()


def _as_socket(wire: HttpWire) -> Any:
    return wire  # of a socket, http.client asks for makefile alone
