"""A Spark job that ends with the call that started it: Ctrl-C stops its tasks too."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.util import InheritableThread

__all__ = ["run_interruptibly"]

_logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

LAST_TASKS_SECONDS: Final = 15.0  # Spark kills a Python worker 2 s after its task was cancelled
POLL_SECONDS: Final = 0.05


def run_interruptibly(context: SparkContext, work: Callable[[], Answer], *, tag: str) -> Answer:
    """Run what starts Spark jobs; when it fails or is interrupted, return only after its tasks have ended (or 15 s).

    The work runs on a thread of its own. On the caller's, Ctrl-C would cut the connection to Java between a question
    and its answer, and the request to cancel would wait behind the job that it is to cancel.
    """
    outcome: Future[Answer] = Future()

    def run() -> None:
        try:
            context.addJobTag(tag)
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again on the caller's thread
            outcome.set_exception(error)

    thread: Any = InheritableThread(
        target=run, name=tag, daemon=True
    )  # keeps the caller's job group, pool, description
    thread.start()
    try:
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
    tracker = context.statusTracker()
    jobs: Any = context._jsc.sc().statusTracker().getJobIdsForTag(tag)  # noqa: SLF001 - Python's lacks tags
    jobs_known = [tracker.getJobInfo(job) for job in jobs]
    stages = [tracker.getStageInfo(stage) for job in jobs_known if job is not None for stage in job.stageIds]
    return sum(stage.numActiveTasks for stage in stages if stage is not None)
