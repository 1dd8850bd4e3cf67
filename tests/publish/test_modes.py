"""What each write mode promises beside other writers; steps 1 to 5 without Spark, on doubles."""

from __future__ import annotations

import threading
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import count

import pytest

from table_writer.errors import ConflictError, InvalidInputError, MetastoreError, PartitionExistsError, StorageError
from table_writer.model.entry import Key, Outcome
from table_writer.model.location import Location
from table_writer.model.partition_value import Spellings
from table_writer.model.table import NULL_PARTITION, Column, PartitionValues
from table_writer.model.write import written_ids
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.operations.publisher import EMPTY_MARKER
from table_writer.protocol.table.open_table import RepeatedError
from table_writer.storage.object_store import ObjectInfo
from tests.publish.world import REFUSED, DeathError, Fault, World, fail, insert, without_answer, written

ONE = {"d1": frozenset({1})}
TWO = {"d1": frozenset({2})}
NEW = {"d9": frozenset({9})}


def append(world: World, rows: dict[str, frozenset[int]], key: str = "", stream: str = "") -> None:
    world.write(rows, plan=world.plan(WriteMode.APPEND, key=key, stream=stream))


def d1_and_d2(existing: Collection[PartitionValues]) -> frozenset[PartitionValues]:
    return frozenset(existing) & {("d1",), ("d2",)}


def copies(world: World) -> int:
    return world.store.request_counts().get("CopyObject", 0)


def test_an_append_copies_inside_the_store_and_never_a_hidden_file(world: World) -> None:
    world.written_by_another_tool("d1", frozenset({1}))
    for hidden in ("_SUCCESS", ".part-0.json.crc", "_temporary/0/part-1.json", "part-2.json._COPYING_"):
        world.store.put(f"mart/orders/dt=d1/{hidden}", b"[99]")
    world.store.put("mart/orders/dt=d1/union-1/part-0.json", b"[7]")
    gets = world.store.request_counts().get("GetObject", 0)
    append(world, TWO)
    assert copies(world) == 2
    names = [info.key.partition("/dt=d1/")[2] for info in world.store.list("mart/orders/_table_writer/data/")]
    assert {"part-0.json", "union-1/part-0.json"} < set(names)
    assert len(names) == 3
    assert world.store.request_counts().get("GetObject", 0) - gets < 10, "log and registration only"
    assert world.rows() == {"d1": frozenset({1, 2, 7})}


def test_eight_appenders_of_one_partition_all_succeed() -> None:
    world = written(ONE)
    barrier = threading.Barrier(8, timeout=60)

    def one(number: int) -> None:
        world.write({"d1": frozenset({number})}, plan=world.plan(WriteMode.APPEND), before_publish=barrier.wait)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(10, 18))) == [None] * 8
    assert world.rows() == {"d1": frozenset({1, *range(10, 18)})}
    made = set(world.store.list_directories(world.layout.all_data.key))
    named = [written_ids(world.layout, record.entry) for record in world.history().records]
    assert made == frozenset().union(*named), "copies of rounds that were overtaken are deleted at once"


def test_a_round_of_which_one_partition_is_overtaken_leaves_nothing_for_ever(world: World) -> None:
    both = {"d1": frozenset({1}), "d2": frozenset({2})}
    world.write(both)
    plan = world.plan(WriteMode.APPEND)
    others = [both, {"d1": frozenset({3})}]
    original, one_at_a_time = world.store.copy, threading.Lock()

    def copy_while_others_write(source: ObjectInfo, key: str) -> None:
        original(source, key)
        is_first_round = key.startswith(plan.data_location.key)
        with one_at_a_time:
            if len(others) == 2 if is_first_round else len(others) == 1:
                world.write(others.pop(0))

    world.store.copy = copy_while_others_write  # type: ignore[method-assign]
    entry = world.write({"d1": frozenset({8}), "d2": frozenset({9})}, plan=plan).entry
    assert world.rows() == {"d1": frozenset({3, 8}), "d2": frozenset({2, 9})}
    assert {round((one.delete_after - entry.created_at) / timedelta(days=1)) for one in entry.replaced} == {3}
    world.wait_out_claims()
    world.vacuum()
    assert world.leftovers() == []


def test_rows_that_another_tool_inserts_while_files_are_copied_are_kept(world: World) -> None:
    world.written_by_another_tool("d1", frozenset({1}))
    world.at_store("copy", "after", lambda: insert(world, "d1", 7))
    append(world, TWO)
    assert world.rows() == {"d1": frozenset({1, 2, 7})}


def test_files_that_another_tool_replaces_while_they_are_copied_are_not_mixed(world: World) -> None:
    world.written_by_another_tool("d1", frozenset({1}))
    insert(world, "d1", 11)

    def overwrite() -> None:
        world.store.delete(["mart/orders/dt=d1/part-0.json", "mart/orders/dt=d1/spark-11.json"])
        insert(world, "d1", 5)

    world.at_store("copy", "before", overwrite)
    append(world, TWO)
    assert world.rows() == {"d1": frozenset({2, 5})}


def test_a_partition_that_always_changes_is_a_conflict_in_the_end(world: World) -> None:
    world.written_by_another_tool("d1", frozenset({1}))
    numbers = count(100)
    world.store.on_call = lambda *now: insert(world, "d1", next(numbers)) if now[:2] == ("copy", "after") else None
    with pytest.raises(ConflictError, match="run it again later"):
        append(world, TWO)
    assert 2 not in world.rows()["d1"]
    assert list(world.store.list("mart/orders/_table_writer/data/")) == []


def test_a_stray_file_below_the_writes_prefix_stops_an_append() -> None:
    world = written(ONE)
    plan = world.plan(WriteMode.APPEND)

    def late_copy() -> None:
        world.store.put(f"{plan.data_location.key}dt=d1/part-of-a-zombie.json", b"[99]")

    with pytest.raises(StorageError, match="not exactly those that were written"):
        world.write(TWO, plan=plan, before_publish=late_copy)
    assert world.rows() == ONE


def test_too_much_to_copy_is_an_error_that_names_the_ways_out() -> None:
    world = written(ONE)
    plan = replace(world.plan(WriteMode.APPEND), max_copied_bytes=2)
    with pytest.raises(InvalidInputError, match=r"more finely.*overwrite_partitions.*max_copied_bytes"):
        world.write(TWO, plan=plan)
    assert (copies(world), world.rows()) == (0, ONE)


def test_a_partition_that_is_stored_otherwise_is_not_appended_to() -> None:
    world = written(ONE)
    original = world.metastore.get_partitions

    def stored_as_text(*arguments: object) -> object:
        found = original(*arguments)  # type: ignore[arg-type]
        return {values: replace(one, differs="is stored as TextFile") for values, one in found.items()}

    world.metastore.get_partitions = stored_as_text  # type: ignore[assignment,method-assign]
    with pytest.raises(InvalidInputError, match=r"dt=d1 of mart\.orders is stored as TextFile"):
        append(world, TWO)
    assert copies(world) == 0


def test_partitions_that_exist_are_not_created_and_nothing_else_is() -> None:
    world = written(ONE)
    with pytest.raises(PartitionExistsError, match="dt=d1"):
        world.write({**TWO, **NEW}, plan=world.plan(WriteMode.CREATE_PARTITIONS))
    assert world.rows() == ONE
    assert world.history().newest == 1


def test_of_two_creators_of_one_partition_exactly_one_wins(world: World) -> None:
    plan = world.plan(WriteMode.CREATE_PARTITIONS)
    world.write(ONE, plan=world.plan(WriteMode.CREATE_PARTITIONS))
    with pytest.raises((ConflictError, PartitionExistsError)):
        world.write({**TWO, **NEW}, plan=plan)
    assert world.rows() == ONE


def test_a_partition_that_another_tool_adds_after_the_look_is_found_by_the_metastore(world: World) -> None:

    plan = world.plan(WriteMode.CREATE_PARTITIONS)

    def intrude() -> None:
        world.at_metastore("add_partitions", "before", lambda: world.written_by_another_tool("d9", frozenset({99})))

    with pytest.raises(MetastoreError):
        world.write({**ONE, **NEW}, plan=plan, before_publish=intrude)
    assert world.rows() == {"d9": frozenset({99})}


def test_overwriting_the_table_drops_partitions_without_rows_and_a_rollback_brings_them_back(world: World) -> None:
    world.written_by_another_tool("d2", frozenset({5}))
    world.write(ONE)
    world.write(NEW, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    assert world.rows() == NEW
    assert set(world.partitions()) == {"d9"}
    world.keeper.rollback(str(world.name), version=1)
    assert world.rows() == {**ONE, "d2": frozenset({5})}


def test_any_newer_entry_conflicts_with_an_overwrite_of_the_table() -> None:
    world = written(ONE)
    plan = world.plan(WriteMode.OVERWRITE_TABLE)
    world.write(NEW)
    with pytest.raises(ConflictError, match="dt=d9"):
        world.write(TWO, plan=plan)
    assert world.rows() == {**ONE, **NEW}


def test_a_predicate_replaces_what_it_selects_and_nothing_else() -> None:
    world = written({"d1": frozenset({1}), "d2": frozenset({2}), "d3": frozenset({3})})
    world.write({"d1": frozenset({10})}, plan=world.plan(scope=d1_and_d2))
    assert world.rows() == {"d1": frozenset({10}), "d3": frozenset({3})}


def test_a_partition_that_the_predicate_selects_and_others_publish_meanwhile_is_a_conflict(world: World) -> None:
    plan = world.plan(scope=d1_and_d2)
    world.write({"d2": frozenset({2})})
    with pytest.raises(ConflictError, match="dt=d2"):
        world.write(ONE, plan=plan)
    world.write({"d3": frozenset({3})})
    plan = world.plan(scope=d1_and_d2)
    world.write({"d3": frozenset({30})})
    world.write(ONE, plan=plan)
    assert world.rows() == {**ONE, "d3": frozenset({30})}


def unpartitioned() -> World:
    world = World()
    world.become_unpartitioned()
    world.written_by_another_tool("", frozenset({1}))
    return world


def test_an_unpartitioned_table_moves_keeps_its_root_and_is_vacuumed() -> None:
    world = unpartitioned()
    world.store.put("mart/orders/_SUCCESS", b"")
    world.write({"": frozenset({2})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    append(world, {"": frozenset({3})})
    assert world.rows() == {"": frozenset({2, 3})}
    assert world.table.root == "s3a://lake/mart/orders/"
    assert world.vacuum().failures == ()
    assert world.leftovers() == []
    kept = [info.key for info in world.store.list("mart/orders/") if "_table_writer" not in info.key]
    assert kept == ["mart/orders/_SUCCESS"]


def test_an_unpartitioned_table_can_be_emptied_written_again_and_rolled_back() -> None:
    world = unpartitioned()
    world.write({}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    assert world.rows() == {}
    assert list(world.store.list(f"{world.partitions()[''].location.removeprefix('s3a://lake/')}")), (
        "Spark needs a path"
    )
    append(world, {"": frozenset({4})})
    assert world.rows() == {"": frozenset({4})}
    world.keeper.rollback(str(world.name), version=1)
    assert world.rows() == {}
    world.keeper.rollback(str(world.name), version=0)
    assert world.rows() == {"": frozenset({1})}


def test_the_directory_of_a_table_without_rows_exists_before_its_version_is_claimed() -> None:
    """A recovery, which knows nothing of it, points readers there: Spark fails on a directory that does not exist."""
    world = unpartitioned()
    world.write({"": frozenset({2})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))  # the first one takes the root
    with world.inject(Fault("store", "put_if_absent", 1, "after", DeathError)), pytest.raises(DeathError):
        world.write({}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    world.wait_out_claims()
    world.keeper.recover(str(world.name))
    assert world.rows() == {}
    prefix = Location.parse(world.partitions()[""].location).key
    assert [info.key.removeprefix(prefix) for info in world.store.list(prefix)] == [EMPTY_MARKER]


def test_the_second_of_two_overwrites_of_an_unpartitioned_table_is_a_conflict() -> None:
    world = unpartitioned()
    plan = world.plan(WriteMode.OVERWRITE_TABLE)
    world.write({"": frozenset({2})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    with pytest.raises(ConflictError, match="whole table"):
        world.write({"": frozenset({3})}, plan=plan)
    assert world.rows() == {"": frozenset({2})}


def test_a_key_that_is_published_between_plan_and_publish_is_recognised(world: World) -> None:
    plan = world.plan(WriteMode.APPEND, key="orders/1")
    append(world, ONE, key="orders/1")
    append(world, NEW)
    with pytest.raises(RepeatedError):
        world.write(TWO, plan=plan)
    assert world.rows() == {**ONE, **NEW}


def test_a_key_in_doubt_is_resolved_before_the_same_call_is_made_again(world: World) -> None:
    with world.inject(Fault("metastore", "add_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
        append(world, ONE, key="orders/1")
    world.wait_out_claims()
    world.write_once({"d7": frozenset({1})}, WriteMode.APPEND, "orders/1")
    assert world.rows() == ONE, "the first one was rolled forward"


def test_the_key_of_a_write_that_was_rolled_back_is_void_until_it_is_put_back() -> None:
    world = written(NEW)
    world.write_once(ONE, WriteMode.APPEND, "orders/1")
    world.keeper.rollback(str(world.name), version=1)
    assert world.services().log.find_key(Key("orders/1")) is None
    world.keeper.rollback(str(world.name), version=2)
    assert world.services().log.find_key(Key("orders/1")) is not None
    world.keeper.rollback(str(world.name), version=3)
    assert world.services().log.find_key(Key("orders/1")) is None, "version 3 is the state after the rollback"
    world.write_once(TWO, WriteMode.APPEND, "orders/1")
    assert world.rows() == {**NEW, **TWO}


def late_call(world: World, value: str) -> None:
    """The call of a write that got no answer, was recovered, and was followed by another write, comes now."""
    come = without_answer(world, lambda: world.write({value: frozenset({7})}))
    world.recover_later()
    world.write({value: frozenset({8})})
    come()
    assert world.rows()[value] == frozenset({7})


def test_an_append_is_not_built_on_what_a_late_call_has_brought_back() -> None:
    world = written(ONE)
    late_call(world, "d1")
    append(world, {"d1": frozenset({9})})
    assert world.rows() == {"d1": frozenset({8, 9})}


def test_a_partition_that_a_late_drop_has_taken_away_is_not_created_again() -> None:
    world = written(NEW)
    world.write(ONE)
    come = without_answer(world, lambda: world.keeper.rollback(str(world.name), version=1), "drop_partition")
    world.recover_later()
    world.write(TWO)
    come()
    assert world.rows() == NEW
    with pytest.raises((ConflictError, PartitionExistsError)):
        world.write({"d1": frozenset({9})}, plan=world.plan(WriteMode.CREATE_PARTITIONS))
    assert world.rows() == {**NEW, **TWO}


def test_a_key_that_is_published_between_its_lookup_and_the_plan_is_recognised(world: World) -> None:
    assert world.services().log.find_key(Key("k")) is None
    append(world, ONE, key="k")
    world.write_once(TWO, WriteMode.APPEND, "k")
    assert world.rows() == ONE


def test_an_entry_without_partitions_is_recovered_as_published(world: World) -> None:
    with world.inject(Fault("store", "put_if_absent", 4, "before", DeathError)), suppress(DeathError):
        world.write({}, plan=world.plan(WriteMode.OVERWRITE_TABLE, key="k"))
    world.recover_later()
    assert {record.outcome for record in world.history().records} <= {Outcome.PUBLISHED}


def test_a_batch_that_a_partial_rollback_left_in_place_is_not_written_again(world: World) -> None:
    append(world, {"d1": frozenset({1})}, key="q/0", stream="q")
    append(world, {"d2": frozenset({2})}, key="q/1", stream="q")
    world.keeper.rollback(str(world.name), version=0, partitions=["dt=d1"])
    assert world.services().log.find_key(Key("q/0", "q")) is None
    append(world, {"d1": frozenset({1})}, key="q/0", stream="q")
    assert world.services().log.find_key(Key("q/1", "q")) is not None


def test_an_append_finds_a_partition_that_the_metastore_spells_otherwise(world: World) -> None:
    world.written_by_another_tool("01", frozenset({1}))
    plan = replace(world.plan(WriteMode.APPEND), spellings=Spellings.of([("01",)], ["int"]))
    world.write({"1": frozenset({2})}, plan=plan)
    assert world.rows() == {"01": frozenset({1, 2})}


def numbered_world() -> World:
    """Return a world whose partitions are numbers."""
    world = World()
    world.metastore.create_table(replace(world.table, partition_columns=(Column("dt", "int"),)))
    return world


@pytest.mark.parametrize("mode", WriteMode)
def test_a_partition_that_another_tool_adds_in_its_own_way_after_the_plan_is_a_conflict(mode: WriteMode) -> None:
    world = numbered_world()
    with pytest.raises(ConflictError, match=r"dt=1 of mart\.orders in its own way.* has it as dt=01"):
        world.write(
            {"1": frozenset({2})},
            plan=world.plan(mode),
            before_publish=lambda: world.written_by_another_tool("01", frozenset({1})),
        )
    assert world.rows() == {"01": frozenset({1})}


def test_an_entry_in_doubt_adds_no_partition_that_is_there_in_another_spelling() -> None:
    world = numbered_world()
    world.write({"2": frozenset({1})})
    with world.inject(Fault("metastore", "add_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
        world.write({"1": frozenset({2}), "3": frozenset({3})})
    world.written_by_another_tool("01", frozenset({4}))
    report = world.recover_later()
    assert world.rows() == {"2": frozenset({1}), "01": frozenset({4}), "3": frozenset({3})}
    assert report.superseded == ("dt=1",)


def test_a_drop_that_came_late_is_not_undone_where_another_tool_has_its_own_spelling() -> None:
    world = numbered_world()
    world.write({"1": frozenset({1})})
    plan = world.plan(WriteMode.OVERWRITE_TABLE)
    come = without_answer(world, lambda: world.write({"2": frozenset({2})}, plan=plan), "drop_partition")
    world.recover_later()
    world.write({"1": frozenset({3})})
    assert come()
    world.written_by_another_tool("01", frozenset({4}))
    world.skipped_seconds += 2 * 86_400
    world.keeper.recover(str(world.name))
    assert world.rows() == {"01": frozenset({4}), "2": frozenset({2})}


def test_rows_of_null_are_refused_where_two_partitions_are_null_and_other_rows_are_not(world: World) -> None:
    before = {"abc": frozenset({1}), "xyz": frozenset({2})}
    for text, ids in before.items():
        world.written_by_another_tool(text, ids)
    nulls = Spellings.of([("abc",), ("xyz",)], ["int"], table="mart.orders").unusual()
    with pytest.raises(InvalidInputError, match=r"one partition of mart\.orders twice"):
        world.write({NULL_PARTITION: frozenset({3})}, plan=replace(world.plan(), spellings=nulls))
    assert world.rows() == before
    world.write({"1": frozenset({4})}, plan=replace(world.plan(), spellings=nulls))
    assert world.rows() == {**before, "1": frozenset({4})}


def test_of_two_writers_with_one_write_id_the_second_touches_nothing(world: World) -> None:
    plan = replace(world.plan(), write_id="run-42", named_by_caller=True)
    refused: list[str] = []

    def begin_again() -> None:
        with pytest.raises(InvalidInputError, match="used before"):
            world.write(TWO, plan=plan)
        refused.append("while the first is running")

    world.write(ONE, plan=plan, before_publish=begin_again)
    with pytest.raises(InvalidInputError, match="used before"):
        world.write(TWO, plan=plan)
    assert refused
    assert world.rows() == ONE
    assert world.store.head(world.layout.registration_key("run-42")) is None


def test_an_append_notices_that_an_alter_table_took_an_old_location_back() -> None:
    world = unpartitioned()
    world.write({"": frozenset({2})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    stale = world.table
    append(world, {"": frozenset({3})})
    world.metastore.create_table(stale)
    append(world, {"": frozenset({4})})
    assert world.rows() == {"": frozenset({2, 3, 4})}


def test_an_append_to_an_unpartitioned_table_passes_over_entries_that_were_given_up_or_trimmed() -> None:
    world = unpartitioned()
    world.write({"": frozenset({2})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    world.fails(REFUSED, lambda: append(world, {"": frozenset({3})}), MetastoreError)
    with world.recording() as calls:
        append(world, {"": frozenset({4})})
    listings = sum(call == "list_page" for _, call in calls)
    with world.recording() as calls:
        append(world, {"": frozenset({5})})
    assert listings == sum(call == "list_page" for _, call in calls), "the log is not read for that"
    world.fails(REFUSED, lambda: append(world, {"": frozenset({6})}), MetastoreError)
    world.vacuum()
    world.services().log.trim([5])
    append(world, {"": frozenset({7})})
    assert world.rows() == {"": frozenset({2, 4, 5, 7})}


def test_a_late_copy_is_noticed_also_where_nothing_is_left_to_copy(world: World) -> None:
    world.written_by_another_tool("d1", frozenset({1}))
    original = world.store.copy

    def copy_and_empty(source: ObjectInfo, key: str) -> None:
        original(source, key)
        if source.key.startswith("mart/orders/dt="):  # what the other tool had written
            world.store.delete([source.key])
        world.store.put(f"{key}-of-a-zombie.json", b"[1]")

    world.store.copy = copy_and_empty  # type: ignore[method-assign]
    with pytest.raises(StorageError, match="not exactly those that were written"):
        append(world, TWO)


def test_restore_and_adopt_hide_no_rows_that_others_have_written_since() -> None:
    world = unpartitioned()
    world.write({"": frozenset({2})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    world.lose_metastore()
    world.metastore.create_table(replace(world.table, location="s3a://lake/mart/orders/"))
    world.store.put("mart/orders/part-7.json", b"[77]")
    with pytest.raises(InvalidInputError, match=r"others have written .* begin a new log: once nothing reads"):
        world.keeper.adopt(str(world.name))
    report = world.keeper.restore(str(world.name))
    assert "others have written" in str(report)
    assert world.rows() == {"": frozenset({1, 77})}
    with pytest.raises(InvalidInputError, match="adopt"):
        world.services().require_owner()  # else an append would replace the rows of the log
    world.store.delete(["mart/orders/part-7.json"])
    world.keeper.adopt(str(world.name))
    assert world.rows() == {"": frozenset({2})}
    append(world, {"": frozenset({3})})
    assert world.rows() == {"": frozenset({2, 3})}


def test_the_double_tells_that_a_table_was_changed_between_look_and_alter() -> None:
    world = unpartitioned()
    world.write({"": frozenset({2})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))

    def change() -> None:
        parameters = {**world.table.parameters, "table_writer.write_id": "somebody-else"}
        world.metastore.create_table(replace(world.table, parameters=parameters))

    plan = world.plan(WriteMode.OVERWRITE_TABLE)
    world.at_metastore("alter_partitions", "before", change)
    with pytest.raises(MetastoreError):
        world.write({"": frozenset({3})}, plan=plan)
    assert world.rows() == {"": frozenset({2})}


@pytest.mark.parametrize("error", [ValueError("two is odd"), KeyboardInterrupt()], ids=repr)
def test_what_ends_a_write_before_its_claim_is_told_to_have_harmed_no_reader(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise type(error)(*error.args)  # a new one: tests may run twice in a process

    world = World()
    with pytest.raises(type(error)) as raised:
        world.write(ONE, before_publish=fail)
    said = "nothing of this write was published to mart.orders: it has changed no row that readers see"
    assert raised.value.__notes__ == [said]
    [line] = [one.getMessage() for one in caplog.records if said in one.getMessage()]
    assert f"ended by {type(error).__name__}" in line


def test_once_a_claim_was_sent_nothing_is_said_of_readers(world: World) -> None:
    world.at_metastore("add_partitions", "before", lambda: fail(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt) as raised:
        world.write(NEW)
    assert not [note for note in raised.value.__notes__ if "nothing of this write" in note]


def test_an_error_of_this_library_needs_no_word_on_readers(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(StorageError) as raised:
        World().write(ONE, before_publish=lambda: fail(StorageError("the bucket is gone")))
    assert not hasattr(raised.value, "__notes__")
    assert "was published" not in caplog.text
