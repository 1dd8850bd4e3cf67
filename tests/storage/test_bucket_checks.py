"""What a bucket's lifecycle rules and versioning are seen as, by every form in which S3 writes them."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pytest

from table_writer.errors import StorageError
from table_writer.model.location import Location
from table_writer.storage.bucket_rules import LifecycleRule
from table_writer.storage.kinds import settings_for
from table_writer.storage.s3.settings import S3Overrides, S3Settings
from table_writer.storage.s3.store import S3Store
from table_writer.testing.servers import S3Server

if TYPE_CHECKING:
    from tests.storage.conftest import FakeS3

ABORT = {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}}
EXPIRE = {"Expiration": {"Days": 30}}
TABLE = "wh/orders/"


def open_bucket(server: S3Server) -> S3Store:
    """Make a bucket, since rules are a bucket's."""
    bucket = f"checks-{uuid.uuid4().hex[:12]}"
    server.client().create_bucket(Bucket=bucket)
    settings = settings_for(Location.parse(f"s3a://{bucket}/"), server.hadoop_settings(), S3Overrides(max_attempts=2))
    assert isinstance(settings, S3Settings)
    return S3Store(settings)


@pytest.fixture
def store(moto: S3Server) -> S3Store:
    return open_bucket(moto)


def set_rules(store: S3Store, *rules: dict[str, Any]) -> None:
    numbered = [{"ID": f"rule {number}", "Status": "Enabled", **rule} for number, rule in enumerate(rules)]
    store.client.put_bucket_lifecycle_configuration(Bucket=store.bucket, LifecycleConfiguration={"Rules": numbered})


def rules_of(store: S3Store, prefix: str = TABLE) -> tuple[LifecycleRule, ...]:
    rules = store.rules().lifecycle(prefix)
    assert rules is not None
    return rules


@pytest.mark.parametrize(
    ("where", "prefix", "is_limited"),
    [
        ({"Prefix": "wh/"}, "wh/", False),
        ({"Prefix": ""}, "", False),
        ({"Filter": {}}, "", False),
        ({"Filter": {"Prefix": ""}}, "", False),
        ({"Filter": {"Prefix": "wh/ord"}}, "wh/ord", False),
        ({"Filter": {"Prefix": TABLE}}, TABLE, False),
        ({"Filter": {"Prefix": f"{TABLE}dt=1/"}}, f"{TABLE}dt=1/", False),
        ({"Filter": {"And": {"Prefix": "wh/", "Tags": [{"Key": "a", "Value": "b"}]}}}, "wh/", True),
        ({"Filter": {"Tag": {"Key": "a", "Value": "b"}}}, "", True),
    ],
    ids=str,
)
def test_a_rule_applies_by_whatever_form_of_filter(
    store: S3Store, where: dict[str, Any], prefix: str, is_limited: bool
) -> None:
    set_rules(store, {**where, **EXPIRE})
    expected = LifecycleRule(rule_id="rule 0", prefix=prefix, days=None, expiration_days=30, is_limited=is_limited)
    assert rules_of(store) == (expected,)


@pytest.mark.parametrize(
    ("where", "prefix"),
    [
        ("<ObjectSizeGreaterThan>500</ObjectSizeGreaterThan>", ""),
        ("<ObjectSizeLessThan>5000</ObjectSizeLessThan>", ""),
        ("<And><Prefix>wh/</Prefix><ObjectSizeGreaterThan>500</ObjectSizeGreaterThan></And>", "wh/"),
    ],
)
def test_a_rule_for_certain_sizes_is_limited(fake_s3: FakeS3, fake_store: S3Store, where: str, prefix: str) -> None:
    # moto forgets the sizes
    rule = f"<ID>r</ID><Status>Enabled</Status><Filter>{where}</Filter><Expiration><Days>1</Days></Expiration>"
    fake_s3.answer(200, f"<LifecycleConfiguration><Rule>{rule}</Rule></LifecycleConfiguration>")
    expected = LifecycleRule(rule_id="r", prefix=prefix, days=None, expiration_days=1, is_limited=True)
    assert rules_of(fake_store) == (expected,)


@pytest.mark.parametrize(
    "rule",
    [
        {"Prefix": "wh/other/", **ABORT},
        {"Filter": {"Prefix": "wh/orders2/"}, **ABORT},
        {"Status": "Disabled", **ABORT},
        {"Transitions": [{"Days": 30, "StorageClass": "GLACIER"}]},
        {"NoncurrentVersionExpiration": {"NoncurrentDays": 3}},
        {"Expiration": {"ExpiredObjectDeleteMarker": True}},
    ],
    ids=str,
)
def test_rules_that_take_nothing_here_do_not_count(store: S3Store, rule: dict[str, Any]) -> None:
    assert rules_of(store) == ()
    is_elsewhere = "Prefix" in str(rule)
    set_rules(store, rule if is_elsewhere else {"Filter": {"Prefix": ""}, **rule})
    assert rules_of(store) == ()
    assert len(rules_of(store, "wh/")) == is_elsewhere


def test_aborting_and_expiring_are_told_apart(store: S3Store) -> None:
    everywhere = {"Filter": {"Prefix": ""}}
    set_rules(
        store,
        {**everywhere, **ABORT},
        {**everywhere, **EXPIRE},
        {**everywhere, **ABORT, **EXPIRE},
        {**everywhere, "Expiration": {"Date": datetime(2030, 1, 1, tzinfo=UTC)}},
    )
    found = [(rule.days, rule.expiration_days, rule.expiration_date) for rule in rules_of(store)]
    assert found == [(7, None, None), (None, 30, None), (7, 30, None), (None, None, date(2030, 1, 1))]


@pytest.mark.parametrize("status", ["Enabled", "Suspended"])
def test_versioning_is_reported_as_the_bucket_has_it(store: S3Store, status: Any) -> None:
    assert store.rules().versioning() == "Unversioned"
    store.client.put_bucket_versioning(Bucket=store.bucket, VersioningConfiguration={"Status": status})
    assert store.rules().versioning() == status


@pytest.mark.parametrize(
    ("status", "code"),
    [(403, "AccessDenied"), (501, "NotImplemented"), (405, "MethodNotAllowed"), (400, "NotImplemented")],
)
def test_what_may_not_be_read_is_none(fake_s3: FakeS3, fake_store: S3Store, status: int, code: str) -> None:
    for look in (lambda: fake_store.rules().lifecycle(TABLE), lambda: fake_store.rules().versioning()):
        fake_s3.error(status, code)
        assert look() is None


@pytest.mark.parametrize(("status", "code"), [(404, "NoSuchBucket"), (403, "InvalidAccessKeyId"), (503, "SlowDown")])
def test_a_failing_store_is_not_one_without_rules(fake_s3: FakeS3, fake_store: S3Store, status: int, code: str) -> None:
    for look in (lambda: fake_store.rules().lifecycle(TABLE), lambda: fake_store.rules().versioning()):
        fake_s3.error(status, code)
        with pytest.raises(StorageError, match=code):
            look()


def test_a_store_that_knows_neither_is_no_error(versitygw: S3Server) -> None:
    store = open_bucket(versitygw)
    assert store.rules().lifecycle(TABLE) in (None, ())
    assert store.rules().versioning() in (None, "Unversioned")
