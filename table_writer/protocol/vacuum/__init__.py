"""Step 6: a vacuum deletes what readers and dead writes have left, after its retention, when somebody calls it.

============  ======================================================================
``due``       decides what is due, what may be another table's, and which writes are dead
``remover``   deletes what an entry names, having looked again
``sweep``     the three vacuums: a sweep, an erasure, and a discard; what an interrupted one has left
============  ======================================================================
"""
