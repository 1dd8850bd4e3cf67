"""Commit messages: a task attempt tells the driver in one about the uploads that it left pending."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

from table_writer.errors import StorageError, counted
from table_writer.model.column_statistics import TEXTS, ColumnStatistics
from table_writer.model.table import PartitionValues

MESSAGE_FORMAT: Final = 5
FILE_NAME_PREFIX: Final = "part"  # Spark's
PLAIN_PREFIX: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")  # no reader hides it, nobody escapes it
OWN_WRITE_ID: Final = re.compile(r"[0-9]{8}T[0-9]{6}-[0-9a-f]{16}")  # as `new_write_id` makes it
FILE_OF_ATTEMPT: Final = re.compile(r"(?P<task>.+)-[0-9]+-[0-9]+\.[^/]+")  # its attempt, and its number there
TASK_INDEX: Final = re.compile(r"-[0-9]{5,}(?=-)")


class RowMark(IntEnum):
    """What becomes of a row by a change of rows: the value of the column that goes along with the rows of one."""

    KEPT = 0
    UPDATED = 1
    INSERTED = 2
    DELETED = 3  # goes to the task, which counts it, and into no file


def is_file_name_prefix(text: str) -> bool:
    """Return whether names of files may begin so; the ``write_id`` that follows stays the only one in a name.

    Examples
    --------
    >>> [is_file_name_prefix(text) for text in ("part", "orders-eu_1", "_part", ".part", "a/b", "dt=1", "")]
    [True, True, False, False, False, False, False]
    """
    return PLAIN_PREFIX.fullmatch(text) is not None and OWN_WRITE_ID.search(text) is None


def names_of_task(write_id: str, task_index: int, prefix: str = FILE_NAME_PREFIX) -> str:
    """Return the beginning of the names of a task's files, which no other task has: two tasks never share a key.

    Examples
    --------
    >>> names_of_task("20240102T030405-cafe", 3)
    'part-00003-20240102T030405-cafe-'
    """
    return f"{prefix}-{task_index:05d}-{write_id}-"


def write_id_in(name: str, known_ids: Collection[str] = ()) -> str | None:
    """Return the write that a file's name says: an id that this library has made, or one of those that are known.

    An id of a caller's is any text: ``1``, or a scheduler's date, which is in many names. So it must stand where
    :func:`names_of_task` puts it, with the numbers of an attempt and of a file behind it.

    Examples
    --------
    >>> write_id_in("part-00000-20240102T030405-cafecafecafecafe-17-0.parquet")
    '20240102T030405-cafecafecafecafe'
    >>> write_id_in("part-00000-run-1-17-0.parquet", ["1", "run-1", "00000"])
    'run-1'
    >>> write_id_in("part-00001-20240131-report.parquet", ["1", "20240131"]) is None
    True
    """
    found = FILE_OF_ATTEMPT.fullmatch(name)
    task = found["task"] if found else ""
    indices = [index for index in TASK_INDEX.finditer(task) if PLAIN_PREFIX.fullmatch(task, 0, index.start())]
    ids = [task[index.end() + 1 :] for index in indices]  # the longest first: it may hold such a number itself
    return next((write_id for write_id in ids if OWN_WRITE_ID.fullmatch(write_id) or write_id in known_ids), None)


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
    figures: str = ""  # of its columns, for optimizers: see model.column_figures; empty where nobody has counted

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
    row_count: int  # rows that were to be written; the files' rows add up to it
    uploads: tuple[PendingUpload, ...]
    requests: tuple[tuple[str, int], ...] = ()  # storage requests sent, by kind
    row_bytes: int = 0  # of a row in Arrow, on average, in the chunk with the widest rows
    statistics: Mapping[str, ColumnStatistics] = field(default_factory=dict)  # of all files; what is missing is unknown
    marks: Mapping[RowMark, int] = field(default_factory=dict)  # rows that came in, by their marks, if they have some

    def validate(self) -> None:
        """Check the message against itself; ``StorageError`` says what contradicts what."""
        start = names_of_task(self.write_id, self.task_index, prefix="")  # what precedes it, the plan knows
        for upload in self.uploads:
            upload.validate()
            if start not in upload.key.rpartition("/")[2]:
                raise StorageError(f"{upload.key} is not named as files of task {self.task_index} are: …{start}…")
        written = sum(upload.row_count for upload in self.uploads)
        if written != self.row_count:
            raise StorageError(
                f"task {self.task_index} read {counted(self.row_count, 'row')} but its files hold {written}"
            )
        if len({upload.key for upload in self.uploads}) != len(self.uploads):
            raise StorageError(f"task {self.task_index} wrote two files under one key")
        for name, column in self.statistics.items():
            if not self.row_count or (column.null_count or 0) > self.row_count:
                raise StorageError(
                    f"task {self.task_index} read {counted(self.row_count, 'row')} but tells of column {name!r}:"
                    f" {column!r}"
                )
        kept = sum(count for mark, count in self.marks.items() if mark is not RowMark.DELETED)
        if self.marks and kept != self.row_count:
            raise StorageError(f"task {self.task_index} wrote {counted(self.row_count, 'row')} and has marks of {kept}")

    def to_bytes(self) -> bytes:
        """Return the message as bytes; a message that is not valid is never sent."""
        self.validate()
        uploads = [
            (
                upload.key,
                upload.upload_id,
                upload.size_bytes,
                upload.row_count,
                upload.partition_values,
                upload.raw_size_bytes,
                upload.figures,
            )
            for upload in self.uploads
        ]
        parts = [
            [(part.number, part.etag, part.size_bytes, part.checksum) for part in upload.parts]
            for upload in self.uploads
        ]
        statistics = [column.to_json() for column in self.statistics.values()]
        fields = {
            "format": MESSAGE_FORMAT,
            "write_id": self.write_id,
            "task_index": self.task_index,
            "attempt_id": self.attempt_id,
            "row_count": self.row_count,
            "requests": self.requests,
            "row_bytes": self.row_bytes,
            # all names, then all counts, and so on: compressed a sixth smaller than column by column
            "statistics": [list(self.statistics), *([column.get(name) for column in statistics] for name in TEXTS)],
            "uploads": uploads,
            "parts": parts,
            "marks": [(mark, count) for mark, count in self.marks.items()],
        }
        return zlib.compress(json.dumps(fields, separators=(",", ":")).encode(), level=1)

    @classmethod
    def from_bytes(cls, data: bytes | bytearray) -> CommitMessage:
        """Read and validate a message."""
        try:
            fields = json.loads(zlib.decompress(data))
            if fields.pop("format") != MESSAGE_FORMAT:
                raise StorageError(
                    "an executor runs another version of table_writer than the driver; restart the session"
                )
            requests = tuple((kind, count) for kind, count in fields.pop("requests"))
            uploads = tuple(map(_upload, fields.pop("uploads"), fields.pop("parts")))
            statistics = _statistics(fields.pop("statistics"))
            marks = {RowMark(mark): count for mark, count in fields.pop("marks")}
            message = cls(uploads=uploads, requests=requests, statistics=statistics, marks=marks, **fields)
            message.validate()
        except (zlib.error, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise StorageError(
                f"a task sent something else than its message: {type(error).__name__}: {error}"
            ) from error
        return message


def _statistics(sent: Sequence[Sequence[Any]]) -> dict[str, ColumnStatistics]:
    """Read what was checked when it was sent; a driver reads all messages several times."""
    try:
        return {name: ColumnStatistics.of_texts(*texts) for name, *texts in zip(*sent, strict=True)}
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise StorageError(f"a task sent something else than statistics of columns: {error}") from error


def _upload(fields: Sequence[Any], parts: Iterable[Sequence[Any]]) -> PendingUpload:
    key, upload_id, size_bytes, row_count, partition_values, raw_size_bytes, figures = fields
    return PendingUpload(
        key=key,
        upload_id=upload_id,
        parts=tuple(
            UploadedPart(number=number, etag=etag, size_bytes=size, checksum=checksum)
            for number, etag, size, checksum in parts
        ),
        size_bytes=size_bytes,
        row_count=row_count,
        partition_values=tuple(partition_values),
        raw_size_bytes=raw_size_bytes,
        figures=figures,
    )


@dataclass(frozen=True, slots=True)
class CommitMessages(Collection[CommitMessage]):
    """The messages of a write, kept as their tasks sent them and read one at a time, each time they are asked for.

    A driver that holds these of 100,000 files holds 20 MB: per file its upload id, which nothing compresses, and some
    50 bytes (with each further part some 40). Read all at once they were 1 KB for each file, and 200 bytes for each
    part.

    Examples
    --------
    >>> message = CommitMessage(write_id="w1", task_index=0, attempt_id=7, row_count=0, uploads=())
    >>> [one.attempt_id for one in CommitMessages((message.to_bytes(),))]
    [7]
    """

    sent: tuple[bytes | bytearray, ...]

    def __len__(self) -> int:
        return len(self.sent)

    def __iter__(self) -> Iterator[CommitMessage]:
        return map(CommitMessage.from_bytes, self.sent)

    def __contains__(self, message: object) -> bool:
        return any(message == item for item in self)
