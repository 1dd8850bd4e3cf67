"""Changes of generated rows do to a Hive table what Delta's MERGE, DELETE and UPDATE do to the same rows.

Each call is a case: the rows of both tables are compared, and the numbers of rows that were inserted, updated and
deleted. Left out is what a merge refuses, updates that name a key twice or with a null, rows to insert outside of
``where``, and values that a column would not hold; and values of partitions that differ in trailing blanks alone, which
Derby takes for one. Delta refuses subqueries in DELETE and UPDATE: there a query of Spark's finds the rows.

Run: ``make test-delta``; ``DELTA_EXAMPLES=100`` makes more tables of each type.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from benchmarks.contenders import CONTENDERS
from table_writer import RowsResult, TableWriter
from table_writer.jobs.rows.merge import Merge
from table_writer.testing import lakehouse as start_lakehouse

pytestmark = pytest.mark.needs("delta")

EXAMPLES: Final = int(os.environ.get("DELTA_EXAMPLES", "30"))  # tables of each type
MOST_CALLS: Final = 10  # of one table
PHASES: Final = (Phase.generate, Phase.shrink)
COLUMNS: Final = ("id", "n", "s", "x", "p")
TEXTS: Final = (
    "",
    "a",
    "A",
    "a/b",
    "k=v%20",
    "ü😀",
    " a",
    "b ",
    "'\"`",
    "\\",
    "a\tb\n",
    "10",
    "null",
    "{p}",
    "2024-02-29",
)
LISTED: Final = "SELECT * FROM VALUES (1L, 'a'), (2L, NULL), (NULL, ''), (2L, '10') AS listed(id, s)"
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
CONDITIONS: Final = """s LIKE '%a%'; s LIKE '_'; s NOT LIKE '%!%%' ESCAPE '!'; s RLIKE '^[a-z/]+$'; id = n;
TRY_CAST(s AS INT) > 1; TRY_CAST(s AS DATE) > DATE '2024-01-01'; CAST(n AS STRING) = s; n BETWEEN 0 AND id; n % 2 = 0;
length(s) > id; coalesce(n, 0) = 0; CASE WHEN n > 0 THEN x > 1 WHEN n < 0 THEN s IS NULL END; CAST(NULL AS BOOLEAN);
true; id IN (SELECT id FROM listed); id NOT IN (SELECT id FROM listed); n > (SELECT min(id) FROM listed);
s NOT IN (SELECT s FROM listed WHERE s IS NOT NULL);
EXISTS (SELECT 1 FROM listed WHERE listed.id = {t}.id AND listed.s <=> {t}.s)"""
SCHEMA: Final = {"id": "BIGINT", "n": "INT", "s": "STRING", "x": "DOUBLE"}  # and p


class Row(NamedTuple):
    id: int | None
    n: int | None
    s: str | None
    x: float | None
    p: Any


class Call(NamedTuple):
    name: str  # append, merge, statement (which is a merge in SQL), delete or update
    rows: tuple[Row, ...] = ()
    on: tuple[str, ...] = ()
    columns: tuple[str, ...] = COLUMNS  # of the updates, in their order
    matched: Any = "update"
    missing: Any = "insert"
    set: Mapping[str, str] | None = None
    where: str = ""  # {t} is the table's name
    limit: int = 0  # of partitions that a merge rewrites whole
    clauses: str = ""  # of a statement


def literal(value: Any, kind: str) -> str:
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"CAST(NULL AS {kind})" if value is None else f"CAST('{text}' AS {kind})"


def rows_of(kind: str) -> st.SearchStrategy[tuple[Row, ...]]:
    row = st.builds(Row, *VALUES.values(), st.sampled_from(PARTITIONS[kind]))
    return st.lists(row, min_size=1, max_size=12).map(tuple)


def predicates(kind: str) -> st.SearchStrategy[str]:
    """Conditions with all three answers; each column is compared with values that there are."""

    def compared(name: str) -> st.SearchStrategy[str]:
        values = VALUES.get(name, st.sampled_from(PARTITIONS[kind]))
        literals = values.map(lambda value: literal(value, SCHEMA.get(name, kind)))
        listed = st.lists(literals, min_size=1, max_size=3).map(lambda found: f"({', '.join(found)})")
        one = st.tuples(st.just(name), st.sampled_from(["=", "<>", "<=>", "<", ">="]), literals)
        some = st.tuples(st.just(name), st.sampled_from(["IN", "NOT IN"]), listed)
        others = [f"{name} IS NULL", f"{name} IS NOT NULL", f"CAST({name} AS STRING) LIKE '%1%'"]
        return st.one_of(one.map(" ".join), some.map(" ".join), st.sampled_from(others))

    return st.recursive(
        st.one_of(*map(compared, COLUMNS), st.sampled_from(CONDITIONS.replace(";\n", "; ").split("; "))),
        lambda inner: st.one_of(
            inner.map("NOT ({})".format), st.builds("({}) {} ({})".format, inner, st.sampled_from(["AND", "OR"]), inner)
        ),
        max_leaves=3,
    )


def new_values(kind: str, side: str = "", other: str = "") -> st.SearchStrategy[dict[str, str]]:
    """Values for some columns, over those of one side or of two."""
    choices = {
        "id": [f"{side}id + 1", f"{other}id", "7"],
        "n": [f"{side}n + {other}n", "NULL", f"coalesce({side}n, 0)", "-1"],
        "s": [f"concat({side}s, '!')", f"{other}s", f"CAST({side}p AS STRING)", "''", f"{side}s || {other}n"],
        "x": [f"{side}x * 2", f"{other}x", f"CAST({side}n AS DOUBLE)"],
        "p": [f"{other}p", *[f"{side}s"][: kind == "STRING"], *(literal(value, kind) for value in PARTITIONS[kind])],
    }
    chosen = st.dictionaries(st.sampled_from(COLUMNS), st.integers(0, 99), min_size=1, max_size=3)
    return chosen.map(lambda found: {name: choices[name][at % len(choices[name])] for name, at in found.items()})


def usable(rows: Sequence[Row], on: Sequence[str]) -> tuple[Row, ...]:
    """Return rows of which each key is there once and has no null: an empty text of a partition is one."""
    no_text = [row._replace(p=row.p if row.p != "" else None) for row in rows]
    keys = [tuple(repr(getattr(row, name)).replace("-0.0", "0.0") for name in on) for row in no_text]
    return tuple(row for key, row in dict(zip(keys, rows, strict=True)).items() if "None" not in key)


@st.composite
def merges(draw: Any, kind: str, partitioned: bool) -> Call:
    on = tuple(draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=3, unique=True)))
    actions = [(matched, missing) for matched in ("update", "delete", "ignore") for missing in ("insert", "ignore")]
    matched, missing = draw(st.sampled_from(actions[:-1]))
    values = draw(st.one_of(st.none(), new_values(kind, "target.", "updates."))) if matched == "update" else None
    stays = partitioned and missing == "ignore" and (matched == "delete" or (values is not None and "p" not in values))
    where = draw(st.sampled_from(["", "p IS NOT NULL", f"p <=> {literal(PARTITIONS[kind][0], kind)}"])) if stays else ""
    columns = on if (matched, missing) == ("delete", "ignore") else tuple(draw(st.permutations(COLUMNS)))
    limit = draw(st.sampled_from([0, 1 << 20]))
    return Call("merge", usable(draw(rows_of(kind)), on), on, columns, matched, missing, values, where, limit)


@st.composite
def statements(draw: Any, kind: str) -> Call:
    """A MERGE INTO with clauses of all kinds, each with a condition or without one."""
    on = tuple(draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=2, unique=True)))

    def condition(*sides: str) -> str:
        side, name = draw(st.sampled_from(sides)), draw(st.sampled_from(COLUMNS))
        values = VALUES.get(name, st.sampled_from(PARTITIONS[kind]))
        operator, value = draw(st.sampled_from(["=", "<>", "<=>", ">="])), literal(draw(values), SCHEMA.get(name, kind))
        of_value = f"{side}{name} {operator} {value}"
        both = [f"{one}n > {other}id" for one in sides for other in sides if one != other]
        return draw(st.sampled_from([of_value, f"{side}n IS NULL", f"{side}id % 2 = 0", *both]))

    def clauses(when: str, actions: Sequence[Callable[[], str]], *sides: str, always: bool = False) -> list[str]:
        wanted = [f"{when} AND {condition(*sides)}" for _ in range(draw(st.integers(0, 2)))]
        wanted += [when] if not always and draw(st.booleans()) else []
        return [f"{one} THEN {draw(st.sampled_from(actions))()}" for one in wanted]

    def updated(side: str = "target.", other: str = "updates.") -> str:
        values = draw(new_values(kind, side, other))
        return f"UPDATE SET {', '.join(f'{name} = {value}' for name, value in values.items())}"

    def inserted() -> str:
        values = draw(new_values(kind, "updates.", "updates.")) | {"p": "updates.p"}
        return f"INSERT ({', '.join(values)}) VALUES ({', '.join(values.values())})"

    of_target = [lambda: "DELETE", partial(updated, "target.", "target.")]
    all_clauses = [
        *clauses("WHEN MATCHED", [lambda: "DELETE", lambda: "UPDATE SET *", updated], "target.", "updates."),
        *clauses("WHEN NOT MATCHED", [lambda: "INSERT *", inserted], "updates."),
        *clauses("WHEN NOT MATCHED BY SOURCE", of_target, "target.", always=True),
    ]
    limit = draw(st.sampled_from([0, 1 << 20]))
    rows = usable(draw(rows_of(kind)), on)
    return Call("statement", rows, on, clauses=" ".join(all_clauses or ["WHEN NOT MATCHED THEN INSERT *"]), limit=limit)


def calls(kind: str, partitioned: bool) -> st.SearchStrategy[list[Call]]:
    where, merge = predicates(kind), merges(kind, partitioned)
    update = st.builds(lambda values, found: Call("update", set=values, where=found), new_values(kind), where)
    delete = where.map(lambda found: Call("delete", where=found))
    call = st.one_of(
        merge,
        statements(kind),
        merge,
        statements(kind),
        update,
        update,
        delete,
        rows_of(kind).map(lambda rows: Call("append", rows)),
    )
    return st.lists(call, min_size=3, max_size=MOST_CALLS)


class Tables:
    """A Hive table and a Delta table of the same rows, in one session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._writer = spark, TableWriter(spark)
        self._number = 0
        self.cases = Counter[str]()

    def make(self, kind: str, partitioned: bool) -> None:
        for database in ("ours", "theirs"):
            self._spark.sql(f"DROP TABLE IF EXISTS {database}.t{self._number}")
        self._number += 1
        self.name, self._types = f"t{self._number}", {**SCHEMA, "p": kind}
        columns = ", ".join(" ".join(column) for column in self._types.items())
        clause = "PARTITIONED BY (p)" if partitioned else ""
        for database, using in (("ours", "parquet"), ("theirs", "delta")):
            self._spark.sql(f"CREATE TABLE {database}.{self.name} ({columns}) USING {using} {clause}")

    def frame(self, rows: Sequence[Row], columns: Sequence[str]) -> DataFrame:
        texts = [[literal(getattr(row, name), self._types[name]) for name in columns] for row in rows]
        values = ", ".join(f"({', '.join(text)})" for text in texts or [["NULL"] * len(columns)])
        typed = ", ".join(f"CAST({name} AS {self._types[name]}) AS {name}" for name in columns)
        frame = self._spark.sql(f"SELECT {typed} FROM VALUES {values} AS given({', '.join(columns)})")
        return frame.repartition(2) if rows else frame.where("false")

    def do(self, call: Call) -> None:
        """Do it to both, and compare."""
        self.cases[call.name] += 1
        table, where = f"ours.{self.name}", call.where.replace("{t}", self.name)
        updates = self.frame(call.rows, call.columns)
        updates.createOrReplaceTempView("updates")
        match call.name:
            case "append":
                self._writer.append(updates, table)
                self._spark.sql(f"INSERT INTO theirs.{self.name} SELECT * FROM updates")
                counts = wanted = (0, 0, 0)
            case "merge":
                options: Any = {"matched": call.matched, "missing": call.missing, "set": call.set, "where": where}
                options["search_above_bytes"] = call.limit
                counts, wanted = numbers(self._writer.merge(updates, table, on=call.on, **options)), self._merge(call)
            case "statement":
                how = f"AS target USING updates ON {same_key(call.on)} {call.clauses}"  # values have braces
                with patch("table_writer.jobs.rows.statement.Merge", partial(Merge, search_above_bytes=call.limit)):
                    counts = numbers(self._writer.sql(f"MERGE INTO {table} {how}"))
                wanted = self._merged(f"MERGE INTO theirs.{self.name} {how}")
            case "delete":
                counts = numbers(self._writer.delete_where(table, where))
                wanted = (0, 0, self._changed("DELETE FROM {t}", where, {}))
            case _:
                values = dict(call.set or {})
                counts = numbers(self._writer.update_where(table, values, where))
                setting = ", ".join(f"{name} = {value}" for name, value in values.items())
                wanted = (0, self._changed(f"UPDATE {{t}} SET {setting}", where, values), 0)
        assert (counts, self._content("ours")) == (wanted, self._content("theirs")), call

    def _merge(self, call: Call) -> tuple[int, ...]:
        values = ", ".join(f"target.{name} = {value}" for name, value in (call.set or {}).items()) or "*"
        condition = same_key(call.on)
        condition += f" AND target.{call.where}" if call.where else ""
        action = {"update": f"WHEN MATCHED THEN UPDATE SET {values}", "delete": "WHEN MATCHED THEN DELETE"}
        statement = (
            f"MERGE INTO theirs.{self.name} AS target USING updates ON {condition} {action.get(call.matched, '')}"
        )
        insert = "WHEN NOT MATCHED THEN INSERT *" if call.missing == "insert" else ""
        return self._merged(f"{statement} {insert}")

    def _merged(self, statement: str) -> tuple[int, ...]:
        [row] = self._spark.sql(statement).collect()
        return (row["num_inserted_rows"], row["num_updated_rows"], row["num_deleted_rows"])

    def _changed(self, statement: str, where: str, values: Mapping[str, str]) -> int:
        """Delete or update rows of the Delta table; return how many."""
        table = f"theirs.{self.name}"
        if "SELECT" not in where:
            named = statement.replace("{t}", table)  # values have braces too
            return int(self._spark.sql(f"{named} WHERE {where}").collect()[0]["num_affected_rows"])
        hits = self._spark.sql(f"SELECT * FROM {table} WHERE {where}")
        text = {"x": "CAST(x AS STRING)"}  # EXCEPT takes -0.0 for 0.0
        left = mapped(mapped(self._spark.table(table), text).exceptAll(mapped(hits, text)), {"x": "CAST(x AS DOUBLE)"})
        new = {name: f"CAST({values.get(name, name)} AS {kind})" for name, kind in self._types.items()}
        count = hits.count()
        (left.unionAll(mapped(hits, new)) if values else left).write.insertInto(table, overwrite=True)
        return count

    def _content(self, database: str) -> Counter[str]:
        """Return all rows, as text: in Python NaN is not NaN."""
        self._spark.catalog.refreshTable(f"{database}.{self.name}")
        return Counter(map(repr, map(tuple, self._spark.table(f"{database}.{self.name}").collect())))


def same_key(on: Sequence[str]) -> str:
    return " AND ".join(f"target.{name} = updates.{name}" for name in on)


def mapped(rows: DataFrame, values: Mapping[str, str]) -> DataFrame:
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
        lake.spark.sql(LISTED).createOrReplaceTempView("listed")
        made = Tables(lake.spark)
        yield made
        print(f"\n{made.cases.total()} cases: {dict(made.cases)}")


@pytest.mark.parametrize("kind", [*PARTITIONS, "none"])
def test_a_table_is_changed_as_delta_changes_it(kind: str, tables: Tables) -> None:
    partitioned, of_type = kind != "none", "STRING" if kind == "none" else kind

    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck), phases=PHASES
    )
    @given(first=rows_of(of_type), later=calls(of_type, partitioned))
    def is_the_same(first: tuple[Row, ...], later: list[Call]) -> None:
        tables.make(of_type, partitioned)
        for call in [Call("append", first), *later]:
            tables.do(call)

    is_the_same()
