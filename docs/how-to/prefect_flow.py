"""Each day: load its orders, and vacuum what nobody reads any more."""

from typing import Any

from prefect import flow
from pyspark.sql import DataFrame, SparkSession

from table_writer import NewTable
from table_writer.check import in_range, not_null
from table_writer.integrations.prefect import vacuum_tables, write_table


@flow
def load_orders(day: str, settings: dict[str, Any] | None = None) -> int:
    spark = SparkSession.builder.enableHiveSupport().getOrCreate()

    def rows() -> DataFrame:  # each try computes them
        return spark.table("mart.new_orders").where(f"dt = '{day}'")

    result = write_table.with_options(retries=3, retry_delay_seconds=60)(
        rows,
        "mart.orders",
        where=f"dt = '{day}'",
        if_empty="replace",
        checks=[not_null("id"), in_range("amount", min=0)],
        if_missing=NewTable(partition_by=["dt"]),
    )
    vacuum_tables("mart.orders", settings=settings)
    return result.rows


if __name__ == "__main__":
    load_orders("2024-01-01")
