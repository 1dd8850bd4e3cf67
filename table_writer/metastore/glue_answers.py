"""The answers of AWS Glue: which say that nothing was changed, and what to do about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from botocore.exceptions import ClientError

from table_writer.model.table import PartitionValues

MISSING: Final = "EntityNotFoundException"
EXISTS: Final = "AlreadyExistsException"
CHANGED: Final = frozenset({"ConcurrentModificationException", "VersionMismatchException"})
BUSY: Final = frozenset({"ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded"})
REFUSED: Final = frozenset(
    {
        *BUSY,
        *CHANGED,
        MISSING,
        EXISTS,
        "AccessDeniedException",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidInputException",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "ResourceNumberLimitExceededException",
        "UnrecognizedClientException",
        "ValidationException",
    }
)
"""Answers after which nothing was changed. All others, OperationTimeoutException too, may hide a change."""

KEYS: Final = "AWS_PROFILE or --profile, or AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"
ADVICE: Final[Mapping[str, str]] = {
    "AccessDeniedException": "allow this call on the catalog, the database and the table, in IAM and Lake Formation",
    "ExpiredTokenException": f"renew the session token: {KEYS}",
    "UnrecognizedClientException": f"check the keys: {KEYS}",
    "ResourceNumberLimitExceededException": "raise the account's quota of partitions or table versions",
    **dict.fromkeys(BUSY, "run it again when fewer others use this catalog"),
}


def values_of(error: Mapping[str, Any]) -> PartitionValues:
    """Return whose error it is: the two batch calls spell it in two ways."""
    return tuple(error.get("PartitionValues") or error.get("PartitionValueList") or ())


def detail_of(error: Mapping[str, Any]) -> tuple[str, str]:
    """Return the code and the text of the error of one partition."""
    found = error.get("ErrorDetail", {})
    return found.get("ErrorCode", "an error without a code"), found.get("ErrorMessage", "no message")


def code_and_text(error: ClientError) -> tuple[str, str]:
    """Return the code and the text of a refusal."""
    said = error.response.get("Error", {})
    return said.get("Code", "an error without a code"), said.get("Message", "no message")
