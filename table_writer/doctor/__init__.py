"""The doctor: what makes writing a table unsafe, slow or expensive.

==================  ==================================================================
``examination``     runs all checks
``subject``         the table that is examined, with all that was read of it
``findings``        what is wrong by log and metastore: the page and ``tables`` ask, too
``table``           checks of log, owner, partitions, files, and data that waits
``servers``         checks of store, bucket and metastore
``spark``           checks of Spark's settings
``store``           trials of a store, without a table
``page``            the look at a table for its page
``certify``         a promise put to the test on a person's store and metastore
``certify_steps``   its steps that take a table: killed writers, recovery, erasure, vacuum
``certify_actors``  its processes: writers who are killed, and readers
``checker``         a judge of their history, which imports nothing of this library
``leave``           what is kept of a table, for those who stop using the library
==================  ==================================================================
"""
