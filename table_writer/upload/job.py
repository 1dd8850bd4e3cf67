"""Run the tasks on Spark, and believe their messages only after checking them against each other."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from pyspark.sql import DataFrame, Row

from table_writer.errors import StorageError
from table_writer.model.message import CommitMessage, CommitMessages
from table_writer.model.table import partition_name
from table_writer.model.upload_spec import UploadSpec
from table_writer.progress import current
from table_writer.spark import open_gateway
from table_writer.upload.task import MESSAGE_COLUMN, MESSAGE_SCHEMA, map_function


class Uploader:
    """Uploads a DataFrame's rows as files that nobody has completed."""

    def upload(self, rows: DataFrame, spec: UploadSpec) -> CommitMessages:
        """Run one Spark job; afterwards all parts of all files are on the store and no object exists.

        ``rows`` has the data columns with the table's types, then the partition columns as strings. There is one
        message per task, from exactly one attempt of it, in the order of the tasks. Raises what an executor raised, a
        ``StorageError`` for messages that contradict each other, and lets failures of the DataFrame's own code pass
        through. Uploads may be left under ``spec.key_prefix``.
        """
        current().name(spec.write_id)
        spark = open_gateway(rows.sparkSession)
        spark.prepare_executors()
        numbered = rows.toDF(*(f"c{number}" for number in range(len(rows.columns))))  # PySpark trips over dots in names
        job = numbered.mapInArrow(map_function(spec), MESSAGE_SCHEMA)

        def collect() -> list[Row]:
            with spark.batches_of(spec.batch_rows):
                return job.collect()

        collected = spark.run(spec.write_id, collect)
        return check_messages([row[MESSAGE_COLUMN] for row in collected], spec)


def check_messages(sent: Iterable[bytes | bytearray], spec: UploadSpec) -> CommitMessages:
    """Return the messages in the order of their tasks.

    A ``StorageError`` says that a task is missing or there twice, or that a file is not where files of this write are.
    """
    by_task: list[tuple[int, bytes | bytearray]] = []
    for data in sent:
        message = CommitMessage.from_bytes(data)
        _require_places(message, spec)
        by_task.append((message.task_index, data))
    by_task.sort(key=itemgetter(0))
    indices = [task_index for task_index, _ in by_task]
    if indices != list(range(len(indices))):
        raise StorageError(f"tasks did not answer exactly once each: {indices}", write_id=spec.write_id)
    return CommitMessages(tuple(data for _, data in by_task))


def _require_places(message: CommitMessage, spec: UploadSpec) -> None:
    """Refuse a file that is not in its partition's directory; what is named by another task is no message at all."""
    if message.write_id != spec.write_id:
        raise StorageError(f"a task answered for write {message.write_id}", write_id=spec.write_id)
    for upload in message.uploads:
        directory = partition_name(spec.partition_columns, upload.partition_values)
        prefix = f"{spec.key_prefix}{directory}/" if directory else spec.key_prefix
        if not upload.key.startswith(prefix) or "/" in upload.key.removeprefix(prefix):
            raise StorageError(f"{upload.key} is not a file of partition {directory!r}", write_id=spec.write_id)
