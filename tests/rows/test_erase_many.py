"""One erasure in many tables: each is looked through or named, and the certificates are of one predicate."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from table_writer import InvalidInputError, Maintenance, TableWriter, TableWriterConfig
from table_writer.cli.main import main
from table_writer.jobs.run import Steps
from table_writer.many import round as round_of_tables
from table_writer.testing import Lakehouse
from tests.rows.conftest import Listed

WHERE = "user_id = 7"
MakeTable = Callable[..., str]


@pytest.fixture
def database(make_table: MakeTable, spark: SparkSession, writer: TableWriter, lakehouse_database: str) -> str:
    """Make a database with every kind of table that an erasure meets."""
    columns = "(user_id BIGINT, note STRING, dt STRING)"
    for name, ids in {"visits": (7, 8), "orders": (7, 7, 9), "returns": (8,)}.items():
        table = make_table(f"CREATE TABLE {{name}} {columns} USING parquet PARTITIONED BY (dt)", name)
        frame = spark.createDataFrame(
            [(id_, "n", f"d{at}") for at, id_ in enumerate(ids)], "user_id BIGINT, note STRING, dt STRING"
        )
        writer.overwrite_partitions(frame, table)
    make_table("CREATE TABLE {name} (id BIGINT, payload STRUCT<user_id: BIGINT>) USING parquet", "products")
    products = spark.sql("SELECT 1L AS id, named_struct('user_id', 7L) AS payload")
    writer.overwrite_table(products, f"{lakehouse_database}.products")
    make_table("CREATE TABLE {name} (user_id BIGINT) USING parquet", "of_others")
    spark.sql(f"INSERT INTO {lakehouse_database}.of_others SELECT 7L")
    return lakehouse_database


def test_each_table_is_erased_or_named_and_one_hash_is_of_all(
    database: str, writer: TableWriter, listed: Listed
) -> None:
    found = writer.erase_many(WHERE, database=database, dry_run=True)
    assert {one.table: one.report.deleted for one in found.results} == {
        f"{database}.orders": 2,
        f"{database}.returns": 0,
        f"{database}.visits": 1,
    }
    assert (found.found_nothing, found.is_complete, found.predicate_salt, found.dry_run) == (False, False, "", True)
    assert "dry run" in found.to_text()
    assert len(listed(f"{database}.orders")) == 3

    report = writer.erase_many(WHERE, database=database)
    certificates = {one.table.partition(".")[2]: one.report for one in report.results}
    assert {name: one.deleted_rows for name, one in certificates.items()} == {"orders": 2, "returns": 0, "visits": 1}
    assert certificates["orders"].due > 0
    assert not report.is_complete
    assert report.passed_over == {f"{database}.products": "it has none of the columns that the predicate names"}
    assert report.others_count == 1
    [digest] = {one.predicate_sha256 for one in certificates.values()}
    assert digest == hashlib.sha256(f"{report.predicate_salt}{WHERE}".encode()).hexdigest()
    assert WHERE not in report.to_json()
    assert [user_id for user_id, *_ in listed(f"{database}.orders")] == [9]
    text = report.to_text()
    assert f"passed over: {database}.products: it has none of the columns that the predicate names" in text
    assert f"nothing found in {database}.returns" in text
    assert f"--predicate-sha256 {digest}` certifies that they are gone" in text
    assert f"predicate's salt, which is stored nowhere: {report.predicate_salt}" in text

    writer.maintenance.vacuum_many(database=database)
    erased = [f"{database}.{name}" for name in ("orders", "returns", "visits")]
    later = writer.maintenance.erasure_many(erased, predicate_sha256=digest)
    assert (later.is_complete, later.found_nothing) == (True, False)
    of_all = writer.maintenance.erasure_many(database=database, predicate_sha256=digest)
    assert not of_all.is_complete
    assert of_all.not_looked_through == {f"{database}.products": "its log has no such erasure"}
    another = writer.maintenance.erasure_many(database=database, predicate_sha256="0" * 64)
    assert (another.results, another.is_complete, another.found_nothing) == ((), False, False)
    with pytest.raises(InvalidInputError, match="no erasure"):
        raise _errors(writer.maintenance.erasure_many([f"{database}.products"]))[0]


def _errors(report: Any) -> list[BaseException]:
    return [one.error for one in report.failed]


def test_a_second_call_with_the_same_salt_goes_on(database: str, writer: TableWriter) -> None:
    first = writer.erase_many(WHERE, [f"{database}.orders"])
    again = writer.erase_many(WHERE, database=database, salt=first.predicate_salt)
    hashes = {one.report.predicate_sha256 for report in (first, again) for one in report.results}
    assert (len(hashes), again.predicate_salt) == (1, first.predicate_salt)
    assert {one.table: one.report.deleted_rows for one in again.results}[f"{database}.orders"] == 0


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (InvalidInputError("no route"), "no route"),
        (PySparkException("[CAST_INVALID_INPUT] The value 'ann@example.org' of"), r"its rows: \[CAST_INVALID_INPUT]"),
        (RuntimeError("ann@example.org"), "its rows: RuntimeError"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_table_that_fails_stops_no_other_is_not_certified_and_shows_no_value(
    database: str, writer: TableWriter, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    erase = Steps.erase

    def failing(self: Steps, table: str, *words: Any, **named: Any) -> Any:
        if table.endswith("orders"):
            raise error
        return erase(self, table, *words, **named)

    monkeypatch.setattr(Steps, "erase", failing)
    report = writer.erase_many(WHERE, database=database)
    assert [one.table for one in report.failed] == [f"{database}.orders"]
    assert (report.is_complete, report.found_nothing) == (False, False)
    assert re.search(f"FAILED: {database}.orders: .*{told}", report.to_text())
    assert "ann@example" not in f"{report.to_text()} {report.to_json()}"


REFUSED = {
    "user_id =": "SYNTAX",
    "sum(user_id) > 1": "AGGREGATE|GROUP",
    "user_id": "not boolean",
    "user = 'root'": "about other rows each time",  # a function, where no column has the name
    "user_id IN (SELECT 7)": "asks another table",
    "user_id = 'ann@example.org'": "CAST_INVALID_INPUT",
    "named_struct('user_id', user_id)": "cannot ask|not boolean",
}


@pytest.mark.parametrize("where", REFUSED)
def test_a_predicate_that_cannot_be_asked_fails_in_each_table_and_is_not_repeated(
    database: str, writer: TableWriter, listed: Listed, where: str
) -> None:
    told: list[Any] = []
    listening = TableWriter(writer._spark, config=TableWriterConfig(listeners=[told.append]))
    report = listening.erase_many(where, [f"{database}.orders"])
    with pytest.raises(InvalidInputError, match=REFUSED[where]):
        raise _errors(report)[0]
    assert len(listed(f"{database}.orders")) == 3
    assert not report.is_complete
    for text in (report.to_json(), repr(told)):
        assert where not in text
        assert "ann@example" not in text


@pytest.mark.parametrize("where", ["nobody = 7", "note = ann", "1 = 1", "orders.user_id2 = 7"])
def test_a_predicate_that_names_no_columns_of_any_table_does_nothing(
    database: str, writer: TableWriter, listed: Listed, where: str
) -> None:
    with pytest.raises(InvalidInputError, match="nothing was done: no table") as refused:
        writer.erase_many(where, database=database)
    assert "ann" not in str(refused.value)
    assert len(listed(f"{database}.orders")) == 3


def test_what_may_hold_such_rows_and_was_not_asked_keeps_it_from_being_complete(
    database: str, writer: TableWriter, spark: SparkSession, make_table: MakeTable
) -> None:
    wide = make_table("CREATE TABLE {name} (user_id BIGINT, customer_id BIGINT) USING parquet", "wide")
    writer.overwrite_table(spark.sql("SELECT 7L AS user_id, 8L AS customer_id"), wide)
    half = writer.erase_many("user_id = 7 OR customer_id = 7", database=database)
    assert set(half.not_looked_through) == {f"{database}.{name}" for name in ("orders", "returns", "visits")}
    writer.maintenance.vacuum_many(database=database)
    assert not writer.maintenance.erasure_many([wide]).not_looked_through
    without = spark.sql("SELECT 8L AS customer_id")
    writer.overwrite_table(without, wide, schema="replace")
    later = writer.erase_many("user_id = 7", database=database)
    assert "older versions had other columns" in later.not_looked_through[wide]
    assert not later.is_complete
    assert "NOT LOOKED THROUGH" in later.to_text()


def test_a_staged_write_with_such_rows_is_named_where_nothing_else_was_found(
    database: str, writer: TableWriter, spark: SparkSession
) -> None:
    rows = spark.createDataFrame([(7, "n", "d9")], "user_id BIGINT, note STRING, dt STRING")
    staged = writer.stage(rows, f"{database}.returns")
    report = writer.erase_many(WHERE, database=database)
    writer.maintenance.vacuum_many(database=database)
    later = writer.maintenance.erasure_many([one.table for one in report.results])
    assert not later.is_complete
    assert f"{database}.returns: NOT ERASED: write {staged.write_id}" in later.to_text()


def test_a_table_that_is_gone_when_its_turn_comes_is_named(
    database: str, writer: TableWriter, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    erase = Steps.erase

    def renaming(self: Steps, table: str, *words: Any, **named: Any) -> Any:
        if table.endswith("orders"):
            spark.sql(f"ALTER TABLE {database}.visits RENAME TO {database}.zz")
        return erase(self, table, *words, **named)

    monkeypatch.setattr(Steps, "erase", renaming)
    monkeypatch.setattr("table_writer.many.erase.AT_ONCE", 1)
    report = writer.erase_many(WHERE, database=database)
    assert "since it was listed" in report.not_looked_through[f"{database}.visits"]
    assert not report.is_complete
    choose = round_of_tables.choose

    def late(*words: Any) -> Any:
        choice = choose(*words)
        spark.sql(f"ALTER TABLE {database}.returns RENAME TO {database}.yy")
        return choice

    monkeypatch.setattr("table_writer.many.round.choose", late)
    alone = writer.erase_many("note = ann OR user_id = 9", database=database)
    assert "since it was listed" in alone.not_looked_through[f"{database}.returns"]


def test_at_a_prompt_it_prints_the_certificate_and_its_exit_code_says_what_is_left(
    database: str,
    lakehouse: Lakehouse,
    writer: TableWriter,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(*words: str) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        keeper = Maintenance(services=writer._services)
        code = main(
            [*words, "--metastore-uri", lakehouse.metastore_uri, "--json"], make_maintenance=lambda *_, **__: keeper
        )
        printed: dict[str, Any] = json.loads(capsys.readouterr().out)
        return int(code), printed

    settings = tmp_path / "spark-defaults.conf"
    settings.write_text("spark.sql.shuffle.partitions 1\n")
    words = ("erase", "--database", database, "--where", WHERE)
    assert run(*words, "--spark-conf", str(settings))[1]["error"]["code"] == "invalid_input"  # a session is there
    assert run(*words, "--dry-run")[0] == 0
    code, printed = run(*words)
    assert (code, printed["is_complete"]) == (1, False)
    assert [one["exit_code"] for one in printed["results"]] == [1, 0, 1]
    assert run("vacuum", "--database", database)[0] == 0
    digest = printed["results"][0]["report"]["predicate_sha256"]
    names = [one["table"] for one in printed["results"]]
    code, printed = run("erasure", *names, "--predicate-sha256", digest)
    assert (code, printed["is_complete"], printed["predicate_salt"]) == (0, True, "")
    assert run("erasure", f"{database}.returns")[0] == 1  # it alone had no such row
    assert run("erase", f"{database}.products", "--where", WHERE)[0] == 2
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{WHERE}\n"))
    assert run("erase", f"{database}.orders", "--where", "-")[1]["found_nothing"]  # they are gone by now
    assert run("erasure", "--database", database, "--write-id", "x")[0] == 2


def test_a_process_without_a_session_starts_one(
    database: str, lakehouse: Lakehouse, spark: SparkSession, listed: Listed, tmp_path: Path
) -> None:
    wanted = ("spark.jars", "spark.driver.extraClassPath", "spark.sql.warehouse.dir", "spark.ui.enabled")
    given = {name: spark.conf.get(name, "") for name in wanted}
    lines = [f"{name} {value}" for name, value in {**given, "spark.master": "local[1]"}.items() if value]
    settings = tmp_path / "spark-defaults.conf"
    settings.write_text("\n".join(lines))
    hadoop = dict(lakehouse.s3_server.hadoop_settings())
    keys = {"AWS_ACCESS_KEY_ID": "access.key", "AWS_SECRET_ACCESS_KEY": "secret.key"}
    environment = {name: hadoop.pop(f"fs.s3a.{setting}") for name, setting in keys.items()}
    words = [*("erase", "--database", database, "--where", WHERE, "--json"), "--spark-conf", str(settings)]
    words += ["--metastore-uri", lakehouse.metastore_uri]
    words += [word for name, value in hadoop.items() for word in ("--conf", f"{name}={value}")]
    ran = subprocess.run(
        [sys.executable, "-m", "table_writer", *words],
        env={**os.environ, **environment},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout[-3000:] + ran.stderr[-3000:]  # the vacuum is to come
    assert {one["report"]["deleted_rows"] for one in json.loads(ran.stdout)["results"]} == {0, 1, 2}
    assert [user_id for user_id, *_ in listed(f"{database}.orders")] == [9]
