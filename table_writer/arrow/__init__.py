"""Writes without Spark: rows from anything with Arrow's C stream, and the promise, the log and the loop of all writes.

==========  ==============================================================================
``writer``  the face: what users call
``steps``   steps 1 to 4 for such rows; their order is :class:`table_writer.jobs.order.Order`
``rows``    rows as their batches come, in the shape of the table
``fields``  the columns of a table: their types in Arrow, and as Spark's JSON has them
``values``  which values of one type become values of another, and how
``plan``    what a write would do
``checks``  checks that footers answer
``where``   the partitions that filters choose, and the same filters in SQL
==========  ==============================================================================
"""
