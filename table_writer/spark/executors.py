"""What executors need before their first task, and requests to the store in such numbers that they send them."""

from __future__ import annotations

import atexit
import pickle
import shutil
import sys
import tempfile
import threading
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

import table_writer
from table_writer.errors import InvalidInputError, StorageError
from table_writer.log.files import batches
from table_writer.model.message import PendingUpload
from table_writer.model.process import PerProcess
from table_writer.progress import current
from table_writer.spark.jobs import run_interruptibly, translated
from table_writer.spark.sql import spark_reason
from table_writer.storage import SourceChangedError, open_store
from table_writer.storage.object_store import ObjectInfo, ObjectStore

__all__ = [
    "ITEMS_PER_TASK",
    "MANY_COPIES",
    "ExecutorCompletions",
    "ExecutorCopies",
    "Executors",
    "in_one_task",
    "jobs",
    "prepare_executors",
    "probe_executors",
    "worker_store",
]

ITEMS_PER_TASK: Final = 500
THREADS: Final = 16
TASKS_PER_JOB: Final = 40  # 20,000 uploads: no store takes more at a time, and 100,000 would be held twice while packed
MANY_COPIES: Final = 2_000  # a Spark job takes as long as some hundred requests
REQUIRED: Final = (("pyarrow", 21), ("boto3", 1))  # with the lowest major version
MAX_PROBES: Final = 64
Item = TypeVar("Item")
Answer = TypeVar("Answer")
_prepared: Final[set[str]] = set()
_preparing: Final = PerProcess(threading.Lock)


def prepare_executors(context: SparkContext) -> None:
    """Send this package to the executors and look whether they can run it; does nothing the second time.

    In local mode with this very interpreter the workers are children of this process: nothing to send or to look for.
    """
    if workers_are_like_us(context):
        return
    with _preparing.get():
        if context.applicationId in _prepared:
            return
        _ship_package(context)
        probe_executors(context)
        _prepared.add(context.applicationId)


def workers_are_like_us(context: SparkContext) -> bool:
    """Whether Python workers run on this machine with this interpreter.

    Without ``PYSPARK_PYTHON`` Spark starts whatever ``python3`` is on the path, which need not be this environment's.
    """
    worker = shutil.which(context.pythonExec)
    return (context.master or "").split("[")[0] == "local" and worker == sys.executable


def _ship_package(context: SparkContext) -> None:
    package = Path(table_writer.__file__).parent
    if not package.is_dir():
        return  # imported from a zip: it came with --py-files, which executors get too
    directory = Path(tempfile.mkdtemp(prefix="table_writer-package-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)  # executors that join later fetch it from here
    archive = directory / "table_writer_package.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for source in sorted(package.rglob("*.py")):
            file.write(source, source.relative_to(package.parent))
    context.addPyFile(str(archive))


def probe_executors(context: SparkContext) -> None:
    """Run a task per core, at most 64; refuse executors that lack a library, or run another minor version of Python."""
    count = max(1, min(MAX_PROBES, context.defaultParallelism))
    try:
        answers = context.parallelize(range(count), count).mapPartitions(_look(REQUIRED)).collect()
    except (PySparkException, Py4JError) as error:
        if "PYTHON_VERSION_MISMATCH" not in str(error) and "different version" not in str(error):
            raise
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise InvalidInputError(
            f"executors run another Python than the driver ({version}): set spark.pyspark.python (or PYSPARK_PYTHON) "
            f"to a Python {version} that is on every executor, and start the session again"
        ) from error
    lacking = sorted({answer for answer in answers if answer})
    if lacking:
        raise InvalidInputError(
            f"{'; '.join(lacking)}. Install table_writer's requirements where executors run "
            "(pip install 'pyarrow>=21' 'boto3>=1.36', or ship an environment with spark.archives), or set "
            "spark.pyspark.python (or PYSPARK_PYTHON) to an interpreter that has them, and start the session again"
        )


def _look(required: tuple[tuple[str, int], ...]) -> Callable[[Iterable[int]], Iterable[str]]:
    """Return what each task does; it travels by value, so it needs nothing of this package on the executor."""

    def look(_: Iterable[int]) -> Iterator[str]:
        import importlib  # noqa: PLC0415 - on the executor
        import socket  # noqa: PLC0415

        for name, lowest in required:
            try:
                module: Any = importlib.import_module(name)
            except ImportError as error:
                yield f"executor on {socket.gethostname()} cannot import {name} ({error})"
                continue
            if int(module.__version__.split(".")[0]) < lowest:
                yield f"executor on {socket.gethostname()} has {name} {module.__version__}; {lowest} or newer is needed"

    return look


@dataclass(frozen=True)
class Executors:
    """Runs a function on items in a Spark job of its own."""

    context: SparkContext
    store_settings: Any
    write_id: str  # the job's tag
    count_requests: Callable[[Mapping[str, int]], None]  # told what the tasks sent, by kind

    def run(
        self,
        items: Sequence[Item],
        work: Callable[[Iterable[Item]], Iterator[tuple[Mapping[str, int], Answer]]],
        *,
        task_count: int,
    ) -> list[Answer]:
        """Return what each task answered beside its requests.

        Raises what a task raised, and a ``StorageError`` for what Spark itself could not do, such as run the tasks to
        their end. Ctrl-C and any failure end the other tasks first.
        """
        prepare_executors(self.context)
        before = current().now

        def counted(done: int, total: int) -> tuple[int, int, str]:
            """Count what is counted already, uploads or copies, of which each task does its share."""
            if before.total is None:
                return done, total, "tasks"
            return min(before.done + done * ITEMS_PER_TASK, before.total), before.total, before.unit

        try:
            job = self.context.parallelize(items, task_count).mapPartitions(work)
            with translated(self.write_id):
                tag = f"table_writer-{self.write_id}"
                answers = run_interruptibly(self.context, job.collect, tag=tag, counted=counted)
        except (PySparkException, Py4JError) as error:  # no code of the user's runs in these tasks
            raise StorageError(
                f"executors could not send the requests of write {self.write_id}: {spark_reason(error).rstrip('.')}."
                " Nothing was published; look at the job in Spark's UI, and run the write again.",
                write_id=self.write_id,
            ) from error
        for requests, _ in answers:
            self.count_requests(requests)
        return [answer for _, answer in answers]


def in_one_task(
    store_settings: Any, do: Callable[[ObjectStore, Item], Answer], items: Iterable[Item]
) -> tuple[Mapping[str, int], list[Answer]]:
    """Run ``do`` on all items, several at once; returns the requests sent, by kind, and the answers.

    The first failure is raised; what has not begun by then does not begin any more.
    """
    store = worker_store(store_settings)
    before = Counter(store.request_counts())
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="table_writer-task")
    try:
        futures = [pool.submit(do, store, item) for item in items]
        answers = [future.result() for future in futures]
    finally:
        pool.shutdown(cancel_futures=True)
    return dict(Counter(store.request_counts()) - before), answers


@lru_cache(maxsize=4)
def worker_store(settings: Any) -> ObjectStore:
    """Open a store once in a process, which takes 100 to 200 ms."""
    return open_store(settings)


@dataclass(frozen=True)
class ExecutorCompletions:
    """Completes uploads by a Spark job; what failed attempts have sent is not counted."""

    executors: Executors

    def __call__(self, uploads: Iterable[PendingUpload]) -> None:
        """Complete every upload; they are read once, and few are held at a time.

        After a ``StorageError`` any part of the others may be completed. No task runs any more, except on executors
        that have stopped answering.
        """
        work = _completer(self.executors.store_settings)
        for shares in jobs(uploads):
            self.executors.run(shares, work, task_count=len(shares))


def jobs(uploads: Iterable[PendingUpload]) -> Iterator[list[bytes]]:
    """Yield the shares of one job after the other: what each task gets, packed."""
    shares = (zlib.compress(pickle.dumps(batch), level=1) for batch in batches(uploads, ITEMS_PER_TASK))
    return batches(shares, TASKS_PER_JOB)


def _completer(settings: Any) -> Callable[[Iterable[bytes]], Iterator[tuple[Mapping[str, int], None]]]:
    """Return what one task does."""

    def complete_one(store: ObjectStore, upload: PendingUpload) -> None:
        store.complete_upload(upload.key, upload.upload_id, upload.parts)

    def complete_all(shares: Iterable[bytes]) -> Iterator[tuple[Mapping[str, int], None]]:
        for share in shares:
            uploads = pickle.loads(zlib.decompress(share))  # noqa: S301 - packed by the driver, as all of a job is
            requests, _ = in_one_task(settings, complete_one, uploads)
            yield requests, None

    return complete_all


@dataclass(frozen=True)
class ExecutorCopies:
    """Copies many files by a Spark job, few of them by the driver's own threads."""

    executors: Executors
    copy_few: Callable[[Mapping[str, ObjectInfo]], None]  # the driver's way
    many: int = MANY_COPIES  # from so many copies on executors do it

    def __call__(self, copies: Mapping[str, ObjectInfo]) -> None:
        """Make every copy, or raise: ``SourceChangedError`` for an object that is not what was listed."""
        if len(copies) < self.many:
            self.copy_few(copies)
            return
        task_count = -(-len(copies) // ITEMS_PER_TASK)
        work = _copier(self.executors.store_settings)
        answers = self.executors.run(list(copies.items()), work, task_count=task_count)
        changed = next(filter(None, answers), "")
        if changed:
            raise SourceChangedError(changed, write_id=self.executors.write_id)


def _copier(settings: Any) -> Callable[[Iterable[tuple[str, ObjectInfo]]], Iterator[tuple[Mapping[str, int], str]]]:
    """Return what one task does; it answers with its requests, and with a message if a source has changed."""

    def copy_one(store: ObjectStore, copy: tuple[str, ObjectInfo]) -> str:
        key, source = copy
        try:
            store.copy(source, key)
        except SourceChangedError as changed:
            return changed.message
        return ""

    def copy_all(copies: Iterable[tuple[str, ObjectInfo]]) -> Iterator[tuple[Mapping[str, int], str]]:
        requests, messages = in_one_task(settings, copy_one, copies)
        yield requests, next(filter(None, messages), "")

    return copy_all
