"""Each source of credentials, from where it really reads; none asks a network other than this machine."""

from __future__ import annotations

import json
import os
import socket
import traceback
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import boto3
import pytest
from botocore.credentials import Credentials, RefreshableCredentials

from table_writer.errors import InvalidInputError, StorageError
from table_writer.storage.object_store import open_store
from table_writer.storage.request_settings import RequestSettings
from table_writer.storage.s3.credentials import resolve
from table_writer.storage.s3.settings import AssumedRole, CredentialSource, Profile, Provider, S3Settings, StaticKeys
from table_writer.testing.servers import S3Server
from tests.bare_server import BareServer, http, read_request

STATIC = StaticKeys(access_key="AKIASTATIC", secret_key="hush-hush")


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No AWS settings from outside, and no instance metadata."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id=AKIADEFAULT\naws_secret_access_key=s\n"
        "[mart]\naws_access_key_id=AKIAMART\naws_secret_access_key=s\n"
    )


def found(*sources: CredentialSource) -> Credentials | None:
    return resolve(sources, bucket="mart", region="us-east-1")


def access_key(*sources: CredentialSource) -> str:
    credentials = found(*sources)
    assert credentials is not None
    return str(credentials.get_frozen_credentials().access_key)


def test_static_keys_are_taken_as_they_are_and_anonymous_is_no_credentials() -> None:
    credentials = found(StaticKeys(access_key="AKIA", secret_key="s", session_token="t"))
    assert credentials is not None
    assert (credentials.access_key, credentials.secret_key, credentials.token) == ("AKIA", "s", "t")
    assert found(Provider.ANONYMOUS) is None


def test_the_environment_is_read_where_the_store_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    assert access_key(Provider.ENVIRONMENT) == "AKIAENV"
    assert access_key(Provider.DEFAULT_CHAIN) == "AKIAENV"


def test_a_source_that_has_nothing_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        access_key(Provider.ENVIRONMENT, Provider.CONTAINER, Provider.INSTANCE_METADATA, Provider.WEB_IDENTITY, STATIC)
        == "AKIASTATIC"
    )
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAHALF")  # without its secret key
    assert access_key(Provider.ENVIRONMENT, STATIC) == "AKIASTATIC"
    assert access_key(Profile("unheard-of"), STATIC) == "AKIASTATIC"


def test_a_profile_is_taken_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert access_key(Profile("mart")) == "AKIAMART"
    assert access_key(Profile()) == "AKIADEFAULT"
    monkeypatch.setenv("AWS_PROFILE", "mart")
    assert access_key(Profile()) == "AKIAMART"
    assert access_key(Provider.DEFAULT_CHAIN) == "AKIAMART"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    assert access_key(Profile()) == "AKIAMART"


def test_nothing_found_says_what_was_tried_and_what_to_set() -> None:
    sources = (Provider.ENVIRONMENT, Profile("unheard-of"), Provider.INSTANCE_METADATA)
    with pytest.raises(InvalidInputError) as caught:
        open_store(S3Settings(bucket="mart", credentials=sources))
    for named in ("bucket mart", "Environment", "unheard-of", "InstanceMetadata", "fs.s3a.access.key", "profile"):
        assert named in str(caught.value)
    first, *_ = traceback.format_exception(caught.value)
    assert "botocore" not in first


def test_a_profile_that_the_environment_names_wrongly_is_an_input_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "unheard-of")
    with pytest.raises(InvalidInputError, match=r"unheard-of.*AWS_PROFILE.*--profile NAME"):
        open_store(S3Settings(bucket="mart", credentials=(STATIC,)))


@pytest.fixture
def metadata_url() -> Iterator[str]:
    """A server that answers as the metadata services of EC2 and ECS do."""
    expires_at = (datetime.now(UTC) + timedelta(hours=6)).strftime("%Y-%m-%dT%H:%M:%SZ")
    keys = {"AccessKeyId": "AKIAROLE", "SecretAccessKey": "s", "Token": "t", "Expiration": expires_at}

    def converse(end: socket.socket) -> tuple[str, bytes] | None:
        request = read_request(end)
        if request is None:
            return None
        is_list = request.path.endswith("/security-credentials/")
        return "", http(200, b"role-name" if is_list else json.dumps(keys | {"Code": "Success"}).encode())

    with BareServer(converse) as server:
        yield f"http://127.0.0.1:{server.port}"


@pytest.mark.parametrize(
    ("provider", "variable", "path"),
    [
        (Provider.CONTAINER, "AWS_CONTAINER_CREDENTIALS_FULL_URI", "/role"),
        (Provider.INSTANCE_METADATA, "AWS_EC2_METADATA_SERVICE_ENDPOINT", ""),
    ],
)
def test_the_role_of_a_container_and_of_an_instance_is_renewable(
    metadata_url: str, monkeypatch: pytest.MonkeyPatch, provider: Provider, variable: str, path: str
) -> None:
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    monkeypatch.setenv(variable, f"{metadata_url}{path}")
    assert access_key(provider) == "AKIAROLE"
    assert isinstance(found(provider), RefreshableCredentials)


def test_neither_the_machines_role_nor_one_that_is_down_counts(
    metadata_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{metadata_url}/role")
    Path(os.environ["AWS_CONFIG_FILE"]).write_text("[profile empty]\nregion=eu-west-1\n")
    assert access_key(Profile("empty"), STATIC) == "AKIASTATIC"
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/role")
    assert access_key(Provider.CONTAINER, STATIC) == "AKIASTATIC"


@pytest.fixture
def role_arn(moto: S3Server) -> str:
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "s"}
    iam = boto3.client("iam", endpoint_url=moto.endpoint_url, region_name="us-east-1", **keys)
    with suppress(iam.exceptions.EntityAlreadyExistsException):
        iam.create_role(RoleName="writer", AssumeRolePolicyDocument="{}")
    return str(iam.get_role(RoleName="writer")["Role"]["Arn"])


def test_an_assumed_role_is_taken_from_sts_renewable_and_opens_a_store(moto: S3Server, role_arn: str) -> None:
    role = AssumedRole(
        arn=role_arn,
        sources=(Provider.ENVIRONMENT, STATIC),
        session_name="nightly",
        duration_seconds=900,
        policy='{"Version": "2012-10-17", "Statement": []}',
        external_id="42",
        sts_endpoint_url=moto.endpoint_url,
    )
    assert isinstance(found(role), RefreshableCredentials)
    assert access_key(role).startswith("ASIA")
    bare = AssumedRole(arn=role_arn, sources=(STATIC,), sts_endpoint_url=moto.endpoint_url)
    where = {"bucket": moto.bucket, "endpoint_url": moto.endpoint_url, "path_style": True}
    store = open_store(S3Settings(**where, credentials=(bare,), requests=RequestSettings(max_attempts=1)))
    store.put("assumed/a", b"1")
    assert [info.key for info in store.list("assumed/")] == ["assumed/a"]


def test_an_sts_that_is_not_there_is_a_storage_error_and_no_role_is_assumed_anonymously() -> None:
    arn = "arn:aws:iam::123456789012:role/writer"
    with pytest.raises(StorageError, match="can't be reached"):
        found(AssumedRole(arn=arn, sources=(STATIC,), sts_endpoint_url="http://127.0.0.1:1"))
    with pytest.raises(InvalidInputError, match="anonymously"):
        found(AssumedRole(arn=arn, sources=(Provider.ANONYMOUS,)))


def test_a_web_identity_token_is_exchanged_at_sts(
    moto: S3Server, role_arn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("a token")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", role_arn)
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", moto.endpoint_url)
    assert access_key(Provider.WEB_IDENTITY).startswith("ASIA")
