"""Commit messages: what one task attempt tells the driver about the uploads it left uncompleted."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass
from typing import Final

from table_writer.errors import StorageError
from table_writer.model.table import PartitionValues

__all__ = ["CommitMessage", "PendingUpload", "UploadedPart"]

MESSAGE_FORMAT: Final = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class UploadedPart:
    """One part that S3 holds: completing the upload needs its number, ETag and checksum."""

    number: int
    etag: str
    size_bytes: int
    checksum: str = ""  # as the store names it to us, for example a base64 CRC32; empty where the store has none


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingUpload:
    """A file whose parts are on S3 and whose upload is not completed."""

    key: str
    upload_id: str
    parts: tuple[UploadedPart, ...]
    size_bytes: int
    row_count: int
    partition_values: PartitionValues
    raw_size_bytes: int = 0  # before compression, where the format tells

    def validate(self) -> None:
        """Refuse what could not be completed; called before the first object of a write exists."""
        numbers = [part.number for part in self.parts]
        if not self.key or not self.upload_id:
            raise StorageError(f"pending upload without key or upload id: {self!r}")
        if not numbers or numbers != list(range(1, len(numbers) + 1)):
            raise StorageError(f"parts of {self.key} are not numbered 1..n without gaps: {numbers}")
        if any(not part.etag for part in self.parts):
            raise StorageError(f"a part of {self.key} has no ETag")
        if self.size_bytes != sum(part.size_bytes for part in self.parts):
            raise StorageError(f"size of {self.key} differs from the sum of its parts")
        if self.row_count < 1:
            raise StorageError(f"{self.key} holds no rows; empty files are never written")


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitMessage:
    """Everything one task attempt uploaded. Exactly one attempt per task is ever completed."""

    write_id: str
    task_index: int
    attempt_id: int
    row_count: int  # rows that came in; the files' rows add up to it
    uploads: tuple[PendingUpload, ...]
    requests: tuple[tuple[str, int], ...] = ()  # storage requests sent, by kind

    def validate(self) -> None:
        """Check the message against itself.

        Raises
        ------
        StorageError
            Rows in differ from rows in files, two files share a key, or an upload cannot be completed.
        """
        for upload in self.uploads:
            upload.validate()
        written = sum(upload.row_count for upload in self.uploads)
        if written != self.row_count:
            raise StorageError(f"task {self.task_index} read {self.row_count} rows but its files hold {written}")
        if len({upload.key for upload in self.uploads}) != len(self.uploads):
            raise StorageError(f"task {self.task_index} wrote two files under one key")

    def to_bytes(self) -> bytes:
        """Serialise; a message that does not validate is never sent."""
        self.validate()
        return zlib.compress(json.dumps({"format": MESSAGE_FORMAT, **asdict(self)}).encode(), level=1)

    @classmethod
    def from_bytes(cls, data: bytes) -> CommitMessage:
        """Read and validate a message."""
        fields = json.loads(zlib.decompress(data))
        if fields.pop("format") != MESSAGE_FORMAT:
            raise StorageError("an executor runs another version of table_writer than the driver; restart the session")
        uploads = tuple(
            PendingUpload(
                **{
                    **upload,
                    "parts": tuple(UploadedPart(**part) for part in upload["parts"]),
                    "partition_values": tuple(upload["partition_values"]),
                }
            )
            for upload in fields.pop("uploads")
        )
        requests = tuple((kind, count) for kind, count in fields.pop("requests"))
        message = cls(uploads=uploads, requests=requests, **fields)
        message.validate()
        return message
