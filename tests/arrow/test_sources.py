"""Rows of pandas, Polars, DuckDB and pyarrow, read back by Spark and as a dataset; and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from table_writer import (
    ArrowWriter,
    CheckFailedError,
    ConflictError,
    InvalidInputError,
    Maintenance,
    PartitionExistsError,
    SchemaMismatchError,
    TableWriter,
    TableWriterConfig,
    check,
    read_arrow,
)
from table_writer.testing import Lakehouse

Listed = Callable[..., list[tuple[Any, ...]]]
COLUMNS: Final = "id BIGINT, note STRING, at TIMESTAMP, price DECIMAL(9,2), dt STRING"
CREATE: Final = f"CREATE TABLE {{name}} ({COLUMNS}) USING parquet PARTITIONED BY (dt)"
AT: Final = datetime(2024, 5, 1, 12, tzinfo=UTC)
ROWS: Final = pa.table(
    {
        "id": [1, 2, 3],
        "note": ["a", None, "c"],
        "at": pa.array([AT, AT, None], pa.timestamp("us", tz="UTC")),
        "price": pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(9, 2)),
        "dt": ["d1", "d1", "d2"],
    }
)


@pytest.fixture
def prices(make_table: Callable[..., str]) -> str:
    return make_table(CREATE, "prices")


def of_duckdb() -> Any:
    rows = ROWS  # noqa: F841  # DuckDB finds it by its name
    return duckdb.sql('SELECT id, note, "at", price, dt FROM rows')


SOURCES: Final[dict[str, Callable[[], Any]]] = {
    "a table": lambda: ROWS,
    "a reader": ROWS.to_reader,
    "a dataset": lambda: ds.dataset(ROWS),
    "columns in another order": lambda: ROWS.select(["dt", "price", "id", "note", "at"]).rename_columns(
        ["DT", "Price", "ID", "note", "at"]
    ),
    "pandas": ROWS.to_pandas,
    "pandas with an index": lambda: ROWS.to_pandas().set_index("id", drop=False),
    "polars": lambda: pl.from_arrow(ROWS),
    "duckdb": of_duckdb,
    "dictionaries and large texts": lambda: ROWS.set_column(1, "note", ROWS["note"].dictionary_encode()).set_column(
        4, "dt", ROWS["dt"].cast(pa.large_string())
    ),
}


@pytest.mark.parametrize("source", SOURCES)
def test_rows_of_every_source_are_read_back(
    source: str, arrow: ArrowWriter, prices: str, listed: Listed, lakehouse: Lakehouse, settings: TableWriterConfig
) -> None:
    given = SOURCES[source]()
    if isinstance(given, pd.DataFrame):
        given["price"] = given["price"].map(lambda one: one if isinstance(one, Decimal) else None)
    result = arrow.overwrite_partitions(given, prices)
    assert (result.rows, len(result.partitions), result.uploaded_by) == (3, 2, "driver")
    expected = [(1, "a", AT, Decimal("1.50"), "d1"), (2, None, AT, None, "d1"), (3, "c", None, Decimal("-2.25"), "d2")]
    seen = [(*row[:2], row[2] and row[2].astimezone(UTC), *row[3:]) for row in listed(prices)]
    assert seen == expected
    dataset = read_arrow(prices, metastore_uri=lakehouse.metastore_uri, config=settings)
    assert dataset.to_table().sort_by("id").to_pylist() == ROWS.to_pylist()


def test_every_mode_and_option_is_that_of_a_write(
    arrow: ArrowWriter, prices: str, listed: Listed, keeper: Maintenance
) -> None:
    arrow.append(ROWS, prices)
    arrow.append(ROWS.slice(2), prices, carry="in_place", tags={"run": "7"})
    assert [row[0] for row in listed(prices)] == [1, 2, 3, 3]
    with pytest.raises(PartitionExistsError):
        arrow.create_partitions(ROWS, prices)
    new = ROWS.set_column(4, "dt", pa.array(["d7"] * 3))
    assert arrow.create_partitions(new, prices, idempotency_key="once").version is not None
    assert arrow.create_partitions(new, prices, idempotency_key="once").repeated
    only_d1 = ROWS.slice(0, 1)
    with pytest.raises(InvalidInputError, match="does not select: dt=d2"):
        arrow.overwrite_partitions(ROWS, prices, where=[("dt", "in", ["d1", "d7"])])
    arrow.overwrite_partitions(only_d1, prices, where=[("dt", "in", ["d1", "d7"])])
    assert [row[0] for row in listed(prices)] == [1, 3, 3]
    with pytest.raises(InvalidInputError, match="if_empty"):
        arrow.overwrite_table(ROWS.slice(3), prices)
    assert arrow.append(ROWS.slice(3), prices, if_empty="ignore").version is None
    arrow.overwrite_table(ROWS.slice(1, 1), prices)
    assert [row[0] for row in listed(prices)] == [2]
    arrow.overwrite_table(ROWS.slice(3), prices, if_empty="replace")
    assert listed(prices) == []
    modes = [(one.mode, one.where, dict(one.tags)) for one in reversed(keeper.history(prices).versions)]
    assert modes[1] == ("append", "", {"run": "7"})
    assert modes[3][:2] == ("overwrite_partitions", "`dt` IN ('d1', 'd7')")


def test_a_plan_says_what_would_be_done_and_does_nothing(arrow: ArrowWriter, prices: str, listed: Listed) -> None:
    arrow.append(ROWS, prices)
    plan = arrow.plan(ROWS.to_reader(), prices, "append")
    assert plan.ok
    assert [(one.name, one.action, one.rows, one.copied_files) for one in plan.partitions] == [
        ("dt=d1", "append", 2, 1),
        ("dt=d2", "append", 1, 1),
    ]
    refused = arrow.plan(ROWS, prices, "create_partitions")
    assert "2 partitions already there" in refused.problems[0]
    misfit = arrow.plan(ROWS.drop_columns(["note"]), prices)
    assert not misfit.ok
    assert "'note'" in misfit.schema.problems[0]
    assert len(listed(prices)) == 3


def test_a_staged_write_is_published_by_anybody(
    arrow: ArrowWriter, prices: str, listed: Listed, keeper: Maintenance, writer: TableWriter
) -> None:
    staged = arrow.stage(ROWS, prices, checks=[check.not_null("id")])
    assert listed(prices) == []
    with writer.staged_write(prices, staged.summary.write_id) as seen:
        assert seen.dataframe().count() == 3
        seen.publish()
    other = arrow.stage(ROWS.slice(2), prices, "overwrite_partitions", where=[("dt", ">=", "d2")])
    keeper.publish(prices, other.summary.write_id)
    assert [row[0] for row in listed(prices)] == [1, 2, 3]


def test_checks_that_footers_answer_are_answered(arrow: ArrowWriter, prices: str, listed: Listed) -> None:
    result = arrow.append(ROWS, prices, checks=[check.not_null("id"), check.row_count(min=3, max=3)])
    assert [one.passed for one in result.checks] == [True, True]
    with pytest.raises(CheckFailedError, match="not_null"):
        arrow.append(ROWS, prices, checks=[check.not_null("note")])
    with pytest.raises(InvalidInputError, match=r"unique\(id\).*takes Spark.*staged_write"):
        arrow.append(ROWS, prices, checks=[check.unique("id")])
    assert len(listed(prices)) == 3


MISFITS: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "no rows": (lambda: [1, 2], "Expected a pyarrow Table"),
    "an extra column": (lambda: ROWS.append_column("more", ROWS["id"]), "does not have: 'more'"),
    "a column twice": (lambda: ROWS.append_column("ID", ROWS["id"]), "there twice: 'id'"),
    "a missing column": (lambda: ROWS.drop_columns(["note"]), "missing in the rows: 'note'.*allow_missing"),
    "no partition": (lambda: ROWS.drop_columns(["dt"]), "missing in the rows: 'dt'"),
    "text for a number": (lambda: ROWS.set_column(0, "id", pa.array(["1"] * 3)), "column id is string .* int64 in the"),
    "a wider number": (lambda: ROWS.set_column(0, "id", pa.array([1.0] * 3)), "column id is double"),
    "too large": (lambda: ROWS.set_column(3, "price", pa.array([10**8] * 3)), "more than 7 digits .* '100000000'"),
    "too exact": (lambda: ROWS.set_column(3, "price", pa.array([Decimal("1.005")] * 3)), "more digits after the point"),
    "no zone": (
        lambda: ROWS.set_column(2, "at", pa.array([datetime(2024, 1, 1)] * 3)),  # noqa: DTZ001
        "time zone .* ArrowWriter",
    ),
    "nanoseconds": (
        lambda: ROWS.set_column(2, "at", pa.array([1] * 3, pa.timestamp("ns", tz="UTC"))),
        "do not fit into microseconds",
    ),
    "a union": (lambda: ROWS.set_column(0, "id", pa.array([timedelta(1)] * 3)), "column id is duration"),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_what_does_not_fit_is_refused_by_name_and_nothing_is_written(
    misfit: str, arrow: ArrowWriter, prices: str, keeper: Maintenance
) -> None:
    rows, words = MISFITS[misfit]
    with pytest.raises((InvalidInputError, SchemaMismatchError), match=words):
        arrow.append(rows(), prices)
    assert keeper.history(prices).versions == ()
    assert keeper.staged(prices).staged == ()


def test_a_frame_of_spark_is_sent_to_its_own_writer(arrow: ArrowWriter, prices: str, spark: SparkSession) -> None:
    with pytest.raises(InvalidInputError, match=r"TableWriter\(spark\)"):
        arrow.append(spark.table(prices), prices)


def test_times_without_a_zone_are_of_the_one_that_is_said(
    lakehouse: Lakehouse, settings: TableWriterConfig, make_table: Callable[..., str], spark: SparkSession
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, at TIMESTAMP, h TIMESTAMP) USING parquet PARTITIONED BY (h)")
    berlin = ArrowWriter(lakehouse.metastore_uri, config=settings, time_zone="Europe/Berlin")
    local = pa.array([datetime(2024, 7, 1, 12)], pa.timestamp("ns"))  # noqa: DTZ001
    with pytest.raises(InvalidInputError, match="clocks are never set"):
        berlin.append(pa.table({"id": [1], "at": local, "h": local}), table)
    utc = ArrowWriter(lakehouse.metastore_uri, config=settings, time_zone="UTC")
    utc.append(pa.table({"id": [1], "at": local, "h": local}), table)
    assert [row[0] for row in spark.sql(f"SHOW PARTITIONS {table}").collect()] == ["h=2024-07-01 12%3A00%3A00"]
    plain = make_table("CREATE TABLE {name} (id BIGINT, at TIMESTAMP) USING parquet", "plain")
    berlin.append(pa.table({"id": [1], "at": local}), plain)
    [row] = spark.table(plain).collect()
    assert row["at"].astimezone(UTC) == datetime(2024, 7, 1, 10, tzinfo=UTC)


def test_limits_of_texts_are_those_of_spark(
    arrow: ArrowWriter, make_table: Callable[..., str], spark: SparkSession, writer: TableWriter
) -> None:
    ddl = "CREATE TABLE {name} (v VARCHAR(3), c CHAR(4), d DATE) USING parquet"
    ours, sparks = make_table(ddl, "ours"), make_table(ddl, "sparks")
    rows = pa.table({"v": ["ab", "abc  ", "😀😀😀"], "c": ["a", "abcd  ", "ü"], "d": [date(2024, 1, 1)] * 3})
    arrow.append(rows, ours)
    writer.append(spark.createDataFrame(rows), sparks)
    assert spark.table(ours).collect() == spark.table(sparks).collect()
    with pytest.raises(SchemaMismatchError, match=r"column v is varchar\(3\), and one row or more are longer.*'abcd'"):
        arrow.append(rows.set_column(0, "v", pa.array(["abcd"] * 3)), ours)


def test_tables_that_take_spark_are_named(arrow: ArrowWriter, make_table: Callable[..., str]) -> None:
    text = make_table("CREATE TABLE {name} (id BIGINT) USING csv", "text")
    with pytest.raises(InvalidInputError, match="csv"):
        arrow.append(pa.table({"id": [1]}), text)
    floats = make_table("CREATE TABLE {name} (id BIGINT, p DOUBLE) USING parquet PARTITIONED BY (p)", "floats")
    with pytest.raises(InvalidInputError, match="only Spark spells"):
        arrow.append(pa.table({"id": [1], "p": [1.5]}), floats)


def test_both_kinds_of_writers_meet(
    arrow: ArrowWriter, writer: TableWriter, prices: str, spark: SparkSession, listed: Listed
) -> None:
    arrow.append(ROWS, prices)
    spark.catalog.refreshTable(prices)
    version = writer.version_of(writer.read(prices), prices)
    writer.overwrite_partitions(spark.table(prices).where("dt = 'd1'").limit(1), prices)
    with pytest.raises(ConflictError):
        arrow.overwrite_partitions(ROWS.slice(0, 1), prices, based_on=version)
    arrow.overwrite_partitions(ROWS.slice(2), prices, based_on=version)
    merged = writer.merge(spark.table(prices), prices, on=["id"], missing="ignore", set={"note": "'m'"})
    assert merged.updated == 2
    assert writer.compact(prices, min_files=2).version is None
    assert {row[1] for row in listed(prices)} == {"m"}


def test_a_mirror_follows(lakehouse: Lakehouse, settings: TableWriterConfig, prices: str, keeper: Maintenance) -> None:
    mirrored = TableWriterConfig(hadoop=settings.hadoop, mirrors=["delta"])
    arrow = ArrowWriter(lakehouse.metastore_uri, config=mirrored)
    arrow.append(ROWS, prices)
    arrow.append(ROWS, prices)
    report = Maintenance(lakehouse.metastore_uri, config=mirrored).mirror(prices, as_="delta", check=True)
    assert (report.state, report.healthy) == ("in step", True)
