"""What a bucket does to files by itself, as far as its store tells: lifecycle rules, versions of deleted objects."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Literal, Protocol, runtime_checkable

Versioning = Literal["Enabled", "Suspended", "Unversioned"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LifecycleRule:
    """An enabled lifecycle rule that aborts pending uploads, expires objects, or both."""

    rule_id: str
    prefix: str  # of the rule, empty for the whole bucket
    days: int | None  # after which pending uploads are aborted; None: they are not
    expiration_days: int | None  # after which objects are deleted; None: they are not, or from a date on
    expiration_date: date | None = None  # from which on all objects are deleted
    is_limited: bool = False  # it takes only objects with certain tags or sizes: whether ours, only S3 knows


class BucketRules(Protocol):
    """Tells of one bucket's rules."""

    bucket: str

    def lifecycle(self, prefix: str) -> tuple[LifecycleRule, ...] | None:
        """Return the rules that abort pending uploads or expire objects, below the prefix or around it.

        They are in the bucket's order. ``None`` when it can't be told: the login may not read them, or the store knows
        none.
        """

    def versioning(self) -> Versioning | None:
        """Say whether deleted objects are kept as old versions, and paid for.

        ``"Suspended"`` keeps the versions from before. ``None`` when it can't be told.
        """


@runtime_checkable
class TellsRules(Protocol):
    """A store whose rules can be read."""

    def rules(self) -> BucketRules:
        """Return what tells of them."""
