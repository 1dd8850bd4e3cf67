"""Batches of a stream as writes, each recognised when it comes again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from pyspark.sql import DataFrame

from table_writer.checked import checked
from table_writer.display.write_result import WriteResult
from table_writer.errors import InvalidInputError
from table_writer.model.write import WriteMode
from table_writer.options import WriteKeywords, WriteOptions, write_mode

__all__ = ["batch_writer"]

logger = logging.getLogger(__name__)


class Write(Protocol):
    """Steps 1 to 5 of one write."""

    def __call__(
        self, df: DataFrame, table: str, mode: WriteMode, options: WriteOptions, *, is_batch: bool
    ) -> WriteResult:
        """Write, and say what was done."""


def batch_writer(
    write: Write, table: str, mode: str, query_name: str, keywords: WriteKeywords
) -> Callable[[DataFrame, int], None]:
    """Return a function for ``foreachBatch``: each batch is one write, with a key of its own.

    Raises
    ------
    InvalidInputError
        An option cannot be used.
    """
    chosen = write_mode(mode)
    if not query_name or "idempotency_key" in keywords or "write_uuid" in keywords:
        raise InvalidInputError(
            "for_each_batch makes the idempotency key of each batch out of query_name, which must not be empty, and the"
            " batch id: leave idempotency_key and write_uuid out"
        )
    every = WriteKeywords(if_empty="ignore") | keywords
    WriteOptions(**every).require_fit(chosen)

    @checked
    def write_batch(batch: DataFrame, batch_id: int) -> None:
        options = WriteOptions(**every | {"idempotency_key": f"{query_name}/{batch_id}"})
        logger.info("query %s batch %d: %r", query_name, batch_id, write(batch, table, chosen, options, is_batch=True))

    return write_batch
