"""What a certificate says, word for word, and what an erasure has named for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from table_writer.errors import InvalidInputError
from table_writer.jobs.rows.erasure import SeenAgainError
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log import table_log
from tests.publish.world import TABLE, World, schema_of

from .erasures import holders, purge
from .operations import replace_columns

T: Final = str(TABLE)
ANN: Final = frozenset({2})


def ids(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


def world_with(*writes: dict[str, frozenset[int]]) -> World:
    world = World()
    world.sleep = lambda seconds: setattr(world, "skipped_seconds", world.skipped_seconds + seconds)
    for rows in writes:
        world.write(rows)
    return world


def test_a_certificate_says_who_asked_for_what_and_what_became_of_each_object() -> None:
    world = world_with({"d1": ids(1), "d2": ids(2, 22)})
    deleted = purge(world, ANN)
    (entry,) = (one.entry for one in world.history().records if one.entry.erasure)
    due = world.keeper.erasure(T)
    assert [one.state for one in due.objects] == ["due"]
    assert due.vacuumed_at is None
    vacuumed = world.keeper.vacuum(T)
    report = world.keeper.erasure(T)
    assert report.write_id == deleted.write_id == entry.erasing_id
    assert (report.table, report.version, report.deleted_rows) == (T, entry.version, 1)
    assert report.requested_at == entry.created_at
    assert report.requested_by == f"{entry.writer['user']}@{entry.writer['host']}"
    assert report.vacuumed_at == world.services().log.slots.read(vacuumed.version).entry.created_at
    assert [one.state for one in report.objects] == ["deleted"]
    assert (report.is_complete, report.due, report.remarks) == (True, 0, ())
    assert report.unknown == (
        "what the store keeps of deleted objects (versions, soft delete)",
        "the metastore's backups, and its log of notifications: figures and names of older partitions",
        "what jobs have printed, logged or saved: a failed check shows example rows, Spark's event log the predicate",
    )
    assert world.keeper.erasure(T, write_id=deleted.write_id) == report


def test_without_an_erasure_there_is_no_certificate() -> None:
    world = world_with({"d1": ids(1)})
    with pytest.raises(InvalidInputError, match=r"the log of mart\.orders has no erasure: delete_where"):
        world.keeper.erasure(T)
    with pytest.raises(InvalidInputError, match=r"has no erasure by write w7: delete_where"):
        world.keeper.erasure(T, write_id="w7")


def test_who_requested_it_may_not_be_known() -> None:
    world = world_with({"d1": ids(1), "d2": ids(2)})
    purge(world, ANN)
    key = world.layout.entry_key(world.keeper.erasure(T).version)
    stored = world.store.get(key)
    assert stored is not None
    world.store.put(key, stored.body.replace(b'"user"', b'"use"').replace(b'"host"', b'"hos"'))
    assert world.keeper.erasure(T).requested_by == "?@?"


def test_only_what_was_written_before_counts_for_what_the_log_keeps() -> None:
    world = world_with({"d1": ids(1), "d2": ids(2)})
    purge(world, ANN)
    before = world.keeper.erasure(T).later
    assert "predicates, and tags" not in " ".join(before)
    world.write({"d1": ids(1)}, plan=replace(world.plan(), tags={"run": "7"}))
    assert "predicates, and tags" not in " ".join(world.keeper.erasure(T).later)
    world = World()
    world.write({"d1": ids(1), "d2": ids(2)}, plan=replace(world.plan(), tags={"run": "7"}))
    purge(world, ANN)
    assert "what callers have said: predicates, and tags" in " ".join(world.keeper.erasure(T).later)


def test_a_fold_of_before_is_named_with_when_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_log, "FOLD_EVERY_VERSIONS", 3)
    world = world_with({"d1": ids(1), "d2": ids(2)}, *({"d1": ids(100 + number)} for number in range(6)))
    world.keeper.vacuum(T)
    (folded,) = world.services().log.marks.listed("folded")
    purge(world, ANN)
    assert (
        f"the log's fold of version {folded} holds the same of what was there then: it goes once the log was folded"
        " twice more, each time after 100 versions"
    ) in world.keeper.erasure(T).later


def test_what_a_fold_knows_of_a_place_whose_name_says_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_log, "FOLD_EVERY_VERSIONS", 3)
    world = world_with({"d1": ids(1)})
    for value, row in (("d1", 11), ("d2", 22)):
        key = f"mart/orders/of-{value}/part-0.json"
        world.store.put(key, f"[{row}]".encode())
        world.pointed_by_another_tool(value, f"{world.root}of-{value}/")
    world.write({"d1": ids(111), "d2": ids(2, 222)})
    for number in range(6):
        world.write({"d3": ids(300 + number)})
    world.keeper.vacuum(T)
    assert world.services().log.marks.listed("folded")
    purge(world, ANN)
    objects = {one.key for one in world.keeper.erasure(T).objects}
    assert {key for key in objects if "/of-" in key} == {"mart/orders/of-d2/part-0.json"}


def test_all_that_readers_have_left_of_a_changed_partition_goes_whatever_is_in_it() -> None:
    """A row may have been there under another key, or with other values: only the delete knows the partition."""
    world = world_with({"d1": ids(1), "d2": ids(22)}, {"d2": ids(2, 22)}, {"d1": ids(11)})
    left = [key for key in holders(world, ids(22)) if key not in holders(world, ANN)]
    assert len(left) == 1
    purge(world, ANN)
    objects = [one.key for one in world.keeper.erasure(T).objects]
    assert set(objects) == {*left, *holders(world, ANN)}  # and not what d1 had
    world.keeper.vacuum(T)
    assert holders(world, ANN) == []
    assert world.rows() == {"d1": ids(11), "d2": ids(22)}


def test_a_partition_spelled_otherwise_is_the_one_that_was_changed() -> None:
    world = World()
    table = world.table
    world.metastore.create_table(replace(table, partition_columns=(replace(table.partition_columns[0], type="int"),)))
    world.write({"7": ids(22)})
    first = world.located()["7"]
    world.write({"7": ids(2, 22)})
    world.dropped_by_another_tool("7")
    world.pointed_by_another_tool("07", first.rstrip("/") + "-none/")
    world.write({"7": ids(2, 22)})
    purge(world, ANN)
    named = {one.key.rpartition("/")[0] for one in world.keeper.erasure(T).objects}
    assert any(first.endswith(f"{directory.removeprefix('mart/orders/')}/") for directory in named)


def test_what_no_reader_sees_is_not_looked_through() -> None:
    world = world_with({"d1": ids(1), "d2": ids(2)}, {"d1": ids(11)})
    (left,) = holders(world, ids(1))
    world.store.put(f"{left.rpartition('/')[0]}/_hidden.json", b"[2]")
    world.write({"d3": ids(3)}, plan=world.plan(WriteMode.APPEND))
    purge(world, ANN)
    assert left not in [one.key for one in world.keeper.erasure(T).objects]


def test_what_cannot_be_read_is_named_and_the_rest_is_looked_through() -> None:
    world = world_with({"d1": ids(1), "d2": ids(2), "d3": ids(2, 3), "d4": ids(4)}, {"d1": ids(11), "d3": ids(33)})
    (damaged,) = holders(world, ids(1))
    held = [key for key in holders(world, ids(3)) if key in holders(world, ANN)]
    world.store.put(damaged, b"no rows")
    purge(world, ANN)
    report = world.keeper.erasure(T)
    place = damaged.rpartition("/")[0]
    assert report.remarks == (f"s3a://lake/{place}/: it cannot be looked through: InvalidInputError",)
    assert not report.is_complete
    assert set(held) <= {one.key for one in report.objects}
    assert damaged not in {one.key for one in report.objects}


def test_what_other_tools_have_put_where_readers_have_left_is_named() -> None:
    world = world_with({"d1": ids(1)})
    world.written_by_another_tool("d5", ids(5))
    world.write({"d5": ids(55), "d2": ids(2)})
    for number in (1, 2):
        world.store.put(f"mart/orders/dt=d5/part-{number}.json", b"[2]")
        purge(world, ids(100 + number))
        remark = (
            f"s3a://lake/mart/orders/dt=d5/: {number} object{'s' * (number > 1)} that other tools have put there since"
        )
        assert remark in world.keeper.erasure(T).remarks


def test_who_sees_such_rows_again_is_named_three_at_the_most() -> None:
    world = world_with({f"d{number}": ids(2, 10 + number) for number in range(5)})

    def back() -> None:
        world.write({f"d{number}": ids(2) for number in range(5)})

    with pytest.raises(SeenAgainError, match=r"in dt=d0, dt=d1, dt=d2, …: a rollback"):
        purge(world, ANN, back)


@pytest.mark.parametrize("has_other_columns", [True, False])
def test_rows_of_other_columns_are_not_looked_through(has_other_columns: bool) -> None:
    """The predicate is about the columns of today."""
    world = World()
    world.become_unpartitioned()
    world.write({"": ids(1)}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    if has_other_columns:
        replace_columns(world)
    else:
        plan = world.plan(WriteMode.OVERWRITE_TABLE)
        world.write({"": ids(40)}, plan=replace(plan, schema=schema_of(world.table.columns)))
    purge(world, ANN)  # which finds no such row, and so changes nothing
    remarks = [text.partition(": ")[2] for text in world.keeper.erasure(T).remarks]
    assert remarks == (["it was written with other columns, and not looked through"] if has_other_columns else [])


@pytest.mark.parametrize("has_file", [True, False])
def test_a_directory_of_which_nothing_is_left_holds_no_row(has_file: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some stores list directories whose files are all deleted."""
    world = world_with({"d1": ids(1), "d2": ids(2)})
    purge(world, ANN)
    world.keeper.vacuum(T)
    dead = "20240102T030405-00112233445566aa"
    if has_file:
        world.store.put(f"{world.layout.data(dead).key}d1/part-0", b"[2]")
    listed = world.store.list_directories
    also = {world.layout.all_data.key: [dead]}
    monkeypatch.setattr(world.store, "list_directories", lambda prefix: {*listed(prefix), *also.get(prefix, ())})
    told = world.keeper.erasure(T).remarks
    assert told == ((f"write {dead} is not published, and its files were not looked through",) if has_file else ())
