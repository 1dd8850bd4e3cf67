"""Writes of very many files on doubles: messages as real ones look, a store that answers late, and no Spark."""

from __future__ import annotations

import base64
import pickle
import random
import time
import zlib
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain

from table_writer.config import SessionSettings, TableWriterConfig
from table_writer.jobs.running_write import RunningWrite
from table_writer.maintenance import Maintenance
from table_writer.model.message import CommitMessage, PendingUpload, UploadedPart, names_of_task
from table_writer.model.table import Column, Partition, PartitionValues, Table, TableName, partition_name
from table_writer.model.upload_spec import ParquetOptions, UploadSpec
from table_writer.model.write import WritePlan, WrittenFiles, new_write_id
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.owner import Owner, take_root
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.table.services import Services
from table_writer.spark.executors import jobs
from table_writer.storage.object_store import PAGE_KEYS, ObjectInfo, key_of
from table_writer.storage.table_files import batches
from table_writer.testing.memory_metastore import MemoryMetastore
from table_writer.testing.memory_store import MemoryStore, _Upload
from tests.publish.world import publisher_of

TABLE = TableName("mart_customer_orders", "orders_enriched")
ROOT = "s3a://company-data-lake/warehouse/production/mart_customer_orders.db/orders_enriched/"
PARTITION_COLUMNS = ("order_date", "country")
FILES_PER_TASK = 50
UPLOAD_ID_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._"
BODY = b"rows"
EXECUTOR_TASKS = 8  # that complete uploads at a time, in the simulation
TASK_THREADS = 16


class LateStore(MemoryStore):
    """A store in memory whose every request takes a while, on the thread that asks, as over a network.

    It pages through 100,000 objects without sorting them for each page, and counts a batch of deletions as one request.
    """

    def __init__(self, latency_seconds: float = 0.0) -> None:
        super().__init__()
        self.skipped_seconds = 0.0
        self.latency_seconds = 0.0
        self.clock = lambda: time.time() + self.skipped_seconds
        self._ordered: list[str] = []
        self._ordered_count = -1
        self.set_latency(latency_seconds)

    def set_latency(self, seconds: float) -> None:
        self.latency_seconds = seconds
        self.on_call = self._wait if seconds else None

    def _wait(self, operation: str, phase: str, key: str) -> None:
        if phase == "before":
            time.sleep(self.latency_seconds)

    def list_page(self, prefix: str, *, start_after: str = "") -> tuple[Sequence[ObjectInfo], bool]:
        with self._call("list_page", prefix):
            keys = self._sorted_keys()
            start = bisect_left(keys, max(prefix, f"{start_after}\0" if start_after else ""))
            page: list[ObjectInfo] = []
            for at in range(start, len(keys)):
                if not keys[at].startswith(prefix) or len(page) > PAGE_KEYS:
                    break
                if keys[at] in self._objects:
                    page.append(self._objects[keys[at]][1])
            return page[:PAGE_KEYS], len(page) > PAGE_KEYS

    def delete(self, objects: Sequence[str | ObjectInfo]) -> None:
        for batch in batches(map(key_of, objects), PAGE_KEYS):
            with self._call("delete", batch[0]):
                for key in batch:
                    self._objects.pop(key, None)

    def hold(self, uploads: Iterable[PendingUpload], *, complete: bool) -> None:
        """Put uploads there, or the objects they become, of the size that they say, without a request."""
        for upload in uploads:
            if complete:
                self._store(upload.key, BODY)
                body, info = self._objects[upload.key]
                self._objects[upload.key] = (body, replace(info, size_bytes=upload.size_bytes))
            else:
                self._uploads[upload.upload_id] = _Upload(
                    upload.key, self._now(), {part.number: (part, BODY) for part in upload.parts}
                )

    def _store(self, key: str, body: bytes) -> None:
        if key not in self._objects:
            self._ordered_count = -1
        super()._store(key, body)

    def _sorted_keys(self) -> list[str]:
        if self._ordered_count < 0:
            self._ordered, self._ordered_count = sorted(self._objects), len(self._objects)
        return self._ordered


@dataclass
class ScaleWorld:
    """One table over doubles.

    Parameters
    ----------
    files, partitions
        Of each write.
    parts
        Of the first file, of the second and so on, again and again.
    """

    files: int
    partitions: int
    parts: Sequence[int] = (1,)
    latency_seconds: float = 0.0
    store: LateStore = field(init=False)
    metastore: MemoryMetastore = field(default_factory=MemoryMetastore)

    def __post_init__(self) -> None:
        self.store = LateStore()
        self._random = random.Random(7)
        self.metastore.create_table(
            Table(
                name=TABLE,
                kind="EXTERNAL_TABLE",
                location=ROOT,
                columns=tuple(Column(f"column_{number}", "bigint") for number in range(100)),
                partition_columns=tuple(Column(name, "string") for name in PARTITION_COLUMNS),
            )
        )
        self.all_services = Services(
            SessionSettings(hadoop={"hive.metastore.uris": "thrift://metastore:9083"}, application_id="app-1"),
            TableWriterConfig(),
            open_metastore=lambda _: self.metastore,
            open_object_store=lambda _: self.store,
        )
        self.services: OpenTable = self.all_services.open_table(TABLE)
        take_root(self.store, self.services.layout, Owner.of(self.services.table, self.metastore.uri))

    @property
    def keeper(self) -> Maintenance:
        return Maintenance(services=self.all_services)

    def plan(self) -> WritePlan:
        state = self.services.log.lister.read()
        return WritePlan(
            write_id=new_write_id(),
            mode=WriteMode.OVERWRITE_PARTITIONS,
            table=self.services.table,
            layout=self.services.layout,
            schema="",
            base_version=state.newest,
            checkpoint=state.listed_after,
            in_doubt=state.in_doubt,
            created_at=datetime.now(UTC),
        )

    def spec(self, plan: WritePlan) -> UploadSpec:
        return UploadSpec(
            write_id=plan.write_id,
            key_prefix=plan.data_location.key,
            store=None,
            data_columns=("id",),
            partition_columns=PARTITION_COLUMNS,
            file_options=ParquetOptions(compression="zstd"),
        )

    def messages(self, plan: WritePlan) -> Iterator[CommitMessage]:
        """What tasks would send, file after file in partition after partition."""
        for task, start in enumerate(range(0, self.files, FILES_PER_TASK)):
            numbers = range(start, min(start + FILES_PER_TASK, self.files))
            uploads = tuple(self._pending(plan, task, number) for number in numbers)
            rows = sum(upload.row_count for upload in uploads)
            yield CommitMessage(
                write_id=plan.write_id, task_index=task, attempt_id=task, row_count=rows, uploads=uploads
            )

    def sent(self, plan: WritePlan, *, complete: bool = False) -> list[bytes]:
        """What arrives at the driver; the store holds the uploads, or already the objects."""
        sent = []
        for message in self.messages(plan):
            self.store.hold(message.uploads, complete=complete)
            sent.append(message.to_bytes())
        return sent

    def _pending(self, plan: WritePlan, task: int, number: int) -> PendingUpload:
        values = partition(number % self.partitions)
        parts = tuple(self._part(part + 1) for part in range(self.parts[number % len(self.parts)]))
        name = f"{names_of_task(plan.write_id, task)}{number // self.partitions}.zstd.parquet"
        return PendingUpload(
            key=f"{plan.data_location.key}{partition_name(PARTITION_COLUMNS, values)}/{name}",
            upload_id="".join(self._random.choices(UPLOAD_ID_CHARACTERS, k=128)),  # as long as AWS makes them
            parts=parts,
            size_bytes=sum(part.size_bytes for part in parts),
            row_count=self._random.randrange(1, 1_000_000),
            partition_values=values,
            raw_size_bytes=self._random.randrange(1, 1 << 30),
        )

    def _part(self, number: int) -> UploadedPart:
        return UploadedPart(
            number=number,
            etag=f'"{self._random.getrandbits(128):032x}"',
            size_bytes=self._random.randrange(5 << 20, 64 << 20),
            checksum=base64.b64encode(self._random.randbytes(4)).decode(),
        )

    def complete(self, write: RunningWrite, messages: Collection[CommitMessage]) -> None:
        """Step 3, with threads in place of executors where executors would do it."""
        write.complete(messages, self._as_executors)

    def _as_executors(self, uploads: Iterable[PendingUpload]) -> None:
        def complete_one(upload: PendingUpload) -> None:
            self.store.complete_upload(upload.key, upload.upload_id, upload.parts)

        with ThreadPoolExecutor(EXECUTOR_TASKS * TASK_THREADS) as pool:
            for share in chain.from_iterable(jobs(uploads)):
                list(pool.map(complete_one, pickle.loads(zlib.decompress(share))))  # noqa: S301 - packed a line above

    def written_before(self) -> None:
        """Have a version in the table that the measured write replaces; costs no request of the store's uploads."""
        plan = self.plan()
        with RunningWrite(self.services, plan) as write:
            messages = map(CommitMessage.from_bytes, self.sent(plan, complete=True))
            publisher_of(self.services).publish(WrittenFiles.from_messages(plan, messages), write.claiming)

    @contextmanager
    def counted_partitions(self) -> Iterator[list[int]]:
        """Count the partitions that are asked for in here."""
        asked: list[int] = []
        real = self.metastore.get_partitions

        def get_partitions(table: Table, values: Sequence[PartitionValues]) -> Mapping[PartitionValues, Partition]:
            asked.append(len(values))
            return real(table, values)

        self.metastore.get_partitions = get_partitions  # type: ignore[method-assign]
        try:
            yield asked
        finally:
            self.metastore.get_partitions = real  # type: ignore[method-assign]

    @contextmanager
    def latency(self) -> Iterator[None]:
        """Requests take their time only in here."""
        self.store.set_latency(self.latency_seconds)
        try:
            yield
        finally:
            self.store.set_latency(0.0)


def partition(number: int) -> PartitionValues:
    day, country = divmod(number, 14)
    return (f"{2020 + day // 336}-{day // 28 % 12 + 1:02d}-{day % 28 + 1:02d}", f"country-{country:02d}")
