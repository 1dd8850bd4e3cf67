"""Load paid orders into the mart. If one row breaks a rule, nothing is published."""

from pyspark.sql import DataFrame, SparkSession
from table_writer import TableWriter, WriteResult
from table_writer.check import allowed_values, in_range, not_null, row_count_change, unique

RULES = [
    not_null("order_id", "customer"),
    unique("order_id"),
    in_range("cents", min=0),
    allowed_values("currency", ["EUR", "USD"]),
    row_count_change(min_ratio=0.5, severity="warn"),
]


def paid_orders(raw: DataFrame) -> DataFrame:
    paid = raw.where("status = 'paid'").drop("status")
    return paid.dropDuplicates(["order_id"])


def load_orders(spark: SparkSession, raw: DataFrame, table: str) -> WriteResult:
    return TableWriter(spark).overwrite_partitions(paid_orders(raw), table, checks=RULES)
