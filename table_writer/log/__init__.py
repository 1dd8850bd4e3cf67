"""The log of a table: its history, its schedule of deletions, its idempotency keys, and the rules of its writers.

==================  ======================================================================
``rules``           the rules of concurrency and keys, pure; the deadline of a claim
``history``         the log as a whole; pure
``fold``            the stored summary of all entries up to a version
``trimming``        the entries that a vacuum deletes, and the fold that stands for them; pure
``table_log``       entries, outcomes and marks as objects: read, claim, record outcomes
``keys``            looks up idempotency keys, and the newest of a stream of them
``stored``          the stored form of objects of JSON, and the memory that reading them may take
``owner``           the table to which the files below a root belong; tables that another tool has moved
``registration``    registrations of running and staged writes, their heartbeat, and the results of their checks
==================  ======================================================================
"""
