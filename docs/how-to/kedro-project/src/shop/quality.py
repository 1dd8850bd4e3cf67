def every_day_has_orders(rows):
    assert rows.where("dt IS NULL").isEmpty(), "some orders have no day"
