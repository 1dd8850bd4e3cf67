"""Stands between the store and the emulator: loses answers, delays, repeats and replays requests, as a test says."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final, Literal

from table_writer.storage.gcs.settings import GCS_UPLOADS, GcsSettings, NoLogin
from table_writer.storage.gcs.store import GcsStore
from table_writer.storage.request_settings import RequestSettings
from table_writer.testing.processes import LOCALHOST
from tests.bare_server import BareServer, Request, read_request
from tests.bare_server import http as spelled

Fate = Literal["lost", "held", "repeated"]
FATES: Final[tuple[Fate, ...]] = ("lost", "held", "repeated")
CHANGES: Final = ("part", "put", "compose", "rewrite", "delete")


def kind_of(request: Request) -> str:
    """Return what a request does."""
    path = request.path.partition("?")[0]
    if path.startswith("/upload/"):
        name = json.loads(re.findall(rb"\r\n\r\n(\{.*?\})\r\n--", request.body)[0])["name"]
        return "part" if name.startswith(GCS_UPLOADS) else "put"
    if request.method == "DELETE":
        return "delete"
    if request.method == "POST":
        return "compose" if path.endswith("/compose") else "rewrite"
    return "read"


class GcsProxy:
    """Forwards requests to an emulator; what becomes of the next ones is in ``fates``, by kind."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._lock = threading.Lock()
        self.fates: dict[str, deque[Fate]] = {}
        self.before: dict[str, Callable[[], object]] = {}  # done once, before a request of a kind is forwarded
        self.held: list[Request] = []
        self.history: list[Request] = []
        self.random: Random | None = None  # decides, where a test has no fates
        self.server = BareServer(self._converse)

    def store(self, bucket: str, **timeouts: float) -> GcsStore:
        """Return a store whose requests go through here."""
        url = f"http://{LOCALHOST}:{self.server.port}"
        requests = RequestSettings(max_attempts=3, **{"read_timeout_seconds": 10, **timeouts})
        settings = GcsSettings(bucket=bucket, endpoint_url=url, credential=NoLogin(), requests=requests)
        return GcsStore(settings, sleep=lambda _: None)

    def let(self, kind: str, *fates: Fate) -> None:
        """Decide what becomes of the next requests of a kind."""
        self.fates[kind] = deque(fates)

    def release(self) -> None:
        """Forward what was held, late, and in the order in which it came."""
        held, self.held = self.held, []
        for request in held:
            self.forward(request)

    def replay(self, *kinds: str) -> None:
        """Forward once more what was forwarded or held so far."""
        for request in [one for one in self.history if kind_of(one) in kinds]:
            self.forward(request)

    def forward(self, request: Request) -> bytes:
        """Send a request to the emulator and return the whole answer."""
        connection = http.client.HTTPConnection(LOCALHOST, self._port, timeout=20)
        try:
            headers = {name: value for name, value in request.headers.items() if name != "connection"}
            connection.request(request.method, request.path, request.body, headers)
            answer = connection.getresponse()
            body = answer.read()
            kept = {name: value for name, value in answer.getheaders() if name.lower() != "transfer-encoding"}
            return spelled(answer.status, body, {**kept, "Content-Length": str(len(body))})
        finally:
            connection.close()

    def _converse(self, end: socket.socket) -> tuple[str, bytes] | None:
        request = read_request(end)
        if request is None:
            return None
        kind = kind_of(request)
        with self._lock:
            self.history.append(request)
            action = self.before.pop(kind, None)
            fates = self.fates.get(kind)
            fate = fates.popleft() if fates else None
            if self.random is not None and kind in CHANGES and self.random.random() < 0.3:
                fate = self.random.choice(FATES)
        if action is not None:
            action()
        if fate == "held":
            self.held.append(request)
            return None
        answer = self.forward(request)
        if fate == "lost":
            return None
        return kind, self.forward(request) if fate == "repeated" else answer
