"""Where Hive 4 lets an unpartitioned table move, as is said before a write; and the passwords that it takes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from table_writer.errors import MetastoreError
from table_writer.metastore.connection import Connection
from table_writer.metastore.hive import HiveMetastore
from table_writer.metastore.settings import Credentials, MetastoreSettings
from table_writer.model.table import PartitionChange, TableName
from table_writer.testing import MetastoreServer
from tests.metastore.conftest import World, hive_world, thrift_table
from tests.metastore.test_hive import PASSWORD, make_key

pytestmark = pytest.mark.needs("hive")
EXTERNAL = {"metastore.warehouse.external.dir": "file:/elsewhere"}
SETTINGS = {
    "external.dir is not set": {},
    "external.dir is set": EXTERNAL,
    "no transformer": {**EXTERNAL, "metastore.metadata.transformer.class": " "},
}


class Server(NamedTuple):
    uri: str
    warehouse: Path
    is_strict: bool  # Hive 4 keeps external tables out of its warehouse


@pytest.fixture(scope="module", params=SETTINGS)
def server(
    request: pytest.FixtureRequest, hive_version: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    warehouse = tmp_path_factory.mktemp("managed")
    settings, is_strict = SETTINGS[request.param], request.param == "external.dir is set"
    with MetastoreServer(hive=hive_version, warehouse=warehouse.as_uri(), settings=settings) as started:
        yield Server(started.uri, warehouse, is_strict and hive_version.startswith("4."))


@pytest.mark.parametrize("kind", ["MANAGED_TABLE", "EXTERNAL_TABLE"])
@pytest.mark.parametrize("inside", [True, False], ids=["in the warehouse", "elsewhere"])
def test_the_server_refuses_only_what_is_immovable(server: Server, kind: str, inside: bool, tmp_path: Path) -> None:
    world = hive_world(server.uri, server.warehouse if inside else tmp_path)
    refuses = server.is_strict and inside
    if refuses and kind == "EXTERNAL_TABLE":
        with pytest.raises(MetastoreError, match="managed warehouse"):  # it cannot even be made
            world.table((), kind=kind)
        return
    table = world.table((), kind=kind, parameters={"EXTERNAL": "TRUE"} if kind == "EXTERNAL_TABLE" else {})
    said = world.metastore.why_immovable(table)
    assert ("keeps external tables out of its managed warehouse" in said) is refuses
    whole = world.metastore.get_partitions(table, [()])[()]
    move = PartitionChange(
        partition=whole, location=f"{table.root}_table_writer/data/w/", set_parameters={"moved": "yes"}
    )
    if refuses:
        with pytest.raises(MetastoreError, match="managed warehouse"):
            world.metastore.alter_partitions(table, [move])
    else:
        assert not said
        world.metastore.alter_partitions(table, [move])
    after = world.metastore.get_table(TableName("default", table.name.name))
    assert after is not None
    assert (after.parameters.get("moved") == "yes") is not refuses


def tls_settings(directory: Path) -> tuple[dict[str, str], Path]:
    """Return what the server is to be told, and what a client trusts."""
    keystore, certificate = make_key(directory, "metastore")
    return {
        "hive.metastore.use.SSL": "true",
        "hive.metastore.keystore.path": str(keystore),
        "hive.metastore.keystore.password": PASSWORD,
        "hive.metastore.keystore.type": "PKCS12",  # Jetty, for HTTP, guesses neither
        "hive.metastore.keymanagerfactory.algorithm": "SunX509",
    }, certificate


PASSWORD_SETTINGS = {
    "metastore.execute.setugi": "false",
    "metastore.authentication": "CONFIG",
    "metastore.authentication.config.username": "loader",
    "metastore.authentication.config.password": "hush",
}


@pytest.mark.parametrize("has_tls", [True, False], ids=["TLS", "in clear"])
def test_a_password_is_taken_and_a_wrong_one_is_said(hive_version: Any, tmp_path: Path, has_tls: bool) -> None:
    tls, certificate = tls_settings(tmp_path)
    with MetastoreServer(hive=hive_version, settings=PASSWORD_SETTINGS | (tls if has_tls else {})) as server:
        conf = {
            "hive.metastore.uris": server.uri,
            "hive.metastore.client.auth.mode": "PLAIN",
            "hive.metastore.client.plain.username": "loader",
            "hive.metastore.use.SSL": str(has_tls),
        }

        def databases(password: str) -> Any:
            credentials = Credentials(password=password, password_in_clear=not has_tls)
            settings = MetastoreSettings.from_hadoop(conf, ca_file=str(certificate), credentials=credentials)
            return Connection(settings).read("get_all_databases", table="")

        assert databases("hush") == ["default"]
        with pytest.raises(MetastoreError, match="user loader or its password is wrong"):
            databases("no")
        plain = MetastoreSettings(uris=(server.uri,), timeout_seconds=20)
        meant = r"hive\.metastore\.use\.SSL=true" if has_tls else r"hive\.metastore\.sasl\.enabled=true"
        with pytest.raises(MetastoreError, match=meant) as caught:
            Connection(plain).read("get_all_databases", table="")
        print(caught.value)
        if not has_tls:
            with pytest.raises(MetastoreError, match="the port may not speak TLS") as caught:
                tls_client = replace(plain, tls=True, ca_file=str(certificate), connect_timeout_seconds=5)
                Connection(tls_client).read("get_all_databases", table="")
            print(caught.value)


@pytest.mark.parametrize(("mode", "has_tls"), [("NONE", False), ("JWT", False), ("JWT", True)])
def test_thrift_over_http_is_spoken_and_a_wrong_token_turned_away(
    hive_version: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, has_tls: bool
) -> None:
    key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": [key.as_dict(private=False)]}))
    server_settings = {
        "metastore.execute.setugi": "false",
        "metastore.server.thrift.transport.mode": "http",
        "hive.metastore.server.thrift.transport.mode": "http",
        "metastore.authentication": mode,
        "metastore.authentication.jwt.jwks.url": (tmp_path / "jwks.json").as_uri(),
    }

    def jwt_until(seconds: int) -> str:
        return str(jwt.encode({"alg": "RS256", "kid": "one"}, {"sub": "etl", "exp": int(time.time()) + seconds}, key))

    tls, certificate = tls_settings(tmp_path)
    with MetastoreServer(hive=hive_version, settings=server_settings | (tls if has_tls else {})) as server:
        conf = {
            "hive.metastore.uris": server.uri,
            "hive.metastore.client.thrift.transport.mode": "http",
            "hive.metastore.client.auth.mode": mode,
            "hive.metastore.use.SSL": str(has_tls),
        }
        credentials = Credentials(password_in_clear=not has_tls)
        settings = MetastoreSettings.from_hadoop(conf, ca_file=str(certificate), credentials=credentials)
        monkeypatch.setenv("HMS_JWT", jwt_until(600))
        backdoor = Connection(settings)
        world = World(
            HiveMetastore(settings),
            f"file:{tmp_path}",
            lambda table: backdoor.change("create_table", thrift_table(table), table=str(table.name)),
        )
        table = world.table()
        world.metastore.add_partitions(table, [world.partition(str(number)) for number in range(200)])
        assert len(world.locations(table)) == 200
        if mode == "JWT":
            for wrong in (jwt_until(600)[:-8] + "AAAAAAAA", jwt_until(-600)):
                monkeypatch.setenv("HMS_JWT", wrong)
                with pytest.raises(MetastoreError, match=r"HTTP status 401.*the token \(HMS_JWT\) is expired"):
                    Connection(settings).change("drop_table", "default", table.name.name, False, table="")
        meant = r"set hive\.metastore\.use\.SSL=true" if has_tls else r"transport\.mode=http"
        with pytest.raises(MetastoreError, match=meant):
            Connection(MetastoreSettings(uris=(server.uri,), timeout_seconds=20)).read("get_all_databases", table="")
