"""A world of doubles: a store, a metastore, and writers that do steps 1 to 5 without Spark."""

from __future__ import annotations

import gzip
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any

import pytest

from table_writer.config import SessionSettings, TableWriterConfig
from table_writer.errors import InvalidInputError, LostResponseError, MetastoreError, OutcomeUnknownError, StorageError
from table_writer.jobs.complete import Completer
from table_writer.jobs.running_write import RunningWrite
from table_writer.maintenance import Maintenance
from table_writer.metastore.protocol import Metastore
from table_writer.model.column_figures import ColumnFigures, as_text
from table_writer.model.entry import Key, ReplacedLocation, ReplacedObject
from table_writer.model.location import Location
from table_writer.model.message import CommitMessage, PendingUpload
from table_writer.model.partition_value import Spellings, has_spellings
from table_writer.model.staged_write import StagedRecord
from table_writer.model.table import Column, Partition, PartitionValues, Table, TableName, name_in
from table_writer.model.write import (
    Scope,
    TableLayout,
    WritePlan,
    WrittenFiles,
    every_partition,
    new_write_id,
    no_partition,
)
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.history import History
from table_writer.protocol.log.listing import Listing
from table_writer.protocol.log.owner import Owner, take_root
from table_writer.protocol.operations.parameters import NO_FILES
from table_writer.protocol.operations.publisher import Publisher, PublishResult
from table_writer.protocol.table.open_table import OpenTable, RepeatedError
from table_writer.protocol.table.services import Services
from table_writer.reports.history_reports import RecoverReport
from table_writer.reports.vacuum_reports import VacuumReport
from table_writer.storage.object_store import ObjectStore, visible_files
from table_writer.testing.late import Late
from table_writer.testing.memory_metastore import MemoryMetastore
from table_writer.testing.memory_store import MemoryStore

Rows = Mapping[str, frozenset[int]]
TABLE = TableName("mart", "orders")
ROOT = "s3a://lake/mart/orders/"


CHANGING = {
    *(("metastore", call) for call in ("add_partitions", "alter_partitions", "drop_partition", "add_table")),
    *(("store", call) for call in ("put", "put_if_absent", "delete", "complete_upload", "abort_upload", "copy")),
    ("store", "create_upload"),
}
"""The calls after which store or metastore hold something else; an upload's part shows only with its upload."""


def plain(body: bytes) -> bytes:
    """What an object says: long ones are stored packed."""
    return gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body


def value_of(values: PartitionValues) -> str:
    """Return the value of a partition, as readers of a CHAR see it; none is that of an unpartitioned table."""
    return "".join(values).rstrip(" ")


def values_of(value: str) -> PartitionValues:
    """Return a partition's values; an unpartitioned table is its own only partition, without a name."""
    return (value,) if value else ()


def schema_of(columns: Iterable[Column]) -> str:
    """Return columns of plain types as Spark's JSON."""
    types = {"bigint": "long", "int": "integer"}
    fields = [{"name": one.name, "type": types.get(one.type, one.type), "metadata": {}} for one in columns]
    return json.dumps({"type": "struct", "fields": fields})


class DeathError(SystemExit):
    """The process is gone: nothing after it runs, no cleanup either; a thread that meets it ends without a word."""


def publisher_of(opened: OpenTable) -> Publisher:
    """Return step 5 for writes of this process alone."""
    return Publisher(opened, Completer.of(opened).copy)


@dataclass(frozen=True)
class Fault:
    """One call that fails: the n-th of its kind, before it takes effect, or after it (its response is lost)."""

    service: str
    call: str
    number: int
    phase: str
    kind: type[BaseException]

    def __str__(self) -> str:
        return f"{self.kind.__name__}-{self.phase}-{self.service}.{self.call}-{self.number}"

    @property
    def error(self) -> BaseException:
        if self.kind is not Exception:
            return self.kind(str(self))
        if self.service == "store":
            return StorageError(f"injected {self}")
        return MetastoreError(f"injected {self}") if self.phase == "before" else LostResponseError(f"injected {self}")


DIED = Fault("metastore", "alter_partitions", 1, "before", DeathError)
REFUSED = Fault("metastore", "alter_partitions", 1, "before", Exception)


def figures_of(ids: frozenset[int]) -> str:
    """What a task tells of a file with these rows."""
    one = ColumnFigures("integer", 0, len(ids), min(ids), max(ids), distinct=len(ids))
    return as_text({"id": one})


@dataclass
class TableWorld:
    """One table over some store and some metastore, and what tests do with it: steps 1 to 5 without Spark."""

    store: ObjectStore
    metastore: Metastore
    name: TableName = TABLE
    root: str = ROOT
    config: TableWriterConfig = field(default_factory=TableWriterConfig)
    staged_ids: list[str] = field(default_factory=list)
    sleep: Callable[[float], None] = time.sleep  # while others' claims last
    columns: dict[int, tuple[Column, ...]] = field(default_factory=dict)  # that rows were written with
    counts_figures: bool = False  # of the files of a write, as tasks do: then the metastore gets column statistics

    @property
    def table(self) -> Table:
        table = self.metastore.get_table(self.name)
        assert table is not None
        return table

    @property
    def layout(self) -> TableLayout:
        return TableLayout(Location.parse(self.root))

    def services(self, config: TableWriterConfig | None = None) -> OpenTable:
        return self.all_services(config).open_table(self.name)

    def all_services(self, config: TableWriterConfig | None = None) -> Services:
        return Services(
            SessionSettings(hadoop={"hive.metastore.uris": "thrift://metastore:9083"}, application_id="app-1"),
            config or self.config,
            open_metastore=lambda _: self.metastore,
            open_object_store=lambda _: self.store,
            sleep=self.sleep,
        )

    @property
    def keeper(self) -> Maintenance:
        return Maintenance(services=self.all_services())

    def plan(
        self,
        mode: WriteMode = WriteMode.OVERWRITE_PARTITIONS,
        *,
        scope: Scope | None = None,
        key: str = "",
        stream: str = "",
        in_place: bool = False,
        seen: Listing | None = None,
    ) -> WritePlan:
        services = self.services()
        log_id = take_root(self.store, self.layout, Owner.of(services.table, self.metastore.uri))
        services.log.expect(log_id)
        state = services.listing_to_build_on(log_id, seen)
        return WritePlan(
            write_id=new_write_id(),
            mode=mode,
            scope=scope or (every_partition if mode.facts.replaces_table else no_partition),
            key=Key(key, stream),
            in_place=in_place,
            table=self.table,
            layout=self.layout,
            schema="" if self.table.partition_columns else schema_of(self.table.columns),
            base_version=state.newest,
            checkpoint=state.listed_after,
            in_doubt=state.in_doubt,
            created_at=datetime.now(UTC),
            log_id=log_id,
            spellings=self._spellings(),
        )

    def _spellings(self) -> Spellings:
        types = [column.type for column in self.table.partition_columns]
        if not has_spellings(types):
            return Spellings()
        spelled = Spellings.of(self.metastore.get_partition_names(self.name), types, table=str(self.name))
        spelled.require_clear()
        return spelled.unusual()

    def write(
        self,
        rows: Rows,
        *,
        plan: WritePlan | None = None,
        before_publish: Callable[[], object] = int,
        config: TableWriterConfig | None = None,
    ) -> PublishResult:
        """Do what ``TableWriter`` does after the plan, with the upload step replaced."""
        services = self.services(config)
        plan = plan or self.plan()
        services.log.expect(plan.log_id)
        self.columns |= dict.fromkeys(frozenset().union(*rows.values()), plan.columns)
        with RunningWrite(services, plan) as write:
            messages = (self._upload(plan, rows),)
            write.complete(messages)
            before_publish()
            files = WrittenFiles.from_messages(plan, messages, keeps_files=bool(services.followed_mirrors))
            published = publisher_of(services).publish(files, write.claiming)
        self.after_publish(services, files, published)
        return published

    def after_publish(self, services: OpenTable, files: WrittenFiles, published: PublishResult) -> None:
        """Do what a call does once readers have switched: nothing here."""

    def stage(self, rows: Rows, *, plan: WritePlan | None = None, expires_after_seconds: float = 5_000.0) -> str:
        """Do steps 1 to 4, and leave the rest to whoever comes."""
        plan = plan or self.plan()
        with RunningWrite(self.services(), plan) as write:
            messages = (self._upload(plan, rows),)
            write.complete(messages)
            files = WrittenFiles.from_messages(plan, messages)
            write.stage(StagedRecord(files=files, expires_after_seconds=expires_after_seconds))
        self.staged_ids.append(plan.write_id)
        return plan.write_id

    def publish_staged(self) -> None:
        """Publish what was staged last, once, whoever else has tried it."""
        self.keeper.publish(str(self.name), self.staged_ids[-1])

    def discard_staged(self) -> None:
        """Discard what was staged last."""
        with suppress(InvalidInputError):  # it is gone
            self.keeper.discard(str(self.name), self.staged_ids[-1])

    def compact(
        self, *values: str, before_publish: Callable[[], object] = int, at_most: int = 1_000_000
    ) -> PublishResult:
        """Write the rows of all files of these partitions, or of so many, into one each."""
        plan, now = self.plan(WriteMode.APPEND), self.partitions()
        compacted: dict[PartitionValues, ReplacedLocation] = {}
        rows: dict[str, frozenset[int]] = {}
        for value in values:
            location = now[value].location
            found = list(visible_files(self.store, Location.parse(location).key))[:at_most]
            objects = tuple(ReplacedObject(key=one.key, size_bytes=one.size_bytes, etag=one.etag) for one in found)
            compacted[now[value].values] = ReplacedLocation(
                location=location, delete_after=datetime.now(UTC), objects=objects
            )
            bodies = [self.store.get(one.key) for one in found]
            rows[value] = frozenset(row for one in bodies if one is not None for row in json.loads(one.body))
        return self.write(rows, plan=replace(plan, compacted=compacted), before_publish=before_publish)

    def write_once(self, rows: Rows, mode: WriteMode, key: str, *, stream: str = "", in_place: bool = False) -> None:
        """Write with an idempotency key."""
        plan = self.plan(mode, key=key, stream=stream, in_place=in_place)
        with suppress(RepeatedError):
            self.services().require_new_key(plan.key)
            self.write(rows, plan=plan)

    def _upload(self, plan: WritePlan, rows: Rows) -> CommitMessage:
        uploads = []
        files = [(value, ids, number) for value, all_ids in rows.items() for number, ids in self._files(plan, all_ids)]
        for value, ids, number in files:
            values = values_of(value)
            directory = plan.data_location.child(name_in(plan.table, values))
            key = f"{directory.key}part-00000-{plan.write_id}-0-{number}.json"
            upload_id = self.store.create_upload(key)
            part = self.store.upload_part(key, upload_id, 1, json.dumps(sorted(ids)).encode())
            uploads.append(
                PendingUpload(
                    key=key,
                    upload_id=upload_id,
                    parts=(part,),
                    size_bytes=part.size_bytes,
                    row_count=len(ids),
                    partition_values=values,
                    figures=figures_of(ids) if self.counts_figures else "",
                )
            )
        return CommitMessage(
            write_id=plan.write_id,
            task_index=0,
            attempt_id=0,
            row_count=sum(map(len, rows.values())),
            uploads=tuple(uploads),
        )

    def _files(self, _: WritePlan, ids: frozenset[int]) -> Iterable[tuple[int, frozenset[int]]]:
        """Return which rows of a partition go to which file."""
        return [(0, ids)]

    def written_by_another_tool(self, value: str, ids: frozenset[int], *, blanks: int = 0) -> Partition:
        """What Spark or Hive would do: files below the table root, and a partition that points there."""
        location = f"{self.root}dt={value}/" if value else self.root
        self.store.put(f"{Location.parse(location).key}part-0.json", json.dumps(sorted(ids)).encode())
        return self.pointed_by_another_tool(value, location, blanks=blanks) if value else self.partitions()[""]

    def pointed_by_another_tool(self, value: str, location: str, *, blanks: int = 0) -> Partition:
        """Point a partition elsewhere, spelled with so many blanks behind, which do not count in a CHAR."""
        partition = Partition(values=(value + blanks * " ",), location=location, parameters=NO_FILES)
        self.dropped_by_another_tool(value)
        self.metastore.add_partitions(self.table, [partition])
        return partition

    def dropped_by_another_tool(self, value: str) -> None:
        """Drop a partition, however it is spelled."""
        table = self.table
        for values in self.metastore.get_partition_names(self.name):
            if self._named(table, values) == value:
                self.metastore.drop_partition(table, values)

    def rows(self) -> dict[str, frozenset[int]]:
        """What readers see: partitions without rows left out, as in a query's answer."""
        found: dict[str, frozenset[int]] = {}
        for value, partition in self.partitions().items():
            prefix = Location.parse(partition.location).key
            ids: list[int] = []
            for info in visible_files(self.store, prefix):
                stored = self.store.get(info.key)
                assert stored is not None
                ids += json.loads(stored.body)
            assert len(set(ids)) == len(ids), f"rows of {value} are there twice: {ids}"
            shown = self.table.columns  # more than at the time of the rows: a column may have been added since
            wrong = [one for one in ids if not value and not {*self.columns.get(one, shown)} <= {*shown}]
            assert not wrong, f"rows {wrong} are read with columns that others have"
            if ids:
                found[value] = frozenset(ids)
        return found

    def partitions(self) -> dict[str, Partition]:
        table = self.table
        return {self._named(table, values): one for values, one in self.metastore.get_all_partitions(table).items()}

    def _named(self, table: Table, values: PartitionValues) -> str:
        is_char = has_spellings(column.type for column in table.partition_columns)
        return value_of(values) if is_char else "".join(values)

    def history(self) -> History:
        return self.services().log.read_history()

    def vacuum(self) -> VacuumReport:
        """Delete everything that nobody needs, at once."""
        return self.keeper.vacuum(str(self.name), older_than=timedelta(0), force=True)

    def leftovers(self) -> list[str]:
        """Objects, uploads and registrations that neither a partition nor the newest word of the log needs."""
        used = [Location.parse(one.location).key for one in self.partitions().values()]
        used += [key for _, _, key in self.history().in_use()]
        live = [key for key in used if key != self.layout.root.key]  # whose readers pass over what lies below
        data = [info.key for info in self.store.list(self.layout.all_data.key)]
        return [
            *(key for key in data if not key.startswith(tuple(live))),
            *(info.key for info in self.store.list(self.layout.registrations.key)),
            *(info.key for info in self.store.list(self.layout.all_staged.key)),
            *(upload.key for upload in self.store.list_uploads(self.layout.root.key)),
        ]


@dataclass
class FaultyWorld(TableWorld):
    """The same with faults: store and metastore have a hook, ``on_call``, around each call."""

    store: Any = None
    metastore: Any = None
    kept_call: Callable[[], object] = int
    wait_seconds: float = 10_000  # longer than any claim

    def wait_out_claims(self) -> None:
        """Let every claim time out."""
        raise NotImplementedError

    def recover_later(self) -> RecoverReport:
        """Let every claim time out, and recover the table."""
        self.wait_out_claims()
        return self.keeper.recover(str(self.name))

    def fails(self, fault: Fault, operation: Callable[[], object], error: type[BaseException] = DeathError) -> None:
        """Do something that ends in an error, since one of its calls fails."""
        with self.inject(fault), pytest.raises(error):
            operation()

    def at_store(self, call: str, phase: str, act: Callable[[], object], key: str = "") -> None:
        """Let ``act`` happen once, at the first such call of the store whose key ends so."""

        def called(*now: str) -> None:
            if now[:2] == (call, phase) and now[2].endswith(key):
                self.store.on_call = None
                act()

        self.store.on_call = called

    def at_metastore(self, call: str, phase: str, act: Callable[[], object]) -> None:
        """Let ``act`` happen once, at the first such call of the metastore."""

        def called(*now: str) -> None:
            if now == (call, phase):
                self.metastore.on_call = None
                act()

        self.metastore.on_call = called

    def lose_metastore(self) -> None:
        """Forget the partitions, and make the table again a little later."""
        raise NotImplementedError

    def become_unpartitioned(self) -> None:
        """Make the table again, without partition columns; its rows are those of partition ``""``."""
        raise NotImplementedError

    @contextmanager
    def recording(self) -> Iterator[list[tuple[str, str]]]:
        """Record all calls: what the fault matrix is generated from."""
        calls: list[tuple[str, str]] = []

        def record(service: str) -> Callable[[str, str], None]:
            return lambda call, phase: calls.append((service, call)) if phase == "before" else None

        with self._hooked(record("store"), record("metastore")):
            yield calls

    @contextmanager
    def inject(self, fault: Fault, *, keep_call: bool = False) -> Iterator[None]:
        """Make one call fail. After a death every later call dies too.

        With ``keep_call`` the failing metastore call is kept, as on a slow server, for ``apply_kept_call``.
        """
        seen: Counter[tuple[str, str, str]] = Counter()  # each phase by itself: calls of several threads overlap
        counting = Lock()
        dead = False

        def hook(service: str) -> Callable[[str, str], None]:
            def called(call: str, phase: str) -> None:
                nonlocal dead
                if dead:
                    raise DeathError
                now = (service, call, phase)
                with counting:
                    seen[now] += 1
                    number = seen[now]
                if now == (fault.service, fault.call, fault.phase) and number == fault.number:
                    dead = fault.kind is DeathError
                    raise fault.error

            return called

        with self._hooked(hook("store"), hook("metastore")), self._keeping(fault.call if keep_call else ""):
            yield

    @contextmanager
    def _keeping(self, call: str) -> Iterator[None]:
        original = getattr(self.metastore, call, None)

        def keep(*arguments: object, **named: object) -> None:
            self.kept_call = lambda: original(*arguments)  # type: ignore[misc]
            original(*arguments, **named)  # type: ignore[misc]

        if call:
            setattr(self.metastore, call, keep)
        try:
            yield
        finally:
            if call:
                delattr(self.metastore, call)

    def apply_kept_call(self) -> None:
        """The server gets round to the call that its client has given up on."""
        self.kept_call()

    @contextmanager
    def _hooked(self, store: Callable[[str, str], None], metastore: Callable[[str, str], None]) -> Iterator[None]:
        self.store.on_call = lambda call, phase, _key: store(call, phase)
        self.metastore.on_call = metastore
        try:
            yield
        finally:
            self.store.on_call = None
            self.metastore.on_call = None


@dataclass
class MetastoreDouble(FaultyWorld):
    """The same over the double of the metastore."""

    def lose_metastore(self) -> None:
        table = self.table
        self.metastore.drop_table(self.name)
        self.metastore.create_table(replace(table, created_at_seconds=table.created_at_seconds + 60))

    def pointed_by_another_tool(self, value: str, location: str, *, blanks: int = 0) -> Partition:
        if value:
            return super().pointed_by_another_tool(value, location, blanks=blanks)
        self.metastore.create_table(replace(self.table, location=location, hive_location=""))  # keeps its parameters
        return self.partitions()[value]

    def become_unpartitioned(self) -> None:
        table = self.table
        self.metastore.drop_table(self.name)
        self.metastore.create_table(replace(table, partition_columns=()))


@dataclass
class World(MetastoreDouble):
    """The same over doubles."""

    store: MemoryStore = field(default_factory=MemoryStore)
    metastore: MemoryMetastore = field(default_factory=MemoryMetastore)
    skipped_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.store.clock = lambda: time.time() + self.skipped_seconds
        self.metastore.create_table(
            Table(
                name=TABLE,
                kind="EXTERNAL_TABLE",
                location=ROOT,
                columns=(Column("id", "bigint"),),
                partition_columns=(Column("dt", "string"),),
            )
        )

    def located(self) -> dict[str, str]:
        """Return where each partition is, past all hooks."""
        table = self.metastore._tables[self.name]
        stored = self.metastore._partitions[self.name] if table.partition_columns else {(): table}
        return {value_of(values): one.location for values, one in stored.items()}

    def wait_out_claims(self) -> None:
        self.skipped_seconds += self.wait_seconds


def written(rows: Rows) -> World:
    """Return a world whose table holds these rows already."""
    world = World()
    world.write(rows)
    return world


def fail(error: BaseException) -> None:
    raise error


def body_of(store: ObjectStore, key: str) -> bytes:
    """Return what is stored there."""
    found = store.get(key)
    assert found is not None
    return found.body


def insert(world: TableWorld, value: str, row: int) -> None:
    """Another tool adds a file with one row where readers of a partition look."""
    place = Location.parse(world.partitions()[value].location).key
    world.store.put(f"{place}spark-{row}.json", f"[{row}]".encode())


def move(world: TableWorld, value: str, name: str, *ids: int) -> str:
    """Another tool puts rows of its own elsewhere, and points the partition there."""
    place = f"{world.root}{name}/{value}/"
    world.store.put(f"{Location.parse(place).key}f.json", json.dumps(sorted(ids)).encode())
    world.pointed_by_another_tool(value, place)
    return place


def without_answer(
    world: World, operation: Callable[[], object], call: str = "alter_partitions"
) -> Callable[[], object]:
    """Do something whose first such call has no answer; returns what applies the call later, if it still can be."""
    world.at_metastore(call, "before", lambda: fail(Late(LostResponseError("no answer"))))
    with suppress(OutcomeUnknownError):  # not where only a drop is open
        operation()
    world.metastore.on_call = None
    late = world.metastore.pending.pop()

    def come() -> bool:
        with suppress(MetastoreError):
            late()
            return True
        return False

    return come
