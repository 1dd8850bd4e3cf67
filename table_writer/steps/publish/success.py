"""``_SUCCESS``: the marker that other tools look for, of the last write and of each partition, in Hadoop's JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from table_writer.errors import MetastoreError, StorageError, counted
from table_writer.model.entry import EntryPartition, LogEntry
from table_writer.model.location import Location, same_place
from table_writer.model.table import PartitionsNow, PartitionValues, Table, name_in
from table_writer.storage.object_store import many
from table_writer.storage.table_files import existing_values
from table_writer.table.open_table import OpenTable

logger = logging.getLogger(__name__)
NAME: Final = "org.apache.hadoop.fs.s3a.commit.files.SuccessData/1"
MAX_FILENAMES: Final = 100  # Hadoop's own limit, SUCCESS_MARKER_FILE_LIMIT
MOST_LOOKS: Final = 5  # whoever moves the same partitions again and again sets their markers too
REQUESTS: Final = {  # how S3A's statistics call the requests of the store
    "AbortMultipartUpload": "object_multipart_aborted",
    "CompleteMultipartUpload": "multipart_upload_completed",
    "CopyObject": "object_copy_requests",
    "CreateMultipartUpload": "object_multipart_initiated",
    "DeleteObject": "object_delete_request",
    "DeleteObjects": "object_bulk_delete_request",
    "HeadObject": "object_metadata_request",
    "ListObjectsV2": "object_list_request",
    "PutObject": "object_put_request",
    "UploadPart": "multipart_upload_part_put",
}


def mark_partitions(opened: OpenTable, table: Table, entry: LogEntry) -> tuple[str, ...]:
    """Put ``_SUCCESS`` for the partitions that readers see as the entry says, and remove it of those that are gone.

    Readers have switched already, so a failure is a note, which is returned. Others may move the same partitions
    meanwhile: so the metastore is asked before and after. Whoever asks last leaves what is true; where readers look at
    rows of another entry, its publisher does.
    """
    if not opened.marks_partitions() or not table.partition_columns or not entry.partitions:
        return ()
    partitions = {partition.values: partition for partition in entry.partitions}
    marked: dict[PartitionValues, bool] = {}
    try:
        for _ in range(MOST_LOOKS):
            wanted = _wanted(opened, opened.metastore.get_partitions(table, sorted(partitions)), partitions)
            todo = {values: exists for values, exists in wanted.items() if marked.get(values) != exists}
            if not todo:
                break
            _put(opened, table, entry, [partitions[values] for values, exists in todo.items() if exists])
            if gone := [_key(opened, table, values) for values, exists in todo.items() if not exists]:
                opened.store.delete(gone)
            marked |= todo
    except (MetastoreError, StorageError) as error:
        logger.warning("write_id=%s _SUCCESS of its partitions: %s", entry.write_id, error)
        return (f"_SUCCESS of {counted(len(partitions), 'partition')} may be missing or left: {error.message}",)
    return ()


def _wanted(
    opened: OpenTable, now: PartitionsNow, partitions: Mapping[PartitionValues, EntryPartition]
) -> dict[PartitionValues, bool]:
    """Return whether each partition is to have its marker; those at which other rows are seen are left out."""
    existing = existing_values(opened.store, opened.layout, now)
    return {
        values: values in existing
        for values, partition in partitions.items()
        if values not in existing
        or (partition.new_location and same_place(_location(now[values].location), partition.new_location))
    }


def _location(text: str) -> str | None:
    """Return a location of the metastore, ``None`` if it is none: other tools may have written anything."""
    return None if Location.parse_any(text) is None else text


def _key(opened: OpenTable, table: Table, values: PartitionValues) -> str:
    return opened.layout.success_key_of(name_in(table, values))


def _put(opened: OpenTable, table: Table, entry: LogEntry, partitions: Iterable[EntryPartition]) -> None:
    def put(partition: EntryPartition) -> None:
        body = success_json(entry, (), opened.layout.root, partitions=(partition,))
        opened.store.put(_key(opened, table, partition.values), body)

    many(put, partitions)


def success_json(
    entry: LogEntry,
    filenames: Iterable[str],
    root: Location,
    *,
    partitions: Iterable[EntryPartition] | None = None,
    requests: Mapping[str, int] | None = None,
    seconds: Mapping[str, float] | None = None,
) -> bytes:
    """Describe a published write as Hadoop's committers do: the first 100 files, named by their paths in the bucket.

    ``partitions`` are those to count, by default all; ``requests`` were sent to the store so far, and each step has
    taken its ``seconds``. Counters are called as S3A calls them; what it has no name for begins with ``table_writer.``.
    """
    described = entry.partitions if partitions is None else tuple(partitions)
    totals = {
        "files": sum(partition.files for partition in described),
        "bytes": sum(partition.bytes for partition in described),
        "rows": sum(partition.rows or 0 for partition in described),
        "partitions": len(described),
    }
    counters = {
        "committer_bytes_committed": totals["bytes"],
        "committer_commits_completed": totals["files"],
        "committer_jobs_completed": 1,
        "table_writer.rows": totals["rows"],
        "table_writer.partitions": totals["partitions"],
        **{REQUESTS.get(kind, f"table_writer.{kind}"): count for kind, count in sorted((requests or {}).items())},
    }
    return json.dumps(
        {
            "name": NAME,
            "success": True,
            "timestamp": int(entry.created_at.timestamp() * 1000),
            "date": entry.created_at.isoformat(),
            "hostname": entry.writer.get("host", ""),
            "committer": "table_writer",
            "description": f"{entry.mode} of {entry.table}, version {entry.version}",
            "jobId": entry.write_id,
            "jobIdSource": "table_writer.write_id",
            "metrics": {**totals, **counters},
            "diagnostics": {
                "table_writer.version": str(entry.version),
                "table_writer.write_id": entry.write_id,
                "table_writer.root": str(root),
                "table_writer.library_version": entry.writer.get("library_version", ""),
            },
            "filenames": [f"/{name}" for name in islice(filenames, MAX_FILENAMES)],
            "iostatistics": _io_statistics(counters, seconds or {}),
        },
        indent=2,
    ).encode()


def _io_statistics(counters: Mapping[str, int], seconds: Mapping[str, float]) -> dict[str, Any]:
    """Return an ``IOStatisticsSnapshot``: counters, and the time of each step in milliseconds, as Hadoop names them."""
    milliseconds = {f"table_writer.{step}": round(1000 * duration) for step, duration in seconds.items()}
    return {
        "counters": {**counters, **dict.fromkeys(milliseconds, 1)},
        "gauges": {},
        "minimums": {f"{step}.min": duration for step, duration in milliseconds.items()},
        "maximums": {f"{step}.max": duration for step, duration in milliseconds.items()},
        "meanstatistics": {f"{step}.mean": {"samples": 1, "sum": duration} for step, duration in milliseconds.items()},
    }
