"""S3, or something on the way to it, refuses a request: the error names the cause and the setting that mends it.

Each row is a report of somebody who was left with the store's own words: checksum headers that a store does not know
(gaul/s3proxy#765), KMS that throttles, a proxy of the machine that Spark does not use, a bucket whose requester pays,
expired keys, another region or partition, a policy that demands or forbids a header, a clock, TLS, an endpoint that
names the bucket.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any, Final

import pytest

from table_writer.errors import InvalidInputError, StorageError
from table_writer.model.location import Location
from table_writer.storage.kinds import settings_for
from table_writer.storage.object_store import ObjectInfo
from table_writer.storage.request_settings import RequestSettings
from table_writer.storage.s3 import credentials as s3_credentials
from table_writer.storage.s3.settings import Profile, S3Settings, StaticKeys
from table_writer.storage.s3.store import S3Store
from tests.outside.s3_proxy import Asked, S3Proxy, Told, refusal, s3_proxy

NOW: Final = datetime(2024, 1, 1, tzinfo=UTC)
SOURCE: Final = ObjectInfo(key="a", size_bytes=1, etag="e", modified_at=NOW)
NOT_KNOWN: Final = "A header you provided implies functionality that is not implemented"


def put(store: S3Store) -> None:
    store.put("a", b"x")


def head(store: S3Store) -> None:
    store.head("a")


def copy(store: S3Store) -> None:
    store.copy(SOURCE, "b")


@dataclass
class Endpoint:
    """An S3 endpoint that gives the answers of a list, the last one from then on."""

    proxy: S3Proxy
    answers: list[Told] = field(default_factory=list)

    def store(self, attempts: int = 1, read_timeout_seconds: float = 60, **changes: Any) -> S3Store:
        settings = S3Settings(
            bucket="mart",
            endpoint_url=self.proxy.url,
            region="us-east-1",
            path_style=True,
            credentials=(StaticKeys(access_key="AKIAME", secret_key="hush-hush"),),
            requests=RequestSettings(max_attempts=attempts, read_timeout_seconds=read_timeout_seconds),
        )
        return S3Store(replace(settings, **changes), sleep=lambda _: None)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    made: list[Endpoint] = []

    def answer(*_: object) -> Told:
        answers = made[0].answers
        return answers.pop(0) if len(answers) > 1 else answers[0]

    with s3_proxy("http://127.0.0.1:1", answer) as proxy:
        made.append(Endpoint(proxy))
        yield made[0]


def page(status: int, *headers: tuple[str, str]) -> Told:
    return Told(status=status, headers=(("Content-Type", "text/html"), *headers), body=b"<html>no</html>")


LATE: Final = format_datetime(datetime.now(UTC) + timedelta(hours=3), usegmt=True)
ROWS: Final[dict[str, tuple[Callable[[S3Store], None], Told, str]]] = {
    "checksums by name": (
        put,
        refusal(400, "InvalidRequest", "The header x-amz-checksum-crc32 is not supported"),
        r"knows no checksum headers.*S3Overrides\(checksums=False\)",
    ),
    "checksums by trailer": (
        put,
        refusal(501, "NotImplemented", f"{NOT_KNOWN}: x-amz-sdk-checksum-algorithm"),
        r"knows no checksum headers.*checksums=False",
    ),
    "a header without a name": (put, refusal(501, "NotImplemented", NOT_KNOWN), r"not know a header.*checksums=False"),
    "object lock": (
        put,
        refusal(400, "InvalidRequest", "Content-MD5 OR x-amz-checksum- HTTP header is required for Object Lock"),
        r"wants a checksum.*checksums=True",
    ),
    "kms throttles": (put, refusal(400, "KMS.ThrottlingException", "Rate exceeded"), r"slow down.*bucket key"),
    "kms key": (put, refusal(400, "KMS.DisabledException", "is disabled"), r"KMS key.*fs\.s3a\.encryption\.key"),
    "too many": (put, refusal(429, "TooManyRequests"), r"slow down"),
    "slow down": (put, refusal(503, "SlowDown"), r"slow down"),
    "requester pays": (head, refusal(403, "AccessDenied"), r"access denied.*fs\.s3a\.requester\.pays\.enabled"),
    "a header demanded": (
        put,
        refusal(403, "AccessDenied", "Access Denied"),
        r"fs\.s3a\.encryption\.algorithm.*fs\.s3a\.acl\.default=BucketOwnerFullControl",
    ),
    "an explicit deny": (
        put,
        refusal(403, "AccessDenied", "... with an explicit deny in a resource-based policy"),
        r"a policy forbids the request.*fs\.s3a\.encryption\.algorithm",
    ),
    "copies forbidden": (copy, refusal(403, "AccessDenied"), r"enforces If-None-Match forbids all copies"),
    "acl forbidden": (
        put,
        refusal(400, "AccessControlListNotSupported", "The bucket does not allow ACLs"),
        r"takes no ACLs.*fs\.s3a\.acl\.default",
    ),
    "expired": (put, refusal(400, "ExpiredToken"), r"expired.*fs\.s3a\.session\.token"),
    "bad keys": (put, refusal(403, "InvalidAccessKeyId"), r"not accept the keys.*cn-.*us-gov-"),
    "region in words": (
        put,
        refusal(400, "AuthorizationHeaderMalformed", "region 'us-east-1' is wrong; expecting 'eu-west-1'"),
        r"another region.*fs\.s3a\.endpoint\.region=eu-west-1",
    ),
    "region of a redirect": (
        put,
        replace(refusal(301, "PermanentRedirect"), headers=(("x-amz-bucket-region", "cn-north-1"),)),
        r"another region.*region=cn-north-1",
    ),
    "region of a head": (head, Told(status=400, headers=(("x-amz-bucket-region", "eu-west-1"),)), r"region=eu-west-1"),
    "clock": (put, refusal(403, "RequestTimeTooSkewed"), r"clock.*NTP"),
    "clock of a head": (head, Told(status=403, headers=(("Date", LATE),)), r"clock.*NTP"),
    "no bucket": (put, refusal(404, "NoSuchBucket"), r"bucket does not exist.*fs\.s3a\.endpoint"),
    "tls expected": (
        put,
        Told(status=400, body=b"Client sent an HTTP request to an HTTPS server."),
        r"takes TLS alone.*https://",
    ),
    "a console": (
        put,
        refusal(400, "InvalidArgument", "S3 API Requests must be made to API port."),
        r"port of the S3 API",
    ),
    "a gateway": (put, page(502), r"proxy or gateway has answered.*fs\.s3a\.proxy\.host"),
    "a login page": (put, page(403, ("Via", "1.1 squid")), r"proxy or gateway has answered"),
}


@pytest.mark.parametrize("row", ROWS)
def test_each_refusal_names_its_cause_and_the_setting(endpoint: Endpoint, row: str) -> None:
    call, told, expected = ROWS[row]
    endpoint.answers = [told]
    with pytest.raises(StorageError, match=f"(?s){expected}") as caught:
        call(endpoint.store())
    assert "s3://mart/" in caught.value.message
    assert "hush" not in caught.value.message


def test_a_proxy_of_the_environment_is_named_by_its_variable(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("HTTP_PROXY", endpoint.proxy.url)
    endpoint.answers = [page(503, ("X-Squid-Error", "ERR_CONNECT_FAIL"))]
    with pytest.raises(StorageError, match=r"not S3.*HTTP_PROXY of this process's environment.*NO_PROXY"):
        put(endpoint.store(endpoint_url="http://vpce-0123.example"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with pytest.raises(StorageError, match=r"proxy can't be reached.*HTTP_PROXY of this process.*NO_PROXY"):
        put(endpoint.store(endpoint_url="http://vpce-0123.example"))


def test_tls_at_a_port_that_speaks_http_is_told_so(endpoint: Endpoint) -> None:
    endpoint.answers = [Told()]
    with pytest.raises(StorageError, match=r"plain HTTP.*fs\.s3a\.connection\.ssl\.enabled=false"):
        put(endpoint.store(endpoint_url=endpoint.proxy.url.replace("http://", "https://")))


@pytest.mark.parametrize(
    "told",
    [
        refusal(400, "KMS.ThrottlingException"),
        refusal(429, "TooManyRequests"),
        refusal(503, "SlowDown"),
        refusal(409, "OperationAborted"),
    ],
    ids=lambda told: str(told.status),
)
def test_what_passes_is_tried_again(endpoint: Endpoint, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("table_writer.storage.s3.client.LONGEST_PAUSE_SECONDS", 0.0)
    endpoint.answers = [told, Told()]
    put(endpoint.store(attempts=3))
    assert len(endpoint.proxy.asked) == 2


def test_requests_say_that_the_requester_pays_where_the_setting_does(endpoint: Endpoint) -> None:
    endpoint.answers = [Told()]
    put(endpoint.store(requester_pays=True))
    (asked,) = endpoint.proxy.asked
    assert {name.lower(): text for name, text in asked.headers.items()}["x-amz-request-payer"] == "requester"


# ---- credentials that others rotate


def write_profile(path: Path, access_key: str) -> None:
    path.write_text(f"[default]\naws_access_key_id={access_key}\naws_secret_access_key=s\naws_session_token=t\n")


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidAccessKeyId", "InvalidToken"])
def test_a_long_lived_store_takes_keys_that_were_rotated_in_a_file(
    endpoint: Endpoint, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    write_profile(path, "AKIAOLD")
    endpoint.answers = [Told()]
    store = endpoint.store(credentials=(Profile(),))
    put(store)
    write_profile(path, "AKIANEW")
    endpoint.answers = [refusal(403, code), Told()]
    put(store)
    assert [key_of(asked) for asked in endpoint.proxy.asked] == ["AKIAOLD", "AKIAOLD", "AKIANEW"]
    endpoint.answers = [Told(status=403), Told()]  # of a HEAD, which has no body: looked at again once in a while
    monkeypatch.setattr(s3_credentials, "LOOK_AGAIN_SECONDS", 0.0)
    write_profile(path, "AKIATHIRD")
    endpoint.answers = [Told(status=403), Told(headers=(("ETag", '"e"'), ("Last-Modified", LATE)))]
    head(store)
    assert key_of(endpoint.proxy.asked[-1]) == "AKIATHIRD"


def key_of(asked: Asked) -> str:
    return asked.headers["Authorization"].partition("Credential=")[2].partition("/")[0]


def test_keys_that_nobody_has_rotated_are_not_tried_again(endpoint: Endpoint) -> None:
    endpoint.answers = [refusal(400, "ExpiredToken")]
    with pytest.raises(StorageError, match="expired"):
        put(endpoint.store(attempts=5))
    assert len(endpoint.proxy.asked) == 1


# ---- what is wrong before the first request


@pytest.mark.parametrize("bucket", ["mart--use1-az4--x-s3", "ap--usw2-az1--xa-s3"])
def test_a_directory_bucket_is_refused_by_name(bucket: str) -> None:
    with pytest.raises(InvalidInputError, match=r"directory bucket \(S3 Express"):
        settings_for(Location.parse(f"s3a://{bucket}/orders/"), {})


@pytest.mark.parametrize(
    "endpoint_url",
    [
        "https://0123.r2.cloudflarestorage.com/mart",
        "https://mart.s3.eu-west-1.amazonaws.com",
        "http://127.0.0.1:9000/mart/",
        "https://host:port",
        "https://host?bucket=mart",
        "https://",
    ],
)
def test_an_endpoint_that_is_more_or_less_than_an_address_is_refused(endpoint_url: str) -> None:
    with pytest.raises(InvalidInputError, match=r"endpoint_url.*"):
        settings_for(Location.parse("s3a://mart/orders/"), {"fs.s3a.endpoint": endpoint_url})


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("s3.eu-west-1.amazonaws.com", "eu-west-1"),
        ("s3-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("s3.dualstack.ap-southeast-2.amazonaws.com", "ap-southeast-2"),
        ("s3.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("bucket.vpce-0123-abcd.s3.us-east-2.vpce.amazonaws.com", "us-east-2"),
        ("0123.r2.cloudflarestorage.com", ""),
        ("s3.us-west-1.example.com", ""),
    ],
)
def test_the_region_is_in_the_host_of_every_partition_of_aws(host: str, region: str) -> None:
    settings = settings_for(Location.parse("s3a://mart/orders/"), {"fs.s3a.endpoint": host})
    assert isinstance(settings, S3Settings)
    assert settings.region == region


@pytest.mark.slow
def test_a_silent_network_is_told_apart_from_a_refusal(endpoint: Endpoint) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(StorageError, match="S3 has not answered"):
            put(endpoint.store(endpoint_url=url, read_timeout_seconds=0.2))
