"""What happens to uploads on a cluster; run by ``test_on_a_cluster.py``, writes ``found.json``. Not a test by itself.

The cluster has two hosts, 127.0.0.1 and 127.0.0.2. Executors are processes of their own, in another directory, without
this package on their path.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])

import pyarrow.parquet as pq
import pyspark
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark documents it

from table_writer.errors import TableWriterError
from table_writer.jobs.upload.job import run_upload
from table_writer.model.upload_spec import ParquetOptions, UploadSpec
from table_writer.storage.local.settings import LocalSettings
from table_writer.storage.object_store import open_store

MIB = 1024 * 1024
ROWS = 24_000
TASKS = 4
store = open_store(LocalSettings())
root = Path(tempfile.mkdtemp(dir=sys.argv[2])) if __name__ == "__main__" else Path()


def spec_for(name: str) -> UploadSpec:
    return UploadSpec(
        write_id=name,
        key_prefix=f"{str(root).lstrip('/')}/{name}/",
        store=LocalSettings(),
        data_columns=("id", "payload"),
        partition_columns=("dt",),
        file_options=ParquetOptions(compression="none"),
        part_size_bytes=5 * MIB,
        buffer_bytes=2 * MIB,
        row_group_bytes=1 * MIB,
    )


def rows_with(spark: SparkSession, disturb: Callable[[int, int, int], None]) -> DataFrame:
    """Rows of 4 KB; ``disturb(partition, attempt, row)`` runs for each on the way."""

    def touch(row):
        context = TaskContext.get()
        disturb(context.partitionId(), context.attemptNumber(), row)
        return f"{row:0>4000}"

    payload = F.udf(touch, "string")(F.col("id"))
    return spark.range(0, ROWS, 1, TASKS).select("id", payload.alias("payload"), F.lit("a").alias("dt"))


def run(name: str, rows: DataFrame) -> dict[str, Any]:
    started = time.monotonic()
    spec = spec_for(name)
    found: dict[str, Any] = {}
    try:
        messages = run_upload(rows, spec)
    except (TableWriterError, Exception) as error:  # noqa: BLE001 - the scenario reports it
        found |= {"error": type(error).__name__, "text": str(error)[:2000], "cause": type(error.__cause__).__name__}
    except KeyboardInterrupt:
        found |= {"error": "KeyboardInterrupt"}
    else:
        pending = {(entry.key, entry.upload_id) for entry in store.list_uploads(spec.key_prefix)}
        ours = {(upload.key, upload.upload_id) for message in messages for upload in message.uploads}
        for message in messages:
            for upload in message.uploads:
                store.complete_upload(upload.key, upload.upload_id, upload.parts)
        ids = [row for key, _ in ours for row in pq.read_table(f"/{key}", partitioning=None)["id"].to_pylist()]
        found["tasks"] = [message.task_index for message in messages]
        found["attempts"] = [message.attempt_id for message in messages]
        found["rows_are_right"] = sorted(ids) == list(range(ROWS))
        found["delivered_are_pending"] = ours <= pending
        found["left_by_others"] = len(pending - ours)
    found["seconds"] = time.monotonic() - started
    found["uploads_after"] = len(list(store.list_uploads(spec.key_prefix)))
    return found


def fail_once(partition: int, attempt: int, row: int) -> None:
    if (partition, attempt) == (1, 0) and row % (ROWS // TASKS) == 4_500:
        raise ValueError("first attempt")


def fail_always(partition: int, attempt: int, row: int) -> None:
    if partition == 1 and row % (ROWS // TASKS) == 4_500:
        raise ZeroDivisionError("the user's own bug")


def hang_once(partition: int, attempt: int, row: int) -> None:
    if (partition, attempt) == (3, 0) and row % (ROWS // TASKS) == 5_800:
        time.sleep(120)


def lose_executor(partition: int, attempt: int, row: int) -> None:
    if (partition, attempt) == (2, 0) and row % (ROWS // TASKS) == 5_800:
        time.sleep(10)  # lets the rows before this one reach the store
        daemon = os.getppid()
        fields = Path(f"/proc/{daemon}/stat").read_text().rsplit(")", 1)[1].split()
        os.kill(int(fields[1]), signal.SIGKILL)  # the executor's Java process
        os.killpg(0, signal.SIGKILL)  # its Python workers: the one that uploads, and this one


def hang_always(partition: int, attempt: int, row: int) -> None:
    if row % (ROWS // TASKS) == 5_800:
        time.sleep(120)


def interrupt_soon() -> None:
    threading.Timer(12, os.kill, (os.getpid(), signal.SIGINT)).start()


@contextmanager
def cluster() -> Iterator[str]:
    """A master and two workers; on two hosts, since Spark runs no second attempt on the host of the first."""
    home = Path(pyspark.__file__).parent
    with ExitStack() as undo, socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
        reserved.close()

        def start(kind: str, *arguments: str) -> None:
            package = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
            command = [str(home / "bin/spark-class"), package, *arguments, "--webui-port", "0"]
            environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m"}
            process = subprocess.Popen(command, env=environment, cwd=root)
            undo.callback(process.wait)
            undo.callback(process.terminate)

        start("Master", "--host", "127.0.0.1", "--port", str(port))
        for host in ("127.0.0.1", "127.0.0.2"):
            start("Worker", "--host", host, "--cores", "1", "--memory", "1g", f"spark://127.0.0.1:{port}")
        yield f"spark://127.0.0.1:{port}"


def main() -> None:
    with cluster() as master:
        run_all(master)


def run_all(master: str) -> None:
    builder = SparkSession.builder.master(master)
    settings = {
        "spark.ui.enabled": "false",
        "spark.executor.memory": "700m",
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "90s",
        "spark.speculation": "true",
        "spark.speculation.interval": "200ms",
        "spark.speculation.minTaskRuntime": "3s",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.5",
        "spark.speculation.efficiency.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "500",
        "spark.local.dir": str(root / "spark"),
        "spark.sql.warehouse.dir": str(root / "warehouse"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    found: dict[str, Any] = {}
    try:
        found["retry"] = run("retry", rows_with(spark, fail_once))
        found["speculation"] = run("speculation", rows_with(spark, hang_once))
        found["lost executor"] = run("lost", rows_with(spark, lose_executor))
        found["users error"] = run("users", rows_with(spark, fail_always))
        long_value = F.when(F.col("id") % 6_000 == 5_999, F.repeat(F.lit("x"), 1100)).otherwise("a")
        found["our error"] = run("ours", rows_with(spark, lambda *_: None).withColumn("dt", long_value))
        interrupt_soon()
        found["interrupt"] = run("interrupt", rows_with(spark, hang_always))
        time.sleep(5)  # a Python worker takes a moment to notice that its task is gone
        before = len(list(store.list_uploads(spec_for("interrupt").key_prefix)))
        time.sleep(5)
        found["interrupt"]["uploads_later"] = len(list(store.list_uploads(spec_for("interrupt").key_prefix))) - before
        found["interrupt"]["session_works"] = spark.range(10).count() == 10
    finally:
        Path(sys.argv[2], "found.json").write_text(json.dumps(found))
        spark.stop()


if __name__ == "__main__":
    main()
