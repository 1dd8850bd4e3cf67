"""Settings to open a container in Azure: frozen, picklable, checked when made, without secrets in ``repr``."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeAlias

from table_writer.errors import InvalidInputError
from table_writer.model.units import MIB
from table_writer.storage.object_store import StoreSettings
from table_writer.storage.request_settings import AS_USUAL, RequestSettings

MAX_AZURE_COPY_BYTES: Final = 256 * MIB  # Azure: Copy Blob From URL takes no more

AZURE_COPY_PART_BYTES: Final = 128 * MIB  # Azure would take 4,000 MiB, and the answer comes when all is copied

CONTAINER: Final = re.compile(r"\$root|\$web|[a-z0-9](?:-?[a-z0-9]){2,62}")

ACCOUNT: Final = re.compile("[a-z0-9]{3,24}")


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
class AzureSettings(StoreSettings):
    """Settings to reach one container of a storage account, through the Blob service."""

    EXTRA: ClassVar = ("azure", "an abfss:// location, on this machine and where executors run,")
    account: str  # name of the account, without its host
    container: str
    account_url: str  # of the Blob service: ``https://ACCOUNT.blob.core.windows.net``
    credential: AzureCredential
    requests: RequestSettings = AS_USUAL
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
        if self.copy_part_bytes < 1:
            raise InvalidInputError("copy_part_bytes must be 1 or more")
        if not 0 <= self.max_single_copy_bytes <= MAX_AZURE_COPY_BYTES:
            raise InvalidInputError("max_single_copy_bytes must be 0 to 256 MiB: Azure copies no more with one request")
