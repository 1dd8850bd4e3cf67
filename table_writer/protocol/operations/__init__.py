"""Step 5: what an operation that changes partitions looks at, and how it switches them with one metastore call.

A driver that dies before its claim leaves files at which nobody looks. One that dies after it leaves an entry in doubt,
before the switch or after it: whoever comes next finds out which, and finishes it (``recovery``).

===============  ======================================================================
``publisher``    the order of a publish: what it looks at, copies, claims, switches
``since_plan``   what others have done since a write was planned, and what that means for it
``base``         the metastore's answers on which a write may build
``reads``        the partitions that a write's own query has read
``entry``        the entry that a write claims, what it replaces, and the files that it needs
``append``       the files of an append beside copies of those that are there
``in_place``     the files of an append in place: planned, copied, and as a recovery finds them
``switch``       the switch, its three outcomes, and the end of a claimed entry
``parameters``   the parameters of a partition after the switch
``statistics``   column statistics in the metastore, before and after the switch
``success``      the markers that other tools wait for, ``_SUCCESS``, after the switch
``recovery``     finishes an entry whose writer is gone
``evidence``     the partitions and files of an entry, as a recovery finds them
``correction``   undoes calls that the metastore has applied late
``copies``       files of one version, copied out of where appends in place have put others
``rollback``     puts partitions back to an earlier version
``restore``      adds partitions that the metastore has lost
``adopt``        adopts the files of a table that was renamed, moved, or created again
===============  ======================================================================
"""
