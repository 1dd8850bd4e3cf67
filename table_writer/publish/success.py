"""The ``_SUCCESS`` file, in the JSON of Hadoop's committers, so that existing tools can read it.

Format: ``org.apache.hadoop.fs.s3a.commit.files.SuccessData``, which is public and stays compatible.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from typing import Final

from table_writer.model.entry import LogEntry
from table_writer.model.location import Location

__all__ = ["success_json"]

NAME: Final = "org.apache.hadoop.fs.s3a.commit.files.SuccessData/1"
MAX_FILENAMES: Final = 100  # Hadoop's own limit, SUCCESS_MARKER_FILE_LIMIT


def success_json(entry: LogEntry, filenames: Iterable[str], root: Location) -> bytes:
    """Describe a published write.

    Parameters
    ----------
    entry
        The published entry.
    filenames
        Keys of the new files; the first 100 are named, and no more are asked for.
    root
        The table root; file names are given as paths in its bucket, as Hadoop does.
    """
    totals = {
        "files": sum(partition.files for partition in entry.partitions),
        "bytes": sum(partition.bytes for partition in entry.partitions),
        "rows": sum(partition.rows or 0 for partition in entry.partitions),
        "partitions": len(entry.partitions),
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
            "metrics": totals,
            "diagnostics": {
                "table_writer.version": str(entry.version),
                "table_writer.write_id": entry.write_id,
                "table_writer.root": str(root),
                "table_writer.library_version": entry.writer.get("library_version", ""),
            },
            "filenames": [f"/{name}" for name in islice(filenames, MAX_FILENAMES)],
            "iostatistics": {"counters": {}, "gauges": {}, "minimums": {}, "maximums": {}, "meanstatistics": {}},
        },
        indent=2,
    ).encode()
