"""What lies beside the registration of a staged write: turns of its publishers, and results of its checks.

Each is an object of its own, put once: so two processes that check one write at the same moment lose nothing.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Final

from table_writer.errors import InvalidInputError
from table_writer.log.stored import Allowance
from table_writer.model.check_result import CheckResult
from table_writer.model.write import TableLayout
from table_writer.storage.object_store import ObjectStore

__all__ = ["put_check_results", "read_check_results", "read_signs", "sign_prefix", "write_id_of_sign"]

SIGN: Final = re.compile(r"(?P<write_id>.+)\.(?:turn-[0-9]{5}|checks-[0-9]{8}T[0-9]{12}-[0-9a-f]{16})")


def sign_prefix(layout: TableLayout, write_id: str, kind: str) -> str:
    """Return how the keys of one kind of signs begin: ``"turn"`` or ``"checks"``."""
    return f"{layout.registrations.key}{write_id}.{kind}-"


def write_id_of_sign(layout: TableLayout, key: str) -> str | None:
    """Return whose sign this is, ``None`` if it is none."""
    found = SIGN.fullmatch(key.removeprefix(layout.registrations.key))
    return found and found["write_id"]


def read_signs(store: ObjectStore, layout: TableLayout, write_id: str = "", kind: str = "") -> list[str]:
    """List the keys of signs in their order: of one kind and one write, of one write, or all."""
    start = f"{layout.registrations.key}{write_id}." if write_id else layout.registrations.key
    found = [info.key for info in store.list(f"{start}{kind}-" if kind else start)]
    return [key for key in found if (whose := write_id_of_sign(layout, key)) and whose == (write_id or whose)]


def put_check_results(store: ObjectStore, layout: TableLayout, write_id: str, results: Iterable[CheckResult]) -> None:
    """Keep what checks have found, without rows of the data."""
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{secrets.token_hex(8)}"
    body = json.dumps([result.to_json() for result in results], ensure_ascii=False).encode()
    store.put(f"{sign_prefix(layout, write_id, 'checks')}{name}", body)


def read_check_results(store: ObjectStore, keys: Collection[str]) -> tuple[CheckResult, ...]:
    """Read what checks have found, oldest first by the store's clock.

    Raises
    ------
    InvalidInputError
        One of the objects cannot be read: it may say that the rows are wrong.
    """
    stored = sorted(
        (found for found in map(store.get, keys) if found is not None),
        key=lambda found: (found.info.modified_at, found.info.key),
    )
    results: list[CheckResult] = []
    allowance = Allowance()
    for found in stored:
        try:
            results += map(CheckResult.from_json, allowance.parsed(found.body, json.loads))
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidInputError(f"the results of checks at {found.info.key} cannot be read: {error}") from error
    return tuple(results)
