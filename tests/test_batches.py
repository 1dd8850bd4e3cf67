"""A batch that fails says first what is wrong: Spark shows the text of Python's traceback, from its beginning."""

from __future__ import annotations

import traceback
from typing import Any, Self

import pytest
from pyspark.sql import DataFrame

from table_writer.errors import CheckFailedError, ConflictError, OutcomeUnknownError, StorageError, TableWriterError
from table_writer.jobs.batches import batch_writer
from table_writer.model.check_result import CheckResult


class Batch(DataFrame):
    """A batch without Spark."""

    def __new__(cls) -> Self:
        return object.__new__(cls)

    def __init__(self) -> None: ...


PASSED = CheckResult(name="rows", severity="error", passed=False, message="no row")
ERRORS = [
    ConflictError("somebody else has published dt=d1. Run it again.", table="mart.orders", write_id="w1"),
    OutcomeUnknownError("no answer came", table="mart.orders", write_id="w1"),
    StorageError("the store has failed"),
    CheckFailedError("no row", table="mart.orders", write_id="w1", results=(PASSED,)),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.code)
def test_the_first_line_of_a_failed_batch_is_what_the_error_says(
    error: TableWriterError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise error from OSError("behind it")

    class Gateway:
        def query_ids(self) -> frozenset[str]:
            return frozenset()

    monkeypatch.setattr("table_writer.jobs.batches.open_gateway", lambda _: Gateway())
    monkeypatch.setattr(Batch, "sparkSession", None)
    with pytest.raises(TableWriterError) as raised:
        batch_writer(fail, "mart.orders", "append", "orders", {})(Batch(), 7)
    assert raised.value is error
    shown = "".join(traceback.format_exception(raised.value)).splitlines()
    assert shown[0] == f"{type(error).__module__}.{type(error).__name__}: {str(error).splitlines()[0]}"
    assert len(shown) < 20, "without the frames of the write itself"
    words = error.__cause__
    assert words is not None
    assert isinstance(words.__context__, OSError), "what was behind it can still be asked for"
