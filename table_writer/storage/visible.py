"""Which objects of a directory are data: what Spark reads there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from table_writer.storage.object_store import ObjectInfo, ObjectStore, require_directory

__all__ = ["is_hidden", "visible_files"]

UNFINISHED: Final = "._COPYING_"  # what `hdfs dfs -put` has not finished yet
PAST_OWN_KEYS: Final = "~"  # the last printable character of ASCII: all that this library writes sorts before it


def is_hidden(name: str) -> bool:
    """Tell whether Spark passes over a file or directory of this name when it reads a table.

    Spark's rule, of ``HadoopFSUtils.shouldFilterOutPathName`` and ``PartitioningAwareFileIndex.isDataPath`` together:
    Parquet's ``_metadata`` is listed, but never read for rows. Hive hides every ``_`` and ``.``; the one difference
    is a partition column whose name starts with ``_``.

    Examples
    --------
    >>> [is_hidden(name) for name in ("_SUCCESS", ".part-0.crc", "part-0._COPYING_", "_dt=2024-01-01", "part-0")]
    [True, True, True, False, False]
    """
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith(UNFINISHED)


def visible_files(store: ObjectStore, location_key: str, *, beside: str = "") -> Iterator[ObjectInfo]:
    """Iterate over the objects below a directory that its readers read, in key order, each once.

    An object is left out when its name, or that of a directory between it and ``location_key``, is hidden
    (:func:`is_hidden`). What lies above, such as ``_table_writer/`` for locations of this library, does not matter.

    Parameters
    ----------
    store
        Where to list.
    location_key
        The directory; ends in ``/``.
    beside
        A directory to jump over, ends in ``/``: that of this library below a table's root, which may hold very many
        objects. It costs one request at most.

    Raises
    ------
    InvalidInputError
        One of the two does not end in ``/``.

    Examples
    --------
    >>> from table_writer.testing.memory_store import MemoryStore
    >>> store = MemoryStore()
    >>> for name in ("_SUCCESS", "_table_writer/log/1.json", "part-0", "dt=1/.part-1.crc", "dt=1/part-1"):
    ...     store.put(f"orders/{name}", b"")
    >>> [found.key for found in visible_files(store, "orders/", beside="orders/_table_writer/")]
    ['orders/dt=1/part-1', 'orders/part-0']
    """
    require_directory(location_key)
    return _visible(store, location_key, [require_directory(beside)] if beside else [])


def _visible(store: ObjectStore, location_key: str, besides: list[str]) -> Iterator[ObjectInfo]:
    start_after, more = "", True
    while more:
        page, more = store.list_page(location_key, start_after=start_after)
        for info in page:
            jumps = [f"{beside}{PAST_OWN_KEYS}" for beside in besides if info.key.startswith(beside)]
            start_after = max([info.key, *jumps])
            names = info.key.removeprefix(location_key).split("/")
            if not jumps and not any(is_hidden(name) for name in names):
                yield info
