"""``fs.gs.*`` settings as Google's and Hadoop's connectors read them, and what of them is refused."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from unittest import mock

import google.auth
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth.exceptions import DefaultCredentialsError

from table_writer.errors import InvalidInputError
from table_writer.model.location import Location
from table_writer.storage.gcs.settings import (
    DefaultLogin,
    GcsCredential,
    GcsSettings,
    LoginFile,
    MachineAccount,
    NoLogin,
    ServiceAccountKey,
    UserLogin,
)
from table_writer.storage.gcs.store import GcsStore
from table_writer.storage.kinds import kind_of, settings_for
from table_writer.storage.object_store import open_store

HERE: Final = Location.parse("gs://lake/wh/orders/")
PEM: Final = "-----BEGIN PRIVATE KEY-----\nhush\n-----END PRIVATE KEY-----\n"
KEY: Final = {
    "fs.gs.auth.service.account.email": "job@p.iam.gserviceaccount.com",
    "fs.gs.auth.service.account.private.key.id": "1",
    "fs.gs.auth.service.account.private.key": PEM.replace("\n", "\\n"),
}
USER: Final = {
    "fs.gs.auth.type": "USER_CREDENTIALS",
    "fs.gs.auth.client.id": "app",
    "fs.gs.auth.client.secret": "hush",
    "fs.gs.auth.refresh.token": "hush",
}
BY_FILE: Final = {"fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE"}
FILE: Final = {"fs.gs.auth.service.account.json.keyfile": "/etc/key.json"}
FEDERATION: Final = "WORKLOAD_IDENTITY_FEDERATION_CREDENTIAL_CONFIG_FILE"
OF_FEDERATION: Final = "fs.gs.auth.workload.identity.federation.credential.config.file"


def settings(hadoop: Mapping[str, str], location: Location = HERE) -> GcsSettings:
    found = settings_for(location, hadoop)
    assert isinstance(found, GcsSettings)
    return found


@pytest.mark.parametrize(
    ("hadoop", "expected"),
    [
        ({}, DefaultLogin()),
        ({"fs.gs.auth.type": "application_default"}, DefaultLogin()),
        ({"fs.gs.auth.type": "COMPUTE_ENGINE"}, MachineAccount()),
        ({"fs.gs.auth.type": "UNAUTHENTICATED"}, NoLogin()),
        ({"fs.gs.auth.null.enabled": "true"}, NoLogin()),
        ({**BY_FILE, **FILE}, LoginFile("/etc/key.json")),
        (FILE, LoginFile("/etc/key.json")),
        (KEY, ServiceAccountKey(email="job@p.iam.gserviceaccount.com", key_id="1", private_key=PEM)),
        (USER, UserLogin(client_id="app", client_secret="hush", refresh_token="hush")),
        (
            {"fs.gs.auth.type": FEDERATION, OF_FEDERATION: "/etc/pool.json"},
            LoginFile("/etc/pool.json", is_federated=True),
        ),
    ],
)
def test_logins_are_those_of_the_connectors(hadoop: Mapping[str, str], expected: GcsCredential) -> None:
    found = settings(hadoop)
    assert (found.bucket, found.endpoint_url) == ("lake", "https://storage.googleapis.com")
    assert found.credential == expected
    assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301 - made here
    assert "hush" not in repr(found)


def test_an_emulator_is_found_by_the_connectors_setting_and_by_the_variable_of_googles_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named = {"fs.gs.storage.root.url": "http://127.0.0.1:4443/", "fs.gs.auth.type": "UNAUTHENTICATED"}
    assert settings(named).endpoint_url == "http://127.0.0.1:4443"
    for host in ("127.0.0.1:9", "http://127.0.0.1:9"):
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", host)
        found = settings({"fs.gs.auth.type": "COMPUTE_ENGINE"})  # which Hadoop 3.5 sets for everybody
        assert (found.endpoint_url, found.credential) == ("http://127.0.0.1:9", NoLogin())
    assert settings(named).endpoint_url == "http://127.0.0.1:4443"


def test_whoever_pays_and_whoever_is_impersonated_is_named() -> None:
    pays = {"fs.gs.requester.pays.project.id": "bills"}
    assert settings(pays).user_project == ""
    assert settings({**pays, "fs.gs.requester.pays.mode": "AUTO"}).user_project == "bills"
    named = {"fs.gs.auth.impersonation.service.account": "writer@p.iam.gserviceaccount.com"}
    assert settings(named).impersonated == "writer@p.iam.gserviceaccount.com"


@pytest.mark.parametrize(
    ("hadoop", "message"),
    [
        ({"fs.gs.auth.type": "ACCESS_TOKEN_PROVIDER"}, "Java code"),
        ({"fs.gs.auth.access.token.provider.impl": "com.acme.Tokens"}, r"com\.acme\.Tokens is Java code"),
        (BY_FILE, r"json\.keyfile is not set"),
        ({**KEY, "fs.gs.auth.service.account.private.key": "hush"}, "no PEM"),
        ({**USER, "fs.gs.auth.refresh.token": " "}, r"refresh\.token is not set"),
        ({"fs.gs.encryption.key": "hush"}, "keys that Google does not hold"),
        ({"fs.gs.storage.root.url": "storage.local"}, "must start with http"),
        ({"fs.gs.storage.root.url": "http://a:1"}, "over TLS only"),
    ],
)
def test_what_cannot_be_honoured_is_refused_without_its_value(hadoop: Mapping[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as caught:
        settings(hadoop)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("text", ["gs:///a", "gs://La/a", "gs://me:hush@lake/a"])
def test_a_location_without_a_bucket_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="bucket of a gs:// location") as caught:
        settings({}, Location.parse(text))
    assert "hush" not in str(caught.value)


def test_settings_of_s3_do_not_hold_on_gcs() -> None:
    hadoop = {"fs.s3a.multipart.size": "64M", "fs.s3a.committer.threads": "99"}
    tuning = kind_of(HERE).tuning(HERE, hadoop)
    assert (tuning.part_bytes, tuning.committer_threads) == (None, None)


@pytest.fixture(scope="module")
def pem() -> str:
    private = rsa.generate_private_key(65_537, 2_048)
    formats = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private.private_bytes(*formats).decode()


def test_each_login_is_made_without_a_request(pem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = {
        "type": "service_account",
        "client_email": "a@b",
        "private_key": pem,
        "token_uri": "https://t",
        "project_id": "p",
    }
    file = tmp_path / "key.json"
    file.write_text(json.dumps(info))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    pool = tmp_path / "pool.json"
    federated = {"fs.gs.auth.type": FEDERATION, OF_FEDERATION: str(pool)}
    token = {
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": "https://sts.googleapis.com/v1/token",
    }
    source = {"credential_source": {"file": str(tmp_path / "token")}}
    pool.write_text(json.dumps({"type": "external_account", "audience": "//iam/p", **token, **source}))
    for hadoop in (
        {},
        {"fs.gs.auth.type": "COMPUTE_ENGINE"},
        {**FILE, "fs.gs.auth.service.account.json.keyfile": str(file)},
        {**KEY, "fs.gs.auth.service.account.private.key": pem},
        federated,
        USER,
        {**USER, "fs.gs.auth.impersonation.service.account": "writer@p.iam.gserviceaccount.com"},
    ):
        store = open_store(settings(hadoop))
        assert isinstance(store, GcsStore)
        assert store.request_counts() == {}


def test_a_login_that_is_not_there_is_refused_when_the_store_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidInputError, match=r"no login for Google:.*nowhere\.json.*fs\.gs\.auth\.type"):
        open_store(settings({"fs.gs.auth.service.account.json.keyfile": str(tmp_path / "nowhere.json")}))
    with pytest.raises(InvalidInputError, match="no login for Google") as caught:
        open_store(settings(KEY))  # no key at all, in a PEM
    assert "hush" not in str(caught.value)
    several = DefaultCredentialsError("no default login.\nLook at https://…")
    monkeypatch.setattr(google.auth, "default", mock.Mock(side_effect=several))
    with pytest.raises(InvalidInputError, match=r"no login for Google: no default login\. Set fs\.gs\.auth\.type"):
        open_store(settings({}))


def test_without_the_library_the_error_names_the_extra_and_executors() -> None:
    script = (
        "import sys; sys.modules['google.auth'] = None\n"
        "from table_writer.storage.object_store import open_store\n"
        "from table_writer.storage.gcs.settings import GcsSettings\n"
        "try:\n    open_store(GcsSettings(bucket='lake'))\nexcept ValueError as error:\n    print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert "[gcs]" in said
    assert "executors" in said
