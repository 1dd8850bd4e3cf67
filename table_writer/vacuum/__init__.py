"""STEP 6: what readers have left, and what dead writes have left behind, is deleted after its retention.

``due`` decides, tells which files may be another table's, and looks for writes that gave up; ``sweep`` is the only code
that deletes.
"""
