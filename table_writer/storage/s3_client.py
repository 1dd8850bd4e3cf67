"""The boto3 client: timeouts, retries, checksums, signing."""

from __future__ import annotations

import base64
import hashlib
import os
from typing import TYPE_CHECKING, Any, Final

import boto3
import botocore.session
from botocore import UNSIGNED
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from table_writer.errors import InvalidInputError
from table_writer.storage.credentials import resolve
from table_writer.storage.settings import S3Settings

if TYPE_CHECKING:
    from botocore.config import _S3Dict
    from mypy_boto3_s3 import S3Client

__all__ = ["make_client", "write_arguments"]

DEFAULT_REGION: Final = "us-east-1"


def make_client(settings: S3Settings) -> S3Client:
    """Make a client with the first credentials that can be had.

    Raises
    ------
    InvalidInputError
        No credential source can provide, or botocore refuses the settings.
    """
    region = settings.region or os.environ.get("AWS_REGION", "")
    try:
        session = botocore.session.Session()
        region = region or session.get_config_variable("region") or DEFAULT_REGION
        credentials = resolve(settings.credentials, bucket=settings.bucket, region=region)
        if credentials is not None:
            vars(session)["_credentials"] = credentials  # set_credentials takes only keys, which can't be renewed
        client = boto3.Session(botocore_session=session, region_name=region).client(
            "s3",
            endpoint_url=settings.endpoint_url or None,
            verify=None if settings.verify_tls is True else settings.verify_tls,  # None: AWS_CA_BUNDLE counts
            config=_config(settings, anonymous=credentials is None),
        )
    except InvalidInputError:
        raise
    except (BotoCoreError, ValueError) as error:
        raise InvalidInputError(f"no S3 client for bucket {settings.bucket}: {error}") from error
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


def _sign_with_md5(request: AWSRequest, **_: object) -> None:
    """Send ``Content-MD5`` with a batch delete, as stores want it that know no CRC32."""
    for name in [
        name for name in request.headers if name.lower().startswith(("x-amz-checksum-", "x-amz-sdk-checksum"))
    ]:
        del request.headers[name]
    body = request.body if isinstance(request.body, bytes) else b""
    digest = hashlib.md5(body, usedforsecurity=False).digest()
    request.headers["Content-MD5"] = base64.b64encode(digest).decode()
