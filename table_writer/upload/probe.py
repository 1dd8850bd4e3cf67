"""A tiny Spark job that says what executors lack before the first row is read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from table_writer.errors import InvalidInputError

__all__ = ["probe_executors"]

REQUIRED: Final = (("pyarrow", 21), ("boto3", 1))  # with the lowest major version
MAX_PROBES: Final = 64


def probe_executors(context: SparkContext) -> None:
    """Run a task per core, at most 64.

    Raises
    ------
    InvalidInputError
        An executor lacks boto3 or pyarrow, or runs another minor version of Python than the driver.
    """
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
