"""Executors that run on other machines get this package, once a Spark application."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
import threading
import zipfile
from pathlib import Path
from typing import Final

from pyspark import SparkContext

import table_writer
from table_writer.per_process import PerProcess
from table_writer.upload.probe import probe_executors

__all__ = ["prepare_executors"]

_prepared: Final[set[str]] = set()
_preparing: Final = PerProcess(threading.Lock)


def prepare_executors(context: SparkContext) -> None:
    """Send this package to the executors and look whether they can run it; does nothing the second time.

    In local mode with this very interpreter the workers are children of this process: nothing to send or to look for.

    Raises
    ------
    InvalidInputError
        The executors lack something; the message names the fix.
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
