"""Every call on a staged write, in every state that the write can be in: what it says, and what it leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from table_writer.errors import (
    CheckFailedError,
    ConflictError,
    InvalidInputError,
    LostResponseError,
    OutcomeUnknownError,
    PartitionExistsError,
    StorageError,
)
from table_writer.jobs.announcing import announced
from table_writer.jobs.complete import Completer
from table_writer.jobs.staged_writes import BySpark, StagedWrites
from table_writer.model.check_result import CheckResult
from table_writer.model.staged_write import StagedRecord
from table_writer.model.table import Column
from table_writer.model.write import WrittenFiles
from table_writer.model.write_mode import WriteMode
from table_writer.reports.staged_report import StagedDetail
from table_writer.storage.object_store import ObjectInfo
from tests.publish.world import DIED, DeathError, Fault, World, fail

T = "mart.orders"
OLD = {"d1": frozenset({1}), "d2": frozenset({2})}
NEW = {"d1": frozenset({10}), "d3": frozenset({30})}
FAILED = CheckResult(name="not_null(id)", severity="error", passed=False, message="1 of 2 rows has no id")


@pytest.fixture
def world() -> World:
    world = World()
    world.write(OLD)
    return world


def everything(world: World) -> dict[str, bytes]:
    stored = {info.key: world.store.get(info.key) for info in world.store.list("")}
    return {key: found.body for key, found in stored.items() if found is not None}


def look(world: World, write_id: str) -> StagedDetail:
    """Do a dry run, which must change nothing."""
    before, rows = everything(world), world.rows()
    try:
        found = world.keeper.publish(T, write_id, dry_run=True)
    finally:
        assert (everything(world), world.rows()) == (before, rows)
    assert isinstance(found, StagedDetail)
    return found


@pytest.mark.parametrize("mode", list(WriteMode))
def test_a_dry_run_of_what_can_be_published_says_so(world: World, mode: WriteMode) -> None:
    rows = {"d3": frozenset({3})} if mode.facts.only_creates else NEW
    write_id = world.stage(rows, plan=world.plan(mode))
    assert "nothing seems to be in the way" in look(world, write_id).to_text()
    world.keeper.publish(T, write_id)
    assert world.rows().items() >= ({} if mode.facts.keeps_rows else rows).items()


def conflicting(world: World) -> None:
    world.write({"d1": frozenset({5})})


def trimmed(world: World) -> None:
    world.write({"d7": frozenset({5})})
    world.write({"d7": frozenset({6})})
    world.services().log.trim([2])


def with_a_stray(world: World) -> None:
    world.store.put(f"{world.layout.data(world.staged_ids[-1]).key}dt=d1/stray.json", b"[7]")


def with_a_file_less(world: World) -> None:
    key = next(info.key for info in world.store.list(world.layout.data(world.staged_ids[-1]).key))
    world.store.delete([key])


def failed(world: World) -> None:
    StagedWrites(world.services()).with_checks(world.staged_ids[-1], [FAILED])


def dropped(world: World) -> None:
    table, found = world.table, world.metastore.get_all_partitions(world.table)
    world.metastore.drop_table(world.name)
    world.metastore.create_table(replace(table, columns=(Column("id", "string"),)))
    world.metastore.add_partitions(world.table, list(found.values()))


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (conflicting, ConflictError, "after this write was planned"),
        (trimmed, ConflictError, "trimmed"),
        (with_a_stray, StorageError, "."),
        (with_a_file_less, StorageError, "is not as it was written"),
        (failed, CheckFailedError, r"1 of 1 check [^\n]*\n  not_null\(id\): 1 of 2 rows has no id\n"),
        (dropped, ConflictError, "columns or format"),
    ],
)
def test_a_dry_run_raises_what_the_publish_raises_and_the_write_stays_staged(
    world: World, change: Callable[[World], object], error: type[Exception], text: str
) -> None:
    write_id = world.stage(NEW)
    change(world)
    before = world.rows()
    with pytest.raises(error, match=text):
        look(world, write_id)
    with pytest.raises(error, match=text):
        world.keeper.publish(T, write_id)
    assert world.rows() == before
    assert [one.write_id for one in world.keeper.staged(T).staged] == [write_id]
    world.keeper.discard(T, write_id)
    assert world.keeper.staged(T).staged == ()


def test_a_dry_run_of_a_creation_says_that_a_partition_exists_by_now(world: World) -> None:
    write_id = world.stage({"d3": frozenset({3})}, plan=world.plan(WriteMode.CREATE_PARTITIONS))
    world.written_by_another_tool("d3", frozenset({5}))
    for _ in range(2):
        with pytest.raises(PartitionExistsError, match="dt=d3"):
            look(world, write_id)


def test_a_dry_run_does_not_wait_for_what_is_in_doubt(world: World) -> None:
    write_id = world.stage(NEW)
    world.fails(DIED, lambda: world.write({"d1": frozenset({5})}))
    look(world, write_id)


@pytest.mark.parametrize(
    ("staged", "written", "names"),
    [
        (("d1", "d3"), ("d1", "d2"), "1 partition .*: dt=d1"),
        (("d5", "d6", "d7"), ("d5", "d6", "d7", "d8"), "3 partitions .*: dt=d5, dt=d6, dt=d7"),
        (("d5", "d6", "d7", "d8"), ("d5", "d6", "d7", "d8"), "4 partitions .*: dt=d5, dt=d6, dt=d7, …"),
    ],
    ids=len,
)
def test_a_conflict_names_three_of_the_partitions_that_both_write(
    world: World, staged: tuple[str, ...], written: tuple[str, ...], names: str
) -> None:
    write_id = world.stage(dict.fromkeys(staged, frozenset({1})))
    world.write(dict.fromkeys(written, frozenset({5})))
    with pytest.raises(ConflictError, match=rf"published {names}\. The other write stays"):
        world.keeper.publish(T, write_id)


def test_staged_lists_what_waits_newest_first_and_not_what_readers_see_already(world: World) -> None:
    assert world.keeper.staged(T).staged == ()
    base = world.plan()
    names = [f"2024010{number}T000000-0000000000000000" for number in (1, 2, 3)]
    for number, name in enumerate(names):
        world.stage({f"d{number + 5}": frozenset({number})}, plan=replace(base, write_id=name))
    assert [one.write_id for one in world.keeper.staged(T).staged] == names[::-1]
    world.fails(Fault("store", "put_if_absent", 2, "after", DeathError), lambda: world.keeper.publish(T, names[1]))
    assert [one.write_id for one in world.keeper.staged(T).staged] == [names[2], names[0]]

    def list_them() -> None:
        report = world.keeper.staged(T)
        assert [one.write_id for one in report.staged] == [names[2], names[0]], "one is running"
        assert report.unreadable == {}

    world.write({"d9": frozenset({9})}, before_publish=list_them)


def test_a_staged_write_whose_publish_is_in_doubt_is_listed_still(world: World) -> None:
    write_id = world.stage(NEW)
    world.fails(DIED, lambda: world.keeper.publish(T, write_id))
    assert [one.write_id for one in world.keeper.staged(T).staged] == [write_id]
    with pytest.raises(ConflictError, match="is being published"):
        world.keeper.discard(T, write_id)


@pytest.mark.parametrize("call", ["publish", "discard", "staged_write"])
def test_of_a_write_that_is_not_staged_the_reason_is_said(world: World, call: str) -> None:
    def refused(write_id: str, why: str) -> None:
        with pytest.raises(InvalidInputError, match=why) as error:
            getattr(world.keeper, call)(T, write_id)
        assert f"write {write_id!r} of {T} " in str(error.value)
        assert f"`table-writer staged {T}` lists those that are staged." in str(error.value)

    refused("../x", "no write has such a name")
    refused("never", "it was discarded, has expired, or never was there")
    plan = world.plan()
    world.write({"d7": frozenset({7})}, plan=plan, before_publish=lambda: refused(plan.write_id, "still being written"))
    gone = world.stage(NEW)
    world.keeper.discard(T, gone)
    refused(gone, "it was discarded")
    if call != "publish":  # which says that it was published already
        refused(plan.write_id, "it is version 2 of the log, published")
        lost = world.plan()
        unanswered = Fault("metastore", "alter_partitions", 1, "before", LostResponseError)
        world.fails(unanswered, lambda: world.write({"d7": frozenset({8})}, plan=lost), OutcomeUnknownError)
        refused(lost.write_id, "it is version 4 of the log, in doubt")


def test_after_a_publish_and_after_a_discard_nothing_lies_beside_the_write(world: World) -> None:
    for end in (world.keeper.publish, world.keeper.discard):
        write_id = world.stage({"d5": frozenset({1})})
        StagedWrites(world.services()).with_checks(write_id, [replace(FAILED, passed=True)])
        assert len(list(world.store.list(world.layout.all_staged.key))) == 2
        end(T, write_id)
        assert list(world.store.list(world.layout.all_staged.key)) == []
        assert list(world.store.list(world.layout.registrations.key)) == []


def test_a_store_that_refuses_to_delete_what_lies_beside_it_fails_no_publish(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    write_id = world.stage(NEW)
    denied = StorageError("AccessDenied")
    world.store.on_call = lambda *now: fail(denied) if now[:2] == ("delete", "before") else None
    world.keeper.publish(T, write_id)
    world.store.on_call = None
    assert world.rows() == {**OLD, **NEW}
    assert world.keeper.staged(T).staged == ()
    assert f"write_id={write_id} what is registered of it was not removed: AccessDenied" in caplog.messages


def test_a_dry_run_of_a_discard_says_what_goes_and_leaves_it(world: World) -> None:
    write_id = world.stage(NEW)
    before = everything(world)
    dry = world.keeper.discard(T, write_id, dry_run=True)
    assert everything(world) == before
    done = world.keeper.discard(T, write_id)
    assert (done.deleted, dry.version, done.version) == (dry.deleted, None, 2)
    named = {key for one in done.deleted for key in one.keys}
    assert len(named) == 2
    assert named == {key for key in set(before) - set(everything(world)) if "/data/" in key}


def test_a_repeated_key_discards_the_staged_write_and_says_which_version_it_is(world: World) -> None:
    write_id = world.stage(NEW, plan=world.plan(key="once"))
    world.write({"d9": frozenset({9})}, plan=world.plan(key="once"))
    result = world.keeper.publish(T, write_id)
    assert (result.repeated, result.version) == (True, 2)  # type: ignore[union-attr]
    assert list(world.store.list(world.layout.data(write_id).key)) == []
    assert world.keeper.staged(T).staged == ()


@pytest.mark.parametrize(
    ("kind", "staged", "existing", "refused"),
    [
        ("int", "1", "01", True),
        ("int", "1", "1", False),
        ("int", "2", "01", False),
        ("int", "1", "+1", True),
        ("int", "5", "__HIVE_DEFAULT_PARTITION__", False),
        ("date", "2024-01-01", "2024-1-1", True),
        ("double", "1.0", "1", True),
        ("char(3)", "a  ", "a", True),
    ],
)
def test_two_spellings_of_one_value_are_one_partition(kind: str, staged: str, existing: str, refused: bool) -> None:
    world = World()
    table = world.table
    world.metastore.drop_table(world.name)
    world.metastore.create_table(replace(table, partition_columns=(Column("dt", kind),)))
    write_id = world.stage({staged: frozenset({10})})
    world.written_by_another_tool(existing, frozenset({1}))
    if refused:
        for call in (look, lambda world, write_id: world.keeper.publish(T, write_id)):
            with pytest.raises(ConflictError, match="readers would see both"):
                call(world, write_id)
        assert world.rows() == {existing: frozenset({1})}
    else:
        world.keeper.publish(T, write_id)
        assert world.rows()[staged] == frozenset({10})


def test_what_another_process_publishes_in_the_moment_before_the_look_is_said_to_be_published(world: World) -> None:
    write_id = world.stage(NEW, plan=world.plan(WriteMode.APPEND))

    world.at_metastore("get_partitions", "before", lambda: world.keeper.publish(T, write_id))
    result = world.keeper.publish(T, write_id)
    assert result.repeated
    assert result.version == 2


def test_files_that_readers_are_pointed_at_are_not_discarded(world: World) -> None:
    write_id = world.stage(NEW)
    world.pointed_by_another_tool("d7", f"{world.layout.data(write_id)}dt=d1/")
    with pytest.raises(ConflictError, match="is not discarded"):
        world.keeper.discard(T, write_id)
    assert world.rows()["d7"] == NEW["d1"]


def test_a_write_that_adds_columns_is_published_by_whoever_can_add_them_and_by_no_other(world: World) -> None:
    write_id = world.stage(NEW)
    staged = StagedWrites(world.services())
    record = replace(staged.find(write_id).record, added_schema="[more]")
    for refused in (lambda: staged._publish(record, None), lambda: staged.examine(record)):
        with pytest.raises(InvalidInputError, match="which takes Spark"):
            refused()
    staged.examine(record, with_spark=True)
    prepared: list[StagedRecord] = []

    def prepare(given: StagedRecord) -> WrittenFiles:
        prepared.append(given)
        return given.files

    by_spark = BySpark(prepare=prepare, copy_files=Completer.of(world.services()).copy, refresh=lambda _: ())
    staged._publish(record, by_spark)
    assert prepared == [record]
    assert world.rows() == {**OLD, **NEW}


def test_what_an_append_brings_along_is_copied_by_spark_where_spark_publishes(world: World) -> None:
    write_id = world.stage(NEW, plan=world.plan(WriteMode.APPEND))
    staged, copied = StagedWrites(world.services()), []

    def copy(files: Mapping[str, ObjectInfo]) -> None:
        copied.extend(files)
        Completer.of(world.services()).copy(files)

    by_spark = BySpark(prepare=lambda given: given.files, copy_files=copy, refresh=lambda _: ())
    staged._publish(staged.find(write_id).record, by_spark)
    assert copied
    assert world.rows() == {**OLD, **NEW, "d1": OLD["d1"] | NEW["d1"]}


def test_sessions_look_again_at_the_table_once_readers_have_switched_and_the_result_says_what_they_could_not(
    world: World,
) -> None:
    write_id, rows = world.stage(NEW), []

    def refresh(name: str) -> tuple[str, ...]:
        rows.append((name, world.rows()))
        return ("a cached plan stays",)

    copy = Completer.of(world.services()).copy
    by_spark = BySpark(prepare=lambda given: given.files, copy_files=copy, refresh=refresh)
    with announced(world.all_services(), "publish", T) as call:
        result = StagedWrites(world.services()).publish(write_id, call, by_spark)
    assert rows == [(write_id, {**OLD, **NEW})]
    assert "a cached plan stays" in result.notes
