"""Rows that Comet hands to Python in its own batches are the rows that Spark alone would write."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from table_writer import Maintenance, NewTable, PartitionExistsError, SchemaMismatchError, TableWriter
from table_writer.check import in_range, not_null, unique
from table_writer.errors import CheckFailedError
from table_writer.jobs.upload import job
from table_writer.spark import open_gateway
from table_writer.spark.comet import weighed_by_spark
from tests.upload.rows_of_all_types import COLUMNS, LOCAL_TIMESTAMPS, TIMESTAMPS
from tests.upload.rows_of_all_types import table as table_of

pytestmark = pytest.mark.needs("comet")

Rows = Callable[..., DataFrame]
Seen = Callable[..., list[str]]
MIB: Final = 1024 * 1024
ORDERS: Final = "id BIGINT, note STRING, amount DECIMAL(10,2), at TIMESTAMP, dt STRING"
BY_DAY: Final = f"CREATE TABLE {{name}} ({ORDERS}) USING parquet PARTITIONED BY (dt)"


def orders(spark: SparkSession, first: int = 0, count: int = 1_000, days: int = 5) -> DataFrame:
    return spark.range(first, first + count, 1, 4).selectExpr(
        "id",
        "IF(id % 7 = 0, NULL, concat('order ', hex(id % 50))) AS note",
        "CAST(id / 3 AS DECIMAL(10,2)) AS amount",
        "timestamp_micros(id * 3333333333) AS at",
        f"concat('d', id % {days}) AS dt",
    )


def sizes(batches: Iterator[Any]) -> Iterator[Any]:
    found = [(batch.num_rows, batch.nbytes) for batch in batches]
    yield pa.RecordBatch.from_pydict({"rows": [rows for rows, _ in found], "bytes": [size for _, size in found]})


def plan_of(rows: DataFrame) -> str:
    text = rows.mapInArrow(sizes, "rows long, bytes long")._jdf.queryExecution().executedPlan().toString()
    return re.sub(r"#\d+L?", "", text)


def test_comet_is_there_and_hands_over(spark: SparkSession, from_files: Rows) -> None:
    plan = plan_of(from_files(orders(spark)))
    assert plan.startswith("CometMapInBatch")
    assert "CometNativeScan" in plan
    assert "ToRow" not in plan


def test_a_write_of_a_table_by_days_hands_over_from_its_second_time_on(
    spark: SparkSession,
    writer: TableWriter,
    make_table: Callable[..., str],
    from_files: Rows,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plans: list[str] = []
    original = job._messages

    def noted(gateway: Any, rows: DataFrame, spec: Any) -> Any:
        plans.append(plan_of(rows))
        return original(gateway, rows, spec)

    monkeypatch.setattr(job, "_messages", noted)
    tables = {"dt": BY_DAY, "at": BY_DAY.replace("(dt)", "(at)"), "id": BY_DAY.replace("(dt)", "(id)")}
    for name, ddl in tables.items():
        table = make_table(ddl, f"by_{name}")
        rows = from_files(orders(spark, count=40)).select(*[c for c in orders(spark).columns if c != name], name)
        for _ in range(2):
            writer.overwrite_partitions(rows, table, engine="arrow")
        assert "CometColumnarToRow" in plans[-2], name  # nobody knew how wide rows are
        assert plans[-1].startswith("CometMapInBatch"), name


@pytest.mark.parametrize("engine", ["auto", "arrow", "spark"])
def test_text_that_is_no_utf8_is_refused_as_a_partition(
    engine: Any, spark: SparkSession, writer: TableWriter, make_table: Callable[..., str], from_files: Rows, seen: Seen
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, dt STRING) USING parquet PARTITIONED BY (dt)")
    writer.append(from_files(spark.sql("SELECT 1L AS id, 'd1' AS dt")), table)
    bad = spark.sql("SELECT 2L AS id, CAST(X'C3' AS STRING) AS dt")
    with pytest.raises(Exception, match="non UTF-8 data"):  # Comet itself reads no such text from a file
        writer.append(from_files(bad), table, engine=engine)
    with pytest.raises(SchemaMismatchError, match=r"column dt is a partition.s text.*no UTF-8.*0xC3"):
        writer.append(bad, table, engine=engine)
    assert seen(table) == ["Row(id=1, dt='d1')"]


@pytest.mark.parametrize(
    ("zone", "int96"), [("America/New_York", True), ("UTC", False)], ids=["New York, INT96", "UTC, micros"]
)
def test_values_of_all_types_are_what_spark_reads(
    zone: str,
    int96: bool,
    spark: SparkSession,
    writer: TableWriter,
    make_table: Callable[..., str],
    from_files: Rows,
    seen: Seen,
    in_zone: Callable[[str], None],
) -> None:
    in_zone(zone)
    kind = "spark.sql.parquet.outputTimestampType"
    for name, columns in {"plain": COLUMNS, "times": {**TIMESTAMPS, **LOCAL_TIMESTAMPS}}.items():
        spark.conf.set(kind, "INT96" if int96 else "TIMESTAMP_MICROS")
        source = from_files(table_of(spark, columns))
        spark.conf.unset(kind)
        types = ", ".join(f"`{column}` {of}" for column, (of, _) in columns.items())
        table = make_table(f"CREATE TABLE {{name}} (`row` INT, {types}) USING parquet", name)
        for _ in range(2):  # the second one knows how wide rows are
            writer.overwrite_table(source, table, engine="arrow")
            assert seen(table) == seen(source)
        for column in columns:  # each by itself: all it takes for Comet to hand nothing over is one that it cannot
            alone = make_table(
                f"CREATE TABLE {{name}} (`row` INT, `{column}` {columns[column][0]}) USING parquet", column
            )
            rows = source.select("row", column)
            for _ in range(2):
                writer.overwrite_table(rows, alone, engine="arrow")
                assert seen(alone) == seen(rows), column


def test_char_and_varchar_are_padded_and_measured_as_spark_does(
    spark: SparkSession, writer: TableWriter, make_table: Callable[..., str], from_files: Rows, seen: Seen
) -> None:
    table = make_table(
        "CREATE TABLE {name} (id INT, c CHAR(5), v VARCHAR(3), dt CHAR(4)) USING parquet PARTITIONED BY (dt)"
    )
    source = from_files(
        spark.sql("SELECT 1 AS id, 'ab' AS c, 'abc' AS v, 'd1' AS dt UNION ALL SELECT 2, NULL, 'ü', 'd2'")
    )
    for _ in range(2):
        writer.overwrite_partitions(source, table, engine="arrow")
    assert seen(spark.table(table).selectExpr("id", "concat(c, '|') AS c", "v", "concat(dt, '|') AS dt")) == [
        "Row(id=1, c='ab   |', v='abc', dt='d1  |')",
        "Row(id=2, c=None, v='ü', dt='d2  |')",
    ]
    with pytest.raises(SchemaMismatchError, match=r"column c is char\(5\), and 1 of 1 rows are longer"):
        writer.append(
            from_files(spark.sql("SELECT 3 AS id, 'toolong' AS c, 'x' AS v, 'd1' AS dt")), table, engine="arrow"
        )


@pytest.mark.parametrize(
    "value",
    ["TIMESTAMP '2024-11-03 01:30:00.5'", "DATE '1582-10-04'", "CAST(1.50 AS DECIMAL(5,2))", "CAST('nan' AS DOUBLE)"],
)
def test_partitions_are_named_as_spark_names_them(
    value: str,
    spark: SparkSession,
    writer: TableWriter,
    make_table: Callable[..., str],
    from_files: Rows,
    in_zone: Callable[[str], None],
) -> None:
    in_zone("America/New_York")
    source = from_files(spark.sql(f"SELECT 1 AS id, {value} AS p UNION ALL SELECT 2, NULL"))
    kind = source.schema["p"].dataType.simpleString()
    ours, sparks = (
        make_table(f"CREATE TABLE {{name}} (id INT, p {kind}) USING parquet PARTITIONED BY (p)", name)
        for name in ("ours", "sparks")
    )
    for _ in range(2):
        writer.overwrite_partitions(source, ours, engine="arrow")
    source.write.insertInto(sparks, overwrite=True)
    named = [[row.partition for row in spark.sql(f"SHOW PARTITIONS {one}").collect()] for one in (ours, sparks)]
    assert named[0] == named[1]


SOURCES: Final[dict[str, Callable[[DataFrame], DataFrame]]] = {
    "a filter": lambda rows: rows.where("id % 3 = 0 AND note IS NOT NULL"),
    "expressions": lambda rows: rows.withColumn("note", F.upper(F.concat_ws("-", "note", "dt"))).withColumn(
        "amount", (F.col("amount") * 2 + 1).cast("decimal(10,2)")
    ),
    "an aggregate": lambda rows: rows.groupBy("dt").agg(
        F.max("id").alias("id"),
        F.min("note").alias("note"),
        F.sum("amount").cast("decimal(10,2)").alias("amount"),
        F.max("at").alias("at"),
    ),
    "a join": lambda rows: rows.join(rows.groupBy("dt").agg(F.max("id").alias("last")), "dt").where("id > last - 20"),
    "an outer join": lambda rows: rows.select("id", "dt").join(rows.where("id < 500").drop("dt"), "id", "left"),
    "a window": lambda rows: rows.withColumn(
        "id", F.row_number().over(Window.partitionBy("dt").orderBy("id")).cast("bigint")
    ),
    "a shuffle": lambda rows: rows.repartition(3, "dt"),
    "sorted rows": lambda rows: rows.orderBy(F.col("note").desc_nulls_first(), "id"),
    "a union": lambda rows: rows.where("id < 300").unionByName(rows.where("id >= 700")),
    "distinct rows": lambda rows: rows.unionByName(rows).distinct(),
    "cached rows": lambda rows: rows.cache(),
    "a limit": lambda rows: rows.orderBy("id").limit(77),
    "exploded rows": lambda rows: rows.withColumn("note", F.explode(F.split(F.coalesce("note", F.lit("-")), " "))),
    "a function of the user's": lambda rows: rows.withColumn("note", F.udf(lambda text: f"<{text}>")("note")),
    "what pandas makes": lambda rows: rows.mapInPandas(lambda found: found, rows.schema),
    "a batch in Arrow": lambda rows: rows.mapInArrow(lambda found: found, rows.schema),
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("engine", ["auto", "arrow"])
def test_whatever_makes_the_rows(
    engine: str,
    name: str,
    spark: SparkSession,
    writer: TableWriter,
    make_table: Callable[..., str],
    from_files: Rows,
    seen: Seen,
) -> None:
    table = make_table(BY_DAY)
    source = SOURCES[name](from_files(orders(spark))).select(*orders(spark).columns)
    for _ in range(2):
        writer.overwrite_partitions(source, table, engine=engine)
    assert seen(table) == seen(source)
    source.unpersist()


Call = Callable[[TableWriter, DataFrame, str], object]
CALLS: Final[dict[str, Call]] = {
    "overwrite_partitions": lambda writer, rows, table: writer.overwrite_partitions(rows.where("dt <> 'd1'"), table),
    "overwrite_table": lambda writer, rows, table: writer.overwrite_table(rows, table),
    "overwrite where": lambda writer, rows, table: writer.overwrite_partitions(
        rows.where("dt = 'd1'"), table, where="dt IN ('d1', 'd2')"
    ),
    "append": lambda writer, rows, table: writer.append(rows, table),
    "append in place": lambda writer, rows, table: writer.append(rows, table, carry="in_place"),
    "append of new columns": lambda writer, rows, table: writer.append(
        rows.withColumn("more", F.struct("id", "at")), table, schema="evolve"
    ),
    "create_partitions": lambda writer, rows, table: writer.create_partitions(
        rows.withColumn("dt", F.concat(F.lit("new"), "dt")), table
    ),
    "stage": lambda writer, rows, table: writer.stage(rows, table, "overwrite_partitions").publish(),
    "merge": lambda writer, rows, table: writer.merge(rows, table, on=["id", "dt"]),
    "merge by time": lambda writer, rows, table: writer.merge(rows, table, on=["at", "dt"]),
    "delete_where": lambda writer, rows, table: writer.delete_where(table, "id % 10 = 3 OR note IS NULL"),
    "update_where": lambda writer, rows, table: writer.update_where(
        table, {"note": "concat('was ', note)", "amount": "amount + 1"}, "id % 10 = 3"
    ),
    "sql": lambda writer, rows, table: writer.sql(f"DELETE FROM {table} WHERE id < 250"),
    "compact": lambda writer, rows, table: (
        writer.append(rows, table, carry="in_place"),
        writer.compact(table, min_files=2),
    ),
    "read of the past": lambda writer, rows, table: writer.overwrite_partitions(writer.read(table, version=1), table),
    "hash and sorted": lambda writer, rows, table: writer.overwrite_partitions(
        rows, table, distribution="hash", sort_by=["note desc", "id"]
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_each_call_writes_what_it_writes_without_comet(
    name: str, spark: SparkSession, writer: TableWriter, make_table: Callable[..., str], from_files: Rows, seen: Seen
) -> None:
    found = []
    rows = from_files(orders(spark, first=600, count=800, days=7))
    for enabled in ("true", "false"):
        table = make_table(BY_DAY, f"orders_{enabled}")
        writer.overwrite_partitions(from_files(orders(spark)), table, engine="arrow")
        spark.conf.set("spark.comet.enabled", enabled)
        try:
            CALLS[name](writer, rows, table)
        finally:
            spark.conf.unset("spark.comet.enabled")
        found.append(seen(table))
    assert found[0] == found[1]
    assert found[0] != seen(orders(spark)) or name == "read of the past"


def test_checks_see_the_rows_and_refuse_them(
    spark: SparkSession, writer: TableWriter, make_table: Callable[..., str], from_files: Rows, seen: Seen
) -> None:
    table = make_table(BY_DAY)
    rows = from_files(orders(spark))
    writer.overwrite_partitions(rows, table, checks=[unique("id"), in_range("amount", 0, 1_000)], engine="arrow")
    before = seen(table)
    for check in (not_null("note"), unique("note"), in_range("amount", 0, 3)):
        with pytest.raises(CheckFailedError):
            writer.overwrite_partitions(rows, table, checks=[check], engine="arrow")
    with pytest.raises(PartitionExistsError):
        writer.create_partitions(rows, table, engine="arrow")
    assert seen(table) == before


def test_a_table_that_is_made_for_the_rows_has_their_types(
    spark: SparkSession, writer: TableWriter, lakehouse_database: str, from_files: Rows, seen: Seen
) -> None:
    rows = from_files(orders(spark))
    table = f"{lakehouse_database}.made"
    writer.append(rows, table, if_missing=NewTable(partition_by=["dt"]), engine="arrow")
    assert seen(table) == seen(rows)
    assert Maintenance(services=writer._services).history(table).versions


def sent(rows: DataFrame) -> list[tuple[int, int]]:
    return [tuple(row) for row in rows.mapInArrow(sizes, "rows long, bytes long").collect()]


def test_batches_end_at_our_number_of_rows_and_where_spark_weighs_at_its_bytes(
    spark: SparkSession, from_files: Rows
) -> None:
    wide = from_files(spark.range(0, 4_000, 1, 1).select("id", F.repeat(F.lit("x"), 40_000).alias("text")))
    assert max(size for _, size in sent(wide)) > 130 * MIB  # else nothing is to be bounded
    with open_gateway(spark).batches_of(500) as are_counted:
        assert are_counted
        assert max(rows for rows, _ in sent(wide)) == 500
    for own, are_ours in (("200", True), ("3000", False)):
        spark.conf.set("spark.comet.batchSize", own)
        try:
            with open_gateway(spark).batches_of(500) as are_counted:
                assert are_counted == are_ours
                found = sent(wide if are_counted else weighed_by_spark(wide))
        finally:
            spark.conf.unset("spark.comet.batchSize")
        assert max(rows for rows, _ in found) == 200 if are_ours else max(size for _, size in found) <= 66 * MIB
    with open_gateway(spark).batches_of(0) as are_counted:
        assert not are_counted
        weighed = sent(weighed_by_spark(wide))
        assert 60 * MIB < max(size for _, size in weighed) <= 66 * MIB
        assert sum(rows for rows, _ in weighed) == 4_000
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    try:
        with open_gateway(spark).batches_of(500) as are_counted:
            assert not are_counted
            assert max(rows for rows, _ in sent(weighed_by_spark(wide))) == 50
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


@pytest.mark.parametrize("columns", [2, 120])
def test_a_task_gets_no_batch_that_is_larger_than_its_memory_allows(
    columns: int,
    spark: SparkSession,
    writer: TableWriter,
    make_table: Callable[..., str],
    from_files: Rows,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether rows were seen before or not, are too wide to be counted, or have too many columns to be measured."""
    largest = spark.sparkContext.accumulator(0, Largest())
    original = job.map_function

    def noting(spec: Any) -> Any:
        inner = original(spec)

        def function(batches: Iterator[Any]) -> Iterator[Any]:
            def noted() -> Iterator[Any]:
                for batch in batches:
                    largest.add(batch.nbytes)
                    yield batch

            return inner(noted())

        return function

    monkeypatch.setattr(job, "map_function", noting)
    monkeypatch.setattr(job, "as_sent", lambda function: function)
    texts = [
        F.repeat(F.col("id").cast("string"), 5_000 if number < 2 else 1).alias(f"c{number}")
        for number in range(columns)
    ]
    rows = from_files(spark.range(0, 12_000, 1, 1).select("id", *texts))
    names = ", ".join(f"c{number} STRING" for number in range(columns))
    table = make_table(f"CREATE TABLE {{name}} (id BIGINT, {names}) USING parquet")
    for _ in range(2):
        writer.overwrite_table(rows, table, engine="arrow")
        assert spark.table(table).count() == 12_000
    assert 0 < largest.value <= 80 * MIB


class Largest:
    """Keeps the largest of what was added."""

    def zero(self, _: int) -> int:
        return 0

    def addInPlace(self, one: int, other: int) -> int:  # noqa: N802 - Spark's name
        return max(one, other)


def test_a_session_without_comet_is_left_alone(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = spark.range(3)
    monkeypatch.setattr("table_writer.spark.comet.PLUGIN", "another")
    assert weighed_by_spark(rows) is rows


@pytest.mark.parametrize("legacy", [True, False])
def test_dates_that_comet_may_have_misread_are_named(
    legacy: bool, spark: SparkSession, writer: TableWriter, make_table: Callable[..., str], from_files: Rows
) -> None:
    """Comet takes each file for one of today's calendar: what it reads of another one nobody sees."""
    table = make_table(
        "CREATE TABLE {name} (id INT, d DATE, at TIMESTAMP, dt STRING) USING parquet PARTITIONED BY (dt)"
    )
    modes = ("spark.sql.parquet.datetimeRebaseModeInWrite", "spark.sql.parquet.int96RebaseModeInWrite")
    for name in modes if legacy else ():
        spark.conf.set(name, "LEGACY")
    rows = from_files(spark.sql("SELECT 1 AS id, DATE'1500-01-01' AS d, TIMESTAMP'2024-01-01' AS at, 'a' AS dt"))
    for name in modes:
        spark.conf.unset(name)
    for engine in ("auto", "arrow"):
        (note,) = [text for text in writer.append(rows, table, engine=engine).notes if "Comet" in text]
        assert note.startswith("d has dates before 1582-10-15")
    merged = writer.merge(rows.withColumn("id", F.lit(2)), table, on=["id", "dt"])
    assert [text for text in merged.notes if "Comet" in text] == [note]
    read = {str(row.d) for row in spark.table(table).collect()}
    assert read == ({"1500-01-10"} if legacy else {"1500-01-01"})  # if this fails, Comet reads them: no note is needed
    spark.conf.set("spark.comet.scan.enabled", "false")
    try:
        assert not [text for text in writer.overwrite_partitions(rows, table).notes if "Comet" in text]
    finally:
        spark.conf.unset("spark.comet.scan.enabled")
    assert {str(row.d) for row in spark.table(table).collect()} == {"1500-01-01"}
    assert not [
        text for text in writer.append(rows.withColumn("d", F.lit(None).cast("date")), table).notes if "Comet" in text
    ]
