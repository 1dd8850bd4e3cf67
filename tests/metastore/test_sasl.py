"""A login at the metastore: what it answers, what it refuses, and that a handshake is never a call."""

from __future__ import annotations

import copy
import logging
import pickle
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore import ttypes

from table_writer.errors import InvalidInputError, LostResponseError, MetastoreError
from table_writer.metastore import gssapi, sasl
from table_writer.metastore.connection import Connection
from table_writer.metastore.sasl import CHEAPEST_FIRST, DigestMd5, Login, Mechanism, Plain, Token
from table_writer.metastore.settings import Credentials, MetastoreSettings
from table_writer.metastore.wire import LoginError
from tests.metastore.fake_sasl import AFTER_IT, IN_THE_HANDSHAKE, PASSWORD, USER, Cut, FakeMetastore, answering, running

URI = {"hive.metastore.uris": "thrift://h"}
DROP = ("drop_table", "mart", "orders", False)


def connected(
    fake: FakeMetastore, make: Callable[[], Mechanism] = lambda: DigestMd5(USER, PASSWORD), **settings: Any
) -> Connection:
    login = Login("test", lambda _: make())
    return Connection(MetastoreSettings(uris=(fake.uri,), timeout_seconds=60, login=login, **settings))


def test_the_proof_and_rc4_are_those_of_the_standards() -> None:
    login = DigestMd5("chris", "secret", uri="imap/elwood.innosoft.com", cnonce="OA6MHXh6VqTrRk")
    answer = login.answer(
        b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'
    )
    assert b"response=d388dad90d4bbd760a152321f2143af7" in answer  # RFC 2831, 4
    assert not login.is_complete
    login.answer(b"rspauth=ea40f60335c427b5527b84dbabcdfffd")
    assert login.is_complete
    stream = sasl._rc4(bytes([1, 2, 3, 4, 5]))
    assert bytes(next(stream) for _ in range(8)).hex() == "b2396305f03dc027"  # RFC 6229


@pytest.mark.parametrize("qop", ["auth", "auth-int", "auth-conf", "auth-conf,auth-int,auth"])
def test_a_token_is_taken_and_protects_as_the_server_wants(qop: str) -> None:
    with running(FakeMetastore(qop=qop)) as fake:
        connection = connected(fake)
        for _ in range(3):
            assert connection.read("get_all_databases", table="") == ["default", "x" * 100_000]
        connection.change("drop_table", "mart", "o" * 20_000, False, table="mart.orders")
        assert fake.dropped == ["o" * 20_000]
        assert (max(fake.frames) <= 4096) == (qop in ("auth-int", "auth-conf"))
        assert connection.counts() == {"get_all_databases": 3, "drop_table": 1}


def test_the_first_protection_is_taken_that_both_sides_have_set() -> None:
    for wanted, offered, taken in (
        (["auth-conf", "auth-int", "auth"], "auth,auth-int,auth-conf", b"qop=auth-conf"),
        (["auth-int", "auth"], "auth,auth-conf", b"qop=auth"),
    ):
        assert taken in DigestMd5(USER, PASSWORD, wanted).answer(challenge(offered))
    with pytest.raises(LoginError, match=r"rpc\.protection=authentication.*this client takes .*=privacy"):
        DigestMd5(USER, PASSWORD, ["auth-conf"]).answer(challenge("auth"))


def challenge(qop: str) -> bytes:
    return f'realm="default",nonce="n",qop="{qop}",cipher="rc4"'.encode()


@pytest.mark.parametrize(
    ("conf", "taken"),
    [
        ({}, ["auth", "auth-int", "auth-conf"]),
        ({"hadoop.rpc.protection": "privacy, integrity"}, ["auth-conf", "auth-int"]),
        ({"hadoop.rpc.protection": "privacy", "hive.metastore.use.SSL": "true"}, ["auth"]),
    ],
)
def test_messages_are_protected_as_the_client_is_set(conf: dict[str, str], taken: list[str], tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    token = Credentials(token=lambda: Token(b"id", b"secret"))
    settings = MetastoreSettings.from_hadoop({**SASL_ON, **conf}, ca_file=str(tmp_path / "ca.pem"), credentials=token)
    assert settings.login is not None
    for qop in ("auth", "auth-int", "auth-conf"):
        mechanism = settings.login("h")
        assert isinstance(mechanism, DigestMd5)
        if qop in taken:
            assert f"qop={qop}".encode() in mechanism.answer(challenge(qop))
        else:
            with pytest.raises(LoginError, match="make the two settings agree"):
                mechanism.answer(challenge(qop))


def test_what_a_server_quotes_is_quoted_back() -> None:
    answer = DigestMd5(USER, PASSWORD).answer(rb'realm="a\"b\\c",nonce="n",qop="auth"')
    assert rb'realm="a\"b\\c"' in answer


@pytest.mark.parametrize("order", [(1, 0), (0, 0), (0, 2)], ids=["swapped", "repeated", "missing"])
@pytest.mark.parametrize("seals", [False, True])
def test_messages_out_of_order_are_noticed(order: tuple[int, int], seals: bool) -> None:
    def end() -> sasl._Signed:
        return sasl._Signed(b"0" * 16, seals=seals)

    server, client = end(), end()
    server._keys = server._keys[::-1]
    server._streams = server._streams and server._streams[::-1]
    sent = [server.wrap(f"message {number}".encode()) for number in range(3)]
    with pytest.raises(ConnectionError, match="was changed on its way"):
        _ = [client.unwrap(sent[number]) for number in order]


@pytest.mark.parametrize("cut", IN_THE_HANDSHAKE)
def test_a_change_after_a_broken_handshake_was_not_sent(cut: Cut) -> None:
    asked: list[str] = []
    with running(FakeMetastore(cut=cut)) as fake:
        connection = connected(fake)
        with pytest.raises(
            MetastoreError, match=rf"no login at the metastore: {fake.uri}: .*nothing was changed"
        ) as caught:
            connection.change(*DROP, table="mart.orders", before_send=lambda: asked.append("asked"))
        assert not isinstance(caught.value, LostResponseError)
        assert isinstance(caught.value.__cause__, LoginError)
        assert (asked, fake.dropped, connection.counts()) == ([], [], {})
        fake.cut = ""
        connection.change(*DROP, table="mart.orders")
        assert fake.dropped == ["orders"]


@pytest.mark.parametrize("cut", AFTER_IT)
@pytest.mark.parametrize("qop", ["auth", "auth-conf"])
def test_a_change_that_was_sent_and_not_answered_is_unknown(cut: Cut, qop: str) -> None:
    with running(FakeMetastore(cut=cut, qop=qop)) as fake:
        with pytest.raises(LostResponseError):
            connected(fake).change(*DROP, table="mart.orders")
        assert fake.dropped == (["orders"] if cut == "after a call" else [])


def test_a_refused_call_is_refused_over_sasl_too() -> None:
    class Refusing(FakeMetastore):
        def drop_table(self, _database: str, name: str, _deletes: bool) -> None:
            raise ttypes.NoSuchObjectException(name)

    with running(Refusing()) as fake, pytest.raises(MetastoreError, match="refused drop_table: NoSuchObjectException"):
        connected(fake).change(*DROP, table="mart.orders")


def test_what_cannot_be_wrapped_was_not_sent_and_a_changed_message_is_noticed() -> None:
    class Failing(DigestMd5):
        def wrap(self, data: bytes) -> bytes:
            raise LoginError("the context has expired")

    class Deaf(DigestMd5):
        def unwrap(self, data: bytes) -> bytes:
            return super().unwrap(bytes([data[0] ^ 1]) + data[1:])

    with running(FakeMetastore(qop="auth-int")) as fake:
        with pytest.raises(MetastoreError, match=r"could not be sent .* the context has expired") as caught:
            connected(fake, lambda: Failing(USER, PASSWORD)).change(*DROP, table="mart.orders")
        assert not isinstance(caught.value, LostResponseError)
        with pytest.raises(LostResponseError, match="was changed on its way"):
            connected(fake, lambda: Deaf(USER, PASSWORD)).change(*DROP, table="mart.orders")
        assert fake.dropped == ["orders"]


@pytest.mark.parametrize(
    ("fake", "said"),
    [
        (FakeMetastore(password="other"), "token's password is wrong: it is a token of another metastore"),
        (FakeMetastore(refusal="DIGEST-MD5: IO error acquiring password"), "token is expired, cancelled"),
        (FakeMetastore(refusal="no luck"), "no luck; the metastore's log says why"),
        (FakeMetastore(proves=False), "before it had proved who it is"),
        (FakeMetastore(qop="auth-conf", ciphers="3des"), r"privacy\) with cipher=3des.*Maintenance with a Kerb"),
        (FakeMetastore(qop="auth-x"), "wants qop=auth-x"),
        (FakeMetastore(qop="auth-int", max_buffer="many"), "in the handshake of DIGEST-MD5 .*'many'"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_refused_login_says_why(fake: FakeMetastore, said: str) -> None:
    with running(fake), pytest.raises(MetastoreError, match=said) as caught:
        connected(fake).read("get_all_databases", table="")
    assert "not reachable" not in str(caught.value)


def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    login = DigestMd5(USER, PASSWORD)
    login.answer(b'realm="default",nonce="n",qop="auth"')
    with pytest.raises(LoginError, match="not the metastore of this token"):
        login.answer(b"rspauth=00000000000000000000000000000000")


def test_a_password_is_sent_and_a_wrong_one_is_said() -> None:
    with running(FakeMetastore()) as fake:
        connection = connected(fake, lambda: Plain(USER, PASSWORD))
        assert connection.read("get_all_databases", table="")[0] == "default"
        assert fake.plain_login == f"\0{USER}\0{PASSWORD}".encode()
        connection.close()
        fake.password = "another"
        with pytest.raises(MetastoreError, match=f"user {USER} or its password is wrong") as caught:
            connected(fake, lambda: Plain(USER, PASSWORD)).read("get_all_databases", table="")
        assert PASSWORD not in f"{caught.value}{caught.value.__cause__}"


def test_each_connection_gets_fresh_credentials() -> None:
    passwords = iter(["old", PASSWORD])
    with running(FakeMetastore()) as fake:
        connection = connected(fake, lambda: DigestMd5(USER, next(passwords)))
        with pytest.raises(MetastoreError, match="password is wrong"):
            connection.read("get_all_databases", table="")
        assert connection.read("get_all_databases", table="")


def test_the_next_address_is_tried_after_a_refusal_and_none_where_the_reason_lies_at_this_end() -> None:
    asked: list[str] = []

    def ticketless(host: str) -> Mechanism:
        asked.append(host)
        raise LoginError("there is no ticket", everywhere=True)

    with running(FakeMetastore(password="other")) as first, running(FakeMetastore()) as second:
        uris = (first.uri, second.uri)
        with pytest.raises(MetastoreError, match=r"no login at the metastore: .*there is no ticket"):
            Connection(MetastoreSettings(uris=uris, login=Login("test", ticketless))).change(*DROP, table="mart.orders")
        assert len(asked) == 1
        login = Login("test", lambda _: DigestMd5(USER, PASSWORD))
        connection = Connection(MetastoreSettings(uris=uris, login=login))
        assert connection.read("get_all_databases", table="")
        assert connection.uri == second.uri


TLS_ALERT = bytes([21, 3, 3, 0, 2, 2, 80])


@pytest.mark.parametrize(
    ("data", "has_login", "hint"),
    [
        (TLS_ALERT, False, "set hive.metastore.use.SSL=true"),
        (TLS_ALERT, True, "set hive.metastore.use.SSL=true"),
        (b"\4\0\0\0\x13Invalid status -128", False, "set hive.metastore.sasl.enabled=true"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", False, "the port speaks HTTP"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", True, "the port speaks HTTP"),
        (b"\x80\x01\0\3\0\0\0\0", True, "set hive.metastore.sasl.enabled=false"),
        (b"", False, "may want TLS"),
        (b"", True, "if it wants SASL at all"),
        (b"hello there", True, "it does not speak SASL"),
    ],
)
def test_a_port_that_speaks_something_else_is_told_apart(data: bytes, has_login: bool, hint: str) -> None:
    login = Login("test", lambda _: DigestMd5(USER, PASSWORD)) if has_login else None
    with answering(data) as uri, pytest.raises(MetastoreError, match=hint):
        Connection(MetastoreSettings(uris=(uri,), login=login)).read("get_all_databases", table="")


def test_a_server_that_waits_for_more_is_left_in_time() -> None:
    with answering(b"", closes=False) as uri:
        login = Login("test", lambda _: DigestMd5(USER, PASSWORD))
        connection = Connection(MetastoreSettings(uris=(uri,), login=login, login_timeout_seconds=0.3))
        started = time.monotonic()
        with pytest.raises(MetastoreError, match="no answer to the handshake of DIGEST-MD5"):
            connection.change(*DROP, table="mart.orders")
        assert time.monotonic() - started < 10


SASL_ON = {**URI, "hive.metastore.sasl.enabled": "TRUE"}
PLAIN_ON = {**URI, "hive.metastore.client.auth.mode": "plain"}
WITH_USER = {**PLAIN_ON, "hive.metastore.client.plain.username": "loader"}


@pytest.mark.parametrize(
    ("conf", "credentials", "message"),
    [
        (SASL_ON, Credentials(), "needs hive.metastore.kerberos.principal"),
        ({**SASL_ON, "hive.metastore.kerberos.principal": "hive@REALM"}, Credentials(), "is not a service principal"),
        (PLAIN_ON, Credentials(password="p"), "needs hive.metastore.client.plain.username"),
        (WITH_USER, Credentials(), "there is no password of .*=loader"),
        (WITH_USER, Credentials(password="p"), "without TLS would show the password"),
        ({**WITH_USER, "loader": "p"}, Credentials(), "without TLS would show the password"),
    ],
)
def test_a_login_that_lacks_something_is_refused(conf: dict[str, str], credentials: Credentials, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        MetastoreSettings.from_hadoop(conf, credentials=credentials)


@pytest.mark.parametrize(
    ("host", "principal"),
    [
        ("Metastore.Example.com", "hive/metastore.example.com@EXAMPLE.COM"),
        ("127.0.0.1", f"hive/{socket.gethostbyaddr('127.0.0.1')[0].lower()}@EXAMPLE.COM"),
        ("Nobody-knows-it", "hive/nobody-knows-it@EXAMPLE.COM"),
    ],
)
def test_a_principal_takes_the_servers_name(host: str, principal: str) -> None:
    assert gssapi.principal_at("hive/_HOST@EXAMPLE.COM", host) == principal
    assert gssapi.principal_at("hive/other@EXAMPLE.COM", host) == "hive/other@EXAMPLE.COM"


def test_a_machine_without_the_library_is_told_which_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gssapi, "LIBRARIES", ("libnone.so.7",))
    gssapi._library.cache_clear()
    conf = {**SASL_ON, "hive.metastore.kerberos.principal": "hive/_HOST@EXAMPLE.COM"}
    connection = Connection(MetastoreSettings.from_hadoop(conf))
    try:
        with pytest.raises(MetastoreError, match=r"library \(libnone\.so\.7\).*: install libgssapi"):
            connection.change(*DROP, table="mart.orders")
    finally:
        gssapi._library.cache_clear()


def test_settings_make_the_login_that_hives_client_would() -> None:
    token = Credentials(token=lambda: Token(b"id", b"secret"))
    of_token = MetastoreSettings.from_hadoop(
        {**SASL_ON, "hive.metastore.thrift.framed.transport.enabled": "true"}, credentials=token
    )
    assert of_token.login is not None
    assert isinstance(of_token.login("h"), DigestMd5)
    assert (of_token.user, of_token.framed) == ("", False)
    in_clear = Credentials(password="secret", password_in_clear=True)
    of_password = MetastoreSettings.from_hadoop({**WITH_USER, **SASL_ON}, credentials=in_clear)
    assert of_password.login is not None
    assert of_password.login("h").answer(b"") == b"\0loader\0secret"
    assert MetastoreSettings.from_hadoop(URI, credentials=token).login is None


def test_no_login_is_shown_pickled_or_copied(caplog: pytest.LogCaptureFixture) -> None:
    secret = "madeUpTokenPassword"
    token = Token(secret.encode(), secret.encode())
    credentials = Credentials(token=lambda: token, password=secret, password_in_clear=True)
    texts = [repr(token), repr(credentials), f"{token}"]
    with caplog.at_level(logging.DEBUG), running(FakeMetastore()) as fake:
        for conf in (SASL_ON, WITH_USER):
            settings = MetastoreSettings.from_hadoop({**conf, "hive.metastore.uris": fake.uri}, credentials=credentials)
            texts += [repr(settings), repr(settings.login), str(settings)]
            with pytest.raises(MetastoreError) as caught:
                Connection(settings).read("get_all_databases", table="")
            texts += [str(caught.value), repr(caught.value), repr(caught.value.__cause__)]
            for unsafe in (settings, settings.login, token):
                with pytest.raises(TypeError, match="not pickled"):
                    pickle.dumps(unsafe)
                with pytest.raises(TypeError, match="not pickled"):
                    copy.deepcopy(unsafe)
    assert secret not in "\n".join([*texts, caplog.text])
    assert DigestMd5.of_token(token, CHEAPEST_FIRST)._password not in "\n".join([*texts, caplog.text])
