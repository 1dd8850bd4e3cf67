"""The event of a call that is over: plain and frozen, without rows of the data and without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal

import msgspec

from table_writer.model.check_result import CheckResult
from table_writer.model.partition_facts import PartitionFacts
from table_writer.model.table import Column

FORMAT: Final = 1  # of to_dict(): keys may be added under one number
KEYS_OF_PARTITIONS: Final = ("name", "action", "rows", "files", "bytes", "location")
EventPartition = PartitionFacts
"""Its public name, in events."""
EventOperation = Literal[
    "write", "stage", "publish", "discard", "compact", "rollback", "restore", "recover", "vacuum", "mirror"
]
EventOutcome = Literal[
    "published", "nothing", "repeated", "staged", "discarded", "vacuumed", "abandoned", "failed", "unknown"
]


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTime:
    """One step of a call, and when it ran.

    Parameters
    ----------
    name
        ``"plan"``, ``"upload"``, ``"complete"``, ``"check"``, ``"publish"`` or ``"vacuum"``.
    started_at
        In UTC.
    seconds
        How long it took.
    """

    name: str
    started_at: datetime
    seconds: float

    @property
    def ended_at(self) -> datetime:
        """Return the time of the end, in UTC."""
        return self.started_at + timedelta(seconds=self.seconds)


@dataclass(frozen=True, slots=True)
class Source:
    """A table or a place that the rows of a write were read from.

    Parameters
    ----------
    table
        ``database.table``; empty for files that were read by their path.
    location
        The URI of its directory, without a login; empty where Spark does not say it.
    catalog
        Spark's name of the catalog; empty for that of the session, which is the Hive metastore.
    """

    table: str
    location: str
    catalog: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class EventError:
    """The error with which a call has failed.

    Parameters
    ----------
    code
        That of the error of this library, ``"interrupted"`` after Ctrl-C, or ``"other"`` for what Spark or the caller's
        own code has raised.
    type
        Name of its class.
    message
        First line of what an error of this library says, at most 300 characters, which may quote names and texts that
        the call was given; empty for others, which may quote rows and secrets.
    """

    code: str
    type: str
    message: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableEvent:
    """One call that is over, as listeners are told of it.

    Parameters
    ----------
    operation
        ``"write"``: steps 1 to 5 in one call, also a batch of a stream. ``"stage"``, ``"publish"``, ``"discard"``: of a
        staged write. ``"compact"``, ``"rollback"``, ``"restore"``, ``"vacuum"``. ``"recover"``: an entry that somebody
        had left in doubt was resolved, or done again where a call that came late had undone it, by a call of recover or
        on the way of any other; each entry is an event. ``"mirror"``: a mirror was brought up, or repaired, because
        somebody asked; or could not take up a version that was just published.
    outcome
        ``"published"``: readers see it. ``"nothing"``: there was nothing to do. ``"repeated"``: it was published
        before, as ``version``. ``"staged"``, ``"discarded"``, ``"vacuumed"``. ``"abandoned"``, of a recovery: the write
        never takes effect. ``"failed"``: the call has raised, and readers see nothing of it. ``"unknown"``: it has
        raised, and nobody knows yet; the recovery that finds out is another event, with this ``write_id`` as
        ``of_write_id``.
    table
        ``database.table``; as the caller spelled it if the call failed before the table was looked up.
    mode
        What is done to the table: the mode of a write, staged or recovered too; ``"merge"`` and other calls that change
        rows; ``"compact"``, ``"rollback"``, ``"restore"``, ``"vacuum"``; of a mirror its kind.
    started_at, ended_at
        In UTC. Of a recovery, the first is when the entry was made that was in doubt.
    version, write_id
        Of the call's own entry; of a repeated call that of the write which did it before.
    of_version, of_write_id
        The version that a rollback goes back to, or that a recovery has resolved, and its write.
    metastore, location
        The first address of the metastore that is configured; the table's root.
    columns, partition_columns
        As the metastore describes them, types in Hive's spelling.
    partitions
        What has changed, in the order of the partitions: :class:`~table_writer.model.partition_facts.PartitionFacts`,
        of which :meth:`to_dict` has the name, action, rows, files, bytes and location.
    deleted_files, deleted_bytes
        By a vacuum, or with a staged write that was discarded.
    checks
        What the checks of the rows found, without example rows.
    tags, idempotency_key
        As the caller gave them.
    sources
        What Spark's plan of the DataFrame reads; ``None`` where nobody can tell: over Spark Connect, and in calls that
        have no DataFrame.
    steps
        In the order in which they began.
    storage_requests, metastore_calls
        Sent by the call, by kind, executors included.
    user, host, application_id
        Who called, where, and Spark's own name of the application.
    error
        Of a call that has failed, or whose outcome is unknown.
    notes
        What a person should know, and what could not be done.

    Examples
    --------
    >>> from datetime import UTC
    >>> noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    >>> event = TableEvent(
    ...     operation="write", outcome="published", table="mart.orders", mode="append", started_at=noon, ended_at=noon
    ... )
    >>> event.rows, event.to_dict()["outcome"]
    (0, 'published')
    """

    operation: EventOperation
    outcome: EventOutcome
    table: str
    mode: str
    started_at: datetime
    ended_at: datetime
    version: int | None = None
    write_id: str = ""
    of_version: int | None = None
    of_write_id: str = ""
    metastore: str = ""
    location: str = ""
    columns: tuple[Column, ...] = ()
    partition_columns: tuple[Column, ...] = ()
    partitions: tuple[PartitionFacts, ...] = ()
    deleted_files: int = 0
    deleted_bytes: int = 0
    checks: tuple[CheckResult, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    idempotency_key: str = ""
    sources: tuple[Source, ...] | None = None
    steps: tuple[StepTime, ...] = ()
    storage_requests: Mapping[str, int] = field(default_factory=dict)
    metastore_calls: Mapping[str, int] = field(default_factory=dict)
    user: str = ""
    host: str = ""
    application_id: str = ""
    error: EventError | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Copy what could be changed: each listener gets an event of its own."""
        for name in ("tags", "storage_requests", "metastore_calls"):
            object.__setattr__(self, name, dict(getattr(self, name)))

    @property
    def rows(self) -> int | None:
        """Return the rows of all partitions; ``None`` if other tools wrote some of them."""
        known = [partition.rows for partition in self.partitions if partition.rows is not None]
        return sum(known) if len(known) == len(self.partitions) else None

    @property
    def files(self) -> int:
        """Return the number of files of all partitions."""
        return sum(partition.files for partition in self.partitions)

    @property
    def bytes(self) -> int:
        """Return the bytes of all partitions."""
        return sum(partition.bytes for partition in self.partitions)

    @property
    def seconds(self) -> float:
        """Return the seconds from the call to its end; for a recovery those since the entry was made."""
        return (self.ended_at - self.started_at).total_seconds()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: all fields by their names, the sums, and ``format``, which is 1."""
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        partitions = [{key: facts[key] for key in KEYS_OF_PARTITIONS} for facts in plain["partitions"]]
        sums = {
            "partition_count": len(self.partitions),
            "rows": self.rows,
            "files": self.files,
            "bytes": self.bytes,
            "seconds": self.seconds,
        }
        return {"format": FORMAT, **plain, "partitions": partitions, **sums}
