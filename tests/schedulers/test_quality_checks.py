"""The documentation's checks of pandera and Great Expectations say what failed, for how many rows; nothing is seen."""

from __future__ import annotations

import runpy

import pytest
from pyspark.sql import SparkSession

from table_writer import CheckFailedError, NewTable, TableWriter
from tests.docs.markdown_blocks import ROOT

from .conftest import found

FILE = ROOT / "docs" / "how-to" / "quality_checks.py"
COLUMNS = "id INT, amount DOUBLE, dt STRING"
GOOD = [(1, 9.5, "2024-01-01"), (2, None, "2024-01-02")]
BAD = [(1, 9.5, "2024-01-01"), (1, -3.0, "2024-01-01"), (None, -7.0, "2024-01-02")]


@pytest.mark.filterwarnings("ignore:module 'sre_:DeprecationWarning")  # imported by Great Expectations 1.24
@pytest.mark.parametrize(
    ("check", "said"),
    [
        ("pandera_finds_nothing", ["amount greater_than_or_equal_to(0): 2 rows", "id not_nullable: 1 rows"]),
        (
            "expectations_are_met",
            [
                "expect_column_values_to_not_be_null(id): 1 rows",
                "expect_column_values_to_be_unique(id): 2 rows",
                "expect_column_values_to_be_between(amount): 2 rows",
            ],
        ),
    ],
)
def test_bad_rows_are_never_published_and_the_error_says_what_failed_for_how_many(
    mart: SparkSession, check: str, said: list[str]
) -> None:
    checks = [runpy.run_path(str(FILE))[check]]
    writer = TableWriter(mart)
    good, bad = (mart.createDataFrame(rows, COLUMNS) for rows in (GOOD, BAD))
    writer.overwrite_table(good, "mart.orders", checks=checks, if_missing=NewTable(partition_by=["dt"]))
    with pytest.raises(CheckFailedError, match="nothing was published") as raised:
        writer.overwrite_table(bad, "mart.orders", checks=checks)
    assert all(words in str(raised.value) for words in said), raised.value
    assert found(mart, "mart.orders") == sorted(GOOD)
