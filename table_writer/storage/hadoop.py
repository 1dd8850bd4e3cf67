"""Store settings from the Hadoop settings that a Spark session has anyway."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypedDict
from urllib.parse import quote

from table_writer.checked import checked
from table_writer.errors import InvalidInputError
from table_writer.logins import without_login
from table_writer.model.location import S3_SCHEMES, Location
from table_writer.storage.hadoop_credentials import credential_sources
from table_writer.storage.hadoop_values import HadoopValues, bucket_values
from table_writer.storage.settings import (
    CredentialSource,
    LocalSettings,
    Profile,
    S3Settings,
    StaticKeys,
    StoreSettings,
)

__all__ = ["S3Overrides", "committer_threads", "part_bytes", "settings_for"]

AWS_ENDPOINT: Final = re.compile(r"https://s3(?:[.-](?!fips)([a-z0-9-]+))?\.amazonaws\.com(?:\.cn)?/?")
SSE: Final[Mapping[str, Literal["AES256", "aws:kms", "aws:kms:dsse"]]] = {
    "AES256": "AES256",
    "SSE-KMS": "aws:kms",
    "DSSE-KMS": "aws:kms:dsse",
}
ACLS: Final = {  # S3A takes the Java SDK's enum names
    "Private": "private",
    "PublicRead": "public-read",
    "PublicReadWrite": "public-read-write",
    "AuthenticatedRead": "authenticated-read",
    "AwsExecRead": "aws-exec-read",
    "BucketOwnerRead": "bucket-owner-read",
    "BucketOwnerFullControl": "bucket-owner-full-control",
}


@checked
@dataclass(frozen=True, kw_only=True, slots=True)
class S3Overrides:
    """What the writer's own config says of S3; ``None`` leaves it to Hadoop's settings."""

    endpoint_url: str | None = None
    region: str | None = None
    path_style: bool | None = None
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    profile: str | None = None
    checksums: bool = True  # False for stores that know no x-amz-checksum headers
    verify_tls: bool | str | None = None
    connect_timeout_seconds: float | None = None
    read_timeout_seconds: float | None = None
    max_attempts: int | None = None
    max_connections: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.endpoint_url, str):
            object.__setattr__(self, "endpoint_url", without_login(self.endpoint_url))

    def credentials(self) -> tuple[CredentialSource, ...]:
        """Return the explicit source, nothing where none is given."""
        if self.access_key or self.secret_key:
            keys = StaticKeys(
                access_key=self.access_key or "",
                secret_key=self.secret_key or "",
                session_token=self.session_token or "",
            )
            return (keys,)
        return (Profile(self.profile),) if self.profile else ()


NO_OVERRIDES: Final = S3Overrides()


def settings_for(location: Location, hadoop: Mapping[str, str], overrides: S3Overrides = NO_OVERRIDES) -> StoreSettings:
    """Return how to open the store of a location.

    Parameters
    ----------
    location
        ``s3://``, ``s3a://``, ``s3n://`` or ``file:///``.
    hadoop
        Hadoop settings as ``Configuration.get`` returns them (``${…}`` expanded), without ``spark.hadoop.``.
    overrides
        What the writer's config says itself; it wins.

    Raises
    ------
    InvalidInputError
        The scheme is not supported, or a setting is one that this library can't honour.

    Examples
    --------
    >>> settings_for(Location.parse("s3a://mart/orders/"), {
    ...     "fs.s3a.endpoint": "127.0.0.1:9000", "fs.s3a.connection.ssl.enabled": "false",
    ...     "fs.s3a.access.key": "me", "fs.s3a.secret.key": "hush"}).endpoint_url
    'http://127.0.0.1:9000'
    """
    if location.scheme == "file":
        if location.bucket:
            raise InvalidInputError(f"{location} names a host; a local directory has three slashes: file:///path/")
        return LocalSettings()
    if location.scheme not in S3_SCHEMES:
        raise InvalidInputError(f"{location}: {location.scheme}:// is not supported for now; s3, s3a, s3n and file are")
    return _s3(bucket_values(hadoop, location.bucket), location.bucket, overrides)


def part_bytes(location: Location, hadoop: Mapping[str, str]) -> int | None:
    """Return ``fs.s3a.multipart.size`` for the location's bucket, ``None`` when unset."""
    return bucket_values(hadoop, location.bucket).size_bytes("multipart.size")


def committer_threads(location: Location, hadoop: Mapping[str, str]) -> int | None:
    """Return ``fs.s3a.committer.threads`` for the location's bucket, ``None`` when unset.

    Hadoop reads a negative number as that many per core; here it counts as unset.
    """
    threads = bucket_values(hadoop, location.bucket).number("committer.threads")
    return threads if threads is not None and threads > 0 else None


def _s3(values: HadoopValues, bucket: str, overrides: S3Overrides) -> S3Settings:
    endpoint_url, region = _endpoint(values, overrides)
    optional: dict[str, Any] = {
        "verify_tls": overrides.verify_tls,
        "connect_timeout_seconds": overrides.connect_timeout_seconds or values.seconds("connection.establish.timeout"),
        "read_timeout_seconds": overrides.read_timeout_seconds or values.seconds("connection.timeout"),
        "max_attempts": overrides.max_attempts or values.number("attempts.maximum"),
        "max_connections": overrides.max_connections or values.number("connection.maximum"),
    }
    path_style = overrides.path_style
    return S3Settings(
        bucket=values.text("accesspoint.arn", bucket),
        endpoint_url=endpoint_url,
        region=region,
        path_style=values.flag("path.style.access", default=False) if path_style is None else path_style,
        credentials=overrides.credentials() or credential_sources(values),
        checksum="CRC32" if overrides.checksums else None,
        acl=_acl(values.text("acl.default")),
        storage_class=values.text("create.storage.class").upper(),
        requester_pays=values.flag("requester.pays.enabled", default=False),
        fips=values.flag("endpoint.fips", default=False),
        proxy_url=_proxy(values),
        **_encryption(values),
        **{name: value for name, value in optional.items() if value is not None and value != 0},
    )


def _endpoint(values: HadoopValues, overrides: S3Overrides) -> tuple[str, str]:
    """Return endpoint URL and region; AWS's own endpoints become the region, and botocore picks the host."""
    url = overrides.endpoint_url if overrides.endpoint_url is not None else without_login(values.text("endpoint"))
    if url and "://" not in url:
        secure = values.flag("connection.ssl.enabled", default=True)
        url = f"{'https' if secure else 'http'}://{url}"
    region = overrides.region or values.text("endpoint.region")
    aws = AWS_ENDPOINT.fullmatch(url)
    return ("", region or aws[1] or "") if aws else (url.rstrip("/"), region)


class _Encryption(TypedDict):
    encryption: Literal["", "AES256", "aws:kms", "aws:kms:dsse"]
    kms_key_id: str
    kms_context: str


def _encryption(values: HadoopValues) -> _Encryption:
    algorithm = values.text("encryption.algorithm")
    if not algorithm:
        return {"encryption": "", "kms_key_id": "", "kms_context": ""}
    if algorithm not in SSE:
        raise InvalidInputError(
            f"fs.s3a.encryption.algorithm {algorithm} is not supported: this library can't write with keys that "
            f"S3 does not hold. Supported: {', '.join(SSE)}"
        )
    if algorithm == "AES256":
        return {"encryption": "AES256", "kms_key_id": "", "kms_context": ""}
    context = values.text("encryption.context")
    pairs = dict(pair.strip().split("=", 1) for pair in context.split(",") if "=" in pair)
    encoded = base64.b64encode(json.dumps(pairs).encode()).decode() if pairs else ""
    return {"encryption": SSE[algorithm], "kms_key_id": values.text("encryption.key"), "kms_context": encoded}


def _acl(name: str) -> str:
    return ACLS.get(name, name)


def _proxy(values: HadoopValues) -> str:
    host = values.text("proxy.host")
    if not host:
        return ""
    scheme = "https" if values.flag("proxy.ssl.enabled", default=False) else "http"
    user, password = values.text("proxy.username"), values.text("proxy.password")
    login = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user else ""
    port = values.number("proxy.port") or (443 if scheme == "https" else 80)
    return f"{scheme}://{login}{host}:{port}"
