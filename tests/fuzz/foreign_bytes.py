"""Whatever bytes come from outside, a call ends with an answer or with an error of this library.

Foreign are: what lies below a table's root (entries, outcomes, marks, folds, registrations, staged writes, metadata
of mirrors, footers), what a metastore answers (Thrift, a handshake of SASL), what a store answers (XML, headers), and
files of settings. Honest bytes are damaged: flipped, cut, doubled, spliced, with lengths and numbers that nobody means.

Run for an hour: ``python -m tests.fuzz.foreign_bytes --seconds 3600``. A failure prints its seed, which repeats it.
"""

from __future__ import annotations

import argparse
import logging
import random
import re
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any, Final
from unittest import mock

from table_writer.errors import TableWriterError
from table_writer.metastore import sasl
from table_writer.metastore.hive import HiveMetastore
from table_writer.metastore.settings import MetastoreSettings
from table_writer.model.message import CommitMessage
from table_writer.storage.footers import read_footer
from table_writer.storage.object_store import ObjectInfo, ObjectStore, open_store
from table_writer.storage.request_settings import RequestSettings
from table_writer.storage.s3.credentials import StaticKeys
from table_writer.storage.s3.settings import S3Settings
from tests.bare_server import BareServer, http, read_request
from tests.fuzz.honest import converse_of, delta_world, honest_answers, iceberg_world, plain_world
from tests.metastore import fake_sasl

ONCE: Final = RequestSettings(connect_timeout_seconds=1, read_timeout_seconds=1, max_attempts=1)
HANGS_SECONDS: Final = 60  # on a busy machine an honest call of S3 has taken 30
NUMBERS: Final = (
    b"0",
    b"-1",
    b"1e400",
    b"99999999999999999999",
    b"9223372036854775808",
    b"0.5",
    b"null",
    b'"1"',
    b"[]",
)
LENGTHS: Final = (
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x00\x00\x00\x00",
    b"\x80\x00\x00\x00",
    b"\x00\x10\x00\x00",
)
TEXTS: Final = (
    "\x00",
    "../",
    "%2F..%2F",
    "\ud7ff",
    "😀" * 9,
    "a" * 70_000,
    "${x}",
    "{",
    "]",
    '"',
    "\\u0000",
    "NaN",
    "-0",
)
Attack = Callable[[random.Random], None]


def _number(data: bytes, chance: random.Random) -> bytes:
    numbers = list(re.finditer(rb"-?\d+", data))
    if not numbers:
        return data
    found = chance.choice(numbers)
    return data[: found.start()] + chance.choice(NUMBERS) + data[found.end() :]


def _names(data: bytes, chance: random.Random) -> bytes:
    names = list(re.finditer(rb'"[^"]{1,40}"', data))
    if not names:
        return data
    first, second = chance.choice(names), chance.choice(names)
    return data[: first.start()] + data[second.start() : second.end()] + data[first.end() :]


DAMAGES: Final[Sequence[Callable[[bytes, bytes, bytes, bytes, random.Random], bytes]]] = (
    lambda before, _cut, _after, _piece, _: before,
    lambda before, _cut, after, _piece, _: before + after,
    lambda before, cut, after, _piece, chance: before + cut * chance.choice((2, 3, 50)) + after,
    lambda before, cut, after, _piece, chance: before + bytes([chance.randrange(256)]) + cut[1:] + after,
    lambda before, _cut, after, _piece, chance: before + chance.choice(LENGTHS) + after,
    lambda before, _cut, after, _piece, chance: before + chance.choice(TEXTS).encode("utf-8", "surrogatepass") + after,
    lambda before, _cut, _after, piece, _: before + piece,
    lambda before, cut, after, _piece, chance: before + chance.randbytes(chance.choice((1, 8, 64))) + cut + after,
    lambda before, cut, after, _piece, chance: _number(before + cut + after, chance),
    lambda before, cut, after, _piece, chance: _names(before + cut + after, chance),
)


def damaged(honest: bytes, chance: random.Random, others: Sequence[bytes] = ()) -> bytes:
    """Return bytes that are no longer what their writer meant, mostly."""
    data = honest
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        at = chance.randrange(len(data) + 1)
        end = min(len(data), at + chance.choice((1, 2, 4, 16, 256)))
        other = chance.choice(others) if others else honest
        piece = other[chance.randrange(len(other) + 1) :][:4_096]
        data = chance.choice(DAMAGES)(data[:at], data[at:end], data[end:], piece, chance)
    return data


class HangsError(Exception):
    """A call takes longer than any honest one."""


@contextmanager
def in_time() -> Iterator[None]:
    def hangs(_: int, frame: FrameType | None) -> None:
        raise HangsError("".join(traceback.format_stack(frame, 5)))

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(HANGS_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@dataclass
class StoredBytes:
    """Damages one object below a table's root, and makes every call that reads there."""

    make: Callable[[], Any]

    @cached_property
    def world(self) -> Any:
        return self.make()

    @cached_property
    def objects(self) -> dict[str, Any]:
        return dict(self.world.store._objects)

    @cached_property
    def tables(self) -> tuple[Any, Any]:
        metastore = self.world.metastore
        return dict(metastore._tables), {name: dict(found) for name, found in metastore._partitions.items()}

    def __call__(self, chance: random.Random) -> None:
        world, objects = self.world, self.objects
        tables, partitions = self.tables
        key = chance.choice(sorted(objects))
        body = damaged(objects[key][0], chance, [objects[chance.choice(sorted(objects))][0]])
        world.store.put(key, body)
        try:
            for call in self._calls():
                with suppress(TableWriterError):
                    call()
        finally:
            world.store._objects = dict(objects)
            world.store._uploads.clear()
            world.metastore._tables = dict(tables)
            world.metastore._partitions = {name: dict(found) for name, found in partitions.items()}

    def _calls(self) -> Iterator[Callable[[], object]]:
        keeper, table = self.world.keeper, str(self.world.name)
        yield lambda: keeper.history(table)
        yield lambda: keeper.show(table, 2)
        yield lambda: keeper.changes(table, 0, 2)
        yield lambda: keeper.partitions(table)
        yield lambda: keeper.report(table)
        yield lambda: keeper.staged(table)
        yield lambda: keeper.uploads(table)
        yield lambda: keeper.erasure(table)
        yield lambda: keeper.leave(table)
        yield lambda: keeper.recover(table, dry_run=True)
        yield lambda: keeper.vacuum(table, dry_run=True)
        yield lambda: keeper.rollback(table, version=1, dry_run=True)
        for kind in self.world.config.mirrors or ():
            yield lambda kind=kind: keeper.mirror(table, as_=kind, check=True)  # type: ignore[misc]
        yield lambda: self.world.write({"1": frozenset({9})})
        yield lambda: keeper.vacuum(table, older_than=timedelta(0), force=True)


@dataclass
class MetastoreBytes:
    """Damages an answer of a metastore, in the middle of every call of the gateway."""

    answers: Mapping[str, bytes] = field(default_factory=honest_answers)

    def __call__(self, chance: random.Random) -> None:
        hit = chance.choice(sorted(self.answers))

        def damage(name: str, answer: bytes) -> bytes:
            return damaged(answer, chance, list(self.answers.values())) if name == hit else answer

        with BareServer(converse_of(damage)) as server:
            uri = f"thrift://127.0.0.1:{server.port}"
            settings = MetastoreSettings(uris=(uri,), timeout_seconds=0.5, read_attempts=1)
            with HiveMetastore(settings) as metastore:
                for call in self._calls(metastore):
                    with suppress(TableWriterError):
                        call()

    @staticmethod
    def _calls(metastore: HiveMetastore) -> Iterator[Callable[[], object]]:
        from tests.fuzz.honest import NAME, VALUES, moved

        yield metastore.get_databases
        yield lambda: list(metastore.get_tables(NAME.database))
        yield lambda: metastore.get_partition_names(NAME)
        with suppress(TableWriterError):
            table = metastore.get_table(NAME)
            if table is not None:
                yield lambda: metastore.get_partitions(table, VALUES)
                yield lambda: metastore.alter_partitions(table, moved(metastore.get_partitions(table, VALUES)))
                yield lambda: metastore.why_immovable(table)


@dataclass
class HandshakeBytes:
    """Damages what a metastore says in a handshake of SASL, and in the sealed answers after it."""

    def __call__(self, chance: random.Random) -> None:
        class Damaging:
            def __init__(self, end: Any) -> None:
                self._end = end

            def __getattr__(self, name: str) -> Any:
                return getattr(self._end, name)

            def sendall(self, data: bytes) -> None:
                self._end.sendall(damaged(data, chance) if chance.random() < 0.4 else data)

        honest = fake_sasl._Server
        fake = fake_sasl.FakeMetastore(qop=chance.choice(("auth", "auth-int", "auth-conf")))
        mechanism = chance.choice((sasl.Plain, sasl.DigestMd5))
        login = sasl.Login("test", lambda _: mechanism(fake_sasl.USER, fake_sasl.PASSWORD))
        damaging = mock.patch.object(fake_sasl, "_Server", lambda end, told: honest(Damaging(end), told))
        with damaging, fake_sasl.running(fake):
            times = {"timeout_seconds": 0.5, "login_timeout_seconds": 0.5}
            settings = MetastoreSettings(uris=(fake.uri,), read_attempts=1, login=login, **times)
            with HiveMetastore(settings) as metastore, suppress(TableWriterError):
                metastore.get_databases()


LISTING: Final = b"""<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Name>lake</Name><Prefix>a/</Prefix>
<KeyCount>2</KeyCount><MaxKeys>1000</MaxKeys><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>
<Contents><Key>a/1</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>"e1"</ETag><Size>3</Size></Contents>
<Contents><Key>a/2</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>"e2"</ETag><Size>4</Size></Contents>
</ListBucketResult>"""
UPLOADS: Final = b"""<ListMultipartUploadsResult><Bucket>lake</Bucket><EncodingType>url</EncodingType><IsTruncated>false
</IsTruncated><Upload><Key>a/f</Key><UploadId>u1</UploadId><Initiated>2026-01-01T00:00:00.000Z</Initiated></Upload>
</ListMultipartUploadsResult>"""
DELETED: Final = b"<DeleteResult><Deleted><Key>a/1</Key></Deleted></DeleteResult>"
ERROR: Final = b"<Error><Code>NoSuchKey</Code><Message>gone</Message><Key>a/1</Key></Error>"
CREATED: Final = b"<InitiateMultipartUploadResult><UploadId>u1</UploadId></InitiateMultipartUploadResult>"
COMPLETED: Final = b'<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>'
COPIED: Final = (
    b'<CopyObjectResult><ETag>"e"</ETag><LastModified>2026-01-01T00:00:00.000Z</LastModified></CopyObjectResult>'
)
HEADERS: Final = {"ETag": '"e1"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT", "Content-Type": "application/xml"}
BODIES: Final = (LISTING, UPLOADS, DELETED, ERROR, CREATED, COMPLETED, COPIED, b"", b"body")


@dataclass
class StoreAnswers:
    """Damages what an S3 store answers: its XML, its headers, its status, its length."""

    def __call__(self, chance: random.Random) -> None:
        def converse(end: Any) -> tuple[str, bytes] | None:
            request = read_request(end)
            if request is None:
                return None
            answer = http(
                chance.choice((200, 200, 206, 404, 412, 500)), self._honest(request.path, request.method), HEADERS
            )
            return "any", damaged(answer, chance, BODIES) if chance.random() < 0.7 else answer

        with BareServer(converse) as server:
            settings = S3Settings(
                bucket="lake",
                endpoint_url=f"http://127.0.0.1:{server.port}",
                region="us-east-1",
                credentials=(StaticKeys(access_key="a", secret_key="b"),),
                path_style=True,
                requests=ONCE,
            )
            for call in self._calls(open_store(settings)):
                with suppress(TableWriterError):
                    call()

    @staticmethod
    def _honest(path: str, method: str) -> bytes:
        asked = {"list-type": LISTING, "uploads": UPLOADS if method == "GET" else CREATED, "delete": DELETED}
        if method == "POST" and "uploadId" in path:
            return COMPLETED
        return next((body for word, body in asked.items() if word in path), b"body" if method == "GET" else COPIED)

    @staticmethod
    def _calls(store: ObjectStore) -> Iterator[Callable[[], object]]:
        from datetime import UTC, datetime

        info = ObjectInfo(key="a/1", size_bytes=4, etag="e1", modified_at=datetime.now(UTC))
        yield lambda: list(store.list("a/"))
        yield lambda: store.list_page("a/", start_after="a/0")
        yield lambda: store.list_files("a/")
        yield lambda: store.list_directories("a/")
        yield lambda: list(store.list_uploads("a/"))
        yield lambda: store.get("a/1")
        yield lambda: store.head("a/1")
        yield lambda: store.read_range(info, 0, 4)
        yield lambda: store.put_if_absent("a/1", b"x")
        yield lambda: store.copy(info, "a/3")
        yield lambda: store.create_upload("a/f")
        yield lambda: store.complete_upload("a/f", "u1", [])
        yield lambda: store.abort_upload("a/f", "u1")
        yield lambda: store.delete(["a/1", "a/2"])


@dataclass
class Footers:
    """Damages a Parquet file, of which the footer is read."""

    @cached_property
    def honest(self) -> bytes:
        import io

        import pyarrow as pa
        import pyarrow.parquet as pq

        sink = io.BytesIO()
        pq.write_table(pa.table({"id": list(range(50)), "note": ["n"] * 50, "tags": [["a"]] * 50}), sink)
        return sink.getvalue()

    def __call__(self, chance: random.Random) -> None:
        from table_writer.testing.memory_store import MemoryStore

        store = MemoryStore()
        store.put("f.parquet", damaged(self.honest, chance))
        (info,) = store.list("f")
        with suppress(TableWriterError):
            read_footer(store, info)


@dataclass
class Messages:
    """Damages what a task tells the driver."""

    @cached_property
    def honest(self) -> bytes:
        from tests.fuzz.honest import a_message

        return a_message()

    def __call__(self, chance: random.Random) -> None:
        with suppress(TableWriterError):
            CommitMessage.from_bytes(damaged(self.honest, chance))


@dataclass
class SettingsFiles:
    """Damages core-site.xml and spark-defaults.conf."""

    def __call__(self, chance: random.Random) -> None:
        from table_writer.cli.configuration import _properties, read_spark_conf

        site = b"<configuration><property><name>fs.s3a.endpoint</name><value>${env.X}</value>"
        site += b"<final>true</final></property></configuration>"
        with tempfile.TemporaryDirectory() as directory:
            for name, body in (("core-site.xml", site), ("spark-defaults.conf", b"spark.a b\nspark.c=d \\\n e\n")):
                path = Path(directory) / name
                path.write_bytes(damaged(body, chance))
                with suppress(TableWriterError):
                    list(_properties(path)) if name.endswith("xml") else read_spark_conf(str(path))


ATTACKS: Final[Mapping[str, Attack]] = {
    "the log": StoredBytes(plain_world),
    "a Delta mirror": StoredBytes(delta_world),
    "an Iceberg mirror": StoredBytes(iceberg_world),
    "Thrift": MetastoreBytes(),
    "SASL": HandshakeBytes(),
    "S3": StoreAnswers(),
    "footers": Footers(),
    "messages of tasks": Messages(),
    "files of settings": SettingsFiles(),
}


def attacked(name: str, seed: int) -> str:
    """Make one attack; return the fault that it has found, empty if there is none."""
    try:
        with in_time():
            ATTACKS[name](random.Random(seed))  # a schedule, no secret
    except Exception as error:  # noqa: BLE001  # each is a fault
        own = [frame for frame in traceback.extract_tb(error.__traceback__) if "/table_writer/" in frame.filename]
        where = "".join(traceback.format_list(own[-4:]))
        return f"{name}, seed {seed}:\n{where}{type(error).__name__}: {str(error)[:300]}"
    return ""


def run(seconds: float, first_seed: int) -> tuple[Counter[str], dict[str, str]]:
    """Attack everything in turn until the time is over; of each kind of fault one is kept."""
    counts, faults = Counter[str](), dict[str, str]()
    ends, seed = time.monotonic() + seconds, first_seed
    while time.monotonic() < ends:
        for name in ATTACKS:
            counts[name] += 1
            if found := attacked(name, seed):
                faults.setdefault(f"{name}: {found.rstrip().splitlines()[-1][:100]}", found)
        seed += 1
    return counts, faults


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--seed", type=int, default=int(time.time()))
    options.add_argument("--only", choices=sorted(ATTACKS), help="with --seed: one attack, as a failure has named it")
    chosen = options.parse_args()
    logging.disable(logging.CRITICAL)
    if chosen.only:
        sys.exit(attacked(chosen.only, chosen.seed) or "no fault")
    counts, faults = run(chosen.seconds, chosen.seed)
    print(*(f"{count:7,} {name}" for name, count in counts.items()), *faults.values(), sep="\n")
    print(f"{counts.total():,} attacks from seed {chosen.seed}, {len(faults)} kinds of faults")
    sys.exit(bool(faults))
