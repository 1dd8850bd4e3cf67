"""What the rules make of bad rows, and a look at rows that nobody can read yet."""

import pytest
from chispa import assert_df_equality
from pyspark.sql import functions as F
from table_writer import CheckFailedError, TableWriter
from table_writer.check import expected_partitions

from orders_job import RULES, load_orders, paid_orders

ANN = (1, "ann", 950, "EUR", "paid", "2024-01-01")
EVE = (3, "eve", 700, "USD", "paid", "2024-01-02")


@pytest.mark.parametrize(
    ("bad_row", "broken_rule"),
    [
        ((2, None, 100, "EUR", "paid", "2024-01-01"), "not_null(order_id, customer)"),
        ((2, "bob", -100, "EUR", "paid", "2024-01-01"), "in_range(cents, min=0)"),
        ((2, "bob", 100, "euro", "paid", "2024-01-01"), "allowed_values(currency, EUR, USD)"),
    ],
)
def test_one_bad_row_stops_the_whole_load(spark, orders_table, raw_orders, bad_row, broken_rule):
    load_orders(spark, raw_orders(ANN), orders_table)

    with pytest.raises(CheckFailedError) as refused:
        load_orders(spark, raw_orders(ANN, bad_row, EVE), orders_table)

    assert [result.name for result in refused.value.results if not result.passed] == [broken_rule]
    assert spark.table(orders_table).count() == 1


def test_each_day_has_its_turnover(spark, orders_table, raw_orders):
    with TableWriter(spark).stage(paid_orders(raw_orders(ANN, EVE)), orders_table) as staged:
        staged.check(*RULES, expected_partitions(["dt=2024-01-01", "dt=2024-01-02"]))

        turnover = staged.dataframe().groupBy("dt").agg(F.sum("cents").alias("cents"))
        expected = spark.createDataFrame([("2024-01-01", 950), ("2024-01-02", 700)], "dt STRING, cents BIGINT")
        assert_df_equality(turnover, expected, ignore_row_order=True, ignore_nullable=True)

        assert spark.table(orders_table).isEmpty()
        staged.publish()
    assert spark.table(orders_table).count() == 2
