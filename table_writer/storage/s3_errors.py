"""Where botocore's exceptions end: each becomes an error of this library that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    MetadataRetrievalError,
    NoCredentialsError,
    ProxyConnectionError,
    SSLError,
)

from table_writer.errors import StorageError

__all__ = ["error_code", "http_status", "storage_error", "translated"]

COPY_PERMISSIONS: Final = "s3:PutObject (and s3:GetObject on the file that is copied)"
PERMISSIONS: Final = {
    "PutObject": "s3:PutObject",
    "CreateMultipartUpload": "s3:PutObject",
    "UploadPart": "s3:PutObject",
    "CopyObject": COPY_PERMISSIONS,
    "UploadPartCopy": COPY_PERMISSIONS,
    "CompleteMultipartUpload": "s3:PutObject",
    "AbortMultipartUpload": "s3:AbortMultipartUpload",
    "ListMultipartUploads": "s3:ListBucketMultipartUploads",
    "ListObjectsV2": "s3:ListBucket",
    "GetObject": "s3:GetObject and s3:ListBucket (without the latter, S3 answers 403 for keys that do not exist)",
    "HeadObject": "s3:GetObject and s3:ListBucket (without the latter, S3 answers 403 for keys that do not exist)",
    "DeleteObject": "s3:DeleteObject",
    "DeleteObjects": "s3:DeleteObject",
    "AssumeRole": "sts:AssumeRole",
}
KMS_HINT: Final = "; where objects are encrypted with KMS also kms:GenerateDataKey and kms:Decrypt on the key"

USES_KEYS: Final = frozenset(
    {"CreateMultipartUpload", "PutObject", "UploadPart", "GetObject", "CopyObject", "UploadPartCopy"}
)

DENIED: Final = frozenset({"AccessDenied", "AllAccessDisabled", "AccountProblem", "Forbidden", "403"})
THROTTLED: Final = frozenset({"SlowDown", "ServiceUnavailable", "Throttling", "ThrottlingException", "503", "429"})

_EXPIRED: Final = ("the S3 session token has expired", "Renew it, or use a provider that renews by itself")
_BAD_KEYS: Final = ("S3 does not accept the keys", "Check fs.s3a.access.key, secret.key and session.token")
_BAD_REGION: Final = ("the bucket is in another region", "Set fs.s3a.endpoint.region")

ADVICE: Final = {  # S3's error code: what it means, what to do
    "NoSuchBucket": ("the bucket does not exist at this endpoint", "Check the location and fs.s3a.endpoint"),
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "TokenRefreshRequired": _EXPIRED,
    "InvalidAccessKeyId": _BAD_KEYS,
    "InvalidClientTokenId": _BAD_KEYS,
    "InvalidToken": _BAD_KEYS,
    "SignatureDoesNotMatch": _BAD_KEYS,
    "PermanentRedirect": _BAD_REGION,
    "AuthorizationHeaderMalformed": _BAD_REGION,
    "IllegalLocationConstraintException": _BAD_REGION,
    "InvalidObjectState": ("the object is archived", "Restore it from its storage class first"),
    "RequestTimeTooSkewed": ("the clock of this machine is wrong", "Synchronise it (NTP)"),
}
UNANSWERED: Final[tuple[tuple[tuple[type[BotoCoreError], ...], str, str], ...]] = (  # first match wins
    ((NoCredentialsError,), "no S3 credentials", "Set fs.s3a.access.key and fs.s3a.secret.key, or a provider"),
    ((CredentialRetrievalError, MetadataRetrievalError), "credentials were not renewed", "Check the provider"),
    ((ProxyConnectionError,), "the proxy can't be reached", "Check fs.s3a.proxy.host and fs.s3a.proxy.port"),
    ((SSLError,), "TLS failed", "Check the certificate, or set verify_tls to a CA bundle"),
    ((EndpointConnectionError, ConnectTimeoutError), "S3 can't be reached", "Check fs.s3a.endpoint and the network"),
    ((BotoCoreError,), "S3 failed", "Retry"),
)


@contextmanager
def translated(bucket: str, key: str) -> Iterator[None]:
    """Turn what botocore raises inside into :class:`StorageError`, chained."""
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise storage_error(error, bucket, key) from error


def error_code(error: BotoCoreError | ClientError) -> str:
    """Return S3's error code, for example ``NoSuchKey``; a HEAD has only the HTTP status as text."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""


def http_status(error: BotoCoreError | ClientError) -> int:
    """Return the HTTP status of S3's answer, 0 when there was none."""
    if not isinstance(error, ClientError):
        return 0
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def storage_error(error: BotoCoreError | ClientError, bucket: str, key: str) -> StorageError:
    """Say what failed, on what, and what to do; most specific cause first."""
    where = f"s3://{bucket}/{key}"
    if isinstance(error, ClientError):
        meaning, advice = _meaning(error)
        said = f"{error.operation_name} on {where}: {error_code(error)} (HTTP {http_status(error)}): {_message(error)}"
        return StorageError(f"{meaning}: {said}. {advice}")
    for kinds, meaning, advice in UNANSWERED:
        if isinstance(error, kinds):
            return StorageError(f"{meaning} for {where}: {error}. {advice}")
    raise TypeError(f"not an error of botocore: {error!r}")


def _meaning(error: ClientError) -> tuple[str, str]:
    code, operation = error_code(error), error.operation_name
    if code in DENIED:
        allowed = PERMISSIONS.get(operation, operation)
        kms = KMS_HINT if operation in USES_KEYS else ""
        return "access denied", f"The credentials need {allowed} there{kms}"
    if code in THROTTLED or http_status(error) in {429, 503}:
        return "S3 asks to slow down, also after retries", "Use fewer threads or tasks, or retry later"
    if http_status(error) >= 500:
        return "S3 failed, also after retries", "Retry later"
    return ADVICE.get(code, ("S3 refused", "Retry; if it stays, look the code up in the store's documentation"))


def _message(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Message", "")).rstrip(".") or "no message"
