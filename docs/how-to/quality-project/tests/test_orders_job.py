"""What the job makes of good rows."""

from chispa import assert_df_equality

from orders_job import load_orders

ANN = (1, "ann", 950, "EUR", "paid", "2024-01-01")
BOB = (2, "bob", 2000, "EUR", "open", "2024-01-01")
EVE = (3, "eve", 700, "USD", "paid", "2024-01-02")


def test_only_paid_orders_are_loaded(spark, orders_table, raw_orders):
    result = load_orders(spark, raw_orders(ANN, BOB, EVE), orders_table)

    assert [partition.name for partition in result.added] == ["dt=2024-01-01", "dt=2024-01-02"]
    assert_df_equality(
        spark.table(orders_table), raw_orders(ANN, EVE).drop("status"), ignore_row_order=True, ignore_nullable=True
    )


def test_an_order_that_was_sent_twice_is_loaded_once(spark, orders_table, raw_orders):
    assert load_orders(spark, raw_orders(ANN, ANN, EVE), orders_table).rows == 2
