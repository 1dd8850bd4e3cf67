"""What stands between Thrift and a metastore: answers cut short, late or twice, a proxy's, connections that end."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, get_args

import pytest
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType, TType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TMemoryBuffer, TTransportException

from table_writer.errors import LostResponseError, MetastoreError
from table_writer.metastore.hive import HiveMetastore
from table_writer.metastore.settings import MetastoreSettings
from table_writer.model.table import PartitionChange, Table, TableName
from tests.bare_server import BareServer, Fault

FAULTS: Final[tuple[Fault, ...]] = get_args(Fault)
NAME: Final = TableName("mart", "orders")
ALTER: Final = "alter_partitions_with_environment_context"
TIMEOUT_SECONDS: Final = 0.2
VALUES: Final = [("d1",), ("d2",)]


def storage(location: str) -> Any:
    columns = [ttypes.FieldSchema("id", "int", "")]
    return ttypes.StorageDescriptor(cols=columns, location=location, serdeInfo=ttypes.SerDeInfo(parameters={}))


TABLE: Final = ttypes.Table(
    tableName=NAME.name,
    dbName=NAME.database,
    createTime=1,
    tableType="EXTERNAL_TABLE",
    partitionKeys=[ttypes.FieldSchema("dt", "string", "")],
    sd=storage("s3://lake/orders"),
    parameters={},
)
PARTITIONS: Final = [
    ttypes.Partition(values=list(one), dbName="mart", tableName="orders", sd=storage("s3://lake/x"), parameters={})
    for one in VALUES
]
RESULTS: Final[dict[str, Callable[[], Any]]] = {
    "get_table_req": lambda: ThriftHiveMetastore.get_table_req_result(ttypes.GetTableResult(table=TABLE)),
    "get_partition_names": lambda: ThriftHiveMetastore.get_partition_names_result(["dt=d1", "dt=d2"]),
    "get_partitions_by_names": lambda: ThriftHiveMetastore.get_partitions_by_names_result(PARTITIONS),
    ALTER: ThriftHiveMetastore.alter_partitions_with_environment_context_result,
    "drop_table": ThriftHiveMetastore.drop_table_result,
    "lock": lambda: ThriftHiveMetastore.lock_result(ttypes.LockResponse(lockid=1, state=1)),
}


def converse(end: socket.socket) -> tuple[str, bytes] | None:
    """Read a call, and return its name and its answer."""
    transport = TSocket()
    transport.setHandle(end)
    protocol = TBinaryProtocol(TBufferedTransport(transport))
    try:
        name, _, number = protocol.readMessageBegin()
        protocol.skip(TType.STRUCT)
    except (TTransportException, EOFError, OSError):
        return None
    buffer = TMemoryBuffer()
    answer = TBinaryProtocol(buffer)
    answer.writeMessageBegin(name, TMessageType.REPLY, number)
    RESULTS[name]().write(answer)
    answer.writeMessageEnd()
    transport.handle = None  # the socket is the server's
    return name, buffer.getvalue()


@pytest.fixture
def server() -> Iterator[BareServer]:
    with BareServer(converse) as bare:
        yield bare


@pytest.fixture(autouse=True)
def no_call_hangs() -> Iterator[None]:
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < 10


def connected(server: BareServer) -> HiveMetastore:
    uris = (f"thrift://127.0.0.1:{server.port}",)
    settings = MetastoreSettings(uris=uris, timeout_seconds=TIMEOUT_SECONDS, connect_timeout_seconds=1, read_attempts=2)
    return HiveMetastore(settings)


def read(metastore: HiveMetastore) -> tuple[Table, list[Any]]:
    table = metastore.get_table(NAME)
    assert table is not None
    assert metastore.get_partition_names(NAME) == VALUES
    found = metastore.get_partitions(table, VALUES)
    assert list(found) == VALUES
    return table, [
        PartitionChange(partition=one, location="s3://lake/new", set_parameters={}) for one in found.values()
    ]


@pytest.mark.parametrize("always", [False, True], ids=["once", "always"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("method", ["get_table_req", "get_partition_names", "get_partitions_by_names"])
def test_a_read_is_whole_or_an_error(server: BareServer, method: str, fault: Fault, always: bool) -> None:
    metastore = connected(server)
    server.fails(method, fault, always=always)
    if always and fault != "twice":
        with pytest.raises(MetastoreError, match="nothing was changed"):
            read(metastore)
    else:
        read(metastore)
    server.fault = None
    read(metastore)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_change_is_done_or_unknown_and_is_sent_once(server: BareServer, fault: Fault) -> None:
    metastore = connected(server)
    table, changes = read(metastore)
    server.fails(ALTER, fault, always=True)
    if fault == "twice":
        metastore.alter_partitions(table, changes)
    else:
        with pytest.raises(LostResponseError, match="read it back"):
            metastore.alter_partitions(table, changes)
    assert server.heard.count(ALTER) == 1
    read(metastore)


@pytest.mark.parametrize("before", ["get_table_req", "get_partition_names", "get_partitions_by_names"])
def test_an_answer_that_comes_a_second_time_is_not_that_of_the_next_call(server: BareServer, before: str) -> None:
    metastore = connected(server)
    table, changes = read(metastore)
    server.fails(before, "twice", always=True)
    for _ in range(5):
        read(metastore)
    metastore.alter_partitions(table, changes)


@pytest.mark.parametrize("twice", [ALTER, "get_partition_names", "get_table_req"])
def test_a_second_answer_that_comes_while_a_change_is_under_way_does_not_answer_it(twice: str) -> None:
    """A void answer fits to every call that changes something, whatever it was the answer to."""
    earlier: list[bytes] = []

    def answers_late(end: socket.socket) -> tuple[str, bytes] | None:
        heard = converse(end)
        if heard is None:
            return None
        name, answer = heard
        if name == ALTER and earlier:
            return name, earlier[0]  # and no answer of its own
        earlier.extend([answer] if name == twice else [])
        return heard

    with BareServer(answers_late) as server:
        metastore = connected(server)
        table, changes = read(metastore)
        if twice == ALTER:
            metastore.alter_partitions(table, changes)
        with pytest.raises(LostResponseError, match="and not to this one"):
            metastore.alter_partitions(table, changes)
        read(metastore)
