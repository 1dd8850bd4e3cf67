"""A real KDC, real metastores that ask who calls, and the system's own Kerberos library."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from table_writer.cli.main import main
from table_writer.errors import MetastoreError
from table_writer.metastore.connection import Connection
from table_writer.metastore.hive import HiveMetastore
from table_writer.metastore.sasl import Token
from table_writer.metastore.settings import Credentials, MetastoreSettings
from table_writer.testing import MetastoreServer
from tests.metastore.conftest import World, thrift_table
from tests.metastore.kdc import OTHER_SERVICE, REALM, SERVICE, USER, Kdc
from tests.metastore.test_contract import change

pytestmark = pytest.mark.needs("kerberos")
SASL = {"hive.metastore.sasl.enabled": "true", "hive.metastore.execute.setugi": "false"}
AT_ANY_HOST = f"metastore/_HOST@{REALM}"
TOKEN_LIFE_SECONDS = 8


@pytest.fixture(scope="module")
def kdc() -> Iterator[Kdc]:
    with Kdc() as kdc:
        yield kdc


@pytest.fixture(autouse=True)
def environment(kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the library its KDC, a keytab, and a cache of tickets of this test's own."""
    monkeypatch.setenv("KRB5_CONFIG", str(kdc.configuration))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'tickets'}")
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(kdc.keytab(USER)))


@dataclass(frozen=True)
class Guarded:
    """A metastore that lets in who has a ticket or a token, and protects messages in one way."""

    server: MetastoreServer
    protection: str

    def settings(self, principal: str = AT_ANY_HOST, wanted: str = "", **credentials: Any) -> MetastoreSettings:
        conf = {**SASL, "hive.metastore.uris": self.server.uri, "hive.metastore.kerberos.principal": principal}
        conf |= {"hadoop.rpc.protection": wanted} if wanted else {}
        return MetastoreSettings.from_hadoop(conf, credentials=Credentials(**credentials))

    def token(self) -> tuple[str, Token]:
        text = Connection(self.settings()).read("get_delegation_token", USER, USER, table="")
        return text, decoded(text)


def guarded(kdc: Kdc, protection: str, **settings: str) -> MetastoreServer:
    server = MetastoreServer(
        settings={
            **SASL,
            "hive.metastore.kerberos.keytab.file": str(kdc.keytab(SERVICE)),
            "hive.metastore.kerberos.principal": SERVICE,
            "hadoop.security.authentication": "kerberos",
            "hadoop.rpc.protection": protection,
            **settings,
        }
    )
    server.java_options = kdc.java_options
    return server


@pytest.fixture(scope="module", params=["authentication", "integrity", "privacy"])
def metastore(request: pytest.FixtureRequest, kdc: Kdc) -> Iterator[Guarded]:
    life = {"hive.cluster.delegation.token.renew-interval": f"{TOKEN_LIFE_SECONDS * 1000}"}
    with guarded(kdc, request.param, **life) as server:
        yield Guarded(server, request.param)


def decoded(text: str) -> Token:
    """Read a token as Hadoop prints it: identifier, password, kind and service, each with its length."""
    data, parts = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), []
    for _ in range(2):
        first = int.from_bytes(data[:1], signed=True)
        size = 0 if first >= -112 else -(first + 112)
        length = first if first >= -112 else int.from_bytes(data[1 : 1 + size])
        parts.append(data[1 + size : 1 + size + length])
        data = data[1 + size + length :]
    return Token(*parts)


def works(settings: MetastoreSettings) -> bool:
    return Connection(settings).read("get_all_databases", table="") == ["default"]


def test_a_keytab_is_enough_for_all_that_the_gateway_does(metastore: Guarded, tmp_path: Path) -> None:
    hive = HiveMetastore(metastore.settings())
    backdoor = Connection(metastore.settings())
    world = World(
        hive,
        f"file:{tmp_path}",
        lambda table: backdoor.change("create_table", thrift_table(table), table=str(table.name)),
    )
    table = world.table()
    hive.add_partitions(table, [world.partition(str(number)) for number in range(500)])  # more than one message holds
    hive.alter_partitions(table, [change(world.read(table, "7"), "b")])
    assert world.locations(table)["7",] == "b"
    assert hive.call_counts()["add_partitions_req"] == 1


def test_a_ticket_of_kinit_is_enough(kdc: Kdc, metastore: Guarded, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("KRB5_CLIENT_KTNAME")
    kdc.kinit(tmp_path / "tickets")
    assert works(metastore.settings(SERVICE))


def test_a_token_is_enough_until_it_expires(metastore: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = [metastore.token()]
    settings = metastore.settings(token=lambda: tokens[-1][1])
    with monkeypatch.context() as without:
        without.delenv("KRB5_CLIENT_KTNAME")
        without.setenv("KRB5CCNAME", "FILE:/nonexistent")
        assert works(settings)
    time.sleep(TOKEN_LIFE_SECONDS + 1)
    with pytest.raises(MetastoreError, match="the delegation token is expired, cancelled or of another metastore"):
        works(settings)
    tokens.append(metastore.token())  # Hive 2.3 renews none: it compares a renewer's short name with a whole principal
    assert works(settings)
    Connection(metastore.settings()).change("cancel_delegation_token", tokens[-1][0], table="")
    with pytest.raises(MetastoreError, match="the delegation token is expired, cancelled or of another metastore"):
        works(settings)


@pytest.mark.parametrize("by", ["ticket", "token"])
def test_messages_are_protected_as_both_sides_are_set_or_not_at_all(metastore: Guarded, by: str) -> None:
    credentials = {"token": lambda: metastore.token()[1]} if by == "token" else {}
    assert works(metastore.settings(wanted=metastore.protection, **credentials))
    other = "privacy" if metastore.protection != "privacy" else "integrity"
    with pytest.raises(MetastoreError, match="make the two settings agree"):
        works(metastore.settings(wanted=other, **credentials))


def test_a_token_with_another_password_is_refused(metastore: Guarded) -> None:
    _, token = metastore.token()
    with pytest.raises(MetastoreError, match="the delegation token's password is wrong"):
        works(metastore.settings(token=lambda: Token(token.identifier, b"other")))


@dataclass(frozen=True)
class Trouble:
    """Ways in which a ticket is not to be had."""

    kdc: Kdc
    directory: Path
    monkeypatch: pytest.MonkeyPatch

    def none(self) -> None:
        """Change nothing: it lies with the principal."""

    def no_ticket(self) -> None:
        self.monkeypatch.delenv("KRB5_CLIENT_KTNAME")

    def expired_ticket(self) -> None:
        self.no_ticket()
        self.kdc.kinit(self.directory / "tickets", "-l", "1s")
        time.sleep(2.1)

    def no_such_keytab(self) -> None:
        self.monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(self.directory / "none"))

    def no_kdc(self) -> None:
        away = self.directory / "krb5.conf"
        away.write_text(self.kdc.configuration.read_text().replace(str(self.kdc.port), "1"))
        self.monkeypatch.setenv("KRB5_CONFIG", str(away))

    def user_that_is_gone(self) -> None:
        self._keytab_of("gone", "delprinc -force gone")

    def user_that_has_expired(self) -> None:
        self._keytab_of("past", "modprinc -expire 2020-01-01 past")

    def old_key(self) -> None:
        self._keytab_of("moved", "cpw -randkey moved")

    def _keytab_of(self, name: str, change: str) -> None:
        for query in (f"addprinc -randkey {name}", f"ktadd -k {self.directory / name} {name}", change):
            self.kdc.admin(query)
        self.monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(self.directory / name))


@pytest.mark.parametrize(
    ("trouble", "principal", "said"),
    [
        ("no_ticket", SERVICE, "there is no ticket: run kinit"),
        ("expired_ticket", SERVICE, "renew the ticket"),
        ("no_such_keytab", SERVICE, "there is no ticket: run kinit"),
        ("no_kdc", SERVICE, "no KDC answers"),
        ("user_that_is_gone", SERVICE, "the KDC does not know the user"),
        ("user_that_has_expired", SERVICE, "ask the administrator of the KDC"),
        ("old_key", SERVICE, "the keytab's key is not the user's"),
        ("none", f"nobody/localhost@{REALM}", "hive.metastore.kerberos.principal is not the metastore's"),
        ("none", OTHER_SERVICE, "does not take the ticket for other/localhost"),
        ("none", "metastore/localhost@ELSEWHERE.TEST", "does not know the realm"),
    ],
)
@pytest.mark.parametrize("metastore", ["authentication"], indirect=True)
def test_a_ticket_that_is_none_is_said_within_seconds(
    kdc: Kdc,
    metastore: Guarded,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trouble: str,
    principal: str,
    said: str,
) -> None:
    getattr(Trouble(kdc, tmp_path, monkeypatch), trouble)()
    started = time.monotonic()
    with pytest.raises(MetastoreError, match=f"(?s){said}.*nothing was changed"):
        works(metastore.settings(principal))
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("metastore", ["authentication"], indirect=True)
def test_a_clock_that_is_wrong_is_said(kdc: Kdc, metastore: Guarded) -> None:
    program = (
        "from table_writer import Maintenance, TableWriterConfig\n"
        f"conf = {{'hive.metastore.sasl.enabled': 'true', 'hive.metastore.kerberos.principal': {SERVICE!r}}}\n"
        f"Maintenance({metastore.server.uri!r}, config=TableWriterConfig(hadoop=conf)).history('default.t')\n"
    )
    environment = {**os.environ, "LD_PRELOAD": str(kdc.faketime), "FAKETIME": "+2h", "DONT_FAKE_MONOTONIC": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert "clock" in ended.stderr.strip().splitlines()[-1], ended.stderr


@pytest.mark.parametrize("metastore", ["privacy"], indirect=True)
def test_the_command_line_logs_in_by_hadoops_files(metastore: Guarded, tmp_path: Path, capsys: Any) -> None:
    where = {"hive.metastore.uris": metastore.server.uri, "hive.metastore.kerberos.principal": AT_ANY_HOST}
    site(tmp_path, {**SASL, **where})
    assert main(["history", "default.nothing", "--conf-dir", str(tmp_path)]) == 2
    assert "there is no table default.nothing" in capsys.readouterr().err


@pytest.mark.parametrize("metastore", ["authentication"], indirect=True)
def test_who_does_not_log_in_is_told_which_setting_to_set(metastore: Guarded) -> None:
    with pytest.raises(MetastoreError, match=r"set hive\.metastore\.sasl\.enabled=true"):
        works(MetastoreSettings(uris=(metastore.server.uri,)))


def token_file(path: Path, text: str, service: bytes = b"") -> None:
    """Write what YARN gives a container: Hadoop's file of tokens, here with one, for a service."""
    token = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    assert token.endswith(b"\0"), "a token of the metastore has no service of its own"
    alias = b"hive.server2.delegation.token"
    token = token[:-1] + bytes([len(service)]) + service
    path.write_bytes(b"HDTS\0" + bytes([1, len(alias)]) + alias + token + b"\0")
    path.chmod(0o600)


def site(directory: Path, properties: Mapping[str, str]) -> None:
    lines = [f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items()]
    (directory / "core-site.xml").write_text("\n".join(["<configuration>", *lines, "</configuration>"]))


@dataclass(frozen=True)
class Job:
    """Runs a Spark job in a process of its own, as a cluster would, without the keytab of this test."""

    kdc: Kdc
    cluster: Guarded
    directory: Path

    def run(self, settings: Mapping[str, str], hadoop: Mapping[str, str], **environment: str) -> dict[str, Any]:
        of_cluster = {
            **SASL,
            "hadoop.security.authentication": "kerberos",
            "hadoop.rpc.protection": self.cluster.protection,
            "hive.metastore.uris": self.cluster.server.uri,
            "hive.metastore.kerberos.principal": SERVICE,  # Java takes the address for the host's name
            "hive.exec.scratchdir": str(self.directory / "hive"),
        }
        site(self.directory, {**of_cluster, **hadoop})
        options = f"{self.kdc.java_options[0]} -Djava.io.tmpdir={self.directory} -Dderby.system.home={self.directory}"
        spark = {
            "spark.driver.extraJavaOptions": options,
            "spark.sql.warehouse.dir": (self.directory / "warehouse").as_uri(),
            "spark.local.dir": str(self.directory),
            "spark.ui.enabled": "false",
            **settings,
        }
        command = [sys.executable, "-m", "tests.metastore.spark_job", str(self.directory), json.dumps(spark), "{}"]
        inherited = {name: value for name, value in os.environ.items() if name != "KRB5_CLIENT_KTNAME"}
        spark_variables = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        ended = subprocess.run(
            command,
            env={**inherited, "HADOOP_CONF_DIR": str(self.directory), **spark_variables, **environment},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        (self.directory / "output.log").write_text(ended.stdout + ended.stderr)
        assert ended.returncode == 0, ended.stderr
        said: dict[str, Any] = json.loads((self.directory / "said.json").read_text())
        return said

    def texts(self) -> str:
        """Return all that the job has said and logged."""
        return "\n".join((self.directory / name).read_text() for name in ("said.json", "python.log", "output.log"))


@pytest.fixture(scope="module", params=["authentication", "privacy"])
def cluster(request: pytest.FixtureRequest, kdc: Kdc) -> Iterator[Guarded]:
    with guarded(kdc, request.param) as server:
        yield Guarded(server, request.param)


ROWS = [[1, "a"], [2, "b"], [2, "b"]]


@pytest.fixture
def job(kdc: Kdc, cluster: Guarded, tmp_path: Path) -> Iterator[Job]:
    yield Job(kdc, cluster, tmp_path)
    with suppress(MetastoreError):  # no job has made it
        Connection(cluster.settings()).change("drop_table", "default", "orders", False, table="default.orders")


@pytest.mark.parametrize("signature", ["", "lake"])
def test_a_job_with_nothing_but_a_token_file_writes(job: Job, tmp_path: Path, signature: str) -> None:
    text, token = job.cluster.token()
    token_file(tmp_path / "tokens", text, signature.encode())
    signed = {"hive.metastore.token.signature": signature} if signature else {}
    said = job.run({}, signed, HADOOP_TOKEN_FILE_LOCATION=str(tmp_path / "tokens"))
    assert said.get("rows") == ROWS, said
    for secret in (token.password, token.identifier):
        for spelled in (base64.b64encode(secret).decode().rstrip("="), secret.hex(), repr(secret)[2:-1]):
            assert spelled not in job.texts()


@pytest.mark.parametrize("cluster", ["authentication"], indirect=True)
def test_a_job_needs_a_keytab_or_a_token_and_is_told_which_options(kdc: Kdc, job: Job) -> None:
    assert "submit with --principal and --keytab" in job.run({}, {})["error"]
    said = job.run({"spark.kerberos.keytab": str(kdc.keytab(USER)), "spark.kerberos.principal": USER}, {})
    assert said.get("rows") == ROWS, said
