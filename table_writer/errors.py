"""The errors of this library, grouped by what the caller does next.

::

    TableWriterError
    ├── InvalidInputError      fix the call                (also a ValueError)
    │   └── MissingExtraError       install what an optional part needs (also an ImportError)
    ├── SchemaMismatchError    fix the DataFrame           (also a ValueError)
    ├── CheckFailedError       the data is wrong; nothing was published
    ├── ConflictError          someone else published these partitions; plan again and retry
    ├── PartlyPublishedError   other tools had moved some partitions first; the others are published
    ├── StorageError           storage failed; nothing is visible, retry
    ├── MetastoreError         the metastore failed; nothing is visible, retry
    │   ├── PartitionExistsError    the call would add a partition that exists
    │   ├── PartitionMissingError   the call would alter a partition that does not exist
    │   └── LostResponseError       the call was sent and no answer came: it may have been applied
    └── OutcomeUnknownError    do not retry, do not delete: ``TableWriter.recover(TABLE)``

Handlers choose by class, machines by ``error.code``, people by the message, which names
the table, the ``write_id`` and the next action.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from itertools import islice
from typing import ClassVar, Protocol

__all__ = [
    "CheckFailedError",
    "ConflictError",
    "InvalidInputError",
    "LostResponseError",
    "MetastoreError",
    "MissingExtraError",
    "OutcomeUnknownError",
    "PartitionExistsError",
    "PartitionMissingError",
    "PartlyPublishedError",
    "SchemaMismatchError",
    "StorageError",
    "TableWriterError",
    "counted",
    "needs_extra",
    "printable",
    "require_extra",
]


class TableWriterError(Exception):
    """The base of the errors of this library.

    Parameters
    ----------
    message
        What happened, to what, and what to do next: one paragraph for a person.
    table
        Full name of the table, ``database.name``, where one is known.
    write_id
        The write that failed, where one exists.
    """

    code: ClassVar[str] = "error"

    def __init_subclass__(cls, *, code: str = "") -> None:
        super().__init_subclass__()
        cls.code = code or cls.code

    def __init__(self, message: str, *, table: str = "", write_id: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.table = table
        self.write_id = write_id

    def add(self, sentence: str) -> None:
        """Say one more thing at the end of the message, on a line of its own if that has several."""
        between = "\n" if "\n" in self.message else " "
        ended = self.message if self.message.endswith((".", "?", "!")) else f"{self.message}."
        self.message = f"{ended}{between}{sentence}"
        self.args = (self.message,)

    def __str__(self) -> str:
        """Return the message, with table and write if the message does not name them."""
        named = {"table": self.table, "write_id": self.write_id}
        missing = [f"{key}={value}" for key, value in named.items() if value and value not in self.message]
        return f"{self.message} [{', '.join(missing)}]" if missing else self.message


class InvalidInputError(TableWriterError, ValueError, code="invalid_input"):
    """The call cannot be carried out as it stands; nothing was written. Fix the call."""


class DamagedError(InvalidInputError):
    """What is stored is gone, or is not what was written; or the store would lose it. The message says what to do."""


class MissingExtraError(InvalidInputError, ImportError, code="missing_extra"):
    """An optional part needs libraries that are not installed; the message has the extra that brings them."""


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Say of a library that cannot be imported within the block which extra brings it.

    Examples
    --------
    >>> with needs_extra("azure", "abfss://"):
    ...     import lost
    Traceback (most recent call last):
    table_writer.errors.MissingExtraError: abfss:// needs pip install 'hive-table-writer[azure]': No module named 'lost'
    """
    try:
        yield
    except ImportError as missing:
        raise MissingExtraError(f"{what} needs pip install 'hive-table-writer[{extra}]': {missing}") from missing


def require_extra(extra: str, what: str, *modules: str) -> None:
    """Say the same of modules that are not imported yet, and for which another process may have to wait."""
    with needs_extra(extra, what):
        for module in modules:
            if find_spec(module) is None:
                raise ModuleNotFoundError(f"No module named {module!r}")


class SchemaMismatchError(TableWriterError, ValueError, code="schema_mismatch"):
    """The DataFrame does not fit the table; nothing was written. Fix the DataFrame."""


class Checked(Protocol):
    """The facts of one check that an error holds; ``CheckResult`` says what each of them means."""

    @property
    def name(self) -> str: ...
    @property
    def severity(self) -> str: ...
    @property
    def passed(self) -> bool: ...
    @property
    def message(self) -> str: ...
    @property
    def failed_rows(self) -> int | None: ...
    @property
    def examples(self) -> tuple[Mapping[str, str], ...]: ...
    @property
    def answered_by(self) -> str: ...


class CheckFailedError(TableWriterError, code="check_failed"):
    """A data-quality check failed; nothing was published. The message shows each, with counts and example rows.

    Parameters
    ----------
    message, table, write_id
        As of every error.
    results
        The ``CheckResult`` of each check of the call, also of those that passed, with example rows.
    """

    def __init__(self, message: str, *, table: str = "", write_id: str = "", results: tuple[Checked, ...] = ()) -> None:
        super().__init__(message, table=table, write_id=write_id)
        self.results = results


class ConflictError(TableWriterError, code="conflict"):
    """Someone else published the same partitions first; nothing was published. Plan again and retry."""


class PartlyPublishedError(TableWriterError, code="partly_published"):
    """Another tool had moved some partitions of the write before they switched: the message names them.

    Readers see the rows of the others; those of the named ones are nowhere. The same call would not write them.
    """


class StorageError(TableWriterError, code="storage"):
    """Storage failed; nothing of this write is visible. Retry."""


class WideRowError(StorageError):
    """A row is wider than a job was made for; the job is run again, with other limits. No caller ever gets it."""


class MetastoreError(TableWriterError, code="metastore"):
    """The metastore failed or refused; nothing of this write is visible. Retry."""


class PartitionExistsError(MetastoreError, code="partition_exists"):
    """A partition to be added exists; the whole call changed nothing."""


class PartitionMissingError(MetastoreError, code="partition_missing"):
    """A partition to be altered does not exist; the whole call changed nothing."""


class LostResponseError(MetastoreError, code="lost_response"):
    """The request was sent and no answer came back: the change may or may not have been applied."""


class OutcomeUnknownError(TableWriterError, code="outcome_unknown"):
    """It could not be found out whether the publish took effect. Do not retry, do not delete: recover."""


def printable(text: str) -> str:
    r"""Escape what is no picture of itself: control characters, overrides of direction, invisible ones, surrogates.

    Examples
    --------
    >>> printable("dt=\u202e1\x00")
    'dt=\\u202e1\\x00'
    """
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def few(names: Iterable[object], most: int = 5) -> str:
    """Name the first of them, and say whether there are more.

    Examples
    --------
    >>> few(["dt=1", "dt=2"]), few([1, 2, 3], most=2)
    ('dt=1, dt=2', '1, 2, …')
    """
    first = list(islice(names, most + 1))
    return ", ".join(map(str, first[:most])) + (", …" if first[most:] else "")


def counted(count: int, noun: str) -> str:
    """Count things whose plural ends in ``s``, or in ``ries``.

    Examples
    --------
    >>> counted(1, "file"), counted(1200, "file"), counted(2, "entry")
    ('1 file', '1,200 files', '2 entries')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


@cache
def refuse_namesake() -> None:
    """Refuse to work beside the package of another author, of 2017, that has the name of our command."""
    if find_spec("xls_writer") is None:
        return
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - takes longer than a command

    with suppress(PackageNotFoundError):
        raise InvalidInputError(
            f"the package table-writer {version('table-writer')} is installed. It is another author's, writes Excel"
            " files, and was probably taken for this one, which is hive-table-writer: pip uninstall table-writer"
        )
