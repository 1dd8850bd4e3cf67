"""Who works on a table: every operation of the library, and what other tools do. One name, one set of arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from inspect import unwrap
from random import Random
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession

from table_writer.errors import ConflictError, InvalidInputError, MetastoreError, OutcomeUnknownError
from table_writer.jobs.batches import batch_writer
from table_writer.jobs.rows.snapshot import Snapshot
from table_writer.model.table import Column
from table_writer.model.write import Scope, WritePlan
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.marks import LATE_CALL_SECONDS
from table_writer.protocol.operations.parameters import new_parameters
from table_writer.protocol.table.past import Past, files_of
from table_writer.storage.object_store import ObjectInfo, visible_files
from tests.fuzz.operations import Operations
from tests.fuzz.oracle import Ids
from tests.maintenance.operations import erase
from tests.publish.world import DeathError, schema_of, value_of, values_of

from .worlds import BOTH, OLD_ANSWERS

if TYPE_CHECKING:
    from .run import Run

DAYS: Final = 10
NO_SPARK: Final = object.__new__(SparkSession)
NOTHING: Final = re.compile("[Nn]othing of write|[Nn]othing was (published|changed)|changed nothing")
"""What a caller is told of a staged write that nobody has published."""


@dataclass(frozen=True)
class Actor:
    """An operation with its arguments; ``before`` is what it finds done."""

    operation: str
    values: tuple[str, ...] = BOTH
    key: str = ""
    batch: int | None = None
    mode: WriteMode = WriteMode.APPEND
    in_place: bool = False
    before: tuple[str, ...] = ()
    back: int = 1  # how many versions a rollback or a reader goes back
    counts_figures: bool = False  # of its files, so that a publish sets statistics after its switch
    answers: str = ""  # what Glue shows its role: all of it, as it is now, or see `worlds`
    refused: str = ""  # the call that its store refuses, as a role without a right
    is_newer: bool = False  # of a library whose entries have a word that those of today do not know


GIVEN_UP: Final = ("stage overwrite d1", "dying publish", "then move", "then recover", "then old call comes")
"""A publish that was given up, since another tool had moved its partition, and whose call came after that."""
STAGES: Final = {
    "stage": Actor("stage"),
    "stage in place": Actor("stage", in_place=True),
    "stage overwrite": Actor("stage", mode=WriteMode.OVERWRITE_PARTITIONS),
    "stage create": Actor("stage", ("d3",), mode=WriteMode.CREATE_PARTITIONS),
    "stage rows": Actor("stage_rows"),
}
MIRRORED: Final = {
    "mirror": Actor("mirror"),
    "repair mirror": Actor("repair_mirror"),
    "check mirror": Actor("check_mirror"),
    "drop mirror": Actor("drop_mirror"),
    "handover": Actor("handover"),
    "take back": Actor("take_back"),
    "take back what was handed over": Actor("take_back", before=("handover",)),
    "recover what was handed over": Actor("recover", before=("handover",)),
}
OURS: Final = {
    "append": Actor("append"),
    "append in place": Actor("append_in_place"),
    "append after a recovery": Actor("append", before=("dying append", "recover")),
    "append d1": Actor("append", ("d1",)),
    "append in place d1": Actor("append_in_place", ("d1",)),
    "append d2 d3": Actor("append", ("d2", "d3")),
    "append in place d2 d3": Actor("append_in_place", ("d2", "d3")),
    "overwrite": Actor("overwrite"),
    "overwrite d2 d3": Actor("overwrite", ("d2", "d3")),
    "overwrite where": Actor("overwrite_where"),
    "overwrite with figures": Actor("overwrite", counts_figures=True),
    "overwrite table": Actor("overwrite_table", ("d1",)),
    "overwrite nothing": Actor("overwrite_nothing", ()),
    "create": Actor("create", ("d3",)),
    "compact": Actor("compact", before=("append in place",)),
    "change rows": Actor("change_rows"),
    "change rows d1": Actor("change_rows", ("d1",)),
    "append once": Actor("append_once", key="orders/2"),
    "append once d3": Actor("append_once", ("d3",), key="orders/2"),
    "append in place once": Actor("append_in_place_once", key="orders/2"),
    "overwrite once": Actor("overwrite_once", key="orders/2"),
    "batch": Actor("batch", batch=5),
    "batch in place": Actor("batch", batch=5, in_place=True),
    "later batch": Actor("batch", batch=6),
    **STAGES,
    "publish": Actor("publish", before=("stage",)),
    "publish in place": Actor("publish", before=("stage in place",)),
    "publish overwrite": Actor("publish", before=("stage overwrite",)),
    "publish create": Actor("publish", before=("stage create",)),
    "publish rows": Actor("publish", before=("stage rows",)),
    "discard": Actor("discard", before=("stage",)),
    "recover": Actor("recover"),
    "undo an old call": Actor("recover", before=GIVEN_UP),
    "rollback": Actor("rollback"),
    "rollback far": Actor("rollback", back=2),
    "restore": Actor("restore", before=("drop",)),
    "restore in doubt": Actor("restore", before=("dying append in place", "drop")),
    "adopt": Actor("adopt", before=("made again",)),
    "vacuum": Actor("vacuum"),
    "erase": Actor("erase"),
    "vacuum what is to be erased": Actor("vacuum", before=("overwrite", "erase")),
    "purge": Actor("purge", ("d1",)),
    "purge all": Actor("purge"),
    "certificate": Actor("certificate", before=("purge",)),
    "vacuum after a purge": Actor("vacuum", before=("purge",)),
    "refused vacuum": Actor("vacuum", before=("overwrite",), refused="delete"),
    "append by another configuration": Actor("append_by_another_configuration"),
    "look": Actor("look"),
    "abort uploads": Actor("abort_uploads"),
    "read older": Actor("read_older"),
}
OTHERS: Final = {
    "insert": Actor("insert", ("d1",)),
    "insert overwrite": Actor("insert_overwrite", ("d1",)),
    "insert d2": Actor("insert", ("d2",)),
    "insert d3": Actor("insert", ("d3",)),
    "move": Actor("move", ("d1",)),
    "move d3": Actor("move", ("d3",)),
    "drop": Actor("drop", ("d1",)),
    "point back": Actor("point_back", ("d1",)),
    "spell otherwise": Actor("spell_otherwise"),
    "days pass": Actor("days_pass"),
    "made again": Actor("made_again"),
    "lose outcome": Actor("lose_outcome"),
    "reset log": Actor("reset_log"),
    "begin again": Actor("begin_again"),
    "static overwrite": Actor("static_overwrite", ("d1",)),
    "set back": Actor("set_back"),
    "set back far": Actor("set_back", back=2),
}
EARLIER: Final = {
    "dying append": Actor("dying_append"),
    "dying append in place": Actor("dying_append_in_place"),
    "dying publish": Actor("dying_publish"),
    "refused overwrite": Actor("refused_overwrite"),
    "refused append in place": Actor("refused_append_in_place"),
    "dying overwrite table": Actor("dying_overwrite_table", ("d1",)),
    "dying replacement": Actor("dying_replacement"),
    "then refused publish": Actor("refused_publish"),
}
"""What is only ever found done."""
LATER: Final = {
    "then overwrite": Actor("overwrite"),
    "then append in place": Actor("append_in_place"),
    "then move": Actor("move", ("d1",)),
    "then recover": Actor("recover"),
    "then vacuum": Actor("vacuum"),
    "then days pass": Actor("days_pass"),
    "then lose outcome": Actor("lose_outcome"),
    "then lose older outcome": Actor("lose_outcome", back=2),
    "then old call comes": Actor("old_call_comes"),
}
"""The same once more, in what is found done: there each name is done once."""
APART: Final = {
    "replace columns": Actor("replace_columns"),  # of an unpartitioned table
    "append to other columns": Actor("append", before=("replace columns",)),
    "old replacement comes": Actor("old_call_comes", before=("dying replacement", "recover", "then overwrite")),
    "old alter comes to other columns": Actor("old_call_comes", before=("dying append", "recover", "replace columns")),
    "old alter comes": Actor("old_call_comes", before=("dying append", "recover", "then overwrite")),
    "old drop comes": Actor("old_call_comes", before=("dying overwrite table", "recover", "then overwrite")),
    "append after an old call": Actor(
        "append",
        ("d2", "d3"),
        before=("dying append", "recover", "then overwrite", "then old call comes", "then days pass"),
    ),
    "publish after its old call": Actor("publish", before=GIVEN_UP),
    "refusal lost after a vacuum": Actor(
        "days_pass", before=("refused overwrite", "then days pass", "then vacuum", "then lose outcome")
    ),
    "refusal in place lost after a vacuum": Actor(
        "days_pass", before=("refused append in place", "then days pass", "then vacuum", "then lose outcome")
    ),
    "refusal lost under an append": Actor(
        "days_pass", before=("refused append in place", "then append in place", "then lose older outcome")
    ),
    "lose older outcome": Actor("lose_outcome", back=2, before=("append in place", "then overwrite", "then days pass")),
    "rollback further": Actor("rollback", back=3),
    "rollback to the beginning": Actor("rollback", back=100),
    "rollback of files": Actor("rollback", before=("append in place",)),
    "rollback to what was recovered": Actor("rollback", before=("dying append in place", "recover")),
    "stage overwrite d1": Actor("stage", ("d1",), mode=WriteMode.OVERWRITE_PARTITIONS),
    "publish after a refusal": Actor("publish", before=("stage", "then refused publish")),
    "publish in place after a refusal": Actor("publish", before=("stage in place", "then refused publish")),
    "overwrite d1": Actor("overwrite", ("d1",)),
    "create d2": Actor("create", ("d2",)),
    "append once after a rollback": Actor("append_once", key="orders/2", before=("append once", "rollback")),
}
"""Who needs what others do not find, so that not all meet them."""
OF_A_ROLE: Final = {
    f"{name} with {answers}": replace(OURS[name], answers=answers)
    for name in (
        "append",
        "append in place",
        "overwrite",
        "overwrite table",
        "compact",
        "rollback",
        "restore",
        "vacuum",
        "recover",
    )
    for answers in ("d2 hidden", OLD_ANSWERS)
}
NEWER: Final = {
    f"{name} by a newer library": replace(OURS[name], is_newer=True)
    for name in ("append", "append in place", "overwrite", "rollback", "recover", "vacuum")
}
ACTORS: Final = OF_A_ROLE | NEWER | OURS | OTHERS | EARLIER | LATER | APART | MIRRORED
ATOMIC: Final = frozenset(actor.operation for actor in (OTHERS | EARLIER).values()) | {"old_call_comes"}
"""What other tools do is one step here: how they order their calls is not this library's to decide."""


class ChosenOperations(Operations):
    """The fuzzer's operations with the arguments of whoever is at work, not with drawn ones."""

    _on: Run

    @property
    def _actor(self) -> Actor:
        return self._on.actor

    def _values(self, _: Random) -> list[str]:
        return self._on.kind.values(self._actor.values)

    def _plan(self, rows: dict[str, Ids], mode: WriteMode, *, scope: Scope | None = None, **named: Any) -> WritePlan:
        mode, scope = self._on.kind.modes(mode, scope)
        plan = super()._plan(rows, mode, scope=scope, **named)
        if self._actor.operation in {"replace_columns", "dying_replacement"} and self._on.kind.is_whole:
            columns = (Column(f"of_{plan.write_id[-3:]}", "string"),)
            plan = replace(plan, schema=schema_of(columns), replaced_schema=plan.schema)
        for ids in rows.values():
            self._on.oracle.wrote(ids, plan.columns)
        return plan

    def _key(self, _: Random) -> str:
        return self._actor.key

    def _staged_id(self, _: Random) -> str:
        write_id = self._on.staged[0]
        self._on.waiting.pop(write_id, None)
        return write_id

    def _raced(self, value: str) -> bool:
        return self._on.are_others_at_work or super()._raced(value)

    def append_all(self, _: Random) -> str:
        """Append; again if it has just resolved a write that gives the table other columns."""
        try:
            return self._write(self._rows(self._on.kind.values(BOTH)), WriteMode.APPEND)
        except ConflictError as conflict:
            if "was altered" not in conflict.message:
                raise
        return self._write(self._rows(self._on.kind.values(BOTH)), WriteMode.APPEND)

    def change_rows(self, _: Random) -> str:
        """Add rows to partitions as a merge does: what they hold is written anew, based on one version of it."""
        rows, plan = self._changed_rows(_)
        published = self._on.world.write(rows, plan=plan)
        self._acknowledge(plan.write_id)
        return f"published as {published.entry.version}"

    def stage_rows(self, _: Random) -> str:
        """The same, to be published later."""
        return self._stage(*self._changed_rows(_))

    def _changed_rows(self, _: Random) -> tuple[dict[str, Ids], WritePlan]:
        world = self._on.world
        snapshot, rows = Snapshot(NO_SPARK, world.services()), self._rows(self._values(_))
        chosen = [values_of(value) for value in rows]
        held = {value_of(values): self._ids_in(files.values()) for values, files in snapshot.files_of(chosen).items()}
        plan = replace(
            self._plan(rows, WriteMode.OVERWRITE_PARTITIONS),
            based_on=snapshot.version,
            base_version=int(snapshot.version),
            reads=(snapshot.as_read(chosen),),
        )
        oracle = self._on.oracle
        oracle.writes[plan.write_id] = replace(oracle.writes[plan.write_id], mode=WriteMode.APPEND)  # no row goes
        return {value: ids | held.get(value, frozenset()) for value, ids in rows.items()}, plan

    def replace_columns(self, random: Random) -> str:
        """Overwrite an unpartitioned table with rows of other columns."""
        return self.overwrite_table(random)

    def _ids_in(self, files: Iterable[ObjectInfo]) -> Ids:
        stored = [self._on.world.store.get(file.key) for file in files]
        return frozenset(row for found in stored if found is not None for row in json.loads(found.body))

    def compact(self, _: Random) -> str:
        return super().compact(_All())

    def stage(self, _: Random) -> str:
        actor = self._actor
        rows = self._rows(self._values(_), in_place=actor.in_place)
        return self._stage(rows, self._plan(rows, actor.mode, in_place=actor.in_place))

    def _stage(self, rows: dict[str, Ids], plan: WritePlan) -> str:
        begun, expires = self._on.now, 3_000_000.0
        try:
            self._on.world.stage(rows, plan=plan, expires_after_seconds=expires)
        finally:
            self._on.staged.append(plan.write_id)
        self._on.waiting[plan.write_id] = begun + expires
        return "staged"

    def batch(self, _: Random) -> str:
        """Write a batch of a stream, with the key that the library makes for it."""
        actor, calls = self._actor, list[Any]()
        write = batch_writer(lambda *call: calls.append(call), self._on.table, "append", "orders", {})  # type: ignore[arg-type,return-value]
        unwrap(write)(None, actor.batch)
        call = calls[0][2]
        key = call.options.idempotency_key
        return self._with_key(key, _, stream=call.stream, in_place=actor.in_place)

    def overwrite_nothing(self, _: Random) -> str:
        """Replace no partition with no rows: an entry that names none."""
        return self._write({}, WriteMode.OVERWRITE_PARTITIONS, scope=lambda _: frozenset())

    def publish(self, random: Random) -> str:
        """Publish what is staged; after a refusal it stays staged, and nothing of it is published."""
        waiting = dict(self._on.waiting)
        try:
            return super().publish(random)
        except (ConflictError, MetastoreError) as error:
            if NOTHING.search(error.message) and "look first" not in error.message:
                self._on.require_unpublished(self._on.staged[0])
            others = sum(ACTORS[one].operation in {"publish", "discard"} for one in self._on.schedule.actors)
            if not isinstance(error, OutcomeUnknownError) and others == 1:
                self._on.waiting.update(waiting)
            raise

    def rollback(self, _: Random) -> str:
        version = max(0, self._on.oracle.newest() - self._actor.back)
        report = self._on.world.keeper.rollback(self._on.table, version=version)
        return f"rolled back to {report.to_version} as {report.version}"

    def adopt(self, _: Random) -> str:
        self._on.world.keeper.adopt(self._on.table)
        return "adopted"

    def erase(self, _: Random) -> str:
        """Let the next vacuum delete all that readers have left, as after a delete of rows in all partitions."""
        entry = erase(self._on.world)
        return f"to be erased by {entry.version}: {len(entry.deletes)}"

    def read_older(self, _: Random) -> str:
        """Read a version that others may be deleting: what readers saw then, or an error."""
        version = max(1, self._on.oracle.newest() - self._actor.back)
        opened = self._on.world.services()
        try:
            past = {value_of(one.values): one for one in Past(opened, version=version).partitions()}
            files = {value: files_of(opened, one, "it") for value, one in past.items()}
            self._on._require_columns_then(opened.table, past, files)
        except InvalidInputError as error:
            return str(error)[:60]
        self._on.compare_with_sights(version, files)
        return f"read version {version}"

    def dying_append(self, random: Random) -> None:
        """An append that dies when it has claimed: as if it had never been, until somebody recovers it."""

        self._die_at("alter_partitions", self.append, random)

    def dying_publish(self, random: Random) -> None:
        """The same with a staged write."""
        self._die_at("alter_partitions", self.publish, random)

    def dying_append_in_place(self, random: Random) -> None:
        """The same with an append in place that dies before its first copy."""
        self._die_at("alter_partitions", self.append_in_place, random)

    def dying_replacement(self, random: Random) -> None:
        """The same with an overwrite that gives the table other columns."""
        self._die_at("alter_partitions", self.replace_columns, random)

    def refused_overwrite(self, random: Random) -> None:
        """An overwrite that the metastore refuses: its entry is abandoned."""
        self._die_at("alter_partitions", self.overwrite, random, MetastoreError("refused"))

    def refused_append_in_place(self, random: Random) -> None:
        """The same with an append in place: nothing of it is copied."""
        self._die_at("alter_partitions", self.append_in_place, random, MetastoreError("refused"))

    def dying_overwrite_table(self, random: Random) -> None:
        """The same with an overwrite that dies before its drop."""
        self._die_at("drop_partition", self.overwrite_table, random)

    def _die_at(
        self, at: str, operation: Callable[[Random], str], random: Random, error: BaseException | None = None
    ) -> None:
        def die(call: str, _: str) -> None:
            if call == at:
                raise error or DeathError

        metastore = self._on.world.metastore
        metastore.on_call = die
        with suppress(DeathError, MetastoreError):
            operation(random)
        metastore.on_call = None
        self._on.oracle.observe(self._on.oracle.newest(), late=False)

    def refused_publish(self, random: Random) -> None:
        """A publish of what is staged that the metastore refuses: its entry is abandoned, and it stays staged."""
        self._die_at("alter_partitions", self.publish, random, MetastoreError("refused"))

    def old_call_comes(self, _: Random) -> None:
        """The call before which a process seems to have died comes now, after others' recovery and publish."""
        on, world = self._on, self._on.world
        recovered = {one.entry.recovers for one in world.history().records}
        found = next(one for one in world.history().records if one.entry.version in recovered)
        entry = found.entry
        if found.age_seconds > LATE_CALL_SECONDS:
            return
        gone = [one for one in entry.partitions if one.new_location is None]
        for one in gone:
            world.metastore.drop_partition(world.table, one.values)
        for one in () if gone else entry.partitions:
            parameters = new_parameters(entry, one, world.layout)
            on.base.point(value_of(one.values), str(one.new_location), parameters, entry)
        on.oracle.observe(entry.version, late=True)

    # Other tools

    def insert_overwrite(self, _: Random) -> None:
        """Spark's INSERT OVERWRITE of a partition: its files go, others come to the same place."""
        (value,) = self._values(_)
        where = self._on.oracle.locations().get(value)
        if where is None or where.startswith(self._on.world.layout.data("").key):
            return
        ids = self._rows([value])[value]
        raced, store = self._raced(value), self._on.world.store
        store.delete([info.key for info in visible_files(store, where)])
        store.put(f"{where}other-{self._on.next_id}.json", json.dumps(sorted(ids)).encode())
        self._on.oracle.other_tool(value, ids, where, raced=raced, looks_late=True)

    def spell_otherwise(self, _: Random) -> None:
        """Another tool writes locations its own way: the same place, spelled otherwise."""
        world = self._on.world
        for value, one in world.partitions().items():
            location = one.location.replace("s3a://", "s3://").rstrip("/")
            world.metastore._partitions[world.name][values_of(value)] = replace(one, location=location)

    def days_pass(self, _: Random) -> None:
        self._on.advance(DAYS * 86_400.0)

    def made_again(self, _: Random) -> None:
        """The table is made again, and its partitions are found by their names, where there are files."""
        table = self._on.world.table
        self._on.world.metastore.create_table(replace(table, created_at_seconds=table.created_at_seconds + 60))

    def lose_outcome(self, _: Random) -> None:
        """An outcome of a publish is lost, or was damaged and deleted: the newest, or one further back."""
        world = self._on.world
        publishes = (one for one in world.history().records if one.entry.meaning.changes_partitions)
        ended = [one.entry.version for one in publishes if one.outcome is not None]
        if len(ended) >= self._actor.back:
            del world.store._objects[world.layout.outcome_key(ended[-self._actor.back])]
            self._on.read_anew()

    def reset_log(self, random: Random) -> None:
        super().reset_log(random)
        self._on.read_anew()

    def begin_again(self, random: Random) -> None:
        """The log is deleted, and others publish as many versions as it had."""
        newest = self._on.oracle.newest()
        self.reset_log(random)
        for _ in range(newest if self._on.oracle.newest() == 0 else 0):
            rows = self._rows(self._on.kind.values(BOTH))
            self._on.world.write(rows, plan=self._plan(rows, WriteMode.OVERWRITE_PARTITIONS))
            self._on.oracle.observe(self._on.oracle.newest(), late=False)

    def point_back(self, _: Random) -> None:
        super().point_back(_First())

    def insert(self, _: Random) -> None:
        super().insert(_Value(self._values(_)[0]))

    def move(self, _: Random) -> None:
        super().move(_Value(self._values(_)[0]))

    def drop(self, _: Random) -> None:
        super().drop(_Value(self._values(_)[0]))


class _All(Random):
    """Draws as much as it may."""

    def randint(self, _: int, most: int) -> int:
        return most


class _First(Random):
    """Draws the first."""

    def choice(self, options: Any) -> Any:
        return options[0]


class _Value(Random):
    """Draws the same value always."""

    def __init__(self, value: str) -> None:
        super().__init__(0)
        self._value = value

    def choice(self, _: Any) -> Any:
        return self._value
