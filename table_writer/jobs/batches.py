"""Write the batches of a stream: each is one write, in the process from which Spark calls.

A classic session calls from the driver's own process. Spark Connect's server calls from a Python process beside Spark's
driver: the function is sent there, together with this package, and opens metastore and store anew.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame

from table_writer.checked import checked
from table_writer.config import TableWriterConfig
from table_writer.errors import InvalidInputError, TableWriterError
from table_writer.jobs.calls import CHANGES, Call, CallKeywords, call_of
from table_writer.jobs.rows.change import RowCall
from table_writer.jobs.rows.merge import Merge
from table_writer.jobs.run import Steps
from table_writer.jobs.session_services import SessionServices
from table_writer.protocol.log.rules import QUERY_TAG
from table_writer.reports.write_result import WriteResult
from table_writer.spark import open_gateway
from table_writer.spark.shipping import package_of_streams

logger = logging.getLogger(__name__)
WriteBatch = Callable[[DataFrame, int], None]


def write_one(steps: Steps, batch: DataFrame, table: str, call: Call | RowCall) -> WriteResult:
    """Write the batch of a stream, or apply it to the table's rows."""
    steps = steps.of_call(batch)
    return steps.change_rows(table, call) if isinstance(call, RowCall) else steps.write(batch, table, call)


def batch_writer(
    write: Callable[[DataFrame, str, Call | RowCall], WriteResult],
    table: str,
    mode: str,
    query_name: str,
    keywords: CallKeywords,
) -> WriteBatch:
    """Return a function for ``foreachBatch``: each batch is one write, with a key of its own."""
    if mode in CHANGES and mode != Merge.name:
        raise InvalidInputError(f"mode={mode!r} takes no rows, and so no batches; merge is the change that does")
    if not query_name or "idempotency_key" in keywords or "write_uuid" in keywords:
        raise InvalidInputError(
            "for_each_batch makes the idempotency key of each batch out of query_name, which must not be empty, and the"
            " batch id: leave idempotency_key and write_uuid out"
        )
    if keywords.get("based_on") is not None:
        raise InvalidInputError("each batch publishes a version: leave based_on out, with which the second would fail")
    all_keywords = keywords if mode in CHANGES else CallKeywords(if_empty="ignore") | keywords
    as_asked = call_of(mode, all_keywords)
    if isinstance(as_asked, Call):
        as_asked.options.require_fit(as_asked.mode)

    @checked
    def write_batch(batch: DataFrame, batch_id: int) -> None:
        is_frame = isinstance(batch, DataFrame)  # the write refuses anything else, by name
        query_ids = open_gateway(batch.sparkSession).query_ids() if is_frame else frozenset[str]()
        tags = {**all_keywords.get("tags", {}), **({QUERY_TAG: next(iter(query_ids))} if len(query_ids) == 1 else {})}
        of_batch = {**all_keywords, "idempotency_key": f"{query_name}/{batch_id}", "tags": tags}
        call = call_of(mode, of_batch, batch, stream=query_name, query_ids=query_ids)
        try:
            result = write(batch, table, call)
        except TableWriterError as error:
            logger.info("query %s batch %d has failed", query_name, batch_id, exc_info=True)
            raise error.with_traceback(None) from _words_of(error)
        logger.info("query %s batch %d: %r", query_name, batch_id, result)

    return write_batch


def _words_of(error: TableWriterError) -> TableWriterError:
    """Return an error that has nothing but the words of another one, as whose cause it is printed first.

    Spark fails the query with the text of Python's traceback, in which causes come before what they have caused: so
    the words begin its first line, and do not end its sixtieth. What was behind them stays, and is not printed.
    """
    words = copy(error)
    words.__context__, words.__suppress_context__ = error.__cause__ or error.__context__, True
    return words


@dataclass(frozen=True, kw_only=True, repr=False)
class TravellingBatchWriter:
    """A function for ``foreachBatch`` that can be sent to Spark Connect's server.

    The copy there has this process's settings, keys of S3 among them, since it sees neither its session's secrets nor
    its environment.
    """

    write_here: WriteBatch
    services: SessionServices
    call: tuple[str, str, str, CallKeywords]

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write a batch from this process."""
        self.write_here(batch, batch_id)

    def __reduce__(self) -> tuple[Callable[[bytes, bytes], WriteBatch], tuple[bytes, bytes]]:
        config = self.services.config
        settings = {**self.services.session.hadoop, **config.hadoop}
        progress = config.progress if isinstance(config.progress, str) else "log"  # the listener stays in this process
        if config.listeners:
            logger.warning("listeners stay in this process: batches are written beside the server, which tells nobody")
        dumps: Any = cloudpickle.dumps  # cloudpickle has no annotations
        state = dumps((replace(config, hadoop=settings, progress=progress, listeners=()), self.call))
        return _loader(), (package_of_streams(), state)


def _loader() -> Callable[[bytes, bytes], WriteBatch]:
    """Return the function that unpacks a copy; it travels by value, so it needs nothing of this package there."""

    def load(package: bytes, state: bytes) -> Any:
        import atexit  # noqa: PLC0415 - beside the server
        import shutil  # noqa: PLC0415
        import sys  # noqa: PLC0415
        import tempfile  # noqa: PLC0415
        from pathlib import Path  # noqa: PLC0415

        directory = Path(tempfile.mkdtemp(prefix="table_writer-package-"))
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        archive = directory / "table_writer_package.zip"
        archive.write_bytes(package)
        sys.path.insert(0, str(archive))
        from table_writer.jobs.batches import unpack_batch_writer  # noqa: PLC0415

        return unpack_batch_writer(state)

    return load


def unpack_batch_writer(state: bytes) -> WriteBatch:
    """Return the function that was sent, in the process that calls it."""
    config: TableWriterConfig
    config, (table, mode, query_name, keywords) = pickle.loads(state)  # noqa: S301  # of the user's own process
    steps_by_session: dict[str, Steps] = {}

    def write(batch: DataFrame, name: str, call: Call | RowCall) -> WriteResult:
        session: Any = batch.sparkSession
        if session.session_id not in steps_by_session:
            steps_by_session.clear()
            steps_by_session[session.session_id] = Steps(session, SessionServices(session, config))
        return write_one(steps_by_session[session.session_id], batch, name, call)

    return batch_writer(write, table, mode, query_name, keywords)
