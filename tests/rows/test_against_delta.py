"""Changes of generated rows do to a Hive table what Delta's MERGE, DELETE and UPDATE do to the same rows.

Each call is a case: the rows of both tables are compared, and the numbers of rows that were inserted, updated and
deleted. No case are: updates that name a key twice or have a null in it, which a merge refuses; rows to insert outside
of ``where``, and values that a column does not take without loss, which it refuses, too.

Delta refuses subqueries in DELETE and UPDATE. There, Spark's own query says which rows of the Delta table they find.

Run: ``make test-delta``, with Spark 4.1; ``DELTA_EXAMPLES=40`` makes more tables of each type.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from benchmarks.contenders import CONTENDERS
from table_writer import RowsResult, TableWriter
from table_writer.testing import lakehouse as start_lakehouse

pytestmark = pytest.mark.needs("delta")

EXAMPLES: Final = int(os.environ.get("DELTA_EXAMPLES", "30"))  # tables of each type
MOST_CALLS: Final = 10  # of one table
PHASES: Final = (Phase.generate, Phase.shrink) if not os.environ.get("X") else (Phase.generate,)
COLUMNS: Final = ("id", "n", "s", "x", "p")
TYPES: Final = ("BIGINT", "INT", "STRING", "DOUBLE")
TEXTS: Final = ("", "a", "A", "a/b", "k=v%20", "ü😀", " a", "b ", "'\"`", "\\", "a\tb\n", "10", "null", "{p}", "2024-02-29")
PARTITIONS: Final[Mapping[str, Sequence[Any]]] = {  # by type, values of few partitions
    "STRING": [*TEXTS, None],
    "INT": [0, -7, 10, None],
    "DATE": [date(2024, 2, 29), date(1969, 7, 20), None],
    "BOOLEAN": [True, False, None],
    "DECIMAL(9,2)": [Decimal("1.50"), Decimal("-3.00"), Decimal("10.00"), None],
}
VALUES: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    "id": st.one_of(st.integers(0, 6), st.sampled_from([2**62, -1, None])),
    "n": st.one_of(st.none(), st.integers(-3, 3)),
    "s": st.one_of(st.none(), st.sampled_from(TEXTS)),
    "x": st.sampled_from([None, 0.0, -0.0, 1.5, math.nan, math.inf]),
}


class Row(NamedTuple):
    id: int | None
    n: int | None
    s: str | None
    x: float | None
    p: Any


class Call(NamedTuple):
    """A call, with the same in Delta's words; ``{t}`` is the table's name."""

    name: str  # append, merge, delete or update
    rows: tuple[Row, ...] = ()
    on: tuple[str, ...] = ()
    columns: tuple[str, ...] = COLUMNS  # of the updates, in their order
    matched: Any = "update"
    missing: Any = "insert"
    set: Mapping[str, str] | None = None
    where: str = ""


def literal(value: Any, kind: str) -> str:
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"CAST(NULL AS {kind})" if value is None else f"CAST('{text}' AS {kind})"


def types(kind: str) -> dict[str, str]:
    return dict(zip(COLUMNS, (*TYPES, kind), strict=True))


def rows_of(kind: str, most: int = 12) -> st.SearchStrategy[tuple[Row, ...]]:
    row = st.builds(Row, *VALUES.values(), st.sampled_from(PARTITIONS[kind]))
    return st.lists(row, min_size=1, max_size=most).map(tuple)


def predicates(kind: str) -> st.SearchStrategy[str]:
    """Conditions with all three answers; each column is compared with values that there are."""
    of_type = types(kind)

    def literals(name: str) -> st.SearchStrategy[str]:
        values = st.sampled_from(PARTITIONS[kind]) if name == "p" else VALUES[name]
        return values.map(lambda value: literal(value, of_type[name]))

    def compared(name: str) -> st.SearchStrategy[str]:
        others = st.lists(literals(name), min_size=1, max_size=3).map(", ".join)
        signs = st.sampled_from(["=", "<>", "<=>", "<", ">="])
        return st.one_of(
            st.tuples(signs, literals(name)).map(lambda found: f"{name} {found[0]} {found[1]}"),
            st.tuples(st.sampled_from(["IN", "NOT IN"]), others).map(lambda found: f"{name} {found[0]} ({found[1]})"),
            st.sampled_from([f"{name} IS NULL", f"{name} IS NOT NULL", f"CAST({name} AS STRING) LIKE '%1%'"]),
        )

    others = st.sampled_from(
        [
            "s LIKE '%a%'",
            "s LIKE '_'",
            "s NOT LIKE '%!%%' ESCAPE '!'",
            "s RLIKE '^[a-z/]+$'",
            "TRY_CAST(s AS INT) > 1",
            "TRY_CAST(s AS DATE) > DATE '2024-01-01'",
            "CAST(n AS STRING) = s",
            "id = n",
            "n BETWEEN 0 AND id",
            "n % 2 = 0",
            "length(s) > id",
            "coalesce(n, 0) = 0",
            "CASE WHEN n > 0 THEN x > 1 WHEN n < 0 THEN s IS NULL END",
            "CAST(NULL AS BOOLEAN)",
            "true",
            "id IN (SELECT id FROM listed)",
            "id NOT IN (SELECT id FROM listed)",
            "s NOT IN (SELECT s FROM listed WHERE s IS NOT NULL)",
            "EXISTS (SELECT 1 FROM listed WHERE listed.id = {t}.id AND listed.s <=> {t}.s)",
            "n > (SELECT min(id) FROM listed)",
        ]
    )
    atoms = st.one_of(*map(compared, COLUMNS), others)
    pairs = st.sampled_from(["AND", "OR"])
    return st.recursive(
        atoms,
        lambda inner: st.one_of(
            inner.map(lambda found: f"NOT ({found})"),
            st.tuples(inner, pairs, inner).map(lambda found: f"({found[0]}) {found[1]} ({found[2]})"),
        ),
        max_leaves=3,
    )


def new_values(kind: str, *sides: str) -> st.SearchStrategy[dict[str, str]]:
    """Values for some columns, over those of one side or of two."""
    one, other = (sides[0], sides[-1]) if sides else ("", "")
    choices = {
        "id": [f"{one}id + 1", f"{other}id", "7"],
        "n": [f"{one}n + {other}n", "NULL", f"coalesce({one}n, 0)", "-1"],
        "s": [f"concat({one}s, '!')", f"{other}s", f"CAST({one}p AS STRING)", "''", f"{one}s || {other}n"],
        "x": [f"{one}x * 2", f"{other}x", f"CAST({one}n AS DOUBLE)"],
        "p": [f"{other}p", *(literal(value, kind) for value in PARTITIONS[kind])],
    }
    if kind == "STRING":
        choices["p"] += [f"{one}s"]
    chosen = st.dictionaries(st.sampled_from(COLUMNS), st.integers(0, 99), min_size=1, max_size=3)
    return chosen.map(lambda found: {name: choices[name][at % len(choices[name])] for name, at in found.items()})


def usable(rows: Sequence[Row], on: Sequence[str], kind: str) -> tuple[Row, ...]:
    """Return rows of which each key is there once and has no null: an empty text of a partition is one."""

    def part(row: Row, name: str) -> Any:
        value = getattr(row, name)
        if name == "p" and value == "" and kind == "STRING":
            return None
        return "NaN" if isinstance(value, float) and math.isnan(value) else value

    by_key = {tuple(part(row, name) for name in on): row for row in rows}
    return tuple(row for key, row in by_key.items() if None not in key)


@st.composite
def merges(draw: Any, kind: str, *, partitioned: bool) -> Call:
    on = tuple(draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=3, unique=True)))
    rows = usable(draw(rows_of(kind)), on, kind)
    actions = [("update", "insert"), ("update", "ignore"), ("delete", "insert"), ("delete", "ignore"), ("ignore", "insert")]
    matched, missing = draw(st.sampled_from(actions))
    values = draw(st.one_of(st.none(), new_values(kind, "target.", "updates."))) if matched == "update" else None
    stays = partitioned and missing == "ignore" and (matched == "delete" or (values is not None and "p" not in values))
    where = draw(st.sampled_from(["", "p IS NOT NULL", f"p <=> {literal(PARTITIONS[kind][0], kind)}"])) if stays else ""
    columns = on if (matched, missing) == ("delete", "ignore") else tuple(draw(st.permutations(COLUMNS)))
    return Call("merge", rows, on, columns, matched, missing, values, where)


def calls(kind: str, *, partitioned: bool) -> st.SearchStrategy[list[Call]]:
    where = predicates(kind)
    call = st.one_of(
        merges(kind, partitioned=partitioned),
        merges(kind, partitioned=partitioned),
        where.map(lambda found: Call("delete", where=found)),
        st.builds(lambda values, found: Call("update", set=values, where=found), new_values(kind), where),
        st.builds(lambda values, found: Call("update", set=values, where=found), new_values(kind), where),
        rows_of(kind).map(lambda rows: Call("append", rows)),
    )
    return st.lists(call, min_size=3, max_size=MOST_CALLS)


class Tables:
    """A Hive table and a Delta table of the same rows, in one session."""

    def __init__(self, spark: SparkSession, writer: TableWriter) -> None:
        self._spark = spark
        self._writer = writer
        self._number = 0
        self.cases = Counter[str]()

    def make(self, kind: str, *, partitioned: bool) -> None:
        for database in ("ours", "theirs"):
            self._spark.sql(f"DROP TABLE IF EXISTS {database}.t{self._number}")
        self._number += 1
        self._types = types(kind)
        columns = ", ".join(f"{name} {of_type}" for name, of_type in self._types.items())
        clause = "PARTITIONED BY (p)" if partitioned else ""
        for database, using in (("ours", "parquet"), ("theirs", "delta")):
            self._spark.sql(f"CREATE TABLE {database}.t{self._number} ({columns}) USING {using} {clause}")
        self.name = f"t{self._number}"

    def frame(self, rows: Sequence[Row], columns: Sequence[str] = COLUMNS) -> Any:
        shown = rows or [Row(None, None, None, None, None)]
        values = ", ".join(
            "(" + ", ".join(literal(getattr(row, name), self._types[name]) for name in columns) + ")" for row in shown
        )
        frame = self._spark.sql(f"SELECT * FROM VALUES {values} AS given({', '.join(columns)})")
        return frame if rows else frame.where("false")

    def do(self, call: Call) -> None:
        """Do it to both, and compare."""
        self.cases[call.name] += 1
        where = call.where.replace("{t}", self.name)
        updates = self.frame(call.rows, call.columns).repartition(2) if call.name in ("append", "merge") else None
        if updates is not None:
            updates.createOrReplaceTempView("updates")
        table = f"ours.{self.name}"
        match call.name:
            case "append":
                self._writer.append(updates, table)
                self._spark.sql(f"INSERT INTO theirs.{self.name} SELECT * FROM updates")
                counts, wanted = (0, 0, 0), (0, 0, 0)
            case "merge":
                how: Any = {"matched": call.matched, "missing": call.missing, "set": call.set, "where": where}
                counts = numbers(self._writer.merge(updates, table, on=call.on, **how))
                wanted = self._merge(call)
            case "delete":
                counts = numbers(self._writer.delete_where(table, where))
                wanted = (0, 0, self._changed("DELETE FROM {}", where))
            case _:
                counts = numbers(self._writer.update_where(table, call.set or {}, where))
                values = ", ".join(f"{name} = {value}" for name, value in (call.set or {}).items())
                wanted = (0, self._changed(f"UPDATE {{}} SET {values}", where, call.set), 0)
        assert (counts, self._content("ours")) == (wanted, self._content("theirs")), call

    def _merge(self, call: Call) -> tuple[int, ...]:
        values = ", ".join(f"target.{name} = {value}" for name, value in (call.set or {}).items()) or "*"
        condition = " AND ".join(f"target.{name} = updates.{name}" for name in call.on)
        condition += f" AND target.{call.where}" if call.where else ""
        actions = {"update": f"UPDATE SET {values}", "delete": "DELETE"}
        matched = f"WHEN MATCHED THEN {actions[call.matched]}" if call.matched in actions else ""
        missing = "WHEN NOT MATCHED THEN INSERT *" if call.missing == "insert" else ""
        statement = f"MERGE INTO theirs.{self.name} AS target USING updates ON {condition} {matched} {missing}"
        [row] = self._spark.sql(statement).collect()
        return (row["num_inserted_rows"], row["num_updated_rows"], row["num_deleted_rows"])

    def _changed(self, statement: str, where: str, values: Mapping[str, str] | None = None) -> int:
        """Delete or update rows of the Delta table; return how many."""
        table = f"theirs.{self.name}"
        if "SELECT" not in where:
            return int(self._spark.sql(f"{statement.format(table)} WHERE {where}").collect()[0]["num_affected_rows"])
        hits, values = self._spark.sql(f"SELECT * FROM {table} WHERE {where}"), values or {}
        text = {"x": "CAST(x AS STRING)"}  # EXCEPT takes -0.0 for 0.0
        left = mapped(mapped(self._spark.table(table), text).exceptAll(mapped(hits, text)), {"x": "CAST(x AS DOUBLE)"})
        changed = mapped(hits, {name: f"CAST({values.get(name, name)} AS {kind})" for name, kind in self._types.items()})
        count = hits.count()
        (left.unionAll(changed) if values else left).write.insertInto(table, overwrite=True)
        return count

    def _content(self, database: str) -> Counter[str]:
        """Return all rows; text, since NaN is no NaN in Python."""
        self._spark.catalog.refreshTable(f"{database}.{self.name}")
        return Counter(map(repr, map(tuple, self._spark.table(f"{database}.{self.name}").collect())))


def mapped(rows: Any, values: Mapping[str, str]) -> Any:
    return rows.selectExpr(*(f"{values.get(name, name)} AS {name}" for name in COLUMNS))


def numbers(result: RowsResult) -> tuple[int | None, ...]:
    return (result.inserted, result.updated, result.deleted)


@pytest.fixture(scope="module")
def tables() -> Iterator[Tables]:
    delta = CONTENDERS["delta"]
    chosen = {
        "spark.jars": ",".join(map(str, delta.jars())),
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",  # nor code that is compiled: of few rows both take longer
        "spark.sql.codegen.wholeStage": "false",
        "spark.driver.memory": "2g",
        **delta.settings,
    }
    with start_lakehouse(storage="file", spark_conf=chosen) as lake:
        for database in ("ours", "theirs"):
            lake.spark.sql(f"CREATE DATABASE {database} LOCATION '{lake.warehouse}/{database}.db'")
        lake.spark.sql("SELECT * FROM VALUES (1L, 'a'), (2L, NULL), (NULL, ''), (2L, '10') AS listed(id, s)").createOrReplaceTempView("listed")
        made = Tables(lake.spark, TableWriter(lake.spark))
        yield made
        print(f"\n{made.cases.total()} cases: {dict(made.cases)}")


@pytest.mark.parametrize("kind", [*PARTITIONS, "none"])
def test_a_table_is_changed_as_delta_changes_it(kind: str, tables: Tables) -> None:
    partitioned, of_type = kind != "none", "STRING" if kind == "none" else kind

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=PHASES,
    )
    @given(first=rows_of(of_type), later=calls(of_type, partitioned=partitioned))
    def is_the_same(first: tuple[Row, ...], later: list[Call]) -> None:
        tables.make(of_type, partitioned=partitioned)
        for call in [Call("append", first), *later]:
            tables.do(call)

    is_the_same()
