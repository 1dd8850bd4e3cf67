"""Settings say at construction what cannot work."""

from __future__ import annotations

import pytest

from table_writer.errors import InvalidInputError
from table_writer.metastore.settings import MetastoreSettings

URIS = "hive.metastore.uris"


@pytest.mark.parametrize(
    ("text", "uris"),
    [
        ("thrift://h1:9083,thrift://h2:9084", ("thrift://h1:9083", "thrift://h2:9084")),
        (" thrift://h1 , \n thrift://h2:1 ", ("thrift://h1:9083", "thrift://h2:1")),
        ("thrift://user:secret@h1/", ("thrift://h1:9083",)),
        ("thrift://[::1]:7", ("thrift://[::1]:7",)),
    ],
)
def test_addresses_are_read_as_hive_reads_them(text: str, uris: tuple[str, ...]) -> None:
    assert MetastoreSettings.from_hadoop({URIS: text}).uris == uris


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("600", 600),
        ("600s", 600),
        ("10m", 600),
        ("1h", 3600),
        ("1 day", 86_400),
        ("500ms", 0.5),
        ("2000L", 2),
        ("", 60),
    ],
)
def test_durations_are_read_as_hive_reads_them(text: str, seconds: float) -> None:
    conf = {URIS: "thrift://h", "hive.metastore.client.socket.timeout": text}
    assert MetastoreSettings.from_hadoop(conf).timeout_seconds == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        ({}, "set hive.metastore.uris"),
        ({URIS: " , "}, "set hive.metastore.uris"),
        ({URIS: "h1:9083"}, "expected thrift://host:9083"),
        ({URIS: "http://h1/"}, "expected thrift://host:9083"),
        ({URIS: "thrift://h1:port"}, "expected thrift://host:9083"),
        ({"hive.metastore.client.socket.timeout": "soon"}, "is not a duration"),
        ({"hive.metastore.client.socket.timeout": "0"}, "must be greater than 0"),
        (
            {"hive.metastore.client.thrift.transport.mode": "http", "hive.metastore.client.auth.mode": "JWT"},
            "without TLS would show the token",
        ),
        (
            {"hive.metastore.sasl.enabled": "true", "hadoop.rpc.protection": "secret"},
            "rpc.protection='secret': expected",
        ),
        ({"metastore.sasl.enabled": "True"}, "needs hive.metastore.kerberos.principal"),
        ({"hive.metastore.client.auth.mode": "PLAIN"}, "needs hive.metastore.client.plain.username"),
        ({"hive.metastore.thrift.compact.protocol.enabled": "true"}, "compact protocol"),
        ({"hive.metastore.service.discovery.mode": "zookeeper"}, "ZooKeeper"),
        ({"hive.metastore.use.SSL": "true"}, "ca_file"),
    ],
    ids=str,
)
def test_a_setting_that_cannot_work_is_refused_by_name(conf: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        MetastoreSettings.from_hadoop({URIS: "thrift://h", **conf} if conf else conf)


def test_a_user_is_sent_unless_the_settings_say_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "etl")
    assert MetastoreSettings.from_hadoop({URIS: "thrift://h"}).user == "etl"
    assert MetastoreSettings.from_hadoop({URIS: "thrift://h", "hive.metastore.execute.setugi": "false"}).user == ""


def test_addresses_are_shuffled_unless_the_settings_say_sequential() -> None:
    conf = {URIS: "thrift://h"}
    assert MetastoreSettings.from_hadoop(conf).shuffle_uris
    assert not MetastoreSettings.from_hadoop({**conf, "hive.metastore.uri.selection": "SEQUENTIAL"}).shuffle_uris


def test_one_address_as_text_is_refused_with_the_right_spelling() -> None:
    with pytest.raises(InvalidInputError, match=r"uris=\('thrift://h',\)"):
        MetastoreSettings(uris="thrift://h")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="partition_batch"):
        MetastoreSettings(uris=("thrift://h",), partition_batch=0)
