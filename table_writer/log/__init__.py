"""The table's log: journal, history, schedule of deletions and memory of keys in one, and the rules writers agree by.

==================  ======================================================================
``open_table``      what all work on one table is given
``rules``           the rules of concurrency, keys and deadlines; pure
``history``         what the log says as a whole, pure
``fold``            what the entries up to a version say, in one object
``trimming``        which entries a vacuum deletes, and what a fold keeps of them; pure
``past``            what readers saw after a version, and what it changed
``present``         what lies where readers look now
``table_log``       entries, outcomes and marks as objects: read, claim, record outcomes
``keys``            looks idempotency keys up, and the newest of a stream of them
``stored``          how objects of JSON are packed, and how much memory reading them may take
``files``           which objects a location holds; deletes them, and aborts uploads, in batches
``owner``           which table the files below a root belong to; one that another tool has moved; probe of the store
``root_markers``    what lies in a root by which readers of other formats go
``registration``    what says that a write is running or staged, its heartbeat, and what its checks have found
==================  ======================================================================
"""
