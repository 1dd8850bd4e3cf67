"""The decision which failures a scheduler should try again; each scheduler has words of its own for it."""

from __future__ import annotations

from typing import Final

from table_writer.cli.arguments import ExitCode
from table_writer.errors import (
    CheckFailedError,
    InvalidInputError,
    OutcomeUnknownError,
    PartitionExistsError,
    PartlyPublishedError,
    SchemaMismatchError,
)

MET_AGAIN: Final = (
    InvalidInputError,
    SchemaMismatchError,
    CheckFailedError,
    PartitionExistsError,
    OutcomeUnknownError,  # it is for `recover` to resolve
    PartlyPublishedError,  # an append would add the rows of the other partitions again
)
RETRIED: Final = frozenset({ExitCode.LEFT, ExitCode.FAILED})


def is_retried(code: ExitCode, *, may_repeat: bool) -> bool:
    """Return whether a retry can help a call that ended with this exit code; what is unknown, if it may be repeated.

    Examples
    --------
    >>> is_retried(ExitCode.UNKNOWN, may_repeat=False), is_retried(ExitCode.FAILED, may_repeat=False)
    (False, True)
    """
    return code in RETRIED or (code is ExitCode.UNKNOWN and may_repeat)


def meets_it_again(error: BaseException) -> bool:
    """Return whether a task that writes would meet this error again.

    These are a wrong call, a schema that does not fit, a failed check, a partition that exists already, an
    unknown outcome, and a write that was published in part. A conflict is retried, as failures of storage and metastore
    are: the task computes its rows again.

    Examples
    --------
    >>> meets_it_again(InvalidInputError("no such table"))
    True
    """
    return isinstance(error, MET_AGAIN)
