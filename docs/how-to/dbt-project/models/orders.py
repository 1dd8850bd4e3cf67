def model(dbt, spark):
    dbt.config(
        materialized="table_writer",
        partition_by=["dt"],
        meta={"table_writer": {"mode": "overwrite_partitions", "schema": "allow_missing"}},
    )
    raw = dbt.ref("raw_orders")
    return raw.where("amount >= 0")
