"""Step 6: a vacuum deletes what readers and dead writes have left, after its retention, when somebody calls it.

=========  ======================================================================
``due``    decides what is due, what may be another table's, and which writes are dead
``sweep``  deletes it, and carries out what an interrupted vacuum has left
=========  ======================================================================
"""
