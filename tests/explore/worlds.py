"""The kinds of table that are explored, each over doubles of its own, as the oracle and as one process have it open."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from table_writer.config import TableWriterConfig
from table_writer.errors import LostResponseError, MetastoreError
from table_writer.metastore.glue import Clients, GlueMetastore
from table_writer.metastore.hive_objects import changed_parameters
from table_writer.metastore.protocol import nothing
from table_writer.metastore.settings import GlueSettings
from table_writer.mirrors.delta import DeltaMirror
from table_writer.model.entry import LogEntry
from table_writer.model.table import Partition, PartitionChange
from table_writer.model.write import Scope
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.history import History
from table_writer.protocol.operations.parameters import with_columns_of
from table_writer.testing.late import Late
from tests.doubles.glue import Answers, GlueDouble, GlueServer, RefusedError
from tests.fuzz.simulation import SimulatedWorld
from tests.glue.world import GlueWorld
from tests.mirrors.world import PARQUET
from tests.publish.world import values_of

BOTH: Final = ("d1", "d2")
ALL_PARTITIONS: Final = (*BOTH, "d3")  # the last is there only where somebody adds it
WHOLE: Final = ("",)
OLD_ANSWERS: Final = "old answers"
READS_OLD: Final = 2  # of a kind, until answers are those of now
MIRRORS: Final = TableWriterConfig(mirrors=["delta"])
FIRST: Final = ("overwrite", "append", "days pass", "overwrite")
"""What all find: something for a vacuum to delete, and something to roll back to."""


class WatchedWorld(SimulatedWorld):
    """The world as the oracle looks at it, which reads a log again only if it has other objects."""

    _read: tuple[frozenset[str], History] | None = None

    def history(self) -> History:
        log = self.layout.log_prefix
        keys = frozenset(key for key in self.store._objects if key.startswith(log))
        if self._read is None or self._read[0] != keys:
            self._read = keys, super().history()
        return self._read[1]

    def taken(self) -> Any:
        """Return a copy of all that the metastore has."""
        names = ("_tables", "_partitions", "_statistics")
        return {name: {key: copy(one) for key, one in getattr(self.metastore, name).items()} for name in names}

    def give(self, taken: Any) -> None:
        """Let the metastore have a copy of that."""
        for name, kept in taken.items():
            setattr(self.metastore, name, {key: copy(one) for key, one in kept.items()})

    def point(self, value: str, location: str, parameters: Mapping[str, str], entry: LogEntry) -> None:
        """Point readers somewhere, as a call that has left long ago."""
        if value:
            one = Partition(values=values_of(value), location=location, parameters=parameters)
            self.metastore.put_partition(self.name, one)
        else:
            table, whole = self.table, Partition(values=(), location=location, parameters=self.table.parameters)
            change = PartitionChange(partition=whole, location=location, set_parameters=parameters)
            change = with_columns_of(change, entry.schema, entry.columns_by)
            given, columns = changed_parameters(change), table.columns if change.columns is None else change.columns
            moved = replace(table, location=location, hive_location="", parameters=given, columns=columns)
            self.metastore.create_table(moved)

    def misreport(self) -> Exception:
        """Return the error after which a call was applied, though it says that it was not."""
        return MetastoreError("injected after it was applied")


class ActorWorld(SimulatedWorld):
    """The world as one process has it open."""

    def __post_init__(self) -> None:
        pass


class Wire:
    """A client of Glue without botocore, whose spelling of requests ``tests/glue`` has: a tenth of the time."""

    def __init__(self, gateway: GlueAtOnce) -> None:
        self._gateway = gateway
        self._gates: list[Callable[..., object]] = []
        self.meta = self.events = self  # the gateway registers its gate as ``client.meta.events.register_first``

    def register_first(self, event: str, handler: Callable[..., object]) -> None:
        if event.startswith("before-send"):
            self._gates.append(handler)

    def close(self) -> None:
        pass

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        return partial(self._send, "".join(map(str.title, operation.split("_"))))

    def _send(self, operation: str, **arguments: Any) -> Any:
        for gate in self._gates:
            gate(f"before-send.glue.{operation}")
        try:
            self._gateway.tell(operation, "before")
        except Late as late:
            self._gateway.pending.append(partial(self._come_late, operation, arguments))
            raise as_botocore(late.error) from None
        answer = self._apply(operation, arguments)
        self._gateway.tell(operation, "after")
        return answer

    def _come_late(self, operation: str, arguments: dict[str, Any]) -> None:
        try:
            self._apply(operation, arguments)
        except ClientError as error:
            raise MetastoreError(str(error)) from error

    def _apply(self, operation: str, arguments: dict[str, Any]) -> Any:
        try:
            return with_times(self._gateway.server._answered(operation, arguments))
        except RefusedError as refused:
            raise refusal(refused.code, operation) from None


def with_times(answer: Any) -> Any:
    """Return an answer with times in place of numbers, as botocore reads it."""
    for one in [answer.get("Table", {}), *answer.get("Partitions", ())]:
        for name in one.keys() & {"CreateTime", "UpdateTime", "CreationTime"}:
            one[name] = datetime.fromtimestamp(one[name], UTC)
    return answer


def as_botocore(error: BaseException | None) -> BaseException:
    """Return how botocore says that there is no answer, or that nothing was sent; all else as it is."""
    if isinstance(error, LostResponseError):
        return ReadTimeoutError(endpoint_url="glue")
    if isinstance(error, MetastoreError):
        return EndpointConnectionError(endpoint_url="glue")
    return error or RuntimeError("a client that never repeats a request")


def refusal(code: str, operation: str = "") -> ClientError:
    """Return how botocore says what Glue has refused."""
    return ClientError({"Error": {"Code": code, "Message": "injected"}}, operation)


class AnsweringServer(GlueServer):
    """Answers each role as it is shown things: whoever asks is asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.role: Callable[[], str] = str
        self._reads: Counter[str] = Counter()
        past: list[Any] = []
        first = replace(Answers(keeps_past=True, past=past), age=self._age)
        self._answers = {
            "": Answers(keeps_past=True, past=past),
            "d2 hidden": Answers(keeps_past=True, past=past, hidden_partitions=frozenset({values_of("d2")})),
            OLD_ANSWERS: first,
        }

    def _age(self, operation: str) -> int:
        """Let the first answers on partitions be older than the newest change."""
        self._reads[operation] += 1
        return 1 if "Partition" in operation and self._reads[operation] <= READS_OLD else 0

    def _answered(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self.answers = self._answers[self.role()]
        return super()._answered(operation, arguments)


class GlueAtOnce(GlueDouble):
    """The product's gateway to Glue, one partition a call."""

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self.server = AnsweringServer()
        settings = GlueSettings(region="us-east-1", change_batch=1)
        GlueMetastore.__init__(self, settings, connect=lambda _: Clients(Wire(self), Wire(self)), sleep=sleep)

    def tell(self, operation: str, phase: str) -> None:
        """Let the hook read the metastore, too: no deadline is its."""
        gate = self._gate.set(nothing)
        try:
            self.server._tell(operation, phase)
        except MetastoreError as error:
            raise as_botocore(error) from None
        finally:
            self._gate.reset(gate)

    @property
    def pending(self) -> list[Callable[[], object]]:
        return self.server.pending


class BatchedWorld(WatchedWorld, GlueWorld):
    """The same over Glue."""

    def taken(self) -> Any:
        tables = self.metastore.server.tables
        return {name: replace(one, partitions=dict(one.partitions)) for name, one in tables.items()}

    def give(self, taken: Any) -> None:
        tables = {name: replace(one, partitions=dict(one.partitions)) for name, one in taken.items()}
        self.metastore.server.tables = tables

    def misreport(self) -> Exception:
        return refusal("ThrottlingException")


def mirrored_rows(world: WatchedWorld) -> dict[str, list[int]] | None:
    """Return what readers of a table's Delta mirror see, by partitions; ``None`` if there is none, or it is damaged."""
    held = DeltaMirror(world.services()).read()
    if held is None or held.damage:
        return None
    found: dict[str, list[int]] = {}
    for values, files in held.files.items():
        keys = [held._key_of(path) for path, _ in files]
        if any(key not in world.store._objects for key in keys):
            return None
        found["".join(value or "" for value in values)] = sorted(
            row for key in keys for row in json.loads(world.store._objects[key][0])
        )
    return found


@dataclass(frozen=True)
class Kind:
    """A kind of table: over which doubles it lies, which partitions it has, and what all find done."""

    make_world: Callable[[Callable[[float], None]], WatchedWorld]
    partitions: tuple[str, ...] = ALL_PARTITIONS
    first: tuple[str, ...] = FIRST
    config: TableWriterConfig = field(default_factory=TableWriterConfig)
    """Of all who work on it."""
    misreports: float = 1
    """How often a call is applied and said to be refused, beside other faults."""

    @property
    def is_whole(self) -> bool:
        """Whether the table is its own only partition."""
        return self.partitions == WHOLE

    def values(self, values: tuple[str, ...]) -> list[str]:
        """Return which partitions are meant by those of a partitioned table."""
        return list(WHOLE if self.is_whole and values else values)

    def modes(self, mode: WriteMode, scope: Scope | None) -> tuple[WriteMode, Scope | None]:
        """Return how rows are replaced here."""
        replaces = self.is_whole and not mode.facts.keeps_rows
        return (WriteMode.OVERWRITE_TABLE, None) if replaces else (mode, scope)


def _partitioned(sleep: Callable[[float], None]) -> WatchedWorld:
    return WatchedWorld(sleep=sleep)


def _unpartitioned(sleep: Callable[[float], None]) -> WatchedWorld:
    world = WatchedWorld(sleep=sleep)
    world.become_unpartitioned()
    return world


def _uncompared(sleep: Callable[[float], None]) -> WatchedWorld:
    world = _unpartitioned(sleep)
    world.metastore.compares = False
    return world


def _mirrored(sleep: Callable[[float], None]) -> WatchedWorld:
    world = WatchedWorld(sleep=sleep, config=MIRRORS)
    world.metastore.create_table(replace(world.table, serde=PARQUET))
    return world


def _batched(sleep: Callable[[float], None]) -> WatchedWorld:
    return BatchedWorld(sleep=sleep, metastore=GlueAtOnce(sleep))


KINDS: Final[Mapping[str, Kind]] = {
    "": Kind(_partitioned),
    "root": Kind(_unpartitioned, WHOLE, ("insert", *FIRST)),
    "uncompared root": Kind(_uncompared, WHOLE, ("insert", *FIRST)),
    "batches": Kind(_batched, misreports=5),
    "mirrored": Kind(_mirrored, config=MIRRORS),
}
"""By the name that a schedule begins with; without one the table is partitioned, and switches in one call."""
