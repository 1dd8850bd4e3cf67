"""The Spark job, on S3 over HTTP."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import functions as F  # noqa: N812 - as Spark documents it

from table_writer.errors import InvalidInputError, TableWriterError
from table_writer.jobs.upload.job import run_upload
from table_writer.model.table import NULL_PARTITION
from table_writer.model.upload_spec import BatchLimits
from table_writer.spark.classic import run_interruptibly
from table_writer.storage.object_store import open_store
from table_writer.storage.request_settings import RequestSettings
from table_writer.storage.s3.settings import S3Settings, StaticKeys


@pytest.fixture
def settings(lakehouse):
    server = lakehouse.s3_server
    return S3Settings(
        bucket=lakehouse.bucket,
        endpoint_url=server.endpoint_url,
        region="us-east-1",
        path_style=True,
        credentials=(StaticKeys(access_key=server.access_key, secret_key=server.secret_key),),
    )


def rows_of(lakehouse, values, *, count=1000, tasks=3):
    chosen = F.element_at(F.array(*map(F.lit, values)), (F.col("id") % len(values) + 1).cast("int"))
    return lakehouse.spark.range(0, count, 1, tasks).select("id", F.lit("x").alias("name"), chosen.alias("dt"))


def test_no_object_exists_until_the_uploads_are_completed(lakehouse, settings, spec):
    chosen = spec(store=settings, key_prefix="test_job/w1/")
    messages = run_upload(rows_of(lakehouse, ["a", "b"]), chosen)
    store = open_store(settings)
    assert list(store.list(chosen.key_prefix)) == []
    assert [message.task_index for message in messages] == [0, 1, 2]
    for message in messages:
        assert sum(count for _, count in message.requests) == 2 * len(message.uploads) == 4
        for upload in message.uploads:
            store.complete_upload(upload.key, upload.upload_id, upload.parts)
    back = lakehouse.spark.read.parquet(f"s3a://{lakehouse.bucket}/{chosen.key_prefix}")
    assert back.groupBy("dt").count().orderBy("dt").collect() == [("a", 500), ("b", 500)]


MODULES = 20_000  # objects: PyArrow and boto3 have many more


def test_what_a_worker_has_loaded_is_hidden_from_the_collection_that_spark_runs_before_its_next_task(
    lakehouse, settings, spec
):
    def count(batches):
        rows = sum(batch.num_rows for batch in batches)
        yield pa.RecordBatch.from_pydict(
            {"rows": [rows], "hidden": [gc.get_freeze_count()], "seen": [len(gc.get_objects())]}
        )

    for _ in range(2):  # two workers, each of which has had a task of ours
        run_upload(rows_of(lakehouse, ["a"], tasks=4), spec(store=settings, key_prefix="test_job/hidden/w1/"))
    found = lakehouse.spark.range(0, 8, 1, 4).mapInArrow(count, "rows long, hidden long, seen long").collect()
    assert max(row["hidden"] for row in found) > MODULES, found  # without it nothing is


def test_hostile_values_come_back_as_they_were(lakehouse, settings, spec):
    values = ["a/b", "..", "%2F", "x=y", "\x01\x7f", "ä€😀", " ", "'\"", "{}[]^", "", "{now}"]
    chosen = spec(store=settings, key_prefix="test_job/hostile/w1/")
    messages = run_upload(rows_of(lakehouse, values), chosen)
    found = {upload.partition_values[0] for message in messages for upload in message.uploads}
    assert found == {value or NULL_PARTITION for value in values}
    assert len({upload.key for message in messages for upload in message.uploads}) == 3 * len(values)
    store = open_store(settings)
    for message in messages:
        for upload in message.uploads:
            store.abort_upload(upload.key, upload.upload_id)
    assert list(store.list_uploads(chosen.key_prefix)) == []


def test_a_dataframe_without_rows_uploads_nothing(lakehouse, settings, spec):
    empty = rows_of(lakehouse, ["a"]).where("id < 0")
    assert sum(message.row_count for message in run_upload(empty, spec(store=settings))) == 0
    nothing = lakehouse.spark.createDataFrame([], "id long, name string, dt string")
    assert sum(message.row_count for message in run_upload(nothing, spec(store=settings))) == 0


def test_a_key_that_s3_refuses_names_the_partition_on_the_driver(lakehouse, settings, spec):
    chosen = spec(store=settings, key_prefix="test_job/long/w1/")
    with pytest.raises(InvalidInputError, match="partition 'dt=xxx") as caught:
        run_upload(rows_of(lakehouse, ["a", "x" * 1100]), chosen)
    assert isinstance(caught.value.__cause__, PythonException)
    assert list(open_store(settings).list_uploads(chosen.key_prefix)) == []


def test_a_store_that_cannot_be_reached_is_our_error(lakehouse, settings, spec):
    nowhere = replace(settings, endpoint_url="http://127.0.0.1:9", requests=RequestSettings(max_attempts=1))
    with pytest.raises(TableWriterError) as caught:
        run_upload(rows_of(lakehouse, ["a"], tasks=1), spec(store=nowhere))
    assert caught.value.write_id == "w1"


@pytest.mark.slow
def test_a_failing_udf_passes_unchanged(lakehouse, settings, spec, caplog):
    def fail(row):
        raise ZeroDivisionError(f"row {row}")

    rows = rows_of(lakehouse, ["a"]).withColumn("id", F.udf(fail, "long")("id"))
    with pytest.raises(PythonException, match="ZeroDivisionError: row"):
        run_upload(rows, spec(store=settings))
    assert caplog.text == ""


def test_ctrl_c_ends_the_tasks_before_it_returns(lakehouse, caplog):
    context = lakehouse.spark.sparkContext

    def slow(row):
        time.sleep(0.05)
        return row

    rows = lakehouse.spark.range(0, 20_000, 1, 2).withColumn("id", F.udf(slow, "long")("id"))

    def interrupt_when_running() -> None:
        while not context.statusTracker().getActiveStageIds():
            time.sleep(0.1)
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt_when_running, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        run_interruptibly(context, lambda: rows.write.format("noop").mode("overwrite").save(), tag="test-interrupt")
    assert list(context.statusTracker().getActiveStageIds()) == []
    assert caplog.text == ""
    assert lakehouse.spark.range(5).count() == 5


@pytest.mark.parametrize(
    "column",
    [
        lambda value: value,
        lambda value: value.cast("binary"),
        lambda value: F.array(F.lit("x"), value, F.lit(None)),
        lambda value: F.create_map(value, F.lit(1)),
        lambda value: F.create_map(F.lit(1), F.array(value)),
        lambda value: F.struct(F.struct(value.alias("a b")).alias("c")),
        lambda value: F.array(F.struct(value.alias("a"), F.lit(1).alias("b"))),
        lambda value: F.array_repeat(F.lit(1), F.length(value)),
    ],
    ids=["text", "binary", "array", "key", "value", "struct", "array of structs", "numbers"],
)
def test_a_row_that_is_wider_than_the_batches_are_made_for_ends_the_job_and_all_are_uploaded_by_another(
    lakehouse, settings, spec, column, caplog
):
    def written(count, name):
        wide = column(F.repeat(F.lit("ä"), 40_000))  # 80,000 bytes
        first = F.when(F.col("id") < count, wide).otherwise(column(F.lit("x")))
        rows = lakehouse.spark.range(0, 1_000, 1, 2).select("id", first.alias("name"), F.lit("d").alias("dt"))
        with_null = rows.withColumn("name", F.when(F.col("id") != 500, F.col("name")))
        chosen = spec(store=settings, key_prefix=f"test_job/{name}/w1/", batches=BatchLimits(500, 70_000))
        messages = run_upload(with_null, chosen)
        return sum(message.row_count for message in messages)

    with caplog.at_level("INFO", logger="table_writer"):
        assert written(0, "narrow") == 1_000
        assert "uploaded again" not in caplog.text
        assert written(1, "wide") == 1_000
    assert "a row has over 70,000 bytes" in caplog.text


def test_rows_that_are_narrow_together_pass(lakehouse, settings, spec, caplog):
    rows = rows_of(lakehouse, ["d"]).withColumn("name", F.repeat(F.lit("x"), 69_000))
    chosen = spec(store=settings, key_prefix="test_job/together/w1/", batches=BatchLimits(500, 70_000))
    with caplog.at_level("INFO", logger="table_writer"):
        assert sum(message.row_count for message in run_upload(rows, chosen)) == 1_000
    assert "uploaded again" not in caplog.text
