"""Mirrors: the files of a table as a table of another format too, written after a publish and by the log alone.

=============  ======================================================================
``mirror``     what every kind of mirror is given, and what it can do
``changes``    what a mirror has to take up, version by version or in one: read from log, metastore and listings
``fitting``    compares files with the table by their footers: what a mirror cannot show is refused
``follow``     brings mirrors to the newest version: after a publish, when asked, and before a vacuum deletes
``delta``      the Delta log of a table
``iceberg``    its Iceberg metadata, and the catalog that names it
``reporting``  calls on a mirror, and the reports on it
``handover``   a table goes on as its mirror, and back again
=============  ======================================================================

A mirror is no part of a publish: one that fails is a note, and the next publish brings it up.
"""
