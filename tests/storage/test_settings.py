"""Settings are right when made, travel, and show no secret."""

from __future__ import annotations

import pickle

import pytest

from table_writer.errors import InvalidInputError
from table_writer.storage.settings import AssumedRole, LocalSettings, Profile, S3Settings, StaticKeys

KEYS = StaticKeys(access_key="AKIAME", secret_key="hush-hush", session_token="quiet")
ROLE = AssumedRole(arn="arn:aws:iam::1:role/writer", sources=(KEYS,), external_id="whisper")
FULL = S3Settings(bucket="mart", credentials=(ROLE, KEYS), proxy_url="http://me:hush-hush@proxy:3128")


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
        ({"connect_timeout_seconds": 0}, "timeouts"),
        ({"read_timeout_seconds": -1}, "timeouts"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_connections": 0}, "max_connections"),
        ({"max_single_copy_bytes": -1}, "max_single_copy_bytes"),
        ({"max_single_copy_bytes": 5 * 2**30 + 1}, "max_single_copy_bytes"),
        ({"copy_part_bytes": 5 * 2**20 - 1}, "copy_part_bytes"),
        ({"copy_part_bytes": 5 * 2**30 + 1}, "copy_part_bytes"),
    ],
)
def test_a_wrong_value_fails_where_it_is_given(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidInputError, match=named):
        S3Settings(**({"bucket": "mart", "credentials": (Profile(),)} | wrong))


def test_half_a_key_and_a_role_without_an_arn_are_refused() -> None:
    for half in ({"access_key": "a", "secret_key": ""}, {"access_key": "", "secret_key": "s"}):
        with pytest.raises(InvalidInputError, match="both or none"):
            StaticKeys(**half)
    with pytest.raises(InvalidInputError, match=r"fs\.s3a\.assumed\.role\.arn"):
        AssumedRole(arn="", sources=(KEYS,))
