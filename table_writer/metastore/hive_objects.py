"""The nouns of ``model.table`` from and to the metastore's Thrift objects. No I/O."""

from __future__ import annotations

import copy
import getpass
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final
from urllib.parse import urlsplit

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.Thrift import TType

from table_writer.errors import InvalidInputError, MetastoreError
from table_writer.model.location import without_s3_login
from table_writer.model.table import (
    WRITE_ID_PARAMETER,
    Column,
    Partition,
    PartitionChange,
    PartitionValues,
    Table,
    TableName,
)

READERS_IGNORE: Final = frozenset(
    {
        "path",  # Spark repeats the table's location here
        "compression",  # these are for writers: a file says itself how it is compressed
        "parquet.compression",
        "orc.compress",
    }
)

COLUMNAR: Final = ("ParquetHiveSerDe", "OrcSerde")
"""For these Hive sets ``serialization.format`` to 1 and nobody reads it; for text it can be the delimiter."""

WIDENED: Final = (("tinyint", "smallint", "int", "bigint"), ("float", "double"))
"""Each type, and those to which it may be widened: files say which they hold, and readers take it for any of them."""

DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
MAX_NAMED: Final = 3  # a table of 1,000 columns must not become a message of 1,000 lines
NAME_AND_TYPE: Final = attrgetter("name", "type")
WHOLE_TABLE: Final[PartitionValues] = ()  # the values of the one partition that an unpartitioned table is
DDL_TIME: Final = "transient_lastDdlTime"
METADATA_LOCATION: Final = "metadata_location"
"""Parameter by which Iceberg's clients find what an Iceberg table is now, and which they compare and set."""

PATH: Final = "path"
PROVIDER: Final = "spark.sql.sources.provider"
PLACEHOLDER: Final = "-__PLACEHOLDER__"
"""Of Spark's HiveExternalCatalog: Hive must have some location, and readers use ``path``."""


def table_from(native: Any) -> Table:
    """Describe a ``ttypes.Table``. A view has no location: it becomes the empty text.

    Keys of S3 that stand in a location stay in ``native``, which is what is written back, and are nowhere else.
    """
    storage = native.sd = native.sd or ttypes.StorageDescriptor()
    serde = storage.serdeInfo = storage.serdeInfo or ttypes.SerDeInfo()
    parameters = _without_logins(native.parameters)
    serde_parameters = _without_logins(serde.parameters)
    return Table(
        name=TableName(native.dbName or "", native.tableName or ""),
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
        has_skewed_directories=bool(storage.storedAsSubDirectories),
        created_at_seconds=native.createTime or 0,
        native=native,
    )


def partition_from(native: Any, table: Table) -> Partition:
    """Describe a ``ttypes.Partition`` of a table, which is kept from here on without columns of its own.

    Whoever alters a partition gives it the table's columns (:func:`altered_partition`); its own are compared here and
    never needed again. 5,000 partitions of 100 columns would keep 500,000 objects for that.
    """
    if native.values is None or native.sd is None or native.sd.serdeInfo is None or not native.sd.location:
        raise MetastoreError(
            f"the metastore has answered a partition of {table.name} without its values, its location or its SerDe",
            table=str(table.name),
        )
    described = _thrift(table).sd
    differs, narrower = differences(native.sd, described, table.columns)
    native.sd.cols = described.cols
    return Partition(
        values=tuple(native.values),
        location=_with_slash(native.sd.location),
        parameters=_without_logins(native.parameters),
        differs=differs,
        narrower=narrower,
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
    storage.location = partition.location.rstrip("/")  # as Spark and Hive store it
    return ttypes.Partition(
        values=list(partition.values),
        dbName=table.name.database,
        tableName=table.name.name,
        createTime=int(time.time()),
        lastAccessTime=0,
        sd=storage,
        parameters=dict(partition.parameters),
    )


def new_table(table: Table) -> Any:
    """Return the ``ttypes.Table`` to add: an external one that has no partitions yet."""
    return ttypes.Table(
        dbName=table.name.database,
        tableName=table.name.name,
        owner=getpass.getuser(),
        createTime=int(time.time()),
        tableType="EXTERNAL_TABLE",
        parameters={"EXTERNAL": "TRUE", **table.parameters},
        partitionKeys=[
            ttypes.FieldSchema(column.name, column.type, column.comment) for column in table.partition_columns
        ],
        sd=ttypes.StorageDescriptor(
            cols=[ttypes.FieldSchema(column.name, column.type, column.comment) for column in table.columns],
            location=table.location.rstrip("/"),
            inputFormat=table.input_format,
            outputFormat=table.output_format,
            serdeInfo=ttypes.SerDeInfo(serializationLib=table.serde, parameters=dict(table.serde_parameters)),
        ),
    )


def scratch_table(table: Table, name: TableName, location: str) -> Any:
    """Return the ``ttypes.Table`` of an external table like another one, but partitioned by one text."""
    storage = copy.copy(_thrift(table).sd)
    storage.location = location.rstrip("/")
    return ttypes.Table(
        dbName=name.database,
        tableName=name.name,
        owner=_thrift(table).owner,
        tableType="EXTERNAL_TABLE",
        parameters={"EXTERNAL": "TRUE"},
        partitionKeys=[ttypes.FieldSchema("value", "string", "")],
        sd=storage,
    )


def altered_partition(table: Table, change: PartitionChange) -> Any:
    """Return the ``ttypes.Partition`` to alter to: the one that was read, at the new location.

    Columns, formats and SerDe are the table's. The SerDe's parameters are too, as in partitions that Spark adds: the
    new files were written by what the table says. What else the partition holds stays. Copies share all that does not
    change, so 5,000 partitions of 100 columns cost no 500,000 column objects, and what was read is left alone.
    """
    described = _thrift(table).sd
    known = change.partition
    just_added = known.native is None  # by us a moment ago: there is nothing to keep that new_partition does not know
    altered = new_partition(table, known) if just_added else copy.copy(_thrift(known))
    storage = altered.sd = copy.copy(altered.sd)
    storage.location = change.location.rstrip("/")
    storage.cols = described.cols
    storage.serdeInfo = described.serdeInfo
    storage.inputFormat = described.inputFormat
    storage.outputFormat = described.outputFormat
    altered.parameters = as_read(changed_parameters(change), getattr(known.native, "parameters", None) or {})
    return altered


def altered_table(change: PartitionChange) -> Any:
    """Return the ``ttypes.Table`` to alter to: the one that was read, at the new location, perhaps with other columns.

    Of a table whose location in the metastore is Spark's placeholder only the SerDe parameter ``path`` moves.
    """
    altered = copy.copy(_thrift(change.partition))
    storage = altered.sd = copy.copy(altered.sd)
    serde = storage.serdeInfo = copy.copy(storage.serdeInfo)
    location, serde_parameters = change.location.rstrip("/"), serde.parameters or {}
    named = (storage.location or "", altered.parameters or {}, serde_parameters)
    if hive_location(*named) or _with_slash(true_location(*named)) != _with_slash(location):  # else it stays as it is
        storage.location = moved_location(storage.location, serde_parameters, location)
        serde.parameters = moved_serde_parameters(serde_parameters, location)
    if change.columns is not None:
        storage.cols = [ttypes.FieldSchema(column.name, column.type, column.comment) for column in change.columns]
    altered.parameters = as_read(whole_table_parameters(change), altered.parameters or {})
    return altered


def _thrift(noun: Table | Partition) -> Any:
    if not isinstance(noun.native, ttypes.Table | ttypes.Partition):
        raise InvalidInputError(f"{noun!r} was not read from this metastore; read it first")
    return noun.native


def _columns(fields: Iterable[Any] | None) -> tuple[Column, ...]:
    return tuple(Column(field.name, field.type, field.comment or "") for field in fields or ())


def _without_logins(parameters: Mapping[str, str] | None) -> dict[str, str]:
    return {name: without_s3_login(value or "") for name, value in (parameters or {}).items()}


def as_read(wanted: Mapping[str, str], read: Mapping[str, str]) -> dict[str, str]:
    """Return parameters with those that do not change as the metastore has them."""
    return {
        name: read[name] if without_s3_login(read.get(name) or "") == value and name in read else value
        for name, value in wanted.items()
    }


def _with_slash(location: str) -> str:
    return f"{without_s3_login(location).rstrip('/')}/" if location else ""


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


def _read_managed_locations() -> None:
    """Read one field more of a database, which Hive 4 has, and ``None`` elsewhere."""
    fields = (*ttypes.Database.thrift_spec, None, None, (10, TType.STRING, "managedLocationUri", "UTF8", None))
    ttypes.Database.thrift_spec = fields
    ttypes.Database.managedLocationUri = None
    ThriftHiveMetastore.get_database_result.thrift_spec[0][3][1] = fields  # it holds the fields by themselves


_read_skewed_locations_as_tuples()
_read_managed_locations()


def differences(storage: Any, described: Any, columns: Sequence[Column]) -> tuple[str, str]:
    """Say how a partition's ``StorageDescriptor`` differs from the table's; empty when files of both are read alike.

    The output format is left out: it makes files and reads none. Of columns only those count that the table does not
    have, or has with another type: Parquet and ORC find columns by name, and one that is missing is null. A type that
    the table has got since, without ``CASCADE``, and that is wider, is said apart: files of the partition are read
    alike by the table's description, but not those of the table by the partition's.
    """
    narrower: list[str] = []
    columnar = str(storage.serdeInfo.serializationLib).endswith(COLUMNAR)
    if storage.serdeInfo.serializationLib == described.serdeInfo.serializationLib:
        ignored = READERS_IGNORE | {"serialization.format"} if columnar else READERS_IGNORE
        found = _parameters(storage.serdeInfo.parameters or {}, described.serdeInfo.parameters or {}, ignored)
    else:
        found = [f"is stored as {storage.serdeInfo.serializationLib}"]
    if storage.inputFormat != described.inputFormat:
        found.append(f"is read by {storage.inputFormat}, the table by {described.inputFormat}")
    # 5,000 partitions of 100 columns: equal lists are the rule, and comparing them is all that happens then
    if list(map(NAME_AND_TYPE, storage.cols)) != list(map(NAME_AND_TYPE, columns)):
        widened, others = _shown_columns(storage.cols, columns)
        found += others if columnar else [*widened, *others]
        narrower = widened if columnar else []
    return _listed(found), _listed(narrower)


def _listed(found: Sequence[str]) -> str:
    rest = len(found) - MAX_NAMED
    return "; ".join(found[:MAX_NAMED]) + (f"; and {rest} more differences" if rest > 0 else "")


def _parameters(theirs: Mapping[str, str], tables: Mapping[str, str], ignored: Collection[str]) -> list[str]:
    """Name the SerDe parameters that are others; their values may be secret and stay out of messages."""
    names = sorted(theirs.keys() | tables.keys()) if theirs != tables else []
    return [
        f"has another SerDe parameter {name} than the table"
        for name in names
        if theirs.get(name) != tables.get(name) and name.lower() not in ignored
    ]


def is_widened(theirs: str, tables: str) -> bool:
    """Return whether a columnar file of a partition's type is read alike as the table's type.

    Examples
    --------
    >>> is_widened("int", "bigint"), is_widened("decimal(10,2)", "decimal(18,2)")
    (True, True)
    >>> is_widened("bigint", "int"), is_widened("int", "double"), is_widened("decimal(10,2)", "decimal(18,4)")
    (False, False, False)
    """
    own, wanted = DECIMAL.fullmatch(theirs), DECIMAL.fullmatch(tables)
    if own and wanted:
        return int(own[1]) <= int(wanted[1]) and own[2] == wanted[2]
    return theirs == tables or any(tables in kinds[kinds.index(theirs) :] for kinds in WIDENED if theirs in kinds)


def _shown_columns(theirs: Sequence[Any], tables: Sequence[Column]) -> tuple[list[str], list[str]]:
    """Name the columns whose types the table has widened, and those that it has not or has otherwise."""
    types = {column.name.lower(): column.type for column in tables}
    widened: list[str] = []
    found: list[str] = []
    for column in theirs:
        type_in_table = types.get(column.name.lower())
        if type_in_table is None:
            found.append(f"has column {column.name}, which the table does not have")
        elif type_in_table.lower() != column.type.lower():
            is_widened_now = is_widened(column.type.lower(), type_in_table.lower())
            kind = widened if is_widened_now else found
            kind.append(f"has column {column.name} as {column.type}, the table as {type_in_table}")
    return widened, found


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


def keeps_location(table: Table) -> bool:
    """Return whether only the SerDe parameter ``path`` of a table moves."""
    storage = _thrift(table).sd
    return moved_location(storage.location, storage.serdeInfo.parameters or {}, "") != ""


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
    """Return the object that was read, with the change's parameters set and removed.

    ``transient_lastDdlTime`` is left out, as Hive's own client does: the server then sets its own clock's time.
    """
    left_out = change.removed_parameters | {DDL_TIME}
    kept = {name: value for name, value in change.partition.parameters.items() if name not in left_out}
    return {**kept, **change.set_parameters}


def whole_table_parameters(change: PartitionChange) -> dict[str, str]:
    """Return the same for a table; ``transient_lastDdlTime`` is there where it is what changes in any case.

    A server compares and sets one parameter, which must have an old and a new value. The first publish has no old
    write_id, so it compares the time. The new time is at least one second later than the old one: two equal values
    would let both of two writers pass.
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
    usable = [name for name in (METADATA_LOCATION, WRITE_ID_PARAMETER, DDL_TIME) if _is_changed(name, old, new)]
    return {name: old[name] for name in usable[:1]}


def why_immovable(table: Table, *, warehouse: str, managed: str, has_external: bool) -> str:
    """Say why Hive 4 would refuse to move a table within its root; empty where it would not.

    ``warehouse`` is the server's, ``managed`` that of the table's database, if it has one of its own. The rule is that
    of Hive's ``MetastoreDefaultTransformer.validateTablePaths``, which compares the paths alone of external tables.

    Examples
    --------
    >>> name, root = TableName("mart", "orders"), "s3a://lake/wh/orders/"
    >>> orders = Table(name=name, kind="EXTERNAL_TABLE", location=root, columns=(), partition_columns=())
    >>> why_immovable(orders, warehouse="s3a://lake/wh", managed="", has_external=False)
    ''
    >>> why_immovable(orders, warehouse="s3a://lake/wh", managed="", has_external=True)
    'Hive 4 keeps external tables out of its managed warehouse s3a://lake/wh'
    """
    root, above = urlsplit(table.root), urlsplit(managed if managed and table.kind == "MANAGED_TABLE" else warehouse)
    is_below = root.path.startswith(f"{above.path.rstrip('/')}/")
    if table.kind == "MANAGED_TABLE":
        is_kept = is_below and (root.scheme, root.netloc) == (above.scheme, above.netloc)
        return "" if is_kept else f"Hive 4 keeps managed tables within the managed warehouse {above.geturl()}"
    refused = has_external and is_below
    return f"Hive 4 keeps external tables out of its managed warehouse {warehouse}" if refused else ""


class TableChangedError(MetastoreError):
    """A compare-and-set was refused: somebody has changed the table since it was read, and nothing was changed now."""


def table_was_changed(table: TableName, uri: str) -> MetastoreError:
    """Return the error of a compare-and-set that was refused."""
    return TableChangedError(
        f"somebody else changed table {table} in the metastore at {uri} between this write's look at it and its switch;"
        " nothing was changed, run it again",
        table=str(table),
    )


def _is_changed(name: str, old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    """Return whether a parameter has two values to tell apart: an absent one can be neither expected nor set."""
    return name in old and name in new and old[name] != new[name]
