"""How files of Spark's own writer get their names on S3A: without a copy, or the result says what it cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from table_writer import Maintenance, TableWriter, TableWriterConfig
from table_writer.testing import Lakehouse

from .test_kills import kill_a_writer
from .watched import Seen, requests_to

Make = Callable[..., str]
Look = Callable[[str], Seen]
Content = Callable[[str], set[tuple[Any, ...]]]

DDL = "CREATE TABLE {name} (id BIGINT, note STRING, dt STRING) USING %s PARTITIONED BY (dt)"
WITHOUT = TableWriterConfig(hadoop={"fs.s3a.committer.magic.enabled": "false"})
KILLED = Path(__file__).with_name("killed_spark_engine.py")


@pytest.fixture
def many(spark: SparkSession) -> DataFrame:
    """Eight files of two partitions, by four tasks."""
    return spark.range(0, 40, 1, 4).selectExpr("id", "concat('n', id) AS note", "concat('d', id % 2) AS dt")


@pytest.fixture
def said(spark: SparkSession) -> Iterator[dict[str, str]]:
    """All settings of the session, and the proof that the test has changed none."""

    def settings() -> dict[str, str]:
        hadoop = spark._jsparkSession.sessionState().newHadoopConf()
        entries = (
            entry for prefix in ("fs.s3a.", "mapreduce.") for entry in hadoop.getPropsWithPrefix(prefix).entrySet()
        )
        return {entry.getKey(): entry.getValue() for entry in entries} | {
            row[0]: row[1] for row in spark.sql("SET").collect()
        }

    before = settings()
    yield before
    assert settings() == before


def copies(sent: list[tuple[str, str]]) -> list[str]:
    """Objects under data that were put whole: Spark sends a file so once, and a rename once more."""
    return [path for method, path in sent if method == "PUT" and "/part-" in path and "?" not in path]


@pytest.mark.parametrize("kind", ["orc", "csv", "parquet"])
def test_a_file_gets_its_name_by_the_end_of_its_upload_and_the_session_never_hears_of_it(
    kind: str,
    writer: TableWriter,
    make_table: Make,
    many: DataFrame,
    look: Look,
    said: dict[str, str],
    lakehouse: Lakehouse,
) -> None:
    table = make_table(DDL % kind)
    with requests_to(lakehouse) as sent:
        result = writer.overwrite_partitions(many, table, engine="spark")
    named = [path for path in copies(sent) if "__magic" not in path]
    assert named == [], "nothing was put or copied under a file's own name"
    assert len({path for method, path in sent if method == "POST" and "uploadId=" in path}) == 8
    assert result.notes == ()
    assert said["committer.name"] == "file"
    assert_nothing_but_files(look(table), kind, 8)


def test_without_the_magic_committer_the_result_says_what_it_cost_and_what_helps(
    spark: SparkSession, make_table: Make, many: DataFrame, look: Look, said: dict[str, str], lakehouse: Lakehouse
) -> None:
    table = make_table(DDL % "orc")
    with requests_to(lakehouse) as sent:
        result = TableWriter(spark, config=WITHOUT).overwrite_partitions(many, table)
    assert len(copies(sent)) == 24, "each file is put once, and copied at the end of its task and of the job"
    (note,) = result.notes
    assert "so S3 copies each file twice" in note
    assert "spark.hadoop.fs.s3a.committer.magic.enabled=true" in note
    assert said["committer.name"] == "file"
    assert_nothing_but_files(look(table), "orc", 8)


def assert_nothing_but_files(seen: Seen, kind: str, count: int) -> None:
    data = {key for key in seen.objects if "/_table_writer/data/" in key}
    assert len(data) == count
    assert all(key.endswith(f".{kind}") and "/_table_writer/data/" in key for key in data)
    assert not any("__magic" in key or "_temporary" in key for key in seen.objects)
    assert seen.uploads == frozenset()


def test_a_parquet_table_of_arrow_has_nothing_to_tell(spark: SparkSession, make_table: Make, many: DataFrame) -> None:
    table = make_table(DDL % "parquet")
    assert TableWriter(spark, config=WITHOUT).overwrite_partitions(many, table).notes == ()


def test_what_the_user_observes_and_has_named_is_heard_and_meant_as_ever(
    spark: SparkSession, writer: TableWriter, make_table: Make, many: DataFrame, content: Content
) -> None:
    table = make_table(DDL % "orc")
    seen = Observation()
    many.where("id < 3").createOrReplaceTempView("named_rows")
    rows = spark.table("named_rows").observe(seen, F.count(F.lit(1)).alias("count"))
    many.createOrReplaceTempView("named_rows")
    try:
        writer.overwrite_partitions(rows, table)
    finally:
        spark.catalog.dropTempView("named_rows")
    heard: list[dict[str, Any]] = []
    waiting = Thread(target=lambda: heard.append(seen.get), daemon=True)  # for ever, if nobody tells it
    waiting.start()
    waiting.join(20)
    assert heard == [{"count": 3}]
    assert {number for number, *_ in content(table)} == {0, 1, 2}


def test_a_task_that_fails_leaves_no_upload_open(
    spark: SparkSession, writer: TableWriter, make_table: Make, many: DataFrame, look: Look
) -> None:
    @F.udf("string")
    def broken(number):
        if number == 39:
            raise LookupError(f"no such {number}")
        return "x"

    table = make_table(DDL % "orc")
    before = look(table)
    with pytest.raises(PythonException, match="no such 39"):
        writer.overwrite_partitions(many.withColumn("note", broken("id")), table)
    after = look(table)
    assert after.uploads == frozenset()
    assert not [key for key in after.objects.keys() - before.objects.keys() if "/data/" in key]


@pytest.mark.slow  # Spark of its own
def test_what_a_killed_job_leaves_is_deleted_by_a_vacuum(
    spark: SparkSession,
    writer: TableWriter,
    make_table: Make,
    many: DataFrame,
    look: Look,
    keeper: Maintenance,
    content: Content,
    tmp_path: Path,
) -> None:
    table = make_table(DDL % "orc")
    writer.overwrite_partitions(many, table)
    before, rows = look(table), content(table)
    kill_a_writer(spark, table, "after the first task", tmp_path, KILLED)
    killed = look(table)
    assert killed.uploads, "the first task has sent its files and completed none"
    assert any("__magic" in key for key in killed.objects)
    assert content(table) == rows
    keeper.vacuum(table, older_than=timedelta(0), force=True)
    after = look(table)
    assert after.uploads == frozenset()
    assert {key for key in after.objects if "/data/" in key} == {key for key in before.objects if "/data/" in key}
    assert content(table) == rows
