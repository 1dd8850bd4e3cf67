"""Why a request to a store failed, and what to do: one form of table, and the rows that all stores share.

Each store has rows of its own before these (``s3/causes.py`` and its like); the first row that fits is said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from table_writer.errors import StorageError

THROTTLED: Final = frozenset({429, 503})


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A request that failed; the status is 0 where there was no answer."""

    code: str = ""  # the store's own
    status: int = 0
    message: str = ""
    operation: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    error: Exception | None = None


Says = str | Callable[[Any], str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """One row: how a cause is known, what it means, what to do.

    It fits where a code or a status is named and is the failure's, or the error is of one of the ``kinds``; and where
    all that is said beside holds: ``message`` is searched in the failure's without regard to case, ``operations`` are
    those that it concerns.
    """

    meaning: str
    advice: Says
    codes: frozenset[str] = frozenset()
    statuses: frozenset[int] = frozenset()
    kinds: tuple[type[Exception], ...] = ()
    message: str = ""
    operations: frozenset[str] = frozenset()
    also: Callable[[Any], bool] = lambda _: True

    def fits(self, failure: Failure) -> bool:
        """Return whether this is the cause."""
        is_named = (
            failure.code in self.codes or failure.status in self.statuses or isinstance(failure.error, self.kinds)
        )
        is_any = not (self.codes or self.statuses or self.kinds)
        return (
            (is_named or is_any)
            and (not self.operations or failure.operation in self.operations)
            and re.search(self.message, failure.message, re.IGNORECASE) is not None
            and self.also(failure)
        )


def last_rows(store: str, documentation: str) -> tuple[Cause, ...]:
    """Return the rows that end each store's table: what its status alone says."""
    return (
        Cause(
            meaning=f"{store} asks to slow down, also after retries",
            advice="Use fewer threads or tasks, or retry later",
            statuses=THROTTLED,
        ),
        Cause(
            meaning=f"{store} failed, also after retries",
            advice="Retry later",
            also=lambda failure: failure.status >= 500,
        ),
        Cause(meaning=f"{store} failed", advice="Retry", statuses=frozenset({0})),
        Cause(meaning=f"{store} refused", advice=f"Retry; if it stays, look the code up in {documentation}"),
    )


def rows_of_codes(table: Mapping[str, tuple[str, str]]) -> tuple[Cause, ...]:
    """Return rows for codes that need no more than their meaning and advice."""
    return tuple(
        Cause(meaning=meaning, advice=advice, codes=frozenset({code})) for code, (meaning, advice) in table.items()
    )


def as_error(failure: Failure, causes: Sequence[Cause], where: str) -> StorageError:
    """Say what failed, on what, and what to do; the first cause that fits."""
    cause = next(cause for cause in causes if cause.fits(failure))
    advice = cause.advice if isinstance(cause.advice, str) else cause.advice(failure)
    message = failure.message.rstrip(".")
    if not failure.status:
        return StorageError(f"{cause.meaning} for {where}: {message}. {advice}")
    request = f"{failure.operation} on {where}" if failure.operation else where
    answer = f"{failure.code or 'no code'} (HTTP {failure.status}): {message or 'no message'}"
    return StorageError(f"{cause.meaning}: {request}: {answer}. {advice}")
