"""What the driver gets of Spark's values: by one function, which takes none that Python would change."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer.spark.sql import fetched

PACKAGE: Final = Path(__file__).parents[2] / "table_writer"
FETCHING: Final = {"collect", "toPandas", "toLocalIterator", "toArrow", "first", "head", "take", "tail", "show"}
FETCHERS: Final = {
    "spark/sql.py": {"collect"},  # fetched() itself
    "jobs/upload/job.py": {"collect"},  # bytes that tasks of ours have packed
    "spark/connect.py": {"collect"},  # the same
    "spark/executors.py": {"collect"},  # the same, of an RDD
    "spark/classic.py": {"collect"},  # the same
}
"""The files that ask Spark for rows themselves, and how."""


def asks_spark(node: ast.AST) -> str:
    """Return the method by which a piece of code takes rows out of Spark; empty if it does not."""
    if not isinstance(node, ast.Attribute) or node.attr not in FETCHING:
        return ""
    owner = ast.unparse(node.value)
    is_other = owner in {"F", "gc"} or owner.endswith(("store", "maintenance", "keeper", "self", "in_flight"))
    return "" if is_other or (node.attr == "take" and owner in {"rows", "ids", "largest"}) else node.attr


def test_rows_come_into_the_driver_by_one_function() -> None:
    """A value of another type would go through Python's datetime, in the zone of the process."""
    found: dict[str, set[str]] = {}
    without_spark = PACKAGE / "arrow"  # whose ``take`` is pyarrow's
    for file in sorted(one for one in PACKAGE.rglob("*.py") if without_spark not in one.parents):
        if methods := set(map(asks_spark, ast.walk(ast.parse(file.read_text())))) - {""}:
            found[file.relative_to(PACKAGE).as_posix()] = methods
    assert found == FETCHERS


@pytest.mark.parametrize(
    "value", ["current_timestamp()", "current_date()", "array(struct(localtimestamp() AS a))", "1D", "map(1, 2)"]
)
def test_no_value_is_fetched_that_python_has_otherwise(spark: SparkSession, value: str) -> None:
    with pytest.raises(TypeError, match="compare them in Spark"):
        fetched(spark.range(1).select(F.expr(value)))


def test_numbers_texts_truths_and_bytes_are_fetched(spark: SparkSession) -> None:
    row = spark.range(1).selectExpr("id", "'a'", "X'00'", "1.5BD", "true", "array(1S)", "struct(id AS a)")
    assert tuple(fetched(row)[0]) == (0, "a", b"\x00", row.first()[3], True, [1], (0,))  # type: ignore[index]
