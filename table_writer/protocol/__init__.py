"""What writers of one table agree on. It needs a store and a metastore, and no Spark.

==============  ======================================================================
``log``         entries, the state that they come to, and the rules by which writers agree
``table``       one table, opened; what its readers see now, and saw after a version
``loop``        read, look, claim, carry out: the one place that claims an entry
``operations``  STEP 5: what a write, a recovery, a rollback and a restore look at and carry out
``vacuum``      STEP 6: what a vacuum, an erasure and a discard look at and delete
==============  ======================================================================

``docs/design/loop.md`` says what an operation answers, and why.
"""
