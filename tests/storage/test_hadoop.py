"""Hadoop's settings mean here what they mean to S3A; all are right when made, and travel."""

from __future__ import annotations

import base64
import json
import pickle
from typing import Any

import pytest

from table_writer.errors import InvalidInputError
from table_writer.model.location import Location
from table_writer.storage.kinds import settings_for
from table_writer.storage.local.settings import LocalSettings
from table_writer.storage.request_settings import RequestSettings
from table_writer.storage.s3.hadoop import tuning, with_environment
from table_writer.storage.s3.settings import (
    AssumedRole,
    CredentialSource,
    Profile,
    Provider,
    S3Overrides,
    S3Settings,
    StaticKeys,
)

MART = Location.parse("s3a://mart/orders/")
KEYS = {"access.key": "AKIAME", "secret.key": "hush-hush"}
STATIC = StaticKeys(access_key="AKIAME", secret_key="hush-hush")
S3A = "org.apache.hadoop.fs.s3a."
V1 = "com.amazonaws.auth."
V2 = "software.amazon.awssdk.auth.credentials."
SIMPLE = f"{S3A}SimpleAWSCredentialsProvider"


def s3a(values: dict[str, str]) -> dict[str, str]:
    return {f"fs.s3a.{name}": value for name, value in values.items()}


def read(overrides: S3Overrides | None = None, location: Location = MART, **values: str) -> S3Settings:
    hadoop = s3a(KEYS | {name.replace("__", "-").replace("_", "."): value for name, value in values.items()})
    settings = settings_for(location, hadoop, overrides or S3Overrides())
    assert isinstance(settings, S3Settings)
    return settings


def sources(provider: str, **values: str) -> tuple[CredentialSource, ...]:
    return read(aws_credentials_provider=provider, **values).credentials


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_the_three_s3_schemes_are_one_store(scheme: str) -> None:
    assert read(location=Location.parse(f"{scheme}://mart/orders")) == read()


def test_file_is_local() -> None:
    for text in ("file:///wh/orders", "file:/wh/orders"):
        assert settings_for(Location.parse(text), {}) == LocalSettings()
    with pytest.raises(InvalidInputError, match="three slashes"):
        settings_for(Location.parse("file://wh/orders"), {})


ARN = "arn:aws:s3:eu-west-1:1:accesspoint/mart"
VPCE = "vpce-1.s3.eu-west-1.vpce.amazonaws.com"
ENDPOINTS = [
    ({}, ("", "")),
    ({"endpoint": ""}, ("", "")),
    ({"endpoint": "minio:9000"}, ("https://minio:9000", "")),
    ({"endpoint": "minio:9000", "connection_ssl_enabled": "false"}, ("http://minio:9000", "")),
    ({"endpoint": "http://minio:9000/"}, ("http://minio:9000", "")),
    ({"endpoint": "https://minio", "connection_ssl_enabled": "false"}, ("https://minio", "")),
    ({"endpoint": "s3.amazonaws.com"}, ("", "")),
    ({"endpoint": "s3.eu-west-1.amazonaws.com"}, ("", "eu-west-1")),
    ({"endpoint": "https://s3-eu-west-1.amazonaws.com"}, ("", "eu-west-1")),
    ({"endpoint": "s3.eu-west-1.amazonaws.com", "endpoint_region": "eu-central-1"}, ("", "eu-central-1")),
    ({"endpoint": f"mart.{VPCE}"}, (f"https://mart.{VPCE}", "eu-west-1")),
    ({"endpoint_region": " eu-west-3 "}, ("", "eu-west-3")),
]
ENCRYPTIONS = [
    ({}, ("", "")),
    ({"encryption_algorithm": "AES256"}, ("AES256", "")),
    ({"encryption_algorithm": "SSE-KMS"}, ("aws:kms", "")),
    ({"encryption_algorithm": "SSE-KMS", "encryption_key": "arn:key"}, ("aws:kms", "arn:key")),
    ({"encryption_algorithm": "DSSE-KMS", "encryption_key": "arn:key"}, ("aws:kms:dsse", "arn:key")),
    ({"server__side__encryption__algorithm": "SSE-KMS", "server__side__encryption_key": "k"}, ("aws:kms", "k")),
    (  # an old name for the bucket wins over a new name for all
        {
            "encryption_algorithm": "SSE-KMS",
            "encryption_key": "all",
            "bucket_mart_server__side__encryption_key": "mart",
        },
        ("aws:kms", "mart"),
    ),
]
TIMEOUTS = {"200000": 200, "5s": 5, "2m": 120, "1500 ms": 1.5, " 200S ": 200, "1h": 3600}
ACLS = {"": "", "BucketOwnerFullControl": "bucket-owner-full-control", "private": "private", "Private": "private"}
PROXY = {"proxy_host": "proxy", "proxy_port": "3128", "proxy_username": "me", "proxy_password": "p@ss/word"}
OTHERS = [
    ({"bucket_mart_accesspoint_arn": ARN}, {"bucket": ARN}),
    ({"create_storage_class": "intelligent_tiering"}, {"storage_class": "INTELLIGENT_TIERING"}),
    ({"requester_pays_enabled": "true"}, {"requester_pays": True}),
    (
        {"attempts_maximum": "20", "connection_maximum": "500"},
        {"requests": RequestSettings(max_attempts=20, max_connections=500)},
    ),
    (PROXY, {"proxy_url": "http://me:p%40ss%2Fword@proxy:3128"}),
    ({"proxy_host": "proxy", "proxy_ssl_enabled": "true"}, {"proxy_url": "https://proxy:443"}),
]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        *((values, {"endpoint_url": url, "region": region}) for values, (url, region) in ENDPOINTS),
        *((values, {"encryption": name, "kms_key_id": key}) for values, (name, key) in ENCRYPTIONS),
        *(({"acl_default": name}, {"acl": acl}) for name, acl in ACLS.items()),
        *(
            ({"connection_timeout": text}, {"requests": RequestSettings(read_timeout_seconds=some)})
            for text, some in TIMEOUTS.items()
        ),
        *(
            ({"connection_establish_timeout": text}, {"requests": RequestSettings(connect_timeout_seconds=some)})
            for text, some in TIMEOUTS.items()
        ),
        ({"connection_timeout": "0"}, {"requests": RequestSettings()}),  # for ever, to Hadoop
        *OTHERS,
    ],
)
def test_each_setting_means_what_it_means_to_s3a(values: dict[str, str], expected: dict[str, object]) -> None:
    settings = read(**values)
    assert {name: getattr(settings, name) for name in expected} == expected


def test_settings_of_the_bucket_win() -> None:
    settings = read(
        endpoint="http://everyone",
        bucket_mart_endpoint="http://mart",
        bucket_other_endpoint="http://other",
        bucket_mart_access_key="AKIAMART",
        bucket_mart_path_style_access="true",
    )
    assert settings.endpoint_url == "http://mart"
    assert settings.path_style
    assert settings.credentials[0] == StaticKeys(access_key="AKIAMART", secret_key="hush-hush")
    dotted = {"bucket_my_data_mart_endpoint": "http://dotted", "bucket_my_endpoint": "http://my"}
    assert read(location=Location.parse("s3a://my.data.mart/x"), **dotted).endpoint_url == "http://dotted"


def test_the_encryption_context_is_sent_as_json() -> None:
    settings = read(encryption_algorithm="SSE-KMS", encryption_context="team=mart, env=prod=1")
    assert json.loads(base64.b64decode(settings.kms_context)) == {"team": "mart", "env": "prod=1"}


ASSUMED = f"{S3A}auth.AssumedRoleCredentialProvider"
SELF = {"aws_credentials_provider": ASSUMED, "assumed_role_arn": "a", "assumed_role_credentials_provider": ASSUMED}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        *(
            ({"encryption_algorithm": name, "encryption_key": "unseen"}, f"{name} is not supported")
            for name in ("SSE-C", "CSE-KMS", "CSE-CUSTOM", "ROT13")
        ),
        ({"acl_default": "LogDeliveryWrite"}, "LogDeliveryWrite"),
        ({"connection_timeout": "unseen"}, r"connection\.timeout"),
        ({"attempts_maximum": "unseen"}, r"attempts\.maximum"),
        (
            {"aws_credentials_provider": "com.acme.VaultProvider"},
            r"com\.acme\.VaultProvider.*access_key and secret_key, or profile",
        ),
        (SELF, "itself"),
    ],
)
def test_what_cannot_be_honoured_is_refused_without_its_value(values: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as caught:
        read(**values)
    assert "unseen" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "size"), [(None, None), ("64M", 67_108_864), ("5242880", 5_242_880), ("128m", 134_217_728), ("1G", 2**30)]
)
def test_part_size_in_hadoops_spelling(text: str | None, size: int | None) -> None:
    hadoop = {} if text is None else {"fs.s3a.multipart.size": "1", "fs.s3a.bucket.mart.multipart.size": text}
    assert tuning(MART, hadoop).part_bytes == size


@pytest.mark.parametrize(("text", "threads"), [(None, None), ("32", 32), ("-4", None), ("0", None)])
def test_committer_threads(text: str | None, threads: int | None) -> None:
    assert tuning(MART, {} if text is None else {"fs.s3a.committer.threads": text}).committer_threads == threads


TEMPORARY = StaticKeys(access_key="AKIAME", secret_key="hush-hush", session_token="token")
EVERY_PROVIDER = {
    SIMPLE: (STATIC,),
    f"{S3A}TemporaryAWSCredentialsProvider": (TEMPORARY,),
    f"{S3A}AnonymousAWSCredentialsProvider": (Provider.ANONYMOUS,),
    f"{S3A}SharedInstanceCredentialProvider": (Provider.CONTAINER, Provider.INSTANCE_METADATA),
    f"{S3A}auth.IAMInstanceCredentialsProvider": (Provider.CONTAINER, Provider.INSTANCE_METADATA),
    f"{S3A}auth.ProfileAWSCredentialsProvider": (Profile("mart-writer"),),
    f"{V1}AnonymousAWSCredentials": (Provider.ANONYMOUS,),
    f"{V1}EC2ContainerCredentialsProviderWrapper": (Provider.CONTAINER, Provider.INSTANCE_METADATA),
    f"{V1}WebIdentityTokenCredentialsProvider": (Provider.WEB_IDENTITY,),
    f"{V1}DefaultAWSCredentialsProviderChain": (Provider.DEFAULT_CHAIN,),
    f"{V1}profile.ProfileCredentialsProvider": (Profile(),),
    f"{V2}AnonymousCredentialsProvider": (Provider.ANONYMOUS,),
    f"{V2}WebIdentityTokenFileCredentialsProvider": (Provider.WEB_IDENTITY,),
    f"{V2}DefaultCredentialsProvider": (Provider.DEFAULT_CHAIN,),
    f"{V2}ProfileCredentialsProvider": (Profile(),),
    **{f"{v}EnvironmentVariableCredentialsProvider": (Provider.ENVIRONMENT,) for v in (V1, V2)},
    **{f"{v}InstanceProfileCredentialsProvider": (Provider.INSTANCE_METADATA,) for v in (V1, V2)},
    **{f"{v}ContainerCredentialsProvider": (Provider.CONTAINER,) for v in (V1, V2)},
}


@pytest.mark.parametrize("provider", list(EVERY_PROVIDER))
def test_every_provider_has_its_source(provider: str) -> None:
    assert sources(provider, session_token="token", auth_profile_name="mart-writer") == EVERY_PROVIDER[provider]


def test_without_a_list_s3as_own_default_holds() -> None:
    assert read().credentials == (STATIC, Provider.ENVIRONMENT, Provider.CONTAINER, Provider.INSTANCE_METADATA)
    assert read(session_token="token").credentials[0] == TEMPORARY


def test_a_list_keeps_its_order_and_passes_over_keys_that_are_not_set() -> None:
    listed = f"{S3A}TemporaryAWSCredentialsProvider,\n   {V1}EnvironmentVariableCredentialsProvider , {SIMPLE},"
    assert sources(listed) == (Provider.ENVIRONMENT, STATIC)


def test_explicit_credentials_make_the_list_irrelevant() -> None:
    keys = {"access_key": "AKIAOTHER", "secret_key": "other", "session_token": "t"}
    unknown = {"aws_credentials_provider": "com.acme.VaultProvider"}
    assert read(S3Overrides(**keys), **unknown).credentials == (StaticKeys(**keys),)
    assert read(S3Overrides(profile="mart"), **unknown).credentials == (Profile("mart"),)


def test_keys_that_are_not_whole_say_which_to_set() -> None:
    with pytest.raises(InvalidInputError, match=r"fs\.s3a\.access\.key and fs\.s3a\.secret\.key are not set"):
        settings_for(MART, {"fs.s3a.aws.credentials.provider": SIMPLE})
    with pytest.raises(InvalidInputError, match="both or none"):
        read(S3Overrides(access_key="AKIAOTHER"))


def test_an_assumed_role_with_all_its_settings_and_with_none() -> None:
    texts = {"arn": "arn:aws:iam::1:role/writer", "session_name": "nightly", "policy": "{}", "external_id": "42"}
    role = {f"assumed_role_{name}": text for name, text in texts.items()}
    role |= {
        "assumed_role_session_duration": "1h",
        "assumed_role_sts_endpoint": "sts.eu-west-1.amazonaws.com",
        "assumed_role_sts_endpoint_region": "eu-west-1",
        "assumed_role_credentials_provider": f"{SIMPLE},{V2}EnvironmentVariableCredentialsProvider",
    }
    whole = AssumedRole(
        **texts,
        sources=(STATIC, Provider.ENVIRONMENT),
        duration_seconds=3600,
        sts_endpoint_url="https://sts.eu-west-1.amazonaws.com",
        sts_region="eu-west-1",
    )
    assert sources(ASSUMED, **role) == (whole,)
    (bare,) = sources(ASSUMED, assumed_role_arn="arn")
    assert isinstance(bare, AssumedRole)
    assert (bare.duration_seconds, bare.sources) == (1800, whole.sources)


def test_the_writers_own_config_wins() -> None:
    mine: dict[str, Any] = {"endpoint_url": "http://mine", "region": "eu-west-1", "path_style": False}
    requests = {"connect_timeout_seconds": 1, "read_timeout_seconds": 2, "max_attempts": 3, "max_connections": 4}
    theirs = {"endpoint": "http://theirs", "endpoint_region": "us-east-1", "path_style_access": "true"}
    theirs |= {"connection_timeout": "200s", "attempts_maximum": "20"}
    settings = read(S3Overrides(**mine, **requests, checksums=False, verify_tls="/ca.pem"), **theirs)
    assert {name: getattr(settings, name) for name in mine} == mine
    assert settings.requests == RequestSettings(**requests)
    assert (settings.checksum, settings.verify_tls) == (None, "/ca.pem")


ROLE = f"{S3A}auth.IAMInstanceCredentialsProvider"


OF_INSTANCE = (Provider.CONTAINER, Provider.INSTANCE_METADATA)
PAIR = {"ACCESS_KEY_ID": "me", "SECRET_ACCESS_KEY": "hush"}
BY_ROLE, BY_KEYS = ({"aws.credentials.provider": name} for name in (ROLE, SIMPLE))


@pytest.mark.parametrize(
    ("shown", "named", "environment", "expected"),
    [
        ({}, {}, PAIR, (StaticKeys(access_key="me", secret_key="hush"),)),
        (BY_ROLE, {}, {"ACCESS_KEY_ID": "me"}, OF_INSTANCE),
        (BY_KEYS, {}, {}, (Provider.DEFAULT_CHAIN,)),
        ({}, {}, {}, (Provider.DEFAULT_CHAIN,)),
        ({}, KEYS, {**PAIR, "SESSION_TOKEN": "t"}, (STATIC, Provider.ENVIRONMENT, *OF_INSTANCE)),
        ({}, BY_ROLE, PAIR, OF_INSTANCE),
    ],
)
def test_the_environment_stands_for_keys_that_a_session_hides_and_the_config_for_both(
    shown: dict[str, str],
    named: dict[str, str],
    environment: dict[str, str],
    expected: tuple[CredentialSource, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    settings = settings_for(MART, with_environment(s3a(shown), s3a(named)))
    assert isinstance(settings, S3Settings)
    assert settings.credentials == expected


WHOLE = StaticKeys(access_key="AKIAME", secret_key="hush-hush", session_token="quiet")
WRITER = AssumedRole(arn="arn:aws:iam::1:role/writer", sources=(WHOLE,), external_id="whisper")
FULL = S3Settings(bucket="mart", credentials=(WRITER, WHOLE), proxy_url="http://me:hush-hush@proxy:3128")


@pytest.mark.parametrize("settings", [FULL, S3Settings(bucket="mart"), LocalSettings()], ids=repr)
def test_settings_travel_to_executors_and_can_be_keys(settings: object) -> None:
    arrived = pickle.loads(pickle.dumps(settings))  # noqa: S301 - our own bytes
    assert arrived == settings
    assert len({settings, arrived}) == 1


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"bucket": ""}, "bucket"),
        ({"endpoint_url": "127.0.0.1:9000"}, "http://"),
        ({"credentials": ()}, "credential"),
        ({"acl": "everyone"}, "bucket-owner-full-control"),
        ({"kms_key_id": "key"}, "aws:kms"),
        ({"max_single_copy_bytes": -1}, "max_single_copy_bytes"),
        ({"max_single_copy_bytes": 5 * 2**30 + 1}, "max_single_copy_bytes"),
        ({"copy_part_bytes": 5 * 2**20 - 1}, "copy_part_bytes"),
        ({"copy_part_bytes": 5 * 2**30 + 1}, "copy_part_bytes"),
    ],
)
def test_a_wrong_value_fails_where_it_is_given(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidInputError, match=named):
        S3Settings(**({"bucket": "mart", "credentials": (Profile(),)} | wrong))


def test_a_setting_that_cannot_be_read_fails_where_it_is_needed() -> None:
    for broken, other in (("multipart.size", "committer_threads"), ("committer.threads", "part_bytes")):
        found = tuning(MART, {f"fs.s3a.{broken}": "64 apples"})
        assert getattr(found, other) is None
        with pytest.raises(InvalidInputError, match=broken.replace(".", r"\.")):
            _ = (found.part_bytes, found.committer_threads)


def test_certificates_are_checked_unless_the_config_says_no() -> None:
    assert read().verify_tls is True
    assert read(S3Overrides(verify_tls=False)).verify_tls is False


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"connect_timeout_seconds": 0}, "timeouts"),
        ({"read_timeout_seconds": -1}, "timeouts"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_connections": 0}, "max_connections"),
    ],
)
def test_requests_that_could_never_succeed_are_refused(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInputError, match=named):
        RequestSettings(**wrong)


def test_half_a_key_and_a_role_without_an_arn_are_refused() -> None:
    for half in ({"access_key": "a", "secret_key": ""}, {"access_key": "", "secret_key": "s"}):
        with pytest.raises(InvalidInputError, match="both or none"):
            StaticKeys(**half)
    with pytest.raises(InvalidInputError, match=r"fs\.s3a\.assumed\.role\.arn"):
        AssumedRole(arn="", sources=(WHOLE,))
