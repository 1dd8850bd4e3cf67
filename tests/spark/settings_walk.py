"""Every call under settings of a session that are turned over: what they change is found by halves.

The settings are those that the running Spark lists itself, so that a new version brings its own. The outcome of a call
is what it returns, and what another session reads afterwards; it is compared with that of a session without any.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from itertools import count
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from table_writer import NewTable, TableWriter
from table_writer.check import allowed_values, expression, fresh, in_range, matches, not_null, references, unique

Settings = Mapping[str, str]
Outcome = tuple[str, ...]

COLUMNS: Final = (
    "id BIGINT, price DECIMAL(10,2), at TIMESTAMP, day DATE, code CHAR(3), Note STRING, ratio DOUBLE,"
    " tags ARRAY<STRING>, info STRUCT<a: INT, b: STRING>, m MAP<STRING, INT>, raw BINARY"
)
NATIVE: Final = f"CREATE TABLE {{}} ({COLUMNS}, dt STRING, hour INT) USING parquet PARTITIONED BY (dt, hour)"
UNPARTITIONED: Final = f"CREATE TABLE {{}} ({COLUMNS}, dt STRING, hour INT) USING parquet"
HIVE: Final = f"CREATE TABLE {{}} ({COLUMNS}) PARTITIONED BY (dt STRING, hour INT) STORED AS {{}}"
SCHEMA: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
        ("code", pa.string()),
        ("Note", pa.string()),
        ("ratio", pa.float64()),
        ("tags", pa.list_(pa.string())),
        ("info", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("m", pa.map_(pa.string(), pa.int32())),
        ("raw", pa.binary()),
        ("dt", pa.string()),
        ("hour", pa.int32()),
    ]
)
SHOWN: Final = (
    *("id", "CAST(price AS STRING)", "unix_micros(at)", "unix_date(day)", "concat('<', code, '>')", "Note"),
    *(
        "CAST(ratio AS STRING)",
        "to_json(tags)",
        "to_json(info)",
        "to_json(m)",
        "hex(raw)",
        "dt",
        "CAST(hour AS STRING)",
    ),
)
FAILED: Final = "failed:"
MICROS: Final = 1_700_000_000_123_456  # since 1970
NUMBERS: Final = count(1)  # of tables


@dataclass
class World:
    """A session whose settings are turned over, and another that looks on."""

    plain: SparkSession
    spark: SparkSession
    database: str
    seen: list[str] = field(default_factory=list)

    @property
    def writer(self) -> TableWriter:
        """A writer of the session whose settings are turned over."""
        return TableWriter(self.spark)

    def rows(self, *numbers: int, dt: str = "d1", hour: int = 7, note: str = "new") -> DataFrame:
        """Make rows that mean the same in each session."""
        return self.spark.createDataFrame(arrow_rows(numbers, dt, hour, note))

    def table(self, ddl: str = NATIVE, *formats: str) -> str:
        """Make a table with three rows in two partitions, by a session without settings."""
        name = f"{self.database}.t{next(NUMBERS)}"
        self.plain.sql(ddl.format(name, *formats))
        old = arrow_rows((1, 2), "d1", 7, "old"), arrow_rows((3,), "d2", 8, "old")
        TableWriter(self.plain).overwrite_table(self.plain.createDataFrame(pa.concat_tables(old)), name)
        return name

    def look(self, table: str, *facts: object) -> None:
        """Note what a call has told, and what another session reads now."""
        self.plain.catalog.refreshTable(table)
        self.note(self.plain.table(table), *facts)

    def note(self, rows: DataFrame, *facts: object) -> None:
        """Note rows, in one order and one spelling."""
        others = [f"to_json(struct({name}))" for name in rows.columns if name not in SCHEMA.names]
        found = rows.selectExpr(*SHOWN, *others).collect()
        self.seen.append(f"{facts} {json.dumps(sorted(map(list, found), key=repr))}")


def arrow_rows(numbers: Sequence[int], dt: str, hour: int, note: str) -> pa.Table:
    """Return rows as Spark takes them from Arrow, whatever a session says."""
    rows = [
        {
            "id": number,
            "price": Decimal(f"{number}.25"),
            "at": MICROS + number,
            "day": date(1890, 1, number),
            "code": "ab",
            "Note": f"{note} {number}",
            "ratio": number / 3,
            "tags": ["x", None],
            "info": {"a": number, "b": "y"},
            "m": [("k", number)],
            "raw": b"\xff\x00",
            "dt": dt,
            "hour": hour,
        }
        for number in numbers
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def write_modes(world: World) -> None:
    table = world.table()
    writer = world.writer
    world.look(table, writer.overwrite_partitions(world.rows(4), table).rows)
    world.look(table, writer.overwrite_partitions(world.rows(5), table, where="dt = 'd1' AND hour = 7").rows)
    world.look(table, writer.append(world.rows(6), table).rows)
    world.look(table, writer.append(world.rows(7), table, carry="in_place").rows)
    world.look(table, len(writer.compact(table, where="dt >= 'd1'", min_files=2).partitions))
    world.look(table, writer.create_partitions(world.rows(8, dt="d3"), table).rows)
    planned = writer.plan(world.rows(8), table).partitions
    world.look(table, [(partition.name, partition.action, partition.rows) for partition in planned])
    world.look(table, writer.overwrite_table(world.rows(9), table).rows)


def unpartitioned(world: World) -> None:
    table = world.table(UNPARTITIONED)
    writer = world.writer
    world.look(table, writer.append(world.rows(4), table).rows)
    world.look(table, counts(writer.merge(world.rows(4, 5, note="merged"), table, on=["id"])))
    world.look(table, counts(writer.delete_where(table, "id = 2")))
    world.look(table, writer.overwrite_table(world.rows(9), table).rows)


def merges(world: World) -> None:
    writer = world.writer
    updates = world.rows(1, 2, 5, note="merged")
    for search_above_bytes in (0, 1 << 30):
        table = world.table()
        options: dict[str, Any] = {"on": ["dt", "hour", "id"], "search_above_bytes": search_above_bytes}
        world.look(table, counts(writer.merge(updates, table, **options, newest_by="at")))
        news = {"Note": "concat(target.Note, updates.Note)", "price": "target.price + CAST(1 AS DECIMAL(1,0))"}
        world.look(table, counts(writer.merge(world.rows(2, 6), table, **options, set=news)))
        world.look(table, counts(writer.merge(updates, table, **options, matched="delete", missing="ignore")))
    world.look(table, counts(writer.merge(world.rows(3, 4), table, on=["code", "id"], where="dt < 'd3'")))


def changes_of_rows(world: World) -> None:
    table = world.table()
    writer = world.writer
    world.look(table, counts(writer.update_where(table, {"Note": "upper(Note)", "hour": "9"}, "id = 1")))
    world.look(table, counts(writer.delete_where(table, "rtrim(code) = 'ab' AND day = DATE'1890-01-03'")))
    world.look(table, counts(writer.rewrite(table, lambda rows: rows.where("id < 3"), where="dt = 'd1'")))
    writer.append(world.rows(1, 2, note="again"), table)
    world.look(table, counts(writer.deduplicate(table, on=["id"], keep=["Note DESC"])))
    plan = writer.plan(None, table, "delete_where", predicate="id = 1")
    world.look(table, plan.deleted)
    ids = world.rows(2).select("id")
    ids.createOrReplaceTempView("ids_to_delete")
    world.look(table, counts(writer.delete_where(table, "id IN (SELECT id FROM ids_to_delete)")))
    world.look(table, counts(writer.delete_where(table, "id = 1", purge=True)))


def statements(world: World) -> None:
    table = world.table()
    writer = world.writer
    world.rows(2, 5, note="merged").createOrReplaceTempView("updates_of_sql")
    on = "t.dt = u.dt AND t.hour = u.hour AND t.id = u.id"
    merge = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    world.look(table, counts(writer.sql(f"MERGE INTO {table} AS t USING updates_of_sql AS u ON {on} {merge}")))
    world.look(table, counts(writer.sql(f"UPDATE {table} SET Note = concat(Note, '!') WHERE id = 1")))
    world.look(table, counts(writer.sql(f"DELETE FROM {table} WHERE id = 2")))
    world.look(table, writer.sql(f"INSERT INTO {table} SELECT * FROM updates_of_sql").rows)
    names = ", ".join(SCHEMA.names[:-2])
    into = f"INSERT OVERWRITE {table} PARTITION (dt = 'd1', hour = 7) SELECT {names} FROM updates_of_sql"
    world.look(table, writer.sql(into).rows)


def older_rows(world: World) -> None:
    table = world.table()
    writer = world.writer
    writer.merge(world.rows(2, 5, note="merged"), table, on=["dt", "hour", "id"])
    writer.append(world.rows(6, dt="d9"), table)
    read = writer.read(table, version=1)
    world.note(read, writer.version_of(read, table))
    world.note(writer.read(table, version=2).where("dt = 'd1' AND hour = 7"))
    world.note(writer.read_changes(table, 1, 3), "whole")
    world.note(writer.read_changes(table, 1, 3, key=["dt", "hour", "id"]), "key")


def checked(world: World) -> None:
    table = world.table()
    writer = world.writer
    world.rows(4, 5).createOrReplaceTempView("known_ids")
    checks = [
        *(not_null("id", "Note"), unique("id"), unique("id", "dt"), in_range("price", min=1, max=9)),
        *(allowed_values("code", ["ab"]), matches("Note", "new [0-9]"), expression("size(tags) = 2")),
        *(expression("count(*) = 2"), references("id", "known_ids"), fresh("at", within=timedelta(days=36_500))),
        *(in_range("day", min=date(1800, 1, 1)), expression("info.a = id"), allowed_values("hour", [7])),
    ]
    world.look(table, [(one.name, one.passed) for one in writer.append(world.rows(4, 5), table, checks=checks).checks])
    with writer.stage(world.rows(4, 5, dt="d5"), table, where="dt = 'd5'") as staged:
        world.note(staged.dataframe(), [(one.name, one.passed) for one in staged.check(*checks)])
        world.look(table, staged.publish().rows)
    with writer.stage(None, table, "delete_where", predicate="id = 4") as staged:
        world.look(table, staged.publish().rows)
    failing = [
        unique("hour", severity="warn"),
        in_range("id", max=6, severity="warn"),
        references("id", "known_ids", severity="warn"),
    ]
    found = writer.append(world.rows(7, 8), table, checks=failing).checks
    world.look(table, [(one.name, one.failed_rows, len(one.examples)) for one in found])


def spark_written(world: World) -> None:
    writer = world.writer
    for format_ in ("ORC", "TEXTFILE"):
        table = world.table(HIVE, format_)
        world.look(table, writer.append(world.rows(4), table).rows)
        world.look(table, counts(writer.merge(world.rows(2, 5, note="merged"), table, on=["dt", "hour", "id"])))
        world.look(table, len(writer.compact(table, min_files=2).partitions))
        world.note(writer.read(table, version=1))
    table = world.table()
    world.look(table, writer.append(world.rows(4), table, engine="spark").rows)
    world.look(table, counts(writer.update_where(table, {"Note": "upper(Note)"}, "id = 4", engine="spark")))


def plain_files(world: World) -> None:
    """Files of plain types are read by tasks of this library's own."""
    table = f"{world.database}.plain{next(NUMBERS)}"
    world.plain.sql(
        f"CREATE TABLE {table} (id BIGINT, at TIMESTAMP, Note STRING, dt STRING) USING parquet PARTITIONED BY (dt)"
    )
    writer = world.writer

    def rows(*numbers: int, note: str = "new") -> DataFrame:
        return world.rows(*numbers, note=note).select("id", "at", "Note", "dt")

    def look(*facts: object) -> None:
        world.plain.catalog.refreshTable(table)
        found = world.plain.table(table).selectExpr("id", "unix_micros(at)", "Note", "dt").collect()
        world.seen.append(f"{facts} {sorted(map(tuple, found))}")

    look(writer.append(rows(1, 2), table).rows)
    look(counts(writer.merge(rows(2, 3, note="merged"), table, on=["dt", "id"])))
    look(counts(writer.delete_where(table, "id = 1")))
    look(counts(writer.update_where(table, {"Note": "lower(Note)"}, "id = 2")))


def new_columns(world: World) -> None:
    table = world.table()
    writer = world.writer
    more = world.rows(4).selectExpr("*", "id AS added", "at AS seen", "struct(at) AS inside")
    world.look(table, writer.append(more, table, schema="evolve").rows)
    world.seen.append(world.plain.table(table).schema.simpleString())
    new = f"{world.database}.made{next(NUMBERS)}"
    writer.append(world.rows(4), new, if_missing=NewTable(partition_by=["dt"]))
    world.look(new, world.plain.table(new).schema.simpleString())
    other = f"{world.database}.made{next(NUMBERS)}"
    writer.create_table(more, other, partition_by=["hour"])
    world.seen.append(world.plain.table(other).schema.simpleString())


def batches(world: World) -> None:
    table = world.table()
    writer = world.writer
    write_batch = writer.for_each_batch(table, "append", "appended")
    merge_batch = writer.for_each_batch(table, "merge", "merged", on=["dt", "hour", "id"])
    for number in (0, 0, 1):
        write_batch(world.rows(4 + number), number)
        merge_batch(world.rows(4 + number, note=f"batch {number}"), number)
        world.look(table)


def odd_partitions(world: World) -> None:
    ddl = "CREATE TABLE {} (id BIGINT, at TIMESTAMP, day DATE, code CHAR(3), price DECIMAL(10,2)) USING parquet"
    table = f"{world.database}.odd{next(NUMBERS)}"
    world.plain.sql(f"{ddl.format(table)} PARTITIONED BY (at, day, code, price)")

    def look(*facts: object) -> None:
        world.spark.catalog.refreshTable(table)  # names of partitions say what the clocks of this session show
        shown = ("id", "unix_micros(at)", "unix_date(day)", "rtrim(code)", "CAST(price AS STRING)")
        world.seen.append(f"{facts} {sorted(map(tuple, world.spark.table(table).selectExpr(*shown).collect()))}")

    def rows(*numbers: int) -> DataFrame:
        return world.rows(*numbers).select("id", "at", "day", "code", "price")

    writer = world.writer
    look(writer.append(rows(1, 2), table).rows)
    look(counts(writer.merge(rows(2, 3), table, on=["at", "day", "code", "price", "id"])))
    look(writer.overwrite_partitions(rows(1), table, where="day = DATE'1890-01-01' AND rtrim(code) = 'ab'").rows)
    look(counts(writer.delete_where(table, "rtrim(code) = 'ab' AND price = 2.25")))


CALLS: Final[Mapping[str, Callable[[World], None]]] = {
    call.__name__: call
    for call in (
        *(write_modes, unpartitioned, merges, changes_of_rows, statements, older_rows, checked, spark_written),
        *(new_columns, batches, odd_partitions, plain_files),
    )
}


def counts(result: Any) -> tuple[int, ...]:
    """Return how many rows a call says that it has changed."""
    return result.inserted, result.updated, result.deleted


def outcome_of(call: str, plain: SparkSession, database: str, settings: Settings) -> Outcome:
    """Run the calls of one name in a new session with some settings; an error ends them."""
    spark = plain.newSession()
    world = World(plain, spark, database)
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        CALLS[call](world)
    except Exception as error:  # noqa: BLE001 - it is the outcome
        return (*world.seen, f"{FAILED} {type(error).__name__}: {str(error)[:600]}")
    return tuple(world.seen)


def guilty(settings: Settings, is_innocent: Callable[[Settings], bool]) -> Iterator[dict[str, str]]:
    """Yield the settings that change an outcome, one after another, by halves; those that do it only together as one.

    Examples
    --------
    >>> list(guilty(dict.fromkeys("abcdefg", "on"), lambda part: not {"b", "f"} & part.keys()))
    [{'b': 'on'}, {'f': 'on'}]
    >>> list(guilty(dict.fromkeys("abcdefg", "on"), lambda part: not {"b", "f"} <= part.keys()))
    [{'b': 'on', 'f': 'on'}]
    """
    rest = dict(settings)
    while rest and not is_innocent(rest):
        found = _smallest(rest, is_innocent, {})
        yield found
        rest = {name: value for name, value in rest.items() if name not in found}


def _smallest(part: dict[str, str], is_innocent: Callable[[Settings], bool], beside: Settings) -> dict[str, str]:
    """Return as few settings of a guilty part as are guilty beside others."""
    if len(part) == 1:
        return part
    names = list(part)
    first, second = ({name: part[name] for name in half} for half in (names[: len(part) // 2], names[len(part) // 2 :]))
    for half in (first, second):
        if not is_innocent({**beside, **half}):
            return _smallest(half, is_innocent, beside)
    of_second = _smallest(second, is_innocent, {**beside, **first})
    return _smallest(first, is_innocent, {**beside, **of_second}) | of_second


def booleans(spark: SparkSession) -> dict[str, str]:
    """Return each boolean of the running Spark that a session may set, those that it does not document too, turned."""
    java: Any = spark.sparkContext._jvm
    conf = getattr(getattr(java.org.apache.spark.sql.internal, "SQLConf$"), "MODULE$")
    entries = conf.getConfigEntries().iterator()
    found = {}
    while entries.hasNext():
        entry = entries.next()
        default, name = str(entry.defaultValueString()), str(entry.key())
        if default in {"true", "false"} and not conf.isStaticConfigKey(name):
            found[name] = "false" if spark.conf.get(name) == "true" else "true"
    return dict(sorted(found.items()))
