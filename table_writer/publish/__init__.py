"""Step 5: claim an entry of the log, then switch all partitions with one metastore call.

================  ===============================================================
``publisher``     the order: look, claim, switch, settle
``switch``        THE call after which readers see new rows, and its three outcomes
``recovery``      finishing an entry whose writer is gone
``replaced``      which files of other tools a publish replaces
``parameters``    statistics and marks set on partitions
``success``       the ``_SUCCESS`` file
================  ===============================================================
"""
