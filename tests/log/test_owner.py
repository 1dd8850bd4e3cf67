"""Whose files lie below a root."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from table_writer.errors import InvalidInputError
from table_writer.log.owner import Owner, claim_root, refuse_nested_roots
from table_writer.model.location import Location
from table_writer.model.table import Table, TableName
from table_writer.model.write import TableLayout
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
    claim_root(store, LAYOUT, OWNER, first_write=lambda: checks.append(1))
    claim_root(store, LAYOUT, OWNER, first_write=lambda: checks.append(2))
    assert checks == [1]
    log_id = json.loads(store.get(LAYOUT.owner_key).body)["log_id"]
    left = {info.key for info in store.list("")}
    assert left == {LAYOUT.owner_key, f"{LAYOUT.log_prefix}id-{log_id}"}, "the probe leaves nothing"


def test_another_address_of_the_same_metastore_is_the_same_table() -> None:
    store = MemoryStore()
    claim_root(store, LAYOUT, OWNER)
    claim_root(store, LAYOUT, replace(OWNER, metastore="thrift://b:9083"))


@pytest.mark.parametrize("other", [replace(OWNER, created_at_seconds=2), replace(OWNER, name="orders2")])
def test_another_tables_files_are_an_error_that_names_both_ways_out(other: Owner) -> None:
    store = MemoryStore()
    claim_root(store, LAYOUT, OWNER)
    with pytest.raises(InvalidInputError, match=r"adopt.*reset"):
        claim_root(store, LAYOUT, other)


def test_a_store_that_ignores_conditional_puts_is_refused() -> None:
    class Careless(MemoryStore):
        def put_if_absent(self, key: str, body: bytes) -> bool:
            self.put(key, body)
            return True

    store = Careless()
    with pytest.raises(InvalidInputError, match="conditional puts"):
        claim_root(store, LAYOUT, OWNER)
    assert list(store.list("")) == []


@pytest.mark.parametrize("location", ["s3://lake/mart", "s3n://lake/mart/orders/old", "s3a://lake/mart//orders/"])
def test_a_root_inside_or_around_another_is_refused(location: str) -> None:
    with pytest.raises(InvalidInputError, match="contain each other"):
        refuse_nested_roots(MemoryStore(), LAYOUT, table("orders", str(LAYOUT.root)), [table("other", location)])


def test_a_sibling_whose_name_begins_alike_is_no_conflict() -> None:
    others = [table("orders_v2", "s3a://lake/mart/orders_v2"), table("far", "s3a://other/mart/orders/x")]
    refuse_nested_roots(MemoryStore(), LAYOUT, table("orders", str(LAYOUT.root)), others)


def test_a_root_below_a_root_of_another_database_is_refused() -> None:
    store = MemoryStore()
    claim_root(store, TableLayout(Location.parse("s3a://lake/mart")), OWNER)
    with pytest.raises(InvalidInputError, match="lies inside"):
        refuse_nested_roots(store, LAYOUT, table("orders", str(LAYOUT.root)), [])
