"""``_SUCCESS``: the marker that other tools look for, of the last write and of each partition, in Hadoop's JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from table_writer.errors import TableWriterError, counted
from table_writer.model.entry import EntryPartition, LogEntry
from table_writer.model.location import Location
from table_writer.model.table import VERSION_PARAMETER, Partition, PartitionsNow, PartitionValues, Table, name_in
from table_writer.protocol.table.open_table import OpenTable
from table_writer.storage.object_store import many
from table_writer.storage.table_files import existing_values

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
    meanwhile: so the metastore is asked before and after, and whoever asks last leaves what is true.
    """
    if not opened.marks_partitions() or not table.partition_columns or not entry.partitions:
        return ()
    try:
        _Markers(opened, table, entry).follow()
    except TableWriterError as error:
        logger.warning("write_id=%s _SUCCESS of its partitions: %s", entry.write_id, error)
        count = counted(len(entry.partitions), "partition")
        return (f"_SUCCESS of {count} may be missing or left: {error.message}",)
    return ()


class _Markers:
    """The markers of the partitions of an entry."""

    def __init__(self, opened: OpenTable, table: Table, entry: LogEntry) -> None:
        self._opened = opened
        self._table = table
        self._entry = entry
        self._described = {partition.values: partition for partition in entry.partitions}
        self._done: dict[PartitionValues, str | None] = {}  # where readers looked then; None: the partition was gone

    def follow(self) -> None:
        """Do what is to be done, until nothing has changed meanwhile."""
        for _ in range(MOST_LOOKS):
            now = self._opened.metastore.get_partitions(self._table, sorted(self._described))
            wanted = self._wanted(now)
            todo = [values for values, location in wanted.items() if self._done.get(values, "") != location]
            if not todo:
                return
            many(self._put, [now[values] for values in todo if wanted[values] is not None])
            if gone := [self._key(values) for values in todo if wanted[values] is None]:
                self._opened.store.delete(gone)
            self._done |= {values: wanted[values] for values in todo}

    def _wanted(self, now: PartitionsNow) -> dict[PartitionValues, str | None]:
        """Return where the partitions are; those with rows of others only where this has touched their markers."""
        existing = existing_values(self._opened.store, self._opened.layout, now)
        wanted: dict[PartitionValues, str | None] = {}
        for partition in self._entry.partitions:
            values = partition.values
            if values not in existing:
                wanted[values] = None
            elif values in self._done or _is_at(now[values], partition.new_location):
                wanted[values] = now[values].location
        return wanted

    def _put(self, partition: Partition) -> None:
        entry = self._entry_of(partition)
        if entry is None:
            return
        is_own = entry is self._entry
        of_entry = self._described if is_own else {found.values: found for found in entry.partitions}
        described = of_entry.get(partition.values)
        if described is not None:
            body = success_json(entry, (), self._opened.layout.root, partitions=[described])
            self._opened.store.put(self._key(partition.values), body)

    def _entry_of(self, partition: Partition) -> LogEntry | None:
        """Return the entry whose rows readers see; ``None`` if they are another tool's."""
        if _is_at(partition, self._described[partition.values].new_location):
            return self._entry
        version = partition.parameters.get(VERSION_PARAMETER, "")
        record = self._opened.log.slots.find(int(version)) if version.isdecimal() else None
        return record.entry if record else None

    def _key(self, values: PartitionValues) -> str:
        return self._opened.layout.success_key_of(name_in(self._table, values))


def _is_at(partition: Partition, location: str | None) -> bool:
    place = Location.parse_any(partition.location)
    return place is not None and location is not None and place.same_place(Location.parse(location))


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
            "description": f"{entry.called} of {entry.table}, version {entry.version}",
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
