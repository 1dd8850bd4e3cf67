"""Step 5: claim an entry of the log, then switch all partitions with one metastore call.

================  ===============================================================
``publisher``     the order: look, claim, switch, settle
``draft``         the entry that a write claims
``carry_over``    an append's copies of the files that are there already
``switch``        THE call after which readers see new rows, and its three outcomes
``recovery``      finishing an entry whose writer is gone
``rollback``      partitions back at an earlier version
``restore``       partitions that the metastore has lost
``adopt``         files of a table that was renamed, moved or created again
``files_there``   whether a location still holds what the log says
``replaced``      which files of other tools a publish replaces
``parameters``    statistics and marks set on partitions
``claimed``       what becomes of an entry once it is claimed
``parts``         what everything that publishes is made of
``success``       the ``_SUCCESS`` file
================  ===============================================================
"""
