"""What the gateway makes of connections that break before, within and after a call."""

from __future__ import annotations

import contextlib
import gc
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TFramedTransport, TTransportException

from table_writer.errors import LostResponseError, MetastoreError
from table_writer.metastore import wire
from table_writer.metastore.connection import Connection
from table_writer.metastore.hive import HiveMetastore
from table_writer.metastore.settings import MetastoreSettings
from table_writer.model.table import Partition, Table, TableName
from table_writer.testing import MetastoreServer
from tests.doubles.faults import Cut, CuttingProxy
from tests.metastore.conftest import World, hive_world
from tests.metastore.test_contract import change

CUTS: tuple[Cut, ...] = ("before", "middle", "after", "silence")
PATIENCE_SECONDS = {"silence": 1.0}  # only this cut ends by a timeout; the others must not, however busy the machine


def add(world: World, metastore: HiveMetastore, table: Table) -> None:
    metastore.add_partitions(table, [world.partition("2", at="new")])


def alter(world: World, metastore: HiveMetastore, table: Table) -> None:
    metastore.alter_partitions(table, [change(world.read(table, "1"), "new")])


def drop(world: World, metastore: HiveMetastore, table: Table) -> None:
    del world
    metastore.drop_partition(table, ("1",))


CHANGES: Mapping[str, tuple[Callable[[World, HiveMetastore, Table], None], dict[tuple[str], str]]] = {
    "add_partitions_req": (add, {("1",): "old", ("2",): "new"}),
    "alter_partitions_with_environment_context": (alter, {("1",): "new"}),
    "drop_partition": (drop, {}),
}
READS: Mapping[str, Callable[[HiveMetastore, Table], Any]] = {
    "get_table_req": lambda metastore, table: metastore.get_table(table.name),
    "get_all_tables": lambda metastore, _: {table.name for table in metastore.get_tables("default")},
    "get_table_objects_by_name_req": lambda metastore, _: {table.name for table in metastore.get_tables("default")},
    "get_partition_names": lambda metastore, table: metastore.get_partition_names(table.name),
    "get_partitions_by_names": lambda metastore, table: metastore.get_partitions(table, [("1",)]),
}


@pytest.fixture
def proxy(metastore_server: MetastoreServer) -> Iterator[CuttingProxy]:
    with CuttingProxy(metastore_server.uri) as proxy:
        yield proxy


@pytest.fixture
def table(hive: World) -> Table:
    table = hive.table()
    hive.metastore.add_partitions(table, [hive.partition("1", at="old")])
    return table


def connect(*uris: str, cut: Cut = "before", **settings: Any) -> HiveMetastore:
    return HiveMetastore(MetastoreSettings(uris=uris, timeout_seconds=PATIENCE_SECONDS.get(cut, 60), **settings))


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("method", CHANGES)
def test_a_change_without_an_answer_is_unknown_and_sent_once(
    hive: World, proxy: CuttingProxy, table: Table, method: str, cut: Cut
) -> None:
    act, applied = CHANGES[method]
    metastore = connect(proxy.uri, cut=cut)
    metastore.get_table(table.name)
    proxy.cut_next(method, cut)
    with pytest.raises(LostResponseError, match=f"{proxy.uri} did not answer {method}.*read it back") as caught:
        act(hive, metastore, table)
    assert str(table.name) in str(caught.value)
    assert caught.value.__cause__ is not None
    assert proxy.cut_count == 1
    assert metastore.call_counts()[method] == 1
    assert hive.locations(table) == ({("1",): "old"} if cut in ("before", "middle") else applied)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("method", READS)
def test_a_read_without_an_answer_is_sent_again(
    hive: World, proxy: CuttingProxy, table: Table, method: str, cut: Cut
) -> None:
    metastore = connect(proxy.uri, cut=cut)
    proxy.cut_next(method, cut)
    assert READS[method](metastore, table) == READS[method](connect(hive.metastore.uri), table)
    assert proxy.cut_count == 1
    assert metastore.call_counts()[method] == 2


def test_a_read_gives_up_after_its_attempts(table: Table) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nowhere = f"thrift://127.0.0.1:{closed.getsockname()[1]}"
    with CuttingProxy(nowhere) as proxy:  # takes connections and closes them, like a load balancer without servers
        metastore = connect(proxy.uri, read_attempts=4)
        with pytest.raises(MetastoreError, match=f"{proxy.uri} did not answer get_table_req.*nothing was changed"):
            metastore.get_table(table.name)
    assert metastore.call_counts() == {"get_table_req": 4}


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


def test_an_answer_that_comes_late_is_taken_after_it_was_told_that_it_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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


def test_a_connection_that_greets_nobody_is_not_reachable(table: Table) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nowhere = f"thrift://127.0.0.1:{closed.getsockname()[1]}"
    with CuttingProxy(nowhere) as proxy:
        metastore = connect(proxy.uri, user="etl")
        with pytest.raises(MetastoreError, match="not reachable") as caught:
            metastore.drop_partition(table, ("1",))
    assert not isinstance(caught.value, LostResponseError)
    assert metastore.call_counts() == {"set_ugi": 1}


@pytest.mark.parametrize("method", CHANGES)
def test_a_stale_connection_is_noticed_before_a_change(
    hive: World, proxy: CuttingProxy, table: Table, method: str
) -> None:
    act, applied = CHANGES[method]
    metastore = connect(proxy.uri)
    metastore.get_table(table.name)
    proxy.disconnect()
    act(hive, metastore, table)
    assert hive.locations(table) == applied
    assert metastore.call_counts() == {"get_table_req": 1, method: 1}


def test_an_idle_connection_is_replaced(hive: World, table: Table) -> None:
    patient = connect(hive.metastore.uri, user="etl")
    hasty = connect(hive.metastore.uri, user="etl", max_idle_seconds=1e-9)
    for metastore in (patient, hasty):
        for _ in range(3):
            metastore.get_table(table.name)
    assert patient.call_counts() == {"set_ugi": 1, "get_table_req": 3}
    assert hasty.call_counts() == {"set_ugi": 3, "get_table_req": 3}


def test_an_address_that_is_down_is_passed_over(hive: World, table: Table) -> None:
    metastore = connect("thrift://127.0.0.1:1", hive.metastore.uri)
    assert metastore.get_table(table.name) == table
    assert metastore.uri == hive.metastore.uri


@pytest.mark.parametrize("cut", CUTS)
def test_a_read_fails_over_to_the_next_address(hive: World, proxy: CuttingProxy, table: Table, cut: Cut) -> None:
    metastore = connect(proxy.uri, hive.metastore.uri, cut=cut)
    proxy.cut_next("get_table_req", cut)
    assert metastore.get_table(table.name) == table
    assert metastore.uri == hive.metastore.uri


def test_a_change_never_fails_over(hive: World, proxy: CuttingProxy, table: Table) -> None:
    metastore = connect(proxy.uri, hive.metastore.uri)
    proxy.cut_next("drop_partition", "before")
    with pytest.raises(LostResponseError):
        metastore.drop_partition(table, ("1",))
    assert hive.locations(table) == {("1",): "old"}


def test_no_metastore_at_all_is_said_with_every_address(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    metastore = connect("thrift://127.0.0.1:1", "thrift://no-such-host.invalid")
    with pytest.raises(MetastoreError, match="not reachable") as caught:
        metastore.drop_partition(table, ("1",))
    for part in ("thrift://127.0.0.1:1", "thrift://no-such-host.invalid:9083", "hive.metastore.uris", str(table.name)):
        assert part in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)
    assert not isinstance(caught.value, LostResponseError)
    assert metastore.call_counts() == {}
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


def test_what_cannot_be_encoded_was_not_sent(hive: World, table: Table) -> None:
    metastore = connect(hive.metastore.uri)
    bad = Partition(values=("2",), location="file:/tmp/x/", parameters={"number": 7})  # type: ignore[dict-item]
    with pytest.raises(MetastoreError, match="could not be sent") as caught:
        metastore.add_partitions(table, [bad])
    assert not isinstance(caught.value, LostResponseError)
    assert list(metastore.get_partition_names(table.name)) == [("1",)]


def test_an_interrupted_answer_is_not_taken_for_the_next_one(hive: World, proxy: CuttingProxy, table: Table) -> None:
    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    metastore = connect(proxy.uri)
    proxy.cut_next("get_partition_names", "silence")
    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            metastore.get_partition_names(table.name)
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert metastore.get_table(table.name) == hive.metastore.get_table(table.name)


class OldMetastore:
    """Knows one call, and no ``set_ugi``."""

    def get_all_tables(self, database: str) -> list[str]:
        raise ttypes.MetaException(f"no {database}\nat a.long.stack.Trace")


def serve_one_framed_connection(listener: socket.socket, handler: object) -> None:
    accepted, _ = listener.accept()
    with accepted, contextlib.suppress(TTransportException):
        end = TSocket()
        end.setHandle(accepted)
        protocol = TBinaryProtocol(TFramedTransport(end))
        processor = ThriftHiveMetastore.Processor(handler)
        while True:
            processor.process(protocol, protocol)


def test_a_framed_metastore_that_knows_no_users_is_spoken_to() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve_one_framed_connection, args=(listener, OldMetastore()), daemon=True)
        server.start()
        metastore = connect(f"thrift://127.0.0.1:{listener.getsockname()[1]}", user="etl", framed=True)
        for _ in range(2):
            with pytest.raises(
                MetastoreError, match=r"refused get_all_tables: MetaException: no mart; .* \[table=mart\.\*\]"
            ):
                list(metastore.get_tables("mart"))
        assert metastore.call_counts() == {"set_ugi": 1, "get_all_tables": 2}
        metastore.close()
        server.join()


def test_a_host_name_that_is_none_is_not_reachable() -> None:
    with pytest.raises(MetastoreError, match="not reachable"):
        list(connect(f"thrift://{'x' * 64}.invalid").get_tables("mart"))


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
