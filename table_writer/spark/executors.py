"""Prepares executors before their first task, and lets them send requests that are too many for the driver."""

from __future__ import annotations

import pickle
import shutil
import sys
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer.errors import InvalidInputError, StorageError
from table_writer.model.message import PendingUpload
from table_writer.model.process import PerProcess
from table_writer.progress import current
from table_writer.spark.gateway import TASK, Answer, Item, SparkGateway
from table_writer.spark.shipping import is_in_a_zip, package_of_tasks
from table_writer.spark.sql import SPARK_ERRORS, fetched, spark_sentence
from table_writer.storage.kinds import KINDS
from table_writer.storage.object_store import ObjectInfo, SourceChangedError
from table_writer.storage.table_files import batches
from table_writer.storage.worker import completer, copier
from table_writer.version import CODE, __version__, installed_version, is_replaced

if TYPE_CHECKING:
    from pyspark import SparkContext  # which a PySpark of Spark Connect alone does not have

ITEMS_PER_TASK: Final = 500
TASKS_PER_JOB: Final = 40  # 20,000 uploads: no store takes more at a time, and 100,000 would be held twice while packed
MANY_COPIES: Final = 2_000  # a Spark job takes as long as some hundred requests
REQUIRED: Final = (("pyarrow", 21), ("botocore", 1))  # with the lowest major version; boto3 brings the second
OF_STORES: Final = ", ".join(
    f"for {kind.name} {' and '.join(map(repr, kind.requirements))} as well" for kind in KINDS if kind.requirements
)
MAX_PROBES: Final = 64
_prepared: Final[set[tuple[str, int]]] = set()
_preparing: Final = PerProcess(threading.Lock)


def refuse_replaced() -> None:
    """Refuse to begin anything once another version was installed over the one that this process has loaded."""
    if is_replaced():
        raise InvalidInputError(
            f"another table_writer was installed while this process ran, or its files were changed: {__version__} was"
            f" loaded, and {installed_version()} is what a task would load now. Nothing was written. End this Python"
            " process, and with it the Spark session, and start it again"
        )


def prepare_executors(context: SparkContext) -> None:
    """Send the executors what tasks import, and look whether they can run it; does nothing the second time.

    In local mode with this very interpreter the workers are children of this process: nothing to send or to look for.
    """
    if workers_are_like_us(context):
        return
    with _preparing.get():
        required = required_of_executors()
        if (context.applicationId, len(required)) in _prepared:
            return
        if not is_in_a_zip():  # which came with --py-files, as theirs does
            paths = list(sys.path)
            context.addPyFile(str(package_of_tasks()))
            # Spark puts it on the driver's path as well, where a child process would import this part of the package.
            sys.path[:] = [path for path in sys.path if path in paths]
        probe_executors(context, required)
        _prepared.add((context.applicationId, len(required)))


def required_of_executors() -> tuple[tuple[str, int], ...]:
    """Return the libraries that executors must import: those of one kind of store only once one was opened here."""
    opened = (kind for kind in KINDS if f"{kind.package}.store" in sys.modules)
    return (*REQUIRED, *(library for kind in opened for library in kind.libraries))


def prepare_session(spark: Any) -> None:
    """Do the same for a session of Spark Connect, whose artifacts are its own."""
    with _preparing.get():
        required = required_of_executors()
        if (spark.session_id, len(required)) in _prepared:
            return
        spark.addArtifacts(str(package_of_tasks()), pyfile=True)
        probe_session(spark, required)
        _prepared.add((spark.session_id, len(required)))


def workers_are_like_us(context: SparkContext) -> bool:
    """Return whether Python workers run on this machine with this interpreter.

    Without ``PYSPARK_PYTHON`` Spark starts whatever ``python3`` is on the path, which need not be this environment's.
    """
    worker = shutil.which(context.pythonExec)
    return (context.master or "").split("[")[0] == "local" and worker == sys.executable


def probe_executors(context: SparkContext, required: tuple[tuple[str, int], ...] = REQUIRED) -> None:
    """Run a task per core, at most 64; refuse executors that lack a library, or run another minor version of Python."""
    count = max(1, min(MAX_PROBES, context.defaultParallelism))
    try:
        answers = context.parallelize(range(count), count).mapPartitions(_library_probe(required)).collect()
    except SPARK_ERRORS as error:
        _refuse_another_python(error)
        raise
    _require_none(answers)


def probe_session(spark: Any, required: tuple[tuple[str, int], ...] = REQUIRED) -> None:
    """Do the same over Spark Connect: Spark runs a task for each core that it knows of."""
    look = _library_probe(required)
    probe = F.udf(lambda _: list(look(())), "array<string>", useArrow=False)  # Arrow may be what is missing
    try:
        rows = fetched(spark.range(MAX_PROBES).select(probe("id")).distinct())
    except SPARK_ERRORS as error:
        _refuse_another_python(error)
        raise
    _require_none([answer for row in rows for answer in row[0]])


def _refuse_another_python(error: Exception) -> None:
    said = str(error)
    if "PYTHON_VERSION_MISMATCH" in said or "different version" in said:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise InvalidInputError(
            f"executors run another Python than this process ({version}): set spark.pyspark.python (or PYSPARK_PYTHON) "
            f"to a Python {version} that is on every executor, and start Spark again"
        ) from error


def _require_none(answers: Sequence[str]) -> None:
    lacking = sorted({answer for answer in answers if answer})
    if lacking:
        raise InvalidInputError(
            f"{'; '.join(lacking)}. Install table_writer's requirements where executors run (pip install 'pyarrow>=21' "
            f"'boto3>=1.36', {OF_STORES}, or ship an environment with spark.archives), or set "
            "spark.pyspark.python (or PYSPARK_PYTHON) to an interpreter that has them, and start the session again"
        )


def _library_probe(required: tuple[tuple[str, int], ...]) -> Callable[[Iterable[int]], Iterable[str]]:
    """Return the function of each task; it travels by value, so it needs nothing of this package on the executor."""

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


def as_sent(work: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
    """Return the same work, which a worker unpacks only if its files of this package are those of this process.

    It travels by value and needs nothing of this package itself, whichever version the worker has. Without it a worker
    that was started after an upgrade fails where it happens to meet what it does not know, or misreads it.
    """
    packed_work, code, here = CloudPickleSerializer().dumps(work), CODE, __version__  # type: ignore[no-untyped-call]

    def run(items: Any) -> Iterator[Any]:
        import pickle  # noqa: PLC0415 - on the executor
        import socket  # noqa: PLC0415

        try:
            from table_writer import version  # noqa: PLC0415

            another = "" if code == version.CODE else f"{version.__version__} in {version.__file__}"
        except (ImportError, AttributeError, OSError) as error:  # none, or one from before it had a CODE
            another = f"none that can be used ({error})"
        if another:
            raise RuntimeError(
                f"\ntable_writer.errors.InvalidInputError: the Python worker on {socket.gethostname()} has another"
                f" table_writer than the driver, which has loaded {here}: {another}. Nothing was published. If it was"
                " installed while this session ran, end the driver's Python process and start it again; if executors"
                " have one of their own, install the driver's there, or none\n"
            )
        yield from pickle.loads(packed_work)(items)  # noqa: S301 - packed by the driver, as all of a job is

    run.__name__ = TASK
    return run


@dataclass(frozen=True)
class Executors:
    """Completes uploads and copies files in Spark jobs of their own; what failed attempts have sent is not counted."""

    spark: SparkGateway
    store_settings: Any
    write_id: str  # the jobs' tag
    count_requests: Callable[[Mapping[str, int]], None]  # told what the tasks sent, by kind

    def complete(self, uploads: Iterable[PendingUpload]) -> None:
        """Complete every upload; they are read once, and few are held at a time.

        After a ``StorageError`` any part of the others may be completed. No task runs any more, except on executors
        that have stopped answering.
        """
        for shares in jobs(uploads):
            self.run(shares, completer(self.store_settings), task_count=len(shares))

    def copy(
        self,
        copies: Mapping[str, ObjectInfo],
        *,
        few: Callable[[Mapping[str, ObjectInfo]], None],
        many: int = MANY_COPIES,
    ) -> None:
        """Make every copy, or raise: ``SourceChangedError`` for an object that is not what was listed.

        Fewer than ``many`` are left to ``few``, which the driver does by threads of its own.
        """
        if len(copies) < many:
            few(copies)
            return
        task_count = -(-len(copies) // ITEMS_PER_TASK)
        answers = self.run(list(copies.items()), copier(self.store_settings), task_count=task_count)
        changed = next(filter(None, answers), "")
        if changed:
            raise SourceChangedError(changed, write_id=self.write_id)

    def run(
        self,
        items: Sequence[Item],
        work: Callable[[Iterable[Item]], Iterator[tuple[Mapping[str, int], Answer]]],
        *,
        task_count: int,
    ) -> list[Answer]:
        """Return each task's answer without its requests.

        Raises what a task raised, and a ``StorageError`` for what Spark itself could not do, such as run the tasks to
        their end. Ctrl-C and any failure end the other tasks first.
        """
        self.spark.prepare_executors()
        before = current().snapshot

        def counted(done: int, total: int) -> tuple[int, int, str]:
            """Count what is counted already, uploads or copies, of which each task does its share."""
            if before.total is None:
                return done, total, "tasks"
            return min(before.done + done * ITEMS_PER_TASK, before.total), before.total, before.unit

        try:
            answers = self.spark.run(self.write_id, self.spark.on_executors(items, work, task_count), counted)
        except SPARK_ERRORS as error:  # no code of the user's runs in these tasks
            raise StorageError(
                f"executors could not send the requests of write {self.write_id}: {spark_sentence(error)}"
                " Nothing was published; look at the job in Spark's UI, and run the write again.",
                write_id=self.write_id,
            ) from error
        for requests, _ in answers:
            self.count_requests(requests)
        return [answer for _, answer in answers]


def jobs(uploads: Iterable[PendingUpload]) -> Iterator[list[bytes]]:
    """Yield the shares of one job after the other: what each task gets, packed."""
    shares = (zlib.compress(pickle.dumps(batch), level=1) for batch in batches(uploads, ITEMS_PER_TASK))
    return batches(shares, TASKS_PER_JOB)
