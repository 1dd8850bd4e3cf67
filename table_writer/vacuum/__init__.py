"""STEP 6: what readers have left, and what dead writes have left behind, is deleted after its retention.

``due`` decides and is pure; ``dead_writes`` looks for writes that gave up; ``others`` tells which files may be another
table's; ``sweep`` is the only code that deletes.
"""
