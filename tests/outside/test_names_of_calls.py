"""A person uses one name where another is meant: of a call, a mode, an option, a command.

Seen by a user: ``mode="overwrite"``, as of Spark's own writer, was answered by *did you mean overwrite_table?*, which
replaces most; ``table-writer compact`` and ``writer.vacuum`` did not say where they are.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest

from table_writer import InvalidInputError, Maintenance, TableWriter
from table_writer.checked import HARMFUL
from table_writer.cli.arguments import UsageError
from table_writer.cli.commands import BY_NAME, COMMANDS, parse
from table_writer.config import write_mode
from table_writer.maintenance import OF_SPARK
from table_writer.model.write_mode import WriteMode

MILDEST_FIRST = ["create_partitions", "append", "overwrite_partitions", "overwrite_table"]
ON_SEVERAL = {
    "recover_many": "recover",
    "vacuum_many": "vacuum",
    "erase_many": "erase",
    "erasure_many": "erasure",
    "staged_write": "staged",
    "examine_store": "doctor",
}
"""Calls whose command is another one's, with more or fewer arguments."""


def public(owner: type) -> set[str]:
    return {name for name in vars(owner) if not name.startswith("_")}


def without_session(owner: Callable[..., Any]) -> Any:
    """Return an object that was made by no constructor: whether a name is known depends on its class alone."""
    return object.__new__(owner)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "mode", ["overwrite", "append_partitions", "error", "dynamic", "overwrite_tables", "merge", ""]
)
def test_a_mode_that_is_none_is_answered_by_all_that_are_with_what_each_replaces(mode: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        write_mode(mode)
    assert re.findall(r"(\w+) \(replaces", str(raised.value)) == MILDEST_FIRST
    assert "did you mean" not in str(raised.value)


@pytest.mark.parametrize("name", ["overwrite", "insert_into", "write", "overwrite_partition", "saveAsTable"])
def test_a_call_that_the_writer_has_not_is_answered_by_all_write_modes(name: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(without_session(TableWriter), name)
    assert re.findall(r"(\w+) \(replaces", str(raised.value)) == MILDEST_FIRST
    assert raised.value.obj is None  # else Python itself suggests overwrite_table


@pytest.mark.parametrize("name", sorted(public(Maintenance) - public(TableWriter)))
def test_the_writer_says_where_a_call_without_spark_is(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"writer\.maintenance\.{name}\("):
        getattr(without_session(TableWriter), name)


def test_maintenance_and_the_command_line_say_where_a_call_of_spark_is() -> None:
    assert set(OF_SPARK) == public(TableWriter) - public(Maintenance) - {"maintenance"}
    for name in OF_SPARK:
        with pytest.raises(AttributeError, match=rf"TableWriter\(spark\)\.{name}\("):
            getattr(without_session(Maintenance), name)
        for spelled in (name, name.replace("_", "-")):
            with pytest.raises(UsageError, match=rf"TableWriter\(spark\)\.{name}\("):
                parse([spelled, "mart.orders"])


def test_a_writer_can_be_copied_though_it_answers_for_names_that_it_has_not() -> None:
    assert type(copy.copy(without_session(TableWriter))) is TableWriter
    assert not hasattr(without_session(Maintenance), "_repr_html_")


def test_every_call_of_maintenance_is_a_command_of_the_same_name() -> None:
    assert {ON_SEVERAL.get(name, name) for name in public(Maintenance) - {"close"}} == set(BY_NAME)


def test_what_asks_before_it_changes_something_is_suggested_for_a_slip_of_the_pen_alone() -> None:
    asking = {command.name for command in COMMANDS if command.asks} - {"uploads", "mirror"}  # for an option
    assert asking <= HARMFUL
    for words in (
        ["remove", "a.b"],
        ["revert", "a.b"],
        ["drop", "a.b"],
        ["abort", "a.b"],
        ["vacuum", "a.b", "--before"],
    ):
        with pytest.raises(UsageError) as raised:
            parse(words)
        meant = re.findall(r"did you mean (.+?)\?", raised.value.message)
        assert not {name.lstrip("-") for name in meant} & HARMFUL


def test_modes_are_listed_from_the_mildest_on() -> None:
    assert [mode.value for mode in WriteMode] == MILDEST_FIRST
