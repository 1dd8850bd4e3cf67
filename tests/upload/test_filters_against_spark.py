"""Readers that pass over row groups by their footers find the rows that a filter is for, whatever is beside them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import combinations
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.cells import first_fast
from tests.upload.test_fidelity import write_ours

VALUES: Final[dict[str, Sequence[str]]] = {  # of each type, as SQL; beside each other in a file they have hidden rows
    "DOUBLE": ("1.5", "'NaN'", "-0.0D", "0.0D", "'Infinity'", "'-Infinity'", "NULL"),
    "FLOAT": ("1.5", "'NaN'", "'-Infinity'", "NULL"),
    "STRING": ("'a'", "''", "'\u00e4'", "'\U0001f600'", "'\uffff'", "repeat('x', 5000)", "NULL"),
    "BINARY": ("X'00'", "X'FF'", "X''", "NULL"),
    "BIGINT": ("0", "-1", "9223372036854775807", "NULL"),
    "DECIMAL(38,2)": ("0", "-0.01", "123456789012345678901234567890.12", "NULL"),
    "DECIMAL(9,2)": ("0", "-0.01", "1.5", "NULL"),
    "DATE": ("'2024-02-29'", "'1969-12-31'", "'0001-01-01'", "NULL"),
    "TIMESTAMP": ("'2024-02-29 00:00:00.000001'", "'1969-12-31 23:59:59.999999'", "NULL"),
    "BOOLEAN": ("true", "false", "NULL"),
}
COMPARED: Final = ("=", "<>", "<=>", "<", "<=", ">", ">=")


def pairs(spark: SparkSession, kind: str) -> list[DataFrame]:
    """Return frames of one task, each with two values."""
    literals = [f"CAST({text} AS {kind})" for text in VALUES[kind]]
    return [
        spark.sql(f"SELECT v, named_struct('x', v) AS s FROM VALUES ({one}), ({other}) AS made(v)").coalesce(1)
        for one, other in combinations(literals, 2)
    ]


def counted(rows: DataFrame, predicates: Sequence[str]) -> list[int]:
    """Return how many rows each predicate finds, by as many scans of one query."""
    rows.createOrReplaceTempView("filtered")
    found = rows.sparkSession.sql(
        " UNION ALL ".join(
            f"SELECT {at} AS at, count(*) AS n FROM filtered WHERE {p}" for at, p in enumerate(predicates)
        )
    )
    return [row.n for row in sorted(found.collect())]


@pytest.mark.parametrize("kind", first_fast(VALUES, 2))
def test_a_filter_finds_what_it_finds_without_footers(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    frames = pairs(spark, kind)
    rows = reduce(DataFrame.unionAll, frames)
    files = [f"file://{write_ours(frame, tmp_path / str(at))}" for at, frame in enumerate(frames)]
    literals = [f"CAST({text} AS {kind})" for text in VALUES[kind]]
    predicates = [
        f"{negated}({column} {compared} {text})"
        for column in ("v", "s.x")
        for compared in COMPARED
        for text in literals
        for negated in ("", "NOT ")
    ]
    predicates += [f"{column} {text}" for column in ("v", "s.x") for text in ("IS NULL", "IS NOT NULL")]
    predicates += [f"v IN ({one}, {other})" for one, other in combinations(literals, 2)]
    wanted = counted(spark.createDataFrame(rows.collect(), rows.schema), predicates)
    found = counted(spark.read.parquet(*files), predicates)
    assert {p: (f, w) for p, f, w in zip(predicates, found, wanted, strict=True) if f != w} == {}


def test_a_file_gets_no_nan_once_it_tells_bounds(spark: SparkSession, tmp_path: Path) -> None:
    """Of rows that come later than its first ones."""
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    try:
        rows = spark.range(0, 50_000, 1, 1).selectExpr("id", "if(id = 40000, double('NaN'), 1.0D) AS x")
        ours = write_ours(rows, tmp_path, is_one=False)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert spark.read.parquet(f"file://{ours}").where("x > 5").count() == 1
    footers = [pq.read_metadata(file) for file in ours.glob("*.parquet")]
    tells = {footer.row_group(at).column(1).is_stats_set for footer in footers for at in range(footer.num_row_groups)}
    assert sum(footer.num_rows for footer in footers) == 50_000
    assert False in tells
