import pytest


@pytest.fixture
def spark(lakehouse):
    return lakehouse.spark


@pytest.fixture
def orders_table(spark, lakehouse_database):
    table = f"{lakehouse_database}.orders"
    columns = "order_id BIGINT, customer STRING, cents BIGINT, currency STRING, dt STRING"
    spark.sql(f"CREATE TABLE {table} ({columns}) USING parquet PARTITIONED BY (dt)")
    return table


@pytest.fixture
def raw_orders(spark):
    columns = "order_id BIGINT, customer STRING, cents BIGINT, currency STRING, status STRING, dt STRING"
    return lambda *rows: spark.createDataFrame(rows, columns)
