"""Settings of an Azure container from the ``fs.azure.*`` settings that a Spark session has anyway."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from table_writer.errors import InvalidInputError
from table_writer.model.location import Location
from table_writer.storage.azure.settings import (
    AccountKey,
    AzureCredential,
    AzureSettings,
    ManagedIdentity,
    SasToken,
    ServicePrincipal,
)
from table_writer.storage.hadoop_values import HadoopValues, layer

PREFIX: Final = "fs.azure."
PUBLIC_LOGIN: Final = "https://login.microsoftonline.com"
OAUTH2: Final = "account.oauth2."
PROVIDERS: Final = "org.apache.hadoop.fs.azurebfs.oauth2."
HOST: Final = re.compile(r"([a-z0-9]+)\.(?:dfs|blob)\.([a-z0-9.-]+)")
WAY_OUT: Final = (
    "use a SAS token (fs.azure.sas.fixed.token), an account key, or one of the OAuth providers "
    "ClientCredsTokenProvider, MsiTokenProvider and WorkloadIdentityTokenProvider"
)
REFUSED: Final = {  # settings under which Hadoop's own readers would not understand what is written without them
    "client-provided-encryption-key": "keys that the client provides",
    "encryption.encoded.client-provided-key": "keys that the client provides",
    "encryption.context.provider.type": "encryption contexts",
}


def container_values(hadoop: Mapping[str, str], container: str, host: str) -> HadoopValues:
    """Return the settings that hold for one container: most special first, as Hadoop reads them.

    ``NAME.CONTAINER.HOST`` wins over ``NAME.HOST``, which wins over ``NAME``.
    """
    layers = (layer(hadoop, PREFIX, suffix) for suffix in ("", f".{host}", f".{container}.{host}"))
    merged: dict[str, str] = {}
    for values in layers:
        merged |= {name: value for name, value in values.items() if value.strip()}
    return HadoopValues(PREFIX, merged)


def azure_settings(location: Location, hadoop: Mapping[str, str], *_: object) -> AzureSettings:
    """Return how to open the container of an ``abfss://`` location.

    Raises ``InvalidInputError`` for a location that names no container or account, and for a setting that this library
    can't honour.

    Examples
    --------
    >>> azure_settings(Location.parse("abfss://lake@mart.dfs.core.windows.net/orders/"), {
    ...     "fs.azure.account.key.mart.dfs.core.windows.net": "aHVzaA=="}).account_url
    'https://mart.blob.core.windows.net'
    """
    container, at, host = location.bucket.rpartition("@")
    host = host.lower()
    named = HOST.fullmatch(host)
    if not at or named is None:
        raise InvalidInputError(
            f"a location in Azure names container and account: {location.scheme}://CONTAINER@ACCOUNT.dfs.core.windows."
            f"net/path/; that of {location.key!r} does not"
        )
    values = container_values(hadoop, container, host)
    for name, what in REFUSED.items():
        if values.text(name):
            raise InvalidInputError(f"{PREFIX}{name} is set: this library can't write with {what}. Unset it")
    account = named[1]
    return AzureSettings(
        account=account,
        container=container,
        account_url=_account_url(location.scheme, account, named[2], values),
        credential=credential(values),
    )


def _account_url(scheme: str, account: str, domain: str, values: HadoopValues) -> str:
    """Return the address of the Blob service; a test's ``fs.azure.abfs.endpoint`` takes the account into the path."""
    secure = scheme == "abfss" or values.text("always.use.https", "true").lower() != "false"
    protocol = "https" if secure else "http"
    endpoint = values.text("abfs.endpoint")
    if ":" not in endpoint:  # Hadoop ignores it then
        return f"{protocol}://{account}.blob.{domain}"
    if not re.fullmatch(r"[A-Za-z0-9.-]+:\d{1,5}", endpoint):
        raise InvalidInputError(f"{PREFIX}abfs.endpoint is not IP:PORT, without a protocol")
    return f"{protocol}://{endpoint}/{account}"


def credential(values: HadoopValues) -> AzureCredential:
    """Return the login that ``fs.azure.account.auth.type`` asks for; a shared key is Hadoop's default."""
    auth_type = values.text("account.auth.type", "SharedKey")
    if auth_type not in AUTH_TYPES:
        raise InvalidInputError(
            f"{PREFIX}account.auth.type is none of {', '.join(AUTH_TYPES)}: a custom login is Java code that this"
            f" library can't run; {WAY_OUT}"
        )
    return AUTH_TYPES[auth_type](values)


def _shared_key(values: HadoopValues) -> AzureCredential:
    provider = values.text("account.keyprovider")
    if provider and not provider.endswith(".SimpleKeyProvider"):
        raise InvalidInputError(
            f"{PREFIX}account.keyprovider {provider} is Java code or a script that this library does not run; {WAY_OUT}"
        )
    key = values.text("account.key")
    if not key:
        raise InvalidInputError(
            f"no login for Azure: neither {PREFIX}account.key.ACCOUNT.dfs.core.windows.net nor "
            f"{PREFIX}account.auth.type is set; {WAY_OUT}"
        )
    return AccountKey(key)


def _sas(values: HadoopValues) -> AzureCredential:
    token, provider = values.text("sas.fixed.token"), values.text("sas.token.provider.type")
    if provider:  # Hadoop asks the class first, where both are set
        raise InvalidInputError(
            f"{PREFIX}sas.token.provider.type {provider} is Java code that this library can't run; unset it, and"
            f" {WAY_OUT}"
        )
    if not token:
        raise InvalidInputError(f"{PREFIX}account.auth.type is SAS, and {PREFIX}sas.fixed.token is not set")
    return SasToken(token)


def _oauth(values: HadoopValues) -> AzureCredential:
    name = values.text("account.oauth.provider.type")
    short = name.removeprefix(PROVIDERS)
    if short not in OAUTH:
        raise InvalidInputError(
            f"{PREFIX}account.oauth.provider.type {name or '(not set)'} is not known here: Java code of others can't be"
            f" run, and Entra ID gives up passwords and refresh tokens; {WAY_OUT}"
        )
    return OAUTH[short](values)


def _client_credentials(values: HadoopValues) -> AzureCredential:
    names = (f"{OAUTH2}client.{name}" for name in ("endpoint", "id", "secret"))
    endpoint, client_id, secret = values.required_values(*names)
    parts = urlsplit(endpoint)
    tenant = parts.path.strip("/").partition("/")[0]
    if parts.scheme != "https" or not parts.hostname or not tenant:
        raise InvalidInputError(
            f"{PREFIX}{OAUTH2}client.endpoint is not {PUBLIC_LOGIN}/TENANT/oauth2/token or another cloud's"
        )
    return ServicePrincipal(tenant=tenant, client_id=client_id, secret=secret, authority=parts.hostname)


def _managed_identity(values: HadoopValues) -> AzureCredential:
    return ManagedIdentity(values.text(f"{OAUTH2}client.id"))


def _workload_identity(values: HadoopValues) -> AzureCredential:
    names = (f"{OAUTH2}{name}" for name in ("msi.tenant", "client.id", "token.file"))
    tenant, client_id, token_file = values.required_values(*names)
    authority = urlsplit(values.text(f"{OAUTH2}msi.authority", PUBLIC_LOGIN)).hostname or ""
    return ServicePrincipal(tenant=tenant, client_id=client_id, token_file=token_file, authority=authority)


AUTH_TYPES: Final[Mapping[str, Callable[[HadoopValues], AzureCredential]]] = {
    "SharedKey": _shared_key,
    "SAS": _sas,
    "OAuth": _oauth,
}
OAUTH: Final[Mapping[str, Callable[[HadoopValues], AzureCredential]]] = {
    "ClientCredsTokenProvider": _client_credentials,
    "MsiTokenProvider": _managed_identity,
    "WorkloadIdentityTokenProvider": _workload_identity,
}
