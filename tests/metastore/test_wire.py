"""What the gateway makes of connections that break before, within and after a call, and of a proxy's answers."""

from __future__ import annotations

import gc
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType, TType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TFramedTransport, TMemoryBuffer, TTransportException

from table_writer.errors import LostResponseError, MetastoreError
from table_writer.metastore import wire
from table_writer.metastore.connection import Connection
from table_writer.metastore.hive import HiveMetastore
from table_writer.metastore.settings import MetastoreSettings
from table_writer.model.table import Partition, PartitionChange, Table, TableName
from table_writer.testing import MetastoreServer
from tests.bare_server import BareServer, Fault
from tests.metastore.conftest import hive_world, thrift_server

FAULTS: Final[tuple[Fault, ...]] = get_args(Fault)
NAME: Final = TableName("mart", "orders")
VALUES: Final = [("d1",), ("d2",)]
ALTER: Final = "alter_partitions_with_environment_context"


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
    "set_ugi": lambda: ThriftHiveMetastore.set_ugi_result([]),
    "get_table_req": lambda: ThriftHiveMetastore.get_table_req_result(ttypes.GetTableResult(table=TABLE)),
    "get_all_tables": lambda: ThriftHiveMetastore.get_all_tables_result([NAME.name]),
    "get_table_objects_by_name_req": lambda: ThriftHiveMetastore.get_table_objects_by_name_req_result(
        ttypes.GetTablesResult([TABLE])
    ),
    "get_partition_names": lambda: ThriftHiveMetastore.get_partition_names_result(["dt=d1", "dt=d2"]),
    "get_partitions_by_names": lambda: ThriftHiveMetastore.get_partitions_by_names_result(PARTITIONS),
    "add_partitions_req": lambda: ThriftHiveMetastore.add_partitions_req_result(ttypes.AddPartitionsResult()),
    ALTER: ThriftHiveMetastore.alter_partitions_with_environment_context_result,
    "drop_partition": lambda: ThriftHiveMetastore.drop_partition_result(success=True),
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
def no_call_hangs(request: pytest.FixtureRequest) -> Iterator[None]:
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < 10 or request.node.get_closest_marker("slow")


def address(server: BareServer) -> str:
    return f"thrift://127.0.0.1:{server.port}"


def connect(*uris: str, timeout_seconds: float = 60, **settings: Any) -> HiveMetastore:
    return HiveMetastore(MetastoreSettings(uris=uris, timeout_seconds=timeout_seconds, **settings))


def asked(server: BareServer, fault: Fault, *others: BareServer) -> HiveMetastore:
    """Wait as long as a busy machine may take, but for answers that are late."""
    server.late_seconds = 0.8
    uris = [address(one) for one in (server, *others)]
    return connect(*uris, timeout_seconds=0.5 if fault == "late" else 60, read_attempts=2)


def read(metastore: HiveMetastore) -> tuple[Table, list[PartitionChange]]:
    table = metastore.get_table(NAME)
    assert table is not None
    assert [one.name for one in metastore.get_tables(NAME.database)] == [NAME]
    assert metastore.get_partition_names(NAME) == VALUES
    found = metastore.get_partitions(table, VALUES)
    assert list(found) == VALUES
    return table, [
        PartitionChange(partition=one, location="s3://lake/new", set_parameters={}) for one in found.values()
    ]


READS: Final = [name for name in RESULTS if name.startswith("get_")]
ADDED: Final = Partition(values=("d3",), location="s3://lake/d3")
CHANGES: Final[dict[str, Callable[[HiveMetastore, Table, list[PartitionChange]], None]]] = {
    "add_partitions_req": lambda metastore, table, _: metastore.add_partitions(table, [ADDED]),
    ALTER: lambda metastore, table, changes: metastore.alter_partitions(table, changes),
    "drop_partition": lambda metastore, table, _: metastore.drop_partition(table, ("d1",)),
}


@pytest.mark.parametrize("always", [False, True], ids=["once", "always"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("method", READS)
def test_a_read_is_whole_or_an_error(server: BareServer, method: str, fault: Fault, always: bool) -> None:
    metastore = asked(server, fault)
    server.fails(method, fault, always=always)
    if always and fault != "twice":
        with pytest.raises(MetastoreError, match=f"{address(server)} did not answer {method}.*nothing was changed"):
            read(metastore)
        assert metastore.call_counts()[method] == 2
    else:
        read(metastore)
    server.fault = None
    read(metastore)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("method", CHANGES)
def test_a_change_is_done_or_unknown_and_is_sent_once(server: BareServer, method: str, fault: Fault) -> None:
    metastore = asked(server, fault)
    table, changes = read(metastore)
    server.fails(method, fault, always=True)
    if fault == "twice":
        CHANGES[method](metastore, table, changes)
    else:
        with pytest.raises(LostResponseError, match=f"{address(server)} did not answer {method}.*read it") as caught:
            CHANGES[method](metastore, table, changes)
        assert str(NAME) in str(caught.value)
        assert caught.value.__cause__ is not None
    assert server.heard.count(method) == metastore.call_counts()[method] == 1
    read(metastore)


@pytest.mark.parametrize("before", READS)
def test_an_answer_that_comes_a_second_time_is_not_that_of_the_next_call(server: BareServer, before: str) -> None:
    metastore = connect(address(server))
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
        metastore = connect(address(server))
        table, changes = read(metastore)
        if twice == ALTER:
            metastore.alter_partitions(table, changes)
        with pytest.raises(LostResponseError, match="and not to this one"):
            metastore.alter_partitions(table, changes)
        read(metastore)


@pytest.mark.parametrize("method", CHANGES)
def test_a_stale_connection_is_noticed_before_a_change(server: BareServer, method: str) -> None:
    metastore = connect(address(server))
    table, changes = read(metastore)
    server.disconnect()
    CHANGES[method](metastore, table, changes)
    assert metastore.call_counts() == {**dict.fromkeys(READS, 1), method: 1}


def test_an_idle_connection_is_replaced(server: BareServer) -> None:
    for idle_seconds, greetings in ((300, 1), (1e-9, 3)):
        metastore = connect(address(server), user="etl", max_idle_seconds=idle_seconds)
        for _ in range(3):
            metastore.get_table(NAME)
        assert metastore.call_counts() == {"set_ugi": greetings, "get_table_req": 3}


def test_a_connection_that_greets_nobody_is_not_reachable(server: BareServer) -> None:
    table, _ = read(connect(address(server)))
    server.fails("set_ugi", "nothing", always=True)
    metastore = connect(address(server), user="etl")
    with pytest.raises(MetastoreError, match="not reachable") as caught:
        metastore.drop_partition(table, ("d1",))
    assert not isinstance(caught.value, LostResponseError)
    assert metastore.call_counts() == {"set_ugi": 1}


@pytest.mark.parametrize("fault", ["nothing", "late", "cut in its body"])
def test_a_read_fails_over_to_the_next_address_and_a_change_never(server: BareServer, fault: Fault) -> None:
    with BareServer(converse) as second:
        table, _ = read(connect("thrift://127.0.0.1:1", address(server)))  # one that is down is passed over
        for call, expected in (("get_table_req", address(second)), ("drop_partition", address(server))):
            metastore = asked(server, fault, second)
            server.fails(call, fault)
            if call == "get_table_req":
                assert metastore.get_table(NAME) == table
            else:
                with pytest.raises(LostResponseError):
                    metastore.drop_partition(table, ("d1",))
            assert metastore.uri == expected
        assert second.heard == ["get_table_req"]


def test_no_metastore_at_all_is_said_with_every_address(server: BareServer, caplog: pytest.LogCaptureFixture) -> None:
    table, _ = read(connect(address(server)))
    metastore = connect("thrift://127.0.0.1:1", f"thrift://{'x' * 64}.invalid", "thrift://no-such-host.invalid")
    with pytest.raises(MetastoreError, match="not reachable") as caught:
        metastore.drop_partition(table, ("d1",))
    for part in ("thrift://127.0.0.1:1", "thrift://no-such-host.invalid:9083", "hive.metastore.uris", str(NAME)):
        assert part in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)
    assert not isinstance(caught.value, LostResponseError)
    with pytest.raises(MetastoreError, match="not reachable"):
        metastore.server_version()
    assert metastore.call_counts() == {}
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


def test_what_cannot_be_encoded_was_not_sent(server: BareServer) -> None:
    metastore = connect(address(server))
    table, _ = read(metastore)
    bad = Partition(values=("d3",), location="file:/tmp/x/", parameters={"number": 7})  # type: ignore[dict-item]
    with pytest.raises(MetastoreError, match="could not be sent") as caught:
        metastore.add_partitions(table, [bad])
    assert not isinstance(caught.value, LostResponseError)
    assert "add_partitions_req" not in server.heard
    read(metastore)


def test_an_interrupted_answer_is_not_taken_for_the_next_one(server: BareServer) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    metastore = connect(address(server))
    server.late_seconds = 30
    server.fails("get_partition_names", "late")
    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            metastore.get_partition_names(NAME)
    finally:
        signal.signal(signal.SIGALRM, previous)
    read(metastore)


@pytest.mark.parametrize(("user", "asked"), [("etl", "set_ugi"), ("", "get_table_req")])
def test_a_metastore_that_never_answers_is_told_of_while_it_is_waited_for(
    user: str, asked: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(wire, "SILENT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the system takes connections, and nobody reads them
        uri = f"thrift://127.0.0.1:{silent.getsockname()[1]}"
        settings = MetastoreSettings(uris=(uri,), timeout_seconds=0.3, user=user, read_attempts=1)
        with pytest.raises(MetastoreError, match=r"no answer within 0\.3 s, which is metastore_timeout_seconds"):
            HiveMetastore(settings).get_table(TableName("mart", "orders"))
    [line] = [one.getMessage() for one in caplog.records if "still waiting" in one.getMessage()]
    assert line.startswith(f"still waiting: the metastore at {uri} has not answered {asked} for ")


def test_a_late_answer_is_taken_after_it_was_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "SILENT_SECONDS", 0.05)
    told: list[float] = []
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(30)
        late = threading.Timer(0.2, theirs.sendall, [b"late"])
        late.start()
        waiting = wire.Wire(ours, told.append)
        assert waiting.readAll(4) == b"late"
        assert (told, ours.gettimeout()) == ([30.0], 30.0)
        late.join()


def test_a_connection_that_nobody_holds_is_closed_without_a_garbage_collection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = Connection(MetastoreSettings(uris=(f"thrift://127.0.0.1:{server.getsockname()[1]}",)))
        line = connection._lines.get()
        connection._open(line, connection.uri)
        theirs, _ = server.accept()
        gc.disable()
        try:
            del connection, line
            theirs.settimeout(5)
            assert theirs.recv(1) == b""
        finally:
            gc.enable()
            theirs.close()


class OldMetastore:
    """Knows one call, and no ``set_ugi``."""

    def get_all_tables(self, database: str) -> list[str]:
        raise ttypes.MetaException(f"no {database}\nat a.long.stack.Trace")


def test_a_framed_metastore_that_knows_no_users_is_spoken_to() -> None:
    with thrift_server(ThriftHiveMetastore.Processor(OldMetastore()), TFramedTransport) as server:
        metastore = connect(address(server), user="etl", framed=True)
        said = r"refused get_all_tables: MetaException: no mart; .* \[table=mart\.\*\]"
        for _ in range(2):
            with pytest.raises(MetastoreError, match=said):
                list(metastore.get_tables("mart"))
        assert metastore.call_counts() == {"set_ugi": 1, "get_all_tables": 2}
        metastore.close()


@pytest.mark.slow
def test_a_killed_metastore_that_is_back_is_used_again(tmp_path: Path) -> None:
    with MetastoreServer(directory=tmp_path / "derby") as server:
        world = hive_world(server.uri, tmp_path)
        table = world.table()
        server.kill()
        with pytest.raises(MetastoreError, match="not reachable"):
            world.metastore.get_table(table.name)
        server.restart()
        assert world.metastore.get_table(table.name) == table
        server.kill()
        server.restart()
        world.metastore.add_partitions(table, [world.partition("1")])
        assert world.metastore.call_counts()["add_partitions_req"] == 1
        assert world.locations(table) == {("1",): "a"}
