"""Causes of failures at Google, or on the way to it, each with what mends it."""

from __future__ import annotations

from typing import Final

from table_writer.errors import StorageError
from table_writer.storage.causes import Cause, Failure, as_error, last_rows, rows_of_codes

ROLE: Final = "the role Storage Object User (roles/storage.objectUser) on the bucket"
BAD_LOGIN: Final = ("Google does not accept the login", "Check the fs.gs.auth settings, and the clock of this machine")
REQUESTER_PAYS: Final = "is requester pays bucket"  # Google's words; its reason is mostly "required"
NO_TOKEN: Final = ("no token", "Check the fs.gs.auth settings, the account, and this machine's clock")
OF_REASONS: Final = {  # Google's reason: what it means, what to do
    "authError": BAD_LOGIN,
    "userProjectMissing": ("whoever asks pays for this bucket", "Set fs.gs.requester.pays.project.id and .mode"),
    "accountDisabled": ("the account is disabled", "Ask its owner"),
    "retentionPolicyNotMet": ("a retention policy protects the file", "Give the table a bucket without one"),
    "objectUnderActiveHold": ("a hold protects the file", "Release it, if nobody needs it"),
    "rateLimitExceeded": ("Google asks to slow down, also after retries", "Use fewer threads or tasks, or retry later"),
    "vpcServiceControls": ("access denied", "A service perimeter keeps this machine out: ask who owns the project"),
    "login": NO_TOKEN,  # from here on: reasons of this library, where there was no answer
    "token": NO_TOKEN,
    "unreached": ("Google can't be reached", "Check the location and the network"),
}
CAUSES: Final = (  # the first that fits
    Cause(
        meaning=OF_REASONS["userProjectMissing"][0], advice=OF_REASONS["userProjectMissing"][1], message=REQUESTER_PAYS
    ),
    *rows_of_codes(OF_REASONS),
    Cause(meaning=BAD_LOGIN[0], advice=BAD_LOGIN[1], statuses=frozenset({401})),
    Cause(meaning="access denied", advice=f"The login needs {ROLE}", statuses=frozenset({403})),
    Cause(meaning="there is no such bucket or file", advice="Check the location", statuses=frozenset({404})),
    *last_rows("Google", "Google's documentation"),
)


class RefusedError(Exception):
    """Google, or whatever is between, did not do what was asked; ``status`` is 0 where there was no answer."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason

    @property
    def is_missing(self) -> bool:
        """Whether Google says that an object is not there; of a missing bucket, and from a proxy, the words differ."""
        text = str(self)
        is_googles = self.reason == "notFound" or text.startswith("No such object") or text == "Not Found"
        return self.status == 404 and is_googles and "bucket does not exist" not in text


def storage_error(refused: RefusedError, where: str) -> StorageError:
    """Say what failed, on what, and what to do; the first cause that fits."""
    failure = Failure(code=refused.reason, status=refused.status, message=str(refused))
    return as_error(failure, CAUSES, where)
