"""Settings to open a bucket of S3: frozen, picklable, checked when made, without secrets in ``repr``."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

from table_writer.checked import checked
from table_writer.errors import InvalidInputError
from table_writer.model.location import without_login
from table_writer.model.units import MIB
from table_writer.model.upload_spec import MAX_PART_BYTES, MIN_PART_BYTES
from table_writer.storage.object_store import StoreSettings
from table_writer.storage.request_settings import AS_USUAL, RequestSettings

MAX_COPY_BYTES: Final = 5 * 1024 * MIB  # S3: CopyObject takes no more

# S3 copies one request at some 100 MiB/s and more: up to this, the answer comes well within the read timeout, and
# nearly every file of a table is one request. Above, parts are copied beside each other.
MAX_SINGLE_COPY_BYTES: Final = 1024 * MIB

COPY_PART_BYTES: Final = 256 * MIB

ACLS: Final = {  # S3A takes the Java SDK's enum names, S3 the others
    "Private": "private",
    "PublicRead": "public-read",
    "PublicReadWrite": "public-read-write",
    "AuthenticatedRead": "authenticated-read",
    "AwsExecRead": "aws-exec-read",
    "BucketOwnerRead": "bucket-owner-read",
    "BucketOwnerFullControl": "bucket-owner-full-control",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class StaticKeys:
    """Keys that were given: the only credentials that travel to the executors."""

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not self.access_key or not self.secret_key:
            raise InvalidInputError("an access key without its secret key, or the other way round; give both or none")


class Provider(Enum):
    """Sources of credentials that are tried when the store is opened; values are botocore's names of its providers."""

    ENVIRONMENT = "env"  # AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the process
    CONTAINER = "container-role"  # of an ECS task or EKS pod identity
    INSTANCE_METADATA = "iam-role"  # of the EC2 instance
    WEB_IDENTITY = "assume-role-with-web-identity"  # AWS_WEB_IDENTITY_TOKEN_FILE of a Kubernetes service account
    DEFAULT_CHAIN = "all"  # what the AWS SDK finds by itself: environment, profile, web identity, container, instance
    ANONYMOUS = "none"  # requests without a signature: public buckets


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile of ``~/.aws/config`` or ``~/.aws/credentials`` where the store is opened; empty = ``AWS_PROFILE``."""

    name: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class AssumedRole:
    """A role taken with other credentials, renewed before it expires."""

    arn: str
    sources: tuple[CredentialSource, ...]
    session_name: str = "table_writer"
    duration_seconds: int = 1800
    policy: str = ""
    external_id: str = field(default="", repr=False)
    sts_endpoint_url: str = ""
    sts_region: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sts_endpoint_url", without_login(self.sts_endpoint_url))
        if not self.arn:
            raise InvalidInputError("an assumed role needs its ARN: set fs.s3a.assumed.role.arn")


CredentialSource: TypeAlias = StaticKeys | Profile | AssumedRole | Provider


@dataclass(frozen=True, kw_only=True, slots=True)
class S3Settings(StoreSettings):
    """Settings to reach one bucket."""

    bucket: str  # name of the bucket, or the ARN of an access point
    endpoint_url: str = ""  # for stores other than AWS, with ``http://`` or ``https://``; a login in it is left out
    region: str = ""  # empty: ``AWS_REGION``, then the AWS configuration of the process, then ``us-east-1``
    path_style: bool = False
    credentials: tuple[CredentialSource, ...] = (Provider.DEFAULT_CHAIN,)  # the first that can provide wins
    checksum: Literal["CRC32"] | None = "CRC32"
    """Every part and object is sent with it, and the store refuses damaged ones; ``None`` for stores that know no
    ``x-amz-checksum`` headers."""
    encryption: Literal["", "AES256", "aws:kms", "aws:kms:dsse"] = ""
    """Empty: as the bucket says. ``"AES256"`` is SSE-S3, ``"aws:kms"`` SSE-KMS, ``"aws:kms:dsse"`` DSSE-KMS."""
    kms_key_id: str = ""
    kms_context: str = field(default="", repr=False)  # base64 of a JSON object, as S3 takes it
    acl: str = ""
    storage_class: str = ""
    requester_pays: bool = False
    fips: bool = False
    proxy_url: str = field(default="", repr=False)  # may hold a password
    verify_tls: bool | str = True  # a string is the path of a CA bundle
    requests: RequestSettings = AS_USUAL
    max_single_copy_bytes: int = MAX_SINGLE_COPY_BYTES  # up to this size a file is copied with one request
    copy_part_bytes: int = COPY_PART_BYTES  # above it, so much with each; more where there would be over 10,000 parts

    def __post_init__(self) -> None:
        object.__setattr__(self, "endpoint_url", without_login(self.endpoint_url))
        if not self.bucket:
            raise InvalidInputError("an S3 location without a bucket; expected for example s3a://bucket/path/")
        if self.endpoint_url and not self.endpoint_url.startswith(("http://", "https://")):
            raise InvalidInputError(f"endpoint_url {self.endpoint_url!r} must start with http:// or https://")
        self._require_general_bucket()
        self._require_plain_endpoint()
        if not self.credentials:
            raise InvalidInputError(
                "no credential source given; credentials=(Provider.DEFAULT_CHAIN,) is what AWS finds"
            )
        if self.acl and self.acl not in ACLS.values():
            raise InvalidInputError(f"acl {self.acl!r} is none of {', '.join(sorted(ACLS.values()))}")
        if self.kms_key_id and not self.encryption.startswith("aws:kms"):
            raise InvalidInputError(f"a KMS key is given, but encryption is {self.encryption!r}; set it to 'aws:kms'")
        if not 0 <= self.max_single_copy_bytes <= MAX_COPY_BYTES:
            raise InvalidInputError("max_single_copy_bytes must be 0 to 5 GiB: S3 copies no more with one request")
        if not MIN_PART_BYTES <= self.copy_part_bytes <= MAX_PART_BYTES:
            raise InvalidInputError("copy_part_bytes must be 5 MiB to 5 GiB: S3 takes no other parts")

    def _require_general_bucket(self) -> None:
        """Refuse S3 Express by the name of its buckets, and of their access points."""
        if self.bucket.endswith(("--x-s3", "--xa-s3")):
            raise InvalidInputError(
                f"{self.bucket} is a directory bucket (S3 Express One Zone): it lists keys in no order and cannot begin"
                " a listing after a key, so files of a table would be left out. Use a general purpose bucket"
            )

    def _require_plain_endpoint(self) -> None:
        """Refuse an endpoint that names the bucket as well, which is how consoles show it."""
        try:
            url = urlsplit(self.endpoint_url)
            host, segments = url.hostname or "", [segment for segment in url.path.split("/") if segment]
            _ = url.port
        except ValueError as error:
            raise InvalidInputError(f"endpoint_url {self.endpoint_url!r} is no address: {error}") from error
        is_named = (
            host.startswith(f"{self.bucket}.") and ".amazonaws." in host and not host.endswith(".vpce.amazonaws.com")
        )
        if self.endpoint_url and (not host or url.query or url.fragment):
            raise InvalidInputError(
                f"endpoint_url {self.endpoint_url!r} must be an address alone, such as https://host:9000:"
                " fs.s3a.endpoint"
            )
        if is_named or self.bucket in segments:
            raise InvalidInputError(
                f"endpoint_url {self.endpoint_url!r} names the bucket {self.bucket}, which the location does already:"
                " take it out of fs.s3a.endpoint"
            )


@checked
@dataclass(frozen=True, kw_only=True, slots=True)
class S3Overrides:
    """Settings of S3 from the writer's own config; ``None`` leaves it to Hadoop's settings."""

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
        access_key, secret_key = self.access_key or "", self.secret_key or ""
        if access_key or secret_key:
            token = self.session_token or ""
            return (StaticKeys(access_key=access_key, secret_key=secret_key, session_token=token),)
        return (Profile(self.profile),) if self.profile else ()


NO_OVERRIDES: Final = S3Overrides()
