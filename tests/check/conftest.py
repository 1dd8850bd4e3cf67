from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from table_writer.check.check import Audit, Check
from table_writer.check.run import as_checks, require_valid, run_checks
from table_writer.model.check_result import CheckResult
from table_writer.model.column_statistics import ColumnStatistics
from table_writer.model.table import NULL_PARTITION, Column
from table_writer.model.write import WrittenPartition


@dataclass
class World:
    """A staged write of some rows, what was asked of it, and the Spark jobs that took."""

    spark: SparkSession
    audit: Audit
    asked: Counter[str] = field(default_factory=Counter)
    jobs: int = 0
    queries: int = 0

    def run(self, *checks: object) -> tuple[CheckResult, ...]:
        given = as_checks(checks)
        audit = self.audit
        require_valid(given, self.spark, audit.schema, audit.table, audit.partition_columns)
        with self.counted():
            return run_checks(given, audit)

    def one(self, check: Check | Callable[..., Any]) -> CheckResult:
        [result] = self.run(check)
        return result

    @contextmanager
    def counted(self) -> Iterator[None]:
        context, group = self.spark.sparkContext, uuid.uuid4().hex
        context.setJobGroup(group, "checks")
        before = self._executions()
        try:
            yield
        finally:
            self.queries = self._executions() - before
            self.jobs = len(context.statusTracker().getJobIdsForGroup(group))
            context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]

    def _executions(self) -> int:
        session: Any = self.spark
        session._jsc.sc().listenerBus().waitUntilEmpty()
        return int(session._jsparkSession.sharedState().statusStore().executionsCount())


@pytest.fixture(scope="session")
def staged(spark: SparkSession) -> Callable[..., World]:
    """Stage rows: as tuples with their DDL, or a DataFrame with the number of rows by partition."""

    def make(
        rows: Sequence[tuple[Any, ...]] | DataFrame,
        schema: str | StructType = "",
        partition_by: Sequence[str] = (),
        statistics: Mapping[str, ColumnStatistics] | None = None,
        **more: Any,
    ) -> World:
        frame = rows if isinstance(rows, DataFrame) else spark.createDataFrame(list(rows), schema).coalesce(1)
        frame = frame.localCheckpoint() if rows and frame is not rows else frame  # no Python worker from here on
        counts = more.pop("counts", None) or _counts(rows, frame, partition_by)
        asked: Counter[str] = Counter()
        replaced_rows = more.pop("replaced_rows", 0)
        world = World(spark, None, asked)  # type: ignore[arg-type]  # set below

        def opened() -> DataFrame:
            asked["frames"] += 1
            return frame

        def counted() -> int:
            asked["replaced rows"] += 1
            return int(replaced_rows)

        world.audit = Audit(
            spark=spark,
            table=more.pop("table", "mart.orders"),
            write_id="20240101T000000-0000000000000001",
            schema=frame.schema,
            partition_columns=tuple(
                Column(name.lower(), frame.schema[name].dataType.simpleString()) for name in partition_by
            ),
            partitions=tuple(
                WrittenPartition(values=values, keys=["file"], rows=count, bytes=1, raw_bytes=None)
                for values, count in sorted(counts.items())
            ),
            statistics=statistics or {},
            dataframe=opened,
            replaced_rows=counted,
            **more,
        )
        return world

    return make


def _counts(rows: Any, frame: DataFrame, partition_by: Sequence[str]) -> Counter[tuple[str, ...]]:
    at = [frame.columns.index(name) for name in partition_by]
    texts = (tuple(NULL_PARTITION if row[one] is None else str(row[one]) for one in at) for row in rows)
    return Counter(texts)
