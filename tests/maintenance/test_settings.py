from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta

import pytest

from table_writer import InvalidInputError, Maintenance, NewTable, TableWriterConfig
from table_writer.checked import LONGEST_AGE
from table_writer.model.write_mode import WriteMode
from tests.publish.world import TABLE, World

T = str(TABLE)

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


HUNDRED_YEARS: dict[str, tuple[str, bool]] = {
    "876600": ("retention", True),
    "876601": ("retention", False),
    "100000000": ("history_retention", False),
    "1e300": ("retention", False),
    "inf": ("retention", False),
    "nan": ("history_retention", False),
    "-1": ("history_retention", False),
    "3 days": ("retention", False),
}


@pytest.mark.parametrize("hours", HUNDRED_YEARS)
def test_hours_that_no_time_lies_ahead_are_refused_before_anything_is_uploaded(hours: str) -> None:
    name, is_right = HUNDRED_YEARS[hours]
    world = World()
    world.write({"d1": frozenset({1})})
    world.metastore.create_table(replace(world.table, parameters={f"table_writer.{name}": hours}))
    attempts = (world.services().require_properties, lambda: world.keeper.vacuum(T))
    for attempt in attempts:
        with nullcontext() if is_right else pytest.raises(InvalidInputError, match=f"{name}='{hours}'.*100 years"):
            attempt()
    if is_right:
        assert world.write({"d1": frozenset({2})}).entry.replaced[0].delete_after.year > 2100
    assert len(world.keeper.history(T).versions) >= 1, "a table whose properties are wrong can be looked at"
    assert world.keeper.recover(T).settled == {}


@pytest.mark.parametrize("retention", [timedelta.max, timedelta(days=36_526), timedelta(-1), timedelta.min])
def test_a_retention_of_more_than_a_hundred_years_is_no_retention(retention: timedelta) -> None:
    with pytest.raises(InvalidInputError, match="100 years"):
        TableWriterConfig(retention=retention)
    for call in (
        lambda: World().keeper.vacuum(T, older_than=retention, force=True),
        lambda: World().keeper.uploads(T, older_than=retention),
    ):
        with pytest.raises(InvalidInputError, match="100 years"):
            call()


def test_the_longest_retention_is_written_and_vacuumed() -> None:
    world = World(config=TableWriterConfig(retention=LONGEST_AGE))
    world.write({"d1": frozenset({1})})
    world.write({"d1": frozenset({2})})
    assert world.keeper.vacuum(T).deleted == ()
    assert world.keeper.vacuum(T, older_than=LONGEST_AGE).deleted == ()
    assert world.keeper.uploads(T, older_than=LONGEST_AGE).uploads == ()


@pytest.mark.parametrize("name", ["table_writer.retentions", "table_writer.retention_hours", "Table_Writer.Retention"])
def test_a_property_that_is_spelled_wrong_is_refused_by_what_would_obey_it(name: str) -> None:
    world = World()
    world.write({"d1": frozenset({1})})
    world.metastore.create_table(replace(world.table, parameters={name: "720"}))
    for call in (world.services().require_properties, lambda: world.keeper.vacuum(T)):
        with pytest.raises(
            InvalidInputError, match=rf"no table property {name}; did you mean table_writer\.retention\?"
        ):
            call()
    with pytest.raises(InvalidInputError, match="did you mean"):
        NewTable(properties={name: "720"})
    assert world.rows() == {"d1": frozenset({1})}


def test_every_property_that_this_library_sets_is_one_that_it_knows() -> None:
    world = World()
    world.become_unpartitioned()
    world.write({"": frozenset({1})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    assert any(name.startswith("table_writer.") for name in world.table.parameters)
    world.services().require_properties()
