"""Executors that run on other machines get this package, once a Spark application."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

import table_writer
from table_writer.errors import InvalidInputError
from table_writer.model.process import PerProcess

__all__ = ["prepare_executors", "probe_executors"]


_prepared: Final[set[str]] = set()

_preparing: Final = PerProcess(threading.Lock)

REQUIRED: Final = (("pyarrow", 21), ("boto3", 1))  # with the lowest major version

MAX_PROBES: Final = 64


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
