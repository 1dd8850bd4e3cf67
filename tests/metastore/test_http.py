"""Thrift over HTTP: what a status says of a call, and what it does not."""

from __future__ import annotations

import copy
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TMemoryBuffer

from table_writer.errors import LostResponseError, MetastoreError
from table_writer.metastore.connection import Connection
from table_writer.metastore.settings import Credentials, MetastoreSettings
from tests.bare_server import BareServer, http, read_request
from tests.metastore.fake_sasl import answering

DROP = ("drop_table", "mart", "orders", False)
TOKEN = "madeUp.Jwt.Token"


@dataclass
class FakeHttp:
    """Carries calls out, unless ``fault`` says otherwise; ``heard`` are the headers of each request."""

    fault: str | int = ""
    uri: str = ""
    dropped: list[str] = field(default_factory=list)
    heard: list[dict[str, str]] = field(default_factory=list)
    ports: set[int] = field(default_factory=set)

    def drop_table(self, _database: str, name: str, _deletes: bool) -> None:
        if name == "nowhere":
            raise ttypes.NoSuchObjectException(name)
        self.dropped.append(name)

    def get_all_databases(self) -> list[str]:
        return ["default", "x" * 100_000]

    def converse(self, end: socket.socket) -> tuple[str, bytes] | None:
        request = read_request(end)
        if request is None:
            return None
        self.heard.append({"path": request.path, **request.headers})
        self.ports.add(end.getpeername()[1])
        if self.fault == "before":
            return None
        if isinstance(self.fault, int):
            said = request.headers.get("authorization", "nobody")
            return "", http(self.fault, f"<html>a reason\nof\ttwo lines for {said}\33[1m</html>".encode())
        out = TMemoryBuffer()
        ThriftHiveMetastore.Processor(self).process(TBinaryProtocol(TMemoryBuffer(request.body)), TBinaryProtocol(out))
        if self.fault == "":
            return "", http(200, out.getvalue())
        answer = http(200, out.getvalue(), {"Connection": "close"} if self.fault == "close" else {})
        end.sendall(answer[: {"after": 0, "half": -5}.get(str(self.fault))])  # half: of its body
        return None


@contextmanager
def running(fake: FakeHttp) -> Iterator[FakeHttp]:
    with BareServer(fake.converse) as server:
        fake.uri = f"thrift://127.0.0.1:{server.port}"
        yield fake


def settings_of(fake: FakeHttp, **more: str) -> MetastoreSettings:
    conf = {"hive.metastore.uris": fake.uri, "hive.metastore.client.thrift.transport.mode": "HTTP", **more}
    return MetastoreSettings.from_hadoop(conf, credentials=Credentials(password_in_clear=True))


def connected(fake: FakeHttp, **more: str) -> Connection:
    return Connection(settings_of(fake, **more))


def test_calls_share_a_connection_and_say_who_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "etl")
    with running(FakeHttp()) as fake:
        connection = connected(fake, **{"hive.metastore.client.thrift.http.path": "/hms"})
        for _ in range(3):
            assert connection.read("get_all_databases", table="") == ["default", "x" * 100_000]
        connection.change(*DROP, table="mart.orders")
        assert connection.counts() == {"get_all_databases": 3, "drop_table": 1}
        with pytest.raises(MetastoreError, match="refused drop_table: NoSuchObjectException"):
            connection.change("drop_table", "mart", "nowhere", False, table="mart.nowhere")
    assert fake.dropped == ["orders"]
    assert {(one["path"], one["x-actor-username"]) for one in fake.heard} == {("/hms", "etl")}
    assert len(fake.ports) == 1


def test_a_server_that_closes_each_connection_is_called_on_new_ones() -> None:
    with running(FakeHttp(fault="close")) as fake:
        connection = connected(fake)
        connection.change(*DROP, table="mart.orders")
        connection.change(*DROP, table="mart.orders")
    assert (fake.dropped, len(fake.ports)) == (["orders", "orders"], 2)


@pytest.mark.parametrize("status", [401, 404, 429])
def test_a_request_that_was_turned_away_was_not_sent(status: int) -> None:
    with running(FakeHttp(fault=status)) as fake:
        with pytest.raises(MetastoreError, match=f"HTTP status {status} .*nothing was changed") as caught:
            connected(fake).change(*DROP, table="mart.orders")
        assert not isinstance(caught.value, LostResponseError)
        assert "\n" not in str(caught.value)
        assert (fake.dropped, len(fake.heard)) == ([], 1)


@pytest.mark.parametrize("fault", [500, 502, 503, 504, 400, 403, 408, 302, "before", "after", "half"])
def test_a_change_without_an_answer_is_unknown_and_sent_once(fault: str | int) -> None:
    with running(FakeHttp(fault=fault)) as fake:
        connection = connected(fake)
        with pytest.raises(LostResponseError):
            connection.change(*DROP, table="mart.orders")
        assert len(fake.heard) == 1
        assert fake.dropped == (["orders"] if fault in ("after", "half") else [])
        fake.fault = ""
        assert connection.read("get_all_databases", table="")[0] == "default"


@pytest.mark.parametrize(
    ("status", "said", "times"),
    [
        (401, "turned get_all_databases away: HTTP status 401", 1),
        (503, "did not answer get_all_databases: HTTP status 503", 3),
    ],
)
def test_a_read_is_sent_again_but_if_it_was_turned_away(status: int, said: str, times: int) -> None:
    with running(FakeHttp(fault=status)) as fake:
        with pytest.raises(MetastoreError, match=said):
            connected(fake).read("get_all_databases", table="")
        assert len(fake.heard) == times


def test_each_call_takes_the_token_of_its_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(FakeHttp()) as fake:
        connection = connected(fake, **{"metastore.client.auth.mode": "JWT"})
        for token in ("first", "second"):
            monkeypatch.setenv("HMS_JWT", token)
            connection.read("get_all_databases", table="")
    assert [one["authorization"] for one in fake.heard] == ["Bearer first", "Bearer second"]
    assert len(fake.ports) == 1


def test_a_request_says_what_hives_client_says() -> None:
    named = {
        "hive.metastore.client.auth.mode": "PLAIN",
        "hive.metastore.client.plain.username": "loader",
        "hive.metastore.client.http.additional.headers": "X-Tenant = blue, X-Key=a=b",
    }
    with running(FakeHttp()) as fake:
        connected(fake, **named).read("get_all_databases", table="")
    (heard,) = fake.heard
    assert (heard["x-actor-username"], heard["x-tenant"], heard["x-key"]) == ("loader", "blue", "a=b")
    assert heard["host"] == fake.uri.removeprefix("thrift://")


@pytest.mark.parametrize(
    ("spoken", "hint"),
    [
        (bytes([21, 3, 3, 0, 2, 2, 80]), "does not speak HTTP: the port speaks TLS"),
        (b"\4\0\0\0\x13Invalid status -128", "does not speak HTTP: the port wants a login by SASL"),
        (b"\x80\x01\0\3\0\0\0\0", "does not speak HTTP: the port speaks Thrift without"),
        (b"hello", "the port does not speak HTTP"),
        (b"", "Remote end closed connection without response"),
    ],
)
def test_a_port_that_does_not_speak_http_is_told_apart(spoken: bytes, hint: str) -> None:
    with answering(spoken) as uri, pytest.raises(MetastoreError, match=hint) as caught:
        connected(FakeHttp(uri=uri)).read("get_all_databases", table="")
    assert "\\x" not in str(caught.value)


def test_a_token_is_taken_from_where_hives_client_takes_it_and_never_shown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    jwt = {"hive.metastore.client.auth.mode": "jwt"}
    with caplog.at_level(logging.DEBUG), running(FakeHttp()) as fake:
        monkeypatch.delenv("HMS_JWT", raising=False)
        connection = connected(fake, **jwt)
        with pytest.raises(MetastoreError, match="the variable HMS_JWT holds no token"):
            connection.read("get_all_databases", table="")
        monkeypatch.setenv("HMS_JWT", TOKEN + "\r\nX-Other: 1")
        with pytest.raises(MetastoreError, match="the variable HMS_JWT holds no token"):
            connection.read("get_all_databases", table="")
        monkeypatch.setenv("HMS_JWT", f"{TOKEN}\n")
        assert connection.read("get_all_databases", table="")[0] == "default"
        assert fake.heard[-1]["authorization"] == f"Bearer {TOKEN}"
        assert "x-actor-username" not in fake.heard[-1]
        fake.fault = 401
        with pytest.raises(MetastoreError, match=r"the token \(HMS_JWT\) is expired") as caught:
            connection.change(*DROP, table="mart.orders")
        settings = settings_of(fake, **jwt)
        assert settings.login is not None
        assert "for *** ***" in str(caught.value)
        shown = [repr(settings), repr(settings.login), repr(settings.login("h")), str(caught.value), caplog.text]
        with pytest.raises(TypeError, match="not pickled"):
            copy.deepcopy(settings)
    assert TOKEN not in "".join(shown)
