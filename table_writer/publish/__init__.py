"""Step 5: claim an entry of the log, then switch all partitions with one metastore call.

===============  ======================================================================
``publisher``    the order: look, claim, switch, record the outcome
``entry``        the entry that a write claims; what it replaces; whether files are there as it says
``append``       an append's copies of the files that are there already
``switch``       THE call after which readers see new rows, its three outcomes, and what becomes of a claimed entry
``recovery``     finishing an entry whose writer is gone
``evidence``     what a recovery finds of an entry: where its partitions are, and their files
``correction``   undoing calls that the metastore has applied late
``rollback``     partitions back at an earlier version
``restore``      partitions that the metastore has lost; files of a table that was renamed or created again
===============  ======================================================================
"""
