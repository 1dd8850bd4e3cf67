"""How the command line ends: one number for each thing that a script does next."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from table_writer.errors import (
    CheckFailedError,
    ConflictError,
    InvalidInputError,
    LostResponseError,
    MetastoreError,
    OutcomeUnknownError,
    SchemaMismatchError,
    StorageError,
)

__all__ = ["MEANINGS", "ExitCode", "exit_code_of", "exit_codes_text"]


class ExitCode(IntEnum):
    """What a script can tell from ``$?``."""

    DONE = 0
    LEFT = 1
    WRONG_CALL = 2
    CONFLICT = 3
    FAILED = 4
    UNKNOWN = 5
    INTERRUPTED = 130


MEANINGS: Final[Mapping[ExitCode, str]] = {
    ExitCode.DONE: "done",
    ExitCode.LEFT: "done, but something is left to look at: the report names it",
    ExitCode.WRONG_CALL: "wrong usage, or it cannot be done as asked; nothing changed",
    ExitCode.CONFLICT: "somebody else published the same partitions; nothing changed",
    ExitCode.FAILED: "storage or metastore failed; what was not done can be tried again",
    ExitCode.UNKNOWN: "it is not known whether it took effect: run `table-writer recover TABLE`",
    ExitCode.INTERRUPTED: "Ctrl-C, or the question was not answered with yes",
}

EXIT_CODES: Final[Mapping[type[BaseException], ExitCode]] = {
    InvalidInputError: ExitCode.WRONG_CALL,
    SchemaMismatchError: ExitCode.WRONG_CALL,
    CheckFailedError: ExitCode.WRONG_CALL,
    ConflictError: ExitCode.CONFLICT,
    StorageError: ExitCode.FAILED,
    MetastoreError: ExitCode.FAILED,
    LostResponseError: ExitCode.UNKNOWN,  # a MetastoreError whose call may have been applied
    OutcomeUnknownError: ExitCode.UNKNOWN,
    KeyboardInterrupt: ExitCode.INTERRUPTED,
}


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the code of the nearest class that has one; a bug of ours leaves the outcome unknown.

    Examples
    --------
    >>> exit_code_of(LostResponseError("no answer")), exit_code_of(KeyError("bug"))
    (<ExitCode.UNKNOWN: 5>, <ExitCode.UNKNOWN: 5>)
    """
    return next((EXIT_CODES[kind] for kind in type(error).__mro__ if kind in EXIT_CODES), ExitCode.UNKNOWN)


def exit_codes_text() -> str:
    """Return the list that ``--help`` ends with."""
    return "\n".join(["exit codes:", *(f"  {code.value:>3}  {MEANINGS[code]}" for code in ExitCode)])
