from __future__ import annotations

import pytest

from table_writer import InvalidInputError, Maintenance, TableWriterConfig

PROVIDER = "fs.s3a.aws.credentials.provider"


@pytest.mark.parametrize(
    ("named", "sdk"),
    [
        ({}, True),
        ({"fs.s3a.endpoint": "http://127.0.0.1:1"}, True),
        ({"fs.s3a.access.key": "AKIA"}, False),
        ({"fs.s3a.bucket.lake.access.key": "AKIA"}, False),
        ({PROVIDER: "Other"}, False),
        ({"fs.s3a.bucket.lake.aws.credentials.provider": "Other"}, False),
    ],
)
def test_credentials_are_what_the_aws_sdk_finds_where_no_setting_names_any(named: dict[str, str], sdk: bool) -> None:
    keeper = Maintenance("thrift://metastore:9083", config=TableWriterConfig(hadoop=named))
    found = keeper._services.session.hadoop.get(PROVIDER, "")
    assert found.endswith("DefaultCredentialsProvider") is sdk


def test_a_metastore_must_be_named() -> None:
    with pytest.raises(InvalidInputError, match="no metastore is configured"):
        Maintenance()


def test_several_addresses_are_separated_by_commas() -> None:
    keeper = Maintenance("thrift://one:9083,thrift://two:9083")
    assert keeper._services.metastore.uri in {"thrift://one:9083", "thrift://two:9083"}
