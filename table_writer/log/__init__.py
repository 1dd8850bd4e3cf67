"""The table's log: journal, history, schedule of deletions and memory of keys in one, and the rules writers agree by.

=================  ==============================================================
``rules``          the rules of concurrency, pure
``history``        what the log says as a whole, pure
``keys``           which idempotency keys count, pure
``table_log``      entries and outcomes as objects: read, claim, settle
``files``          which objects a location holds
``owner``          which table the files below a root belong to; probe of the store
``registration``   the sign that a write is running, with its heartbeat
=================  ==============================================================
"""
