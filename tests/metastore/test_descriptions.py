"""How a partition's own description differs from its table's."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol, TBinaryProtocolAccelerated
from thrift.Thrift import TType
from thrift.transport.TTransport import TMemoryBuffer

from table_writer.metastore.connection import Connection
from table_writer.metastore.hive_objects import partition_from
from table_writer.model.table import Column, Partition, PartitionChange, Table, TableName
from tests.metastore.conftest import INPUT_FORMAT, OUTPUT_FORMAT, SERDE, World, thrift_table

ORC = "org.apache.hadoop.hive.ql.io.orc.OrcSerde"
LAZY = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
ORC_INPUT = "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat"
TABLE = Table(
    name=TableName("mart", "orders"),
    kind="EXTERNAL_TABLE",
    location="s3://mart/orders/",
    columns=(Column("id", "bigint", "a key"), Column("amount", "decimal(18,2)"), Column("tags", "array<string>")),
    partition_columns=(Column("dt", "string"),),
    input_format=INPUT_FORMAT,
    output_format=OUTPUT_FORMAT,
    serde=SERDE,
    serde_parameters={"serialization.format": "1", "path": "s3://mart/orders"},
)


def described(**storage: Any) -> str:
    return partition_described(**storage).differs


def partition_described(*, of_table: Mapping[str, str] | None = None, **storage: Any) -> Partition:
    """Describe a partition like its table but for some fields of its storage descriptor."""
    native = thrift_table(TABLE)
    native.sd.serdeInfo.serializationLib = (of_table or {}).get("serde", SERDE)
    table = Table(**{**{name: getattr(TABLE, name) for name in TABLE.__dataclass_fields__}, "native": native})
    own = copy.deepcopy(native.sd)
    serde, options = storage.pop("serde", None), storage.pop("options", None)
    own.serdeInfo.serializationLib = serde or own.serdeInfo.serializationLib
    own.serdeInfo.parameters |= options or {}
    for name, value in storage.items():
        setattr(own, name, value)
    return partition_from(ttypes.Partition(values=["1"], sd=own), table)


def columns(*named: tuple[str, str]) -> list[Any]:
    return [ttypes.FieldSchema(name, kind, None) for name, kind in named]


ID, AMOUNT, TAGS = ("id", "bigint"), ("amount", "decimal(18,2)"), ("tags", "array<string>")


@pytest.mark.parametrize(
    "storage",
    [
        {},
        {"cols": columns(ID, AMOUNT)},
        {"cols": columns(ID)},
        {"cols": columns(("ID", "BIGINT"), ("Amount", "DECIMAL(18,2)"), TAGS)},
        {"cols": columns(TAGS, AMOUNT, ID)},
        {"options": {"path": "s3://mart/orders/dt=1", "serialization.format": "x"}},
        {"options": {"compression": "zstd"}},
        {"outputFormat": "another.OutputFormat"},
        {"location": "s3://elsewhere", "numBuckets": 7},
    ],
    ids=repr,
)
def test_what_no_reader_minds_is_no_difference(storage: dict[str, Any]) -> None:
    assert described(**storage) == ""


@pytest.mark.parametrize(
    ("storage", "words"),
    [
        ({"serde": ORC}, f"is stored as {ORC}"),
        ({"inputFormat": ORC_INPUT}, f"is read by {ORC_INPUT}, the table by {INPUT_FORMAT}"),
        ({"options": {"field.delim": ","}}, "has another SerDe parameter field.delim than the table"),
        ({"cols": columns(ID, ("amount", "int"))}, "has column amount as int, the table as decimal(18,2)"),
        ({"cols": columns(ID, ("old", "int"))}, "has column old, which the table does not have"),
        (
            {"serde": ORC, "options": {"field.delim": ","}, "cols": columns(("ID", "string"))},
            f"is stored as {ORC}; has column ID as string, the table as bigint",
        ),
        (
            {"cols": columns(*((name, "int") for name in "abcde"))},
            "; ".join(f"has column {name}, which the table does not have" for name in "abc")
            + "; and 2 more differences",
        ),
    ],
)
def test_a_difference_is_said_in_words(storage: dict[str, Any], words: str) -> None:
    assert described(**storage) == words


@pytest.mark.parametrize(
    ("serde", "own", "is_read_alike"),
    [
        (SERDE, ("id", "int"), True),
        (ORC, ("id", "smallint"), True),
        (SERDE, ("amount", "decimal(10,2)"), True),
        (SERDE, ("amount", "decimal(20,2)"), False),
        (SERDE, ("amount", "decimal(18,1)"), False),
        (SERDE, ("amount", "int"), False),
        (SERDE, ("id", "double"), False),
        (SERDE, ("tags", "array<int>"), False),
        (LAZY, ("id", "int"), False),  # whose texts are read by the type: 3000000000 was null
    ],
)
def test_files_of_a_narrower_type_are_read_alike_where_they_say_what_they_hold(
    serde: str, own: tuple[str, str], is_read_alike: bool
) -> None:
    found = partition_described(serde=serde, cols=columns(own), of_table={"serde": serde})
    named = (found.narrower, found.differs) if is_read_alike else (found.differs, found.narrower)
    assert (named[0].startswith(f"has column {own[0]} as {own[1]}, the table as "), named[1]) == (True, "")


def test_values_of_serde_parameters_stay_out_of_messages() -> None:
    assert "hush" not in described(options={"s3.secret": "hush"})


def test_partitions_are_compared_with_the_table_as_it_is_now(hive: World, backdoor: Connection) -> None:
    table = hive.table(columns=(Column("id", "int"), Column("note", "string")))
    hive.metastore.add_partitions(table, [hive.partition("1"), hive.partition("2")])
    assert {one.differs for one in hive.metastore.get_all_partitions(table).values()} == {""}
    evolved: Any = copy.deepcopy(table.native)
    evolved.sd.cols = columns(("id", "bigint"), ("note", "string"), ("added", "string"))
    backdoor.change("alter_table", table.name.database, table.name.name, evolved, table=str(table.name))
    table = hive.metastore.get_table(table.name) or table
    found = hive.metastore.get_all_partitions(table)
    assert {one.narrower for one in found.values()} == {"has column id as int, the table as bigint"}
    assert {one.differs for one in found.values()} == {""}
    change = PartitionChange(partition=found["1",], location=f"{hive.root}/b/", set_parameters={})
    hive.metastore.alter_partitions(table, [change])
    after = hive.metastore.get_all_partitions(table)
    assert (after["1",].narrower, after["2",].narrower) == ("", found["2",].narrower)


def test_the_managed_location_of_a_database_is_read_where_the_server_has_one() -> None:
    """Hive 4 has this field, of which the generated code knows nothing."""
    sent = TMemoryBuffer()
    writing = TBinaryProtocol(sent)
    writing.writeStructBegin("get_database_result")
    writing.writeFieldBegin("success", TType.STRUCT, 0)
    writing.writeStructBegin("Database")
    writing.writeFieldBegin("name", TType.STRING, 1)
    writing.writeString("mart")
    writing.writeFieldBegin("managedLocationUri", TType.STRING, 10)
    writing.writeString("s3a://lake/managed/mart.db")
    writing.writeFieldStop()
    writing.writeFieldStop()
    answer = ThriftHiveMetastore.get_database_result()
    answer.read(TBinaryProtocolAccelerated(TMemoryBuffer(sent.getvalue())))
    assert (answer.success.name, answer.success.managedLocationUri) == ("mart", "s3a://lake/managed/mart.db")
