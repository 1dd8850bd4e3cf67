"""The page on the command line says what the program does."""

from __future__ import annotations

import json
import re
import shlex
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Iterator
from pathlib import Path

import pytest

from table_writer.cli.arguments import MEANINGS
from table_writer.cli.commands import build_parser, parse
from table_writer.cli.configuration import DIRECTORY_VARIABLES, METASTORE_VARIABLE, SITE_FILES
from tests.cli.shell import TABLE, Shell
from tests.publish.world import World

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "command-line.md").read_text()
LINES = re.findall(r"^\$ table-writer (.*)$", PAGE, flags=re.MULTILINE)
ROWS = {row.split()[0]: row for row in re.findall(r"^\| `(.+?)` \| .*$", PAGE, flags=re.MULTILINE)}


def parsers() -> Iterator[tuple[str, ArgumentParser]]:
    actions = build_parser()._actions
    chosen = next(action.choices for action in actions if isinstance(action.choices, dict))
    yield from chosen.items()


@pytest.mark.parametrize("line", LINES)
def test_every_shown_command_is_one(line: str) -> None:
    assert parse(shlex.split(line)).table == TABLE


@pytest.mark.parametrize(("name", "parser"), list(parsers()), ids=lambda one: one if isinstance(one, str) else "")
def test_every_command_and_option_is_on_the_page(name: str, parser: ArgumentParser) -> None:
    assert name in ROWS
    shown = (action for action in parser._actions if action.help != SUPPRESS)
    options = {option for action in shown for option in action.option_strings if option.startswith("--")}
    assert {option for option in options - {"--help"} if option not in PAGE} == set()
    shared = set.intersection(*({o for a in one._actions for o in a.option_strings} for _, one in parsers()))
    assert {option for option in options - shared if option not in ROWS[name]} == set()
    shown = set(re.findall(r"--[a-z0-9-]+", ROWS[name]))
    assert shown <= options


def test_exit_codes_are_those_of_the_program() -> None:
    shown = re.findall(r"^\| (\d+) \| (.+) \|$", PAGE, flags=re.MULTILINE)
    assert shown == [(str(code.value), meaning) for code, meaning in MEANINGS.items()]


def test_files_and_variables_are_named() -> None:
    assert all(f"`{name}`" in PAGE for name in (METASTORE_VARIABLE, *DIRECTORY_VARIABLES, *SITE_FILES))


def test_json_has_the_names_that_are_shown(world: World, shell: Shell) -> None:
    world.write({"d1": frozenset({1})})
    error, history = (json.loads(body) for body in re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL))
    assert shell.run("show", TABLE, "99", "--json").json == error
    found = shell.run("history", TABLE, "--limit", "1", "--json").json
    assert list(found) == list(history)
    assert list(found["versions"][0]) == list(history["versions"][0])
