"""A mirror in Delta's format: ``_delta_log/`` in the table's root.

==============  ======================================================================
``log``         the log as it lies in the store: read, write, tidy, drop
``snapshot``    what its commits come to
``actions``     the actions of a commit
``checkpoint``  snapshots as Parquet
==============  ======================================================================
"""

from table_writer.mirrors.delta.log import DeltaMirror

__all__ = ["DeltaMirror"]
