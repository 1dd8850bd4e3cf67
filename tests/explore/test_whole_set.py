"""Nobody who can work on a table is left out: a new call, command or kind of entry needs an actor, or a reason."""

from __future__ import annotations

from itertools import chain

import pytest

from table_writer import Maintenance, TableWriter
from table_writer.cli.commands import COMMANDS

from .actors import ACTORS, APART, EARLIER, LATER
from .scenarios import PAIRS, TRIPLES
from .whole_set import (
    CHANGE_NOTHING,
    OF_MAINTENANCE,
    OF_SPARK,
    THE_SAME,
    kinds_of_entries,
    made_by_actors,
    public_calls,
)


@pytest.fixture(scope="module")
def made() -> tuple[set[str], set[str]]:
    return made_by_actors()


def test_every_call_of_a_writer_has_an_actor_or_changes_nothing() -> None:
    assert public_calls(TableWriter) == OF_SPARK.keys() | OF_MAINTENANCE | CHANGE_NOTHING.keys()
    assert {*chain.from_iterable(OF_SPARK.values())} <= {actor.operation for actor in ACTORS.values()}


def test_every_call_of_maintenance_is_made_by_an_actor(made: tuple[set[str], set[str]]) -> None:
    assert public_calls(Maintenance) - made[1] == THE_SAME.keys()


def test_every_command_is_a_call_of_maintenance() -> None:
    assert {command.call.name for command in COMMANDS} <= public_calls(Maintenance)


def test_every_kind_of_entry_is_made_by_an_actor(made: tuple[set[str], set[str]]) -> None:
    assert kinds_of_entries() - made[0] == set()


def test_every_actor_meets_others() -> None:
    met = {*chain.from_iterable(chain.from_iterable((*PAIRS.values(), *TRIPLES.values())))}
    assert ACTORS.keys() - met - EARLIER.keys() - LATER.keys() - APART.keys() == set()
