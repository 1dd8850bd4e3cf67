"""Small Arrow arrays of Python's values, made of their bytes.

``pyarrow.array`` and ``pyarrow.scalar`` import pandas when they are first called: a quarter of a second in each new
Python worker, which a task pays that needs nothing of it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import pyarrow as pa


def whole_numbers(values: Sequence[int]) -> Any:
    """Return an array of int32.

    Examples
    --------
    >>> whole_numbers([3, 1]).to_pylist()
    [3, 1]
    """
    return pa.Array.from_buffers(pa.int32(), len(values), [None, pa.py_buffer(array("i", values))])


def one_binary(value: bytes) -> Any:
    """Return an array of one binary value.

    Examples
    --------
    >>> one_binary(b"all of it").to_pylist()
    [b'all of it']
    """
    offsets = pa.py_buffer(array("i", [0, len(value)]))
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(value)])
