"""Each day: load orders where no reader looks, check them, show them, tidy up. And a report that waits for them."""

from datetime import datetime, timedelta

from airflow.sdk import DAG, task

from table_writer.integrations.airflow import PartitionSensor, PublishOperator, VacuumOperator, failing_for_good

ORDERS = "mart.orders"
usual = {"conn_id": "lake", "retries": 2, "retry_delay": timedelta(minutes=5)}

with DAG("orders", schedule="@daily", start_date=datetime(2024, 1, 1), catchup=False, default_args=usual):

    @task
    def stage(ds: str, run_id: str) -> str:
        """Write the day's rows and check them; readers see nothing of it yet."""
        from pyspark.sql import SparkSession

        from table_writer import NewTable, TableWriter
        from table_writer.check import in_range, not_null

        spark = SparkSession.builder.appName(run_id).enableHiveSupport().getOrCreate()
        orders = spark.createDataFrame([(1, 9.5, ds), (2, 20.0, ds)], "id INT, amount DOUBLE, dt STRING")  # yours
        with failing_for_good():
            staged = TableWriter(spark).stage(
                orders,
                ORDERS,
                checks=[not_null("id"), in_range("amount", min=0)],
                if_missing=NewTable(partition_by=["dt"]),
                tags={"run_id": run_id},
            )
        return staged.write_id

    publish = PublishOperator(task_id="publish", table=ORDERS, write_id=stage())
    vacuum = VacuumOperator(task_id="vacuum", tables=ORDERS)
    publish >> vacuum

with DAG("orders_report", schedule="@daily", start_date=datetime(2024, 1, 1), catchup=False, default_args=usual):
    rows = PartitionSensor(
        task_id="rows",
        table=ORDERS,
        partitions="dt={{ ds }}",
        since="{{ logical_date }}",
        deferrable=True,
        poke_interval=30,
        timeout=timedelta(hours=6),
    )

    @task
    def report(found: dict) -> str:
        """Use the rows; a consumer that needs exactly these reads ``found["version"]`` of the table."""
        (day,) = found["partitions"]
        return f"{day['name']}: {day['rows']} rows of version {day['version']}"

    report(rows.output)
