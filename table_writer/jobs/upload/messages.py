"""The commit messages of tasks, checked against each other."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from table_writer.errors import StorageError
from table_writer.model.message import CommitMessage, CommitMessages, names_of_task
from table_writer.model.table import partition_name
from table_writer.model.upload_spec import UploadSpec


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
    names = names_of_task(spec.write_id, message.task_index, spec.file_options.file_name_prefix)
    for upload in message.uploads:
        directory = partition_name(spec.partition_columns, upload.partition_values)
        prefix = f"{spec.key_prefix}{directory}/" if directory else spec.key_prefix
        if not upload.key.startswith(f"{prefix}{names}") or "/" in upload.key.removeprefix(prefix):
            raise StorageError(f"{upload.key} is not a file of partition {directory!r}", write_id=spec.write_id)
