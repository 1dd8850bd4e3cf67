"""``fs.azure.*`` settings as Hadoop's connector reads them, and what of them is refused."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

import pytest

from table_writer.errors import InvalidInputError
from table_writer.model.location import Location
from table_writer.storage.azure.settings import AccountKey, AzureSettings, ManagedIdentity, SasToken, ServicePrincipal
from table_writer.storage.kinds import kind_of, settings_for

HOST: Final = "mart.dfs.core.windows.net"
HERE: Final = Location.parse(f"abfss://lake@{HOST}/wh/orders/")
KEY: Final = "aHVzaC1odXNo"
SAS: Final = "sv=2026-10-06&sig=hush%2Dhush&sp=racwdl"
ABFS: Final = "org.apache.hadoop.fs.azurebfs.oauth2."
SECRETS: Final = (KEY, "hush")


def settings(hadoop: Mapping[str, str], location: Location = HERE) -> AzureSettings:
    found = settings_for(location, hadoop)
    assert isinstance(found, AzureSettings)
    return found


def test_a_location_names_account_container_and_service() -> None:
    found = settings({f"fs.azure.account.key.{HOST}": KEY})
    assert (found.account, found.container, found.account_url) == ("mart", "lake", "https://mart.blob.core.windows.net")
    assert found.credential == AccountKey(KEY)
    assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301 - made here


EMULATOR: Final = {"fs.azure.abfs.endpoint": "127.0.0.1:10000"}
CLEAR: Final = {"fs.azure.always.use.https": "false"}


@pytest.mark.parametrize(
    ("text", "more", "url"),
    [
        ("abfss://lake@mart.dfs.core.chinacloudapi.cn/a", {}, "https://mart.blob.core.chinacloudapi.cn"),
        ("abfss://lake@MART.DFS.core.windows.net/a", {}, "https://mart.blob.core.windows.net"),
        ("abfss://lake@mart.blob.core.windows.net/a", {}, "https://mart.blob.core.windows.net"),
        ("abfs://lake@mart.dfs.core.windows.net/a", {}, "https://mart.blob.core.windows.net"),
        (f"abfs://lake@{HOST}/a", EMULATOR | CLEAR, "http://127.0.0.1:10000/mart"),
        (f"abfs://lake@{HOST}/a", EMULATOR, "https://127.0.0.1:10000/mart"),
        (f"abfss://lake@{HOST}/a", EMULATOR | CLEAR, "https://127.0.0.1:10000/mart"),
    ],
)
def test_the_blob_service_of_every_cloud_and_of_an_emulator_is_found(text: str, more: dict[str, str], url: str) -> None:
    assert settings({"fs.azure.account.key": KEY, **more}, Location.parse(text)).account_url == url


def test_the_most_special_setting_wins() -> None:
    hadoop = {"fs.azure.account.auth.type": "SAS"}
    for suffix in ("", f".{HOST}", f".lake.{HOST}"):
        hadoop[f"fs.azure.sas.fixed.token{suffix}"] = f"{SAS}&of={suffix}"
        assert settings(hadoop).credential == SasToken(f"{SAS}&of={suffix}")
    assert settings(hadoop, Location.parse(f"abfss://pond@{HOST}/")).credential == SasToken(f"{SAS}&of=.{HOST}")


TYPE: Final = "fs.azure.account.oauth.provider.type"
BY_SAS: Final = {"fs.azure.account.auth.type": "SAS"}
CLIENT: Final = {
    "fs.azure.account.auth.type": "OAuth",
    TYPE: f"{ABFS}ClientCredsTokenProvider",
    "fs.azure.account.oauth2.client.endpoint": "https://login.microsoftonline.com/contoso/oauth2/token",
    "fs.azure.account.oauth2.client.id": "app-1",
    "fs.azure.account.oauth2.client.secret": "hush",
}
MSI: Final = {"fs.azure.account.auth.type": "OAuth", TYPE: f"{ABFS}MsiTokenProvider"}
WORKLOAD: Final = {
    **MSI,
    TYPE: f"{ABFS}WorkloadIdentityTokenProvider",
    "fs.azure.account.oauth2.msi.tenant": "contoso",
    "fs.azure.account.oauth2.client.id": "app-1",
    "fs.azure.account.oauth2.token.file": "/var/run/token",
}
APP: Final = {"tenant": "contoso", "client_id": "app-1", "authority": "login.microsoftonline.com"}
PRINCIPAL: Final = ServicePrincipal(**APP, secret="hush")


@pytest.mark.parametrize(
    ("hadoop", "expected"),
    [
        (CLIENT, PRINCIPAL),
        ({f"{name}.{HOST}": value for name, value in CLIENT.items()}, PRINCIPAL),
        (MSI, ManagedIdentity()),
        ({**MSI, "fs.azure.account.oauth2.client.id": "id-1"}, ManagedIdentity("id-1")),
        (WORKLOAD, ServicePrincipal(**APP, token_file="/var/run/token")),
    ],
)
def test_logins_of_entra_id_are_those_of_hadoop(hadoop: Mapping[str, str], expected: object) -> None:
    assert settings(hadoop).credential == expected


@pytest.mark.parametrize(
    ("hadoop", "message"),
    [
        ({}, r"no login for Azure: neither fs\.azure\.account\.key"),
        ({"fs.azure.account.key": "hush!"}, "not base64"),
        ({"fs.azure.account.auth.type": "Custom", TYPE: "com.acme.Hush"}, "Java code"),
        (BY_SAS, r"fs\.azure\.sas\.fixed\.token is not set"),
        ({**BY_SAS, "fs.azure.sas.fixed.token": "sv=hush"}, "no signature"),
        (
            {**BY_SAS, "fs.azure.sas.fixed.token": SAS, "fs.azure.sas.token.provider.type": "a.B"},
            r"a\.B is Java code.*fixed\.token",
        ),
        (
            {"fs.azure.account.keyprovider": "a.ShellDecryptionKeyProvider", "fs.azure.account.key": KEY},
            "Shell.*script",
        ),
        ({**MSI, TYPE: f"{ABFS}UserPasswordTokenProvider"}, "UserPassword.*passwords"),
        ({**MSI, TYPE: "com.acme.Tokens"}, r"com\.acme\.Tokens is not known.*MsiToken"),
        ({**CLIENT, "fs.azure.account.oauth2.client.secret": " "}, r"client\.secret is not set"),
        ({**CLIENT, "fs.azure.account.oauth2.client.endpoint": "hush"}, r"client\.endpoint is not https://"),
        ({**WORKLOAD, "fs.azure.account.oauth2.token.file": ""}, r"token\.file is not set"),
        ({"fs.azure.account.key": KEY, "fs.azure.abfs.endpoint": "http://hush@a:1"}, r"abfs\.endpoint is not IP:PORT"),
        (
            {"fs.azure.account.key": KEY, f"fs.azure.client-provided-encryption-key.{HOST}": "hush"},
            "keys that the client",
        ),
    ],
)
def test_what_cannot_be_honoured_is_refused_without_its_value(hadoop: Mapping[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as caught:
        settings(hadoop)
    assert not [secret for secret in SECRETS if secret in str(caught.value).replace("com.acme.Hush", "")]


@pytest.mark.parametrize(
    "text",
    [
        f"abfss://{HOST}/a",
        "abfss://lake@mart/a",
        "abfss://lake:hush@mart.dfs.core.windows.net/a",
        "abfss://La_ke@mart.dfs.core.windows.net/a",
        "abfss://lake@mart.dfs.core.windows.net:443/a",
        "abfss://lake@ma-rt.dfs.core.windows.net/a",
    ],
)
def test_a_location_without_container_and_account_is_refused_and_what_may_be_a_login_not_shown(text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"container|account") as caught:
        settings({"fs.azure.account.key": KEY}, Location.parse(text))
    assert "hush" not in str(caught.value)


def test_no_secret_is_in_a_repr() -> None:
    for hadoop in ({"fs.azure.account.key": KEY}, CLIENT, {**BY_SAS, "fs.azure.sas.fixed.token": SAS}):
        assert not [secret for secret in SECRETS if secret in repr(settings(hadoop))]


def test_settings_of_s3_do_not_hold_in_azure() -> None:
    hadoop = {"fs.s3a.multipart.size": "64M", "fs.s3a.committer.threads": "99"}
    tuning = kind_of(HERE).tuning(HERE, hadoop)
    assert (tuning.part_bytes, tuning.committer_threads) == (None, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hdfs://namenode/a", "dies in the middle"),
        ("wasbs://lake@mart.blob.core.windows.net/a", "abfss://CONTAINER@ACCOUNT"),
        ("oss://bucket/a", ""),
        ("viewfs://cluster/a", ""),
    ],
)
def test_stores_that_are_refused_are_refused_by_name_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{text.partition('://')[0]}:// is not supported for now.*{reason}"):
        settings_for(Location.parse(text), {})


def test_both_schemes_and_services_are_one_place() -> None:
    spellings = (HERE, f"abfs://lake@{HOST}/wh//orders", "abfss://lake@MART.blob.core.windows.net/wh/orders/")
    places = {Location.parse(str(one)).place for one in spellings}
    assert places == {("abfs", f"lake@{HOST}", "wh/orders/")}
    assert not HERE.same_place(Location.parse(f"abfss://pond@{HOST}/wh/orders/"))


def test_without_the_sdk_the_error_names_the_extra_and_s3_works() -> None:
    script = (
        "import sys; sys.modules['azure.storage.blob'] = None\n"
        "from table_writer.storage.object_store import open_store\n"
        "from table_writer.storage.azure.settings import AccountKey, AzureSettings\n"
        "url = 'https://mart.blob.core.windows.net'\n"
        f"given = AzureSettings(account='mart', container='lake', account_url=url, credential=AccountKey({KEY!r}))\n"
        "try:\n    open_store(given)\nexcept ValueError as error:\n    print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert "hive-table-writer[azure]" in said
    assert "executors" in said
