"""Everything that can be done to a table, each with the state it starts from: fault matrices are generated from it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

import pytest

from table_writer.errors import ConflictError, LostResponseError, OutcomeUnknownError
from table_writer.mirrors import follow as mirrors
from table_writer.model.entry import Erasure, LogEntry
from table_writer.model.staged_write import RecordedScope
from table_writer.model.table import Column, PartitionValues
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.history import History
from table_writer.protocol.operations.recovery import Recovery
from table_writer.protocol.vacuum.sweep import Vacuum
from tests.publish.world import DeathError, Fault, FaultyWorld, TableWorld, World, schema_of

OLD: Final = {"d1": frozenset({1, 2}), "d2": frozenset({3})}
ADDED: Final = {"d8": frozenset({8}), "d9": frozenset({9})}
REPLACED: Final = {"d1": frozenset({10}), "d2": frozenset({30, 31})}
MIXED: Final = {"d1": frozenset({10}), "d9": frozenset({9})}
APPENDED: Final = {"d1": frozenset({100}), "d9": frozenset({90})}
WHOLE: Final = {"": frozenset({40, 41})}


@dataclass(frozen=True, eq=False)
class Operation:
    """One call of the library on a table in a known state."""

    name: str
    prepare: Callable[[FaultyWorld], object]
    run: Callable[[TableWorld], object]
    publishes: bool = True
    resolves: bool = False  # it finishes what others have begun, so an error promises nothing about rows
    between: Mapping[str, frozenset[int]] | None = None  # rows after others' work was resolved
    adopts: bool = False  # the table is another one than the log's until it is done
    is_gradual: bool = False  # files appear one by one

    def __str__(self) -> str:
        return self.name

    def allows(
        self,
        rows: Mapping[str, frozenset[int]],
        before: Mapping[str, frozenset[int]],
        after: Mapping[str, frozenset[int]],
    ) -> bool:
        """Whether readers may see these rows while it runs, or once it has died."""
        nothing: frozenset[int] = frozenset()
        is_between = rows.keys() <= after.keys() and all(
            before.get(value, nothing) <= rows.get(value, nothing) <= ids for value, ids in after.items()
        )
        return rows in (before, self.between, after) or (self.is_gradual and is_between)


def require_same_as_on_s3(operation: Operation, world: FaultyWorld) -> None:
    """Carry an operation out on this world and on the double of S3: rows and what is left behind must not differ."""
    twin = World()
    for one in (twin, world):
        operation.prepare(one)
        operation.run(one)
    assert world.rows() == twin.rows()
    world.wait_out_claims()
    world.keeper.recover(str(world.name))
    assert world.vacuum().failures == ()
    assert world.leftovers() == []
    assert world.rows() == twin.rows()


def written(*writes: Mapping[str, frozenset[int]]) -> Callable[[FaultyWorld], None]:
    def prepare(world: FaultyWorld) -> None:
        for rows in writes:
            world.write(rows)

    return prepare


def erase(world: TableWorld) -> LogEntry:
    """Let the next vacuum delete all that readers have left."""
    opened, nothing = world.services(), Erasure(predicate_sha256="", deleted_rows=0, write_id="")

    def ends_doubts(history: History) -> bool:
        return Recovery(opened).end_doubts(history, opened.table) is not None

    return Vacuum(opened, mirrors).erase(nothing, lambda _, found: (tuple(found), ()), ends_doubts)


def with_markers(*writes: Mapping[str, frozenset[int]]) -> Callable[[FaultyWorld], None]:
    """Let each partition of the table have a marker from now on."""

    def prepare(world: FaultyWorld) -> None:
        world.config = replace(world.config, mark_success="partitions")
        written(*writes)(world)

    return prepare


def others(world: FaultyWorld) -> None:
    for value, ids in OLD.items():
        world.written_by_another_tool(value, ids)


def dead_publisher(world: FaultyWorld) -> None:
    world.write(OLD)
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
        world.write(MIXED)
    world.wait_out_claims()


def late_call_applied(world: FaultyWorld) -> None:
    world.write(OLD)
    unanswered = Fault("metastore", "alter_partitions", 1, "before", LostResponseError)
    with world.inject(unanswered, keep_call=True), pytest.raises(OutcomeUnknownError):
        world.write(REPLACED)
    world.wait_out_claims()
    world.keeper.recover(str(world.name))
    world.write({"d1": frozenset({100})})
    world.apply_kept_call()


def garbage(world: FaultyWorld) -> None:
    others(world)
    world.write(MIXED)
    world.write(REPLACED)
    with world.inject(Fault("store", "complete_upload", 2, "before", DeathError)), pytest.raises(DeathError):
        world.write(REPLACED)
    world.wait_out_claims()


def lost_metastore(world: FaultyWorld) -> None:
    world.write(OLD)
    world.write(MIXED)
    world.lose_metastore()


def lost_in_place(world: FaultyWorld) -> None:
    dead_in_place(world)
    world.lose_metastore()


def given_up_in_place(world: FaultyWorld) -> None:
    """An append in place that is given up where another tool has dropped the partition, with a file there already."""
    world.write(OLD)
    with world.inject(Fault("store", "copy", 1, "after", DeathError)), pytest.raises(DeathError):
        once_in_place({"d1": frozenset({10})})(world)
    world.dropped_by_another_tool("d1")
    world.recover_later()


def write(rows: Mapping[str, frozenset[int]]) -> Callable[[TableWorld], object]:
    def run(world: TableWorld) -> object:
        with suppress(ConflictError):  # with what an earlier attempt left in doubt and this one has just resolved
            return world.write(rows)
        return world.write(rows)

    return run


def unpartitioned(*writes: Mapping[str, frozenset[int]]) -> Callable[[FaultyWorld], None]:
    def prepare(world: FaultyWorld) -> None:
        world.become_unpartitioned()
        world.written_by_another_tool("", frozenset({1, 2}))
        for rows in writes:
            world.write(rows, plan=world.plan(WriteMode.OVERWRITE_TABLE))

    return prepare


def write_where(world: TableWorld) -> object:
    """Replace d1 and d2, with rows for d1 alone."""

    def selected(existing: Collection[PartitionValues]) -> frozenset[PartitionValues]:
        return frozenset(existing) & {("d1",), ("d2",)}

    with suppress(ConflictError):
        return world.write({"d1": frozenset({10})}, plan=world.plan(scope=selected))
    return world.write({"d1": frozenset({10})}, plan=world.plan(scope=selected))


def write_table(rows: Mapping[str, frozenset[int]]) -> Callable[[TableWorld], object]:
    def run(world: TableWorld) -> object:
        with suppress(ConflictError):
            return world.write(rows, plan=world.plan(WriteMode.OVERWRITE_TABLE))
        return world.write(rows, plan=world.plan(WriteMode.OVERWRITE_TABLE))

    return run


def replace_columns(world: TableWorld) -> object:
    """Write rows of other columns into an unpartitioned table; again after an earlier attempt was resolved."""
    plan = world.plan(WriteMode.OVERWRITE_TABLE)
    other = replace(plan, schema=schema_of([Column("other", "string")]), replaced_schema=plan.schema)
    with suppress(ConflictError):
        return world.write(WHOLE, plan=other)
    return world.write(WHOLE, plan=world.plan(WriteMode.OVERWRITE_TABLE))


def once(mode: WriteMode, rows: Mapping[str, frozenset[int]]) -> Callable[[TableWorld], object]:
    """Write with a key, since the matrix runs each operation again."""
    return lambda world: world.write_once(rows, mode, "the same call")


def once_in_place(rows: Mapping[str, frozenset[int]]) -> Callable[[TableWorld], object]:
    return lambda world: world.write_once(rows, WriteMode.APPEND, "the same call", in_place=True)


def appended_in_place(world: FaultyWorld) -> None:
    world.write(OLD)
    world.write(APPENDED, plan=world.plan(WriteMode.APPEND, in_place=True))


def dead_in_place(world: FaultyWorld) -> None:
    world.write(OLD)
    with world.inject(Fault("store", "copy", 1, "before", DeathError)), pytest.raises(DeathError):
        once_in_place({"d1": frozenset({10})})(world)  # one copy: of several some may come
    world.wait_out_claims()


def staged_in_place(world: FaultyWorld) -> None:
    world.write(OLD)
    world.stage(APPENDED, plan=world.plan(WriteMode.APPEND, in_place=True))


def staged(
    rows: Mapping[str, frozenset[int]],
    mode: WriteMode = WriteMode.OVERWRITE_PARTITIONS,
    before: Callable[[FaultyWorld], None] | None = None,
) -> Callable[[FaultyWorld], None]:
    def prepare(world: FaultyWorld) -> None:
        (before or written(OLD))(world)
        world.stage(rows, plan=world.plan(mode))

    return prepare


def staged_where(world: FaultyWorld) -> None:
    """Stage rows for d1 alone, to replace d1 and d2."""
    written(OLD, ADDED)(world)
    plan = world.plan()
    known = frozenset({("d1",), ("d2",), ("d8",), ("d9",)})
    scope = RecordedScope(known, frozenset({("d1",), ("d2",)}), "dt < 'd8'", str(world.name), plan.write_id)
    world.stage({"d1": frozenset({10})}, plan=replace(plan, scope=scope, where=scope.where))


OPERATIONS: Final = (
    *(
        Operation(f"publish of a staged write that {name}", prepare, lambda world: world.publish_staged())
        for name, prepare in (
            ("adds", staged(ADDED)),
            ("replaces", staged(REPLACED)),
            ("mixes", staged(MIXED)),
            ("replaces other tools' rows", staged(REPLACED, before=others)),
            ("appends", staged(APPENDED, WriteMode.APPEND)),
            ("appends to other tools' rows", staged(APPENDED, WriteMode.APPEND, others)),
            ("creates", staged(ADDED, WriteMode.CREATE_PARTITIONS)),
            ("overwrites the table", staged(MIXED, WriteMode.OVERWRITE_TABLE)),
            ("overwrites where", staged_where),
            ("overwrites an unpartitioned table", staged(WHOLE, WriteMode.OVERWRITE_TABLE, unpartitioned())),
            ("appends to an unpartitioned table", staged(WHOLE, WriteMode.APPEND, unpartitioned({"": frozenset({3})}))),
        )
    ),
    *(
        Operation(f"discard of a staged {name}", prepare, lambda world: world.discard_staged(), publishes=False)
        for name, prepare in (("write", staged(MIXED)), ("append", staged(APPENDED, WriteMode.APPEND)))
    ),
    *(
        Operation(f"write that {name}, of {whose} partitions", prepare, write(rows))
        for whose, prepare in (("our", written(OLD)), ("other tools'", others))
        for name, rows in (("adds", ADDED), ("replaces", REPLACED), ("mixes", MIXED))
    ),
    Operation("overwrite of the table, with markers", with_markers(OLD), write_table(MIXED)),
    Operation(
        "rollback with markers",
        with_markers(OLD, MIXED),
        lambda world: world.keeper.rollback(str(world.name), version=1),
    ),
    Operation("first write", written(), write(OLD)),
    *(
        Operation(f"append to {whose} partitions", prepare, once(WriteMode.APPEND, APPENDED))
        for whose, prepare in (("our", written(OLD)), ("other tools'", others))
    ),
    *(
        Operation(f"append in place to {whose}", prepare, once_in_place(rows), is_gradual=True)
        for whose, prepare, rows in (
            ("our partitions", written(OLD), {**REPLACED, **ADDED}),
            ("other tools' partitions", others, APPENDED),
            ("other tools' unpartitioned rows", unpartitioned(), WHOLE),
        )
    ),
    Operation(
        "publish of a staged append in place", staged_in_place, lambda world: world.publish_staged(), is_gradual=True
    ),
    Operation(
        "append in place over a dead one",
        dead_in_place,
        lambda world: world.write_once(APPENDED, WriteMode.APPEND, "another call", in_place=True),
        resolves=True,
        is_gradual=True,
    ),
    Operation(
        "recover a dead append in place",
        dead_in_place,
        lambda world: world.keeper.recover(str(world.name)),
        resolves=True,
        is_gradual=True,
    ),
    *(
        Operation(f"{what} after an append in place", appended_in_place, run)
        for what, run in (
            ("append", lambda world: world.write_once({"d1": frozenset({7})}, WriteMode.APPEND, "another call")),
            ("write", write(REPLACED)),
            ("compaction", lambda world: world.compact("d1")),
            ("rollback", lambda world: world.keeper.rollback(str(world.name), version=1)),
        )
    ),
    Operation("creation of partitions", written(OLD), once(WriteMode.CREATE_PARTITIONS, ADDED)),
    *(
        Operation(f"overwrite of the table, of {whose} partitions", prepare, write_table(MIXED))
        for whose, prepare in (("our", written(OLD)), ("other tools'", others))
    ),
    Operation("overwrite where, with rows for half", written(OLD, ADDED), write_where),
    *(
        Operation(f"overwrite of an unpartitioned table, of {whose} rows", prepare, write_table(WHOLE))
        for whose, prepare in (("our", unpartitioned({"": frozenset({3})})), ("other tools'", unpartitioned()))
    ),
    *(
        Operation(f"append to an unpartitioned table, of {whose} rows", prepare, once(WriteMode.APPEND, WHOLE))
        for whose, prepare in (("our", unpartitioned({"": frozenset({3})})), ("other tools'", unpartitioned()))
    ),
    Operation("other columns for an unpartitioned table", unpartitioned({"": frozenset({3})}), replace_columns),
    Operation(
        "rollback to the columns of an unpartitioned table",
        lambda world: (unpartitioned({"": frozenset({3})})(world), replace_columns(world)),
        lambda world: world.keeper.rollback(str(world.name), version=1),
    ),
    Operation(
        "rollback of an unpartitioned table",
        unpartitioned({"": frozenset({3})}, WHOLE),
        lambda world: world.keeper.rollback(str(world.name), version=0),
    ),
    Operation(
        "vacuum of an unpartitioned table",
        unpartitioned({"": frozenset({3})}, WHOLE),
        lambda world: world.vacuum(),
        publishes=False,
    ),
    Operation(
        "append over a dead publisher",
        dead_publisher,
        once(WriteMode.APPEND, APPENDED),
        resolves=True,
        between={**OLD, **MIXED},
    ),
    Operation("write over a dead publisher", dead_publisher, write(REPLACED), resolves=True, between={**OLD, **MIXED}),
    Operation(
        "recover a dead publisher", dead_publisher, lambda world: world.keeper.recover(str(world.name)), resolves=True
    ),
    Operation(
        "recover from a late call",
        late_call_applied,
        lambda world: world.keeper.recover(str(world.name)),
        resolves=True,
    ),
    Operation("rollback", written(OLD, MIXED), lambda world: world.keeper.rollback(str(world.name), version=1)),
    Operation(
        "rollback to other tools' rows",
        lambda world: (others(world), world.write(MIXED)),
        lambda world: world.keeper.rollback(str(world.name), version=0),
    ),
    *(
        Operation(f"restore{what}", prepare, lambda world: world.keeper.restore(str(world.name)), adopts=True)
        for what, prepare in (
            ("", lost_metastore),
            (" of an unpartitioned table", lambda world: (unpartitioned(WHOLE)(world), world.lose_metastore())),
        )
    ),
    Operation(
        "restore over a dead append in place",
        lost_in_place,
        lambda world: world.keeper.restore(str(world.name)),
        resolves=True,
        adopts=True,
        is_gradual=True,
    ),
    Operation(
        "restore where an append in place was given up",
        given_up_in_place,
        lambda world: world.keeper.restore(str(world.name)),
    ),
    Operation("vacuum", garbage, lambda world: world.vacuum(), publishes=False),
    Operation("erasure", written(OLD, MIXED), erase, publishes=False),
    Operation(
        "vacuum of what is to be erased",
        lambda world: (written(OLD, MIXED)(world), erase(world)),
        lambda world: world.keeper.vacuum(str(world.name)),
        publishes=False,
    ),
    Operation(
        "abort of dead uploads",
        garbage,
        lambda world: world.keeper.uploads(str(world.name), abort=True, older_than=timedelta(0), force=True),
        publishes=False,
    ),
)
