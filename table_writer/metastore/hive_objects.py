"""The nouns of ``model.table`` from and to the metastore's Thrift objects. No I/O."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Mapping
from typing import Any

from hmsclient.genthrift.hive_metastore import ttypes
from thrift.Thrift import TType

from table_writer.errors import InvalidInputError
from table_writer.logins import without_s3_login
from table_writer.metastore.descriptions import differences
from table_writer.metastore.whole_table import (
    WHOLE_TABLE,
    changed_parameters,
    hive_location,
    moved_location,
    moved_serde_parameters,
    true_location,
    whole_table_parameters,
)
from table_writer.model.table import Column, Partition, PartitionChange, Table, TableName

__all__ = ["altered_partition", "altered_table", "new_partition", "partition_from", "table_from", "whole_table"]


def table_from(native: Any) -> Table:
    """Describe a ``ttypes.Table``. A view has no location: it becomes the empty text.

    Keys of S3 that stand in a location stay in ``native``, which is what is written back, and are nowhere else.
    """
    storage = native.sd or ttypes.StorageDescriptor()
    serde = storage.serdeInfo or ttypes.SerDeInfo()
    parameters = _without_logins(native.parameters)
    serde_parameters = _without_logins(serde.parameters)
    return Table(
        name=TableName(native.dbName, native.tableName),
        kind=native.tableType or "",
        location=_with_slash(true_location(storage.location or "", parameters, serde_parameters)),
        hive_location=_with_slash(hive_location(storage.location or "", parameters, serde_parameters)),
        columns=_columns(storage.cols),
        partition_columns=_columns(native.partitionKeys),
        parameters=parameters,
        input_format=storage.inputFormat or "",
        output_format=storage.outputFormat or "",
        serde=serde.serializationLib or "",
        serde_parameters=serde_parameters,
        bucket_columns=tuple(storage.bucketCols or ()),
        created_at_seconds=native.createTime or 0,
        native=native,
    )


def partition_from(native: Any, table: Table) -> Partition:
    """Describe a ``ttypes.Partition`` of a table, which is kept from here on without columns of its own.

    Whoever alters a partition gives it the table's columns (:func:`altered_partition`); its own ones are looked at here
    and never again. 5,000 partitions of 100 columns would keep 500,000 objects for that.
    """
    described = _thrift(table).sd
    differs = differences(native.sd, described, table.columns)
    native.sd.cols = described.cols
    return Partition(
        values=tuple(native.values),
        location=_with_slash(native.sd.location),
        parameters=_without_logins(native.parameters),
        differs=differs,
        native=native,
    )


def whole_table(table: Table) -> Partition:
    """Describe an unpartitioned table as the one partition that it is."""
    return Partition(values=WHOLE_TABLE, location=table.location, parameters=table.parameters, native=_thrift(table))


def new_partition(table: Table, partition: Partition) -> Any:
    """Return the ``ttypes.Partition`` to add: the table's columns and SerDe, the partition's location and parameters.

    Spark does the same, down to the SerDe parameter ``path`` of ``USING parquet`` tables, which in partitions
    repeats the table's location.
    """
    storage = copy.copy(_thrift(table).sd)
    storage.location = _without_slash(partition.location)
    return ttypes.Partition(
        values=list(partition.values),
        dbName=table.name.database,
        tableName=table.name.name,
        createTime=int(time.time()),
        lastAccessTime=0,
        sd=storage,
        parameters=dict(partition.parameters),
    )


def altered_partition(table: Table, change: PartitionChange) -> Any:
    """Return the ``ttypes.Partition`` to alter to: the one that was read, at the new location.

    Columns, formats and SerDe are the table's. The SerDe's parameters are too, as in partitions that Spark adds: the
    new files were written by what the table says. What else the partition holds stays. Copies share all that does
    not change, so 5,000 partitions of 100 columns cost no 500,000 column objects, and what was read is left alone.
    """
    described = _thrift(table).sd
    known = change.partition
    just_added = known.native is None  # by us a moment ago: there is nothing to keep that new_partition does not know
    altered = new_partition(table, known) if just_added else copy.copy(_thrift(known))
    storage = altered.sd = copy.copy(altered.sd)
    storage.location = _without_slash(change.location)
    storage.cols = described.cols
    storage.serdeInfo = described.serdeInfo
    storage.inputFormat = described.inputFormat
    storage.outputFormat = described.outputFormat
    altered.parameters = _as_read(changed_parameters(change), known.native)
    return altered


def altered_table(change: PartitionChange) -> Any:
    """Return the ``ttypes.Table`` to alter to: the one that was read, at the new location, and nothing else changed.

    Of a table whose location in the metastore is Spark's placeholder only the SerDe parameter ``path`` moves.
    """
    altered = copy.copy(_thrift(change.partition))
    storage = altered.sd = copy.copy(altered.sd)
    serde = storage.serdeInfo = copy.copy(storage.serdeInfo)
    location, serde_parameters = _without_slash(change.location), serde.parameters or {}
    storage.location = moved_location(storage.location, serde_parameters, location)
    serde.parameters = moved_serde_parameters(serde_parameters, location)
    altered.parameters = _as_read(whole_table_parameters(change), change.partition.native)
    return altered


def _thrift(noun: Table | Partition) -> Any:
    if not isinstance(noun.native, ttypes.Table | ttypes.Partition):
        raise InvalidInputError(f"{noun!r} was not read from this metastore; read it first")
    return noun.native


def _columns(fields: Iterable[Any] | None) -> tuple[Column, ...]:
    return tuple(Column(field.name, field.type, field.comment or "") for field in fields or ())


def _without_logins(parameters: Mapping[str, str] | None) -> dict[str, str]:
    return {name: without_s3_login(value or "") for name, value in (parameters or {}).items()}


def _as_read(wanted: Mapping[str, str], native: Any) -> dict[str, str]:
    """Return parameters with those that do not change as the metastore has them."""
    read: Mapping[str, str] = (native.parameters if native is not None else None) or {}
    return {
        name: read[name] if without_s3_login(read.get(name) or "") == value and name in read else value
        for name, value in wanted.items()
    }


def _with_slash(location: str) -> str:
    return f"{without_s3_login(location).rstrip('/')}/" if location else ""


def _without_slash(location: str) -> str:
    return location.rstrip("/")  # as Spark and Hive store it


def _read_skewed_locations_as_tuples() -> None:
    """Let tables with list bucketing be read at all.

    Their locations are a map with *lists* as keys, which Python cannot hash: hmsclient fails with ``TypeError``.
    Thrift's descriptions can ask for tuples instead (the ``True`` below); what is written is the same either way.
    """
    text = (TType.STRING, "UTF8")
    locations = (3, TType.MAP, "skewedColValueLocationMaps", (TType.LIST, (*text, True), *text, False), None)
    specification = (*ttypes.SkewedInfo.thrift_spec[:3], locations)
    ttypes.SkewedInfo.thrift_spec = specification
    (nested,) = (field[3] for field in ttypes.StorageDescriptor.thrift_spec if field and field[2] == "skewedInfo")
    nested[1] = specification


_read_skewed_locations_as_tuples()
