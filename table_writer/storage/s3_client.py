"""The boto3 client: timeouts, retries, checksums, signing."""

from __future__ import annotations

import base64
import functools
import hashlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import boto3
import botocore.session
from botocore import UNSIGNED
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import AssumeRoleCredentialFetcher, Credentials, RefreshableCredentials
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    MetadataRetrievalError,
    NoCredentialsError,
    ProfileNotFound,
    ProxyConnectionError,
    ReadTimeoutError,
    SSLError,
    SSOError,
    TokenRetrievalError,
)

from table_writer.errors import InvalidInputError, StorageError
from table_writer.model.location import without_login
from table_writer.storage.settings import AssumedRole, CredentialSource, Profile, Provider, S3Settings, StaticKeys

logger = logging.getLogger(__name__)
MACHINE_METHODS: Final = frozenset({"iam-role", "container-role"})
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
WHERE_KEYS_COME_FROM: Final = (
    "AWS_PROFILE or --profile, or AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or fs.s3a.access.key"
)
RENEW: Final = (
    "Renew it where it comes from, AWS_SESSION_TOKEN, fs.s3a.session.token or a profile (`aws sso login --profile"
    " NAME`), or use a provider that renews by itself"
)
_EXPIRED: Final = ("the S3 session token has expired", RENEW)
_BAD_KEYS: Final = (
    "S3 does not accept the keys",
    f"Check secret and session token too, where the keys come from: {WHERE_KEYS_COME_FROM}",
)
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

NO_KEYS: Final = (
    "Set fs.s3a.access.key and fs.s3a.secret.key, or a provider; a Spark Connect session hides keys, so there set"
    " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give access_key and secret_key in the writer's config"
)
LOGIN: Final = "Log in again (`aws sso login --profile NAME`), or name another profile: AWS_PROFILE, or --profile NAME"
UNANSWERED: Final[tuple[tuple[tuple[type[BotoCoreError], ...], str, str], ...]] = (  # first match wins
    ((NoCredentialsError,), "no S3 credentials", NO_KEYS),
    ((SSOError, TokenRetrievalError), "the login of AWS has expired", LOGIN),
    ((CredentialRetrievalError, MetadataRetrievalError), "credentials were not renewed", "Check the provider"),
    ((ProxyConnectionError,), "the proxy can't be reached", "Check fs.s3a.proxy.host and fs.s3a.proxy.port"),
    ((SSLError,), "TLS failed", "Check the certificate, or set verify_tls to a CA bundle"),
    ((EndpointConnectionError, ConnectTimeoutError), "S3 can't be reached", "Check fs.s3a.endpoint and the network"),
    (
        (ReadTimeoutError,),
        "S3 has not answered",
        "Check the endpoint and the network; it may take fs.s3a.connection.timeout, fs.s3a.attempts.maximum times",
    ),
    ((BotoCoreError,), "S3 failed", "Retry"),
)

if TYPE_CHECKING:
    from botocore.config import _S3Dict
    from mypy_boto3_s3 import S3Client

DEFAULT_REGION: Final = "us-east-1"


def make_client(settings: S3Settings) -> S3Client:
    """Make a client with the first credentials that can be had."""
    region = settings.region or os.environ.get("AWS_REGION", "")
    try:
        session = botocore.session.Session()
        region = region or session.get_config_variable("region") or DEFAULT_REGION
        credentials = resolve(settings.credentials, bucket=settings.bucket, region=region)
        if credentials is not None:
            vars(session)["_credentials"] = credentials  # set_credentials takes only keys, which can't be renewed
        client_at = functools.partial(
            boto3.Session(botocore_session=session, region_name=region).client,
            "s3",
            verify=None if settings.verify_tls is True else settings.verify_tls,  # None: AWS_CA_BUNDLE counts
            config=_config(settings, anonymous=credentials is None),
        )
        client: S3Client = client_at(endpoint_url=settings.endpoint_url or None)
        if "@" in client.meta.endpoint_url:  # of AWS_ENDPOINT_URL or a profile: errors and log lines show it
            client = client_at(endpoint_url=without_login(client.meta.endpoint_url))
    except InvalidInputError:
        raise
    except (BotoCoreError, ValueError) as error:
        check = ". Check AWS_PROFILE, or name a profile: --profile NAME" if isinstance(error, ProfileNotFound) else ""
        raise InvalidInputError(f"no S3 client for bucket {settings.bucket}: {error}{check}") from error
    client.meta.events.register("needs-retry.s3", functools.partial(_say_unanswered, settings))
    if settings.checksum is None:
        client.meta.events.register("before-sign.s3.DeleteObjects", _sign_with_md5)
    return client


def write_arguments(settings: S3Settings) -> dict[str, Any]:
    """Return what both ways of creating an object take: encryption, ACL, storage class."""
    arguments = {
        "ServerSideEncryption": settings.encryption,
        "SSEKMSKeyId": settings.kms_key_id,
        "SSEKMSEncryptionContext": settings.kms_context,
        "ACL": settings.acl,
        "StorageClass": settings.storage_class,
    }
    return {name: value for name, value in arguments.items() if value}


def _config(settings: S3Settings, *, anonymous: bool) -> Config:
    s3: _S3Dict = {"addressing_style": "path" if settings.path_style else "auto"}
    if settings.checksum and not settings.endpoint_url.startswith("http://"):
        s3["payload_signing_enabled"] = False  # TLS and the CRC guard the bytes: no SHA-256 of every part on top
    options: dict[str, Any] = {"signature_version": UNSIGNED} if anonymous else {}
    if settings.proxy_url:
        options["proxies"] = {"http": settings.proxy_url, "https": settings.proxy_url}
    if settings.fips:
        options["use_fips_endpoint"] = True
    return Config(
        s3=s3,
        connect_timeout=settings.connect_timeout_seconds,
        read_timeout=settings.read_timeout_seconds,
        max_pool_connections=settings.max_connections,
        retries={"mode": "standard", "total_max_attempts": settings.max_attempts},
        request_checksum_calculation="when_supported" if settings.checksum else "when_required",
        response_checksum_validation="when_supported" if settings.checksum else "when_required",
        tcp_keepalive=True,
        user_agent_extra="table_writer",
        **options,
    )


def _say_unanswered(
    settings: S3Settings, *, operation: Any, caught_exception: Exception | None, attempts: int, **_: object
) -> None:
    """Give a sign of life while a store does not answer: botocore tries again for minutes without a word."""
    if isinstance(caught_exception, ReadTimeoutError | ConnectTimeoutError) and attempts < settings.max_attempts:
        logger.warning(
            "S3 did not answer %s on bucket %s, attempt %d of %d: %s",
            operation.name,
            settings.bucket,
            attempts,
            settings.max_attempts,
            caught_exception,
        )


def _sign_with_md5(request: AWSRequest, **_: object) -> None:
    """Send ``Content-MD5`` with a batch delete, as stores want it that know no CRC32."""
    for name in list(request.headers):
        if name.lower().startswith(("x-amz-checksum-", "x-amz-sdk-checksum")):
            del request.headers[name]
    body = request.body if isinstance(request.body, bytes) else b""
    digest = hashlib.md5(body, usedforsecurity=False).digest()
    request.headers["Content-MD5"] = base64.b64encode(digest).decode()


def resolve(sources: Sequence[CredentialSource], *, bucket: str, region: str) -> Credentials | None:
    """Return the first credentials that can be had, ``None`` for anonymous access.

    Raises ``InvalidInputError``, with what was tried, if no source can provide; ``StorageError`` if STS refused a role.
    """
    tried = []
    for source in sources:
        if source is Provider.ANONYMOUS:
            return None
        try:
            found = _load(source, bucket=bucket, region=region)
        except (BotoCoreError, ClientError) as error:  # passed over, as in S3A's own list
            tried.append(f"{_name(source)}: {error}")
            continue
        if found is not None:
            return found
        tried.append(f"{_name(source)}: nothing there")
    raise InvalidInputError(
        f"no S3 credentials for bucket {bucket} (tried {'; '.join(tried)}). Set fs.s3a.access.key and "
        "fs.s3a.secret.key, or fs.s3a.aws.credentials.provider, or give access_key and "
        "secret_key, or profile, in the writer's config. Without Spark also: AWS_PROFILE, or --profile NAME of the"
        " command, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
    )


def _load(source: CredentialSource, *, bucket: str, region: str) -> Credentials | None:
    if isinstance(source, StaticKeys):
        return Credentials(source.access_key, source.secret_key, source.session_token or None)
    if isinstance(source, AssumedRole):
        return _assume(source, bucket=bucket, region=region)
    if isinstance(source, Profile):
        # always named, since botocore lets environment keys win over a profile that it finds by itself
        profile = _session(region, source.name or os.environ.get("AWS_PROFILE") or "default").get_credentials()
        return None if profile is not None and profile.method in MACHINE_METHODS else profile  # a machine's own role
    session = _session(region)
    loaded: Credentials | None = (
        session.get_credentials()
        if source is Provider.DEFAULT_CHAIN
        else session.get_component("credential_provider").get_provider(source.value).load()
    )
    return loaded


def _name(source: CredentialSource) -> str:
    """Return what a message calls it: ``InstanceMetadata``, ``Profile``."""
    return source.name.title().replace("_", "") if isinstance(source, Provider) else type(source).__name__


def _session(region: str, profile: str | None = None) -> botocore.session.Session:
    session = botocore.session.Session(profile=profile)
    session.set_config_variable("region", region)
    return session


def _assume(source: AssumedRole, *, bucket: str, region: str) -> Credentials:
    base = resolve(source.sources, bucket=bucket, region=region)
    if base is None:
        raise InvalidInputError("an assumed role cannot be taken anonymously: fs.s3a.assumed.role.credentials.provider")
    arguments = {
        "RoleSessionName": source.session_name,
        "DurationSeconds": source.duration_seconds,
        "Policy": source.policy,
        "ExternalId": source.external_id,
    }
    session = _session(region)
    create: Callable[..., Any] = functools.partial(
        session.create_client, region_name=source.sts_region or region, endpoint_url=source.sts_endpoint_url or None
    )
    fetcher = AssumeRoleCredentialFetcher(
        client_creator=create,
        source_credentials=base,
        role_arn=source.arn,
        extra_args={name: value for name, value in arguments.items() if value},
    )
    try:
        metadata = fetcher.fetch_credentials()
    except (BotoCoreError, ClientError) as error:
        raise storage_error(error, bucket, "") from error
    return RefreshableCredentials.create_from_metadata(metadata, fetcher.fetch_credentials, "assume-role")


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
        message = str(error.response.get("Error", {}).get("Message", "")).rstrip(".") or "no message"
        said = f"{error.operation_name} on {where}: {error_code(error)} (HTTP {http_status(error)}): {message}"
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
        return "access denied", f"The credentials need {allowed} there{kms}. Others come from {WHERE_KEYS_COME_FROM}"
    if code in THROTTLED or http_status(error) in {429, 503}:
        return "S3 asks to slow down, also after retries", "Use fewer threads or tasks, or retry later"
    if http_status(error) >= 500:
        return "S3 failed, also after retries", "Retry later"
    return ADVICE.get(code, ("S3 refused", "Retry; if it stays, look the code up in the store's documentation"))
