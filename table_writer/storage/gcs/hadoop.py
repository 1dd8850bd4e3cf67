"""Settings of a bucket of Google's from the ``fs.gs.*`` settings that a Spark session has anyway."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Final

from table_writer.errors import InvalidInputError
from table_writer.model.location import Location
from table_writer.storage.gcs.settings import (
    GCS_URL,
    DefaultLogin,
    GcsCredential,
    GcsSettings,
    LoginFile,
    MachineAccount,
    NoLogin,
    ServiceAccountKey,
    UserLogin,
)
from table_writer.storage.hadoop_values import HadoopValues, layer

PREFIX: Final = "fs.gs."
EMULATOR_VARIABLE: Final = "STORAGE_EMULATOR_HOST"  # as Google's own clients read it
KEY_FILE: Final = "auth.service.account.json.keyfile"
PRIVATE_KEY: Final = "auth.service.account.private.key"
REFUSED: Final = {  # settings under which other readers would not understand what is written without them
    "encryption.algorithm": "keys that Google does not hold",
    "encryption.key": "keys that Google does not hold",
}
WAY_OUT: Final = (
    "use APPLICATION_DEFAULT, COMPUTE_ENGINE, SERVICE_ACCOUNT_JSON_KEYFILE, USER_CREDENTIALS,"
    " WORKLOAD_IDENTITY_FEDERATION_CREDENTIAL_CONFIG_FILE or UNAUTHENTICATED"
)


def gcs_settings(location: Location, hadoop: Mapping[str, str], *_: object) -> GcsSettings:
    """Return how to open the bucket of a ``gs://`` location.

    Raises ``InvalidInputError`` for a location that names no bucket, and for a setting that this library can't honour.

    Examples
    --------
    >>> gcs_settings(Location.parse("gs://lake/orders/"), {"fs.gs.auth.type": "COMPUTE_ENGINE"}).credential
    MachineAccount()
    """
    values = HadoopValues(PREFIX, layer(hadoop, PREFIX))
    for name, what in REFUSED.items():
        if values.text(name):
            raise InvalidInputError(f"{PREFIX}{name} is set: this library can't write with {what}. Unset it")
    emulator = os.environ.get(EMULATOR_VARIABLE, "").strip()
    if emulator and "://" not in emulator:
        emulator = f"http://{emulator}"
    endpoint_url = values.text("storage.root.url") or emulator or GCS_URL
    is_paid_by_user = values.text("requester.pays.mode", "DISABLED").upper() != "DISABLED"
    return GcsSettings(
        bucket=location.bucket,
        endpoint_url=endpoint_url,
        credential=NoLogin() if endpoint_url == emulator else credential(values),
        impersonated=values.text("auth.impersonation.service.account"),
        user_project=values.text("requester.pays.project.id") if is_paid_by_user else "",
    )


def credential(values: HadoopValues) -> GcsCredential:
    """Return the login that ``fs.gs.auth.type`` asks for.

    Without it: the key that the connector's older releases took, or Google's Application Default Credentials.
    """
    auth_type = values.text("auth.type").upper()
    if not auth_type:
        return _of_older_settings(values)
    if auth_type not in AUTH_TYPES:
        raise InvalidInputError(
            f"{PREFIX}auth.type is none of {', '.join(AUTH_TYPES)}: an access token provider is Java code that this"
            f" library can't run; {WAY_OUT}"
        )
    return AUTH_TYPES[auth_type](values)


def _of_older_settings(values: HadoopValues) -> GcsCredential:
    provider = values.text("auth.access.token.provider.impl") or values.text("auth.access.token.provider")
    if provider:
        raise InvalidInputError(
            f"{PREFIX}auth.access.token.provider {provider} is Java code that this library can't run; set"
            f" {PREFIX}auth.type, and {WAY_OUT}"
        )
    if values.text("auth.null.enabled").lower() == "true":
        return NoLogin()
    is_named = values.text(KEY_FILE) or values.text(PRIVATE_KEY)
    return _service_account(values) if is_named else DefaultLogin()


def _service_account(values: HadoopValues) -> GcsCredential:
    if not values.text(PRIVATE_KEY):
        (path,) = values.required_values(KEY_FILE)
        return LoginFile(path)
    names = (f"auth.service.account.{name}" for name in ("email", "private.key.id", "private.key"))
    email, key_id, private_key = values.required_values(*names)
    return ServiceAccountKey(email=email, key_id=key_id, private_key=private_key)


def _user(values: HadoopValues) -> GcsCredential:
    names = ("auth.client.id", "auth.client.secret", "auth.refresh.token")
    client_id, client_secret, refresh_token = values.required_values(*names)
    return UserLogin(client_id=client_id, client_secret=client_secret, refresh_token=refresh_token)


def _federated(values: HadoopValues) -> GcsCredential:
    (path,) = values.required_values("auth.workload.identity.federation.credential.config.file")
    return LoginFile(path, is_federated=True)


AUTH_TYPES: Final[Mapping[str, Callable[[HadoopValues], GcsCredential]]] = {
    "APPLICATION_DEFAULT": lambda _: DefaultLogin(),
    "COMPUTE_ENGINE": lambda _: MachineAccount(),
    "SERVICE_ACCOUNT_JSON_KEYFILE": _service_account,
    "USER_CREDENTIALS": _user,
    "WORKLOAD_IDENTITY_FEDERATION_CREDENTIAL_CONFIG_FILE": _federated,
    "UNAUTHENTICATED": lambda _: NoLogin(),
}
