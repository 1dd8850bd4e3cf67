"""The run of one write: its steps in order, staged writes between them, and the services that they share.

====================  ======================================================================
``order``             steps 1 to 5 in their order, once, with two ends: published, or staged
``run``               the same with a Spark session
``sources``           where a call's rows come from, and what else differs between calls
``calls``             what is asked for, by a method or by its name and keywords
``plan``              STEP 1
``upload``            STEP 2
``complete``          STEP 3; step 4 is :mod:`table_writer.check`, 5 and 6 are in :mod:`table_writer.protocol`
``running_write``     a write while it runs: its sign of life, its clean-up, and who owns its files
``staged_writes``     stored writes that any process may publish or discard
``staged_write``      a staged write in the hands of a user
``compaction``        the files of a compaction, and the proof that no row changed
``rows``              rows that are merged, deleted or changed: the files to replace, and those that stay
``preview``           what a write would do
``look_ahead``        the same without its rows: the partitions that would change, and what is in the way
``replaced``          the rows that a write takes from readers
``batches``           the batches of a stream, each once
``announcing``        tells listeners of a call, and gathers what they are told
``results``           the result of a write, from what its steps say
``certificate``       what is gone of the rows that were erased
``vacuum_results``    the reports on what a vacuum or a discard has deleted
``session_services``  services for the tables of a Spark session
====================  ======================================================================
"""
