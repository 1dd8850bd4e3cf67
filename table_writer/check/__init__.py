"""Step 4: checks of data quality, on exactly the bytes that would be published.

Each function here makes one check, for ``checks=[...]`` of a write or ``StagedWrite.check(...)``::

    row_count   row_count_change   fresh        expected_partitions   only_partitions   has_schema
    not_null    unique             in_range     allowed_values        matches
    expression  references         function_check

What is known without a read is judged without one. The rest of one call is one aggregate query.

Each takes a ``severity``: with ``"error"`` nothing is published if it fails, with ``"warn"`` the result tells. Each
takes a ``name`` too, instead of one that shows the call: ``not_null(order_id)``. A call that makes no sense raises an
``InvalidInputError`` at once; a check that does not fit the table does so before data is written.
"""

from table_writer.check.check import Check
from table_writer.check.functions import (
    allowed_values,
    expected_partitions,
    expression,
    fresh,
    function_check,
    has_schema,
    in_range,
    matches,
    not_null,
    only_partitions,
    references,
    row_count,
    row_count_change,
    unique,
)

__all__ = [
    "Check",
    "allowed_values",
    "expected_partitions",
    "expression",
    "fresh",
    "function_check",
    "has_schema",
    "in_range",
    "matches",
    "not_null",
    "only_partitions",
    "references",
    "row_count",
    "row_count_change",
    "unique",
]
