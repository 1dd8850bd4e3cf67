"""Run the tasks on Spark, and believe their messages only after checking them against each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pyspark.sql import DataFrame

from table_writer.errors import StorageError
from table_writer.model.message import CommitMessage
from table_writer.model.partition_name import partition_name
from table_writer.model.upload_spec import UploadSpec
from table_writer.upload.failures import translated
from table_writer.upload.interrupt import run_interruptibly
from table_writer.upload.shipping import prepare_executors
from table_writer.upload.task import MESSAGE_COLUMN, MESSAGE_SCHEMA, map_function

__all__ = ["Uploader", "check_messages"]


class Uploader:
    """Uploads a DataFrame's rows as files that nobody has completed."""

    def upload(self, rows: DataFrame, spec: UploadSpec) -> tuple[CommitMessage, ...]:
        """Run one Spark job; afterwards all parts of all files are on the store and no object exists.

        Parameters
        ----------
        rows
            The data columns with the table's types, then the partition columns as strings.
        spec
            What the executors need.

        Returns
        -------
        tuple of CommitMessage
            One per task, from exactly one attempt of it, in the order of the tasks.

        Raises
        ------
        StorageError, InvalidInputError, PartitionExistsError
            As raised on an executor; or messages that contradict each other. Other failures of the DataFrame's own
            code pass through. Uploads may be left under ``spec.key_prefix``.
        """
        context = rows.sparkSession.sparkContext
        prepare_executors(context)
        numbered = rows.toDF(*(f"c{number}" for number in range(len(rows.columns))))  # PySpark trips over dots in names
        job = numbered.mapInArrow(map_function(spec), MESSAGE_SCHEMA)
        with translated(spec.write_id):
            collected = run_interruptibly(context, job.collect, tag=f"table_writer-{spec.write_id}")
        messages = [CommitMessage.from_bytes(bytes(row[MESSAGE_COLUMN])) for row in collected]
        return check_messages(messages, spec)


def check_messages(messages: Sequence[CommitMessage], spec: UploadSpec) -> tuple[CommitMessage, ...]:
    """Return the messages in the order of their tasks.

    Raises
    ------
    StorageError
        A task is missing or there twice, or a file is not where files of this write are.
    """
    for message in messages:
        message.validate()
        if message.write_id != spec.write_id:
            raise StorageError(f"a task answered for write {message.write_id}", write_id=spec.write_id)
        for upload in message.uploads:
            directory = partition_name(spec.partition_columns, upload.partition_values)
            prefix = f"{spec.key_prefix}{directory}/" if directory else spec.key_prefix
            if not upload.key.startswith(prefix) or "/" in upload.key.removeprefix(prefix):
                raise StorageError(f"{upload.key} is not a file of partition {directory!r}", write_id=spec.write_id)
    ordered = tuple(sorted(messages, key=lambda message: message.task_index))
    indices = [message.task_index for message in ordered]
    if indices != list(range(len(ordered))):
        raise StorageError(f"tasks did not answer exactly once each: {indices}", write_id=spec.write_id)
    keys = Counter(upload.key for message in messages for upload in message.uploads)
    twice = [key for key, count in keys.items() if count > 1]
    if twice:
        raise StorageError(f"two tasks wrote {twice[0]}", write_id=spec.write_id)
    return ordered
