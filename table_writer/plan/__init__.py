"""Step 1: everything that can be known before a byte is written, and every bad call refused.

================  ===============================================================
``planner``       the order of the looks, and the plan they end in
``session``       what the Spark session's own settings say
``table_check``   which tables can be written
``table_schema``  a table's schema as Spark reads it from the metastore
``fit``           the DataFrame's columns, by name, in the table's types
``match``         one column of each matched, down into nested types
``type_pairs``    which type becomes which, and how
``limits``        what is checked on the data, and how a violation is explained
``evolve``        columns that the table gets
``where``         which partitions a predicate selects
``layout``        which task gets which rows, in which order
``file_options``  format, codec and encoding of the files
================  ===============================================================
"""
