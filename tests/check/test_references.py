"""Keys of another table, and of the table itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from table_writer.check import references, unique
from table_writer.errors import InvalidInputError
from table_writer.testing import Lakehouse

from .conftest import World

Staged = Callable[..., World]


@pytest.fixture(scope="module")
def others(lakehouse: Lakehouse, spark: SparkSession) -> Iterator[str]:
    name = "checked_references"
    spark.sql(f"CREATE DATABASE {name} LOCATION '{lakehouse.warehouse}/{name}.db'")
    spark.sql(
        f"CREATE TABLE {name}.customers USING parquet AS SELECT * FROM VALUES (1L, 'de', 0.0D), (1L, 'de', 0.0D),"
        " (2L, 'fr', DOUBLE('NaN')), (3L, NULL, NULL) AS t(id, country, x)"
    )
    spark.sql(f"CREATE TABLE {name}.tree (id INT, parent INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    spark.sql(f"INSERT INTO {name}.tree VALUES (1, NULL, '1'), (2, NULL, '2')")
    yield name
    spark.sql(f"DROP DATABASE {name} CASCADE")


ROWS = [(1, "de", -0.0), (2, "de", math.nan), (9, None, 5.0), (None, "fr", None)]
KEYS = "customer INT, country STRING, x DOUBLE"


@pytest.mark.slow
def test_keys_that_are_nowhere_are_found_together_with_all_else_in_one_query(staged: Staged, others: str) -> None:
    world, table = staged(ROWS, KEYS), f"{others}.customers"
    expected: dict[Any, set[str]] = {
        references("customer", table, "id"): {"9"},
        references("country", table): set(),
        references("x", table): {"9"},
        references(["customer", "country"], table, ["id", "country"]): {"2"},
        references("COUNTRY", table, "Country", name="again"): set(),
        unique("customer"): set(),
    }
    results = world.run(*expected)
    assert [{example["customer"] for example in result.examples} for result in results] == list(expected.values())
    assert [result.failed_rows for result in results] == [len(wrong) or None for wrong in expected.values()]
    assert world.queries == 2
    assert results[0].message == f"1 of 4 rows have customer that is no id of {table}"


def test_a_table_that_refers_to_itself_counts_the_rows_of_the_write_and_not_those_it_replaces(
    staged: Staged, others: str
) -> None:
    rows = [(2, 1, "2"), (3, 2, "2"), (4, 99, "2")]
    tree = {"table": f"{others}.tree", "partition_by": ["dt"]}
    check = references("parent", f"{others}.tree", "id")
    assert staged(rows, "id INT, parent INT, dt STRING", **tree).one(check).failed_rows == 1
    gone = [("1",), ("__HIVE_DEFAULT_PARTITION__",)]
    assert (
        staged(rows, "id INT, parent INT, dt STRING", replaced_partitions=lambda: gone, **tree).one(check).failed_rows
        == 2
    )
    assert staged(rows, "id INT, parent INT, dt STRING", replaced_partitions=list, **tree).one(check).failed_rows == 1


def test_a_column_that_the_table_is_yet_to_get_is_looked_up_in_the_write(staged: Staged, others: str) -> None:
    world = staged([(1, 7), (7, 8)], "more INT, boss INT", table=f"{others}.tree")
    assert world.one(references("boss", f"{others}.tree", "more")).failed_rows == 1


@pytest.mark.parametrize(
    ("columns", "table", "other"),
    [
        ("customer", "customers", "nope"),
        ("nope", "customers", "id"),
        ("country", "customers", "id"),
        ("customer", "customers", "x"),
        ("customer", "no_table", "id"),
        ("customer", "no such table!", "id"),
    ],
)
def test_what_cannot_be_looked_up_is_refused(staged: Staged, others: str, columns: str, table: str, other: str) -> None:
    with pytest.raises(InvalidInputError):
        staged(ROWS, KEYS).run(references(columns, f"{others}.{table}", other))


def test_as_many_columns_there_as_here() -> None:
    with pytest.raises(InvalidInputError):
        references(["a", "b"], "mart.x", "a")
