"""The gateway to Spark: everything that uses its private API, behind which a session without a JVM could stand.

================  ======================================================================
``session``       settings of the session, and what it is to forget after a write
``sql``           SQL for Spark, and what Spark says of it
``jobs``          a job that ends with the call that started it; its tasks' errors
``executors``     executors, prepared once, and the requests that only they can send in time
``files``         Spark's own writer and reader at a location of our choice; committers
``create_table``  a table as Spark's own ``CREATE TABLE`` makes it
================  ======================================================================
"""
