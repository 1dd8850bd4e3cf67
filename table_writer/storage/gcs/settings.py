"""Settings to open a bucket of Google's: frozen, picklable, checked when made, without secrets in ``repr``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeAlias

from table_writer.errors import InvalidInputError
from table_writer.model.location import without_login
from table_writer.storage.object_store import StoreSettings
from table_writer.storage.request_settings import AS_USUAL, RequestSettings

GCS_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")

GCS_UPLOADS: Final = "_table_writer_uploads/"  # in the root of a bucket: parts of files that are being sent

GCS_URL: Final = "https://storage.googleapis.com"


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
class GcsSettings(StoreSettings):
    """Settings to reach one bucket of Google Cloud Storage, through its JSON API."""

    EXTRA: ClassVar = ("gcs", "a gs:// location, on this machine and where executors run,")
    bucket: str
    endpoint_url: str = GCS_URL
    credential: GcsCredential = DefaultLogin()
    impersonated: str = ""  # the service account whose rights are used, with the credential's leave
    user_project: str = ""  # pays for requests, where the bucket's owner does not
    requests: RequestSettings = AS_USUAL

    def __post_init__(self) -> None:
        object.__setattr__(self, "endpoint_url", without_login(self.endpoint_url).rstrip("/"))
        if not GCS_BUCKET.fullmatch(self.bucket):
            raise InvalidInputError("the bucket of a gs:// location has a name that Google does not allow")
        if not self.endpoint_url.startswith(("http://", "https://")):
            raise InvalidInputError(f"endpoint_url {self.endpoint_url!r} must start with http:// or https://")
        if self.endpoint_url.startswith("http://") and not isinstance(self.credential, NoLogin):
            raise InvalidInputError("Google's tokens are sent over TLS only: use https://, or no login for an emulator")
