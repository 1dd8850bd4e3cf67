"""The client of Azure's SDK: login, retries, timeouts, and what its errors mean."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import requests
from azure.core.credentials import AzureSasCredential
from azure.core.exceptions import AzureError, ClientAuthenticationError, ServiceRequestError, ServiceResponseError
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.blob import BlobSasPermissions, ContainerClient, ExponentialRetry, generate_blob_sas
from requests.adapters import HTTPAdapter

from table_writer.errors import InvalidInputError, StorageError
from table_writer.storage.object_store import MAX_GET_BYTES
from table_writer.storage.settings import (
    AccountKey,
    AzureCredential,
    AzureSettings,
    ManagedIdentity,
    SasToken,
    ServicePrincipal,
)

SCOPE: Final = "https://storage.azure.com/.default"
SIGNATURE: Final = re.compile(r"(\bsig=)[^&\s'\"<>)]+", re.IGNORECASE)
LONGEST_COPY: Final = timedelta(hours=1)  # for which a copy may read its source
GET_BYTES: Final = 32 * 2**20  # asked for with one request
FIRST_PAUSE_SECONDS: Final = 0.2  # at most, before a retry; doubled with each
LONGEST_PAUSE_SECONDS: Final = 20.0
ROLES: Final = "Storage Blob Data Contributor, or a SAS token with the permissions racwdl, on the container"
_BAD_LOGIN: Final = (
    "Azure does not accept the login",
    "Check fs.azure.account.key, the SAS token or the OAuth settings",
)
ADVICE: Final = {  # Azure's error code: what it means, what to do
    "AuthenticationFailed": (
        "Azure does not accept the login",
        "Check fs.azure.account.key, the SAS token and its expiry, and the clock of this machine",
    ),
    "InvalidAuthenticationInfo": _BAD_LOGIN,
    "NoAuthenticationInformation": _BAD_LOGIN,
    "KeyBasedAuthenticationNotPermitted": ("the account takes no shared keys", "Use OAuth: fs.azure.account.auth.type"),
    "AuthorizationFailure": (
        "access denied",
        f"The login needs {ROLES}. Check fs.azure.account.key or the token as well, and the account's firewall",
    ),
    "AuthorizationPermissionMismatch": ("access denied", f"The login needs {ROLES}"),
    "AuthorizationProtocolMismatch": ("access denied", "The SAS token is for https alone, or for other addresses"),
    "AuthorizationSourceIPMismatch": ("access denied", "The SAS token is for https alone, or for other addresses"),
    "InsufficientAccountPermissions": ("access denied", f"The login needs {ROLES}"),
    "AccountIsDisabled": ("the account is disabled", "Ask its owner"),
    "ContainerNotFound": ("the container does not exist in this account", "Check the location"),
    "ContainerBeingDeleted": ("the container is being deleted", "Check the location"),
    "BlobArchived": ("the file is archived", "Bring it back to an online tier first"),
    "BlobBeingRehydrated": ("the file is archived", "Wait until it is back in an online tier"),
    "LeaseIdMissing": ("another tool holds a lease on the file", "Let it end, or break the lease"),
    "SnapshotsPresent": ("the file has snapshots, which are not deleted", "Delete them, if nobody needs them"),
    "BlobImmutableDueToPolicy": ("an immutability policy protects the file", "Give the table another container"),
    "InvalidHeaderValue": ("the service is older than the SDK", "Install an older azure-storage-blob"),
}


def make_client(settings: AzureSettings, count: Callable[[str], None]) -> ContainerClient:
    """Make a client of the container that tells ``count`` the kind of every request, retries included."""
    session = requests.Session()
    for protocol in ("http://", "https://"):
        session.mount(protocol, HTTPAdapter(pool_maxsize=settings.max_connections, max_retries=0))
    transport = _Transport(
        count,
        session=session,
        connection_timeout=settings.connect_timeout_seconds,
        read_timeout=settings.read_timeout_seconds,
    )
    retries = settings.max_attempts - 1
    _hide_signatures()
    return ContainerClient(
        settings.account_url,
        settings.container,
        credential=_credential(settings),
        transport=transport,
        retry_policy=_Retry(retry_total=retries, retry_connect=retries, retry_read=retries, retry_status=retries),
        max_single_put_size=MAX_GET_BYTES,  # never in blocks of the SDK's own
        max_single_get_size=GET_BYTES,
        max_chunk_get_size=GET_BYTES,
        user_agent="table_writer",
    )


class _Retry(ExponentialRetry):
    """Pauses as S3's client does: the SDK's own begins with a quarter of a minute."""

    def get_backoff_time(self, settings: dict[str, Any]) -> float:
        longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** int(settings["count"]))
        return random.uniform(0, longest)  # noqa: S311 - so that many clients do not come back together


def _credential(settings: AzureSettings) -> Any:
    given = settings.credential
    if isinstance(given, AccountKey):
        return {"account_name": settings.account, "account_key": given.key}
    if isinstance(given, SasToken):
        return AzureSasCredential(given.token)
    return _token_credential(given)


def _token_credential(given: AzureCredential) -> Any:
    from azure import identity  # noqa: PLC0415 - half a second, and needed for OAuth alone

    try:
        if isinstance(given, ManagedIdentity):
            return identity.ManagedIdentityCredential(client_id=given.client_id or None)
        if not isinstance(given, ServicePrincipal):
            raise InvalidInputError(f"{type(given).__name__} is no login for Azure")
        authority = {"authority": given.authority} if given.authority else {}
        if given.token_file:
            return identity.WorkloadIdentityCredential(
                tenant_id=given.tenant, client_id=given.client_id, token_file_path=given.token_file, **authority
            )
        return identity.ClientSecretCredential(given.tenant, given.client_id, given.secret, **authority)
    except ValueError as error:
        raise InvalidInputError(f"no login for Azure: {without_signatures(str(error))}") from error


class SourceLogin:
    """Lets the store itself read the source of a copy: a signed address, or a token beside it."""

    def __init__(self, settings: AzureSettings, client: ContainerClient) -> None:
        self._settings = settings
        self._client = client

    def of(self, key: str) -> tuple[str, dict[str, Any]]:
        """Return the source's address and what else the request takes; both hold secrets."""
        blob = self._client.get_blob_client(key)
        credential = self._settings.credential
        if isinstance(credential, AccountKey):
            token = generate_blob_sas(
                self._settings.account,
                self._settings.container,
                key,
                account_key=credential.key,
                permission=BlobSasPermissions(read=True),
                expiry=datetime.now(UTC) + LONGEST_COPY,
            )
            return f"{blob.url}?{token}", {}
        if isinstance(credential, SasToken):
            address = blob.url.partition("?")[0]
            return f"{address}?{credential.token}", {}
        bearer = self._client.credential.get_token(SCOPE).token
        return blob.url, {"source_authorization": f"Bearer {bearer}"}


class _Transport(RequestsTransport):  # type: ignore[misc]  # the SDK imports it lazily, without a type
    """Counts requests by kind, and lets no signature of a SAS token into an error: it is a part of every address."""

    def __init__(self, count: Callable[[str], None], **options: Any) -> None:
        super().__init__(**options)
        self._count = count

    def send(self, request: Any, **options: Any) -> Any:
        self._count(kind_of(request.method, request.url, request.headers))
        try:
            return super().send(request, **options)
        except (ServiceRequestError, ServiceResponseError) as error:
            kind, text = type(error), without_signatures(str(error))
        raise kind(text)  # made outside of the handler: it would keep the first one, whose causes have the address


def kind_of(method: str, url: str, headers: Any) -> str:
    """Name a request as S3 names its like, so that reports have one list of kinds.

    Examples
    --------
    >>> kind_of("PUT", "https://mart.blob.core.windows.net/lake/a?comp=block&blockid=MQ", {})
    'UploadPart'
    """
    query = parse_qs(urlsplit(url).query)
    comp = query.get("comp", [""])[0]
    if comp == "list":
        return "ListMultipartUploads" if "uncommittedblobs" in query.get("include", [""])[0] else "ListObjectsV2"
    copied = any(name.lower() == "x-ms-copy-source" for name in headers)
    return {
        ("PUT", "block"): "UploadPartCopy" if copied else "UploadPart",
        ("PUT", "blocklist"): "CompleteMultipartUpload",
        ("GET", "blocklist"): "ListParts",
        ("PUT", ""): "CopyObject" if copied else "PutObject",
        ("GET", ""): "GetObject",
        ("HEAD", ""): "HeadObject",
        ("DELETE", ""): "DeleteObject",
    }.get((method, comp), f"{method} {comp}".strip())


def without_signatures(text: str) -> str:
    """Return a text without what makes a SAS token valid.

    Examples
    --------
    >>> without_signatures("GET /lake/a?sv=2026-10-06&sig=hush%3D&sp=r failed")
    'GET /lake/a?sv=2026-10-06&sig=…&sp=r failed'
    """
    return SIGNATURE.sub(r"\1…", text)


class _Unsigned(logging.Filter):
    """Takes signatures out of the debug log of urllib3, which names every address."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.args and "sig=" in record.getMessage().lower():
            record.msg, record.args = without_signatures(record.getMessage()), ()
        return True


_UNSIGNED: Final = _Unsigned()


def _hide_signatures() -> None:
    logging.getLogger("urllib3.connectionpool").addFilter(_UNSIGNED)  # twice is as once


def error_code(error: AzureError) -> str:
    """Return Azure's error code, for example ``BlobNotFound``; empty where there was no answer."""
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or "")


def http_status(error: AzureError) -> int:
    """Return the HTTP status of Azure's answer, 0 when there was none."""
    return int(getattr(error, "status_code", None) or 0)


@contextmanager
def sdk_errors_translated(where: str) -> Iterator[None]:
    """Turn what the SDK raises inside into :class:`StorageError`, chained."""
    try:
        yield
    except AzureError as error:
        raise storage_error(error, where) from error


def storage_error(error: AzureError, where: str) -> StorageError:
    """Say what failed, on what, and what to do; most special cause first.

    The error itself lets go of its response, which holds the request, and with it the login.
    """
    code, status = error_code(error), http_status(error)
    for name in ("response", "model", "exc_value", "exc_traceback", "inner_exception"):
        if hasattr(error, name):
            setattr(error, name, None)
    reason = without_signatures(str(error.message)).partition("\n")[0].rstrip(".") or type(error).__name__
    if status:
        meaning, advice = _meaning_and_advice(code, status)
        return StorageError(f"{meaning}: {where}: {code or 'no code'} (HTTP {status}): {reason}. {advice}")
    if isinstance(error, ClientAuthenticationError):
        return StorageError(f"no token for {where}: {reason}. Check the fs.azure.account.oauth2 settings, and the role")
    if isinstance(error, ServiceRequestError):
        return StorageError(f"Azure can't be reached for {where}: {reason}. Check the location and the network")
    return StorageError(f"Azure failed for {where}: {reason}. Retry")


def _meaning_and_advice(code: str, status: int) -> tuple[str, str]:
    if code in ADVICE:
        return ADVICE[code]
    if status in {401, 403}:
        return "access denied", f"The login needs {ROLES}"
    if status in {429, 503}:
        return "Azure asks to slow down, also after retries", "Use fewer threads or tasks, or retry later"
    if status >= 500:
        return "Azure failed, also after retries", "Retry later"
    return "Azure refused", "Retry; if it stays, look the code up in Azure's documentation"
