"""Settings to open a store: frozen, picklable, checked when made, without secrets in ``repr``."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

from table_writer.errors import InvalidInputError
from table_writer.model.location import without_login
from table_writer.model.upload_spec import MAX_PART_BYTES, MIB, MIN_PART_BYTES

MAX_COPY_BYTES: Final = 5 * 1024 * MIB  # S3: CopyObject takes no more

# S3 copies one request at some 100 MiB/s and more: up to this, the answer comes well within the read timeout, and
# nearly every file of a table is one request. Above, parts are copied beside each other.
MAX_SINGLE_COPY_BYTES: Final = 1024 * MIB
COPY_PART_BYTES: Final = 256 * MIB

MAX_AZURE_COPY_BYTES: Final = 256 * MIB  # Azure: Copy Blob From URL takes no more
AZURE_COPY_PART_BYTES: Final = 128 * MIB  # Azure would take 4,000 MiB, and the answer comes when all is copied
CONTAINER: Final = re.compile(r"\$root|\$web|[a-z0-9](?:-?[a-z0-9]){2,62}")
ACCOUNT: Final = re.compile("[a-z0-9]{3,24}")
GCS_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
GCS_UPLOADS: Final = "_table_writer_uploads/"  # in the root of a bucket: parts of files that are being sent
GCS_URL: Final = "https://storage.googleapis.com"

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
class S3Settings:
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
    connect_timeout_seconds: float = 10
    read_timeout_seconds: float = 60
    max_attempts: int = 8  # per request, the first included
    max_connections: int = 64
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
        if min(self.connect_timeout_seconds, self.read_timeout_seconds) <= 0:
            raise InvalidInputError("timeouts must be longer than 0 seconds")
        if min(self.max_attempts, self.max_connections) < 1:
            raise InvalidInputError("max_attempts and max_connections must be 1 or more")
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


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """The file system of the machine (or a mount that all machines of a cluster share)."""


@dataclass(frozen=True, slots=True)
class AccountKey:
    """The shared key of a storage account; it travels to the executors."""

    key: str = field(repr=False)

    def __post_init__(self) -> None:
        try:
            decoded = base64.b64decode(self.key, validate=True)
        except ValueError:
            decoded = b""
        if not decoded:
            raise InvalidInputError(
                "the key of the storage account is not base64: copy it again (fs.azure.account.key)"
            )


@dataclass(frozen=True, slots=True)
class SasToken:
    """A shared access signature, with or without its ``?``; it travels to the executors."""

    token: str = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "token", self.token.strip().removeprefix("?"))
        if "sig=" not in self.token:
            raise InvalidInputError("the SAS token has no signature (sig=…): copy it again (fs.azure.sas.fixed.token)")


@dataclass(frozen=True, kw_only=True, slots=True)
class ServicePrincipal:
    """An application of Entra ID with a secret, or with the token file of a Kubernetes service account."""

    tenant: str
    client_id: str
    secret: str = field(default="", repr=False)
    token_file: str = ""
    authority: str = ""  # host of the login server; empty: the public cloud's

    def __post_init__(self) -> None:
        if not self.tenant or not self.client_id:
            raise InvalidInputError("a service principal needs tenant and client id: fs.azure.account.oauth2.client.*")
        if bool(self.secret) == bool(self.token_file):
            raise InvalidInputError("a service principal needs a secret or a token file, and not both")


@dataclass(frozen=True, slots=True)
class ManagedIdentity:
    """The identity of the machine, virtual machine or pod where the store is opened; empty: the one it has."""

    client_id: str = ""


AzureCredential: TypeAlias = AccountKey | SasToken | ServicePrincipal | ManagedIdentity


@dataclass(frozen=True, kw_only=True, slots=True)
class AzureSettings:
    """Settings to reach one container of a storage account, through the Blob service."""

    account: str  # name of the account, without its host
    container: str
    account_url: str  # of the Blob service: ``https://ACCOUNT.blob.core.windows.net``
    credential: AzureCredential
    connect_timeout_seconds: float = 10
    read_timeout_seconds: float = 60
    max_attempts: int = 8  # per request, the first included
    max_connections: int = 64
    max_single_copy_bytes: int = MAX_AZURE_COPY_BYTES  # up to this size a file is copied with one request
    copy_part_bytes: int = AZURE_COPY_PART_BYTES  # above it, so much with each

    def __post_init__(self) -> None:
        if not CONTAINER.fullmatch(self.container):
            raise InvalidInputError("the container of an Azure location has a name that Azure does not allow")
        if not ACCOUNT.fullmatch(self.account):
            raise InvalidInputError("the account of an Azure location has a name that Azure does not allow")
        if not self.account_url.startswith(("http://", "https://")) or "@" in self.account_url:
            raise InvalidInputError("account_url must start with http:// or https:// and have no login in it")
        if self.account_url.startswith("http://") and isinstance(self.credential, ServicePrincipal | ManagedIdentity):
            raise InvalidInputError("tokens of Entra ID are sent over TLS only: use abfss://, or another login")
        if min(self.connect_timeout_seconds, self.read_timeout_seconds) <= 0:
            raise InvalidInputError("timeouts must be longer than 0 seconds")
        if min(self.max_attempts, self.max_connections, self.copy_part_bytes) < 1:
            raise InvalidInputError("max_attempts, max_connections and copy_part_bytes must be 1 or more")
        if not 0 <= self.max_single_copy_bytes <= MAX_AZURE_COPY_BYTES:
            raise InvalidInputError("max_single_copy_bytes must be 0 to 256 MiB: Azure copies no more with one request")


@dataclass(frozen=True, slots=True)
class DefaultLogin:
    """Google's Application Default Credentials, looked for where the store is opened."""


@dataclass(frozen=True, slots=True)
class NoLogin:
    """Requests without a login: public buckets, emulators."""


@dataclass(frozen=True, slots=True)
class MachineAccount:
    """The service account of the machine or pod where the store is opened, by Google's metadata server."""


@dataclass(frozen=True, slots=True)
class LoginFile:
    """The file of a service account's key, or of a federated identity's settings; executors need it in its place."""

    path: str
    is_federated: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceAccountKey:
    """The key of a service account; it travels to the executors."""

    email: str
    key_id: str
    private_key: str = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "private_key", self.private_key.replace("\\n", "\n"))
        if "PRIVATE KEY" not in self.private_key:
            raise InvalidInputError(
                "the private key of the service account is no PEM: copy it again"
                " (fs.gs.auth.service.account.private.key)"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class UserLogin:
    """A user's refresh token; it travels to the executors."""

    client_id: str
    client_secret: str = field(repr=False)
    refresh_token: str = field(repr=False)


GcsCredential: TypeAlias = DefaultLogin | NoLogin | MachineAccount | LoginFile | ServiceAccountKey | UserLogin


@dataclass(frozen=True, kw_only=True, slots=True)
class GcsSettings:
    """Settings to reach one bucket of Google Cloud Storage, through its JSON API."""

    bucket: str
    endpoint_url: str = GCS_URL
    credential: GcsCredential = DefaultLogin()
    impersonated: str = ""  # the service account whose rights are used, with the credential's leave
    user_project: str = ""  # pays for requests, where the bucket's owner does not
    connect_timeout_seconds: float = 10
    read_timeout_seconds: float = 60
    max_attempts: int = 8  # per request, the first included
    max_connections: int = 64

    def __post_init__(self) -> None:
        object.__setattr__(self, "endpoint_url", without_login(self.endpoint_url).rstrip("/"))
        if not GCS_BUCKET.fullmatch(self.bucket):
            raise InvalidInputError("the bucket of a gs:// location has a name that Google does not allow")
        if not self.endpoint_url.startswith(("http://", "https://")):
            raise InvalidInputError(f"endpoint_url {self.endpoint_url!r} must start with http:// or https://")
        if self.endpoint_url.startswith("http://") and not isinstance(self.credential, NoLogin):
            raise InvalidInputError("Google's tokens are sent over TLS only: use https://, or no login for an emulator")
        if min(self.connect_timeout_seconds, self.read_timeout_seconds) <= 0:
            raise InvalidInputError("timeouts must be longer than 0 seconds")
        if min(self.max_attempts, self.max_connections) < 1:
            raise InvalidInputError("max_attempts and max_connections must be 1 or more")


StoreSettings: TypeAlias = S3Settings | AzureSettings | GcsSettings | LocalSettings
