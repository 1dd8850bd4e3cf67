"""Step 1: a plan fixes all that can be known before a byte is written, and refuses every bad call.

====================  ======================================================================
``table_planner``     what is asked of the table, its log and its root, wherever rows come from
``planner``           the order of the looks, and the plan that they end in; predicates over partitions
``fit``               the DataFrame's columns, matched by name and down into nested types; new columns
``replace``           the columns of a write that gives a table others in place of its own
``types``             a table's schema as Spark reads it; the types that fit into others, and checks on the data
``distribution``      the distribution of rows over tasks, their order and their batches
``file_options``      the tables that can be written, and by which engine; format, codec and encoding of the files
``parquet_settings``  settings of Parquet files, and what becomes of each
====================  ======================================================================
"""
