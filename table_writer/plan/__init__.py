"""Step 1: everything that can be known before a byte is written, and every bad call refused.

==================  ======================================================================
``planner``         the order of the looks, and the plan they end in; which partitions a predicate selects
``fit``             the DataFrame's columns, by name and down into nested types, in the table's types; new ones
``types``           a table's schema as Spark reads it; which type becomes which, what is checked on the data
``distribution``    which task gets which rows, in which order and in which batches
``file_options``    which tables can be written, by which engine; format, codec and encoding of the files
==================  ======================================================================
"""
