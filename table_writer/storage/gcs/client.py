"""Sends requests to Google's JSON API: login, retries, timeouts, and what its errors mean.

The login is Google's own library's. Its client of the store is not used: it sends what is longer than 8 MiB in several
requests, and does not show the clock of the store. ``tests/storage/test_gcs_wire.py`` holds the requests against it.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import google.auth
import requests
import urllib3
from google.auth.exceptions import GoogleAuthError, TransportError
from google.auth.transport.requests import AuthorizedSession
from requests.adapters import HTTPAdapter

from table_writer.errors import InvalidInputError
from table_writer.model.units import MIB
from table_writer.storage.answers import tidy_headers, unreadable
from table_writer.storage.gcs.causes import RefusedError
from table_writer.storage.gcs.settings import (
    GcsSettings,
    LoginFile,
    MachineAccount,
    NoLogin,
    ServiceAccountKey,
    UserLogin,
)
from table_writer.storage.request_settings import pause_seconds

SCOPE: Final = "https://www.googleapis.com/auth/devstorage.read_write"
SCOPE_TO_IMPERSONATE: Final = "https://www.googleapis.com/auth/cloud-platform"
TOKEN_URL: Final = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address
TRANSIENT: Final = frozenset({408, 429, 500, 502, 503, 504})  # Google's list of what to send again
KIND: Final = "X-Kind-Of-Request"  # for the counter; it is never sent
CHUNK_BYTES: Final = MIB


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What the service has answered, with a status of success."""

    headers: Mapping[str, str]
    body: bytes
    where: str

    def json(self) -> dict[str, Any]:
        """Return the document; ``StorageError`` if it is none: a proxy's page is no success."""
        try:
            document = json.loads(self.body)
        except ValueError as error:
            raise unreadable(self.where, "it is no JSON") from error
        if not isinstance(document, dict):
            raise unreadable(self.where, "it is no JSON object")
        return document


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request: what S3 calls its like, and what is sent."""

    kind: str
    method: str
    path: str  # quoted
    where: str  # for people
    query: Mapping[str, str | int] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    data: bytes | Upload | None = None
    is_repeatable: bool = True  # whether it is sent again after a failure that may pass
    refuse_size: Callable[[int], None] | None = None  # raises for an answer that is too long, before it is read


class Upload:
    """The body of an upload: the object's metadata, and its bytes, which are not copied."""

    def __init__(self, metadata: Mapping[str, Any], content: bytes | memoryview) -> None:
        boundary = secrets.token_hex(16)
        self.content_type = f"multipart/related; boundary={boundary}"
        self._head = (
            f"--{boundary}\r\ncontent-type: application/json; charset=UTF-8\r\n\r\n{json.dumps(metadata)}\r\n"
            f"--{boundary}\r\ncontent-type: application/octet-stream\r\n\r\n"
        ).encode()
        self._tail = f"\r\n--{boundary}--".encode()
        self._content = memoryview(content)

    def __len__(self) -> int:
        return len(self._head) + len(self._content) + len(self._tail)

    def __iter__(self) -> Iterator[bytes | memoryview]:
        yield self._head
        for start in range(0, len(self._content), CHUNK_BYTES):
            yield self._content[start : start + CHUNK_BYTES]
        yield self._tail


class GcsClient:
    """Sends requests to one bucket. Safe to use from several threads; a forked process needs one of its own."""

    def __init__(
        self, settings: GcsSettings, count: Callable[[str], None], sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._settings = settings
        self._sleep = sleep
        self._session = _session(settings)
        for protocol in ("http://", "https://"):
            self._session.mount(protocol, _CountingAdapter(count, settings.requests.max_connections))

    def send(self, request: Request) -> Answer:
        """Send a request, again where that may help; ``RefusedError`` tells what became of the last attempt."""
        for attempt in range(self._settings.requests.max_attempts if request.is_repeatable else 1):
            if attempt:
                self._sleep(pause_seconds(attempt - 1))
            try:
                return self._send_once(request)
            except RefusedError as refused:
                failure = refused
                if refused.reason == "login" or (refused.status and refused.status not in TRANSIENT):
                    break  # Google's library has tried a login again by itself
        raise failure

    def _send_once(self, request: Request) -> Answer:
        settings = self._settings
        query = {**request.query, **({"userProject": settings.user_project} if settings.user_project else {})}
        headers = {**request.headers, "Accept-Encoding": "gzip", "User-Agent": "table_writer", KIND: request.kind}
        if isinstance(request.data, Upload):
            headers["Content-Type"] = request.data.content_type
        elif request.data is not None:
            headers["Content-Type"] = "application/json"
        try:
            with self._session.request(
                request.method,
                f"{settings.endpoint_url}{request.path}",
                params=query,
                data=cast("Any", request.data),
                headers=headers,
                timeout=(settings.requests.connect_timeout_seconds, settings.requests.read_timeout_seconds),
                allow_redirects=False,
                stream=True,
            ) as response:
                return _read(response, request)
        except (requests.RequestException, urllib3.exceptions.HTTPError, GoogleAuthError) as error:
            refused = _without_answer(error)
        raise refused  # outside of the handler: the error has the request, and with it the token


def _read(response: requests.Response, request: Request) -> Answer:
    tidy_headers(response.headers)
    is_done = 200 <= response.status_code < 300
    if is_done and request.refuse_size is not None:
        request.refuse_size(int(response.headers.get("Content-Length", 0)))
    is_packed_on_the_way = response.headers.get("X-Goog-Stored-Content-Encoding", "identity") == "identity"
    body = response.raw.read(decode_content=is_packed_on_the_way)
    if is_done:
        return Answer(headers=response.headers, body=body, where=request.where)
    raise _refusal(response.status_code, body)


def _refusal(status: int, body: bytes) -> RefusedError:
    reason, message = "", body.decode(errors="replace")
    try:
        error = json.loads(body)["error"]
        message = str(error["message"])
        reason = str(error["errors"][0]["reason"])
    except (ValueError, LookupError, TypeError):  # a page, or plain text, as answers to reads are
        pass
    return RefusedError(status, reason, " ".join(message.split())[:300].rstrip("."))


def _without_answer(error: Exception) -> RefusedError:
    """Tell why there is no answer; the error itself, which holds the request with its token, is left behind."""
    if isinstance(error, GoogleAuthError):
        may_pass = isinstance(error, TransportError) or error.retryable
        said = str(error.args[0] if error.args else type(error).__name__)
        return RefusedError(0, "token" if may_pass else "login", said.rstrip("."))
    text = str(error) or type(error).__name__
    is_unreached = isinstance(error, requests.ConnectTimeout) or "NewConnectionError" in text or "resolve" in text
    return RefusedError(0, "unreached" if is_unreached else "", text.rstrip("."))


class _CountingAdapter(HTTPAdapter):
    """Counts requests by kind, retries of the login included, and follows no retry of its own."""

    def __init__(self, count: Callable[[str], None], connections: int) -> None:
        super().__init__(pool_maxsize=connections, max_retries=0)
        self._count = count

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        self._count(str(request.headers.pop(KIND)))
        return super().send(request, *args, **options)


def _session(settings: GcsSettings) -> requests.Session:
    if isinstance(settings.credential, NoLogin):
        return requests.Session()
    try:
        scope = SCOPE_TO_IMPERSONATE if settings.impersonated else SCOPE
        credentials = _credentials(settings, scope)
        if settings.impersonated:
            from google.auth import impersonated_credentials  # noqa: PLC0415 - seldom used

            credentials = impersonated_credentials.Credentials(
                source_credentials=credentials, target_principal=settings.impersonated, target_scopes=[SCOPE]
            )
        return AuthorizedSession(credentials)
    except (GoogleAuthError, ValueError, OSError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
    raise InvalidInputError(
        f"no login for Google: {reason}. Set fs.gs.auth.type and what goes with it, or let Google's Application Default"
        " Credentials be found, on this machine and where executors run"
    )


def _credentials(settings: GcsSettings, scope: str) -> Any:
    given = settings.credential
    if isinstance(given, MachineAccount):
        from google.auth import compute_engine  # noqa: PLC0415 - each login loads what it needs

        return compute_engine.Credentials(scopes=[scope])
    if isinstance(given, LoginFile):
        return _of_file(given, scope)
    if isinstance(given, ServiceAccountKey):
        from google.oauth2 import service_account  # noqa: PLC0415

        info = {
            "type": "service_account",
            "client_email": given.email,
            "private_key_id": given.key_id,
            "private_key": given.private_key,
            "token_uri": TOKEN_URL,
        }
        return service_account.Credentials.from_service_account_info(info, scopes=[scope])
    if isinstance(given, UserLogin):
        from google.oauth2 import credentials  # noqa: PLC0415

        return credentials.Credentials(
            token=None,
            refresh_token=given.refresh_token,
            client_id=given.client_id,
            client_secret=given.client_secret,
            token_uri=TOKEN_URL,
        )
    return google.auth.default(scopes=[scope])[0]


def _of_file(given: LoginFile, scope: str) -> Any:
    if not given.is_federated:
        from google.oauth2 import service_account  # noqa: PLC0415

        return service_account.Credentials.from_service_account_file(given.path, scopes=[scope])
    from google.auth import aws, identity_pool  # noqa: PLC0415

    source = json.loads(Path(given.path).read_text()).get("credential_source", {})
    kind = aws if "environment_id" in source else identity_pool  # programs that make tokens are not run
    return kind.Credentials.from_file(given.path, scopes=[scope])
