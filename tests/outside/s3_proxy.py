"""A proxy before an S3 endpoint that behaves as another store, or another network, does."""

from __future__ import annotations

import http.client
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Final
from urllib.parse import parse_qs, urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

HOP_BY_HOP: Final = frozenset({"connection", "expect", "transfer-encoding", "content-length", "keep-alive"})
SIGNATURE: Final = frozenset({"authorization", "x-amz-date", "x-amz-content-sha256"})


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request as it comes."""

    method: str
    path: str  # with the query
    headers: Mapping[str, str]
    body: bytes

    @property
    def query(self) -> dict[str, str]:
        """The parameters, each once."""
        return {name: values[0] for name, values in parse_qs(urlsplit(self.path).query, keep_blank_values=True).items()}

    @property
    def lists(self) -> bool:
        """Whether it asks for a page of objects."""
        return self.method == "GET" and self.query.get("list-type") == "2"

    def without(self, *headers: str) -> Asked:
        """Return the request without some headers."""
        return replace(self, headers={name: text for name, text in self.headers.items() if name.lower() not in headers})


@dataclass(frozen=True, kw_only=True)
class Told:
    """An answer as it goes back."""

    status: int = 200
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""


Forward = Callable[[Asked], Told]
Behaviour = Callable[[Asked, Forward], Told]


def refusal(status: int, code: str, message: str = "") -> Told:
    """Return an error as S3 words it."""
    body = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return Told(status=status, headers=(("Content-Type", "application/xml"),), body=body.encode())


def signed(asked: Asked, headers: dict[str, str], target_url: str, keys: tuple[str, str]) -> dict[str, str]:
    """Return the headers with the signature of what is sent."""
    kept = {name: text for name, text in headers.items() if name.lower() not in SIGNATURE}
    request = AWSRequest(method=asked.method, url=target_url + asked.path, headers=kept, data=asked.body)
    request.headers.replace_header("Host", urlsplit(target_url).netloc)
    S3SigV4Auth(Credentials(*keys), "s3", "us-east-1").add_auth(request)
    return dict(request.headers.items())


def forward(target_url: str, keys: tuple[str, str] | None, asked: Asked) -> Told:
    """Ask the real endpoint."""
    connection = http.client.HTTPConnection(urlsplit(target_url).netloc, timeout=60)
    headers = {name: text for name, text in asked.headers.items() if name.lower() not in HOP_BY_HOP}
    if keys is not None:
        headers = signed(asked, headers, target_url, keys)
    if asked.body or asked.method in ("PUT", "POST"):
        headers["Content-Length"] = str(len(asked.body))
    connection.request(asked.method, asked.path, asked.body or None, headers)
    answer = connection.getresponse()
    kept = [(name, text) for name, text in answer.getheaders() if name.lower() not in HOP_BY_HOP]
    if asked.method == "HEAD" and (length := answer.getheader("Content-Length")):
        kept.append(("Content-Length", length))
    told = Told(status=answer.status, headers=kept, body=answer.read())
    connection.close()
    return told


@dataclass
class S3Proxy:
    """Where clients are to be sent to, and what they have asked."""

    url: str
    asked: list[Asked] = field(default_factory=list)


@contextmanager
def s3_proxy(target_url: str, behaviour: Behaviour, keys: tuple[str, str] | None = None) -> Iterator[S3Proxy]:
    """Run a proxy; ``behaviour`` answers each request, and may ask the real endpoint.

    What it changes there needs a signature of its own, with access key and secret key.
    """
    proxy = S3Proxy("")
    ask = partial(forward, target_url, keys)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked = Asked(method=self.command, path=self.path, headers=dict(self.headers.items()), body=body)
            proxy.asked.append(asked)
            told = behaviour(asked, ask)
            self.send_response_only(told.status)
            for name, text in told.headers:
                self.send_header(name, text)
            if not any(name.lower() == "content-length" for name, _ in told.headers):
                self.send_header("Content-Length", str(len(told.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(told.body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer  # noqa: N815

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, *_: object) -> None:
            """Keep quiet of clients that have gone."""

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield proxy
        server.shutdown()
