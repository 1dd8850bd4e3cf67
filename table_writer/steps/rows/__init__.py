"""Rows by key: some rows of a table are changed, and readers see all of the change or none of it.

1. ``snapshot``  the selected partitions as of one version, with the files that hold their rows
2. ``change``    what a change says of a snapshot: the files it replaces, and the rows that take their place
3. ``rewrite``   one attempt: these rows are written, the other files are copied, and readers switch as in every write

``merge``, ``where`` and ``deduplicate`` are the changes; ``hits`` and ``keys`` find which files and partitions they are
about. :meth:`table_writer.steps.run.Steps.change_rows` is the order.
"""
