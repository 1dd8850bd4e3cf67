"""How long requests to a store may take, and how often they are sent: one value for every store with a network."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from table_writer.errors import InvalidInputError

FIRST_PAUSE_SECONDS: Final = 0.2  # at most, before a retry; doubled with each
LONGEST_PAUSE_SECONDS: Final = 20.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestSettings:
    """Timeouts, retries and connections of a store's client."""

    connect_timeout_seconds: float = 10
    read_timeout_seconds: float = 60
    max_attempts: int = 8  # per request, the first included
    max_connections: int = 64

    def __post_init__(self) -> None:
        if min(self.connect_timeout_seconds, self.read_timeout_seconds) <= 0:
            raise InvalidInputError("timeouts must be longer than 0 seconds")
        if min(self.max_attempts, self.max_connections) < 1:
            raise InvalidInputError("max_attempts and max_connections must be 1 or more")


AS_USUAL: Final = RequestSettings()


def pause_seconds(retry: int) -> float:
    """Return how long to wait before a retry, counted from 0: a random time, so that clients do not meet again."""
    return random.uniform(0, min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2**retry))  # noqa: S311 - no secret
