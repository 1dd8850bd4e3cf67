from table_writer.check import in_range, not_null

ORDERS = [not_null("id"), in_range("amount", min=0)]
