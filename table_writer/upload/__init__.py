"""Step 2: executors write Parquet files as multipart uploads that no task completes; Spark writes all other formats.

``task``          what one task does, from Arrow batches to a commit message
``files``         which rows wait, which become a row group, which go to disk, and into which file
``partitioning``  which row belongs to which partition; rows on local disk, grouped by partition
``parquet``       one Parquet file being encoded
``parts``         encoded bytes on their way to the store, and the undo of it
``job``           runs tasks on Spark, checks their messages; or steps 2 and 3 by Spark's own writer
"""
