"""A Spark job that ends with the call that started it: Ctrl-C stops its tasks too."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Container, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark import SparkContext, SparkJobInfo, SparkStageInfo
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.util import InheritableThread

from table_writer import errors
from table_writer.progress import current

__all__ = ["Counted", "batches_of", "run_interruptibly", "translated"]

_logger = logging.getLogger(__name__)
Answer = TypeVar("Answer")

Counted = Callable[[int, int], tuple[int, int, str]]
"""Makes of the number of tasks that are done, and that there are, what is done, what there is to do, and its name."""

LAST_TASKS_SECONDS: Final = 15.0  # Spark kills a Python worker 2 s after its task was cancelled
POLL_SECONDS: Final = 0.05

RAISED_ON_EXECUTOR: Final = re.compile(r"^(?:.*: )?table_writer\.errors\.(\w+): (.*)$", re.MULTILINE)
"""How a Python traceback ends, in the text of Spark's exception."""

MAX_ROWS_SETTING: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
MAX_BYTES_SETTING: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
UNWEIGHED: Final = 2**31 - 1  # the one value with which Spark does not compute the size of a batch after each row


def tasks(done: int, total: int) -> tuple[int, int, str]:
    """Count tasks as such."""
    return done, total, "tasks"


def run_interruptibly(
    context: SparkContext, work: Callable[[], Answer], *, tag: str, counted: Counted = tasks
) -> Answer:
    """Run what starts Spark jobs; when it fails or is interrupted, return only after its tasks have ended (or 15 s).

    The work runs on a thread of its own. On the caller's, Ctrl-C would cut the connection to Java between a question
    and its answer, and the request to cancel would wait behind the job that it is to cancel.

    Meanwhile the progress of this thread's write shows the tasks, or what ``counted`` makes of how many are done.
    """
    outcome: Future[Answer] = Future()
    own_tag = f"{tag}-{uuid4().hex}"  # of this run: the write may have had others

    def run() -> None:
        try:
            context.addJobTag(tag)
            context.addJobTag(own_tag)
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again on the caller's thread
            outcome.set_exception(error)

    thread: Any = InheritableThread(
        target=run, name=tag, daemon=True
    )  # keeps the caller's job group, pool, description
    thread.start()
    try:
        with current().asking(TaskCounter(context, own_tag, counted)):
            return outcome.result()
    except BaseException:  # Ctrl-C above all
        _end_tasks(context, tag, outcome)
        raise


def _end_tasks(context: SparkContext, tag: str, outcome: Future[Any]) -> None:
    """Cancel and wait, so that whoever cleans up next finds the uploads of these tasks.

    A Python worker can outlive its task by the seconds it takes to notice; what it leaves is vacuum's.
    """
    try:
        context.cancelJobsWithTag(tag)
        deadline = time.monotonic() + LAST_TASKS_SECONDS
        while not outcome.done() or _active_tasks(context, tag):
            if time.monotonic() > deadline:
                _logger.warning("tasks of %s still run %.0f s after they were cancelled", tag, LAST_TASKS_SECONDS)
                return
            time.sleep(POLL_SECONDS)
    except (Py4JError, OSError):
        _logger.warning("tasks of %s could not be cancelled: Spark does not answer", tag, exc_info=True)


def _active_tasks(context: SparkContext, tag: str) -> int:
    return sum(stage.numActiveTasks for job in _jobs(context, tag) for stage in _stages(context, job))


@dataclass
class TaskCounter:
    """Asks Spark how many tasks of a run are done. A job that is over is not asked about again."""

    context: SparkContext
    tag: str
    counted: Counted
    over: dict[int, int] = field(default_factory=dict)  # jobs and the number of their tasks

    def __call__(self) -> tuple[int, int, str]:
        """Return what is done and what there is to do, as far as Spark has planned it: further stages may come."""
        done = total = 0
        for job in _jobs(self.context, self.tag, known=self.over):
            stages = _stages(self.context, job)
            finished = sum(stage.numCompletedTasks for stage in stages)
            if job.status == "RUNNING":
                total += sum(stage.numTasks for stage in stages)
                done += finished
            else:
                self.over[job.jobId] = finished  # stages that were skipped have tasks, and none of them is ever done
        ended = sum(self.over.values())
        return self.counted(done + ended, total + ended)


def _jobs(context: SparkContext, tag: str, known: Container[int] = ()) -> list[SparkJobInfo]:
    tracker = context.statusTracker()
    ids: Any = context._jsc.sc().statusTracker().getJobIdsForTag(tag)  # noqa: SLF001 - Python's lacks tags
    found = (tracker.getJobInfo(job) for job in ids if job not in known)
    return [job for job in found if job is not None]


def _stages(context: SparkContext, job: SparkJobInfo) -> list[SparkStageInfo]:
    found = map(context.statusTracker().getStageInfo, job.stageIds)
    return [stage for stage in found if stage is not None]


@contextmanager
def translated(write_id: str) -> Iterator[None]:
    """Turn Spark's exception into the error that a task raised; let failures of the user's own code pass."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        found = RAISED_ON_EXECUTOR.findall(str(error))
        if not found:
            raise
        name, message = found[-1]
        kind = getattr(errors, name, errors.TableWriterError)
        raise kind(message, write_id=write_id) from error


@contextmanager
def batches_of(spark: SparkSession, row_count: int) -> Iterator[None]:
    """Let the jobs that this thread starts in a block send so many rows at once, not weighed; 0 leaves it to Spark.

    A session that sets one of Spark's two limits keeps them. Tasks read them from the properties of their job, into
    which Spark puts all that a session sets: so no setting changes, and nothing of what other threads run meanwhile.
    """
    context: Any = spark.sparkContext  # whose annotation forgets that None takes a property away
    conf: Any = spark._jsparkSession.sessionState().conf()  # noqa: SLF001 - what is set, without defaults
    limits = {MAX_ROWS_SETTING: str(row_count), MAX_BYTES_SETTING: str(UNWEIGHED)} if row_count else {}
    chosen = {} if any(conf.contains(name) for name in limits) else limits
    before = {name: context.getLocalProperty(name) for name in chosen}
    try:
        for name, value in chosen.items():
            context.setLocalProperty(name, value)
        yield
    finally:
        for name, former in before.items():
            context.setLocalProperty(name, former)
