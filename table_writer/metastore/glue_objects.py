"""Our nouns from and to AWS Glue's own objects; fields that are not known here are sent back as they came."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from hmsclient.genthrift.hive_metastore import ttypes

from table_writer.errors import InvalidInputError, MetastoreError
from table_writer.metastore import hive_objects
from table_writer.model.table import Column, Partition, PartitionChange, Table


def table_from(raw: Mapping[str, Any]) -> Table:
    """Describe a table, and keep what it was read as."""
    return replace(hive_objects.table_from(thrift_table(raw)), native=raw)


def partition_from(raw: Mapping[str, Any], table: Table, described: Table) -> Partition:
    """Describe a partition; from here on it is kept without columns of its own, as one of Hive's is."""
    native = ttypes.Partition(
        values=raw["Values"], sd=_thrift_storage(raw.get("StorageDescriptor", {})), parameters=raw.get("Parameters", {})
    )
    found = hive_objects.partition_from(native, described)
    columns = raw_of(table)["StorageDescriptor"].get("Columns", [])
    kept = {**raw, "StorageDescriptor": {**raw.get("StorageDescriptor", {}), "Columns": columns}}
    return replace(found, native=kept)


def thrift_table(raw: Mapping[str, Any]) -> ttypes.Table:
    """Return the table as Hive would describe it."""
    created = raw.get("CreateTime")
    return ttypes.Table(
        dbName=raw["DatabaseName"],
        tableName=raw["Name"],
        tableType=raw.get("TableType", "EXTERNAL_TABLE"),
        createTime=int(created.timestamp()) if created else 0,
        sd=_thrift_storage(raw.get("StorageDescriptor", {})),
        partitionKeys=_thrift_columns(raw.get("PartitionKeys", ())),
        parameters=raw.get("Parameters", {}),
    )


def _thrift_storage(raw: Mapping[str, Any]) -> ttypes.StorageDescriptor:
    serde = raw.get("SerdeInfo", {})
    return ttypes.StorageDescriptor(
        cols=_thrift_columns(raw.get("Columns", ())),
        location=raw.get("Location", ""),
        inputFormat=raw.get("InputFormat", ""),
        outputFormat=raw.get("OutputFormat", ""),
        serdeInfo=ttypes.SerDeInfo(None, serde.get("SerializationLibrary", ""), serde.get("Parameters", {})),
        bucketCols=raw.get("BucketColumns", []),
        storedAsSubDirectories=raw.get("StoredAsSubDirectories", False),
    )


def _thrift_columns(raw: Iterable[Mapping[str, str]]) -> list[ttypes.FieldSchema]:
    return [ttypes.FieldSchema(column["Name"], column.get("Type", ""), column.get("Comment")) for column in raw]


def new_table(table: Table) -> dict[str, Any]:
    """Return the ``TableInput`` of an external table that has no partitions yet."""
    return {
        "Name": table.name.name,
        "TableType": "EXTERNAL_TABLE",
        "Parameters": {"EXTERNAL": "TRUE", **table.parameters},
        "PartitionKeys": list(map(_raw_column, table.partition_columns)),
        "StorageDescriptor": {
            "Columns": list(map(_raw_column, table.columns)),
            "Location": table.location.rstrip("/"),
            "InputFormat": table.input_format,
            "OutputFormat": table.output_format,
            "SerdeInfo": {"SerializationLibrary": table.serde, "Parameters": dict(table.serde_parameters)},
        },
    }


def new_input(table: Table, partition: Partition) -> dict[str, Any]:
    """Return the ``PartitionInput`` to add: the table's columns and SerDe, the partition's location and parameters."""
    storage = {**raw_of(table)["StorageDescriptor"], "Location": partition.location.rstrip("/")}
    parameters = {hive_objects.DDL_TIME: str(int(time.time())), **partition.parameters}
    return {"Values": list(partition.values), "StorageDescriptor": storage, "Parameters": parameters}


def changed_input(table: Table, change: PartitionChange) -> dict[str, Any]:
    """Return the ``PartitionInput`` to alter to: what was read, at the new location, read as the table is."""
    known = change.partition
    read = new_input(table, known) if known.native is None else raw_of(known)
    described = raw_of(table)["StorageDescriptor"]
    as_the_table = ("Columns", "SerdeInfo", "InputFormat", "OutputFormat")
    storage = {
        **read["StorageDescriptor"],
        **{name: described[name] for name in as_the_table if name in described},
        "Location": change.location.rstrip("/"),
    }
    kept: dict[str, Any] = {
        name: read[name] for name in ("Values", "LastAccessTime", "LastAnalyzedTime") if name in read
    }
    return {**kept, "StorageDescriptor": storage, "Parameters": _parameters(change, read)}


def moved_table(change: PartitionChange) -> dict[str, Any]:
    """Return the table's object at the new location; where that is Spark's placeholder, only ``path`` moves."""
    read = raw_of(change.partition)
    storage = dict(read["StorageDescriptor"])
    serde = dict(storage.get("SerdeInfo", {}))
    location, serde_parameters = change.location.rstrip("/"), serde.get("Parameters", {})
    storage["Location"] = hive_objects.moved_location(storage.get("Location", ""), serde_parameters, location)
    storage["SerdeInfo"] = {**serde, "Parameters": hive_objects.moved_serde_parameters(serde_parameters, location)}
    if change.columns is not None:
        storage["Columns"] = list(map(_raw_column, change.columns))
    return {**read, "StorageDescriptor": storage, "Parameters": _parameters(change, read)}


def _raw_column(column: Column) -> dict[str, str]:
    return {"Name": column.name, "Type": column.type, **({"Comment": column.comment} if column.comment else {})}


def _parameters(change: PartitionChange, read: Mapping[str, Any]) -> dict[str, str]:
    wanted = hive_objects.as_read(hive_objects.changed_parameters(change), read.get("Parameters", {}))
    return {hive_objects.DDL_TIME: str(int(time.time())), **wanted}


def raw_of(noun: Table | Partition) -> dict[str, Any]:
    """Return Glue's object that a table or partition was read as."""
    if not isinstance(noun.native, dict):
        raise InvalidInputError(f"{noun!r} was not read from this catalog; read it first")
    return noun.native


def shown_target(target: Mapping[str, str]) -> str:
    """Name the table that a resource link points to."""
    where = ", ".join(f"{kind} {target[kind]}" for kind in ("CatalogId", "Region") if target.get(kind))
    return f"{target.get('DatabaseName')}.{target.get('Name')} ({where})"


def require_of(table: Table, found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a partition; refuse one that names another table, or another catalog's."""
    asked = {
        "CatalogId": raw_of(table).get("CatalogId"),
        "DatabaseName": table.name.database,
        "TableName": table.name.name,
    }
    of = [f"{name} {found[name]}" for name, wanted in asked.items() if wanted and found.get(name, wanted) != wanted]
    if of:
        raise MetastoreError(
            f"a partition of {table.name} was asked for, and one of {', '.join(of)} was answered: nothing is decided by"
            " answers of another table",
            table=str(table.name),
        )
    return found


def table_arguments(table: Table) -> dict[str, str]:
    """Return the arguments of a call that name a table."""
    return {"DatabaseName": table.name.database, "TableName": table.name.name}
