"""Rows that may be few enough for the driver to hold: Spark runs their query with a limit, and nobody knows before.

What Spark estimates says nothing: 93 to 1,182 times too few bytes were seen for ``explode`` and repeating texts. So a
bound on rows and on the width of each holds in the query itself, and the estimate decides only whether to ask.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer.model.units import MIB
from table_writer.spark import is_connect, open_gateway
from table_writer.spark.sql import SPARK_ERRORS
from table_writer.spark.widths import fixed_row_bytes, is_measured_soon, row_width_at_once

MOST_BYTES: Final = 32 * MIB  # of rows in Arrow that the driver holds
MOST_ROWS: Final = 65_536  # two warm Python workers were as fast with 24,000 narrow rows, and faster with 95,000
USUAL_ROW_BYTES: Final = 512  # that one row may take where nobody has written such rows
WIDER_THAN_SEEN: Final = 4  # how many times as wide as those of an earlier write one row may be
RESULT_LIMIT: Final = "spark.driver.maxResultSize"  # which a session may have set lower than our bound
MOST_BYTES_OF_A_TASK: Final = 4 * MIB  # of sources that one task reads: a shuffle of its rows takes longer
_in_vain: Final[set[tuple[str, int]]] = set()
"""What this process has asked, and rows were not few: the next batch of a stream is as large."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FewRows:
    """Rows that the driver may fetch and upload by itself: at most ``max_bytes`` in Arrow, which it holds twice.

    Spark's Java has them once more for a moment, as the result of a task.
    """

    table: str  # its full name
    rows: DataFrame  # fitted, and neither spread over tasks nor ordered
    ordered: Callable[[DataFrame], DataFrame] | None = None  # puts the rows of each task in the order of files
    max_bytes: int
    seen_row_bytes: int = 0  # where rows of an earlier write to the table were widest; 0: nobody has looked

    def fetched(self, write_id: str) -> list[Any] | None:
        """Return all rows as record batches; ``None`` if they are not few, or if it does not pay to find out.

        After ``None`` nothing of them is kept, and their query may have run in part. Failures of the query are raised.
        """
        if not self._is_worth_asking:
            return None
        spark = open_gateway(self.rows.sparkSession)
        rows = spark.with_pinned_types(self.rows)
        frame = self._bounded(rows.coalesce(1))
        sources = spark.sources_once(frame if self.ordered is None else rows)
        if sources is None or sources.size_bytes > self.max_bytes // (1 if self.is_fixed else WIDER_THAN_SEEN):
            return None
        is_for_one_task = sources.is_plain and sources.size_bytes <= MOST_BYTES_OF_A_TASK
        if self.ordered is None and not is_for_one_task:
            frame = self._bounded(rows)
        batches = self._batches(frame, write_id)
        if batches is None:
            _in_vain.add(self._question)
        return batches

    @property
    def _is_worth_asking(self) -> bool:
        """Whether this Spark can be asked, types are soon measured, and nobody here has asked in vain before."""
        is_measured = self.is_fixed or is_measured_soon(self.rows.schema)
        return hasattr(self.rows, "toArrow") and self.row_count > 0 and is_measured and self._question not in _in_vain

    @property
    def _question(self) -> tuple[str, int]:
        """What is asked: rows of this table, of up to about this width."""
        return self.table, self.row_bytes.bit_length()

    def _batches(self, frame: DataFrame, write_id: str) -> list[Any] | None:
        """Run the query; ``None`` if its rows are not few."""
        spark = open_gateway(frame.sparkSession)
        try:
            batches = spark.run(write_id, partial(arrow_batches, frame))
        except SPARK_ERRORS as error:
            if RESULT_LIMIT not in str(error):
                raise
            return None
        found = batches if self.is_fixed else [batch.column(0) for batch in batches]
        if sum(map(len, found)) > self.row_count or any(rows.null_count for rows in found if not self.is_fixed):
            return None
        return found if self.is_fixed else list(map(pa.RecordBatch.from_struct_array, found))

    @property
    def is_fixed(self) -> bool:
        """Whether each row takes as many bytes."""
        return fixed_row_bytes(self.rows.schema) is not None

    @property
    def row_bytes(self) -> int:
        """How many bytes one row may take in Arrow."""
        fixed = fixed_row_bytes(self.rows.schema)
        return max(USUAL_ROW_BYTES, self.seen_row_bytes * WIDER_THAN_SEEN) if fixed is None else max(1, fixed)

    @property
    def row_count(self) -> int:
        """How many rows there may be: if all were the widest, they would be no more than ``max_bytes``."""
        return min(MOST_ROWS, self.max_bytes // self.row_bytes)

    def _bounded(self, rows: DataFrame) -> DataFrame:
        """Return one row more than there may be; where widths vary each is a struct, and null if it is too wide."""
        if self.ordered is not None:  # in one task, and after a limit: where Spark needs none, it leaves it out
            rows = self.ordered(rows.limit(self.row_count + 1).coalesce(1))
        if not self.is_fixed:
            rows = rows.select(F.when(row_width_at_once(rows) <= self.row_bytes, F.struct("*")))
        return rows.limit(self.row_count + 1)


def arrow_batches(rows: Any) -> list[Any]:
    """Run a query, and return its rows as record batches, as Spark's Java made them.

    PySpark's ``toArrow`` casts them to its own idea of their types, which fails where a struct is null that has a field
    which never is.
    """
    if is_connect(rows.sparkSession):
        table, *_ = rows._to_table()  # noqa: SLF001 - PySpark has no public way to them
        return list(table.to_batches())
    return list(rows._collect_as_arrow())  # noqa: SLF001 - the same
