"""Orders of each day, and a report of each week."""

from dagster import (
    AssetExecutionContext,
    BackfillPolicy,
    DailyPartitionsDefinition,
    Definitions,
    RetryPolicy,
    WeeklyPartitionsDefinition,
    asset,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit

from table_writer.integrations.dagster import HiveIOManager

days = DailyPartitionsDefinition(start_date="2024-01-01")
weeks = WeeklyPartitionsDefinition(start_date="2024-01-01", day_offset=1)


@asset(
    key_prefix="mart",
    partitions_def=days,
    backfill_policy=BackfillPolicy.single_run(),
    retry_policy=RetryPolicy(max_retries=3, delay=60),
    metadata={
        "partition_expr": "dt",
        "table_writer": {"checks": [{"not_null": "id"}, {"in_range": {"column": "amount", "min": 0}}]},
    },
)
def orders(context: AssetExecutionContext) -> DataFrame:
    spark = SparkSession.builder.enableHiveSupport().getOrCreate()
    days_of_run = list(context.partition_keys)  # one, or all of a backfill
    return spark.table("mart.new_orders").where(col("dt").isin(days_of_run)).select("id", "amount", "dt")


@asset(key_prefix="mart", partitions_def=weeks, metadata={"partition_expr": "week"})
def weekly(context: AssetExecutionContext, orders: DataFrame) -> DataFrame:
    return orders.selectExpr("sum(amount) AS amount").withColumn("week", lit(context.partition_key))


defs = Definitions(assets=[orders, weekly], resources={"io_manager": HiveIOManager()})
