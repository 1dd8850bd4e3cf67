def each_order_has_a_day(rows):
    assert rows.where("dt IS NULL").isEmpty(), "some orders have no day"
