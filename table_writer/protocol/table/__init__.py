"""One table that is open for work, and what its readers see, now and after a version.

================  ======================================================================
``open_table``    the open table that all work on one table is given
``services``      the one factory
``past``          the rows that readers saw after a version
``present``       the rows that readers see now, and the versions that wrote them
``root_markers``  directories in a root by which readers of other formats go
================  ======================================================================
"""
