"""Step 2: executors write Parquet or ORC files as multipart uploads that no task completes.

``task``          what one task does, from Arrow batches to a commit message
``buffer``        which rows wait, which become a row group, which go to disk
``partitioning``  which row belongs to which partition
``spill``         rows on local disk, grouped by partition
``files``         which file a partition's rows go into, and when the next one begins
``parquet``       one Parquet file being encoded; ``parquet_…`` are its parts
``orc``           one ORC file being encoded; ``orc_…`` are its parts
``parts``         encoded bytes on their way to the store, and the undo of it
``widths``        how wide rows are: what limits open files and pages
``batches``       how many rows Spark sends to a task at once
``job``           runs tasks on Spark, checks their messages, translates their failures
``completing``, ``copying``   very many uploads completed, or files copied, by jobs of their own
``on_executors``, ``worker_store``   what those jobs and tasks share
``shipping``, ``probe``   executors have the package and what it needs
"""
