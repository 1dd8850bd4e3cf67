"""The idempotency keys that the entries of a log know, and what may have made them free again.

Pure, and a part of the log's state: it is stored with that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from table_writer.model.entry import Outcome
from table_writer.protocol.log.records import SlotRecord


@dataclass(kw_only=True)
class KnownKeys:
    """The newest versions by key and by stream, and all rollbacks."""

    published: dict[str, int] = field(default_factory=dict)
    """The newest published version of each key, by its digest."""
    batches: dict[str, int] = field(default_factory=dict)
    """The newest version of each stream of batches since the fold."""
    older_batches: dict[str, int] = field(default_factory=dict)
    """The same by the fold."""
    rollbacks: dict[int, int] = field(default_factory=dict)
    """The rollbacks, each with the version that it went back to."""

    def copy(self) -> KnownKeys:
        """Return the same, to be added to."""
        return KnownKeys(**{name: dict(versions) for name, versions in vars(self).items()})

    def apply(self, record: SlotRecord) -> None:
        """Add what one more record says."""
        entry, version = record.entry, record.entry.version
        if entry.rollback_to is not None and record.outcome is not Outcome.ABANDONED:
            self.rollbacks[version] = entry.rollback_to
        if not entry.idempotency_key:
            return
        if entry.stream:
            self.batches[entry.stream] = version
        if record.outcome is Outcome.PUBLISHED and entry.meaning.brings_rows:
            self.published[key_digest(entry.idempotency_key, entry.stream)] = version

    @property
    def newest_batches(self) -> dict[str, int]:
        """The newest version of each stream of batches."""
        streams = self.older_batches.keys() | self.batches.keys()
        return {name: max(self.older_batches.get(name, 0), self.batches.get(name, 0)) for name in streams}

    def voids(self, version: int) -> bool:
        """Return whether a rollback may have taken back what this version published: then its key is free again."""
        return any(to < version < rollback for rollback, to in self.rollbacks.items())

    def folded(self, stays: Callable[[int], bool]) -> KnownKeys:
        """Return what is stored: of versions that stay, but the newest batch of every stream."""
        return KnownKeys(
            published={digest: version for digest, version in self.published.items() if stays(version)},
            older_batches=self.newest_batches,
            rollbacks={version: to for version, to in self.rollbacks.items() if stays(version)},
        )


def key_digest(key: str, stream: str) -> str:
    """Return the digest that stands for an idempotency key in a fold; whoever finds it compares the key itself."""
    return hashlib.blake2b(f"{stream}\0{key}".encode(), digest_size=8).hexdigest()
