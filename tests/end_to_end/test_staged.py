"""Write, audit, publish on real parts: every mode, from this process and from others, whoever died meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession

from table_writer import (
    CheckFailedError,
    ConflictError,
    InvalidInputError,
    Maintenance,
    PartitionExistsError,
    TableWriter,
)
from table_writer.check import (
    Check,
    expected_partitions,
    has_schema,
    in_range,
    not_null,
    only_partitions,
    row_count,
    row_count_change,
    unique,
)
from table_writer.cli.main import main
from table_writer.testing import Lakehouse
from tests.cells import first_fast

from .test_kills import kill_a_writer
from .watched import Seen

Rows = Callable[..., Any]
Content = Callable[[str], set[tuple[Any, ...]]]
Look = Callable[[str], Seen]
MakeTable = Callable[..., str]
STAGER = Path(__file__).with_name("killed_stager.py")
OLD = [(1, "old", "d1"), (2, "old", "d2")]
NEW = [(100, "new", "d1"), (300, "new", "d3")]
AFTER = {
    "overwrite_partitions": {(100, "new", "d1"), (2, "old", "d2"), (300, "new", "d3")},
    "append": {*OLD, *NEW},
    "overwrite_table": {*NEW},
}


def data_below(seen: Seen) -> set[str]:
    return set(seen.data)


@pytest.mark.connect
@pytest.mark.parametrize("mode", first_fast(AFTER, 2))
def test_nothing_is_to_be_seen_before_publish_and_everything_after(
    mode: str, spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, content: Content
) -> None:
    writer.overwrite_partitions(rows(*OLD), orders)
    with writer.stage(rows(*NEW), orders, mode) as staged:
        assert content(orders) == {*OLD}
        assert {tuple(row) for row in staged.dataframe().collect()} == {*NEW}
        assert (staged.rows, staged.mode, staged.table) == (2, mode, orders)
        assert [one.name for one in staged.partitions] == ["dt=d1", "dt=d3"]
        assert {one.partition for one in staged.files} == {"dt=d1", "dt=d3"}
        assert sum(one.bytes for one in staged.files) == sum(one.bytes for one in staged.partitions)
        result = staged.publish()
    spark.catalog.refreshTable(orders)
    assert content(orders) == AFTER[mode]
    assert (result.version, result.rows, result.write_id) == (2, 2, staged.write_id)
    assert writer.staged(orders).staged == ()


def test_create_partitions_is_refused_at_publish_if_one_exists_by_then(
    writer: TableWriter, orders: str, rows: Rows, content: Content
) -> None:
    writer.overwrite_partitions(rows(*OLD), orders)
    staged = writer.stage(rows((3, "new", "d3")), orders, "create_partitions")
    late = writer.stage(rows((4, "late", "d3")), orders, "create_partitions")
    staged.publish()
    with pytest.raises((PartitionExistsError, ConflictError)):
        late.publish()
    late.discard()
    assert content(orders) == {*OLD, (3, "new", "d3")}


def test_leaving_the_block_discards_all_of_it(
    writer: TableWriter, orders: str, rows: Rows, content: Content, look: Look, keeper: Maintenance
) -> None:
    writer.overwrite_partitions(rows(*OLD), orders)
    before = data_below(look(orders))
    with writer.stage(rows(*NEW), orders):
        assert len(data_below(look(orders))) == len(before) + 2
    assert data_below(look(orders)) == before
    with pytest.raises(ZeroDivisionError), writer.stage(rows(*NEW), orders):
        raise ZeroDivisionError
    assert data_below(look(orders)) == before
    assert keeper.staged(orders).staged == ()
    assert content(orders) == {*OLD}


def test_a_discarded_or_published_write_is_over(writer: TableWriter, orders: str, rows: Rows) -> None:
    staged = writer.stage(rows(*NEW), orders)
    twin = writer.staged_write(orders, staged.write_id)
    staged.discard()
    staged.discard()
    for call in (staged.publish, staged.dataframe, lambda: staged.check(row_count(min=1)), twin.publish):
        with pytest.raises(InvalidInputError):
            call()
    twin.discard()


@pytest.mark.slow  # Spark of its own
@pytest.mark.parametrize("mode", ["append", "overwrite_partitions"])
def test_another_process_publishes_after_the_first_was_killed(
    mode: str,
    spark: SparkSession,
    writer: TableWriter,
    orders: str,
    rows: Rows,
    content: Content,
    lakehouse: Lakehouse,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer.overwrite_partitions(rows(*OLD), orders)
    kill_a_writer(spark, orders, "staged", tmp_path, STAGER, mode)
    assert content(orders) == {*OLD}
    settings = lakehouse.s3_server.hadoop_settings() if lakehouse.s3_server else {}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", settings.get("fs.s3a.access.key", ""))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", settings.get("fs.s3a.secret.key", ""))
    public = [f"--conf={name}={value}" for name, value in settings.items() if not name.endswith(("key", "provider"))]
    words = ("--metastore-uri", lakehouse.metastore_uri, *public, "--json")
    assert main(["staged", orders, *words]) == 0
    (listed,) = json.loads(capsys.readouterr().out)["staged"]
    assert (listed["mode"], listed["rows"], listed["is_expired"]) == (mode, 2, False)
    assert main(["publish", orders, listed["write_id"], *words]) == 0
    published = json.loads(capsys.readouterr().out)
    assert (published["version"], published["write_id"]) == (2, listed["write_id"])
    spark.catalog.refreshTable(orders)
    assert content(orders) == AFTER[mode]


@pytest.mark.parametrize(
    ("moment", "mode"),
    [
        pytest.param("copied", "append", marks=pytest.mark.slow),
        pytest.param("claimed", "append", marks=pytest.mark.slow),
        pytest.param("claimed", "overwrite_partitions", marks=pytest.mark.slow),
        pytest.param("switched", "append", marks=pytest.mark.slow),
    ],
)
def test_a_publisher_that_was_killed_is_followed_by_another_and_rows_are_there_once(
    moment: str,
    mode: str,
    spark: SparkSession,
    writer: TableWriter,
    orders: str,
    rows: Rows,
    keeper: Maintenance,
    tmp_path: Path,
) -> None:
    writer.overwrite_partitions(rows(*OLD), orders)
    kill_a_writer(spark, orders, moment, tmp_path, STAGER, mode)
    staged = keeper.staged(orders).staged
    result = writer.staged_write(orders, staged[0].write_id).publish()
    assert result.repeated == (moment != "copied")
    spark.catalog.refreshTable(orders)
    assert sorted(map(tuple, spark.table(orders).collect())) == sorted(AFTER[mode])
    assert keeper.staged(orders).staged == ()


def test_the_same_rules_hold_at_publish(
    writer: TableWriter, orders: str, rows: Rows, content: Content, keeper: Maintenance
) -> None:
    staged = writer.stage(rows(*NEW), orders)
    writer.overwrite_partitions(rows((5, "between", "d1")), orders)
    for publish in (staged.publish, lambda: keeper.publish(orders, staged.write_id)):
        with pytest.raises(ConflictError, match="dt=d1"):
            publish()
    assert content(orders) == {(5, "between", "d1")}
    assert [one.write_id for one in keeper.staged(orders).staged] == [staged.write_id]
    staged.discard()


def test_appends_staged_at_once_add_up(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, content: Content
) -> None:
    writer.overwrite_partitions(rows(*OLD), orders)
    first = writer.stage(rows((10, "first", "d1")), orders, "append")
    second = writer.stage(rows((20, "second", "d1")), orders, "append")
    second.publish()
    first.publish()
    spark.catalog.refreshTable(orders)
    assert content(orders) == {*OLD, (10, "first", "d1"), (20, "second", "d1")}


@pytest.mark.connect
def test_checks_of_the_call_and_of_the_staged_write_are_kept_with_the_version(
    writer: TableWriter, orders: str, rows: Rows, keeper: Maintenance
) -> None:
    writer.overwrite_partitions(rows(*OLD), orders)
    checks = [not_null("id"), row_count_change(min_ratio=0.5, max_ratio=3.0)]
    with writer.stage(rows(*NEW), orders, checks=checks) as staged:
        assert [one.passed for one in staged.checks] == [True, True]
        (result,) = staged.check(unique("id", severity="warn"))
        assert result.passed
        published = staged.publish()
    assert [one.passed for one in published.checks] == [True] * 3
    assert [one.name for one in keeper.history(orders).versions[0].checks] == [one.name for one in published.checks]


@pytest.mark.slow
@pytest.mark.connect
def test_a_check_that_fails_leaves_nothing_of_a_write_and_blocks_a_staged_one(
    writer: TableWriter, orders: str, rows: Rows, content: Content, look: Look, keeper: Maintenance
) -> None:
    writer.overwrite_partitions(rows(*OLD), orders)
    before = data_below(look(orders))
    wrong = rows((None, "no id", "d1"), (-1, "below", "d3"))
    with pytest.raises(CheckFailedError) as failed:
        writer.overwrite_partitions(wrong, orders, checks=[not_null("id"), in_range("id", min=0), row_count(max=5)])
    assert [one.passed for one in failed.value.results] == [False, False, True]
    with pytest.raises(CheckFailedError):
        writer.stage(wrong, orders, checks=[not_null("id")])
    assert data_below(look(orders)) == before
    staged = writer.stage(wrong, orders)
    with pytest.raises(CheckFailedError, match="not_null"):
        staged.check(not_null("id"))
    for publish in (staged.publish, lambda: keeper.publish(orders, staged.write_id)):
        with pytest.raises(CheckFailedError):
            publish()
    assert content(orders) == {*OLD}
    staged.check(not_null("id", severity="warn"))
    assert [(one.passed, one.severity) for one in staged.publish().checks] == [(False, "warn")]
    assert keeper.history(orders).versions[0].checks[0].examples == ()


def test_bad_checks_fail_before_a_byte_is_written(writer: TableWriter, orders: str, rows: Rows, look: Look) -> None:
    for wrong in ([not_null("nobody")], [not_null("id"), not_null("id")], ["not_null"]):
        with pytest.raises(InvalidInputError):
            writer.overwrite_partitions(rows(*NEW), orders, checks=wrong)
    assert look(orders).data == {}


@pytest.mark.connect
def test_the_frame_is_what_readers_see_later(spark: SparkSession, writer: TableWriter, make_table: MakeTable) -> None:
    table = make_table(
        "CREATE TABLE {name} (id INT, Amount DECIMAL(12,2), at TIMESTAMP, local TIMESTAMP_NTZ, day DATE, bits BINARY,"
        " ok BOOLEAN, ratio DOUBLE, code CHAR(4), tag VARCHAR(8), `odd.name` STRING, many ARRAY<STRUCT<a: INT>>,"
        " pairs MAP<STRING, INT>, n INT, d DATE, s STRING) USING parquet PARTITIONED BY (n, d, s)"
    )
    df = spark.sql(
        "SELECT 1 AS id, 1.5BD AS amount, TIMESTAMP '1900-01-01 00:00:01' AS at, TIMESTAMP_NTZ '2024-03-31 02:30:00' AS"
        " local, DATE '1500-01-01' AS day, X'00FF' AS bits, true AS ok, double('NaN') AS ratio, 'a' AS code,"
        " 'b ' AS tag, 'é' AS `odd.name`, array(named_struct('a', 1)) AS many, map('k', 1) AS pairs, 7 AS n,"
        f" DATE '2024-01-01' AS d, 'a/b c=%' AS s UNION ALL SELECT 2, {'null, ' * 12} -1, null, null"
    )
    with writer.stage(df, table) as staged:
        seen = staged.dataframe()
        before = sorted(map(str, seen.collect()))
        assert seen.columns == spark.table(table).columns
        assert [field.dataType for field in seen.schema] == [field.dataType for field in spark.table(table).schema]
        assert {name: one.null_count for name, one in staged.statistics.items()}["id"] == 0
        staged.publish()
    assert sorted(map(str, spark.table(table).collect())) == before


@pytest.mark.parametrize("kind", first_fast(["USING orc", "STORED AS PARQUET", "STORED AS ORC"]))
def test_other_formats_are_staged_too(
    kind: str, spark: SparkSession, writer: TableWriter, make_table: MakeTable, rows: Rows
) -> None:
    spark_ddl = kind.startswith("USING")
    columns = "id BIGINT, note STRING, dt STRING" if spark_ddl else "id BIGINT, note STRING"
    by = "dt" if spark_ddl else "dt STRING"
    order = f"{kind} PARTITIONED BY ({by})" if spark_ddl else f"PARTITIONED BY ({by}) {kind}"
    table = make_table(f"CREATE TABLE {{name}} ({columns}) {order}")
    with writer.stage(rows(*NEW), table) as staged:
        assert_df_equality(staged.dataframe(), rows(*NEW), ignore_row_order=True)
        staged.publish()
    assert spark.table(table).count() == 2


@pytest.mark.slow
def test_sparks_own_writer_stages_csv(
    spark: SparkSession, writer: TableWriter, make_table: MakeTable, rows: Rows, keeper: Maintenance
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, note STRING, dt STRING) USING csv PARTITIONED BY (dt)")
    with pytest.raises(CheckFailedError):
        writer.overwrite_partitions(rows(*NEW), table, engine="spark", checks=[in_range("id", max=200)])
    staged = writer.stage(rows(*NEW), table, engine="spark", checks=[not_null("id", "dt"), in_range("id", min=100)])
    assert {tuple(row) for row in writer.staged_write(table, staged.write_id).dataframe().collect()} == {*NEW}
    keeper.publish(table, staged.write_id)
    spark.catalog.refreshTable(table)
    assert {tuple(row) for row in spark.table(table).collect()} == {*NEW}


def test_an_unpartitioned_table_is_staged_too(
    spark: SparkSession, writer: TableWriter, make_table: MakeTable, keeper: Maintenance
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT) USING parquet")
    for number, mode in enumerate(("overwrite_table", "append", "overwrite_table")):
        staged = writer.stage(spark.range(number, number + 2), table, mode)
        assert sorted(row[0] for row in staged.dataframe().collect()) == [number, number + 1]
        keeper.publish(table, staged.write_id) if number % 2 else staged.publish()
        spark.catalog.refreshTable(table)
    assert sorted(row[0] for row in spark.table(table).collect()) == [2, 3]


@pytest.mark.slow
@pytest.mark.connect
def test_a_predicate_is_kept_and_a_partition_it_never_saw_takes_spark(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, content: Content, keeper: Maintenance
) -> None:
    writer.overwrite_partitions(rows(*OLD), orders)
    staged = writer.stage(rows((9, "new", "d1")), orders, where="dt <= 'd2'")
    keeper.publish(orders, staged.write_id)
    spark.catalog.refreshTable(orders)
    assert content(orders) == {(9, "new", "d1")}
    staged = writer.stage(rows((8, "newer", "d1")), orders, where="dt <= 'd2'")
    writer.create_partitions(rows((7, "later", "d7")), orders)
    with pytest.raises(ConflictError, match="takes Spark"):
        keeper.publish(orders, staged.write_id)
    writer.staged_write(orders, staged.write_id).publish()
    spark.catalog.refreshTable(orders)
    assert content(orders) == {(8, "newer", "d1"), (7, "later", "d7")}


@pytest.mark.connect
def test_columns_are_added_at_publish_which_takes_spark(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, keeper: Maintenance
) -> None:
    df = rows(*NEW).selectExpr("*", "id * 2 AS twice")
    staged = writer.stage(df, orders, schema="evolve", checks=[in_range("twice", min=200)])
    assert "twice" not in spark.table(orders).columns
    assert staged.dataframe().columns == ["id", "note", "twice", "dt"]
    with pytest.raises(InvalidInputError, match="takes Spark"):
        keeper.publish(orders, staged.write_id)
    writer.staged_write(orders, staged.write_id).publish()
    assert {tuple(row) for row in spark.table(orders).select("id", "twice").collect()} == {(100, 200), (300, 600)}


def test_nothing_to_stage_is_an_error(writer: TableWriter, orders: str, rows: Rows) -> None:
    with pytest.raises(InvalidInputError, match="no rows"):
        writer.stage(rows(*NEW).where("id < 0"), orders, if_empty="ignore")
    writer.overwrite_partitions(rows(*NEW), orders, idempotency_key="once")
    with pytest.raises(InvalidInputError, match="nothing to stage"):
        writer.stage(rows(*NEW), orders, idempotency_key="once")
    for wrong in (timedelta(0), timedelta(days=-1), timedelta(days=400)):
        with pytest.raises(InvalidInputError, match="expires_in"):
            writer.stage(rows(*NEW), orders, expires_in=wrong)
    assert writer.staged(orders).staged == ()


def test_a_key_that_was_published_meanwhile_makes_the_staged_write_superfluous(
    writer: TableWriter, orders: str, rows: Rows, look: Look
) -> None:
    staged = writer.stage(rows(*NEW), orders, "append", idempotency_key="once")
    writer.append(rows(*NEW), orders, idempotency_key="once")
    before = data_below(look(orders))
    result = staged.publish()
    assert (result.repeated, result.version) == (True, 1)
    assert data_below(look(orders)) < before, "the files of the staged one are gone"


def test_emptying_a_table_can_be_staged(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, content: Content
) -> None:
    writer.overwrite_partitions(rows(*OLD), orders)
    with writer.stage(rows(*OLD).where("id < 0"), orders, "overwrite_table", if_empty="replace") as staged:
        assert staged.dataframe().columns == ["id", "note", "dt"]
        assert staged.dataframe().count() == 0
        staged.publish()
    spark.catalog.refreshTable(orders)
    assert content(orders) == set()


def test_checks_that_metadata_answers_cost_no_request_and_no_job(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows
) -> None:
    def written(*checks: Check) -> tuple[dict[str, int], int]:
        before = spark.sparkContext._jsc.sc().dagScheduler().nextJobId()
        sent = writer.overwrite_partitions(rows(*NEW).coalesce(1), orders, checks=checks).storage_requests
        return dict(sent), spark.sparkContext._jsc.sc().dagScheduler().nextJobId() - before

    writer.overwrite_partitions(rows(*NEW).coalesce(1), orders)
    without = written()
    checked = written(
        row_count(min=1, max=2),
        row_count_change(min_ratio=0.9, max_ratio=1.1),
        not_null("id", "note", "dt"),
        in_range("id", min=100, max=300),
        expected_partitions(["dt=d1", "dt=d3"]),
        only_partitions(["dt=d1", "dt=d3"]),
        has_schema("id BIGINT, note STRING, dt STRING"),
    )
    assert checked == without


@pytest.mark.slow
def test_staging_and_publishing_cost_what_a_write_does_and_two_puts(
    writer: TableWriter, orders: str, rows: Rows
) -> None:
    writer.overwrite_partitions(rows(*OLD), orders)
    at_once = writer.overwrite_partitions(rows(*NEW).coalesce(1), orders).storage_requests
    staged = writer.stage(rows(*NEW).coalesce(1), orders)
    published = staged.publish().storage_requests
    assert published["PutObject"] <= at_once["PutObject"]
    assert set(published) <= {"PutObject", "GetObject", "ListObjectsV2", "DeleteObjects"}
    assert sum(published.values()) <= 16
