"""Rows by key: some rows of a table are changed, and readers see all of the change or none of it.

:meth:`table_writer.jobs.run.Steps.change_rows` is the order.

===============  ===============================================================================
``rewrite``      one attempt, based on one version: what is written, copied and told
``snapshot``     the partitions as of the version, with exactly the files of which rows are read
``change``       what a change says of a snapshot: the files it replaces, and the rows it writes
``merge``        a change: updates, by key
``clauses``      the clauses of a merge: the first counts whose condition holds
``updates``      the updates of a merge, with their keys
``where``        changes: rows that a predicate is true of are deleted, or get other values
``erasure``      what older versions may hold of deleted rows, named for the next vacuum
``deduplicate``  a change: one row of each key stays
``difference``   the rows that two versions differ in; nothing is written
``statement``    what a statement of SQL means in these changes, and in writes
``keys``         the columns of a key, and the partitions in which keys may be
``hits``         the files that hold the rows of a change, found by a job
``turns``        who has lost an attempt to others goes first the next time
``kept``         the files that stay, which the store copies
``small_files``  rows of small files, fetched by tasks of ours where they need no conversion
``expressions``  predicates and values, in SQL or as Columns
===============  ===============================================================================
"""
