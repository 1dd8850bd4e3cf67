"""Uploads completed by executors: once or twice, failed, and interrupted."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from table_writer.errors import StorageError
from table_writer.jobs.complete import Completer, Spread
from table_writer.model.message import CommitMessage, CommitMessages, PendingUpload, names_of_task
from table_writer.spark import open_gateway
from table_writer.spark.executors import ITEMS_PER_TASK, TASKS_PER_JOB, Executors, jobs
from table_writer.storage.local.settings import LocalSettings
from table_writer.storage.local.store import LocalStore
from table_writer.storage.object_store import ObjectStore
from table_writer.storage.s3.settings import S3Settings, StaticKeys
from table_writer.storage.worker import completer
from table_writer.testing import Lakehouse
from table_writer.testing.memory_store import MemoryStore

WRITE_ID = "20240101-cafe"
FILES = ITEMS_PER_TASK + 20


def pending(store: ObjectStore, prefix: str, count: int) -> CommitMessages:
    uploads = []
    for number in range(count):
        key = f"{prefix}dt=a/{names_of_task(WRITE_ID, 0)}{number}"
        upload_id = store.create_upload(key)
        part = store.upload_part(key, upload_id, 1, b"rows")
        uploads.append(
            PendingUpload(
                key=key, upload_id=upload_id, parts=(part,), size_bytes=4, row_count=1, partition_values=("a",)
            )
        )
    message = CommitMessage(write_id=WRITE_ID, task_index=0, attempt_id=0, row_count=count, uploads=tuple(uploads))
    return CommitMessages((message.to_bytes(),))


def on_executors(
    spark: SparkSession, counts: Counter[str], settings: LocalSettings | S3Settings | None = None
) -> Spread:
    return Executors(open_gateway(spark), settings or LocalSettings(), WRITE_ID, counts.update).complete


def below(path: Path) -> str:
    return f"{str(path)[1:]}/data/{WRITE_ID}/"


def test_executors_complete_every_upload_and_the_driver_counts_their_requests(
    lakehouse: Lakehouse, tmp_path: Path
) -> None:
    store, counts, prefix = LocalStore(), Counter[str](), below(tmp_path)
    sent = pending(store, prefix, FILES)
    Completer(store, threads=2, many=1).complete(WRITE_ID, prefix, sent, on_executors(lakehouse.spark, counts))
    assert len(list(store.list(prefix))) == FILES
    assert list(store.list_uploads(prefix)) == []
    assert counts["CompleteMultipartUpload"] == FILES


def test_one_upload_that_cannot_be_completed_undoes_the_write(lakehouse: Lakehouse, tmp_path: Path) -> None:
    store, prefix = LocalStore(), below(tmp_path)
    sent = pending(store, prefix, 20)
    victim = next(iter(sent)).uploads[13]
    store.abort_upload(victim.key, victim.upload_id)
    with pytest.raises(StorageError, match="is gone") as caught:
        Completer(store, threads=2, many=1).complete(WRITE_ID, prefix, sent, on_executors(lakehouse.spark, Counter()))
    assert caught.value.write_id == WRITE_ID
    assert list(store.list(prefix)) == []
    assert list(store.list_uploads(prefix)) == []


def test_a_job_that_spark_itself_ends_is_an_error_of_ours(lakehouse: Lakehouse) -> None:
    """As when executors are lost again and again, or somebody cancels the job in Spark's UI."""

    def fail(_: Iterable[int]) -> Iterator[tuple[Mapping[str, int], None]]:
        raise MemoryError("no room")

    executors = Executors(open_gateway(lakehouse.spark), LocalSettings(), WRITE_ID, Counter[str]().update)
    with pytest.raises(StorageError, match="run the write again") as caught:
        executors.run([1], fail, task_count=1)
    assert caught.value.write_id == WRITE_ID


def shares_of(sent: CommitMessages) -> list[bytes]:
    (shares,) = jobs(upload for message in sent for upload in message.uploads)
    return shares


def test_a_driver_packs_no_more_than_one_job_s_uploads_at_a_time() -> None:
    taken = 0

    def uploads() -> Iterator[PendingUpload]:
        nonlocal taken
        (message,) = pending(MemoryStore(), "", 1)
        for taken in range(1, TASKS_PER_JOB * ITEMS_PER_TASK + 2):  # noqa: B007 - counted for the assertion
            yield message.uploads[0]

    each = jobs(uploads())
    assert len(next(each)) == TASKS_PER_JOB
    assert taken == TASKS_PER_JOB * ITEMS_PER_TASK
    assert len(next(each)) == 1
    assert next(each, None) is None


def test_a_task_that_fails_half_way_is_run_again_and_completes_the_rest(tmp_path: Path) -> None:
    store, prefix = LocalStore(), below(tmp_path)
    sent = pending(store, prefix, 40)
    in_the_way = Path(f"/{next(iter(sent)).uploads[20].key}")
    in_the_way.mkdir(parents=True)
    (in_the_way / "not empty").touch()
    task = completer(LocalSettings())
    with pytest.raises(StorageError):
        list(task(shares_of(sent)))
    (in_the_way / "not empty").unlink()
    in_the_way.rmdir()
    assert len(list(store.list(prefix))) < 40
    for _ in range(2):  # speculation runs a task twice
        list(task(shares_of(sent)))
        assert len(list(store.list(prefix))) == 40
    assert list(store.list_uploads(prefix)) == []


@pytest.fixture
def silent_server() -> Iterator[tuple[str, threading.Event]]:
    """Takes connections and never answers."""
    asked, held = threading.Event(), []

    def accept() -> None:
        while True:
            try:
                held.append(server.accept()[0])
            except OSError:  # closed: the test is over
                return
            asked.set()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", asked
        server.shutdown(socket.SHUT_RDWR)
    for connection in held:
        connection.close()


def test_ctrl_c_ends_the_tasks_and_undoes_the_write(
    lakehouse: Lakehouse, silent_server: tuple[str, threading.Event]
) -> None:
    endpoint, asked = silent_server
    settings = S3Settings(
        bucket="lake",
        endpoint_url=endpoint,
        region="us-east-1",
        path_style=True,
        credentials=(StaticKeys(access_key="test", secret_key="test"),),
    )
    store, prefix = MemoryStore(), f"mart/data/{WRITE_ID}/"
    sent = pending(store, prefix, 20)
    context = lakehouse.spark.sparkContext

    def interrupt_when_asked() -> None:
        asked.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt_when_asked, daemon=True).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        Completer(store, threads=2, many=1).complete(
            WRITE_ID, prefix, sent, on_executors(lakehouse.spark, Counter(), settings)
        )
    assert asked.is_set()
    assert time.monotonic() - started < 60
    assert list(context.statusTracker().getActiveStageIds()) == []
    assert list(store.list("")) == []
    assert list(store.list_uploads("mart/")) == []
