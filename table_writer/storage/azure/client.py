"""The client of Azure's SDK: login, retries, timeouts, and what its errors mean."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import requests
from azure.core.credentials import AzureSasCredential
from azure.core.exceptions import ServiceRequestError, ServiceResponseError
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.blob import BlobSasPermissions, ContainerClient, ExponentialRetry, generate_blob_sas
from requests.adapters import HTTPAdapter

from table_writer.errors import InvalidInputError
from table_writer.model.units import MIB
from table_writer.storage.azure.causes import without_signatures
from table_writer.storage.azure.settings import (
    AccountKey,
    AzureCredential,
    AzureSettings,
    ManagedIdentity,
    SasToken,
    ServicePrincipal,
)
from table_writer.storage.object_store import MAX_GET_BYTES
from table_writer.storage.request_settings import pause_seconds

SCOPE: Final = "https://storage.azure.com/.default"
LONGEST_COPY: Final = timedelta(hours=1)  # for which a copy may read its source
GET_BYTES: Final = 32 * MIB  # asked for with one request


def make_client(settings: AzureSettings, count: Callable[[str], None]) -> ContainerClient:
    """Make a client of the container that tells ``count`` the kind of every request, retries included."""
    session = requests.Session()
    for protocol in ("http://", "https://"):
        session.mount(protocol, HTTPAdapter(pool_maxsize=settings.requests.max_connections, max_retries=0))
    transport = _Transport(
        count,
        session=session,
        connection_timeout=settings.requests.connect_timeout_seconds,
        read_timeout=settings.requests.read_timeout_seconds,
    )
    retries = settings.requests.max_attempts - 1
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
        return pause_seconds(int(settings["count"]))


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


class _Unsigned(logging.Filter):
    """Takes signatures out of the debug log of urllib3, which names every address."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.args and "sig=" in record.getMessage().lower():
            record.msg, record.args = without_signatures(record.getMessage()), ()
        return True


_UNSIGNED: Final = _Unsigned()


def _hide_signatures() -> None:
    logging.getLogger("urllib3.connectionpool").addFilter(_UNSIGNED)  # twice is as once
