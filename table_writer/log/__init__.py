"""The table's log: journal, history, schedule of deletions and memory of keys in one, and the rules writers agree by.

=================  ==============================================================
``rules``          the rules of concurrency, pure
``history``        what the log says as a whole, pure
``keys``           which idempotency keys count, pure
``table_log``      entries, outcomes and marks as objects: read, claim, settle
``stored``         how objects of JSON are packed, and how much memory reading them may take
``files``          which objects a location holds
``owner``          which table the files below a root belong to; probe of the store
``moved``          a table that another tool has moved away from its log
``registration``   what says that a write is running or staged, and what its checks have found
``heartbeat``      the thread that renews the sign of a running write
``deadline``       the end of a claim
``removal``        deletes objects and aborts uploads, in batches
=================  ==============================================================
"""
