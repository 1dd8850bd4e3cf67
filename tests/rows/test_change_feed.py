"""A change feed that is late, doubled and out of order ends in the rows that its newest changes say."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, NamedTuple

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer import TableWriter

KEYS: Final = 24
CHANGES: Final = 120
BATCHES: Final = 5
MOST_LATE: Final = 30  # changes by which another may be overtaken
NEWER: Final = "updates.seq > target.seq"


class Change(NamedTuple):
    op: str
    key: int
    seq: int
    value: str | None
    dt: str


def feed(seed: int) -> tuple[list[Change], list[list[Change]]]:
    """Return changes in their order, and the batches in which they come, some of them twice."""
    chance = random.Random(seed)
    changes = [
        Change(
            chance.choice("uuud"),
            chance.randrange(KEYS),
            seq,
            chance.choice([None, "", "a", "b/=%"]),
            chance.choice(["d:1", "d2", "d3"]),
        )
        for seq in range(CHANGES)
    ]
    doubled = [*changes, *chance.sample(changes, CHANGES // 3)]
    arrived = sorted(doubled, key=lambda change: change.seq + chance.uniform(0, MOST_LATE))
    size = len(arrived) // BATCHES + 1
    return changes, [arrived[start : start + size] for start in range(0, len(arrived), size)]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "moves"), [(0, False), (1, True)], ids=["in one partition", "between partitions"])
def test_a_feed_ends_in_its_newest_changes(
    seed: int, moves: bool, writer: TableWriter, spark: SparkSession, make_table: Callable[..., str]
) -> None:
    """A deleted key stays as a row that says so, until no older change of it can come: a late one would insert it."""
    schema = "op STRING, key BIGINT, seq BIGINT, value STRING, dt STRING"
    table = make_table(f"CREATE TABLE {{name}} ({schema}) USING parquet PARTITIONED BY (dt)")
    changes, batches = feed(seed)
    if not moves:  # each key has its partition, and both are the key
        changes = [change._replace(dt=f"d{change.key % 3}") for change in changes]
        batches = [[change._replace(dt=f"d{change.key % 3}") for change in batch] for batch in batches]
    on = ["key"] if moves else ["dt", "key"]
    newest: dict[int, Change] = {}
    inserted = deleted = 0
    for batch in batches:
        rows = spark.createDataFrame([tuple(change) for change in batch], schema)
        every = F.struct("seq", "op", "value", "dt")
        latest = rows.groupBy("key").agg(F.max_by(every, "seq").alias("newest")).select("key", "newest.*")
        values = {name: f"if({NEWER}, updates.{name}, target.{name})" for name in ("op", "seq", "value", "dt")}
        result = writer.merge(latest, table, on=on, set=values if moves else {**values, "dt": "target.dt"})
        inserted += result.inserted or 0
        arrived = max(change.seq for change in batch)
        purged = writer.merge(
            spark.table(table).where(f"op = 'd' AND seq < {arrived - MOST_LATE}").select(*on),
            table,
            on=on,
            matched="delete",
            missing="ignore",
        )
        deleted += purged.deleted or 0
        for change in batch:
            if change.key not in newest or change.seq > newest[change.key].seq:
                newest[change.key] = change
        spark.catalog.refreshTable(table)
        present = [Change(**row.asDict()) for row in spark.table(table).collect()]
        assert len(present) == inserted - deleted
        live = [change for change in newest.values() if change.op == "u"]
        assert sorted((change for change in present if change.op == "u"), key=repr) == sorted(live, key=repr)
    last = {change.key: change for change in changes}
    assert newest == last
    assert deleted > 0
    result = writer.merge(
        spark.table(table).where("op = 'd'").select(*on), table, on=on, matched="delete", missing="ignore"
    )
    spark.catalog.refreshTable(table)
    found = {row["key"]: Change(**row.asDict()) for row in spark.table(table).collect()}
    assert found == {key: change for key, change in last.items() if change.op == "u"}
