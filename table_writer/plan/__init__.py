"""Step 1: everything that can be known before a byte is written, and every bad call refused.

================  ===============================================================
``planner``       the order of the looks, and the plan they end in
``session``       what the Spark session's own settings say
``table_check``   which tables can be written
``table_schema``  a table's schema as Spark reads it from the metastore
``fit``           the DataFrame's columns, by name, in the table's types
================  ===============================================================
"""
