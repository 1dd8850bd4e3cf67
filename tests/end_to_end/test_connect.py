"""What only a Spark Connect session has: hidden settings, its own server, and no JVM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from table_writer import InvalidInputError, StorageError, TableWriter, TableWriterConfig, TableWriterError
from table_writer.check import expression, row_count
from table_writer.events import TableEvent
from table_writer.progress import Progress, Stopwatch
from table_writer.spark import open_gateway
from table_writer.spark.connect import ConnectSpark
from table_writer.spark.sql import analyzed_now
from table_writer.storage.s3.settings import S3Overrides, StaticKeys
from table_writer.testing import Lakehouse
from table_writer.testing.connect import ConnectServer

from .slow_rows import slow_rows, wait_for

pytestmark = pytest.mark.needs("connect")
Rows = Callable[..., Any]
Content = Callable[[str], set[tuple[Any, ...]]]
ORDERS: Final = "id BIGINT, note STRING, dt STRING"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def server(lakehouse: Lakehouse) -> Iterator[ConnectServer]:
    """Start a second server of the same lakehouse, to be killed."""
    with ConnectServer(lakehouse.connect_server.settings) as started:
        yield started


@pytest.fixture
def connect() -> Iterator[Callable[[ConnectServer], Any]]:
    """Make sessions; PySpark must not try for ten minutes to reach a server that is gone."""
    made: list[Any] = []
    active: Any = SparkSession.getActiveSession()

    def session(server: ConnectServer) -> Any:
        builder: Any = SparkSession.builder
        made.append(builder.remote(server.url).create())
        return made[-1]

    yield session
    for one in made:
        one.client._retry_policies = []
        one.stop()
    type(active)._set_default_and_active_session(active)


def test_nothing_is_imported_for_one_kind_of_session_that_only_the_other_needs() -> None:
    of_classic = "import sys, table_writer.spark.classic; assert 'grpc' not in sys.modules, 'grpc'"
    of_connect = "import sys, table_writer.spark.connect; assert 'table_writer.spark.classic' not in sys.modules"
    for program in (of_classic, of_connect):
        subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def test_keys_come_from_the_environment_or_the_config_and_never_from_the_session(
    spark: SparkSession, lakehouse: Lakehouse, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = open_gateway(spark).spark_conf()
    assert lakehouse.s3_server.secret_key not in str(shown)

    def credentials(config: TableWriterConfig | None = None) -> tuple[Any, ...]:
        opened = TableWriter(spark, config=config)._services.open_to_write(orders)
        return opened.store_settings.credentials  # type: ignore[attr-defined,no-any-return]

    found = (StaticKeys(access_key=lakehouse.s3_server.access_key, secret_key=lakehouse.s3_server.secret_key),)
    assert credentials() == found
    explicit = TableWriterConfig(s3=S3Overrides(access_key="mine", secret_key="hush"))
    assert credentials(explicit) == (StaticKeys(access_key="mine", secret_key="hush"),)
    named = TableWriterConfig(hadoop={"fs.s3a.access.key": "named", "fs.s3a.secret.key": "hush"})
    assert credentials(named)[0] == StaticKeys(access_key="named", secret_key="hush")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "short-lived")
    (temporary,) = credentials()
    assert temporary.session_token == "short-lived"
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(InvalidInputError, match=r"no S3 credentials .*DefaultChain.*access_key and secret_key"):
        credentials()


def test_a_metastore_that_the_session_does_not_show_is_asked_for(
    spark: SparkSession, lakehouse: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = {key: one for key, one in open_gateway(spark).spark_conf().items() if "hive.metastore" not in key}
    monkeypatch.setattr(ConnectSpark, "spark_conf", lambda _: conf)  # as where it is in the server's hive-site.xml
    with pytest.raises(InvalidInputError, match=r"does not show where its metastore is: .*metastore_uris=\["):
        TableWriter(spark)
    named = TableWriter(spark, config=TableWriterConfig(metastore_uris=(lakehouse.metastore_uri,)))
    with pytest.raises(InvalidInputError, match=f"no table default.none in the metastore at {lakehouse.metastore_uri}"):
        named.staged("default.none")


@pytest.mark.parametrize(
    "kind", ["USING orc PARTITIONED BY (dt)", "USING parquet PARTITIONED BY (dt) CLUSTERED BY (id) INTO 2 BUCKETS"]
)
def test_what_takes_sparks_own_writer_is_refused_at_the_plan(
    kind: str, writer: TableWriter, make_table: Callable[..., str], rows: Rows, keys_below: Callable[[str], set[str]]
) -> None:
    table = make_table(f"CREATE TABLE {{name}} (id BIGINT, note STRING, dt STRING) {kind}")
    with pytest.raises(InvalidInputError, match=r"Spark Connect session.*classic session"):
        writer.append(rows((1, "a", "d1")), table)
    assert keys_below(table) == set()


def test_engine_spark_is_refused_at_the_plan_and_in_it(writer: TableWriter, orders: str, rows: Rows) -> None:
    for call in (writer.append, writer.plan):
        with pytest.raises(InvalidInputError, match="engine='arrow'"):
            call(rows((1, "a", "d1")), orders, engine="spark")


def test_executors_run_this_very_package_and_answer_in_the_order_of_the_items(spark: Any) -> None:
    gateway = open_gateway(spark)
    gateway.prepare_executors()

    def look(items: Any) -> Iterator[tuple[int, str]]:
        import table_writer

        yield from ((item, table_writer.__file__) for item in items)

    answers = gateway.run("w", gateway.on_executors(range(100), look, 7))
    assert [number for number, _ in answers] == list(range(100))
    assert all("table_writer_package.zip" in file for _, file in answers)


def test_progress_counts_the_tasks_that_the_server_tells_of(
    spark: Any, orders: str, lakehouse: Lakehouse, tmp_path: Path
) -> None:
    heard: list[Progress] = []
    writer = TableWriter(spark, config=TableWriterConfig(progress=heard.append))
    marker = tmp_path / "begun"

    def interrupt() -> None:
        wait_for(marker)
        time.sleep(4)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        writer.append(slow_rows(spark, marker), orders)
    assert time.monotonic() - began < 60, "the rows take two minutes"
    assert any(one.unit == "tasks" and one.total for one in heard)
    assert spark.table(orders).count() == 0
    state = writer._services.open_to_write(orders)
    assert list(state.store.list_uploads(state.layout.root.key)) == []


def test_a_server_that_is_killed_leaves_old_rows_and_a_new_session_writes(
    server: ConnectServer,
    connect: Callable[[ConnectServer], Any],
    writer: TableWriter,
    orders: str,
    rows: Rows,
    content: Content,
    tmp_path: Path,
) -> None:
    writer.overwrite_partitions(rows((1, "old", "d1")), orders)
    session, marker = connect(server), tmp_path / "begun"

    def kill() -> None:
        wait_for(marker)
        server.kill()
        server.start()

    threading.Thread(target=kill, daemon=True).start()
    with pytest.raises(StorageError, match=r"server has ended.*Nothing was published.*new session"):
        TableWriter(session).overwrite_partitions(slow_rows(session, marker), orders)
    assert content(orders) == {(1, "old", "d1")}
    other = connect(server)
    more = other.createDataFrame([(2, "new", "d1")], "id BIGINT, note STRING, dt STRING")
    result = TableWriter(other).append(more, orders)
    assert result.version == 2
    assert content(orders) == {(1, "old", "d1"), (2, "new", "d1")}


STEPS: Final = ("plan", "upload", "complete", "check", "publish")


@pytest.mark.parametrize("moment", ["begins", pytest.param("ends", marks=pytest.mark.slow)])
@pytest.mark.parametrize("step", STEPS)
def test_whichever_step_a_server_dies_at_readers_see_old_rows_or_new_ones_and_a_new_session_goes_on(
    step: str, moment: str, orders: str, content: Content, server: ConnectServer, connect: Any
) -> None:
    session = connect(server)
    writer = TableWriter(session)
    old, new = (session.createDataFrame([(number, f"n{number}", "d1")], ORDERS) for number in (1, 2))
    writer.append(old, orders)
    before = content(orders)
    original, killed = Stopwatch.step, list[str]()

    def kill() -> None:
        session.client._retry_policies = []  # else the client tries for ten minutes
        server.kill()
        killed.append(step)

    @contextmanager
    def dying(watch: Stopwatch, name: str) -> Iterator[None]:
        if name == step and moment == "begins" and not killed:
            kill()
        with original(watch, name):
            yield
        if name == step and moment == "ends" and not killed:
            kill()

    said = ""
    with mock.patch.object(Stopwatch, "step", dying):
        try:
            result = writer.overwrite_partitions(new, orders, checks=[row_count(min=1)])
        except (TableWriterError, PySparkException) as error:
            said = str(error)
        else:
            assert result.version == 2
    assert killed == [step]
    after = {(2, "n2", "d1")}
    assert content(orders) == (before if said else after)
    server.restart()
    other = connect(server)
    again = TableWriter(other)
    again.maintenance.recover(orders)
    assert content(orders) == (before if said else after)
    again.overwrite_partitions(other.createDataFrame([(3, "n3", "d1")], ORDERS), orders)
    assert content(orders) == {(3, "n3", "d1")}


def test_a_view_that_comes_to_mean_other_types_fails_the_job(spark: SparkSession) -> None:
    def mean(note: str) -> None:
        spark.sql(f"SELECT 1L AS id, {note} AS note").createOrReplaceTempView("changing")

    mean("'a'")
    planned = analyzed_now(spark.table("changing"))
    pinned = open_gateway(spark).with_pinned_types(planned)
    assert [tuple(row) for row in pinned.collect()] == [(1, "a")]
    mean("7")
    with pytest.raises(PySparkException, match="column 'note' was string when the write was planned, and is int"):
        open_gateway(spark).with_pinned_types(planned).collect()


def test_errors_of_the_data_are_the_failure_of_one_check(writer: TableWriter, orders: str, rows: Rows) -> None:
    bad = expression("cast(note AS INT) > 0", severity="warn")
    result = writer.append(rows((1, "a", "d1")), orders, checks=[bad, expression("id > 0")])
    assert [one.passed for one in result.checks] == [False, True]
    assert "[CAST_INVALID_INPUT]" in result.checks[0].message


def test_a_listener_is_told_and_nobody_knows_what_the_rows_are_read_from(
    spark: SparkSession, orders: str, rows: Rows
) -> None:
    told: list[TableEvent] = []
    TableWriter(spark, config=TableWriterConfig(listeners=[told.append])).append(rows((1, "a", "d1")), orders)
    assert [(one.outcome, one.rows, one.sources) for one in told] == [("published", 1, None)]
