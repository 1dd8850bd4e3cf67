"""Causes of failures at Azure, or on the way to it, each with what mends it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from azure.core.exceptions import AzureError, ClientAuthenticationError, ServiceRequestError

from table_writer.errors import StorageError
from table_writer.storage.causes import Cause, Failure, as_error, last_rows, rows_of_codes

SIGNATURE: Final = re.compile(r"(\bsig=)[^&\s'\"<>)]+", re.IGNORECASE)
ROLES: Final = "Storage Blob Data Contributor, or a SAS token with the permissions racwdl, on the container"
_BAD_LOGIN: Final = (
    "Azure does not accept the login",
    "Check fs.azure.account.key, the SAS token or the OAuth settings",
)
OF_CODES: Final = {  # Azure's error code: what it means, what to do
    "AuthenticationFailed": (
        "Azure does not accept the login",
        "Check fs.azure.account.key, the SAS token and its expiry, and the clock of this machine",
    ),
    "InvalidAuthenticationInfo": _BAD_LOGIN,
    "NoAuthenticationInformation": _BAD_LOGIN,
    "KeyBasedAuthenticationNotPermitted": ("the account takes no shared keys", "Use OAuth: fs.azure.account.auth.type"),
    "AuthorizationFailure": (
        "access denied",
        f"The login needs {ROLES}. Check fs.azure.account.key or the token as well, and the account's firewall",
    ),
    "AuthorizationPermissionMismatch": ("access denied", f"The login needs {ROLES}"),
    "AuthorizationProtocolMismatch": ("access denied", "The SAS token is for https alone, or for other addresses"),
    "AuthorizationSourceIPMismatch": ("access denied", "The SAS token is for https alone, or for other addresses"),
    "InsufficientAccountPermissions": ("access denied", f"The login needs {ROLES}"),
    "AccountIsDisabled": ("the account is disabled", "Ask its owner"),
    "ContainerNotFound": ("the container does not exist in this account", "Check the location"),
    "ContainerBeingDeleted": ("the container is being deleted", "Check the location"),
    "BlobArchived": ("the file is archived", "Bring it back to an online tier first"),
    "BlobBeingRehydrated": ("the file is archived", "Wait until it is back in an online tier"),
    "LeaseIdMissing": ("another tool holds a lease on the file", "Let it end, or break the lease"),
    "SnapshotsPresent": ("the file has snapshots, which are not deleted", "Delete them, if nobody needs them"),
    "BlobImmutableDueToPolicy": ("an immutability policy protects the file", "Give the table another container"),
    "InvalidHeaderValue": ("the service is older than the SDK", "Install an older azure-storage-blob"),
}
CAUSES: Final = (  # the first that fits
    *rows_of_codes(OF_CODES),
    Cause(meaning="access denied", advice=f"The login needs {ROLES}", statuses=frozenset({401, 403})),
    Cause(
        meaning="no token",
        advice="Check the fs.azure.account.oauth2 settings, and the role",
        statuses=frozenset({0}),
        also=lambda failure: isinstance(failure.error, ClientAuthenticationError),
    ),
    Cause(
        meaning="Azure can't be reached",
        advice="Check the location and the network",
        statuses=frozenset({0}),
        also=lambda failure: isinstance(failure.error, ServiceRequestError),
    ),
    *last_rows("Azure", "Azure's documentation"),
)


def without_signatures(text: str) -> str:
    """Return a text without what makes a SAS token valid.

    Examples
    --------
    >>> without_signatures("GET /lake/a?sv=2026-10-06&sig=hush%3D&sp=r failed")
    'GET /lake/a?sv=2026-10-06&sig=…&sp=r failed'
    """
    return SIGNATURE.sub(r"\1…", text)


def error_code(error: AzureError) -> str:
    """Return Azure's error code, for example ``BlobNotFound``; empty where there was no answer."""
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or "")


def http_status(error: AzureError) -> int:
    """Return the HTTP status of Azure's answer, 0 when there was none."""
    return int(getattr(error, "status_code", None) or 0)


@contextmanager
def sdk_errors_translated(where: str) -> Iterator[None]:
    """Turn what the SDK raises inside into :class:`StorageError`, chained."""
    try:
        yield
    except AzureError as error:
        raise storage_error(error, where) from error


def storage_error(error: AzureError, where: str) -> StorageError:
    """Say what failed, on what, and what to do; the first cause that fits.

    The error itself lets go of its response, which holds the request, and with it the login.
    """
    code, status = error_code(error), http_status(error)
    for name in ("response", "model", "exc_value", "exc_traceback", "inner_exception"):
        if hasattr(error, name):
            setattr(error, name, None)
    message = without_signatures(str(error.message)).partition("\n")[0] or type(error).__name__
    return as_error(Failure(code=code, status=status, message=message, error=error), CAUSES, where)
