"""The rows that two versions differ in are those that a dictionary in Python says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from random import Random
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from table_writer import ConflictError, InvalidInputError, TableWriter
from table_writer.spark.sql import SPARK_ERRORS

Make = Callable[..., str]
Row = tuple[Any, ...]
ORDERS: Final = "CREATE TABLE {name} (id BIGINT, n INT, dt STRING) USING parquet PARTITIONED BY (dt)"
TEXT: Final = "CREATE TABLE {name} (id BIGINT, n INT) PARTITIONED BY (dt STRING) STORED AS TEXTFILE"
EVERY_PAIR: Final = [(first, last) for first in range(7) for last in range(first + 1, 7)]
SCHEMA: Final = "id BIGINT, n INT, dt STRING"
DAYS: Final = ("a", "b", "c d/%", None)


def tuples(rows: DataFrame) -> Counter[Row]:
    return Counter(map(tuple, rows.collect()))


def bag_difference(before: Counter[Row], after: Counter[Row]) -> Counter[Row]:
    return Counter(
        {
            (*row, kind): n
            for kind, bag in (("delete", before - after), ("insert", after - before))
            for row, n in bag.items()
        }
    )


def keyed_difference(before: Iterable[Row], after: Iterable[Row]) -> Counter[Row]:
    """Compare rows by their first value; those without it as a whole."""
    before, after = list(before), list(after)
    expected = bag_difference(*(Counter(row for row in rows if row[0] is None) for rows in (before, after)))
    old, new = ({row[0]: row for row in rows if row[0] is not None} for rows in (before, after))
    for key in old.keys() | new.keys():
        was, is_now = old.get(key), new.get(key)
        if was and is_now and was != is_now:
            expected.update([(*was, "update_before"), (*is_now, "update_after")])
        elif was != is_now:
            expected.update([(*was, "delete")] if was else [(*(is_now or ()), "insert")])
    return expected


def random_rows(random: Random, ids: Sequence[int | None]) -> list[Row]:
    return [(one, random.choice([None, 1, 2, 3]), random.choice(DAYS)) for one in ids]


@pytest.mark.connect
@pytest.mark.parametrize(
    ("ddl", "seed", "pairs"),
    [
        (ORDERS, 7, [(1, 2), (0, 5), (2, 6)]),
        pytest.param(ORDERS, 8, EVERY_PAIR, marks=pytest.mark.slow),
        pytest.param(TEXT, 9, [(1, 2), (0, 5), (2, 6)], marks=pytest.mark.slow),
    ],
)
def test_a_random_history_differs_as_bags_and_dictionaries_do(
    ddl: str, seed: int, pairs: list[tuple[int, int]], writer: TableWriter, spark: SparkSession, make_table: Make
) -> None:
    table, random = make_table(ddl), Random(seed)

    def frame(ids: Sequence[int | None]) -> DataFrame:
        return spark.createDataFrame(random_rows(random, ids), SCHEMA)

    writer.append(frame([1, 2, 3, 4, 5, 6, None, None]), table)
    writer.append(frame([7, 8, None]), table, carry="in_place")
    writer.delete_where(table, "dt = 'b' OR id = 5")
    writer.compact(table, min_files=2)
    writer.merge(spark.createDataFrame(random_rows(random, [1, 2, 6, 9]), SCHEMA), table, on=["id"])
    assert writer.maintenance.rollback(table, version=1).version == 6
    states = {version: tuples(writer.read(table, version=version)) for version in set().union(*pairs)}
    for first, last in pairs:
        before, after = states[first], states[last]
        rows = writer.read_changes(table, first, last)
        assert tuples(rows) == bag_difference(before, after), (first, last)
        by_key = writer.read_changes(table, first, last, key=["ID"])
        assert tuples(by_key) == keyed_difference(before.elements(), after.elements()), (first, last)
        assert rows.columns == by_key.columns == ["id", "n", "dt", "_change_type"]


@pytest.mark.connect
def test_a_bag_loses_as_many_rows_as_are_there_less(writer: TableWriter, spark: SparkSession, make_table: Make) -> None:
    table = make_table("CREATE TABLE {name} (id INT, note CHAR(3)) USING parquet")
    for ids in [1, 1, 1, 2, None, None], [1, 2, 2, None]:
        writer.overwrite_table(spark.createDataFrame([(one, "a") for one in ids], "id INT, note STRING"), table)
    changes = writer.read_changes(table, 1, 2)
    gone = {(1, "a  ", "delete"): 2, (None, "a  ", "delete"): 1}
    assert tuples(changes) == Counter({**gone, (2, "a  ", "insert"): 1})
    assert tuples(writer.read_changes(table, 0, 2)).total() == 4
    assert changes.drop("_change_type").schema == writer.read(table, version=2).schema
    assert writer.version_of(changes.where("id > 0"), table) == 2


@pytest.mark.connect
def test_rows_are_equal_as_spark_groups_them_and_maps_in_any_order(
    writer: TableWriter, spark: SparkSession, make_table: Make
) -> None:
    table = make_table(
        "CREATE TABLE {name} (id INT, x DOUBLE, m MAP<STRING, INT>, deep ARRAY<STRUCT<k: INT, m: MAP<INT, DOUBLE>>>)"
        " USING parquet"
    )
    same = {
        1: "double('nan'), map('a', 1, 'b', 2), array(named_struct('k', 1, 'm', map(1, double('nan'), 2, 0D)))",
        2: "0D, map(), array(named_struct('k', 1, 'm', null), null)",
        3: "null, null, null",
        4: "1D, map('a', null), array()",
        5: "1D, null, array(null)",
    }
    turned = same | {
        1: "double('nan'), map('b', 2, 'a', 1), array(named_struct('k', 1, 'm', map(2, -0D, 1, double('nan'))))",
        2: "-0D, map(), array(named_struct('k', 1, 'm', null), null)",
        4: "1D, map(), array()",
        5: "1D, null, array(named_struct('k', null, 'm', null))",
    }
    for rows in same, turned:
        texts = " UNION ALL ".join(f"SELECT {one}, {values}" for one, values in rows.items())
        writer.overwrite_table(spark.sql(texts).toDF("id", "x", "m", "deep"), table)
    found = writer.read_changes(table, 1, 2, key=["id"]).collect()
    assert [(row.id, row["_change_type"]) for row in sorted(found, key=lambda row: row.id)] == [
        (one, kind) for one in (4, 5) for kind in ("update_before", "update_after")
    ]
    assert {(row.id, len(row.m)) for row in found if row.id == 4} == {(4, 1), (4, 0)}
    found = writer.read_changes(table, 1, 2).collect()
    assert {(row.id, row["_change_type"]) for row in found} == {
        (one, kind) for one in (4, 5) for kind in ("delete", "insert")
    }


@pytest.mark.connect
def test_files_are_read_only_where_rows_have_changed(
    writer: TableWriter, spark: SparkSession, make_table: Make
) -> None:
    table = make_table(ORDERS)

    def append(*rows: Row, **options: Any) -> None:
        writer.append(spark.createDataFrame(rows, SCHEMA), table, **options)

    append((1, 1, "a"), (1, 1, "b"), (1, 1, "c"))
    append((2, 2, "a"))
    writer.compact(table, min_files=2)
    append((3, 3, "a"), carry="in_place")
    writer.overwrite_partitions(spark.createDataFrame([(4, 4, "b")], SCHEMA), table)
    writer.maintenance.rollback(table, version=1, partitions=["dt=b"])
    writer.delete_where(table, "dt = 'c'")
    assert writer.read_changes(table, 2, 3).inputFiles() == []
    assert writer.read_changes(table, 2, 3, key=["id"]).count() == 0
    assert tuples(writer.read_changes(table, 3, 6)) == Counter([(3, 3, "a", "insert")])
    assert len(writer.read_changes(table, 3, 6).inputFiles()) == 1, "that of the append; b is as it was"
    assert tuples(writer.read_changes(table, 6, 7, key=["id"])) == Counter([(1, 1, "c", "delete")])
    assert tuples(writer.read_changes(table, 2, 7)) == Counter([(3, 3, "a", "insert"), (1, 1, "c", "delete")])


@pytest.mark.connect
def test_what_cannot_be_compared_is_refused_by_name(writer: TableWriter, spark: SparkSession, make_table: Make) -> None:
    table = make_table(ORDERS)
    rows = spark.createDataFrame([(1, 1, "a"), (1, 2, "b"), (2, 2, "b")], SCHEMA)
    writer.append(rows, table)
    writer.overwrite_partitions(rows.where("n = 1"), table)
    assert writer.read_changes(table, 2, 2, key=["id"]).collect() == []
    for first, last, key, said in (
        (2, 1, [], "version 2 is newer than version 1"),
        (1, 3, [], "version 3"),
        (-1, 2, [], "version -1"),
        (0, 1, ["ix"], "key: .* has no column 'ix'"),
        (0, 1, ["id", "ID"], "key=.*'ID'.*: id stands there twice"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            writer.read_changes(table, first, last, key=key)
    repeated = writer.read_changes(table, 0, 1, key=["id"])
    with pytest.raises(SPARK_ERRORS, match=r'key: \{"id":1\} is there 2 times in .* after version 1: name the columns'):
        repeated.collect()
    copies = make_table(ORDERS.replace("n INT", "n INT, _change_type STRING"), "copies")
    with pytest.raises(InvalidInputError, match=r'key: \{"id":1\} is there 2 times'):
        writer.append(repeated, copies)
    writer.append(writer.read_changes(table, 0, 1, key=["id", "dt"]), copies)
    with pytest.raises(InvalidInputError, match="it has a column _change_type already"):
        writer.read_changes(copies, 0, 1)
    writer.maintenance.vacuum(table, older_than=timedelta(0), force=True)
    with pytest.raises(InvalidInputError, match=r"version 1 of .* cannot be read any more: dt=a: its files at .* were"):
        writer.read_changes(table, 1, 2)


def test_a_write_of_older_rows_back_into_their_table_conflicts_unless_it_is_meant(
    writer: TableWriter, spark: SparkSession, make_table: Make
) -> None:
    table = make_table(ORDERS)
    for n in 1, 2:
        writer.overwrite_partitions(spark.createDataFrame([(1, n, "a")], SCHEMA), table)
    changes = writer.read_changes(table, 1, 2, key=["id"])
    undone = changes.where("_change_type = 'update_before'").drop("_change_type")
    with pytest.raises(ConflictError):
        writer.overwrite_partitions(undone, table)
    writer.overwrite_partitions(undone, table, based_on=writer.version_of(changes, table))
    assert tuples(writer.read(table)) == Counter([(1, 1, "a")])
