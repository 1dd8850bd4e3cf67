"""What a session knows of a login at the metastore."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from table_writer import TableWriterConfig
from table_writer.jobs.session_services import SessionServices
from table_writer.metastore.settings import MetastoreSettings
from table_writer.metastore.wire import LoginError
from table_writer.spark import open_gateway
from table_writer.testing import Lakehouse

STORES = "hadoop.security.credential.provider.path"
STORES_OF_S3A = "fs.s3a.security.credential.provider.path"
S3_KEYS = ("fs.s3a.secret.key", "fs.s3a.bucket.mart.session.token")
AZURE_KEY = "fs.azure.account.key.mart.dfs.core.windows.net"
GOOGLE_KEY = "fs.gs.auth.service.account.private.key"
PLAIN = {"hive.metastore.client.auth.mode": "PLAIN", "hive.metastore.client.plain.username": "loader"}
KERBEROS = {"hive.metastore.sasl.enabled": "true", "hive.metastore.kerberos.principal": "hive/_HOST@NO.SUCH.REALM"}


@pytest.fixture(params=[STORES])
def store(lakehouse: Lakehouse, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep a password where Hadoop's administrators do, and let the session know of it."""
    jvm: Any = lakehouse.spark._jvm
    gateway: Any = lakehouse.spark.sparkContext._gateway
    hadoop = jvm.org.apache.hadoop.conf.Configuration(False)
    hadoop.set(STORES, f"jceks://file{tmp_path}/store.jceks")
    provider = jvm.org.apache.hadoop.security.alias.CredentialProviderFactory.getProviders(hadoop).get(0)
    password = gateway.new_array(jvm.char, 4)
    for position, letter in enumerate("hush"):
        password[position] = letter
    provider.createCredentialEntry("loader", password)
    for key in (AZURE_KEY, GOOGLE_KEY, *S3_KEYS):
        provider.createCredentialEntry(key, password)
    provider.flush()
    lakehouse.spark.conf.set(request.param, hadoop.get(STORES))
    yield
    lakehouse.spark.conf.unset(request.param)


def test_a_password_is_found_where_hives_client_finds_it(lakehouse: Lakehouse, store: None) -> None:
    handed: list[MetastoreSettings] = []
    config = TableWriterConfig(hadoop=PLAIN, metastore_password_in_clear=True)
    SessionServices(lakehouse.spark, config, open_metastore=handed.append)  # type: ignore[arg-type]
    (settings,) = handed
    assert settings.login is not None
    assert settings.login("h").answer(b"") == b"\0loader\0hush"
    assert "hush" not in repr(settings)


@pytest.mark.parametrize("store", [STORES, STORES_OF_S3A], indirect=True)
@pytest.mark.parametrize("key", [AZURE_KEY, GOOGLE_KEY, *S3_KEYS])
def test_a_key_of_a_store_is_found_where_its_connector_finds_it(lakehouse: Lakehouse, store: None, key: str) -> None:
    assert open_gateway(lakehouse.spark).settings({}).hadoop[key] == "hush"


def test_a_session_without_a_login_is_told_how_to_get_one(lakehouse: Lakehouse) -> None:
    settings = open_gateway(lakehouse.spark).settings(KERBEROS)
    assert settings.metastore_token is not None
    with pytest.raises(LoginError, match="submit with --principal and --keytab"):
        settings.metastore_token()
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(settings)


def test_a_session_on_an_open_metastore_asks_for_no_token(lakehouse: Lakehouse) -> None:
    assert open_gateway(lakehouse.spark).settings({}).metastore_token is None
