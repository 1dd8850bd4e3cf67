"""The log of a table: its history, its schedule of deletions, its idempotency keys, and the rules of its writers.

==================  ======================================================================
``open_table``      the open table that all work on one table is given, and the factory that opens it
``rules``           the rules of concurrency and keys, pure; the deadline of a claim
``history``         the log as a whole; pure
``fold``            the stored summary of all entries up to a version
``trimming``        the entries that a vacuum deletes, and the fold that stands for them; pure
``past``            the rows that readers saw after a version, and the changes between two
``present``         the rows that readers see now, and the versions that wrote them
``table_log``       entries, outcomes and marks as objects: read, claim, record outcomes
``keys``            looks up idempotency keys, and the newest of a stream of them
``stored``          the stored form of objects of JSON, and the memory that reading them may take
``files``           the objects at a location; deletes and copies them, and aborts uploads, in batches
``owner``           the table to which the files below a root belong; tables that another tool has moved
``root_markers``    directories in a root by which readers of other formats go
``registration``    registrations of running and staged writes, their heartbeat, and the results of their checks
==================  ======================================================================
"""
