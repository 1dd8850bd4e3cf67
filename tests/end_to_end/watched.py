"""What tests see of a table from outside, and writers that are stopped at a moment of a write to let others act."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from pyspark.sql import SparkSession

from table_writer import TableWriter, TableWriterConfig
from table_writer.jobs.session_services import SessionServices
from table_writer.metastore.hive import HiveMetastore
from table_writer.model.location import Location
from table_writer.model.table import name_in
from table_writer.storage.object_store import open_store
from table_writer.testing import Lakehouse
from tests.real.hooked import HookedMetastore, HookedStore

Found = Mapping[str, tuple[str, int]]
"""Objects by key: ETag and size."""

Moment = tuple[str, str, str]
"""A call of the store or the metastore, before or after it, and what its key must have in it."""

STAGED: Final = ("list_uploads", "after", "")
"""All files of the write are objects; publish has not begun."""

COPYING: Final = ("copy", "before", "")
BEFORE_CLAIM: Final = ("put_if_absent", "before", "/log/")
"""The last look at log and metastore is over."""

SWITCHING: Final = ("alter_partitions", "before", "")
REQUEST: Final = re.compile(r"(GET|HEAD|PUT|POST|DELETE) (/\S*) HTTP/| s3_(\w+) .*? (/\S*) \d{3} - ")
"""A line of moto's log, or of versitygw's."""

METHODS: Final = {
    "GetObject": "GET",
    "PutObject": "PUT",
    "CopyObject": "PUT",
    "UploadPart": "PUT",
    "CompleteMultipartUpload": "POST",
}


@dataclass(frozen=True)
class Seen:
    """A table at one moment: where its partitions are, and all objects and uploads below its root."""

    locations: Mapping[str, str]
    objects: Found
    uploads: frozenset[str]

    def files_of(self, partition: str) -> dict[str, tuple[str, int]]:
        """Return what lies at a partition's location, by name below it."""
        prefix = Location.parse(self.locations[partition]).key
        return {key.removeprefix(prefix): found for key, found in self.objects.items() if key.startswith(prefix)}

    @property
    def data(self) -> dict[str, tuple[str, int]]:
        """Objects but for logs and markers."""
        return {key: found for key, found in self.objects.items() if key.endswith((".parquet", ".orc"))}


def look_at(table: str, writer: TableWriter, lakehouse: Lakehouse) -> Seen:
    services = writer._services.open_to_write(table)
    prefix = services.layout.root.key
    pages = lakehouse.s3.get_paginator("list_objects_v2").paginate(Bucket=lakehouse.bucket, Prefix=prefix)
    objects = {
        item["Key"]: (item["ETag"], item["Size"])
        for page in pages
        for item in page.get("Contents", [])
        if not item["Key"].endswith("/")
    }
    uploads = lakehouse.s3.list_multipart_uploads(Bucket=lakehouse.bucket, Prefix=prefix).get("Uploads", [])
    return Seen(
        locations={
            name_in(services.table, values): one.location
            for values, one in services.metastore.get_all_partitions(services.table).items()
        },
        objects=objects,
        uploads=frozenset(item["Key"] for item in uploads),
    )


@contextmanager
def requests_to(lakehouse: Lakehouse) -> Iterator[list[tuple[str, str]]]:
    """Collect what the S3 server itself has logged: method and path of each request."""
    process = lakehouse.s3_server._process
    assert process is not None
    logs = process.log_path.parent
    before = {path: path.stat().st_size for path in logs.glob("*.log")}
    sent: list[tuple[str, str]] = []
    yield sent
    for path in logs.glob("*.log"):
        added = path.read_bytes()[before.get(path, 0) :].decode()
        for method, target, operation, of_versitygw in REQUEST.findall(added):
            sent.append((method or METHODS.get(operation, operation), unquote(target or of_versitygw)))


@dataclass
class Once:
    """Does something the first time that a moment comes."""

    moment: Moment
    action: Callable[[], object]
    lock: Any = field(default_factory=threading.Lock)
    done: bool = False

    def __call__(self, call: str, phase: str, key: str = "") -> None:
        wanted_call, wanted_phase, part = self.moment
        with self.lock:
            now = not self.done and (call, phase) == (wanted_call, wanted_phase) and part in key
            self.done = self.done or now
        if now:
            self.action()


def stopped_at(
    spark: SparkSession, moment: Moment, action: Callable[[], object], config: TableWriterConfig | None = None
) -> TableWriter:
    """Return a writer during whose next write, at that moment, the action runs."""
    once = Once(moment, action)

    def hooked_store(settings: Any) -> HookedStore:
        return HookedStore(open_store(settings), on_call=once)

    def hooked_metastore(settings: Any) -> Any:
        metastore = HookedMetastore(HiveMetastore(settings))
        metastore.on_call = once
        return metastore

    services = SessionServices(
        spark, config or TableWriterConfig(), open_metastore=hooked_metastore, open_object_store=hooked_store
    )
    return TableWriter(spark, services=services)


def failing_with(error: Exception) -> Callable[[], object]:
    def fail() -> None:
        raise error

    return fail
