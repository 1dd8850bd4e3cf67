"""Step 2: executors write Parquet files as multipart uploads that nobody completes here.

``task``          what one task does, from Arrow batches to a commit message
``buffer``        which rows wait, which become a row group, which go to disk
``partitioning``  which row belongs to which partition
``spill``         rows on local disk, grouped by partition
``parquet``       one file being encoded
``parts``         encoded bytes on their way to the store, and the undo of it
``job``           runs tasks on Spark, checks their messages, translates their failures
``shipping``, ``probe``   executors have the package and what it needs
"""
