"""Step 2: executors write Parquet files as multipart uploads that no task completes; Spark writes all other formats.

Tasks run on executors: ``FILES_OF_TASKS`` in :mod:`table_writer.version` is all that these are sent.

================  ======================================================================
``task``          one task, from Arrow batches to a commit message
``files``         the rows that wait, in memory or on disk, and the row groups and files that they become
``partitioning``  the partition of each row; rows on local disk, grouped by partition
``parquet``       one Parquet file being encoded
``arrays``        small Arrow arrays, made without pandas
``figures``       figures of a file's columns, counted while it is encoded
``parts``         encoded bytes on their way to the store, and the undo of it
``messages``      the messages of tasks, checked against each other
``job``           runs tasks on Spark; or steps 2 and 3 by Spark's own writer
================  ======================================================================
"""
