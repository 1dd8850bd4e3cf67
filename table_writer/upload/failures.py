"""An error of ours, raised on an executor, is the same error on the driver."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from table_writer import errors

__all__ = ["translated"]

RAISED_ON_EXECUTOR: Final = re.compile(r"^(?:.*: )?table_writer\.errors\.(\w+): (.*)$", re.MULTILINE)
"""How a Python traceback ends, in the text of Spark's exception."""


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
