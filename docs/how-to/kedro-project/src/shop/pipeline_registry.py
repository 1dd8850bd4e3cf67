from kedro.pipeline import Pipeline, node


def clean(new_orders):
    return new_orders.dropDuplicates(["dt", "id"])


def by_day(orders):
    return orders.groupBy("dt").agg({"amount": "sum"}).withColumnRenamed("sum(amount)", "amount")


def register_pipelines():
    return {"__default__": Pipeline([node(clean, "new_orders", "orders"), node(by_day, "orders", "daily")])}
