"""Whose files lie below a root."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from table_writer.errors import InvalidInputError, StorageError
from table_writer.model.location import Location
from table_writer.model.table import Column, Table, TableName
from table_writer.model.write import TableLayout
from table_writer.protocol.log.owner import (
    Owner,
    adopt_root,
    is_of_earlier_table,
    refuse_immovable,
    refuse_nested_roots,
    require_owner,
    take_root,
)
from table_writer.testing.memory_metastore import MemoryMetastore
from table_writer.testing.memory_store import MemoryStore

OWNER = Owner(database="mart", name="orders", created_at_seconds=1, metastore="thrift://a:9083")
LAYOUT = TableLayout(Location.parse("s3a://lake/mart/orders"))


def table(name: str, location: str) -> Table:
    return Table(
        name=TableName("mart", name), kind="EXTERNAL_TABLE", location=location, columns=(), partition_columns=()
    )


def test_the_first_write_checks_and_later_ones_do_not() -> None:
    store = MemoryStore()
    checks: list[int] = []
    take_root(store, LAYOUT, OWNER, first_write=lambda: checks.append(1))
    take_root(store, LAYOUT, OWNER, first_write=lambda: checks.append(2))
    assert checks == [1]
    log_id = json.loads(store.get(LAYOUT.owner_key).body)["log_id"]
    left = {info.key for info in store.list("")}
    assert left == {LAYOUT.owner_key, f"{LAYOUT.log_prefix}id-{log_id}"}, "the probe leaves nothing"


def test_an_owner_is_a_table_with_the_metastore_where_it_was_seen() -> None:
    assert Owner.of(replace(table("orders", str(LAYOUT.root)), created_at_seconds=1), "thrift://a:9083") == OWNER


def test_another_address_of_the_same_metastore_is_the_same_table() -> None:
    store = MemoryStore()
    take_root(store, LAYOUT, OWNER)
    take_root(store, LAYOUT, replace(OWNER, metastore="thrift://b:9083"))


def test_files_of_a_table_that_was_dropped_before_its_first_version_are_taken_over_by_its_successor() -> None:
    store, successor = MemoryStore(), replace(OWNER, created_at_seconds=2)
    log_id = take_root(store, LAYOUT, OWNER)
    assert require_owner(store, LAYOUT, successor) == log_id
    assert take_root(store, LAYOUT, successor) == log_id
    with pytest.raises(InvalidInputError, match=r"adopt.*reset"):  # a write of the dropped one that is on its way
        require_owner(store, LAYOUT, OWNER)


@pytest.mark.parametrize("also", [LAYOUT.entry_key(1), LAYOUT.staged_key("w"), LAYOUT.registration_key("w"), ""])
def test_a_log_with_a_version_or_a_write_or_without_its_id_is_not_taken_over(also: str) -> None:
    store, successor = MemoryStore(), replace(OWNER, created_at_seconds=2)
    log_id = take_root(store, LAYOUT, OWNER)
    if also:
        store.put(also, b"{}")
    else:
        store.delete([f"{LAYOUT.log_prefix}id-{log_id}"])
    with pytest.raises(InvalidInputError, match=r"adopt.*reset"):
        take_root(store, LAYOUT, successor)


@pytest.mark.parametrize("other", [replace(OWNER, created_at_seconds=0), replace(OWNER, name="orders2")])
def test_another_tables_files_are_an_error_that_names_both_ways_out(other: Owner) -> None:
    store = MemoryStore()
    take_root(store, LAYOUT, OWNER)
    with pytest.raises(InvalidInputError, match=r"adopt.*reset"):
        take_root(store, LAYOUT, other)


def test_an_unpartitioned_table_that_the_metastore_would_not_move_is_refused_and_partitions_may_lie_anywhere() -> None:
    metastore, whole = MemoryMetastore(), table("orders", str(LAYOUT.root))
    metastore.immovable[whole.name] = "Hive 4 keeps external tables out of its managed warehouse s3a://lake/mart"
    with pytest.raises(InvalidInputError, match=r"(?s)below s3a://lake/mart/orders/: Hive 4 keeps.*SET LOCATION"):
        refuse_immovable(metastore, whole)
    asked = metastore.call_counts()
    refuse_immovable(metastore, replace(whole, partition_columns=(Column("dt", "string"),)))
    assert metastore.call_counts() == asked
    refuse_immovable(metastore, table("other", str(LAYOUT.root)))


def test_a_store_that_ignores_conditional_puts_is_refused() -> None:
    class Careless(MemoryStore):
        def put_if_absent(self, key: str, body: bytes) -> bool:
            self.put(key, body)
            return True

    store = Careless()
    with pytest.raises(InvalidInputError, match="conditional puts"):
        take_root(store, LAYOUT, OWNER)
    assert list(store.list("")) == []


@pytest.mark.parametrize("location", ["s3://lake/mart", "s3n://lake/mart/orders/old", "s3a://lake/mart//orders/"])
def test_a_root_inside_or_around_another_is_refused(location: str) -> None:
    with pytest.raises(InvalidInputError, match="contain each other"):
        refuse_nested_roots(MemoryStore(), LAYOUT, table("orders", str(LAYOUT.root)), [table("other", location)])


def test_a_sibling_whose_name_begins_alike_is_no_conflict() -> None:
    others = [table("orders_v2", "s3a://lake/mart/orders_v2"), table("far", "s3a://other/mart/orders/x")]
    refuse_nested_roots(MemoryStore(), LAYOUT, table("orders", str(LAYOUT.root)), others)


@pytest.mark.parametrize("above", ["s3a://lake/", "s3a://lake/a", "s3a://lake/a/b", "s3a://lake/a/b/c"])
def test_every_directory_above_is_asked_whether_it_is_a_root(above: str) -> None:
    store, inner = MemoryStore(), TableLayout(Location.parse("s3a://lake/a/b/c/d"))
    if above != "s3a://lake/":
        take_root(store, TableLayout(Location.parse(above)), OWNER)
        with pytest.raises(InvalidInputError, match=f"lies inside {above}/, which is another table's root"):
            refuse_nested_roots(store, inner, table("orders", str(inner.root)), [])
    else:
        refuse_nested_roots(store, inner, table("orders", str(inner.root)), [])


def test_the_root_itself_is_no_root_above_and_another_directory_name_is_another_librarys() -> None:
    store = MemoryStore()
    take_root(store, LAYOUT, OWNER)
    take_root(store, TableLayout(Location.parse("s3a://lake/mart"), "_other"), OWNER)
    refuse_nested_roots(store, LAYOUT, table("orders", str(LAYOUT.root)), [])


def test_where_nobody_may_look_above_nothing_is_refused() -> None:
    store = MemoryStore()

    def denied(call: str, _phase: str, _key: str) -> None:
        if call == "head":
            raise StorageError("AccessDenied")

    store.on_call = denied
    refuse_nested_roots(store, LAYOUT, table("orders", str(LAYOUT.root)), [])


@pytest.mark.parametrize(
    "other",
    [
        table("orders", "s3a://lake/mart"),  # the table itself, as another metastore call spells it
        table("nowhere", ""),
        table("relative", "mart/orders"),
        replace(table("view", "s3a://lake/mart"), kind="VIRTUAL_VIEW"),
        replace(table("view", "s3a://lake/mart"), kind="MATERIALIZED_VIEW"),
    ],
    ids=str,
)
def test_what_has_no_files_of_its_own_there_is_passed_over_and_the_next_is_not(other: Table) -> None:
    mine = table("orders", str(LAYOUT.root))
    refuse_nested_roots(MemoryStore(), LAYOUT, mine, [other])
    with pytest.raises(InvalidInputError, match=r"mart\.inner"):
        refuse_nested_roots(MemoryStore(), LAYOUT, mine, [other, table("inner", "s3a://lake/mart/orders/x")])


def test_a_checkpoint_of_a_log_that_was_deleted_goes_with_the_first_write_and_not_with_later_ones() -> None:
    store = MemoryStore()
    store.put(LAYOUT.checkpoint_key, b"{}")
    take_root(store, LAYOUT, OWNER)
    assert store.head(LAYOUT.checkpoint_key) is None
    store.put(LAYOUT.checkpoint_key, b"{}")
    take_root(store, LAYOUT, OWNER)
    assert store.head(LAYOUT.checkpoint_key) is not None


def test_an_adopted_root_keeps_the_id_of_its_log_though_the_mark_is_lost_and_an_empty_one_gets_one() -> None:
    store = MemoryStore()
    adopt_root(store, LAYOUT, OWNER)
    (mark,) = (info.key for info in store.list(LAYOUT.log_prefix))
    log_id = mark.removeprefix(f"{LAYOUT.log_prefix}id-")
    assert json.loads(store.get(LAYOUT.owner_key).body)["log_id"] == log_id
    store.delete([mark])
    adopt_root(store, LAYOUT, replace(OWNER, name="orders2"))
    stored = Owner.from_json(store.get(LAYOUT.owner_key).body, LAYOUT.owner_key)
    assert stored == replace(OWNER, name="orders2", log_id=log_id)


def test_a_first_write_goes_on_with_the_log_that_is_there_though_the_owner_is_lost() -> None:
    store = MemoryStore()
    log_id = take_root(store, LAYOUT, OWNER)
    store.delete([LAYOUT.owner_key])
    assert take_root(store, LAYOUT, OWNER) == log_id
    assert [info.key for info in store.list(LAYOUT.log_prefix)] == [f"{LAYOUT.log_prefix}id-{log_id}"]


def test_of_two_first_writes_of_two_tables_one_is_refused() -> None:
    store = MemoryStore()

    with pytest.raises(InvalidInputError, match=r"belongs to mart\.other"):
        take_root(store, LAYOUT, OWNER, first_write=lambda: take_root(store, LAYOUT, replace(OWNER, name="other")))


def test_an_owner_survives_storage_and_what_is_none_is_refused_by_its_name() -> None:
    assert Owner.from_json(OWNER.to_json(), "x") == OWNER
    assert json.loads(OWNER.to_json())["format"] == 1
    for body in (b"", b"[]", b"{}", b"null", b'{"format": 1}', b"[" * 100_000, OWNER.to_json()[:-1] + b', "more": 1}'):
        with pytest.raises(InvalidInputError, match=r"owner\.json cannot be read"):
            Owner.from_json(body, "owner.json")
    with pytest.raises(InvalidInputError, match="upgrade"):
        Owner.from_json(OWNER.to_json().replace(b'"format": 1', b'"format": 2'), "owner.json")


def test_a_table_that_was_made_again_may_take_its_files_over_and_another_may_not() -> None:
    store = MemoryStore()
    again = replace(OWNER, created_at_seconds=2)
    assert not is_of_earlier_table(store, LAYOUT, OWNER), "there is none"
    take_root(store, LAYOUT, OWNER)
    assert not is_of_earlier_table(store, LAYOUT, replace(OWNER, metastore="elsewhere"))
    assert is_of_earlier_table(store, LAYOUT, again)
    for other in (replace(again, name="orders2"), replace(OWNER, database="mart2")):
        with pytest.raises(InvalidInputError, match=r"belongs to mart\.orders created at 1"):
            is_of_earlier_table(store, LAYOUT, other)
    store.put(LAYOUT.owner_key, b"{")
    with pytest.raises(InvalidInputError, match=f"{LAYOUT.owner_key} cannot be read"):
        is_of_earlier_table(store, LAYOUT, OWNER)


def test_an_owner_that_cannot_be_read_is_named() -> None:
    store = MemoryStore()
    store.put(LAYOUT.owner_key, b"{")
    with pytest.raises(InvalidInputError, match=r"s3a://lake/mart/orders/_table_writer/owner\.json"):
        require_owner(store, LAYOUT, OWNER)


def test_what_the_metastore_has_shown_is_kept_and_grows_and_what_it_hides_later_is_refused() -> None:
    store, two = MemoryStore(), replace(OWNER, columns=("a", "b"))
    take_root(store, LAYOUT, replace(OWNER, columns=("a",)))
    require_owner(store, LAYOUT, two)  # a call that is no write notes nothing
    require_owner(store, LAYOUT, replace(OWNER, columns=("a",)))
    require_owner(store, LAYOUT, two, notes_columns=True)
    for call in (take_root, require_owner, is_of_earlier_table):
        with pytest.raises(InvalidInputError, match=r"does not show 1 column .*: b\..*adopt .*--accept-loss"):
            call(store, LAYOUT, replace(OWNER, columns=("a", "c")))
    adopt_root(store, LAYOUT, replace(OWNER, columns=("a",)))
    assert require_owner(store, LAYOUT, replace(OWNER, columns=("a",)))


def test_a_table_of_too_many_columns_keeps_none_and_is_asked_about_each_time() -> None:
    store, wide = MemoryStore(), replace(OWNER, columns=tuple(f"column_{number:05d}" for number in range(5_000)))
    take_root(store, LAYOUT, wide)
    asked: list[int] = []
    for _ in range(2):
        require_owner(store, LAYOUT, wide, complete=lambda: asked.append(1), notes_columns=True)
    stored = store.get(LAYOUT.owner_key)
    assert (len(asked), stored is not None and len(stored.body) < 1_000) == (2, True)
