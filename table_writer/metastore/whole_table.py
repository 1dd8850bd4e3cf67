"""What moving an unpartitioned table means, the same for every metastore: the table is its own single partition.

Its location moves with every write, so the rules of moving are here: where a table really is, and by which parameter
the server is asked to notice that somebody else was faster. No I/O, no Thrift.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from table_writer.errors import MetastoreError
from table_writer.model.table import WRITE_ID_PARAMETER, PartitionChange, PartitionValues, TableName

__all__ = [
    "DDL_TIME",
    "WHOLE_TABLE",
    "changed_parameters",
    "expectation",
    "hive_location",
    "moved_location",
    "moved_serde_parameters",
    "table_was_changed",
    "true_location",
    "whole_table_parameters",
]

WHOLE_TABLE: Final[PartitionValues] = ()
"""The values of the one partition that an unpartitioned table is."""

DDL_TIME: Final = "transient_lastDdlTime"
PATH: Final = "path"
PLACEHOLDER: Final = (
    "-__PLACEHOLDER__"  # Spark's HiveExternalCatalog: Hive must have some location, readers use ``path``
)
PROVIDER: Final = "spark.sql.sources.provider"


def true_location(location: str, parameters: Mapping[str, str], serde_parameters: Mapping[str, str]) -> str:
    """Return where Spark looks for a table: of one made with ``USING`` at the SerDe parameter ``path``."""
    paths = [value for name, value in serde_parameters.items() if name.lower() == PATH]
    return paths[0] if paths and PROVIDER in parameters else location


def hive_location(location: str, parameters: Mapping[str, str], serde_parameters: Mapping[str, str]) -> str:
    """Return where Hive looks if Spark looks elsewhere: a tool that knows one of the two has moved it. Else empty.

    Examples
    --------
    >>> spark = {"spark.sql.sources.provider": "parquet"}
    >>> hive_location("s3://mart/new", spark, {"path": "s3://mart/old"})
    's3://mart/new'
    >>> hive_location("s3://mart/orders-__PLACEHOLDER__", spark, {"path": "s3://mart/orders"})
    ''
    """
    sparks = true_location(location, parameters, serde_parameters)
    is_placeholder = location.rstrip("/").endswith(PLACEHOLDER)
    return "" if is_placeholder or location.rstrip("/") == sparks.rstrip("/") else location


def moved_location(old: str, serde_parameters: Mapping[str, str], location: str) -> str:
    """Return the location that the metastore is to keep: Spark's placeholder for the one in ``path`` stays.

    Examples
    --------
    >>> moved_location("s3://mart/orders-__PLACEHOLDER__", {"path": "s3://mart/a"}, "s3://mart/b")
    's3://mart/orders-__PLACEHOLDER__'
    >>> moved_location("s3://mart/a", {"path": "s3://mart/a"}, "s3://mart/b")
    's3://mart/b'
    """
    has_path = any(name.lower() == PATH for name in serde_parameters)
    return old if has_path and old.rstrip("/").endswith(PLACEHOLDER) else location


def moved_serde_parameters(serde_parameters: Mapping[str, str], location: str) -> dict[str, str]:
    """Return the SerDe's parameters with ``path``, in whatever case and where there is one, at the new location.

    Examples
    --------
    >>> moved_serde_parameters({"Path": "s3://mart/a", "serialization.format": "1"}, "s3://mart/b")
    {'Path': 's3://mart/b', 'serialization.format': '1'}
    """
    return {name: location if name.lower() == PATH else value for name, value in serde_parameters.items()}


def changed_parameters(change: PartitionChange) -> dict[str, str]:
    """Return what was read with the change's parameters set and removed.

    ``transient_lastDdlTime`` is left out, as Hive's own client does: the server then sets its own clock's time.
    """
    left_out = change.removed_parameters | {DDL_TIME}
    kept = {name: value for name, value in change.partition.parameters.items() if name not in left_out}
    return {**kept, **change.set_parameters}


def whole_table_parameters(change: PartitionChange) -> dict[str, str]:
    """Return the same for a table; ``transient_lastDdlTime`` is there where it is what changes in any case.

    A server compares and sets one parameter, which must have an old and a new value. The first publish has no old
    write_id: then it is the time, one second later than the old one at least, since two values that are equal would let
    both of two writers pass.
    """
    wanted = changed_parameters(change)
    old = change.partition.parameters
    if _is_changed(WRITE_ID_PARAMETER, old, wanted) or not old.get(DDL_TIME, "").isdigit():
        return wanted
    return {DDL_TIME: str(max(int(time.time()), int(old[DDL_TIME]) + 1)), **wanted}


def expectation(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Return the parameter, with its value, that the server shall still find; none if there is none to compare.

    Examples
    --------
    >>> expectation({"table_writer.write_id": "a"}, {"table_writer.write_id": "b"})
    {'table_writer.write_id': 'a'}
    >>> expectation({}, {"table_writer.write_id": "b"})
    {}
    """
    usable = [name for name in (WRITE_ID_PARAMETER, DDL_TIME) if _is_changed(name, old, new)]
    return {name: old[name] for name in usable[:1]}


def table_was_changed(table: TableName, uri: str) -> MetastoreError:
    """Return the error of a compare-and-set that was refused."""
    return MetastoreError(
        f"somebody else changed table {table} in the metastore at {uri} between this write's look at it and its switch;"
        " nothing was changed, run it again",
        table=str(table),
    )


def _is_changed(name: str, old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    """Whether a parameter has two values to tell apart: an absent one can be neither expected nor set."""
    return name in old and name in new and old[name] != new[name]
