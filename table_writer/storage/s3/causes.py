"""Causes of failures at S3, or on the way to it, each with the setting that mends it: one table."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    MetadataRetrievalError,
    NoCredentialsError,
    ProxyConnectionError,
    ReadTimeoutError,
    SSLError,
    SSOError,
    TokenRetrievalError,
)

from table_writer.errors import StorageError
from table_writer.storage.answers import LOOK_AT_PROXIES, time_in
from table_writer.storage.causes import Cause, Failure, as_error, last_rows
from table_writer.storage.s3.permissions import needed

KMS_HINT: Final = "; where objects are encrypted with KMS also kms:GenerateDataKey and kms:Decrypt on the key"
USES_KEYS: Final = frozenset(
    {"CreateMultipartUpload", "PutObject", "UploadPart", "GetObject", "CopyObject", "UploadPartCopy"}
)

WRITES: Final = frozenset(
    {"PutObject", "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "CopyObject", "UploadPartCopy"}
)
COPIES: Final = frozenset({"CopyObject", "UploadPartCopy"})
DENIED: Final = frozenset({"AccessDenied", "AllAccessDisabled", "AccountProblem", "Forbidden", "403"})
EXPIRED: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"})
REFUSED_KEYS: Final = frozenset(
    {
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "UnrecognizedClientException",
        "InvalidToken",
        "SignatureDoesNotMatch",
    }
)
OTHER_REGION: Final = frozenset(
    {"PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
)
THROTTLED: Final = frozenset({"SlowDown", "ServiceUnavailable", "503", "429", "KMS.DependencyTimeoutException"})
PROXY_VARIABLES: Final = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
MOST_SKEW_SECONDS: Final = 900  # from here on S3 refuses requests
PLAIN_WORDS: Final = "PlainWords"  # of an answer: what it says where it is no document of S3
WHERE_KEYS_COME_FROM: Final = (
    "AWS_PROFILE or --profile, or AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or fs.s3a.access.key"
)
CHECKSUM_HEADERS: Final = "x-amz-(sdk-)?(checksum|trailer)|checksum ?algorithm|aws-chunked|payload-trailer|trailing"
NO_CHECKSUMS: Final = "TableWriterConfig(s3=S3Overrides(checksums=False)) sends no x-amz-checksum headers"


class UnreadableAnswerError(BotoCoreError):
    """An answer that botocore could not read, and for which it has no error of its own."""

    fmt = "the answer to {operation} cannot be read ({reason})"


class S3Failure(Failure):
    """A request to S3 that failed."""

    __slots__ = ()

    @classmethod
    def of(cls, error: BotoCoreError | ClientError) -> S3Failure:
        """Read an error of botocore."""
        if not isinstance(error, ClientError):
            return cls(message=str(error), error=error)
        details: dict[str, Any] = {**error.response.get("Error", {})}
        details[PLAIN_WORDS] = {**error.response}.get(PLAIN_WORDS)
        words = " ".join(str(details[name]) for name in ("Message", "Header", PLAIN_WORDS) if details.get(name))
        return cls(
            code=error_code(error),
            status=http_status(error),
            message=words,
            operation=error.operation_name,
            headers=error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {}),
            error=error,
        )

    @property
    def region(self) -> str:
        """The region that the answer names, empty if it names none."""
        expected = re.search(r"expecting '([a-z0-9-]+)'", self.message)
        return self.headers.get("x-amz-bucket-region", "") or (expected[1] if expected else "")

    @property
    def is_late(self) -> bool:
        """Return whether this machine's clock is too far from the store's."""
        moment = time_in(self.headers.get("date", ""))
        return moment is not None and abs((datetime.now(UTC) - moment).total_seconds()) > MOST_SKEW_SECONDS

    @property
    def is_of_a_proxy(self) -> bool:
        """Return whether something on the way has answered, and not the store."""
        signs = {"via", "proxy-agent", "proxy-connection", "proxy-authenticate", "x-squid-error", "x-cache-lookup"}
        is_of_s3 = any(name.startswith("x-amz-") for name in self.headers) or not (self.code.isdigit() or not self.code)
        has_page = "html" in self.headers.get("content-type", "")
        return self.status == 407 or (not is_of_s3 and (has_page or bool(signs & self.headers.keys())))


def _around_proxy(_: S3Failure) -> str:
    named = " or ".join(name for name in PROXY_VARIABLES if os.environ.get(name))
    if not named:
        return "Check fs.s3a.proxy.host and fs.s3a.proxy.port, or the gateway before the endpoint"
    return (
        f"{named} of this process's environment names a proxy, which Spark's own S3A does not use: add the"
        " endpoint's host to NO_PROXY where the driver and executors run, or name the right proxy in fs.s3a.proxy.host"
    )


def _region(failure: S3Failure) -> str:
    named = f"={failure.region}" if failure.region else ""
    return (
        f"Set fs.s3a.endpoint.region{named} (S3Overrides(region=…)), and leave fs.s3a.endpoint out unless it is of that"
        " region: a VPC, FIPS, cn- or us-gov- endpoint takes requests of its own region alone"
    )


def _permission(failure: S3Failure) -> str:
    allowed = needed(failure.operation)
    kms = KMS_HINT if failure.operation in USES_KEYS else ""
    demands = f". {POLICIES}" if failure.operation in WRITES else ""
    copies = f". {NO_COPIES}" if failure.operation in COPIES else ""
    return (
        f"The credentials need {allowed} there{kms}. Others come from {WHERE_KEYS_COME_FROM}. A bucket whose requester"
        f" pays wants fs.s3a.requester.pays.enabled=true{demands}{copies}"
    )


POLICIES: Final = (
    "A bucket policy may demand encryption (fs.s3a.encryption.algorithm, fs.s3a.encryption.key) or an ACL"
    " (fs.s3a.acl.default=BucketOwnerFullControl) with every new object, or TLS, or a VPC endpoint"
)
NO_COPIES: Final = (
    "A policy that enforces If-None-Match forbids all copies: let it except the table's root, or append without copies"
)
RENEW: Final = (
    "Renew it where it comes from, AWS_SESSION_TOKEN, fs.s3a.session.token or a profile (`aws sso login --profile"
    " NAME`), or use a provider that renews by itself. A file is read again at the next request"
)
NO_KEYS: Final = (
    "Set fs.s3a.access.key and fs.s3a.secret.key, or a provider; a Spark Connect session hides keys, so there set"
    " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give access_key and secret_key in the writer's config"
)
LOGIN: Final = "Log in again (`aws sso login --profile NAME`), or name another profile: AWS_PROFILE, or --profile NAME"
CAUSES: Final = (  # the first that fits
    # ---- what is between
    Cause(
        meaning="the endpoint takes TLS alone, and was asked without",
        advice="Write fs.s3a.endpoint with https://, or set fs.s3a.connection.ssl.enabled=true",
        statuses=frozenset({400}),
        message="http request .*to an? https|plain http",
    ),
    Cause(
        meaning="the endpoint is a console, not the store's API",
        advice="Set fs.s3a.endpoint to the port of the S3 API",
        message="api port",
    ),
    Cause(
        meaning="a proxy or gateway has answered, not S3",
        advice=_around_proxy,
        also=lambda failure: failure.status >= 400 and failure.is_of_a_proxy,
    ),
    # ---- headers that are demanded or not known
    Cause(
        meaning="the bucket wants a checksum with each object",
        advice="Leave checksums on: TableWriterConfig(s3=S3Overrides(checksums=True)), which is the default",
        statuses=frozenset({400}),
        message="content-md5.*(required|missing)|object lock|missing.*content-md5",
    ),
    Cause(
        meaning="the store knows no checksum headers",
        advice=NO_CHECKSUMS,
        codes=frozenset({"NotImplemented", "InvalidRequest", "InvalidArgument", "InvalidHeader", "UnsupportedHeader"}),
        statuses=frozenset({400, 501}),
        message=CHECKSUM_HEADERS,
        also=lambda failure: not re.search("mismatch|did not match|not match", failure.message),
    ),
    Cause(
        meaning="the store does not know a header of this request",
        advice=f"If it is one of checksums: {NO_CHECKSUMS}. `table-writer doctor --store` tries what else it lacks",
        codes=frozenset({"NotImplemented"}),
        statuses=frozenset({501}),
        operations=WRITES | {"DeleteObjects"},
    ),
    Cause(
        meaning="the bucket takes no ACLs",
        advice="Unset fs.s3a.acl.default: its owner owns all objects anyway",
        codes=frozenset({"AccessControlListNotSupported"}),
    ),
    Cause(
        meaning="the KMS key cannot be used",
        advice="Check fs.s3a.encryption.key: it must be there, enabled, and of the bucket's region",
        codes=frozenset({"KMS.NotFoundException", "KMS.DisabledException", "KMS.KMSInvalidStateException"}),
    ),
    # ---- who asks, from where, when
    Cause(meaning="the S3 session token has expired", advice=RENEW, codes=EXPIRED),
    Cause(
        meaning="S3 does not accept the keys",
        advice=f"Check secret and session token too, where the keys come from: {WHERE_KEYS_COME_FROM}. Keys of China"
        " (cn-) or GovCloud (us-gov-) are known in their own regions only: fs.s3a.endpoint.region",
        codes=REFUSED_KEYS,
    ),
    Cause(
        meaning="the bucket is in another region", advice=_region, codes=OTHER_REGION, statuses=frozenset({301, 307})
    ),
    Cause(
        meaning="the bucket is in another region",
        advice=_region,
        statuses=frozenset({400}),
        also=lambda failure: bool(failure.region) and failure.code in ("400", "BadRequest"),  # of a HEAD
    ),
    Cause(
        meaning="the clock of this machine is wrong",
        advice="Synchronise it (NTP)",
        codes=frozenset({"RequestTimeTooSkewed"}),
    ),
    Cause(
        meaning="the clock of this machine is wrong",
        advice="Synchronise it (NTP)",
        statuses=frozenset({403}),
        also=lambda failure: failure.is_late,
    ),
    Cause(
        meaning="the object is archived",
        advice="Restore it from its storage class first",
        codes=frozenset({"InvalidObjectState"}),
    ),
    Cause(
        meaning="access denied: a policy forbids the request", advice=_permission, codes=DENIED, message="explicit deny"
    ),
    Cause(meaning="access denied", advice=_permission, codes=DENIED, statuses=frozenset({401, 403})),
    # ---- what is there
    Cause(
        meaning="the bucket does not exist at this endpoint",
        advice="Check the location and fs.s3a.endpoint",
        codes=frozenset({"NoSuchBucket"}),
    ),
    # ---- later
    Cause(
        meaning="S3 asks to slow down, also after retries",
        advice="Use fewer threads or tasks, or retry later",
        codes=THROTTLED,
    ),
    Cause(
        meaning="S3 asks to slow down, also after retries",
        advice="Use fewer threads or tasks, or retry later; of KMS, a bucket key takes off most requests",
        also=lambda failure: is_throttled(failure.code),
    ),
    # ---- no answer
    Cause(kinds=(NoCredentialsError,), meaning="no S3 credentials", advice=NO_KEYS),
    Cause(kinds=(SSOError, TokenRetrievalError), meaning="the login of AWS has expired", advice=LOGIN),
    Cause(
        kinds=(CredentialRetrievalError, MetadataRetrievalError),
        meaning="credentials were not renewed",
        advice="Check the provider",
    ),
    Cause(kinds=(ProxyConnectionError,), meaning="the proxy can't be reached", advice=_around_proxy),
    Cause(
        kinds=(SSLError,),
        meaning="TLS failed: the endpoint speaks plain HTTP",
        advice="Write fs.s3a.endpoint with http://, or set fs.s3a.connection.ssl.enabled=false",
        message="wrong.version.number|record layer failure|http_request",
    ),
    Cause(
        kinds=(SSLError,),
        meaning="TLS failed",
        advice="Check the certificate, or set AWS_CA_BUNDLE, or verify_tls in S3Overrides, to a CA bundle, on executors"
        " too; Spark's own S3A has the trust store of its Java",
    ),
    Cause(
        kinds=(EndpointConnectionError, ConnectTimeoutError),
        meaning="S3 can't be reached",
        advice="Check fs.s3a.endpoint and the network",
    ),
    Cause(
        kinds=(ReadTimeoutError,),
        meaning="S3 has not answered",
        advice="Check the endpoint and the network; it may take fs.s3a.connection.timeout, fs.s3a.attempts.maximum"
        " times",
    ),
    Cause(
        kinds=(UnreadableAnswerError,),
        meaning="the answer is not what S3 would send",
        advice=f"Check that fs.s3a.endpoint is the S3 API of the store. {LOOK_AT_PROXIES}",
    ),
    *last_rows("S3", "the store's documentation"),
)


def is_throttled(code: str) -> bool:
    """Return whether a code says that there were too many requests, at the store or at KMS behind it."""
    return code in THROTTLED or "throttl" in code.lower() or "toomanyrequests" in code.lower()


def is_transient(code: str, status: int = 0) -> bool:
    """Return whether the same request may succeed in a moment."""
    return is_throttled(code) or code in PASSING or status == 429 or status >= 500


PASSING: Final = frozenset({"InternalError", "OperationAborted", "RequestTimeout", "500", "502", "503", "504"})


@contextmanager
def sdk_errors_translated(bucket: str, key: str) -> Iterator[None]:
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


def is_of_checksums(error: BotoCoreError | ClientError) -> bool:
    """Return whether a store complains of the headers of checksums."""
    return re.search(CHECKSUM_HEADERS, S3Failure.of(error).message, re.IGNORECASE) is not None


def storage_error(error: BotoCoreError | ClientError, bucket: str, key: str) -> StorageError:
    """Say what failed, on what, and what to do; the first cause that fits."""
    where = f"s3://{bucket}/{key}"
    if not isinstance(error, ClientError | BotoCoreError):
        raise TypeError(f"not an error of botocore: {error!r}")
    return as_error(S3Failure.of(error), CAUSES, where)
