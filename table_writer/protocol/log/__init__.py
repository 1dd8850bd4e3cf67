"""The log of a table: its entries, the state that they come to, and the rules by which its writers agree.

Pure, made from one reading:

==================  ======================================================================
``rules``           the rules of concurrency and keys
``records``         the entries as they were read, with their outcomes
``state``           the reducer: what the entries come to, up to a version
``known_keys``      the part of it that knows idempotency keys, streams and rollbacks
``placements``      where partitions are and where they belong; late calls
``past_states``     where partitions were after a version
``versions``        the version that is meant
``changes``         what entries change, and what two versions differ in
``history``         one reading: its records, its state, and what the two tell
``trimming``        the entries that a vacuum deletes, and what a fold keeps of the state
==================  ======================================================================

In the store, and by clocks:

==================  ======================================================================
``deadline``        the time of a claimant
``slots``           entries and their outcomes: claim, record, read
``marks``           facts that every listing shows
``listing``         one listing: what is taken, in doubt, or lost
``fold``            the stored form of a state
``table_log``       the log of one table: read, folded, trimmed, searched
``known_log``       what the metastore says of the log, held against it
``keys``            looks up idempotency keys, and the newest of a stream of them
``stored``          the stored form of objects of JSON, and the memory that reading them may take
``owner``           the table to which the files below a root belong; tables that another tool has moved
``registration``    registrations of running and staged writes, their heartbeat, and the results of their checks
==================  ======================================================================
"""
