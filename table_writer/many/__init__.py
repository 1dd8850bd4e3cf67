"""Calls on many tables.

=========  ======================================================================
``round``  one call: the choice of tables, and a few visits at a time
``visit``  one visit to one table: a glance, and all that is to do where it is
``erase``  the visit of an erasure: it deletes rows by Spark, and certifies
=========  ======================================================================
"""
