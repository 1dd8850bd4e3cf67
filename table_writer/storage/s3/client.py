"""The client of S3: timeouts, retries, checksums, signing.

It is botocore's, as every client of boto3 is. What boto3 itself adds, transfers of files, is not used here, and to
import it takes each Python worker a tenth of a second.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import logging
import os
import random
import re
from typing import TYPE_CHECKING, Any, Final

import botocore.session
from botocore import UNSIGNED
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, ProfileNotFound, ReadTimeoutError
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from table_writer.errors import InvalidInputError
from table_writer.model.location import without_login
from table_writer.storage.answers import tidy_headers
from table_writer.storage.s3.causes import PLAIN_WORDS, UnreadableAnswerError, is_throttled
from table_writer.storage.s3.credentials import RotatedCredentials, resolve
from table_writer.storage.s3.settings import S3Settings

logger = logging.getLogger(__name__)
LONGEST_PAUSE_SECONDS: Final = 20.0  # as of botocore's own retries
MOST_WORDS: Final = 200  # bytes of a refusal that is no document
PAGE: Final = re.compile(rb"\s*(<!--.*?-->\s*)*<(!doctype\s+)?html", re.IGNORECASE | re.DOTALL)
PAGES_OF_PORTALS: Final = frozenset({200, 204, 206, 404})  # what would pass for an answer that S3 has given
DOCUMENT: Final = re.compile(rb"<(\w+:)?(\w+Result|Error)\b")  # the root of an answer; 200 may come before an error
ANSWERED_BY_DOCUMENTS: Final = frozenset(
    {
        *("ListObjectsV2", "ListMultipartUploads", "DeleteObjects", "CopyObject"),
        *("CreateMultipartUpload", "UploadPartCopy", "CompleteMultipartUpload"),
    }
)
UNREADABLE: Final = (  # of botocore's parser, for what it does not expect
    *(ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError),
    ResponseParserError,
    HTTPError,  # of urllib3, while the body of a refusal is read
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
        look = functools.partial(resolve, settings.credentials, bucket=settings.bucket, region=region)
        first = look()
        credentials = None if first is None else RotatedCredentials(first, look)
        if credentials is not None:
            vars(session)["_credentials"] = credentials  # set_credentials takes only keys, which can't be renewed
        session.register("creating-client-class.s3", _with_readable_answers)
        create: Any = session.create_client  # its types know no service
        client_at = functools.partial(
            create,
            "s3",
            region_name=region,
            verify=None if settings.verify_tls is True else settings.verify_tls,  # None: AWS_CA_BUNDLE counts
            config=_config(settings, anonymous=credentials is None),
        )
        client: S3Client = client_at(endpoint_url=settings.endpoint_url or None)
        if "@" in client.meta.endpoint_url:  # of AWS_ENDPOINT_URL or a profile: errors and log lines show it
            client = client_at(endpoint_url=without_login(client.meta.endpoint_url))
    except InvalidInputError:
        raise
    except (BotoCoreError, ClientError, ValueError) as error:  # a login may ask STS
        check = ". Check AWS_PROFILE, or name a profile: --profile NAME" if isinstance(error, ProfileNotFound) else ""
        raise InvalidInputError(f"no S3 client for bucket {settings.bucket}: {error}{check}") from error
    client.meta.events.register("needs-retry.s3", functools.partial(_say_unanswered, settings))
    client.meta.events.register("needs-retry.s3", functools.partial(_retry_throttled, settings))
    if credentials is not None:
        client.meta.events.register("needs-retry.s3", credentials.retry_with_others)
    client.meta.events.register("before-parse.s3", _tidy_answer)
    if settings.checksum is None:
        client.meta.events.register("before-sign.s3.DeleteObjects", _sign_with_md5)
    return client


def write_arguments(settings: S3Settings) -> dict[str, Any]:
    """Return the arguments that both ways of creating an object take: encryption, ACL, storage class."""
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
        connect_timeout=settings.requests.connect_timeout_seconds,
        read_timeout=settings.requests.read_timeout_seconds,
        max_pool_connections=settings.requests.max_connections,
        retries={"mode": "standard", "total_max_attempts": settings.requests.max_attempts},
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
    most = settings.requests.max_attempts
    if isinstance(caught_exception, ReadTimeoutError | ConnectTimeoutError) and attempts < most:
        logger.warning(
            "S3 did not answer %s on bucket %s, attempt %d of %d: %s",
            operation.name,
            settings.bucket,
            attempts,
            most,
            caught_exception,
        )


def _retry_throttled(settings: S3Settings, *, response: Any, attempts: int, **_: object) -> Any:
    """Try again what botocore does not know to be throttled: codes of KMS behind S3, HTTP 429, a lock that is held."""
    if response is None or attempts >= settings.requests.max_attempts:
        return None
    code = str(response[1].get("Error", {}).get("Code", ""))
    if not is_throttled(code) and code != "OperationAborted" and response[0].status_code != 429:
        return None
    return min(LONGEST_PAUSE_SECONDS, random.random() * 2 ** (attempts - 1))  # noqa: S311 - no secret; seconds


def _tidy_answer(
    operation_model: Any, response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object
) -> None:
    """Tidy the headers, and keep a refusal that is no document of S3: botocore would leave only its status.

    Refuse what no store has sent: a page of a proxy that says 200, or 404, and an answer whose head was cut short.
    botocore takes such a listing for an empty one, and such a change for done.
    """
    tidy_headers(response_dict["headers"])
    body, status, headers = response_dict.get("body"), response_dict["status_code"], response_dict["headers"]
    is_page = isinstance(body, bytes) and PAGE.match(body) is not None
    if operation_model.name == "HeadObject":  # which shows no page but its length; moto's own has none
        is_page = "text/html" in headers.get("Content-Type", "") and headers.get("Content-Length", "0") != "0"
    if is_page and status in PAGES_OF_PORTALS:
        raise ResponseParserError(f"a page of HTML, with status {status}: a proxy or a portal has sent it")
    if operation_model.name == "PutObject" and status == 200 and body and "ETag" not in headers:
        raise ResponseParserError("it says more than S3 does, and gives no ETag: a proxy or a portal has sent it")
    if operation_model.name in ANSWERED_BY_DOCUMENTS and status == 200 and not DOCUMENT.search(body or b""):
        raise ResponseParserError("it is no document of S3, or was cut short")
    if response_dict["status_code"] >= 400 and isinstance(body, bytes) and b"<" not in body[:MOST_WORDS]:
        customized_response_dict[PLAIN_WORDS] = body[:MOST_WORDS].decode(errors="replace").strip()


class _ReadableAnswers:
    """Base of a client: an answer that botocore cannot read is an error of botocore, as all others are."""

    def _make_api_call(self, operation_name: str, api_params: dict[str, Any]) -> Any:
        try:
            return super()._make_api_call(operation_name, api_params)  # type: ignore[misc]  # of the client's own base
        except UNREADABLE as error:
            if isinstance(error, BotoCoreError | InvalidInputError):
                raise
            raise UnreadableAnswerError(operation=operation_name, reason=f"{type(error).__name__}: {error}") from error


def _with_readable_answers(**event: Any) -> None:
    event["base_classes"].insert(0, _ReadableAnswers)


def _sign_with_md5(request: AWSRequest, **_: object) -> None:
    """Send ``Content-MD5`` with a batch delete, as stores want it that know no CRC32."""
    for name in list(request.headers):
        if name.lower().startswith(("x-amz-checksum-", "x-amz-sdk-checksum")):
            del request.headers[name]
    body = request.body if isinstance(request.body, bytes) else b""
    digest = hashlib.md5(body, usedforsecurity=False).digest()
    request.headers["Content-MD5"] = base64.b64encode(digest).decode()
